//! Edits of InfraEnvs and of the networks of their hosts: tokens and what came of an image stay.

use crate::model::cluster::Cluster;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{delete_document, finish_deletion, put_document};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for InfraEnv {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_infra_env(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document(&mut state.infra_envs, key, tick.now)
    }

    fn import(state: &mut State, mut new: Self, _: &Tick) -> Result<(), Refusal> {
        new.tokens = std::mem::take(&mut new.status.tokens);
        state.infra_envs.insert(new);
        Ok(())
    }
}

impl Edited for NMStateConfig {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let key = new.metadata.key();
        let table = &mut state.nmstate_configs;
        let verdict = put_document(table, new, merge, tick, |old, new| old.spec != new.spec)?;
        finish_deletion(table, &key);
        Ok(verdict)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document(&mut state.nmstate_configs, key, tick.now)
    }

    fn import(state: &mut State, new: Self, _: &Tick) -> Result<(), Refusal> {
        state.nmstate_configs.insert(new);
        Ok(())
    }
}

fn put_infra_env(
    state: &mut State,
    new: InfraEnv,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let name = new.metadata.name.clone();
    let refuse = |why: String| Refusal::conflict(format!("InfraEnv `{name}`: {why}"));
    match state.infra_envs.by_key(&new.key()) {
        None => rules::infra_envs::check_new(&new).map_err(refuse)?,
        Some(old) => {
            let cluster = new.cluster().and_then(|key| state.cluster(&key.name));
            let cluster = cluster.and_then(|at| state.clusters.get(at));
            let installed = cluster.is_some_and(Cluster::installed);
            rules::infra_envs::check_change(old, &new, installed).map_err(refuse)?;
        }
    }
    put_document(&mut state.infra_envs, new, merge, tick, |old, new| {
        new.status.clone_from(&old.status);
        new.tokens.clone_from(&old.tokens);
        old.spec != new.spec
    })
}
