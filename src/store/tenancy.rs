//! Writes leases of addresses with what follows from them: counts, the list of free addresses, when
//! one was released, who had it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::address::Addr;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, Network, OVERLAP, Strategy, Tenant};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Change, Owner};
use crate::model::time::Time;

use super::addresses::{More, unreadable};
use super::documents;
use super::free;

/// Random pools list their free addresses when there are fewer than this, or than a 1024th.
const FEW: u128 = 4096;

/// Writes what changed of leases and pools, and what follows.
pub fn write(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
    now: Time,
) -> Result<(), Refusal> {
    let mut changed = Vec::new();
    for change in state.ip_pools.difference().filter(|change| change.is_of(owner)) {
        let id = documents::write(conn, &change)?;
        if let Some(after) = change.after {
            let sql = "INSERT OR IGNORE INTO ip_count VALUES (?1, 0, 0, 0, NULL)";
            conn.prepare_cached(sql)?.execute([id])?;
            for one in &after.status.history {
                ended(conn, id, after, one)?;
            }
            if change.before.is_none_or(|before| lists_otherwise(before, after)) {
                changed.push((id, after.clone()));
            }
        }
    }
    let mut pools = Pools { conn, known: Vec::new() };
    let gone = |change: &&Change<'_, IpLease>| {
        change.before.is_some_and(|one| Some(one.address) != change.after.map(|one| one.address))
    };
    let all: Vec<Change<'_, IpLease>> =
        state.ip_leases.difference().filter(|change| change.is_of(owner)).collect();
    // What is given back goes first: another may take it.
    for change in all.iter().filter(gone) {
        if let Some(before) = change.before {
            remove(&mut pools, before, now)?;
        }
    }
    for change in &all {
        if let Some(after) = change.after {
            insert(&mut pools, change.before, after)?;
        }
    }
    for (id, pool) in &changed {
        if !pool.remembers() {
            conn.prepare_cached("DELETE FROM ip_released WHERE pool = ?1")?.execute([id])?;
        }
        recount(conn, *id, pool)?;
        free::forget(conn, *id)?;
    }
    let touched: Vec<(i64, IpPool)> = pools.known.into_iter().chain(changed).collect();
    for (id, pool) in &touched {
        keep_list(conn, *id, pool)?;
    }
    Ok(())
}

/// Whether what is counted and listed of a pool changes with it.
fn lists_otherwise(before: &IpPool, after: &IpPool) -> bool {
    before.spec != after.spec
        || before.open() != after.open()
        || before.remembers() != after.remembers()
        || before.metadata.annotated(OVERLAP) != after.metadata.annotated(OVERLAP)
}

/// Pools whose leases change, with their ids.
struct Pools<'a> {
    conn: &'a Connection,
    known: Vec<(i64, IpPool)>,
}

impl Pools<'_> {
    fn of(&mut self, one: &IpLease) -> Result<(i64, IpPool), Refusal> {
        let key = one.pool_key();
        if let Some(known) = self.known.iter().find(|(_, pool)| pool.metadata.key() == key) {
            return Ok(known.clone());
        }
        let found: IpPool = documents::one(self.conn, &key)?.ok_or_else(|| {
            Refusal::not_found(format!(
                "there is no IPPool `{}` in namespace `{}`",
                key.name, key.namespace
            ))
        })?;
        self.known.push((found.metadata.id, found.clone()));
        Ok((found.metadata.id, found))
    }
}

fn remove(pools: &mut Pools<'_>, before: &IpLease, now: Time) -> Result<(), Refusal> {
    let conn = pools.conn;
    let Some(address) = before.address else {
        conn.prepare_cached("DELETE FROM ip_wait WHERE id = ?1")?.execute([before.id])?;
        return Ok(());
    };
    let (id, pool) = pools.of(before)?;
    let scope = scope_of(conn, &before.namespace)?;
    let sql = "DELETE FROM ip_lease WHERE scope = ?1 AND address = ?2";
    conn.prepare_cached(sql)?.execute(params![scope, address.key()])?;
    let tenant = Tenant {
        namespace: before.namespace.clone(),
        address,
        pool: before.pool.clone(),
        claim: before.claim.clone(),
        since: before.leased.unwrap_or(before.created),
        until: Some(now),
    };
    ended(conn, id, &pool, &tenant)?;
    count(conn, id, &pool, address, -1, now)?;
    if !pool.remembers() {
        free::give_back(conn, id, &pool, address)?;
    }
    Ok(())
}

/// Somebody had an address, which rests from then on where that matters.
fn ended(conn: &Connection, id: i64, pool: &IpPool, one: &Tenant) -> Result<(), Refusal> {
    let Some(until) = one.until else { return Ok(()) };
    let scope = scope_of(conn, &pool.metadata.namespace)?;
    let sql = "INSERT INTO ip_history (scope, address, pool, claim, since, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let who = params![scope, one.address.key(), one.pool, one.claim, one.since.0, until.0];
    conn.prepare_cached(sql)?.execute(who)?;
    if pool.remembers() && one.pool == pool.metadata.name {
        let sql = "INSERT OR REPLACE INTO ip_released VALUES (?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![id, one.address.key(), until.0])?;
    }
    Ok(())
}

fn insert(pools: &mut Pools<'_>, before: Option<&IpLease>, after: &IpLease) -> Result<(), Refusal> {
    let (conn, more) = (pools.conn, More::of(after));
    let Some(address) = after.address else {
        let created = after.created.0.div_euclid(1_000_000);
        if before.is_some_and(|before| before.address.is_none()) {
            let sql = "UPDATE ip_wait SET more = ?2 WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![after.id, more.text()?])?;
            return Ok(());
        }
        let sql = "INSERT INTO ip_wait (namespace, claim, pool, created, more) VALUES (?1, ?2, ?3, ?4, ?5)";
        let what = params![after.namespace, after.claim, after.pool, created, more.text()?];
        conn.prepare_cached(sql)?.execute(what)?;
        return Ok(());
    };
    let scope = scope_of(conn, &after.namespace)?;
    let text = if more == More::default() { None } else { Some(more.text()?) };
    let network = network_of(conn, &after.network)?;
    if before.is_some_and(|before| before.address == after.address) {
        let sql = "UPDATE ip_lease SET network = ?3, more = ?4 WHERE scope = ?1 AND address = ?2";
        conn.prepare_cached(sql)?.execute(params![scope, address.key(), network, text])?;
        return Ok(());
    }
    let (id, pool) = pools.of(after)?;
    let sql = "INSERT INTO ip_lease VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let created = after.created.0.div_euclid(1_000_000);
    let what = params![scope, address.key(), id, after.claim, network, created, text];
    conn.prepare_cached(sql)?.execute(what)?;
    count(conn, id, &pool, address, 1, after.leased.unwrap_or(after.created))?;
    let sql = "DELETE FROM ip_released WHERE pool = ?1 AND address = ?2";
    conn.prepare_cached(sql)?.execute(params![id, address.key()])?;
    free::take(conn, id, &pool, address)
}

fn scope_of(conn: &Connection, namespace: &str) -> Result<i64, Refusal> {
    let sql = "SELECT id FROM ip_scope WHERE namespace = ?1";
    let known = conn.prepare_cached(sql)?.query_row([namespace], |row| row.get(0)).optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    conn.prepare_cached("INSERT INTO ip_scope (namespace) VALUES (?1)")?.execute([namespace])?;
    Ok(conn.last_insert_rowid())
}

fn network_of(conn: &Connection, network: &Network) -> Result<i64, Refusal> {
    let body = serde_json::to_string(network).map_err(unreadable)?;
    let sql = "SELECT id FROM ip_network WHERE body = ?1";
    let known = conn.prepare_cached(sql)?.query_row([&body], |row| row.get(0)).optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    conn.prepare_cached("INSERT INTO ip_network (body) VALUES (?1)")?.execute([&body])?;
    Ok(conn.last_insert_rowid())
}

fn count(
    conn: &Connection,
    id: i64,
    pool: &IpPool,
    address: Addr,
    by: i64,
    now: Time,
) -> Result<(), Refusal> {
    let outside = if is_inside(pool, address) { 0 } else { by };
    let sql = "UPDATE ip_count SET used = used + ?2, outside = outside + ?3, \
               updated = max(coalesce(updated, 0), ?4) WHERE pool = ?1";
    conn.prepare_cached(sql)?.execute(params![id, by, outside, now.0])?;
    Ok(())
}

/// Whether an address is among those that a pool counts.
pub fn is_inside(pool: &IpPool, address: Addr) -> bool {
    let pre = pool.pre_allocated().any(|(_, pre)| pre == address);
    pre || pool.usable().iter().any(|(_, range)| range.has(address))
}

/// Counts anew: a pool was changed, or somebody doubts.
pub fn recount(conn: &Connection, id: i64, pool: &IpPool) -> Result<(), Refusal> {
    let (used, outside) = tally(conn, id, pool)?;
    let sql = "UPDATE ip_count SET used = ?2, outside = ?3 WHERE pool = ?1";
    conn.prepare_cached(sql)?.execute(params![id, used, outside])?;
    Ok(())
}

/// All leases of a pool, and those outside of it.
fn tally(conn: &Connection, id: i64, pool: &IpPool) -> Result<(i64, i64), Refusal> {
    let (mut used, mut outside) = (0_i64, 0_i64);
    let mut statement = conn.prepare_cached("SELECT address FROM ip_lease WHERE pool = ?1")?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(0)?;
        used += 1;
        outside += i64::from(!Addr::from_key(&key).is_some_and(|address| is_inside(pool, address)));
    }
    Ok((used, outside))
}

/// Whether a pool has so few free addresses that they are looked for in a list.
pub fn is_scarce(conn: &Connection, id: i64, pool: &IpPool) -> Result<bool, Refusal> {
    let total = pool.open().iter().fold(0_u128, |sum, (_, one)| sum.saturating_add(one.size()));
    let sql = "SELECT used FROM ip_count WHERE pool = ?1";
    let used: Option<i64> =
        conn.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
    let used = u128::from(used.unwrap_or_default().unsigned_abs());
    Ok(total.saturating_sub(used) < FEW.max(total / 1024))
}

/// Sequential pools list their free addresses; random ones only while they are few.
fn keep_list(conn: &Connection, id: i64, pool: &IpPool) -> Result<(), Refusal> {
    let needs = pool.strategy() != Strategy::Random || is_scarce(conn, id, pool)?;
    match (needs, free::is_listed(conn, id)?) {
        (true, false) => free::list(conn, id, pool),
        (false, true) => free::forget(conn, id),
        _ => Ok(()),
    }
}

/// What is counted or listed otherwise than the leases say; mended if asked to.
pub fn check(conn: &Connection, mend: bool) -> Result<Vec<String>, Refusal> {
    let mut found = Vec::new();
    for pool in documents::all::<IpPool>(conn, None)? {
        let (id, name) = (pool.metadata.id, pool.metadata.key());
        let counts = || -> Result<(i64, i64), Refusal> {
            let sql = "SELECT used, outside FROM ip_count WHERE pool = ?1";
            let who =
                conn.prepare_cached(sql)?.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)));
            Ok(who.optional()?.unwrap_or((-1, -1)))
        };
        let before = counts()?;
        let counted = tally(conn, id, &pool)?;
        if before != counted {
            let (was, is) = (before.0, counted.0);
            found.push(format!("IPPool `{name}` counts {was} leases and has {is}"));
        }
        // Where pools overlap, another has what is listed here.
        let alone = !pool.metadata.annotated(OVERLAP);
        if alone && free::is_listed(conn, id)? && free::differs(conn, id, &pool)? {
            found.push(format!("IPPool `{name}` lists other addresses as free than are"));
        }
        if mend {
            let sql = "INSERT OR REPLACE INTO ip_count VALUES (?1, ?2, ?3, 0, \
                       (SELECT updated FROM ip_count WHERE pool = ?1))";
            conn.prepare_cached(sql)?.execute(params![id, counted.0, counted.1])?;
            free::forget(conn, id)?;
            keep_list(conn, id, &pool)?;
        }
    }
    Ok(found)
}
