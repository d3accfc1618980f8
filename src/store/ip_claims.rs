//! IPClaims and IPAddresses: what leases of addresses look like to people. No rows are theirs.

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
    LEASE, WAIT, load_lease, read_lease, read_waiting_claim, select_lease_of_address,
    select_lease_of_claim,
};
use super::ip_pools::load_ip_pool;
use super::stored::Stored;

/// A claim, with its address or without, and the cluster that it goes with.
fn load_ip_claim(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if !state.ip_leases.knows(key)
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
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_ip_claim(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let leases = select_named_leases(store, filter, true)?.into_iter();
        let claimed = leases.filter(|(lease, _)| lease.claimed);
        Ok(claimed.map(|(lease, address_name)| lease.to_claim(&address_name)).collect())
    }
}

impl Stored for IpAddress {
    /// Loads the lease behind it.
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
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
        let of_any_name = Filter { name: None, ..filter.clone() };
        let leases = select_named_leases(store, &of_any_name, false)?.into_iter();
        let is_named = |name: &str| filter.name.as_ref().is_none_or(|wanted| wanted == name);
        let leases = leases.filter(|(_, name)| is_named(name));
        Ok(leases.filter_map(|(lease, name)| lease.to_address(&name)).collect())
    }
}

/// Leases, and with them the claims that wait for one, each with the name of its IPAddress.
fn select_named_leases(
    store: &Store,
    filter: &Filter,
    with_waiting: bool,
) -> Result<Vec<(IpLease, String)>, Refusal> {
    let mut leases = Vec::new();
    if let (Some(namespace), Some(name), true) = (&filter.namespace, &filter.name, with_waiting) {
        leases.extend(select_lease_of_claim(store.conn(), &Key::new(&**namespace, &**name))?);
    } else {
        // An IPAddress has another name than its claim.
        let name = if with_waiting { filter.name.clone() } else { None };
        let filter = Filter { name, ..filter.clone() };
        let (condition, values) = filter.conditions("s.namespace = #", Some("l.claim = #"));
        let sql = format!("SELECT {LEASE} {condition} ORDER BY l.scope, l.address");
        let mut statement = store.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            leases.push(read_lease(row)?);
        }
        let (condition, values) = filter.conditions("namespace = #", Some("claim = #"));
        let sql = format!("SELECT {WAIT} {condition} ORDER BY id");
        let mut statement = store.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()?.filter(|_| with_waiting) {
            leases.push(read_waiting_claim(row)?);
        }
    }
    let pools: Vec<IpPool> = select_documents(store.conn(), None)?;
    let mut named_leases = Vec::new();
    for lease in leases {
        let pool = pools.iter().find(|pool| pool.metadata.key() == lease.pool_key());
        let name = pool.map(|pool| address_name(pool, &lease)).unwrap_or_default();
        named_leases.push((lease, name));
    }
    Ok(named_leases)
}

/// The lease that an IPAddress of this name is.
fn select_lease_of_address_name(conn: &Connection, key: &Key) -> Result<Option<IpLease>, Refusal> {
    for pool in select_documents::<IpPool>(conn, Some(&key.namespace))? {
        for address in pool.addresses_named(&key.name) {
            let lease = select_lease_of_address(conn, &key.namespace, address)?;
            let lease = lease.filter(|lease| address_name(&pool, lease) == key.name);
            if lease.is_some() {
                return Ok(lease);
            }
        }
    }
    let sql =
        format!("SELECT {LEASE} WHERE s.namespace = ?1 AND l.more ->> '$.notes.address.name' = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![key.namespace, key.name])?;
    rows.next()?.map(read_lease).transpose()
}
