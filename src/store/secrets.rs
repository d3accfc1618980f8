//! Secrets and their values, which are in one table and nowhere else. A value is read only for a
//! command or a driver that asks for it; a scope is loaded without values.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::documents::{Secret, SecretValue, StoredValue};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Change, Owner};

use super::connection::Store;
use super::documents::{select_document, write_document};
use super::filter::Filter;
use super::stored::StoredDocument;

/// Loads a Secret without its values: of each key it is known that the state keeps one.
pub fn load_secret(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.secrets.has_or_had(key) {
        return Ok(());
    }
    let Some(mut secret) = select_document::<Secret>(conn, key)? else {
        return Ok(());
    };
    secret.values = select_kept_values(conn, secret.metadata.id)?;
    state.secrets.load(secret);
    Ok(())
}

/// Loads a Secret with its values, for an edit of it: which values are new shows only when they are
/// compared with what was there.
fn load_secret_with_values(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    load_secret(conn, state, key)?;
    let Some(secret_id) = state.secrets.find(key) else {
        return Ok(());
    };
    let secret = state.secrets.get(secret_id);
    let names: Vec<String> =
        secret.map(|secret| secret.values.keys().cloned().collect()).unwrap_or_default();
    for name in names {
        if let Some(value) = select_secret_value(conn, key, &name)? {
            state.secrets.fill_part(secret_id, |secret| {
                secret.values.insert(name, StoredValue::Loaded(value));
            });
        }
    }
    Ok(())
}

/// The keys of a Secret, each with a value that stays in the state file.
fn select_kept_values(
    conn: &Connection,
    secret: i64,
) -> Result<BTreeMap<String, StoredValue>, Refusal> {
    let mut statement = conn.prepare_cached("SELECT key FROM secret WHERE object = ?1")?;
    let values = statement.query_map([secret], |row| Ok((row.get(0)?, StoredValue::Kept)))?;
    Ok(values.collect::<Result<_, _>>()?)
}

/// Reads the value of a Secret under the key `name`. Bytes that are not UTF-8 are replaced.
pub fn select_secret_value(
    conn: &Connection,
    key: &Key,
    name: &str,
) -> Result<Option<SecretValue>, Refusal> {
    let sql = "SELECT v.value FROM secret v JOIN document o ON o.id = v.object \
               WHERE o.kind = 'Secret' AND o.namespace = ?1 AND o.name = ?2 AND v.key = ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let bytes: Option<Vec<u8>> =
        statement.query_row(params![key.namespace, key.name, name], |row| row.get(0)).optional()?;
    Ok(bytes.map(|bytes| SecretValue::new(String::from_utf8_lossy(&bytes))))
}

impl StoredDocument for Secret {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_secret_with_values(conn, state, key)
    }

    fn read_beside_document(&mut self, store: &Store, _: &Filter) -> Result<(), Refusal> {
        self.values = select_kept_values(store.conn(), self.metadata.id)?;
        Ok(())
    }
}

impl Store {
    /// Loads a Secret that a report of a driver changes, without its values.
    pub fn load_secret(&self, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_secret(self.conn(), state, key)
    }

    /// Reads the value of a Secret under the key `name`.
    pub fn read_secret_value(&self, key: &Key, name: &str) -> Result<Option<SecretValue>, Refusal> {
        select_secret_value(self.conn(), key, name)
    }

    /// The keys of a Secret, in alphabetical order; none if there is no such Secret.
    pub fn list_secret_keys(&self, key: &Key) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT v.key FROM secret v JOIN document o ON o.id = v.object \
                   WHERE o.kind = 'Secret' AND o.namespace = ?1 AND o.name = ?2 ORDER BY v.key";
        let mut statement = self.conn().prepare_cached(sql)?;
        let names = statement.query_map(params![key.namespace, key.name], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    /// Whether two Secrets have the same keys and values. The values are compared inside SQLite.
    pub fn have_same_values(&self, left: &Key, right: &Key) -> Result<bool, Refusal> {
        let sql = "WITH \
             a AS (SELECT v.key, v.value FROM secret v JOIN document o ON o.id = v.object \
                   WHERE o.kind = 'Secret' AND o.namespace = ?1 AND o.name = ?2), \
             b AS (SELECT v.key, v.value FROM secret v JOIN document o ON o.id = v.object \
                   WHERE o.kind = 'Secret' AND o.namespace = ?3 AND o.name = ?4) \
             SELECT NOT EXISTS (SELECT * FROM a EXCEPT SELECT * FROM b) \
                AND NOT EXISTS (SELECT * FROM b EXCEPT SELECT * FROM a)";
        let values = params![left.namespace, left.name, right.namespace, right.name];
        Ok(self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
    }
}

/// Removes all Secrets of a namespace, with their values.
pub fn remove_secrets_of_namespace(conn: &Connection, namespace: &str) -> Result<(), Refusal> {
    let sql = "DELETE FROM document WHERE kind = 'Secret' AND namespace = ?1";
    conn.prepare_cached(sql)?.execute([namespace])?;
    Ok(())
}

/// Removes a Secret with its values.
pub fn remove_secret(conn: &Connection, namespace: &str, name: &str) -> Result<(), Refusal> {
    let sql = "DELETE FROM document WHERE kind = 'Secret' AND namespace = ?1 AND name = ?2";
    conn.prepare_cached(sql)?.execute([namespace, name])?;
    Ok(())
}

/// Writes the Secrets that changed, on behalf of an owner or of all. A Secret that a job made for a
/// cluster which was removed in the same pass is not written: the Secrets of that cluster are gone.
pub fn write_changed_secrets(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for change in state.secrets.difference().filter(|change| change.is_on_behalf_of(owner)) {
        let cluster = change.after.map(|secret| Key::new("", &*secret.metadata.namespace));
        if !cluster.is_some_and(|cluster| state.clusters.was_removed(&cluster)) {
            write_secret(conn, &change)?;
        }
    }
    Ok(())
}

/// Writes a Secret that was made, changed or deleted, and those of its values that are new.
fn write_secret(conn: &Connection, change: &Change<'_, Secret>) -> Result<(), Refusal> {
    let id = write_document(conn, change)?;
    let Some(after) = change.after else {
        return Ok(());
    };
    let keys_before = change.before.into_iter().flat_map(|before| before.values.keys());
    for key in keys_before {
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
            StoredValue::CopyOf(source) => {
                let sql = "INSERT OR REPLACE INTO secret (object, key, value) \
                           SELECT ?1, v.key, v.value FROM secret v \
                           JOIN document o ON o.id = v.object \
                           WHERE o.kind = 'Secret' AND o.namespace = ?2 AND o.name = ?3";
                conn.prepare_cached(sql)?.execute(params![id, source.namespace, source.name])?;
            }
        }
    }
    Ok(())
}
