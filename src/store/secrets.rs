//! Secrets and their values, which no other table has. A value is read only for somebody who asks
//! for it.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::documents::{Secret, SecretValue, Stored as StoredValue};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Change, Owner};

use super::connection::Store;
use super::documents::{select_document, write_document};
use super::stored::StoredDocument;

/// A Secret without its values.
pub fn load_secret(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.secrets.knows(key) {
        return Ok(());
    }
    let Some(mut secret) = select_document::<Secret>(conn, key)? else {
        return Ok(());
    };
    secret.values = select_kept_values(conn, secret.metadata.id)?;
    state.secrets.load(secret);
    Ok(())
}

/// For a Secret that is edited: what is new shows only beside what was.
fn load_secret_with_values(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    load_secret(conn, state, key)?;
    let Some(place) = state.secrets.find(key) else {
        return Ok(());
    };
    let secret = state.secrets.get(place);
    let names: Vec<String> =
        secret.map(|secret| secret.values.keys().cloned().collect()).unwrap_or_default();
    for name in names {
        if let Some(value) = select_secret_value(conn, key, &name)? {
            state.secrets.fill(place, |secret| {
                secret.values.insert(name, StoredValue::Loaded(value));
            });
        }
    }
    Ok(())
}

fn select_kept_values(
    conn: &Connection,
    secret: i64,
) -> Result<BTreeMap<String, StoredValue>, Refusal> {
    let mut statement = conn.prepare_cached("SELECT key FROM secret WHERE object = ?1")?;
    let values = statement.query_map([secret], |row| Ok((row.get(0)?, StoredValue::Kept)))?;
    Ok(values.collect::<Result<_, _>>()?)
}

/// The value of a key of a Secret.
pub fn select_secret_value(
    conn: &Connection,
    key: &Key,
    name: &str,
) -> Result<Option<SecretValue>, Refusal> {
    let sql = "SELECT v.value FROM secret v JOIN secret_object o ON o.id = v.object \
               WHERE o.namespace = ?1 AND o.name = ?2 AND v.key = ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let bytes: Option<Vec<u8>> =
        statement.query_row(params![key.namespace, key.name, name], |row| row.get(0)).optional()?;
    Ok(bytes.map(|bytes| SecretValue::new(String::from_utf8_lossy(&bytes))))
}

impl StoredDocument for Secret {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_secret_with_values(conn, state, key)
    }

    fn complete(&mut self, store: &Store, _: bool) -> Result<(), Refusal> {
        self.values = select_kept_values(store.conn(), self.metadata.id)?;
        Ok(())
    }
}

impl Store {
    /// A Secret that a report of a driver changes.
    pub fn load_secret(&self, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_secret(self.conn(), state, key)
    }

    pub fn secret_value(&self, key: &Key, name: &str) -> Result<Option<SecretValue>, Refusal> {
        select_secret_value(self.conn(), key, name)
    }

    /// The keys of a Secret; none of one that is not there.
    pub fn secret_keys(&self, key: &Key) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT v.key FROM secret v JOIN secret_object o ON o.id = v.object \
                   WHERE o.namespace = ?1 AND o.name = ?2 ORDER BY v.key";
        let mut statement = self.conn().prepare_cached(sql)?;
        let names = statement.query_map(params![key.namespace, key.name], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    /// Whether two Secrets hold the same.
    pub fn same_values(&self, one: &Key, other: &Key) -> Result<bool, Refusal> {
        let sql = "WITH \
             a AS (SELECT v.key, v.value FROM secret v JOIN secret_object o ON o.id = v.object \
                   WHERE o.namespace = ?1 AND o.name = ?2), \
             b AS (SELECT v.key, v.value FROM secret v JOIN secret_object o ON o.id = v.object \
                   WHERE o.namespace = ?3 AND o.name = ?4) \
             SELECT NOT EXISTS (SELECT * FROM a EXCEPT SELECT * FROM b) \
                AND NOT EXISTS (SELECT * FROM b EXCEPT SELECT * FROM a)";
        let values = params![one.namespace, one.name, other.namespace, other.name];
        Ok(self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
    }
}

/// All Secrets in the namespace of a cluster that is gone.
pub fn remove_secrets_of_namespace(conn: &Connection, namespace: &str) -> Result<(), Refusal> {
    let sql = "DELETE FROM secret_object WHERE namespace = ?1";
    conn.prepare_cached(sql)?.execute([namespace])?;
    Ok(())
}

pub fn remove_secret(conn: &Connection, namespace: &str, name: &str) -> Result<(), Refusal> {
    let sql = "DELETE FROM secret_object WHERE namespace = ?1 AND name = ?2";
    conn.prepare_cached(sql)?.execute([namespace, name])?;
    Ok(())
}

/// Writes the Secrets that changed. What a job left for a cluster that went in the same pass goes
/// with it.
pub fn write_changes(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for change in state.secrets.difference().filter(|change| change.is_of(owner)) {
        let cluster = change.after.map(|secret| Key::new("", &*secret.metadata.namespace));
        if !cluster.is_some_and(|cluster| state.clusters.was_removed(&cluster)) {
            write_change(conn, &change)?;
        }
    }
    Ok(())
}

fn write_change(conn: &Connection, change: &Change<'_, Secret>) -> Result<(), Refusal> {
    let id = write_document(conn, change)?;
    let Some(after) = change.after else {
        return Ok(());
    };
    for key in change.before.into_iter().flat_map(|before| before.values.keys()) {
        if !after.values.contains_key(key) {
            let sql = "DELETE FROM secret WHERE object = ?1 AND key = ?2";
            conn.prepare_cached(sql)?.execute(params![id, key])?;
        }
    }
    for (key, value) in &after.values {
        match value {
            StoredValue::Kept | StoredValue::Loaded(_) => {}
            StoredValue::New(value) => {
                let sql = "INSERT OR REPLACE INTO secret (object, key, value) VALUES (?1, ?2, ?3)";
                conn.prepare_cached(sql)?.execute(params![id, key, value.reveal().as_bytes()])?;
            }
            StoredValue::CopyOf(from) => {
                let sql = "INSERT OR REPLACE INTO secret (object, key, value) \
                           SELECT ?1, v.key, v.value FROM secret v \
                           JOIN secret_object o ON o.id = v.object \
                           WHERE o.namespace = ?2 AND o.name = ?3";
                conn.prepare_cached(sql)?.execute(params![id, from.namespace, from.name])?;
            }
        }
    }
    Ok(())
}
