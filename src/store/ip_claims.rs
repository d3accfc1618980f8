//! Loads and lists IPClaims and IPAddresses, which are two views of leases of addresses. They have
//! no rows of their own.

use std::collections::HashMap;

use rusqlite::{Connection, params, params_from_iter};

use crate::model::ip_lease::{IpAddress, IpClaim, IpLease, address_name};
use crate::model::ip_pool::IpPool;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::clusters::load_cluster;
use super::connection::Store;
use super::documents::select_documents;
use super::filter::Filter;
use super::ip_leases::{
    LEASE_SELECTION, WAITING_CLAIM_SELECTION, load_lease, read_lease, read_waiting_claim,
    select_lease_by_given_name, select_lease_of_address, select_lease_of_claim,
};
use super::ip_pools::{load_ip_pool, select_pools_serving};
use super::stored::{Stored, Visitor};

/// Loads the lease of a claim, its pool and the cluster that it goes with.
fn load_ip_claim(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if !state.ip_leases.has_or_had(key)
        && let Some(lease) = select_lease_of_claim(conn, key)?
    {
        let pool = lease.pool_key();
        load_lease(state, lease);
        load_ip_pool(conn, state, &pool)?;
    }
    let cluster = state.ip_leases.by_key(key).and_then(IpLease::cluster).map(str::to_owned);
    match cluster {
        Some(cluster) => load_cluster(conn, state, &cluster),
        None => Ok(()),
    }
}

impl Stored for IpClaim {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_ip_claim(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let mut claims = Vec::new();
        for (lease, address_name) in name_leases(store, select_leases_and_waiting(store, filter)?)?
        {
            if lease.claimed {
                claims.push(lease.to_claim(&address_name));
            }
        }
        Ok(claims)
    }

    fn visit_all(
        store: &Store,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Self>,
    ) -> Result<(), Refusal> {
        let pools = select_pools_by_key(store)?;
        visit_leases(store, namespace, &mut |lease| {
            let name = name_address(&pools, &lease);
            if lease.claimed { visit(lease.to_claim(&name)) } else { Ok(()) }
        })?;
        let condition = if namespace.is_some() { "WHERE namespace = ?1" } else { "" };
        let sql = format!("SELECT {WAITING_CLAIM_SELECTION} {condition} ORDER BY id");
        let mut statement = store.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(namespace))?;
        while let Some(row) = rows.next()? {
            let lease = read_waiting_claim(row)?;
            let name = name_address(&pools, &lease);
            if lease.claimed {
                visit(lease.to_claim(&name))?;
            }
        }
        Ok(())
    }
}

impl Stored for IpAddress {
    /// Loads the lease that the address is a view of.
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        match select_lease_of_address_name(conn, key)? {
            Some(lease) => load_ip_claim(conn, state, &lease.key()),
            None => Ok(()),
        }
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        if let (Some(namespace), Some(name)) = (&filter.namespace, &filter.name)
            && let Some(lease) =
                select_lease_of_address_name(store.conn(), &Key::new(&**namespace, &**name))?
        {
            return Ok(lease.to_address(name).into_iter().collect());
        }
        let mut addresses = Vec::new();
        // The names of IPAddresses follow from their pools: no column has them.
        let leases = select_leases(store, &Filter { name: None, ..filter.clone() })?;
        for (lease, name) in name_leases(store, leases)? {
            if filter.name.as_ref().is_none_or(|wanted_name| *wanted_name == name) {
                addresses.extend(lease.to_address(&name));
            }
        }
        Ok(addresses)
    }

    fn visit_all(
        store: &Store,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Self>,
    ) -> Result<(), Refusal> {
        let pools = select_pools_by_key(store)?;
        visit_leases(store, namespace, &mut |lease| {
            lease.to_address(&name_address(&pools, &lease)).map_or(Ok(()), &mut *visit)
        })
    }
}

impl Store {
    /// How many claims wait for an address of a pool: those of its namespace, and of a shared pool
    /// also those of other namespaces.
    pub fn count_waiting_ip_claims(&self, pool: &IpPool) -> Result<usize, Refusal> {
        let sql = "SELECT count(*) FROM ip_wait WHERE namespace = ?1 AND pool = ?2 \
                   AND coalesce(more ->> '$.pool_namespace', ?1) = ?1";
        let values = params![pool.metadata.namespace, pool.metadata.name];
        let count: i64 = self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
        let mut total = usize::try_from(count).unwrap_or_default();
        if !pool.is_shared() {
            return Ok(total);
        }
        // A claim that does not say of which namespace the pool is means its own, if there is one.
        let sql = "SELECT namespace FROM ip_wait w WHERE pool = ?2 AND namespace <> ?1 \
                   AND coalesce(more ->> '$.pool_namespace', iif(EXISTS (SELECT 1 FROM ip_pool p \
                   WHERE p.namespace = w.namespace AND p.name = w.pool), w.namespace, ?1)) = ?1";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            let namespace: String = row.get(0)?;
            total += usize::from(pool.serves(&namespace));
        }
        Ok(total)
    }
}

/// Hands on all leases of addresses, or those of a namespace, one by one.
fn visit_leases(
    store: &Store,
    namespace: Option<&str>,
    visit: &mut Visitor<'_, IpLease>,
) -> Result<(), Refusal> {
    let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
    visit_selected_leases(store, &filter, visit)
}

/// When a lease is of a claim of a namespace (`#`): from a pool of that namespace, or from one that
/// another namespace shares with it. An index serves each.
const OF_NAMESPACE: [&str; 2] =
    ["s.namespace = # AND l.claim_namespace IS NULL", "l.claim_namespace = #"];

/// Hands on the leases of addresses that a filter selects, by the names of their claims.
fn visit_selected_leases(
    store: &Store,
    filter: &Filter,
    visit: &mut Visitor<'_, IpLease>,
) -> Result<(), Refusal> {
    // Without a namespace the first condition is left out, and selects all.
    let count = if filter.namespace.is_some() { OF_NAMESPACE.len() } else { 1 };
    for of_namespace in &OF_NAMESPACE[..count] {
        let (condition, values) = filter.where_clause(of_namespace, Some("l.claim = #"));
        let sql = format!("SELECT {LEASE_SELECTION} {condition} ORDER BY l.scope, l.address");
        let mut statement = store.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            visit(read_lease(row)?)?;
        }
    }
    Ok(())
}

fn select_pools_by_key(store: &Store) -> Result<HashMap<Key, IpPool>, Refusal> {
    let pools: Vec<IpPool> = select_documents(store.conn(), None)?;
    Ok(pools.into_iter().map(|pool| (pool.metadata.key(), pool)).collect())
}

/// The name of the IPAddress of a lease; empty if the pool is gone.
fn name_address(pools: &HashMap<Key, IpPool>, lease: &IpLease) -> String {
    let pool = pools.get(&lease.pool_key());
    pool.map(|pool| address_name(pool, lease)).unwrap_or_default()
}

/// The leases of addresses that a filter selects, by the names of their claims.
fn select_leases(store: &Store, filter: &Filter) -> Result<Vec<IpLease>, Refusal> {
    let mut leases = Vec::new();
    visit_selected_leases(store, filter, &mut |lease| {
        leases.push(lease);
        Ok(())
    })?;
    Ok(leases)
}

/// The same, followed by the claims that wait for an address.
fn select_leases_and_waiting(store: &Store, filter: &Filter) -> Result<Vec<IpLease>, Refusal> {
    if let (Some(namespace), Some(name)) = (&filter.namespace, &filter.name) {
        let lease = select_lease_of_claim(store.conn(), &Key::new(&**namespace, &**name))?;
        return Ok(lease.into_iter().collect());
    }
    let mut leases = select_leases(store, filter)?;
    let (condition, values) = filter.where_clause("namespace = #", Some("claim = #"));
    let sql = format!("SELECT {WAITING_CLAIM_SELECTION} {condition} ORDER BY id");
    let mut statement = store.conn().prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        leases.push(read_waiting_claim(row)?);
    }
    Ok(leases)
}

/// Puts the name of its IPAddress beside each lease; it is empty if the pool is gone.
fn name_leases(store: &Store, leases: Vec<IpLease>) -> Result<Vec<(IpLease, String)>, Refusal> {
    let pools = select_pools_by_key(store)?;
    let mut named_leases = Vec::new();
    for lease in leases {
        let name = name_address(&pools, &lease);
        named_leases.push((lease, name));
    }
    Ok(named_leases)
}

/// The lease that the IPAddress of this name is a view of.
fn select_lease_of_address_name(conn: &Connection, key: &Key) -> Result<Option<IpLease>, Refusal> {
    for pool in select_pools_serving(conn, &key.namespace)? {
        for address in pool.addresses_with_name(&key.name) {
            let lease = select_lease_of_address(conn, &pool.metadata.namespace, address)?;
            let lease = lease.filter(|lease| {
                lease.namespace == key.namespace && address_name(&pool, lease) == key.name
            });
            if lease.is_some() {
                return Ok(lease);
            }
        }
    }
    select_lease_by_given_name(conn, key)
}
