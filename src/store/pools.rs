//! The names of ClusterPools: of those that exist, of those that clusters and claims refer to, and of
//! those whose inventories list a customization. Pools are written here; nothing here reads one.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::table::Change;

use super::connection::Store;
use super::documents::write_document;

/// Writes a pool that was made, changed or removed, and which customizations its inventory lists.
pub fn write_pool<'c>(conn: &Connection, change: &Change<'c, ClusterPool>) -> Result<(), Refusal> {
    write_document(conn, change)?;
    let inventory_of = |pool: &'c ClusterPool| pool.spec.inventory.as_deref();
    let inventory = change.after.and_then(inventory_of);
    if change.before.and_then(inventory_of) == inventory {
        return Ok(());
    }
    let Some(pool) = change.after.or(change.before) else { return Ok(()) };
    let Key { namespace, name } = pool.metadata.key();
    let sql = "DELETE FROM inventory_entry WHERE namespace = ?1 AND pool = ?2";
    conn.prepare_cached(sql)?.execute([&namespace, &name])?;
    // An inventory may list a customization twice.
    let sql = "INSERT OR IGNORE INTO inventory_entry (namespace, customization, pool) \
               VALUES (?1, ?2, ?3)";
    let mut insert = conn.prepare_cached(sql)?;
    for entry in inventory.unwrap_or_default() {
        insert.execute([&namespace, &entry.name, &name])?;
    }
    Ok(())
}

/// Selects the customizations in the inventories of pools, from the documents of the pools. An
/// inventory that is none lists nothing.
const LISTED_ENTRIES: &str = "SELECT p.namespace, CAST(p.body ->> (e.fullkey || '.name') AS TEXT) AS customization, p.name \
     FROM document p, \
     json_each(CASE WHEN json_valid(p.body) THEN p.body END, '$.spec.inventory') e \
     WHERE p.kind = 'ClusterPool' AND customization IS NOT NULL";

/// Writes anew which customizations each pool lists, from the documents of the pools.
pub fn rebuild_inventory_entries(conn: &Connection) -> Result<(), Refusal> {
    let sql = format!(
        "INSERT OR IGNORE INTO inventory_entry (namespace, customization, pool) {LISTED_ENTRIES}"
    );
    conn.execute("DELETE FROM inventory_entry", [])?;
    conn.execute(&sql, [])?;
    Ok(())
}

/// Finds customizations that a pool lists but that have no row: the pool would not notice when one
/// becomes free. Returns a sentence about each.
pub fn find_lost_inventory_entries(conn: &Connection) -> Result<Vec<String>, Refusal> {
    let sql = format!(
        "{LISTED_ENTRIES} EXCEPT SELECT namespace, customization, pool FROM inventory_entry"
    );
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut problems = Vec::new();
    while let Some(row) = rows.next()? {
        let customization: String = row.get(1)?;
        let pool = Key::new(row.get::<_, String>(0)?, row.get::<_, String>(2)?);
        problems.push(format!(
            "pool `{pool}` would not notice when customization `{customization}` becomes free: \
             poolctl doctor --fix"
        ));
    }
    Ok(problems)
}

impl Store {
    /// The names of pools that exist, and of pools that clusters or claims refer to, existing or
    /// not.
    pub fn list_named_pools(&self) -> Result<Vec<Key>, Refusal> {
        let sql = "SELECT namespace, name FROM document WHERE kind = 'ClusterPool' UNION \
                   SELECT pool_namespace, pool FROM cluster WHERE pool IS NOT NULL UNION \
                   SELECT namespace, pool FROM claim";
        let mut statement = self.conn().prepare_cached(sql)?;
        let pools = statement.query_map([], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        Ok(pools.collect::<Result<_, _>>()?)
    }

    /// The pools that list one of these customizations in their inventories, each once.
    pub fn find_pools_listing<'k>(
        &self,
        customizations: impl IntoIterator<Item = &'k Key>,
    ) -> Result<BTreeSet<Key>, Refusal> {
        let sql = "SELECT pool FROM inventory_entry WHERE namespace = ?1 AND customization = ?2";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut pools = BTreeSet::new();
        for Key { namespace, name } in customizations {
            let names = statement.query_map([namespace, name], |row| row.get::<_, String>(0))?;
            for pool in names {
                pools.insert(Key::new(namespace, pool?));
            }
        }
        Ok(pools)
    }

    /// Finds the pool of a claim or, for any other kind, of the cluster of that name.
    pub fn find_pool_of(&self, kind: Kind, key: &Key) -> Result<Option<Key>, Refusal> {
        let sql = match kind {
            Kind::ClusterClaim => {
                "SELECT namespace, pool FROM claim WHERE namespace = ?1 AND name = ?2"
            }
            _ => "SELECT pool_namespace, pool FROM cluster WHERE ?1 IS NOT NULL AND name = ?2",
        };
        let mut statement = self.conn().prepare_cached(sql)?;
        let pool = statement
            .query_row(params![key.namespace, key.name], |row| {
                Ok(row.get::<_, Option<String>>(0)?.zip(row.get::<_, Option<String>>(1)?))
            })
            .optional()?;
        Ok(pool.flatten().map(|(namespace, name)| Key::new(namespace, name)))
    }
}
