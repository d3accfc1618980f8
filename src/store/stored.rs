//! How objects of every kind are read: one loaded for an edit, or those that a filter names. It
//! writes nothing.

use rusqlite::Connection;

use crate::model::data_template::Metal3DataTemplate;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, Resource, match_kind};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Plain, State, Tabled};

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

/// A kind whose objects are documents in a table of the state. What a kind does not say itself is
/// done as for kinds without logic.
pub trait StoredDocument: Resource + Tabled + Document {
    /// As `Stored::fetch`.
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_document(conn, Self::table_mut(state), key)
    }

    /// Adds to an object of a list what is kept beside its document; all of it, if the object is
    /// to be whole.
    fn complete(&mut self, _: &Store, _is_whole: bool) -> Result<(), Refusal> {
        Ok(())
    }
}

impl<T: Plain + Document> StoredDocument for T {}
impl StoredDocument for ClusterPool {}
impl StoredDocument for Metal3DataTemplate {}

impl<T: StoredDocument> Stored for T {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        <T as StoredDocument>::fetch(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let mut documents: Vec<Self> = list_documents(store.conn(), filter)?;
        for document in &mut documents {
            document.complete(store, filter.whole)?;
        }
        Ok(documents)
    }
}

/// Loads an object of a kind. Records are not edited.
pub fn fetch(conn: &Connection, state: &mut State, kind: Kind, key: &Key) -> Result<(), Refusal> {
    match_kind!(kind, R => <R as Stored>::fetch(conn, state, key), Ok(()))
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
