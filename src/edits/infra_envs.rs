//! Edits InfraEnvs and the network configurations of their hosts. The tokens of hosts and the state
//! of the image stay. Never makes an image.

use crate::model::cluster::Cluster;
use crate::model::infra_env::InfraEnv;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{EditedDocument, put_and_finish_deletion};
use super::outcome::PutOutcome;
use super::put_mode::PutMode;

impl EditedDocument for InfraEnv {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, _: &Tick) -> bool {
        desired.status.clone_from(&existing.status);
        desired.tokens.clone_from(&existing.tokens);
        existing.spec != desired.spec
    }

    fn put(
        state: &mut State,
        infra_env: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        let checked = match state.infra_envs.by_key(&infra_env.key()) {
            None => rules::infra_envs::check_new(&infra_env),
            Some(existing) => {
                let cluster_id =
                    infra_env.cluster_key().and_then(|key| state.find_cluster(&key.name));
                let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
                let is_installed = cluster.is_some_and(Cluster::is_installed);
                rules::infra_envs::check_change(existing, &infra_env, is_installed)
            }
        };
        if let Err(why) = checked {
            let name = &infra_env.metadata.name;
            return Err(Refusal::conflict(format!("InfraEnv `{name}`: {why}")));
        }
        put_and_finish_deletion(state, infra_env, mode, tick)
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        self.tokens = std::mem::take(&mut self.status.tokens);
        Ok(())
    }
}

impl EditedDocument for NMStateConfig {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, _: &Tick) -> bool {
        existing.spec != desired.spec
    }
}
