//! The list of a pool's free addresses, as ranges in the table `ip_free`. A range is found, taken
//! from and merged by means of an index. The list follows from the leases and can be built anew
//! from them; nothing here leases or releases an address.

use rusqlite::{Connection, OptionalExtension, Rows, params};

use crate::model::address::{Addr, IpRange};
use crate::model::ip_pool::{AllocationStrategy, IpPool};
use crate::model::range_set::RangeSet;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::ip_counts::is_scarce;
use super::ip_leases::read_address;

/// How many ranges or addresses one call returns at most.
const BATCH_SIZE: i64 = 64;

/// Whether a pool has a list of its free addresses.
pub fn has_free_list(conn: &Connection, pool_id: i64) -> Result<bool, Refusal> {
    let sql = "SELECT listed FROM ip_count WHERE pool = ?1";
    let listed = conn.prepare_cached(sql)?.query_row([pool_id], |row| row.get(0)).optional()?;
    Ok(listed.unwrap_or_default())
}

/// Removes the list of a pool. From then on its free addresses are found by looking at its leases.
pub fn remove_free_list(conn: &Connection, pool_id: i64) -> Result<(), Refusal> {
    conn.prepare_cached("DELETE FROM ip_free WHERE pool = ?1")?.execute([pool_id])?;
    conn.prepare_cached("UPDATE ip_count SET listed = 0 WHERE pool = ?1")?.execute([pool_id])?;
    Ok(())
}

/// Builds the list of a pool from its leases, in place of one that it has.
fn build_free_list(conn: &Connection, pool_id: i64, pool: &IpPool) -> Result<(), Refusal> {
    remove_free_list(conn, pool_id)?;
    let sql = "INSERT INTO ip_free (pool, entry, start, stop) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = conn.prepare_cached(sql)?;
    for (entry, range) in compute_free_ranges(conn, pool_id, pool)? {
        insert.execute(params![
            pool_id,
            entry_number(entry),
            range.start.to_key(),
            range.end.to_key()
        ])?;
    }
    conn.prepare_cached("UPDATE ip_count SET listed = 1 WHERE pool = ?1")?.execute([pool_id])?;
    Ok(())
}

/// Builds or removes the list of a pool, if that is due. A random pool needs a list only while its
/// free addresses are few, when drawing would seldom hit one; pools of other strategies always need
/// it.
pub fn build_or_remove_free_list(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
) -> Result<(), Refusal> {
    let needs_list =
        pool.strategy() != AllocationStrategy::Random || is_scarce(conn, pool_id, pool)?;
    match (needs_list, has_free_list(conn, pool_id)?) {
        (true, false) => build_free_list(conn, pool_id, pool),
        (false, true) => remove_free_list(conn, pool_id),
        _ => Ok(()),
    }
}

/// Computes the free ranges of a pool from the leases, each with the index of the entry of
/// `spec.pools` that it lies in. Free is what is open and leased neither by this pool nor by
/// another. Where the pool cares when addresses were released, released ones are left out: they
/// rest in a table of their own.
pub fn compute_free_ranges(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
) -> Result<Vec<(usize, IpRange)>, Refusal> {
    let sql = "SELECT l.address FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
               WHERE s.namespace = ?2 AND l.address BETWEEN ?3 AND ?4 \
               UNION SELECT address FROM ip_released WHERE ?5 AND pool = ?1 \
               AND address BETWEEN ?3 AND ?4 ORDER BY 1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut free_ranges = Vec::new();
    for (entry, range) in pool.leasable_ranges() {
        let namespace = &pool.metadata.namespace;
        let first = range.start.to_key();
        let last = range.end.to_key();
        let mut rows =
            statement.query(params![pool_id, namespace, first, last, pool.remembers_releases()])?;
        // Where the next free range begins; none after the last address that there is.
        let mut next_free = Some(range.start);
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(0)?;
            let used = read_address(&key)?;
            let Some(start) = next_free else { continue };
            if used > start {
                free_ranges.push((entry, IpRange { start, end: Addr(used.0 - 1) }));
            }
            next_free = used.0.checked_add(1).map(Addr);
        }
        if let Some(start) = next_free
            && start <= range.end
        {
            free_ranges.push((entry, IpRange { start, end: range.end }));
        }
    }
    Ok(free_ranges)
}

/// Selects the addresses of a pool (`?1`), of a namespace (`?3`), that were released up to a time
/// (`?2`) and are not leased.
const RESTED: &str = "SELECT address, released FROM ip_released r WHERE pool = ?1 \
    AND released <= ?2 AND NOT EXISTS (SELECT 1 FROM ip_lease l WHERE l.address = r.address \
    AND l.scope = (SELECT id FROM ip_scope WHERE namespace = ?3))";

/// Selects addresses that were released before a time, the first released first, after an address
/// and the time of its release if one is given.
pub fn select_rested_by_release(
    conn: &Connection,
    pool: &IpPool,
    before: Time,
    after: Option<(Addr, Time)>,
) -> Result<Vec<(Addr, Time)>, Refusal> {
    let sql =
        format!("{RESTED} AND (released, address) > (?4, ?5) ORDER BY released, address LIMIT ?6");
    let (address, released) =
        after.map_or((Vec::new(), i64::MIN), |(address, released)| (address.to_key(), released.0));
    let meta = &pool.metadata;
    let mut statement = conn.prepare_cached(&sql)?;
    let values = params![meta.id, before.0, meta.namespace, released, address, BATCH_SIZE];
    let mut rows = statement.query(values)?;
    read_released_addresses(&mut rows)
}

/// Selects addresses that were released before a time, in the order of the pool's ranges, after an
/// address if one is given.
pub fn select_rested_by_address(
    conn: &Connection,
    pool: &IpPool,
    before: Time,
    after: Option<(Addr, Time)>,
) -> Result<Vec<(Addr, Time)>, Refusal> {
    let sql = format!("{RESTED} AND address BETWEEN ?4 AND ?5 ORDER BY address LIMIT ?6");
    let mut statement = conn.prepare_cached(&sql)?;
    let meta = &pool.metadata;
    let open = pool.leasable_ranges();
    let last = after.map(|(address, _)| address);
    let first_range =
        open.iter().position(|(_, range)| last.is_some_and(|last| range.contains(last)));
    for (_, range) in open.iter().skip(first_range.unwrap_or_default()) {
        let start = match last.filter(|last| range.contains(*last)) {
            Some(last) => last.0.checked_add(1).map(Addr),
            None => Some(range.start),
        };
        // There is nothing after the last address that there is.
        let Some(start) = start else { continue };
        let start_key = start.to_key();
        let end_key = range.end.to_key();
        let values = params![meta.id, before.0, meta.namespace, start_key, end_key, BATCH_SIZE];
        let addresses = read_released_addresses(&mut statement.query(values)?)?;
        if !addresses.is_empty() {
            return Ok(addresses);
        }
    }
    Ok(Vec::new())
}

/// Reads rows of `RESTED`: addresses, each with the time of its release.
fn read_released_addresses(rows: &mut Rows<'_>) -> Result<Vec<(Addr, Time)>, Refusal> {
    let mut addresses = Vec::new();
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(0)?;
        addresses.push((read_address(&key)?, Time(row.get(1)?)));
    }
    Ok(addresses)
}

/// The index of an entry of `spec.pools`, as the column `entry` has it.
fn entry_number(entry: usize) -> i64 {
    i64::try_from(entry).unwrap_or(i64::MAX)
}

/// Selects ranges of the list in the order of the pool's entries, those after an address if one is
/// given.
pub fn select_listed_ranges(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
    after: Option<Addr>,
) -> Result<Vec<IpRange>, Refusal> {
    let entry = after.and_then(|after| pool.range_index_of(after)).map_or(-1, entry_number);
    let sql = "SELECT start, stop FROM ip_free WHERE pool = ?1 AND (entry, start) > (?2, ?3) \
               ORDER BY entry, start LIMIT ?4";
    let mut statement = conn.prepare_cached(sql)?;
    let after = after.map(Addr::to_key).unwrap_or_default();
    let mut rows = statement.query(params![pool_id, entry, after, BATCH_SIZE])?;
    let mut ranges = Vec::new();
    while let Some(row) = rows.next()? {
        let start: Vec<u8> = row.get(0)?;
        let end: Vec<u8> = row.get(1)?;
        ranges.push(IpRange { start: read_address(&start)?, end: read_address(&end)? });
    }
    Ok(ranges)
}

/// Selects the last listed range of an entry that begins at an address or before it. The address
/// lies in that range or after it.
fn select_range_before(
    conn: &Connection,
    pool_id: i64,
    entry: usize,
    address: Addr,
) -> Result<Option<IpRange>, Refusal> {
    let sql = "SELECT start, stop FROM ip_free WHERE pool = ?1 AND entry = ?2 AND start <= ?3 \
               ORDER BY start DESC LIMIT 1";
    let range: Option<(Vec<u8>, Vec<u8>)> = conn
        .prepare_cached(sql)?
        .query_row(params![pool_id, entry_number(entry), address.to_key()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((start, end)) = range else { return Ok(None) };
    Ok(Some(IpRange { start: read_address(&start)?, end: read_address(&end)? }))
}

/// Deletes the row of a free range, which is found by its entry and its first address.
fn delete_range(
    conn: &Connection,
    pool_id: i64,
    entry: usize,
    range: IpRange,
) -> Result<(), Refusal> {
    let sql = "DELETE FROM ip_free WHERE pool = ?1 AND entry = ?2 AND start = ?3";
    conn.prepare_cached(sql)?.execute(params![
        pool_id,
        entry_number(entry),
        range.start.to_key()
    ])?;
    Ok(())
}

/// Inserts a free range. The caller has merged it with its neighbours.
fn insert_range(
    conn: &Connection,
    pool_id: i64,
    entry: usize,
    range: IpRange,
) -> Result<(), Refusal> {
    let sql = "INSERT INTO ip_free (pool, entry, start, stop) VALUES (?1, ?2, ?3, ?4)";
    let values = params![pool_id, entry_number(entry), range.start.to_key(), range.end.to_key()];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Takes an address out of the list, if the pool has one.
pub fn take_from_free_list(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
    address: Addr,
) -> Result<(), Refusal> {
    let Some(entry) = pool.range_index_of(address) else { return Ok(()) };
    if !has_free_list(conn, pool_id)? {
        return Ok(());
    }
    let range = select_range_before(conn, pool_id, entry, address)?;
    let Some(range) = range.filter(|range| range.contains(address)) else { return Ok(()) };
    delete_range(conn, pool_id, entry, range)?;
    for remaining in range.subtract(&[IpRange::single(address)]) {
        insert_range(conn, pool_id, entry, remaining)?;
    }
    Ok(())
}

/// Puts an address back into the list, merged with the ranges before and after it. An address that
/// is reserved, pre-allocated or outside of the pool is not open to everybody and stays out of the
/// list.
pub fn return_to_free_list(
    conn: &Connection,
    pool_id: i64,
    open_ranges: &RangeSet,
    address: Addr,
) -> Result<(), Refusal> {
    let Some(entry) = open_ranges.entry_of(address) else { return Ok(()) };
    if !has_free_list(conn, pool_id)? {
        return Ok(());
    }
    let mut merged = IpRange::single(address);
    let before = select_range_before(conn, pool_id, entry, address)?;
    if before.is_some_and(|before| before.contains(address)) {
        return Ok(());
    }
    if let Some(before) = before.filter(|before| before.end.0.checked_add(1) == Some(address.0)) {
        delete_range(conn, pool_id, entry, before)?;
        merged.start = before.start;
    }
    if let Some(next) = address.0.checked_add(1).map(Addr) {
        let after = select_range_before(conn, pool_id, entry, next)?;
        if let Some(after) = after.filter(|after| after.start == next) {
            delete_range(conn, pool_id, entry, after)?;
            merged.end = after.end;
        }
    }
    insert_range(conn, pool_id, entry, merged)
}

/// A row of a list of free addresses. Rows sort by entry, then by address.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FreeListRow {
    /// The index of the entry of `spec.pools` that the range lies in.
    entry: i64,
    /// The first address, as a key.
    start: Vec<u8>,
    /// The last address, as a key.
    stop: Vec<u8>,
}

/// Whether the list of a pool differs from what the leases leave free.
pub fn is_free_list_wrong(conn: &Connection, pool_id: i64, pool: &IpPool) -> Result<bool, Refusal> {
    let sql = "SELECT entry, start, stop FROM ip_free WHERE pool = ?1 ORDER BY entry, start";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([pool_id])?;
    let mut listed: Vec<FreeListRow> = Vec::new();
    while let Some(row) = rows.next()? {
        listed.push(FreeListRow { entry: row.get(0)?, start: row.get(1)?, stop: row.get(2)? });
    }
    let mut computed: Vec<FreeListRow> = Vec::new();
    for (entry, range) in compute_free_ranges(conn, pool_id, pool)? {
        let start = range.start.to_key();
        let stop = range.end.to_key();
        computed.push(FreeListRow { entry: entry_number(entry), start, stop });
    }
    computed.sort_unstable();
    Ok(listed != computed)
}
