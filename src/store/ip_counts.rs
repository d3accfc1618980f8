//! How many addresses a pool has and leases: counted with every lease, never by looking at all of
//! them but when a pool was changed or somebody doubts.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use crate::model::address::{Addr, Stretch};
use crate::model::ip_pool::{IpPool, OVERLAP};
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;
use super::ip_leases::select_lease_of_address;

/// JSON numbers are exact up to this.
const EXACT: u128 = 1 << 53;

/// Random pools list their free addresses when there are fewer than this, or than a 1024th.
const FEW: u128 = 4096;

/// How many addresses a pool has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub total: u128,
    pub used: u128,
    pub reserved: u128,
    pub free: u128,
    pub outside: u128,
}

impl Counts {
    pub(super) fn to_document(self) -> Value {
        let number = |count: u128| match u64::try_from(count) {
            Ok(small) if count <= EXACT => Value::from(small),
            _ => Value::from(count.to_string()),
        };
        json!({"total": number(self.total), "used": number(self.used), "free": number(self.free),
               "reserved": number(self.reserved), "outOfRange": number(self.outside)})
    }
}

fn total_size(ranges: impl IntoIterator<Item = Stretch>) -> u128 {
    ranges.into_iter().fold(0_u128, |sum, range| sum.saturating_add(range.size()))
}

fn contains(ranges: &[Stretch], address: Addr) -> bool {
    ranges.iter().any(|range| range.has(address))
}

impl Store {
    /// Exact at any size, and without looking at every lease.
    pub fn ip_counts(&self, pool: &IpPool) -> Result<(Counts, Option<Time>), Refusal> {
        let sql = "SELECT used, outside, updated FROM ip_count WHERE pool = ?1";
        let (used, outside, updated): (i64, i64, Option<i64>) = self
            .conn()
            .prepare_cached(sql)?
            .query_row([pool.metadata.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let usable: Vec<Stretch> = pool.usable().into_iter().map(|(_, range)| range).collect();
        let open: Vec<Stretch> = pool.open().into_iter().map(|(_, range)| range).collect();
        let pre_allocated = pool.pre_allocated().map(|(_, address)| address);
        let outside_ranges = pre_allocated.filter(|address| !contains(&usable, *address)).count();
        let total = total_size(usable.iter().copied()).saturating_add(outside_ranges as u128);
        // Kept from others: all that is not open, but for what is leased of it.
        let kept = total.saturating_sub(total_size(open.iter().copied()));
        let reserved = kept.saturating_sub(self.leased_of_kept(pool, &usable)?);
        let used = u128::from(used.unsigned_abs());
        let outside = u128::from(outside.unsigned_abs());
        let inside = used.saturating_sub(outside);
        let elsewhere = self.leased_elsewhere(pool, &open)?;
        let free = total.saturating_sub(inside + elsewhere).saturating_sub(reserved);
        Ok((Counts { total, used, reserved, free, outside }, updated.map(Time)))
    }

    /// What is leased of the reserved and the pre-allocated addresses of a pool.
    fn leased_of_kept(&self, pool: &IpPool, usable: &[Stretch]) -> Result<u128, Refusal> {
        let reserved: Vec<Stretch> = pool.reserved().into_iter().map(|(range, _)| range).collect();
        let mut count = 0;
        for (index, range) in reserved.iter().enumerate() {
            // What two of them reserve counts once.
            for part in range.without(&reserved[..index]) {
                count += self.leased_within(pool, part, usable, true)?;
            }
        }
        for (_, address) in pool.pre_allocated() {
            if contains(usable, address) && contains(&reserved, address) {
                continue;
            }
            let lease = select_lease_of_address(self.conn(), &pool.metadata.namespace, address)?;
            count += u128::from(lease.is_some_and(|lease| lease.pool == pool.metadata.name));
        }
        Ok(count)
    }

    /// What other pools lease of the open addresses of this one, which they do only where pools
    /// overlap or have leases out of their ranges.
    fn leased_elsewhere(&self, pool: &IpPool, open: &[Stretch]) -> Result<u128, Refusal> {
        let meta = &pool.metadata;
        let sql = "SELECT EXISTS (SELECT 1 FROM ip_count c CROSS JOIN ip_pool p ON p.id = c.pool \
                   WHERE c.outside > 0 AND c.pool <> ?2 AND p.namespace = ?1)";
        let values = params![meta.namespace, meta.id];
        let has_strays: bool =
            self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
        let mut count = 0;
        if has_strays || meta.annotated(OVERLAP) {
            for range in open {
                count += self.leased_within(pool, *range, &[*range], false)?;
            }
        }
        Ok(count)
    }

    /// Leases of a pool, or of others, in what of a range is usable.
    fn leased_within(
        &self,
        pool: &IpPool,
        range: Stretch,
        usable: &[Stretch],
        by_pool: bool,
    ) -> Result<u128, Refusal> {
        let sql = "SELECT count(*) FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
                   WHERE s.namespace = ?1 AND (l.pool = ?2) = ?5 AND l.address BETWEEN ?3 AND ?4";
        let mut statement = self.conn().prepare_cached(sql)?;
        let meta = &pool.metadata;
        let mut sum = 0;
        for part in usable.iter().filter(|part| part.meets(range)) {
            let start = part.start.max(range.start).key();
            let end = part.end.min(range.end).key();
            let values = params![meta.namespace, meta.id, start, end, by_pool];
            let count: i64 = statement.query_row(values, |row| row.get(0))?;
            sum += u128::from(count.unsigned_abs());
        }
        Ok(sum)
    }
}

/// The row of a pool that is new.
pub fn insert_count(conn: &Connection, pool_id: i64) -> Result<(), Refusal> {
    let sql = "INSERT OR IGNORE INTO ip_count VALUES (?1, 0, 0, 0, NULL)";
    conn.prepare_cached(sql)?.execute([pool_id])?;
    Ok(())
}

/// Counts a lease that was made (1) or removed (-1).
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

/// Whether an address is among those that a pool counts.
fn is_inside(pool: &IpPool, address: Addr) -> bool {
    let is_pre_allocated = pool.pre_allocated().any(|(_, other)| other == address);
    is_pre_allocated || pool.usable().iter().any(|(_, range)| range.has(address))
}

/// Counts anew: a pool was changed.
pub fn recount_leases(conn: &Connection, pool_id: i64, pool: &IpPool) -> Result<(), Refusal> {
    let (used, outside) = tally_leases(conn, pool_id, pool)?;
    let sql = "UPDATE ip_count SET used = ?2, outside = ?3 WHERE pool = ?1";
    conn.prepare_cached(sql)?.execute(params![pool_id, used, outside])?;
    Ok(())
}

/// All leases of a pool, and those outside of it, as its row says; -1 if it has none.
pub fn select_count(conn: &Connection, pool_id: i64) -> Result<(i64, i64), Refusal> {
    let sql = "SELECT used, outside FROM ip_count WHERE pool = ?1";
    let count =
        conn.prepare_cached(sql)?.query_row([pool_id], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(count.optional()?.unwrap_or((-1, -1)))
}

/// Puts right what the row of a pool says.
pub fn replace_count(
    conn: &Connection,
    pool_id: i64,
    used: i64,
    outside: i64,
) -> Result<(), Refusal> {
    let sql = "INSERT OR REPLACE INTO ip_count VALUES (?1, ?2, ?3, 0, \
               (SELECT updated FROM ip_count WHERE pool = ?1))";
    conn.prepare_cached(sql)?.execute(params![pool_id, used, outside])?;
    Ok(())
}

/// All leases of a pool, and those outside of it, as they are.
pub fn tally_leases(conn: &Connection, pool_id: i64, pool: &IpPool) -> Result<(i64, i64), Refusal> {
    let mut used = 0_i64;
    let mut outside = 0_i64;
    let mut statement = conn.prepare_cached("SELECT address FROM ip_lease WHERE pool = ?1")?;
    let mut rows = statement.query([pool_id])?;
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(0)?;
        used += 1;
        outside += i64::from(!Addr::from_key(&key).is_some_and(|address| is_inside(pool, address)));
    }
    Ok((used, outside))
}

/// Whether a pool has so few free addresses that they are looked for in a list.
pub fn is_scarce(conn: &Connection, pool_id: i64, pool: &IpPool) -> Result<bool, Refusal> {
    let total = total_size(pool.open().into_iter().map(|(_, range)| range));
    let sql = "SELECT used FROM ip_count WHERE pool = ?1";
    let used: Option<i64> =
        conn.prepare_cached(sql)?.query_row([pool_id], |row| row.get(0)).optional()?;
    let used = u128::from(used.unwrap_or_default().unsigned_abs());
    Ok(total.saturating_sub(used) < FEW.max(total / 1024))
}
