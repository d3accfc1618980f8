//! How many addresses a pool has, and how many of them are leased. Leases are counted when they are
//! made and removed. All of them are looked at only when their pool was changed, or when `doctor`
//! checks the counts.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use crate::model::address::{Addr, IpRange};
use crate::model::annotations::OVERLAP;
use crate::model::ip_pool::IpPool;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;
use super::ip_leases::select_lease_of_address;

/// Every integer up to this has an exact JSON number (IEEE 754, binary64).
const MAX_EXACT_NUMBER: u128 = 1 << 53;

/// Free addresses are scarce if there are fewer than this, or fewer than a 1024th of all.
const FEW_ADDRESSES: u128 = 4096;

/// How many addresses a pool has, as its status shows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressCounts {
    /// Addresses of its ranges that a machine can have, and pre-allocated ones outside of the
    /// ranges.
    pub total: u128,
    /// Leases of the pool.
    pub used: u128,
    /// Addresses that are reserved or pre-allocated, and not leased.
    pub reserved: u128,
    /// Addresses that were released, and that nobody may be given yet.
    pub resting: u128,
    /// Addresses that anybody may be given.
    pub free: u128,
    /// Leases whose addresses are not among `total`.
    pub outside: u128,
}

/// The leases of a pool, as counted in its row or in the leases themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LeaseCounts {
    pub used: i64,
    /// Those whose addresses are not among the addresses of the pool.
    pub outside: i64,
}

impl AddressCounts {
    /// The counts as they are in `status.ipAddresses`.
    pub(super) fn to_document(self) -> Value {
        json!({
            "total": count_to_json(self.total),
            "used": count_to_json(self.used),
            "free": count_to_json(self.free),
            "reserved": count_to_json(self.reserved),
            "resting": count_to_json(self.resting),
            "outOfRange": count_to_json(self.outside),
        })
    }
}

/// A number, or a string where no JSON number is exact.
fn count_to_json(count: u128) -> Value {
    match u64::try_from(count) {
        Ok(number) if count <= MAX_EXACT_NUMBER => Value::from(number),
        _ => Value::from(count.to_string()),
    }
}

/// The number of addresses in ranges that do not overlap.
fn total_size(ranges: impl IntoIterator<Item = IpRange>) -> u128 {
    ranges.into_iter().fold(0_u128, |sum, range| sum.saturating_add(range.address_count()))
}

fn contains(ranges: &[IpRange], address: Addr) -> bool {
    ranges.iter().any(|range| range.contains(address))
}

/// Whose leases are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeasedBy {
    Pool,
    OtherPools,
}

impl Store {
    /// Counts the addresses of a pool, and says when a lease of it last came or went. The counts
    /// are exact for pools of any size, although not every lease is looked at.
    pub fn count_addresses(&self, pool: &IpPool) -> Result<(AddressCounts, Option<Time>), Refusal> {
        let sql = "SELECT used, outside, updated FROM ip_count WHERE pool = ?1";
        let (used, outside, updated): (i64, i64, Option<i64>) = self
            .conn()
            .prepare_cached(sql)?
            .query_row([pool.metadata.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let usable: Vec<IpRange> =
            pool.usable_ranges().into_iter().map(|(_, range)| range).collect();
        let open: Vec<IpRange> =
            pool.leasable_ranges().into_iter().map(|(_, range)| range).collect();
        let pre_allocated = pool.pre_allocated_addresses().map(|(_, address)| address);
        let outside_ranges = pre_allocated.filter(|address| !contains(&usable, *address)).count();
        let total = total_size(usable.iter().copied()).saturating_add(outside_ranges as u128);
        // What is not open is reserved or pre-allocated. Leased addresses of these count as used.
        let closed = total.saturating_sub(total_size(open.iter().copied()));
        let reserved = closed.saturating_sub(self.count_leases_of_closed(pool, &usable)?);
        let used = u128::from(used.unsigned_abs());
        let outside = u128::from(outside.unsigned_abs());
        let inside = used.saturating_sub(outside);
        let by_other_pools = self.count_leases_by_other_pools(pool, &open)?;
        let resting = self.count_resting(pool, &open)?;
        let taken = inside.saturating_add(by_other_pools).saturating_add(resting);
        let free = total.saturating_sub(taken).saturating_sub(reserved);
        Ok((AddressCounts { total, used, reserved, resting, free, outside }, updated.map(Time)))
    }

    /// Counts the addresses of a pool that rest after their last use. Those that are reserved or
    /// pre-allocated meanwhile are counted as such.
    fn count_resting(&self, pool: &IpPool, open: &[IpRange]) -> Result<u128, Refusal> {
        let delay = pool.reuse_delay();
        if delay.0 == 0 {
            return Ok(0);
        }
        let rested_since = self.time()?.0.saturating_sub(delay.0);
        let sql = "SELECT address FROM ip_released WHERE pool = ?1 AND released > ?2";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut rows = statement.query(params![pool.metadata.id, rested_since])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(0)?;
            let address = Addr::from_key(&key);
            count += u128::from(address.is_some_and(|address| contains(open, address)));
        }
        Ok(count)
    }

    /// Counts the leases of a pool on its reserved and pre-allocated addresses.
    fn count_leases_of_closed(&self, pool: &IpPool, usable: &[IpRange]) -> Result<u128, Refusal> {
        let reserved: Vec<IpRange> =
            pool.reserved_ranges().into_iter().map(|(range, _)| range).collect();
        let mut count = 0;
        for (index, range) in reserved.iter().enumerate() {
            // Addresses that two ranges reserve count once.
            for part in range.subtract(&reserved[..index]) {
                count += self.count_leases_within(pool, part, usable, LeasedBy::Pool)?;
            }
        }
        for (_, address) in pool.pre_allocated_addresses() {
            if contains(usable, address) && contains(&reserved, address) {
                continue;
            }
            let lease = select_lease_of_address(self.conn(), &pool.metadata.namespace, address)?;
            count += u128::from(lease.is_some_and(|lease| lease.pool == pool.metadata.name));
        }
        Ok(count)
    }

    /// Counts the leases of other pools on the open addresses of this one. There are none unless
    /// pools overlap or have leases outside of their ranges.
    fn count_leases_by_other_pools(
        &self,
        pool: &IpPool,
        open: &[IpRange],
    ) -> Result<u128, Refusal> {
        let meta = &pool.metadata;
        let sql = "SELECT EXISTS (SELECT 1 FROM ip_count c CROSS JOIN ip_pool p ON p.id = c.pool \
                   WHERE c.outside > 0 AND c.pool <> ?2 AND p.namespace = ?1)";
        let values = params![meta.namespace, meta.id];
        let others_lease_outside: bool =
            self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
        let mut count = 0;
        if others_lease_outside || meta.has_true_annotation(OVERLAP) {
            for range in open {
                count += self.count_leases_within(pool, *range, &[*range], LeasedBy::OtherPools)?;
            }
        }
        Ok(count)
    }

    /// Counts the leases in those parts of a range that are usable: those of the pool, or those of
    /// all other pools of its namespace.
    fn count_leases_within(
        &self,
        pool: &IpPool,
        range: IpRange,
        usable: &[IpRange],
        leased_by: LeasedBy,
    ) -> Result<u128, Refusal> {
        let sql = "SELECT count(*) FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
                   WHERE s.namespace = ?1 AND (l.pool = ?2) = ?5 AND l.address BETWEEN ?3 AND ?4";
        let mut statement = self.conn().prepare_cached(sql)?;
        let meta = &pool.metadata;
        let by_pool = leased_by == LeasedBy::Pool;
        let mut sum = 0;
        for part in usable.iter().filter(|part| part.overlaps(range)) {
            let start = part.start.max(range.start).to_key();
            let end = part.end.min(range.end).to_key();
            let values = params![meta.namespace, meta.id, start, end, by_pool];
            let count: i64 = statement.query_row(values, |row| row.get(0))?;
            sum += u128::from(count.unsigned_abs());
        }
        Ok(sum)
    }
}

/// Inserts the row of a new pool, and leaves one that is there as it is.
pub fn insert_count_row(conn: &Connection, pool_id: i64) -> Result<(), Refusal> {
    let sql = "INSERT OR IGNORE INTO ip_count VALUES (?1, 0, 0, 0, NULL)";
    conn.prepare_cached(sql)?.execute([pool_id])?;
    Ok(())
}

/// Counts a lease that was made (`change` is 1) or removed (-1).
pub fn count_lease(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
    address: Addr,
    change: i64,
    now: Time,
) -> Result<(), Refusal> {
    let outside = if is_inside(pool, address) { 0 } else { change };
    let sql = "UPDATE ip_count SET used = used + ?2, outside = outside + ?3, \
               updated = max(coalesce(updated, 0), ?4) WHERE pool = ?1";
    conn.prepare_cached(sql)?.execute(params![pool_id, change, outside, now.0])?;
    Ok(())
}

/// Whether an address is among those of a pool: usable, or pre-allocated.
fn is_inside(pool: &IpPool, address: Addr) -> bool {
    // There may be many pre-allocated addresses, and most of them are in a range.
    pool.usable_ranges().iter().any(|(_, range)| range.contains(address))
        || pool.pre_allocated_addresses().any(|(_, pre_allocated)| pre_allocated == address)
}

/// Counts the leases of a pool that was changed anew.
pub fn recount_leases(conn: &Connection, pool_id: i64, pool: &IpPool) -> Result<(), Refusal> {
    let counted = tally_leases(conn, pool_id, pool)?;
    let sql = "UPDATE ip_count SET used = ?2, outside = ?3 WHERE pool = ?1";
    conn.prepare_cached(sql)?.execute(params![pool_id, counted.used, counted.outside])?;
    Ok(())
}

/// The leases of a pool as its row counts them; -1 if it has no row, which is never right.
pub fn select_lease_counts(conn: &Connection, pool_id: i64) -> Result<LeaseCounts, Refusal> {
    let sql = "SELECT used, outside FROM ip_count WHERE pool = ?1";
    let counts = conn
        .prepare_cached(sql)?
        .query_row([pool_id], |row| Ok(LeaseCounts { used: row.get(0)?, outside: row.get(1)? }));
    Ok(counts.optional()?.unwrap_or(LeaseCounts { used: -1, outside: -1 }))
}

/// Puts the row of a pool right, which has no list of its free addresses then.
pub fn replace_lease_counts(
    conn: &Connection,
    pool_id: i64,
    counts: LeaseCounts,
) -> Result<(), Refusal> {
    let sql = "INSERT OR REPLACE INTO ip_count VALUES (?1, ?2, ?3, 0, \
               (SELECT updated FROM ip_count WHERE pool = ?1))";
    conn.prepare_cached(sql)?.execute(params![pool_id, counts.used, counts.outside])?;
    Ok(())
}

/// Counts the leases of a pool by looking at all of them.
pub fn tally_leases(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
) -> Result<LeaseCounts, Refusal> {
    let mut counts = LeaseCounts { used: 0, outside: 0 };
    let mut statement = conn.prepare_cached("SELECT address FROM ip_lease WHERE pool = ?1")?;
    let mut rows = statement.query([pool_id])?;
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(0)?;
        counts.used += 1;
        if !Addr::from_key(&key).is_some_and(|address| is_inside(pool, address)) {
            counts.outside += 1;
        }
    }
    Ok(counts)
}

/// Whether the free addresses of a pool are so few that a random pool looks for them in a list.
pub fn is_scarce(conn: &Connection, pool_id: i64, pool: &IpPool) -> Result<bool, Refusal> {
    let total = total_size(pool.leasable_ranges().into_iter().map(|(_, range)| range));
    let sql = "SELECT used FROM ip_count WHERE pool = ?1";
    let used: Option<i64> =
        conn.prepare_cached(sql)?.query_row([pool_id], |row| row.get(0)).optional()?;
    let used = u128::from(used.unwrap_or_default().unsigned_abs());
    Ok(total.saturating_sub(used) < FEW_ADDRESSES.max(total / 1024))
}
