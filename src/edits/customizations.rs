//! Edits customizations. Never changes the holder of one, and never removes one that is held: a
//! pass does, when it is given back.

use crate::model::customization::Customization;
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{
    EditedDocument, delete_document, finish_deletion, mark_for_deletion, put_document,
};
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

impl EditedDocument for Customization {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, _: &Tick) -> bool {
        desired.status.clone_from(&existing.status);
        desired.holder.clone_from(&existing.holder);
        existing.spec != desired.spec
    }

    fn put(
        state: &mut State,
        customization: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        let key = customization.key();
        let outcome = put_document(state, customization, mode, tick)?;
        if !is_held(state, &key) {
            finish_deletion::<Self>(state, &key);
        }
        Ok(outcome)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        if is_held(state, key) {
            mark_for_deletion::<Self>(state, key, tick.now)
        } else {
            delete_document::<Self>(state, key, tick.now)
        }
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        let status = &self.status;
        let namespace = self.metadata.namespace.as_str();
        self.holder = status.cluster_deployment_ref.as_ref().map(|cluster| ClusterHolder {
            agent: None,
            cluster: cluster.name.clone(),
            pool: status.cluster_pool_ref.as_ref().map(|pool| Key::new(namespace, &*pool.name)),
            preserved: status.preserved,
        });
        Ok(())
    }
}

fn is_held(state: &State, key: &Key) -> bool {
    state.customizations.by_key(key).is_some_and(|customization| customization.holder.is_some())
}
