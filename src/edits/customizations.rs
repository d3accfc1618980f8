//! Edits of customizations: who holds one stays, and one that is held goes only when it is given
//! back, in a pass.

use crate::model::customization::Customization;
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{
    EditedDocument, delete_document, finish_deletion, mark_for_deletion, put_document,
};
use super::verdict::Verdict;

impl EditedDocument for Customization {
    fn carry_over(old: &Self, new: &mut Self, _: bool, _: &Tick) -> bool {
        new.status.clone_from(&old.status);
        new.holder.clone_from(&old.holder);
        old.spec != new.spec
    }

    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let key = new.key();
        let verdict = put_document(state, new, merge, tick)?;
        if !is_held(state, &key) {
            finish_deletion::<Self>(state, &key);
        }
        Ok(verdict)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
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
