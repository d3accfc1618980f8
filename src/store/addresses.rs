//! Leases of addresses: loaded by claim, with the pools they are of and what those forbid.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde::{Deserialize, Serialize};

use crate::model::address::{Addr, Stretch};
use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::ip_lease::{IpLease, Notes};
use crate::model::ip_pool::IpPool;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::time::Time;

use super::documents::{self, need};
use super::load;

pub const LEASE: &str = "s.namespace, l.claim, p.name, l.address, n.body, l.created, l.more \
    FROM ip_lease l JOIN ip_scope s ON s.id = l.scope JOIN ip_pool p ON p.id = l.pool \
    JOIN ip_network n ON n.id = l.network";
pub const WAIT: &str = "namespace, claim, pool, created, more, id FROM ip_wait";

/// What few leases have.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    leased: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleting: Option<i64>,
    /// Nobody claimed it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_hand: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Box<Notes>>,
}

pub fn unreadable(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(Exit::State, "a lease of an address cannot be read").because(why.to_string())
}

impl More {
    pub fn of(one: &IpLease) -> Self {
        let (leased, deleting) = (one.leased.map(|time| time.0), one.deleting.map(|time| time.0));
        let notes = one.notes.clone().filter(|notes| **notes != Notes::default());
        Self { leased, deleting, by_hand: !one.claimed, error: one.error.clone(), notes }
    }

    pub fn text(&self) -> Result<String, Refusal> {
        serde_json::to_string(self).map_err(unreadable)
    }

    fn fill(self, one: &mut IpLease) {
        (one.leased, one.deleting) = (self.leased.map(Time), self.deleting.map(Time));
        (one.claimed, one.error, one.notes) = (!self.by_hand, self.error, self.notes);
    }
}

pub fn lease_row(row: &SqlRow<'_>) -> Result<IpLease, Refusal> {
    let address: Vec<u8> = row.get(3)?;
    let network: String = row.get(4)?;
    let more: Option<String> = row.get(6)?;
    let mut one = IpLease {
        namespace: row.get(0)?,
        claim: row.get(1)?,
        pool: row.get(2)?,
        address: Some(Addr::from_key(&address).ok_or_else(|| unreadable("no address"))?),
        network: serde_json::from_str(&network).map_err(unreadable)?,
        created: seconds(row.get(5)?),
        ..IpLease::default()
    };
    let more = more.map(|text| serde_json::from_str::<More>(&text)).transpose();
    more.map_err(unreadable)?.unwrap_or_default().fill(&mut one);
    Ok(one)
}

pub fn wait_row(row: &SqlRow<'_>) -> Result<IpLease, Refusal> {
    let more: String = row.get(4)?;
    let (created, id) = (seconds(row.get(3)?), row.get(5)?);
    let (namespace, claim, pool) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let mut one = IpLease { namespace, claim, pool, created, id, ..IpLease::default() };
    serde_json::from_str::<More>(&more).map_err(unreadable)?.fill(&mut one);
    Ok(one)
}

/// The wire has whole seconds, and so have leases.
fn seconds(seconds: i64) -> Time {
    Time(seconds.saturating_mul(1_000_000))
}

/// All pools with what waits and what goes.
pub fn whole(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    for one in documents::all::<IpPool>(conn, None)? {
        let key = one.metadata.key();
        state.ip_pools.load(one);
        with_claims(conn, state, &key)?;
    }
    Ok(())
}

/// A pool with what waits and what goes.
pub fn pool(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.ip_pools.knows(key) {
        return Ok(());
    }
    need(conn, &mut state.ip_pools, key)?;
    with_claims(conn, state, key)
}

fn with_claims(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    let sql = format!("SELECT {WAIT} WHERE namespace = ?1 AND pool = ?2 ORDER BY id");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![key.namespace, key.name])?;
    while let Some(row) = rows.next()? {
        put(state, wait_row(row)?);
    }
    let Some(found) = state.ip_pools.by_key(key).cloned() else { return Ok(()) };
    let sql = format!("SELECT {LEASE} WHERE l.pool = ?1 AND l.more ->> '$.deleting' IS NOT NULL");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([found.metadata.id])?;
    while let Some(row) = rows.next()? {
        put(state, lease_row(row)?);
    }
    let cluster = &found.spec.cluster_name;
    if !cluster.is_empty() && state.cluster(cluster).is_none() {
        load::cluster_facts(conn, state, cluster)?;
    }
    Ok(())
}

fn put(state: &mut State, one: IpLease) {
    if !state.ip_leases.knows(&one.key()) {
        state.ip_leases.load(one);
    }
}

/// A claim, with its address or without, and the cluster that it goes with.
pub fn claim(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if !state.ip_leases.knows(key)
        && let Some(one) = by_claim(conn, key)?
    {
        let pool_key = one.pool_key();
        put(state, one);
        pool(conn, state, &pool_key)?;
    }
    let cluster = state.ip_leases.by_key(key).and_then(IpLease::cluster).map(str::to_owned);
    match cluster {
        Some(cluster) => load::cluster_facts(conn, state, &cluster),
        None => Ok(()),
    }
}

pub fn by_claim(conn: &Connection, key: &Key) -> Result<Option<IpLease>, Refusal> {
    let sql = format!("SELECT {LEASE} WHERE s.namespace = ?1 AND l.claim = ?2");
    let who = params![key.namespace, key.name];
    let found = conn.prepare_cached(&sql)?.query_row(who, |row| Ok(lease_row(row))).optional()?;
    if let Some(found) = found {
        return found.map(Some);
    }
    let sql = format!("SELECT {WAIT} WHERE namespace = ?1 AND claim = ?2");
    let found = conn.prepare_cached(&sql)?.query_row(who, |row| Ok(wait_row(row))).optional()?;
    found.transpose()
}

pub fn by_address(
    conn: &Connection,
    namespace: &str,
    address: Addr,
) -> Result<Option<IpLease>, Refusal> {
    let sql = format!("SELECT {LEASE} WHERE s.namespace = ?1 AND l.address = ?2");
    let who = params![namespace, address.key()];
    let found = conn.prepare_cached(&sql)?.query_row(who, |row| Ok(lease_row(row))).optional()?;
    found.transpose()
}

/// After an edit: pools that claims name, and of pools that were changed the neighbours, and the
/// leases that do not fit any more.
pub fn beside(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let named: Vec<Key> =
        state.ip_leases.difference().filter_map(|change| Some(change.after?.pool_key())).collect();
    for key in named {
        pool(conn, state, &key)?;
    }
    // Whoever has an address that was given by hand.
    let given: Vec<(String, Addr)> = state
        .ip_leases
        .difference()
        .filter(|change| change.before.is_none_or(|before| before.address.is_none()))
        .filter_map(|change| Some((change.after?.namespace.clone(), change.after?.address?)))
        .collect();
    for (namespace, address) in given {
        if let Some(other) = by_address(conn, &namespace, address)? {
            put(state, other);
        }
    }
    let changed: Vec<(Option<IpPool>, IpPool)> = state
        .ip_pools
        .difference()
        .filter_map(|change| Some((change.before.cloned(), change.after?.clone())))
        .collect();
    let removed: Vec<IpPool> = state
        .ip_pools
        .difference()
        .filter(|change| change.after.is_none())
        .filter_map(|change| change.before.cloned())
        .collect();
    for gone in removed {
        let wrong = still_used(conn, state, &gone)?;
        state.ip_offenders.insert(gone.metadata.key(), wrong);
    }
    for (before, after) in changed {
        let key = after.metadata.key();
        for other in documents::all::<IpPool>(conn, Some(&key.namespace))? {
            if !state.ip_pools.knows(&other.metadata.key()) {
                state.ip_pools.load(other);
            }
        }
        let same = before.as_ref().is_some_and(|before| before.spec == after.spec);
        let wrong = if same { Vec::new() } else { offenders(conn, before.as_ref(), &after)? };
        state.ip_offenders.insert(key, wrong);
    }
    Ok(())
}

/// Leases of a pool that is to go, but for those that go with it.
fn still_used(conn: &Connection, state: &State, gone: &IpPool) -> Result<Vec<String>, Refusal> {
    let sql = format!("SELECT {LEASE} WHERE l.pool = ?1 ORDER BY l.address LIMIT 20");
    let mut statement = conn.prepare_cached(&sql)?;
    let (mut rows, mut found) = (statement.query([gone.metadata.id])?, Vec::new());
    while let Some(row) = rows.next()? {
        let one = lease_row(row)?;
        let address = one.address.map(|address| address.to_string()).unwrap_or_default();
        if !state.ip_leases.was_removed(&one.key()) {
            found.push(format!("{address} is leased to claim {}", one.claim));
        }
    }
    Ok(found)
}

/// Leases outside of a pool's ranges, and strangers on its pre-allocations.
fn offenders(
    conn: &Connection,
    before: Option<&IpPool>,
    after: &IpPool,
) -> Result<Vec<String>, Refusal> {
    const MOST: usize = 20;
    let (ranges, mut wrong): (Vec<Stretch>, _) =
        (after.usable().into_iter().map(|(_, range)| range).collect(), Vec::new());
    let pre: Vec<(&str, Addr)> = after.pre_allocated().collect();
    let bounds = |address| ranges.iter().any(|range| range.has(address));
    if let Some(before) = before {
        let sql = format!("SELECT {LEASE} WHERE l.pool = ?1 ORDER BY l.address");
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query([before.metadata.id])?;
        let was: Vec<Stretch> = before.usable().into_iter().map(|(_, range)| range).collect();
        while let Some(row) = rows.next()? {
            let one = lease_row(row)?;
            let Some(address) = one.address else { continue };
            let is_pre = pre.iter().any(|(claim, pre)| *claim == one.claim && *pre == address);
            // What did not fit before was let in by hand.
            let fitted = was.iter().any(|range| range.has(address))
                || before.pre_allocated().any(|(_, pre)| pre == address);
            if !bounds(address) && !is_pre && fitted && wrong.len() < MOST {
                wrong.push(format!(
                    "spec.pools: {address} is in use but out of bounds of the pools given (claim {})",
                    one.claim
                ));
            }
        }
    }
    for (claim, address) in pre {
        let holder = by_address(conn, &after.metadata.namespace, address)?;
        if let Some(other) = holder.filter(|other| other.claim != claim) {
            wrong.push(format!(
                "spec.preAllocations.{claim}: {address} is leased to claim {}",
                other.claim
            ));
        }
    }
    Ok(wrong)
}

/// What clusters of the pools in scope have addresses from, and those that they have: of any pool
/// that may make or lose one.
pub fn of_clusters(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let (mut pools, mut clusters) = (Vec::new(), Vec::new());
    for one in state.pools.rows() {
        let names = one.vips_from().into_iter().chain(one.nodes_from());
        pools.extend(names.map(|name| Key::new(&*one.metadata.namespace, name)));
    }
    let joined = state.agents.rows().filter(|one| one.is_day2()).filter_map(Agent::bound_to);
    let joined: HashSet<String> = joined.map(|key| key.name).collect();
    // One that is left running may go in the pass in which that is asked for.
    let moves = |one: &&Cluster| {
        let goes = one.deleting.is_some() || one.preserve;
        goes || !one.installed() || joined.contains(&one.name)
    };
    for one in state.clusters.rows().filter(moves) {
        let of = one.pool.as_ref().map(|pool| Key::new(&*pool.namespace, &*one.name));
        clusters.extend(of);
    }
    // Hosts that have left a cluster may have kept it its addresses.
    for one in state.agents.rows() {
        let left = one.status.deprovision_info.as_ref();
        clusters.extend(left.map(|info| Key::new(&*one.metadata.namespace, &*info.cluster_name)));
        // A node that is deleted gives its own addresses back.
        let deleted = one.bound_to().filter(|_| one.metadata.deletion_timestamp.is_some());
        clusters.extend(deleted.map(|key| Key::new(&*one.metadata.namespace, key.name)));
    }
    for key in pools {
        pool(conn, state, &key)?;
    }
    for key in clusters {
        for one in of_cluster(conn, &key.namespace, &key.name)? {
            put(state, one);
        }
    }
    Ok(())
}

/// The leases that go with a cluster.
pub fn of_cluster(conn: &Connection, namespace: &str, name: &str) -> Result<Vec<IpLease>, Refusal> {
    // Claims are called after their cluster and something more; `.` comes after `-`.
    let sql = format!(
        "SELECT {LEASE} WHERE l.scope = (SELECT id FROM ip_scope WHERE namespace = ?1) \
         AND l.claim > ?2 || '-' AND l.claim < ?2 || '.' ORDER BY l.claim"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let (mut rows, mut found) = (statement.query(params![namespace, name])?, Vec::new());
    while let Some(row) = rows.next()? {
        found.push(lease_row(row)?);
    }
    found.retain(|one| one.cluster() == Some(name));
    Ok(found)
}
