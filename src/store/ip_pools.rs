//! Loads pools of addresses with the claims that wait for one, and writes pools and leases with all
//! that is derived from them: counts, lists of free addresses, the past. Never decides who gets an
//! address.

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, Params, params};

use crate::model::address::{Addr, IpRange};
use crate::model::annotations::{OVERLAP, SHARE_WITH};
use crate::model::ip_lease::{IpLease, address_name};
use crate::model::ip_pool::{IpPool, IpPoolStatus};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Change, Owner};
use crate::model::time::Time;

use super::address_news::count_address_change;
use super::changed_leases::{TouchedPools, remove_lease, write_lease};
use super::clusters::load_cluster;
use super::connection::Store;
use super::documents::{
    load_document, read_document, select_document, select_documents, write_document,
};
use super::filter::Filter;
use super::free_addresses::{build_or_remove_free_list, remove_free_list};
use super::ip_counts::{insert_count_row, recount_leases};
use super::ip_leases::{
    LEASE_SELECTION, WAITING_CLAIM_SELECTION, load_lease, read_lease, read_waiting_claim,
    select_lease_of_address, select_leases,
};
use super::stored::StoredDocument;
use super::tenants::write_past_tenant;

/// How many leases that a changed pool does not hold any more are listed at most.
const MOST_OFFENDERS: usize = 20;

/// Loads all pools, each with its claims that wait, and with its leases that are being deleted or
/// end by themselves.
pub fn load_all_ip_pools(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let mut keys = Vec::new();
    for pool in select_documents::<IpPool>(conn, None)? {
        keys.push(pool.metadata.key());
        state.ip_pools.load(pool);
    }
    for key in keys {
        load_claims_of_pool(conn, state, &key)?;
        load_expiring_leases(conn, state, &key)?;
    }
    // Claims may wait for pools that do not exist, or that are not shared with them.
    load_waiting_claims(conn, state, "ORDER BY id", [], |_| true)
}

/// Loads a pool with its claims that wait, also with those that name it in vain, and with its leases
/// that are being deleted or end by themselves.
pub fn load_ip_pool_with_ends_of_leases(
    conn: &Connection,
    state: &mut State,
    key: &Key,
) -> Result<(), Refusal> {
    load_ip_pool(conn, state, key)?;
    let clauses = "WHERE pool = ?1 ORDER BY id";
    load_waiting_claims(conn, state, clauses, [&key.name], |claim| claim.pool_key() == *key)?;
    load_expiring_leases(conn, state, key)
}

/// Loads those of the claims that wait and that some clauses select which fit.
fn load_waiting_claims(
    conn: &Connection,
    state: &mut State,
    clauses: &str,
    values: impl Params,
    fits: impl Fn(&IpLease) -> bool,
) -> Result<(), Refusal> {
    let sql = format!("SELECT {WAITING_CLAIM_SELECTION} {clauses}");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        let claim = read_waiting_claim(row)?;
        if fits(&claim) {
            load_lease(state, claim);
        }
    }
    Ok(())
}

/// Loads the leases of a pool that end by themselves.
fn load_expiring_leases(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    let Some(pool) = state.ip_pools.by_key(key) else { return Ok(()) };
    let pool_id = pool.metadata.id;
    let clauses = "WHERE l.pool = ?1 AND l.more ->> '$.expires' IS NOT NULL";
    for lease in select_leases(conn, clauses, [pool_id])? {
        load_lease(state, lease);
    }
    Ok(())
}

/// Loads a pool with its claims that wait and its leases that are being deleted. If there is none of
/// this key, those are loaded that other namespaces share with its namespace under its name.
pub fn load_ip_pool(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.ip_pools.has_or_had(key) {
        return Ok(());
    }
    load_document(conn, &mut state.ip_pools, key)?;
    load_claims_of_pool(conn, state, key)?;
    if state.ip_pools.find(key).is_none() {
        load_shared_pools(conn, state, key)?;
    }
    Ok(())
}

/// Loads the pools that other namespaces share with a namespace under a name.
fn load_shared_pools(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    for pool in select_shared_pools(conn)? {
        if pool.metadata.name == key.name && pool.serves(&key.namespace) {
            load_ip_pool(conn, state, &pool.metadata.key())?;
        }
    }
    Ok(())
}

/// The pools that namespaces share, in the order of insertion.
pub fn select_shared_pools(conn: &Connection) -> Result<Vec<IpPool>, Refusal> {
    // An index has the same condition: mostly no pool is shared, and none is read then.
    let sql = format!(
        "SELECT id, body FROM ip_pool \
         WHERE body ->> '$.metadata.annotations.\"{SHARE_WITH}\"' IS NOT NULL ORDER BY id"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut pools = Vec::new();
    while let Some(row) = rows.next()? {
        pools.push(read_document(row)?);
    }
    Ok(pools)
}

/// Loads the claims of other namespaces that wait for an address of a shared pool, and the other
/// pools that they may mean.
fn load_claims_of_other_namespaces(
    conn: &Connection,
    state: &mut State,
    key: &Key,
) -> Result<(), Refusal> {
    let Some(pool) = state.ip_pools.by_key(key) else { return Ok(()) };
    if !pool.is_shared() {
        return Ok(());
    }
    let pool = pool.clone();
    let sql =
        format!("SELECT {WAITING_CLAIM_SELECTION} WHERE pool = ?1 AND namespace <> ?2 ORDER BY id");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![key.name, key.namespace])?;
    let mut namespaces = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let lease = read_waiting_claim(row)?;
        if pool.serves(&lease.namespace) {
            namespaces.insert(lease.namespace.clone());
            load_lease(state, lease);
        }
    }
    for namespace in namespaces {
        load_ip_pool(conn, state, &Key::new(namespace, &*key.name))?;
    }
    Ok(())
}

/// The pools whose addresses claims of a namespace may have: those of the namespace, and those that
/// are shared with it.
pub fn select_pools_serving(conn: &Connection, namespace: &str) -> Result<Vec<IpPool>, Refusal> {
    let mut pools: Vec<IpPool> = select_documents(conn, Some(namespace))?;
    let shared_pools = select_shared_pools(conn)?.into_iter();
    pools.extend(
        shared_pools.filter(|pool| pool.metadata.namespace != namespace && pool.serves(namespace)),
    );
    Ok(pools)
}

/// Loads the claims of a pool that wait, its leases that are being deleted, and the cluster that
/// the pool is for.
fn load_claims_of_pool(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    let sql =
        format!("SELECT {WAITING_CLAIM_SELECTION} WHERE namespace = ?1 AND pool = ?2 ORDER BY id");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![key.namespace, key.name])?;
    let mut named_pools = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let lease = read_waiting_claim(row)?;
        if lease.pool_namespace.is_some() {
            named_pools.insert(lease.pool_key());
        }
        load_lease(state, lease);
    }
    for named_pool in named_pools {
        // Claims may name pools that do not exist, even each other's: only what exists is followed.
        if select_document::<IpPool>(conn, &named_pool)?.is_some() {
            load_ip_pool(conn, state, &named_pool)?;
        }
    }
    load_claims_of_other_namespaces(conn, state, key)?;
    let Some(pool) = state.ip_pools.by_key(key) else { return Ok(()) };
    let pool_id = pool.metadata.id;
    let clauses = "WHERE l.pool = ?1 AND l.more ->> '$.deleting' IS NOT NULL";
    for lease in select_leases(conn, clauses, [pool_id])? {
        load_lease(state, lease);
    }
    load_cluster_of_pool(conn, state, key)
}

/// Loads the cluster that a pool is for, if it names one: the pool is paused with it.
fn load_cluster_of_pool(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    let pool = state.ip_pools.by_key(key);
    match pool.map(|pool| pool.spec.cluster_name.clone()).filter(|cluster| !cluster.is_empty()) {
        Some(cluster) => load_cluster(conn, state, &cluster),
        None => Ok(()),
    }
}

/// Loads what the rules need after an edit: the pools that claims name, and for changed pools the
/// other pools of the namespace and the leases that do not fit any more.
pub fn load_beside_edited_pools(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let pool_keys: Vec<Key> =
        state.ip_leases.difference().filter_map(|change| Some(change.after?.pool_key())).collect();
    for pool_key in pool_keys {
        load_ip_pool(conn, state, &pool_key)?;
    }
    load_holders_of_given_addresses(conn, state)?;
    let mut changed_pools = Vec::new();
    let mut removed_pools = Vec::new();
    for change in state.ip_pools.difference() {
        match (change.before, change.after) {
            (before, Some(after)) => changed_pools.push((before.cloned(), after.clone())),
            (Some(before), None) => removed_pools.push(before.clone()),
            (None, None) => {}
        }
    }
    for pool in removed_pools {
        let offenders = find_leases_of_removed_pool(conn, state, &pool)?;
        let key = pool.metadata.key();
        // The claims that wait for it may mean a pool of the same name from now on.
        load_shared_pools(conn, state, &key)?;
        state.ip_offenders.insert(key, offenders);
    }
    for (before, after) in changed_pools {
        let key = after.metadata.key();
        load_claims_of_other_namespaces(conn, state, &key)?;
        load_cluster_of_pool(conn, state, &key)?;
        let neighbours = if after.is_shared() {
            select_documents(conn, None)?
        } else {
            select_pools_serving(conn, &key.namespace)?
        };
        for neighbour in neighbours {
            if !state.ip_pools.has_or_had(&neighbour.metadata.key()) {
                state.ip_pools.load(neighbour);
            }
        }
        let is_same = before.as_ref().is_some_and(|before| before.spec == after.spec);
        let mut offenders =
            if is_same { Vec::new() } else { find_offenders(conn, before.as_ref(), &after)? };
        if let Some(before) = before.as_ref().filter(|before| before.is_shared()) {
            offenders.extend(find_leases_of_unserved_namespaces(conn, before, &after)?);
        }
        state.ip_offenders.insert(key, offenders);
    }
    Ok(())
}

/// Loads the leases of addresses that an edit has given by hand, so that a second holder is
/// refused.
fn load_holders_of_given_addresses(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let given_addresses: Vec<(String, Addr)> = state
        .ip_leases
        .difference()
        .filter(|change| change.before.is_none_or(|before| before.address.is_none()))
        .filter_map(|change| {
            let lease = change.after?;
            Some((lease.address_namespace().to_owned(), lease.address?))
        })
        .collect();
    for (namespace, address) in given_addresses {
        if let Some(lease) = select_lease_of_address(conn, &namespace, address)? {
            load_lease(state, lease);
        }
    }
    Ok(())
}

/// The leases of a pool that is being removed, but for those that are removed with it.
fn find_leases_of_removed_pool(
    conn: &Connection,
    state: &State,
    pool: &IpPool,
) -> Result<Vec<String>, Refusal> {
    let mut offenders = Vec::new();
    let sql = format!("SELECT {LEASE_SELECTION} WHERE l.pool = ?1 ORDER BY l.address");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([pool.metadata.id])?;
    // The first leases of the pool may all be removed with it, so they are not simply limited.
    while let Some(row) = rows.next()? {
        let lease = read_lease(row)?;
        if !state.ip_leases.was_removed(&lease.key()) {
            let address = lease.address.map(|address| address.to_string()).unwrap_or_default();
            offenders.push(format!("{address} is leased to claim {}", lease.claim_for_pool()));
        }
        if offenders.len() == MOST_OFFENDERS {
            break;
        }
    }
    Ok(offenders)
}

/// The leases that a changed pool does not hold any more, and the leases of addresses that it
/// pre-allocates to another claim.
fn find_offenders(
    conn: &Connection,
    before: Option<&IpPool>,
    after: &IpPool,
) -> Result<Vec<String>, Refusal> {
    let mut offenders = match before {
        Some(before) => find_leases_out_of_bounds(conn, before, after)?,
        None => Vec::new(),
    };
    for (claim, address) in after.pre_allocated_addresses() {
        let lease = select_lease_of_address(conn, &after.metadata.namespace, address)?;
        if let Some(lease) = lease.filter(|lease| lease.name_in_pool() != claim) {
            offenders.push(format!(
                "spec.preAllocations.{claim}: {address} is leased to claim {}",
                lease.claim_for_pool()
            ));
        }
    }
    Ok(offenders)
}

/// The leases of claims of namespaces that the pool is not shared with any more.
fn find_leases_of_unserved_namespaces(
    conn: &Connection,
    before: &IpPool,
    after: &IpPool,
) -> Result<Vec<String>, Refusal> {
    let clauses = "WHERE l.pool = ?1 AND l.claim_namespace IS NOT NULL ORDER BY l.address";
    let mut offenders = Vec::new();
    for lease in select_leases(conn, clauses, [before.metadata.id])? {
        if !after.serves(&lease.namespace) && offenders.len() < MOST_OFFENDERS {
            let address = lease.address.map(|address| address.to_string()).unwrap_or_default();
            offenders.push(format!(
                "annotation {SHARE_WITH}: {address} is leased to claim {}",
                lease.claim_for_pool()
            ));
        }
    }
    Ok(offenders)
}

/// The leases that the ranges of a pool held and do not hold any more. A lease that did not fit
/// before either was made by hand, and stays.
fn find_leases_out_of_bounds(
    conn: &Connection,
    before: &IpPool,
    after: &IpPool,
) -> Result<Vec<String>, Refusal> {
    let ranges_before: Vec<IpRange> =
        before.usable_ranges().into_iter().map(|(_, range)| range).collect();
    let ranges_after: Vec<IpRange> =
        after.usable_ranges().into_iter().map(|(_, range)| range).collect();
    let pre_allocated_before: HashSet<Addr> =
        before.pre_allocated_addresses().map(|(_, address)| address).collect();
    let mut offenders = Vec::new();
    let sql = format!("SELECT {LEASE_SELECTION} WHERE l.pool = ?1 ORDER BY l.address");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([before.metadata.id])?;
    while let Some(row) = rows.next()? {
        let lease = read_lease(row)?;
        let Some(address) = lease.address else { continue };
        let fits = ranges_after.iter().any(|range| range.contains(address))
            || after.pre_allocated_address_of(&lease.name_in_pool()) == Some(address);
        let fitted = ranges_before.iter().any(|range| range.contains(address))
            || pre_allocated_before.contains(&address);
        if !fits && fitted && offenders.len() < MOST_OFFENDERS {
            offenders.push(format!(
                "spec.pools: {address} is in use but out of bounds of the pools given (claim {})",
                lease.claim_for_pool()
            ));
        }
    }
    Ok(offenders)
}

impl Store {
    /// The pools of a namespace whose names claims give that wait, also claims of other namespaces.
    pub fn list_ip_pools_with_waiting_claims(&self, namespace: &str) -> Result<Vec<Key>, Refusal> {
        let sql = "SELECT name FROM ip_pool p WHERE namespace = ?1 \
                   AND EXISTS (SELECT 1 FROM ip_wait w WHERE w.pool = p.name)";
        let mut statement = self.conn().prepare_cached(sql)?;
        let names = statement.query_map([namespace], |row| row.get::<_, String>(0))?;
        names.map(|name| Ok(Key::new(namespace, name?))).collect()
    }

    /// The pools whose addresses claims of a namespace may have: those of the namespace, and then
    /// those that are shared with it. They come without the counts of their addresses.
    pub fn list_pools_serving(&self, namespace: &str) -> Result<Vec<IpPool>, Refusal> {
        select_pools_serving(self.conn(), namespace)
    }
}

impl StoredDocument for IpPool {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_ip_pool(conn, state, key)
    }

    /// Fills the status of a pool: its counts, and for a whole object also who has which address.
    fn read_beside_document(&mut self, store: &Store, filter: &Filter) -> Result<(), Refusal> {
        let (counts, updated) = store.count_addresses(self)?;
        let last_updated = updated.max(self.status.last_updated);
        let mut status = IpPoolStatus {
            last_updated: last_updated.or(self.metadata.creation_timestamp),
            ip_addresses: Some(counts.to_document()),
            ..IpPoolStatus::default()
        };
        if filter.whole {
            let pool = &*self;
            store.visit_leases_of_pool(pool, &mut |lease| {
                let Some(address) = lease.address else { return };
                let claim = lease.name_in_pool().into_owned();
                status.addresses.insert(claim.clone(), address_name(pool, &lease));
                status.allocations.insert(claim, address.to_string());
            })?;
            status.indexes.clone_from(&status.allocations);
        }
        self.status = status;
        self.status.conditions = vec![self.supply_condition()];
        Ok(())
    }
}

/// Writes the pools and leases that changed, and what is derived from them. Addresses that are
/// given back go first, because another lease may have taken them.
pub fn write_changed_ip_pools(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
    now: Time,
) -> Result<(), Refusal> {
    let changed_pools = write_changed_pools(conn, state, owner)?;
    let mut touched_pools = TouchedPools::new(conn);
    let changes: Vec<Change<'_, IpLease>> =
        state.ip_leases.difference().filter(|change| change.is_on_behalf_of(owner)).collect();
    for change in &changes {
        let address_after = change.after.map(|after| after.address);
        if let Some(before) = change.before
            && Some(before.address) != address_after
        {
            remove_lease(&mut touched_pools, before, now)?;
        }
    }
    for change in &changes {
        if let Some(after) = change.after {
            write_lease(&mut touched_pools, change.before, after)?;
        }
    }
    // A changed pool may have other ranges, so what is derived from its leases is made anew.
    for (pool_id, pool) in &changed_pools {
        if !pool.remembers_releases() {
            conn.prepare_cached("DELETE FROM ip_released WHERE pool = ?1")?.execute([pool_id])?;
        }
        recount_leases(conn, *pool_id, pool)?;
        remove_free_list(conn, *pool_id)?;
    }
    for touched_pool in &touched_pools.pools {
        build_or_remove_free_list(conn, touched_pool.id, &touched_pool.pool)?;
    }
    for (pool_id, pool) in &changed_pools {
        build_or_remove_free_list(conn, *pool_id, pool)?;
    }
    let is_list_changed = !changes.is_empty() || !changed_pools.is_empty();
    if is_list_changed || are_names_changed(state, owner) || is_listener_changed(state) {
        count_address_change(conn)?;
    }
    Ok(())
}

/// Whether a host of a cluster, which may have an address there, is called otherwise.
fn are_names_changed(state: &State, owner: Option<&Owner>) -> bool {
    let mut changes = state.agents.difference().filter(|change| change.is_on_behalf_of(owner));
    changes.any(|change| match (change.before, change.after) {
        (Some(before), Some(after)) => {
            after.bound_cluster().is_some() && before.hostname() != after.hostname()
        }
        _ => false,
    })
}

/// Whether another program is to be told of addresses from now on. It knows none of them yet.
fn is_listener_changed(state: &State) -> bool {
    state.settings.difference().any(|change| {
        let before = change.before.and_then(|settings| settings.spec.on_change.as_ref());
        let after = change.after.and_then(|settings| settings.spec.on_change.as_ref());
        before != after
    })
}

/// Writes the pools that changed, and returns those whose addresses must be counted and listed
/// anew.
fn write_changed_pools(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<Vec<(i64, IpPool)>, Refusal> {
    let mut changed_pools = Vec::new();
    for change in state.ip_pools.difference().filter(|change| change.is_on_behalf_of(owner)) {
        let pool_id = write_document(conn, &change)?;
        let Some(after) = change.after else { continue };
        insert_count_row(conn, pool_id)?;
        for tenant in &after.status.history {
            write_past_tenant(conn, pool_id, after, tenant)?;
        }
        if change.before.is_none_or(|before| changes_addresses(before, after)) {
            changed_pools.push((pool_id, after.clone()));
        }
    }
    Ok(changed_pools)
}

/// Whether the counts and the list of free addresses of a pool change with it.
fn changes_addresses(before: &IpPool, after: &IpPool) -> bool {
    before.spec != after.spec
        || before.leasable_ranges() != after.leasable_ranges()
        || before.remembers_releases() != after.remembers_releases()
        || before.metadata.has_true_annotation(OVERLAP)
            != after.metadata.has_true_annotation(OVERLAP)
}
