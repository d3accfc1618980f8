//! What commands can do with the objects of a kind. Kinds without logic need nothing but their
//! declaration.

use crate::model::meta::Key;
use crate::model::object::{Object, Resource, match_object};
use crate::model::refusal::Refusal;
use crate::model::state::{Plain, State};
use crate::model::table::Row;
use crate::model::tick::Tick;

use super::documents::{delete_document, finish_deletion, put_document, without_metadata};
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

impl<T: Plain> Edited for T {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let key = Row::key(&new);
        let table = T::table_mut(state);
        let verdict = put_document(table, new, merge, tick, |old, new| {
            without_metadata(old) != without_metadata(new)
        })?;
        finish_deletion(table, &key);
        Ok(verdict)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document(T::table_mut(state), key, tick.now)
    }

    fn import(state: &mut State, new: Self, _: &Tick) -> Result<(), Refusal> {
        T::table_mut(state).insert(new);
        Ok(())
    }
}

/// Inserts a complete object of another state.
pub fn import(state: &mut State, object: Object, tick: &Tick) -> Result<(), Refusal> {
    match_object!(object, resource => Edited::import(state, *resource, tick))
}
