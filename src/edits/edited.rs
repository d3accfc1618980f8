//! The edits that every kind supports: put, delete and import. What an edit means for a kind is
//! defined in the file of that kind, never here.

use crate::model::meta::Key;
use crate::model::object::{Object, Resource, match_object};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::EditedDocument;
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;
use super::settings::restore_passwords;

/// A kind that commands can edit.
pub trait Edited: Resource {
    /// Inserts an object, or changes the existing one of its name to be like it, but for the
    /// fields that a user does not set. A change that the kind forbids is refused and leaves the
    /// state as it was.
    fn put(
        state: &mut State,
        object: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal>;

    /// Asks for an object's deletion. It is removed at once, or by a pass as soon as nothing
    /// depends on it any more.
    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome;

    /// Inserts an object with all that another state has exported of it.
    fn import(state: &mut State, object: Self, tick: &Tick) -> Result<(), Refusal>;
}

impl<T: EditedDocument> Edited for T {
    fn put(
        state: &mut State,
        object: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        EditedDocument::put(state, object, mode, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        <T as EditedDocument>::delete(state, key, tick)
    }

    fn import(state: &mut State, mut object: Self, tick: &Tick) -> Result<(), Refusal> {
        object.prepare_import(tick)?;
        T::table_mut(state).insert(object);
        Ok(())
    }
}

/// Inserts an object of any kind with all that another state has exported of it.
pub fn import_object(state: &mut State, mut object: Object, tick: &Tick) -> Result<(), Refusal> {
    restore_passwords(state, &mut object)?;
    match_object!(object, resource => Edited::import(state, *resource, tick))
}
