//! The book of addresses: who has which address, and which are free. Nothing here leases an
//! address; a plan takes one in its state, and the difference is written later.

use rusqlite::{OptionalExtension, params};

use crate::model::address::{Addr, IpRange};
use crate::model::annotations::OVERLAP;
use crate::model::ip_pool::{AllocationStrategy, IpPool};
use crate::model::meta::Key;
use crate::model::state::AddressBook;
use crate::model::time::Time;

use super::documents::select_document;
use super::free_addresses::{
    compute_free_ranges, has_free_list, select_listed_ranges, select_rested_by_address,
    select_rested_by_release,
};
use super::ip_counts;
use super::ip_leases::select_lease_by_given_name;
use super::names::StoredBooks;

impl AddressBook for StoredBooks<'_> {
    fn holder(&self, namespace: &str, address: Addr) -> Option<String> {
        let sql = "SELECT l.claim FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
                   WHERE s.namespace = ?1 AND l.address = ?2";
        self.look_up_name(sql, params![namespace, address.to_key()])
    }

    fn is_address_name_given(&self, namespace: &str, name: &str) -> bool {
        self.look_up(|conn| {
            let lease = select_lease_by_given_name(conn, &Key::new(namespace, name))?;
            Ok(lease.is_some())
        })
    }

    fn free_ranges(&self, pool: &IpPool, after: Option<Addr>) -> Vec<IpRange> {
        let pool_id = pool.metadata.id;
        self.look_up(|conn| {
            let kept_pool = select_document::<IpPool>(conn, &pool.metadata.key())?;
            // The list of free addresses is that of the pool as it is kept. An edit may have opened
            // further addresses, and where pools overlap, another pool may have leased some of
            // these.
            let is_as_listed = kept_pool.is_some_and(|kept_pool| {
                has_same_ranges(&kept_pool, pool)
                    && kept_pool.remembers_releases() == pool.remembers_releases()
                    && !kept_pool.metadata.has_true_annotation(OVERLAP)
            });
            if is_as_listed && has_free_list(conn, pool_id)? {
                return select_listed_ranges(conn, pool_id, pool, after);
            }
            // Without a list all ranges are returned by the first call, so there are none after
            // them.
            if after.is_some() {
                return Ok(Vec::new());
            }
            let ranges = compute_free_ranges(conn, pool_id, pool)?;
            Ok(ranges.into_iter().map(|(_, range)| range).collect())
        })
    }

    fn released_at(&self, pool: &IpPool, address: Addr) -> Option<Time> {
        let sql = "SELECT released FROM ip_released WHERE pool = ?1 AND address = ?2";
        self.look_up(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            let values = params![pool.metadata.id, address.to_key()];
            let released_at: Option<i64> =
                statement.query_row(values, |row| row.get(0)).optional()?;
            Ok(released_at.map(Time))
        })
    }

    fn released_addresses(
        &self,
        pool: &IpPool,
        before: Time,
        after: Option<(Addr, Time)>,
    ) -> Vec<(Addr, Time)> {
        self.look_up(|conn| match pool.strategy() {
            AllocationStrategy::Sequential => select_rested_by_address(conn, pool, before, after),
            _ => select_rested_by_release(conn, pool, before, after),
        })
    }

    fn is_scarce(&self, pool: &IpPool) -> bool {
        self.look_up(|conn| ip_counts::is_scarce(conn, pool.metadata.id, pool))
    }
}

/// Whether two versions of a pool lease the same addresses. To compute these takes long if many are
/// pre-allocated, and mostly nothing has changed.
fn has_same_ranges(pool: &IpPool, other_version: &IpPool) -> bool {
    let is_unchanged = pool.spec == other_version.spec
        && pool.metadata.annotations == other_version.metadata.annotations;
    is_unchanged || pool.leasable_ranges() == other_version.leasable_ranges()
}
