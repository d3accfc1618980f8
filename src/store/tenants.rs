//! The tenants of addresses: who has an address, and who had it. Nothing here leases or releases an
//! address.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::model::address::{Addr, IpRange};
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;
use super::filter::Filter;
use super::ip_leases::{find_or_insert_scope, read_address, select_lease_of_address};

/// What is selected of past tenants, up to the clauses. `read_past_tenant` reads a row of it.
const PAST: &str = "h.address, h.pool, h.claim, h.since, h.until FROM ip_history h \
    JOIN ip_scope s ON s.id = h.scope";

/// Reads a row of `PAST`, which is of this namespace.
fn read_past_tenant(row: &Row<'_>, namespace: &str) -> Result<Tenant, Refusal> {
    let key: Vec<u8> = row.get(0)?;
    Ok(Tenant {
        namespace: namespace.to_owned(),
        address: read_address(&key)?,
        pool: row.get(1)?,
        claim: row.get(2)?,
        since: Time(row.get(3)?),
        until: Some(Time(row.get(4)?)),
    })
}

impl Store {
    /// The tenants of an address, the latest first: in a namespace if one is given, else in every
    /// one, namespace by namespace.
    pub fn list_tenants(
        &self,
        namespace: Option<&str>,
        address: Addr,
    ) -> Result<Vec<Tenant>, Refusal> {
        let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
        let (condition, values) = filter.where_clause("namespace = #", None);
        let sql = format!("SELECT namespace FROM ip_scope {condition} ORDER BY 1");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let names = statement.query_map(params_from_iter(values), |row| row.get(0))?;
        let namespaces: Vec<String> = names.collect::<Result<_, _>>()?;
        let mut tenants = Vec::new();
        for namespace in &namespaces {
            tenants.extend(self.tenants_in(namespace, address)?);
        }
        Ok(tenants)
    }

    /// The tenants of an address in a namespace: who has it now, and then those who had it.
    fn tenants_in(&self, namespace: &str, address: Addr) -> Result<Vec<Tenant>, Refusal> {
        let mut tenants = Vec::new();
        if let Some(lease) = select_lease_of_address(self.conn(), namespace, address)? {
            tenants.push(Tenant {
                since: lease.leased.unwrap_or(lease.created),
                namespace: namespace.to_owned(),
                address,
                claim: lease.claim_for_pool().into_owned(),
                pool: lease.pool,
                until: None,
            });
        }
        let sql = format!(
            "SELECT {PAST} WHERE s.namespace = ?1 AND h.address = ?2 \
             ORDER BY h.until DESC, h.id DESC"
        );
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params![namespace, address.to_key()])?;
        while let Some(row) = rows.next()? {
            tenants.push(read_past_tenant(row, namespace)?);
        }
        Ok(tenants)
    }

    /// When an address of a pool was released for the last time, if the pool remembers that.
    pub fn find_release(&self, pool: &IpPool, address: Addr) -> Result<Option<Time>, Refusal> {
        let sql = "SELECT released FROM ip_released WHERE pool = ?1 AND address = ?2";
        let values = params![pool.metadata.id, address.to_key()];
        let released = self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0));
        Ok(released.optional()?.map(Time))
    }

    /// The addresses of a range that a pool leases to nobody yet, because they were released a short
    /// time ago.
    pub fn find_resting_addresses(
        &self,
        pool: &IpPool,
        range: IpRange,
        now: Time,
    ) -> Result<HashSet<Addr>, Refusal> {
        let mut addresses = HashSet::new();
        let delay = pool.reuse_delay();
        if delay.0 == 0 {
            return Ok(addresses);
        }
        let sql = "SELECT address FROM ip_released WHERE pool = ?1 AND released > ?2";
        let mut statement = self.conn().prepare_cached(sql)?;
        let rested_since = now.0.saturating_sub(delay.0);
        let mut rows = statement.query(params![pool.metadata.id, rested_since])?;
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(0)?;
            addresses.insert(read_address(&key)?);
        }
        addresses.retain(|address| range.contains(*address));
        Ok(addresses)
    }

    /// The past tenants of a pool's addresses, in the order in which they released them. An export
    /// shows them with their pool; those of pools that are gone are shown with the first pool of
    /// the namespace.
    pub fn list_past_tenants(&self, pool: &IpPool) -> Result<Vec<Tenant>, Refusal> {
        let sql = format!(
            "SELECT {PAST} WHERE s.namespace = ?1 AND (h.pool = ?2 \
             OR (?3 = (SELECT min(id) FROM ip_pool WHERE namespace = ?1) \
             AND h.pool NOT IN (SELECT name FROM ip_pool WHERE namespace = ?1))) ORDER BY h.id"
        );
        let meta = &pool.metadata;
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params![meta.namespace, meta.name, meta.id])?;
        let mut tenants = Vec::new();
        while let Some(row) = rows.next()? {
            tenants.push(read_past_tenant(row, &meta.namespace)?);
        }
        Ok(tenants)
    }
}

/// Records who had an address, and if the pool cares when addresses were released, that the address
/// rests from that time on.
pub fn write_past_tenant(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
    tenant: &Tenant,
) -> Result<(), Refusal> {
    let Some(until) = tenant.until else { return Ok(()) };
    let scope = find_or_insert_scope(conn, &pool.metadata.namespace)?;
    let address = tenant.address.to_key();
    let sql = "INSERT INTO ip_history (scope, address, pool, claim, since, until) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let values = params![scope, address, tenant.pool, tenant.claim, tenant.since.0, until.0];
    conn.prepare_cached(sql)?.execute(values)?;
    if pool.remembers_releases() && tenant.pool == pool.metadata.name {
        let sql = "INSERT OR REPLACE INTO ip_released VALUES (?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![pool_id, address, until.0])?;
    }
    Ok(())
}
