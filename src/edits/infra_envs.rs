//! Edits of InfraEnvs and of the networks of their hosts: tokens and what came of an image stay.

use crate::model::cluster::Cluster;
use crate::model::infra_env::InfraEnv;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{EditedDocument, put_and_finish_deletion};
use super::verdict::Verdict;

impl EditedDocument for InfraEnv {
    fn carry_over(old: &Self, new: &mut Self, _: bool, _: &Tick) -> bool {
        new.status.clone_from(&old.status);
        new.tokens.clone_from(&old.tokens);
        old.spec != new.spec
    }

    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let checked = match state.infra_envs.by_key(&new.key()) {
            None => rules::infra_envs::check_new(&new),
            Some(old) => {
                let cluster_id = new.cluster().and_then(|key| state.cluster(&key.name));
                let cluster = cluster_id.and_then(|id| state.clusters.get(id));
                let is_installed = cluster.is_some_and(Cluster::installed);
                rules::infra_envs::check_change(old, &new, is_installed)
            }
        };
        checked
            .map_err(|why| Refusal::conflict(format!("InfraEnv `{}`: {why}", new.metadata.name)))?;
        put_and_finish_deletion(state, new, merge, tick)
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        self.tokens = std::mem::take(&mut self.status.tokens);
        Ok(())
    }
}

impl EditedDocument for NMStateConfig {
    fn carry_over(old: &Self, new: &mut Self, _: bool, _: &Tick) -> bool {
        old.spec != new.spec
    }
}
