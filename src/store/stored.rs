//! How objects of each kind are read: one loaded for an edit, or those that a filter names. Kinds
//! without logic need nothing but their declaration.

use rusqlite::Connection;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, Resource, match_kind};
use crate::model::refusal::Refusal;
use crate::model::state::{Plain, State};

use super::connection::Store;
use super::documents::{Document, list_documents, load_document};
use super::filter::Filter;

/// A kind that the database keeps.
pub trait Stored: Resource {
    /// Loads an object that a command edits or looks at, and what its edit needs beside it.
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal>;

    /// The objects that a filter names, in order of insertion.
    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal>;
}

impl<T: Plain + Document> Stored for T {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_document(conn, T::table_mut(state), key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        list_documents(store.conn(), filter)
    }
}

/// Loads an object of a kind. Records are not edited.
pub fn fetch(conn: &Connection, state: &mut State, kind: Kind, key: &Key) -> Result<(), Refusal> {
    match_kind!(kind, R => R::fetch(conn, state, key), Ok(()))
}

impl Store {
    /// The objects of a kind that a filter names. Records are read in other ways.
    pub fn objects(&self, kind: Kind, filter: &Filter) -> Result<Vec<Object>, Refusal> {
        fn list<R: Stored>(store: &Store, filter: &Filter) -> Result<Vec<Object>, Refusal> {
            Ok(R::list(store, filter)?.into_iter().map(R::into_object).collect())
        }
        match_kind!(kind, R => list::<R>(self, filter), Ok(Vec::new()))
    }

    /// Names of objects of a kind, for "did you mean" and for looking elsewhere.
    pub fn names(&self, kind: Kind) -> Result<Vec<Key>, Refusal> {
        let filter = Filter::default();
        Ok(self.objects(kind, &filter)?.iter().map(Object::key).collect())
    }

    /// The resources that a filter names.
    pub fn list<R: Stored>(&self, filter: &Filter) -> Result<Vec<R>, Refusal> {
        R::list(self, filter)
    }

    /// All resources of a kind, clusters and claims without their bodies.
    pub fn all<R: Stored>(&self) -> Result<Vec<R>, Refusal> {
        R::list(self, &Filter::default())
    }

    /// The resource of a name, a cluster or a claim without its body.
    pub fn one<R: Stored>(&self, key: &Key) -> Result<Option<R>, Refusal> {
        Ok(R::list(self, &Filter::named(key))?.pop())
    }

    /// The resource of a name with everything that belongs to it.
    pub fn whole<R: Stored>(&self, key: &Key) -> Result<Option<R>, Refusal> {
        Ok(R::list(self, &Filter { whole: true, ..Filter::named(key) })?.pop())
    }
}
