//! The free addresses of a pool as stretches, kept beside the leases: found, taken and given back in
//! the time that an index needs.

use rusqlite::{Connection, OptionalExtension, Rows, params};

use crate::model::address::{Addr, Stretch};
use crate::model::ip_pool::IpPool;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::addresses::unreadable;

/// As many as are read at once.
const SOME: i64 = 64;

pub fn is_listed(conn: &Connection, pool: i64) -> Result<bool, Refusal> {
    let sql = "SELECT listed FROM ip_count WHERE pool = ?1";
    let found = conn.prepare_cached(sql)?.query_row([pool], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or_default())
}

fn set_listed(conn: &Connection, pool: i64, listed: bool) -> Result<(), Refusal> {
    let sql = "UPDATE ip_count SET listed = ?2 WHERE pool = ?1";
    conn.prepare_cached(sql)?.execute(params![pool, listed])?;
    Ok(())
}

pub fn forget(conn: &Connection, pool: i64) -> Result<(), Refusal> {
    conn.prepare_cached("DELETE FROM ip_free WHERE pool = ?1")?.execute([pool])?;
    set_listed(conn, pool, false)
}

/// Makes the list anew.
pub fn list(conn: &Connection, pool: i64, of: &IpPool) -> Result<(), Refusal> {
    forget(conn, pool)?;
    let mut insert = conn
        .prepare_cached("INSERT INTO ip_free (pool, entry, start, stop) VALUES (?1, ?2, ?3, ?4)")?;
    for (entry, one) in gaps(conn, pool, of)? {
        insert.execute(params![pool, number(entry), one.start.key(), one.end.key()])?;
    }
    set_listed(conn, pool, true)
}

/// What is open and neither leased, in this pool or another, nor released where that matters.
pub fn gaps(conn: &Connection, pool: i64, of: &IpPool) -> Result<Vec<(usize, Stretch)>, Refusal> {
    let sql = "SELECT l.address FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
               WHERE s.namespace = ?2 AND l.address BETWEEN ?3 AND ?4 \
               UNION SELECT address FROM ip_released WHERE ?5 AND pool = ?1 \
               AND address BETWEEN ?3 AND ?4 ORDER BY 1";
    let (mut statement, mut found) = (conn.prepare_cached(sql)?, Vec::new());
    for (entry, range) in of.open() {
        let (mut from, namespace) = (Some(range.start), &of.metadata.namespace);
        let (start, end, remembers) = (range.start.key(), range.end.key(), of.remembers());
        let mut rows = statement.query(params![pool, namespace, start, end, remembers])?;
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(0)?;
            let used = read_address(&key)?;
            let Some(start) = from else { continue };
            if used > start {
                found.push((entry, Stretch { start, end: Addr(used.0 - 1) }));
            }
            from = used.0.checked_add(1).map(Addr);
        }
        let left = from.filter(|start| *start <= range.end);
        found.extend(left.map(|start| (entry, Stretch { start, end: range.end })));
    }
    Ok(found)
}

const RESTED: &str = "SELECT address, released FROM ip_released r WHERE pool = ?1 \
    AND released <= ?2 AND NOT EXISTS (SELECT 1 FROM ip_lease l WHERE l.address = r.address \
    AND l.scope = (SELECT id FROM ip_scope WHERE namespace = ?3))";

/// Some of those that were released before a time, the longest free first.
pub fn rested(
    conn: &Connection,
    pool: &IpPool,
    before: Time,
    after: Option<(Addr, Time)>,
) -> Result<Vec<(Addr, Time)>, Refusal> {
    let sql =
        format!("{RESTED} AND (released, address) > (?4, ?5) ORDER BY released, address LIMIT ?6");
    let (address, released) =
        after.map_or((Vec::new(), i64::MIN), |(address, released)| (address.key(), released.0));
    let meta = &pool.metadata;
    let mut statement = conn.prepare_cached(&sql)?;
    let who = params![meta.id, before.0, meta.namespace, released, address, SOME];
    let mut rows = statement.query(who)?;
    read(&mut rows)
}

/// The same in the order of the pool's ranges.
pub fn rested_in_order(
    conn: &Connection,
    pool: &IpPool,
    before: Time,
    after: Option<(Addr, Time)>,
) -> Result<Vec<(Addr, Time)>, Refusal> {
    let sql = format!("{RESTED} AND address BETWEEN ?4 AND ?5 ORDER BY address LIMIT ?6");
    let (mut statement, meta) = (conn.prepare_cached(&sql)?, &pool.metadata);
    let open = pool.open();
    let last = after.map(|(address, _)| address);
    let from = open.iter().position(|(_, range)| last.is_some_and(|last| range.has(last)));
    for (_, range) in open.iter().skip(from.unwrap_or_default()) {
        let last = last.filter(|last| range.has(*last));
        let next = last.map_or(Some(range.start), |last| last.0.checked_add(1).map(Addr));
        let Some(first) = next else { continue };
        let (first, end) = (first.key(), range.end.key());
        let who = params![meta.id, before.0, meta.namespace, first, end, SOME];
        let found = read(&mut statement.query(who)?)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn read(rows: &mut Rows<'_>) -> Result<Vec<(Addr, Time)>, Refusal> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(0)?;
        found.push((read_address(&key)?, Time(row.get(1)?)));
    }
    Ok(found)
}

fn read_address(key: &[u8]) -> Result<Addr, Refusal> {
    Addr::from_key(key).ok_or_else(|| unreadable("no address"))
}

fn number(entry: usize) -> i64 {
    i64::try_from(entry).unwrap_or(i64::MAX)
}

/// Some of the list in order, after an address.
pub fn some(
    conn: &Connection,
    pool: i64,
    of: &IpPool,
    after: Option<Addr>,
) -> Result<Vec<Stretch>, Refusal> {
    let entry = after.and_then(|after| of.entry_of(after)).map_or(-1, number);
    let sql = "SELECT start, stop FROM ip_free WHERE pool = ?1 AND (entry, start) > (?2, ?3) \
               ORDER BY entry, start LIMIT ?4";
    let mut statement = conn.prepare_cached(sql)?;
    let after = after.map(Addr::key).unwrap_or_default();
    let mut rows = statement.query(params![pool, entry, after, SOME])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (start, end): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
        found.push(Stretch { start: read_address(&start)?, end: read_address(&end)? });
    }
    Ok(found)
}

/// The stretch that an address lies in or, at its edge, follows.
fn around(
    conn: &Connection,
    pool: i64,
    entry: usize,
    address: Addr,
) -> Result<Option<Stretch>, Refusal> {
    let sql = "SELECT start, stop FROM ip_free WHERE pool = ?1 AND entry = ?2 AND start <= ?3 \
               ORDER BY start DESC LIMIT 1";
    let found: Option<(Vec<u8>, Vec<u8>)> = conn
        .prepare_cached(sql)?
        .query_row(params![pool, number(entry), address.key()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((start, end)) = found else { return Ok(None) };
    Ok(Some(Stretch { start: read_address(&start)?, end: read_address(&end)? }))
}

fn drop_one(conn: &Connection, pool: i64, entry: usize, one: Stretch) -> Result<(), Refusal> {
    let sql = "DELETE FROM ip_free WHERE pool = ?1 AND entry = ?2 AND start = ?3";
    conn.prepare_cached(sql)?.execute(params![pool, number(entry), one.start.key()])?;
    Ok(())
}

fn put(conn: &Connection, pool: i64, entry: usize, one: Stretch) -> Result<(), Refusal> {
    let sql = "INSERT INTO ip_free (pool, entry, start, stop) VALUES (?1, ?2, ?3, ?4)";
    let what = params![pool, number(entry), one.start.key(), one.end.key()];
    conn.prepare_cached(sql)?.execute(what)?;
    Ok(())
}

/// An address is free no more.
pub fn take(conn: &Connection, pool: i64, of: &IpPool, address: Addr) -> Result<(), Refusal> {
    let Some(entry) = of.entry_of(address) else { return Ok(()) };
    if !is_listed(conn, pool)? {
        return Ok(());
    }
    let found = around(conn, pool, entry, address)?.filter(|found| found.has(address));
    let Some(found) = found else { return Ok(()) };
    drop_one(conn, pool, entry, found)?;
    for left in found.without(&[Stretch::one(address)]) {
        put(conn, pool, entry, left)?;
    }
    Ok(())
}

/// An address is free again, if anybody may have it.
pub fn give_back(conn: &Connection, pool: i64, of: &IpPool, address: Addr) -> Result<(), Refusal> {
    let open = of.open().into_iter().find(|(_, range)| range.has(address));
    let Some((entry, _)) = open else { return Ok(()) };
    if !is_listed(conn, pool)? {
        return Ok(());
    }
    let mut whole = Stretch::one(address);
    let before = around(conn, pool, entry, address)?;
    if before.is_some_and(|before| before.has(address)) {
        return Ok(());
    }
    if let Some(before) = before.filter(|before| before.end.0.checked_add(1) == Some(address.0)) {
        drop_one(conn, pool, entry, before)?;
        whole.start = before.start;
    }
    if let Some(next) = address.0.checked_add(1).map(Addr) {
        let after = around(conn, pool, entry, next)?.filter(|after| after.start == next);
        if let Some(after) = after {
            drop_one(conn, pool, entry, after)?;
            whole.end = after.end;
        }
    }
    put(conn, pool, entry, whole)
}

/// Whether the list is another than the leases make.
pub fn differs(conn: &Connection, pool: i64, of: &IpPool) -> Result<bool, Refusal> {
    let sql = "SELECT entry, start, stop FROM ip_free WHERE pool = ?1 ORDER BY entry, start";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([pool])?;
    let mut listed: Vec<(i64, Vec<u8>, Vec<u8>)> = Vec::new();
    while let Some(row) = rows.next()? {
        listed.push((row.get(0)?, row.get(1)?, row.get(2)?));
    }
    let mut is: Vec<(i64, Vec<u8>, Vec<u8>)> = gaps(conn, pool, of)?
        .into_iter()
        .map(|(entry, one)| (number(entry), one.start.key(), one.end.key()))
        .collect();
    is.sort();
    Ok(listed != is)
}
