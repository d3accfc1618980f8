//! Changes of a copy of the state that is not in place yet. They go by the rules of every change,
//! but nothing is done in the world because of them.

use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::store::Need;

use super::Door;

impl Door<'_> {
    /// Changes a copy that nobody else has open, so that it needs no lock. No job is begun and no
    /// file is tidied up: what is live in the copy may have ended in the world long ago.
    pub fn change_copy<T>(
        &self,
        needs: &[Need],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.store.begin_write()?;
        let done = self.locked(&Scope::Whole, needs, edit);
        if done.is_err() {
            self.store.rollback();
        }
        done.map(|(value, _)| value)
    }
}
