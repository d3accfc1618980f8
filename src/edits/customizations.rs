//! Edits of customizations: who holds one stays.

use crate::model::customization::{Customization, Holder};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{delete_document, finish_deletion, mark_for_deletion, put_document};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for Customization {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let key = new.metadata.key();
        let verdict = put_document(&mut state.customizations, new, merge, tick, |old, new| {
            new.status.clone_from(&old.status);
            new.holder.clone_from(&old.holder);
            old.spec != new.spec
        })?;
        if !is_held(state, &key) {
            finish_deletion(&mut state.customizations, &key);
        }
        Ok(verdict)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        if is_held(state, key) {
            mark_for_deletion(&mut state.customizations, key, tick.now)
        } else {
            delete_document(&mut state.customizations, key, tick.now)
        }
    }

    fn import(state: &mut State, mut new: Self, _: &Tick) -> Result<(), Refusal> {
        let status = &new.status;
        let namespace = new.metadata.namespace.as_str();
        new.holder = status.cluster_deployment_ref.as_ref().map(|cluster| Holder {
            cluster: cluster.name.clone(),
            pool: status.cluster_pool_ref.as_ref().map(|pool| Key::new(namespace, &*pool.name)),
            preserved: status.preserved,
        });
        state.customizations.insert(new);
        Ok(())
    }
}

fn is_held(state: &State, key: &Key) -> bool {
    state.customizations.by_key(key).is_some_and(|customization| customization.holder.is_some())
}
