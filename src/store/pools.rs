//! The names of pools: of those that are there, and those that clusters and claims name. It reads
//! no pool itself.

use rusqlite::{OptionalExtension, params};

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;

use super::connection::Store;

impl Store {
    /// Pools that are there, and those that clusters or claims name.
    pub fn pools_named(&self) -> Result<Vec<Key>, Refusal> {
        let sql = "SELECT namespace, name FROM pool UNION \
                   SELECT pool_namespace, pool FROM cluster WHERE pool IS NOT NULL UNION \
                   SELECT namespace, pool FROM claim";
        let mut statement = self.conn().prepare_cached(sql)?;
        let pools = statement.query_map([], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        Ok(pools.collect::<Result<_, _>>()?)
    }

    /// The pool of a claim, or of a cluster.
    pub fn pool_of(&self, kind: Kind, key: &Key) -> Result<Option<Key>, Refusal> {
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
