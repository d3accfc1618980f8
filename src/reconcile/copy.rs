//! Changes a copy of the state that is not in place yet, as a restored backup. Such a change passes
//! the same checks as every other, but nothing is done in the world because of it.

use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::store::NeededObject;

use super::Door;

impl Door<'_> {
    /// Changes a copy that nobody else has open, which is why no lock is taken. No job is started
    /// and no file is removed: a job that is live in the copy may have ended in the world long ago.
    pub fn change_copy<T>(
        &self,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.store.begin_write()?;
        let result = self.commit_edit(&Scope::Whole, needs, edit);
        if result.is_err() {
            self.store.rollback();
        }
        let (value, _) = result?;
        // What the backup says of what is due is as old as the backup.
        self.store.mark_everything_due()?;
        Ok(value)
    }
}
