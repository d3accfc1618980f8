//! Writes leases of addresses, each with all that follows from it: the count of its pool, the list
//! of free addresses, and who had the address before. Never decides who gets an address.

use std::cell::OnceCell;
use std::rc::Rc;

use rusqlite::{Connection, params};

use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::range_set::RangeSet;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::documents::select_document;
use super::free_addresses::{return_to_free_list, take_from_free_list};
use super::ip_counts::count_lease;
use super::ip_leases::{RareFields, find_or_insert_network, find_or_insert_scope};
use super::tenants::write_past_tenant;

/// A pool whose leases change.
pub struct TouchedPool {
    /// The id of its row.
    pub id: i64,
    pub pool: IpPool,
    /// What anybody may be given of it. It takes long to find out, and few changes need it.
    open_ranges: OnceCell<RangeSet>,
}

impl TouchedPool {
    fn open_ranges(&self) -> &RangeSet {
        self.open_ranges.get_or_init(|| RangeSet::new(self.pool.leasable_ranges()))
    }
}

/// The pools whose leases change.
pub struct TouchedPools<'a> {
    conn: &'a Connection,
    pub pools: Vec<Rc<TouchedPool>>,
}

impl<'a> TouchedPools<'a> {
    /// A view of the leases on an open connection. Pools are read when they are asked for.
    pub fn new(conn: &'a Connection) -> Self {
        Self { conn, pools: Vec::new() }
    }

    /// The pool of a lease. Each pool is read once.
    fn find_pool(&mut self, lease: &IpLease) -> Result<Rc<TouchedPool>, Refusal> {
        let mut read_pools = self.pools.iter();
        let read_pool = read_pools.find(|touched_pool| {
            let metadata = &touched_pool.pool.metadata;
            metadata.name == lease.pool && metadata.namespace == lease.address_namespace()
        });
        if let Some(touched_pool) = read_pool {
            return Ok(Rc::clone(touched_pool));
        }
        let key = lease.pool_key();
        let pool: IpPool = select_document(self.conn, &key)?.ok_or_else(|| {
            Refusal::not_found(format!(
                "there is no IPPool `{}` in namespace `{}`",
                key.name, key.namespace
            ))
        })?;
        let id = pool.metadata.id;
        let touched_pool = Rc::new(TouchedPool { id, pool, open_ranges: OnceCell::new() });
        self.pools.push(Rc::clone(&touched_pool));
        Ok(touched_pool)
    }
}

/// Deletes a lease, and records all that follows from that: who had the address until now, the
/// count of leases, and that the address is free. An address that has to rest is listed as free
/// only when it has rested.
pub fn remove_lease(
    touched_pools: &mut TouchedPools<'_>,
    lease: &IpLease,
    now: Time,
) -> Result<(), Refusal> {
    let conn = touched_pools.conn;
    let Some(address) = lease.address else {
        conn.prepare_cached("DELETE FROM ip_wait WHERE id = ?1")?.execute([lease.id])?;
        return Ok(());
    };
    let touched_pool = touched_pools.find_pool(lease)?;
    let TouchedPool { id: pool_id, pool, .. } = &*touched_pool;
    let scope = find_or_insert_scope(conn, lease.address_namespace())?;
    let sql = "DELETE FROM ip_lease WHERE scope = ?1 AND address = ?2";
    conn.prepare_cached(sql)?.execute(params![scope, address.to_key()])?;
    let tenant = Tenant {
        namespace: lease.address_namespace().to_owned(),
        address,
        pool: lease.pool.clone(),
        claim: lease.claim_for_pool().into_owned(),
        since: lease.leased.unwrap_or(lease.created),
        until: Some(now),
    };
    write_past_tenant(conn, *pool_id, pool, &tenant)?;
    count_lease(conn, *pool_id, pool, address, -1, now)?;
    if !pool.remembers_releases() {
        return_to_free_list(conn, *pool_id, touched_pool.open_ranges(), address)?;
    }
    Ok(())
}

/// Writes a lease. One with the same address as before only changes its notes; a new address is
/// also counted, and taken from what is free or rests.
pub fn write_lease(
    touched_pools: &mut TouchedPools<'_>,
    before: Option<&IpLease>,
    lease: &IpLease,
) -> Result<(), Refusal> {
    let conn = touched_pools.conn;
    let Some(address) = lease.address else {
        return write_waiting_claim(conn, before, lease);
    };
    let scope = find_or_insert_scope(conn, lease.address_namespace())?;
    let rare_fields = RareFields::of_lease(lease);
    let more =
        if rare_fields == RareFields::default() { None } else { Some(rare_fields.to_json()?) };
    let network = find_or_insert_network(conn, &lease.network)?;
    let created = lease.created.0.div_euclid(1_000_000);
    if before.is_some_and(|before| before.address == lease.address) {
        // A claim that is made for an address which was leased by hand is younger than that.
        let sql = "UPDATE ip_lease SET network = ?3, more = ?4, cluster = ?5, agent = ?6, \
                   created = ?7 WHERE scope = ?1 AND address = ?2";
        let key = address.to_key();
        let values = params![scope, key, network, more, lease.cluster(), lease.agent(), created];
        conn.prepare_cached(sql)?.execute(values)?;
        return Ok(());
    }
    let touched_pool = touched_pools.find_pool(lease)?;
    let TouchedPool { id: pool_id, pool, .. } = &*touched_pool;
    let sql = "INSERT INTO ip_lease \
               (scope, address, pool, claim, network, created, more, cluster, agent, \
               claim_namespace) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let key = address.to_key();
    let cluster = lease.cluster();
    let agent = lease.agent();
    let claim = &lease.claim;
    let claim_namespace = lease.pool_namespace.as_ref().map(|_| &lease.namespace);
    let values = params![
        scope,
        key,
        pool_id,
        claim,
        network,
        created,
        more,
        cluster,
        agent,
        claim_namespace
    ];
    conn.prepare_cached(sql)?.execute(values)?;
    count_lease(conn, *pool_id, pool, address, 1, lease.leased.unwrap_or(lease.created))?;
    let sql = "DELETE FROM ip_released WHERE pool = ?1 AND address = ?2";
    conn.prepare_cached(sql)?.execute(params![pool_id, address.to_key()])?;
    take_from_free_list(conn, *pool_id, pool, address)
}

/// Writes a claim that has no address yet.
fn write_waiting_claim(
    conn: &Connection,
    before: Option<&IpLease>,
    lease: &IpLease,
) -> Result<(), Refusal> {
    let more = RareFields::of_lease(lease).to_json()?;
    if before.is_some_and(|before| before.address.is_none()) {
        let sql = "UPDATE ip_wait SET more = ?2, cluster = ?3, agent = ?4 WHERE id = ?1";
        let values = params![lease.id, more, lease.cluster(), lease.agent()];
        conn.prepare_cached(sql)?.execute(values)?;
        return Ok(());
    }
    let created = lease.created.0.div_euclid(1_000_000);
    let sql = "INSERT INTO ip_wait (namespace, claim, pool, created, more, cluster, agent) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let IpLease { namespace, claim, pool, .. } = lease;
    let values = params![namespace, claim, pool, created, more, lease.cluster(), lease.agent()];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
