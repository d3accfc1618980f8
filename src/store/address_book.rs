//! Who has which address and what is free, looked up as it is asked for. It gives no address away.

use rusqlite::{OptionalExtension, params};

use crate::model::address::{Addr, Stretch};
use crate::model::ip_pool::{IpPool, OVERLAP, Strategy};
use crate::model::refusal::Refusal;
use crate::model::state::AddressBook;
use crate::model::time::Time;

use super::documents::select_document;
use super::free_addresses::{
    compute_free_ranges, is_listed, select_listed_ranges, select_rested_by_address,
    select_rested_by_release,
};
use super::ip_counts;
use super::names::Names;

impl AddressBook for Names<'_> {
    fn holder(&self, namespace: &str, address: Addr) -> Option<String> {
        let sql = "SELECT l.claim FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
                   WHERE s.namespace = ?1 AND l.address = ?2";
        self.look_up(sql, params![namespace, address.key()])
    }

    fn free(&self, pool: &IpPool, after: Option<Addr>) -> Vec<Stretch> {
        let conn = self.store.conn();
        let pool_id = pool.metadata.id;
        self.keep_failure(|| {
            let kept = select_document::<IpPool>(conn, &pool.metadata.key())?;
            // An edit may have opened more than is listed; where pools overlap, another may have it.
            let is_as_listed = kept.is_some_and(|kept| {
                kept.open() == pool.open()
                    && kept.remembers() == pool.remembers()
                    && !kept.metadata.annotated(OVERLAP)
            });
            if is_as_listed && is_listed(conn, pool_id)? {
                return select_listed_ranges(conn, pool_id, pool, after);
            }
            // All at once: what is not listed is little, or new.
            if after.is_some() {
                return Ok(Vec::new());
            }
            let ranges = compute_free_ranges(conn, pool_id, pool)?;
            Ok(ranges.into_iter().map(|(_, range)| range).collect())
        })
    }

    fn released(&self, pool: &IpPool, address: Addr) -> Option<Time> {
        let sql = "SELECT released FROM ip_released WHERE pool = ?1 AND address = ?2";
        self.keep_failure(|| {
            let mut statement = self.store.conn().prepare_cached(sql)?;
            let values = params![pool.metadata.id, address.key()];
            let released: Option<i64> = statement.query_row(values, |row| row.get(0)).optional()?;
            Ok(released.map(Time))
        })
    }

    fn rested(
        &self,
        pool: &IpPool,
        before: Time,
        after: Option<(Addr, Time)>,
    ) -> Vec<(Addr, Time)> {
        let conn = self.store.conn();
        self.keep_failure(|| match pool.strategy() {
            Strategy::Sequential => select_rested_by_address(conn, pool, before, after),
            _ => select_rested_by_release(conn, pool, before, after),
        })
    }

    fn is_scarce(&self, pool: &IpPool) -> bool {
        self.keep_failure(|| ip_counts::is_scarce(self.store.conn(), pool.metadata.id, pool))
    }
}

impl Names<'_> {
    /// What was found; what went wrong is kept, and nothing counts as found.
    fn keep_failure<T: Default>(&self, look_up: impl FnOnce() -> Result<T, Refusal>) -> T {
        look_up().unwrap_or_else(|why| {
            *self.failed.borrow_mut() = Some(why);
            T::default()
        })
    }
}
