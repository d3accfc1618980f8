//! The names of ClusterPools: of those that exist, and of those that clusters and claims refer to.
//! Nothing here reads a pool itself.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;

use super::connection::Store;

impl Store {
    /// The names of pools that exist, and of pools that clusters or claims refer to, existing or
    /// not.
    pub fn list_named_pools(&self) -> Result<Vec<Key>, Refusal> {
        let sql = "SELECT namespace, name FROM pool UNION \
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
