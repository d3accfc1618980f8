//! Kinds with a JSON document in each row: how such rows are read and written. Nothing here knows
//! what else a kind keeps, such as the leases of customizations.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::kinds::{Kind, every_kind};
use crate::model::meta::{HasMeta, Key};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::table::{Change, Owner, Row, Table};

use super::body_checksums::checksum_of;
use super::filter::Filter;
use super::schema::SHARED_TABLE;

/// A kind whose objects are rows with the columns `id`, `body` and `checksum`. Its namespace and
/// name are columns that SQLite computes from the document. Agents are only decoded by this:
/// `agents.rs` finds and writes them.
pub trait Document: Row + HasMeta + Serialize + DeserializeOwned {
    /// The kind, for what is said of a row that cannot be read.
    const KIND: Kind;
    /// The table of the rows, which may have those of other kinds, too.
    const TABLE: &'static str;
    /// Which rows of the table are of this kind, in SQL.
    const CONDITION: &'static str;
    /// The statement that inserts a document and its checksum.
    const INSERTION: &'static str;
}

/// Implements `Document` for a type: with a table of its own if one is named, else in the table that
/// kinds share. `$field` is not used: by it, the repetition around a call finds the kinds that have it.
macro_rules! impl_document {
    ($field:ident: $Kind:ident($Type:ty), $name:literal, $table:literal) => {
        impl Document for $Type {
            const KIND: Kind = Kind::$Kind;
            const TABLE: &'static str = $table;
            const CONDITION: &'static str = "TRUE";
            const INSERTION: &'static str =
                concat!("INSERT INTO ", $table, " (body, checksum) VALUES (?1, ?2)");
        }
    };
    ($field:ident: $Kind:ident($Type:ty), $name:literal) => {
        impl Document for $Type {
            const KIND: Kind = Kind::$Kind;
            const TABLE: &'static str = SHARED_TABLE;
            const CONDITION: &'static str = concat!("kind = '", $name, "'");
            const INSERTION: &'static str = concat!(
                "INSERT INTO document (kind, body, checksum) VALUES ('",
                $name,
                "', ?1, ?2)"
            );
        }
    };
}

macro_rules! declare_documents {
    (
        {}
        objects { $($Kind:ident($Type:ty) {
            about: $about:literal,
            wire: $api_version:literal $name:literal,
            words: [$($word:literal),+],
            namespaced: $namespaced:literal,
            names: $names:ident,
            $(plain: $plain:ident,)?
            $(document: $document:ident $($table:literal)?,)?
            $(facts: $facts:ident,)?
            $(view: $view:ident,)?
        })* }
        records { $($records:tt)* }
    ) => {
        $(
            $(impl_document!($plain: $Kind($Type), $name);)?
            $(impl_document!($document: $Kind($Type), $name $(, $table)?);)?
        )*

        /// Writes the changes of the kinds without logic, on behalf of an owner or of all.
        pub fn write_plain_kinds(
            conn: &Connection,
            state: &State,
            owner: Option<&Owner>,
        ) -> Result<(), Refusal> {
            $($(write_changed_documents(conn, &state.$plain, owner)?;)?)*
            Ok(())
        }
    };
}
every_kind!(declare_documents);

/// Reads an object from a row whose first two columns are `id` and `body`.
pub fn read_document<T: Document>(row: &SqlRow<'_>) -> Result<T, Refusal> {
    decode_document(row.get(0)?, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)
}

/// Decodes the object of a row.
fn decode_document<T: Document>(id: i64, body: &str) -> Result<T, Refusal> {
    let mut document: T = serde_json::from_str(body)
        .map_err(|error| unreadable_row(T::KIND, T::TABLE, &error.to_string()))?;
    document.meta_mut().id = id;
    Ok(document)
}

/// A row of a table is not what the program has written.
pub fn unreadable_row(kind: Kind, table: &str, cause: &str) -> Refusal {
    let message = format!("a row of kind {} in table {table} cannot be read", kind.name());
    Refusal::new(Exit::State, message).because(cause)
}

/// Reads the object of a name.
pub fn select_document<T: Document>(conn: &Connection, key: &Key) -> Result<Option<T>, Refusal> {
    let table = T::TABLE;
    let (of_kind, kind) = kind_as_parameter::<T>();
    let sql =
        format!("SELECT id, body FROM {table} WHERE {of_kind} AND namespace = ?1 AND name = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let values = [&*key.namespace, &*key.name].into_iter().chain(kind);
    let document =
        statement.query_row(params_from_iter(values), |row| Ok(read_document(row))).optional()?;
    document.transpose()
}

/// Whether there is an object of this name.
pub fn document_exists<T: Document>(conn: &Connection, key: &Key) -> Result<bool, Refusal> {
    let table = T::TABLE;
    let (of_kind, kind) = kind_as_parameter::<T>();
    let sql = format!("SELECT 1 FROM {table} WHERE {of_kind} AND namespace = ?1 AND name = ?2");
    let values = [&*key.namespace, &*key.name].into_iter().chain(kind);
    Ok(conn.prepare_cached(&sql)?.exists(params_from_iter(values))?)
}

/// Which rows of the table of a kind are of this kind, in SQL, and the third parameter of a statement
/// with that condition, if it has one. By the parameter, all kinds that share a table share a
/// statement, too, which a command prepares once.
fn kind_as_parameter<T: Document>() -> (&'static str, Option<&'static str>) {
    if T::TABLE == SHARED_TABLE { ("kind = ?3", Some(T::KIND.name())) } else { ("TRUE", None) }
}

/// Reads all objects of a kind, of a namespace if one is given, in the order of insertion.
pub fn select_documents<T: Document>(
    conn: &Connection,
    namespace: Option<&str>,
) -> Result<Vec<T>, Refusal> {
    let rows = select_bodies(conn, &source_of::<T>(namespace), namespace)?;
    rows.into_iter().map(|(id, body)| decode_document(id, &body)).collect()
}

/// Reads the ids and the bodies of the rows of a source, in the order of insertion. A namespace is the
/// parameter of its condition.
fn select_bodies(
    conn: &Connection,
    source: &str,
    namespace: Option<&str>,
) -> Result<Vec<(i64, String)>, Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT id, body FROM {source}"))?;
    let rows =
        statement.query_map(params_from_iter(namespace), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut rows: Vec<(i64, String)> = rows.collect::<Result<_, _>>()?;
    rows.sort_unstable();
    Ok(rows)
}

/// The table and the condition of all objects of a kind, or of those of a namespace, which is the
/// first parameter then. The column of namespaces is computed from the documents: SQLite reads every
/// document unless the condition is one that an index on that column serves.
pub fn source_of<T: Document>(namespace: Option<&str>) -> String {
    let of_namespace = if namespace.is_some() { " AND namespace = ?1" } else { "" };
    format!("{} WHERE {}{of_namespace}", T::TABLE, T::CONDITION)
}

/// Loads the object of a name, unless it is in the state or was removed from it.
pub fn load_document<T: Document>(
    conn: &Connection,
    table: &mut Table<T>,
    key: &Key,
) -> Result<(), Refusal> {
    if !table.has_or_had(key)
        && let Some(document) = select_document(conn, key)?
    {
        table.load(document);
    }
    Ok(())
}

/// Writes one change and returns the id of its row.
pub fn write_document<T: Document>(
    conn: &Connection,
    change: &Change<'_, T>,
) -> Result<i64, Refusal> {
    let table = T::TABLE;
    match (change.before, change.after) {
        (None, None) => Ok(0),
        (Some(before), None) => {
            let id = before.meta().id;
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?.execute([id])?;
            Ok(id)
        }
        (None, Some(after)) => {
            let body = to_body(after)?;
            let values = params![body, checksum_of(body.as_bytes())];
            conn.prepare_cached(T::INSERTION)?.execute(values)?;
            Ok(conn.last_insert_rowid())
        }
        (Some(before), Some(after)) => {
            let body = to_body(after)?;
            let sql = format!("UPDATE {table} SET body = ?2, checksum = ?3 WHERE id = ?1");
            let id = before.meta().id;
            let values = params![id, body, checksum_of(body.as_bytes())];
            conn.prepare_cached(&sql)?.execute(values)?;
            Ok(id)
        }
    }
}

/// The JSON of a document, or of a part of one, for its column.
pub fn to_body<T: Serialize>(document: &T) -> Result<String, Refusal> {
    serde_json::to_string(document)
        .map_err(|error| Refusal::invalid("an object cannot be written").because(error.to_string()))
}

/// Writes the changes of a table that keeps nothing beside its documents, on behalf of an owner or
/// of all.
pub fn write_changed_documents<T: Document>(
    conn: &Connection,
    table: &Table<T>,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for change in table.difference().filter(|change| change.is_on_behalf_of(owner)) {
        write_document(conn, &change)?;
    }
    Ok(())
}

/// Reads the objects that a filter names, in the order of insertion.
pub fn list_documents<T: Document>(conn: &Connection, filter: &Filter) -> Result<Vec<T>, Refusal> {
    let mut documents: Vec<T> = match (&filter.namespace, &filter.name) {
        (Some(namespace), Some(name)) => {
            select_document(conn, &Key::new(&**namespace, &**name))?.into_iter().collect()
        }
        (namespace, _) => select_documents(conn, namespace.as_deref())?,
    };
    if let Some(name) = &filter.name {
        documents.retain(|document| document.meta().name == *name);
    }
    Ok(documents)
}
