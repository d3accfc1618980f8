//! Kinds that are one JSON document a row.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::agent::Agent;
use crate::model::customization::Customization;
use crate::model::data_template::Metal3DataTemplate;
use crate::model::documents::{ClusterImageSet, Namespace, RoleBinding, Secret, Settings};
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::ip_pool::IpPool;
use crate::model::meta::{HasMeta, Key};
use crate::model::nmstate_config::NMStateConfig;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::table::{Change, Row, Table};

/// A kind whose table has id and body.
pub trait Document: Row + HasMeta + Serialize + DeserializeOwned {
    const TABLE: &'static str;
}

macro_rules! documents {
    ($($kind:ty => $table:literal),* $(,)?) => {
        $(impl Document for $kind {
            const TABLE: &'static str = $table;
        })*
    };
}
documents! {
    ClusterPool => "pool",
    Customization => "customization",
    ClusterImageSet => "image_set",
    BareMetalHost => "host",
    IpPool => "ip_pool",
    Metal3DataTemplate => "data_template",
    InfraEnv => "infra_env",
    NMStateConfig => "nmstate_config",
    Agent => "agent",
    Secret => "secret_object",
    Namespace => "namespace",
    RoleBinding => "role_binding",
    Settings => "settings",
}

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
