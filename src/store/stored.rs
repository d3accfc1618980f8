//! How objects of every kind are read: one of them into the state, for an edit, or all that a
//! filter names, to be shown. Nothing here writes.

use rusqlite::{Connection, params_from_iter};

use crate::model::agent::Agent;
use crate::model::agent::facts::AgentFacts;
use crate::model::data_template::Metal3DataTemplate;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, Resource, match_kind};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Plain, State, Tabled};
use crate::model::wire::Wire;

use super::connection::Store;
use super::documents::{Document, list_documents, load_document, read_document, source_of};
use super::filter::Filter;

/// What is done with each object of many.
pub type Visitor<'a, T> = dyn FnMut(T) -> Result<(), Refusal> + 'a;

/// A kind that is kept in the state file.
pub trait Stored: Resource {
    /// Loads an object into the state for a command that edits it or shows it, and what an edit of
    /// it has to look at besides. Does nothing if there is no such object.
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal>;

    /// Reads the objects that a filter names, in the order of insertion.
    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal>;

    /// Hands on every object, or those of a namespace, with everything that is kept beside its
    /// row, one by one, in the order of insertion.
    fn visit_all(
        store: &Store,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Self>,
    ) -> Result<(), Refusal>;

    /// The names of all objects, in the order of insertion. Names are few bytes of an object: a
    /// kind that is kept as documents reads no more of it.
    fn list_names(store: &Store) -> Result<Vec<Key>, Refusal> {
        let objects = Self::list(store, &Filter::default())?;
        Ok(objects.iter().map(Wire::key).collect())
    }
}

/// A kind whose objects are documents in a table of the state. What a kind does not define here is
/// done as for a kind without logic, where an object is its document and nothing more.
pub trait StoredDocument: Resource + Tabled + Document {
    /// Does what `Stored::load_for_edit` says.
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_document(conn, Self::table_mut(state), key)
    }

    /// Adds to an object that a filter named what is kept beside its document: all of that if the
    /// filter asks for whole objects, else only what is quickly read.
    fn read_beside_document(&mut self, _: &Store, _filter: &Filter) -> Result<(), Refusal> {
        Ok(())
    }
}

impl<T: Plain + Document> StoredDocument for T {}
impl StoredDocument for ClusterPool {}
impl StoredDocument for Metal3DataTemplate {}

impl<T: StoredDocument> Stored for T {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        <T as StoredDocument>::load_for_edit(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let mut documents: Vec<Self> = list_documents(store.conn(), filter)?;
        for document in &mut documents {
            document.read_beside_document(store, filter)?;
        }
        Ok(documents)
    }

    fn visit_all(
        store: &Store,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Self>,
    ) -> Result<(), Refusal> {
        let whole = Filter { whole: true, ..Filter::default() };
        let sql = format!("SELECT id, body FROM {} WHERE id = ?1", T::TABLE);
        let mut statement = store.conn().prepare_cached(&sql)?;
        for id in select_ids(store.conn(), &source_of::<T>(namespace), namespace)? {
            let mut document: T = statement.query_row([id], |row| Ok(read_document(row)))??;
            document.read_beside_document(store, &whole)?;
            visit(document)?;
        }
        Ok(())
    }

    fn list_names(store: &Store) -> Result<Vec<Key>, Refusal> {
        select_names(store.conn(), &source_of::<T>(None))
    }
}

/// Loads an object of a kind, as `Stored::load_for_edit` does. Records, such as events, are not edited:
/// nothing is loaded.
pub fn fetch(conn: &Connection, state: &mut State, kind: Kind, key: &Key) -> Result<(), Refusal> {
    match_kind!(kind, R => <R as Stored>::load_for_edit(conn, state, key), Ok(()))
}

/// The ids of the rows of a source, a table with its conditions, in the order of insertion. A namespace
/// is the parameter of the conditions. For SQLite to sort rows, it would hold all of them whole.
pub fn select_ids(
    conn: &Connection,
    source: &str,
    namespace: Option<&str>,
) -> Result<Vec<i64>, Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT id FROM {source}"))?;
    let rows = statement.query_map(params_from_iter(namespace), |row| row.get(0))?;
    let mut ids: Vec<i64> = rows.collect::<Result<_, _>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// The names in the rows of a source, a table of objects with its conditions, in the order of insertion.
pub fn select_names(conn: &Connection, source: &str) -> Result<Vec<Key>, Refusal> {
    let sql = format!("SELECT namespace, name FROM {source} ORDER BY id");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        keys.push(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    }
    Ok(keys)
}

impl Store {
    /// Reads the objects of a kind that a filter names, as people know them: namespaces that
    /// nobody applied are among the namespaces.
    pub fn list_objects(&self, kind: Kind, filter: &Filter) -> Result<Vec<Object>, Refusal> {
        let mut objects = self.list_stored_objects(kind, filter)?;
        if kind == Kind::Namespace {
            self.add_implied_namespaces(&mut objects, filter)?;
        }
        Ok(objects)
    }

    /// Reads objects for a table, as `list_objects` does. Unless the filter asks for whole ones, Agents
    /// have only the facts that a table shows: they must not be written or printed as documents.
    pub fn list_rows(&self, kind: Kind, filter: &Filter) -> Result<Vec<Object>, Refusal> {
        if kind != Kind::Agent || filter.whole {
            return self.list_objects(kind, filter);
        }
        let agents = self.list_agent_facts(filter)?;
        Ok(agents.into_iter().map(AgentFacts::into_agent).map(Agent::into_object).collect())
    }

    /// Reads the objects of a kind that a filter names, as they are kept. Records, such as events,
    /// are read in other ways: there are none here.
    pub fn list_stored_objects(&self, kind: Kind, filter: &Filter) -> Result<Vec<Object>, Refusal> {
        fn list<R: Stored>(store: &Store, filter: &Filter) -> Result<Vec<Object>, Refusal> {
            Ok(R::list(store, filter)?.into_iter().map(R::into_object).collect())
        }
        match_kind!(kind, R => list::<R>(self, filter), Ok(Vec::new()))
    }

    /// Hands on every object of a kind, or those of a namespace, whole, one by one, in the order of
    /// insertion: a state may have more objects than fit into memory. Needs a transaction.
    pub fn visit_objects(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Object>,
    ) -> Result<(), Refusal> {
        match_kind!(
            kind,
            R => <R as Stored>::visit_all(self, namespace, &mut |resource: R| {
                visit(resource.into_object())
            }),
            Ok(())
        )
    }

    /// Hands on all resources of a kind, or those of a namespace, as `visit_objects` does.
    pub fn visit_resources<R: Stored>(
        &self,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, R>,
    ) -> Result<(), Refusal> {
        R::visit_all(self, namespace, visit)
    }

    /// The names of all objects of a kind, for hints such as "did you mean".
    pub fn list_names(&self, kind: Kind) -> Result<Vec<Key>, Refusal> {
        match_kind!(kind, R => <R as Stored>::list_names(self), Ok(Vec::new()))
    }

    /// Reads the resources that a filter names, in the order of insertion.
    pub fn list<R: Stored>(&self, filter: &Filter) -> Result<Vec<R>, Refusal> {
        R::list(self, filter)
    }

    /// Reads all resources of a kind, clusters and claims without their documents.
    pub fn list_all<R: Stored>(&self) -> Result<Vec<R>, Refusal> {
        R::list(self, &Filter::default())
    }

    /// Reads the resource of a name, a cluster or a claim without its document.
    pub fn find<R: Stored>(&self, key: &Key) -> Result<Option<R>, Refusal> {
        Ok(R::list(self, &Filter::named(key))?.pop())
    }

    /// Reads the resource of a name with everything that is kept beside its row.
    pub fn find_whole<R: Stored>(&self, key: &Key) -> Result<Option<R>, Refusal> {
        Ok(R::list(self, &Filter::named_whole(key))?.pop())
    }
}
