//! Who has an address, and who had it: the history of leases.

use rusqlite::{Connection, Row, params, params_from_iter};

use crate::model::address::Addr;
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;
use super::filter::Filter;
use super::ip_leases::{find_or_insert_scope, read_address, select_lease_of_address};

const PAST: &str = "h.address, h.pool, h.claim, h.since, h.until FROM ip_history h \
    JOIN ip_scope s ON s.id = h.scope";

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
    /// Who has an address, and who had it, the last one first; in a namespace, or in each.
    pub fn tenants(&self, namespace: Option<&str>, address: Addr) -> Result<Vec<Tenant>, Refusal> {
        let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
        let (condition, values) = filter.conditions("namespace = #", None);
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

    fn tenants_in(&self, namespace: &str, address: Addr) -> Result<Vec<Tenant>, Refusal> {
        let mut tenants = Vec::new();
        if let Some(lease) = select_lease_of_address(self.conn(), namespace, address)? {
            tenants.push(Tenant {
                since: lease.leased.unwrap_or(lease.created),
                namespace: lease.namespace,
                address,
                pool: lease.pool,
                claim: lease.claim,
                until: None,
            });
        }
        let sql = format!(
            "SELECT {PAST} WHERE s.namespace = ?1 AND h.address = ?2 ORDER BY h.until DESC, h.id DESC"
        );
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params![namespace, address.key()])?;
        while let Some(row) = rows.next()? {
            tenants.push(read_past_tenant(row, namespace)?);
        }
        Ok(tenants)
    }

    /// Who had addresses of a pool, in order. The first pool of a namespace answers for those that
    /// are gone.
    pub fn past(&self, pool: &IpPool) -> Result<Vec<Tenant>, Refusal> {
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

/// Somebody had an address of a pool, which rests from then on where that matters.
pub fn write_past_tenant(
    conn: &Connection,
    pool_id: i64,
    pool: &IpPool,
    tenant: &Tenant,
) -> Result<(), Refusal> {
    let Some(until) = tenant.until else { return Ok(()) };
    let scope = find_or_insert_scope(conn, &pool.metadata.namespace)?;
    let address = tenant.address.key();
    let sql = "INSERT INTO ip_history (scope, address, pool, claim, since, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let values = params![scope, address, tenant.pool, tenant.claim, tenant.since.0, until.0];
    conn.prepare_cached(sql)?.execute(values)?;
    if pool.remembers() && tenant.pool == pool.metadata.name {
        let sql = "INSERT OR REPLACE INTO ip_released VALUES (?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![pool_id, address, until.0])?;
    }
    Ok(())
}
