//! Kinds that are one JSON document a row.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::kinds::every_kind;
use crate::model::meta::{HasMeta, Key};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::table::{Change, Owner, Row, Table};

use super::read::Filter;

/// A kind whose table has id and body.
pub trait Document: Row + HasMeta + Serialize + DeserializeOwned {
    const TABLE: &'static str;
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
            $(plain: $plain:ident $plain_table:literal,)?
            $(document: $document:ident $document_table:literal,)?
            $(facts: $facts:ident,)?
            $(view: $view:ident,)?
        })* }
        records { $($records:tt)* }
    ) => {
        $(
            $(impl Document for $Type {
                const TABLE: &'static str = $plain_table;
            })?
            $(impl Document for $Type {
                const TABLE: &'static str = $document_table;
            })?
        )*

        /// Writes what changed of kinds without logic, on behalf of an owner or of all.
        pub fn write_plain_kinds(
            conn: &Connection,
            state: &State,
            owner: Option<&Owner>,
        ) -> Result<(), Refusal> {
            $($(write_changes(conn, &state.$plain, owner)?;)?)*
            Ok(())
        }
    };
}
every_kind!(declare_documents);

/// A row of (id, body).
pub fn decode<T: Document>(row: &SqlRow<'_>) -> Result<T, Refusal> {
    let body = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let mut document: T = serde_json::from_str(body).map_err(|error| {
        Refusal::new(Exit::State, format!("a row of table {} cannot be read", T::TABLE))
            .because(error.to_string())
    })?;
    document.meta_mut().id = row.get(0)?;
    Ok(document)
}

pub fn one<T: Document>(conn: &Connection, key: &Key) -> Result<Option<T>, Refusal> {
    let sql = format!("SELECT id, body FROM {} WHERE namespace = ?1 AND name = ?2", T::TABLE);
    let mut statement = conn.prepare_cached(&sql)?;
    let found =
        statement.query_row(params![key.namespace, key.name], |row| Ok(decode(row))).optional()?;
    found.transpose()
}

/// All of a kind, of a namespace if one is given, in order of insertion.
pub fn all<T: Document>(conn: &Connection, namespace: Option<&str>) -> Result<Vec<T>, Refusal> {
    // The namespace is in the document: only through its index it is not read out of each.
    let which = namespace.map_or("", |_| "WHERE namespace = ?1");
    let sql = format!("SELECT id, body FROM {} {which}", T::TABLE);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(namespace))?;
    let mut found: Vec<T> = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(decode(row)?);
    }
    found.sort_by_key(|one| one.meta().id);
    Ok(found)
}

/// Loads a document unless it is there already.
pub fn need<T: Document>(
    conn: &Connection,
    table: &mut Table<T>,
    key: &Key,
) -> Result<(), Refusal> {
    if !table.knows(key)
        && let Some(found) = one(conn, key)?
    {
        table.load(found);
    }
    Ok(())
}

/// Writes one change and returns the id of its row.
pub fn write<T: Document>(conn: &Connection, change: &Change<'_, T>) -> Result<i64, Refusal> {
    let table = T::TABLE;
    let body = |document: &T| {
        serde_json::to_string(document).map_err(|error| {
            Refusal::invalid("an object cannot be written").because(error.to_string())
        })
    };
    match (change.before, change.after) {
        (None, None) => Ok(0),
        (Some(before), None) => {
            let id = before.meta().id;
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?.execute([id])?;
            Ok(id)
        }
        (None, Some(after)) => {
            let sql = format!("INSERT INTO {table} (body) VALUES (?1)");
            conn.prepare_cached(&sql)?.execute([body(after)?])?;
            Ok(conn.last_insert_rowid())
        }
        (Some(before), Some(after)) => {
            let sql = format!("UPDATE {table} SET body = ?2 WHERE id = ?1");
            let id = before.meta().id;
            conn.prepare_cached(&sql)?.execute(params![id, body(after)?])?;
            Ok(id)
        }
    }
}

/// Writes the changes of a table, on behalf of an owner or of all.
pub fn write_changes<T: Document>(
    conn: &Connection,
    table: &Table<T>,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for change in table.difference().filter(|change| change.is_of(owner)) {
        write(conn, &change)?;
    }
    Ok(())
}

/// The documents that a filter names, in order of insertion.
pub fn list<T: Document>(conn: &Connection, filter: &Filter) -> Result<Vec<T>, Refusal> {
    let mut documents: Vec<T> = match (&filter.namespace, &filter.name) {
        (Some(namespace), Some(name)) => {
            one(conn, &Key::new(&**namespace, &**name))?.into_iter().collect()
        }
        (namespace, _) => all(conn, namespace.as_deref())?,
    };
    if let Some(name) = &filter.name {
        documents.retain(|document| document.meta().name == *name);
    }
    Ok(documents)
}
