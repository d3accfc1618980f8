//! What commands can do with the objects of every kind: put, delete and import. It knows how each
//! kind is asked, never what a kind does then.

use crate::model::meta::Key;
use crate::model::object::{Object, Resource, match_object};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::EditedDocument;
use super::verdict::Verdict;

/// A kind that commands can edit.
pub trait Edited: Resource {
    /// Makes an object, or makes the one that is there like it, without what is not the user's.
    /// `merge`: labels and annotations that the new object does not name stay.
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal>;

    /// Asks for an object's deletion: it goes now, or when what hangs on it is gone. Returns
    /// whether anything changed, and None when there is no such object.
    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool>;

    /// Inserts a complete object of another state.
    fn import(state: &mut State, new: Self, tick: &Tick) -> Result<(), Refusal>;
}

impl<T: EditedDocument> Edited for T {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        EditedDocument::put(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        <T as EditedDocument>::delete(state, key, tick)
    }

    fn import(state: &mut State, mut new: Self, tick: &Tick) -> Result<(), Refusal> {
        new.prepare_import(tick)?;
        T::table_mut(state).insert(new);
        Ok(())
    }
}

/// Inserts a complete object of another state.
pub fn import(state: &mut State, object: Object, tick: &Tick) -> Result<(), Refusal> {
    match_object!(object, resource => Edited::import(state, *resource, tick))
}
