//! Leases of addresses as people see them: pools with their counts, claims, addresses, tenants.

use std::collections::HashMap;

use rusqlite::{Connection, Row as SqlRow, params, params_from_iter};
use serde_json::{Value, json};

use crate::model::address::{Addr, Stretch};
use crate::model::ip_lease::{IpAddress, IpClaim, IpLease, address_name};
use crate::model::ip_pool::{IpPool, IpPoolStatus, OVERLAP, Tenant};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::time::Time;

use super::addresses::{self, LEASE, WAIT, by_claim, lease_row, unreadable, wait_row};
use super::documents;
use super::open::Store;
use super::read::Filter;
use super::stored::Stored;

/// JSON numbers are exact up to this.
const EXACT: u128 = 1 << 53;

const PAST: &str = "h.address, h.pool, h.claim, h.since, h.until FROM ip_history h \
    JOIN ip_scope s ON s.id = h.scope";

/// How many addresses a pool has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub total: u128,
    pub used: u128,
    pub reserved: u128,
    pub free: u128,
    pub outside: u128,
}

impl Counts {
    fn document(self) -> Value {
        let number = |count: u128| match u64::try_from(count) {
            Ok(small) if count <= EXACT => Value::from(small),
            _ => Value::from(count.to_string()),
        };
        json!({"total": number(self.total), "used": number(self.used), "free": number(self.free),
               "reserved": number(self.reserved), "outOfRange": number(self.outside)})
    }
}

impl Stored for IpPool {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        addresses::pool(conn, state, key)
    }

    /// Pools with their counts; whole ones with who has what.
    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let mut pools: Vec<Self> = documents::list(store.conn(), filter)?;
        for pool in &mut pools {
            let (counts, updated) = store.ip_counts(pool)?;
            let mut status = IpPoolStatus {
                last_updated: updated
                    .max(pool.status.last_updated)
                    .or(pool.metadata.creation_timestamp),
                ip_addresses: Some(counts.document()),
                ..IpPoolStatus::default()
            };
            if filter.whole {
                for lease in store.leases_of(pool)? {
                    let Some(address) = lease.address else { continue };
                    status.allocations.insert(lease.claim.clone(), address.to_string());
                    status.addresses.insert(lease.claim.clone(), address_name(pool, &lease));
                }
                status.indexes.clone_from(&status.allocations);
            }
            pool.status = status;
        }
        Ok(pools)
    }
}

impl Stored for IpClaim {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        addresses::claim(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let leases = store.all_leases(filter, true)?.into_iter().filter(|(lease, _)| lease.claimed);
        Ok(leases.map(|(lease, address_name)| lease.to_claim(&address_name)).collect())
    }
}

impl Stored for IpAddress {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        by_name(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        if let (Some(namespace), Some(name)) = (&filter.namespace, &filter.name)
            && let Some((lease, name)) =
                by_its_name(store.conn(), &Key::new(&**namespace, &**name))?
        {
            return Ok(lease.to_address(&name).into_iter().collect());
        }
        let leases = store.all_leases(&Filter { name: None, ..filter.clone() }, false)?.into_iter();
        let is_named = |name: &str| filter.name.as_ref().is_none_or(|wanted| wanted == name);
        let leases = leases.filter(|(_, name)| is_named(name));
        Ok(leases.filter_map(|(lease, name)| lease.to_address(&name)).collect())
    }
}

impl Store {
    /// Exact at any size, and without looking at every lease.
    pub fn ip_counts(&self, pool: &IpPool) -> Result<(Counts, Option<Time>), Refusal> {
        let sql = "SELECT used, outside, updated FROM ip_count WHERE pool = ?1";
        let (used, outside, updated): (i64, i64, Option<i64>) = self
            .conn()
            .prepare_cached(sql)?
            .query_row([pool.metadata.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let sum =
            |all: &[Stretch]| all.iter().fold(0_u128, |sum, one| sum.saturating_add(one.size()));
        let usable: Vec<Stretch> = pool.usable().into_iter().map(|(_, one)| one).collect();
        let pre: Vec<Addr> = pool.pre_allocated().map(|(_, address)| address).collect();
        let beside = pre.iter().filter(|one| !usable.iter().any(|range| range.has(**one))).count();
        let total = sum(&usable).saturating_add(beside as u128);
        let open: Vec<Stretch> = pool.open().into_iter().map(|(_, one)| one).collect();
        // Kept from others: all that is not open, but for what is leased of it.
        let kept = total.saturating_sub(sum(&open));
        let reserved: Vec<Stretch> = pool.reserved().into_iter().map(|(range, _)| range).collect();
        let mut leased = 0_u128;
        for (at, range) in reserved.iter().enumerate() {
            // What two of them reserve counts once.
            for part in range.without(&reserved[..at]) {
                leased += self.leased_within(pool, part, &usable, true)?;
            }
        }
        let within = |all: &[Stretch], address: Addr| all.iter().any(|range| range.has(address));
        let counted = |address: Addr| within(&usable, address) && within(&reserved, address);
        for address in pre.iter().filter(|one| !counted(**one)) {
            let has = addresses::by_address(self.conn(), &pool.metadata.namespace, *address)?;
            leased += u128::from(has.is_some_and(|one| one.pool == pool.metadata.name));
        }
        let (used, outside) = (u128::from(used.unsigned_abs()), u128::from(outside.unsigned_abs()));
        let inside = used.saturating_sub(outside);
        let reserved = kept.saturating_sub(leased);
        let elsewhere = self.leased_elsewhere(pool, &open)?;
        let free = total.saturating_sub(inside + elsewhere).saturating_sub(reserved);
        Ok((Counts { total, used, reserved, free, outside }, updated.map(Time)))
    }

    /// What other pools lease of the open addresses of this one, which they do only where pools
    /// overlap or have leases out of their ranges.
    fn leased_elsewhere(&self, pool: &IpPool, open: &[Stretch]) -> Result<u128, Refusal> {
        let meta = &pool.metadata;
        let sql = "SELECT EXISTS (SELECT 1 FROM ip_count c CROSS JOIN ip_pool p ON p.id = c.pool \
                   WHERE c.outside > 0 AND c.pool <> ?2 AND p.namespace = ?1)";
        let who = params![meta.namespace, meta.id];
        let strays: bool = self.conn().prepare_cached(sql)?.query_row(who, |row| row.get(0))?;
        let mut all = 0;
        for part in open.iter().filter(|_| strays || meta.annotated(OVERLAP)) {
            all += self.leased_within(pool, *part, &[*part], false)?;
        }
        Ok(all)
    }

    /// Leases of a pool, or of others, in what of a range is usable.
    fn leased_within(
        &self,
        pool: &IpPool,
        range: Stretch,
        usable: &[Stretch],
        ours: bool,
    ) -> Result<u128, Refusal> {
        let sql = "SELECT count(*) FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
                   WHERE s.namespace = ?1 AND (l.pool = ?2) = ?5 AND l.address BETWEEN ?3 AND ?4";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut all = 0;
        for part in usable.iter().filter(|part| part.meets(range)) {
            let (start, end) = (part.start.max(range.start), part.end.min(range.end));
            let meta = &pool.metadata;
            let who = params![meta.namespace, meta.id, start.key(), end.key(), ours];
            let found: i64 = statement.query_row(who, |row| row.get(0))?;
            all += u128::from(found.unsigned_abs());
        }
        Ok(all)
    }

    /// The lease of a claim.
    pub fn lease_of(&self, claim: &Key) -> Result<Option<IpLease>, Refusal> {
        addresses::by_claim(self.conn(), claim)
    }

    /// The leases of a pool, by address.
    pub fn leases_of(&self, pool: &IpPool) -> Result<Vec<IpLease>, Refusal> {
        let sql = format!("SELECT {LEASE} WHERE l.pool = ?1 ORDER BY l.address");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut rows = statement.query([pool.metadata.id])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(lease_row(row)?);
        }
        Ok(found)
    }

    /// Who has addresses of a range, and whether of this pool.
    pub fn leases_between(
        &self,
        pool: &IpPool,
        range: Stretch,
    ) -> Result<HashMap<Addr, (String, bool)>, Refusal> {
        let sql = "SELECT l.address, l.claim, l.pool FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
                   WHERE s.namespace = ?1 AND l.address BETWEEN ?2 AND ?3";
        let mut statement = self.conn().prepare_cached(sql)?;
        let who = params![pool.metadata.namespace, range.start.key(), range.end.key()];
        let (mut rows, mut found) = (statement.query(who)?, HashMap::new());
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(0)?;
            let ours = row.get::<_, i64>(2)? == pool.metadata.id;
            let address = Addr::from_key(&key).ok_or_else(|| unreadable("no address"))?;
            found.insert(address, (row.get(1)?, ours));
        }
        Ok(found)
    }

    fn all_leases(
        &self,
        filter: &Filter,
        waiting: bool,
    ) -> Result<Vec<(IpLease, String)>, Refusal> {
        let mut found = Vec::new();
        if let (Some(namespace), Some(name), true) = (&filter.namespace, &filter.name, waiting) {
            found.extend(by_claim(self.conn(), &Key::new(&**namespace, &**name))?);
        } else {
            // An IPAddress has another name than its claim.
            let name = filter.name.clone().filter(|_| waiting);
            let filter = Filter { name, ..filter.clone() };
            let (which, who) = filter.conditions("s.namespace = #", Some("l.claim = #"));
            let sql = format!("SELECT {LEASE} {which} ORDER BY l.scope, l.address");
            let mut statement = self.conn().prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(who))?;
            while let Some(row) = rows.next()? {
                found.push(lease_row(row)?);
            }
            let (which, who) = filter.conditions("namespace = #", Some("claim = #"));
            let sql = format!("SELECT {WAIT} {which} ORDER BY id");
            let mut statement = self.conn().prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(who))?;
            while let Some(row) = rows.next()?.filter(|_| waiting) {
                found.push(wait_row(row)?);
            }
        }
        let pools: Vec<IpPool> = documents::all(self.conn(), None)?;
        let pool = |one: &IpLease| pools.iter().find(|pool| pool.metadata.key() == one.pool_key());
        let named = |one: IpLease| {
            let name = pool(&one).map(|pool| address_name(pool, &one)).unwrap_or_default();
            (one, name)
        };
        Ok(found.into_iter().map(named).collect())
    }

    /// The leases that go with a cluster.
    pub fn leases_of_cluster(&self, namespace: &str, name: &str) -> Result<Vec<IpLease>, Refusal> {
        addresses::of_cluster(self.conn(), namespace, name)
    }

    /// Who has an address, and who had it, the last one first; in a namespace, or in each.
    pub fn tenants(&self, namespace: Option<&str>, address: Addr) -> Result<Vec<Tenant>, Refusal> {
        let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
        let (which, who) = filter.conditions("namespace = #", None);
        let sql = format!("SELECT namespace FROM ip_scope {which} ORDER BY 1");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let names = statement.query_map(params_from_iter(who), |row| row.get(0))?;
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        let mut found = Vec::new();
        for name in &names {
            found.extend(self.tenants_in(name, address)?);
        }
        Ok(found)
    }

    fn tenants_in(&self, namespace: &str, address: Addr) -> Result<Vec<Tenant>, Refusal> {
        let now = addresses::by_address(self.conn(), namespace, address)?;
        let mut found: Vec<Tenant> = now
            .map(|one| Tenant {
                since: one.leased.unwrap_or(one.created),
                namespace: one.namespace,
                address,
                pool: one.pool,
                claim: one.claim,
                until: None,
            })
            .into_iter()
            .collect();
        let sql = format!(
            "SELECT {PAST} WHERE s.namespace = ?1 AND h.address = ?2 ORDER BY h.until DESC, h.id DESC"
        );
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params![namespace, address.key()])?;
        while let Some(row) = rows.next()? {
            found.push(tenant(row, namespace)?);
        }
        Ok(found)
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
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(tenant(row, &meta.namespace)?);
        }
        Ok(found)
    }
}

fn tenant(row: &SqlRow<'_>, namespace: &str) -> Result<Tenant, Refusal> {
    let key: Vec<u8> = row.get(0)?;
    let address = Addr::from_key(&key).ok_or_else(|| unreadable("no address"))?;
    let (pool, claim) = (row.get(1)?, row.get(2)?);
    let (since, until) = (Time(row.get(3)?), Some(Time(row.get(4)?)));
    Ok(Tenant { namespace: namespace.to_owned(), address, pool, claim, since, until })
}

/// The lease that an IPAddress of this name is.
fn by_its_name(conn: &Connection, key: &Key) -> Result<Option<(IpLease, String)>, Refusal> {
    for pool in documents::all::<IpPool>(conn, Some(&key.namespace))? {
        for address in pool.addresses_named(&key.name) {
            let found = addresses::by_address(conn, &key.namespace, address)?;
            if let Some(found) = found.filter(|found| address_name(&pool, found) == key.name) {
                return Ok(Some((found, key.name.clone())));
            }
        }
    }
    let sql =
        format!("SELECT {LEASE} WHERE s.namespace = ?1 AND l.more ->> '$.notes.address.name' = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![key.namespace, key.name])?;
    match rows.next()? {
        Some(row) => Ok(Some((lease_row(row)?, key.name.clone()))),
        None => Ok(None),
    }
}

/// Loads the lease behind an IPAddress.
pub fn by_name(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    match by_its_name(conn, key)? {
        Some((one, _)) => addresses::claim(conn, state, &one.key()),
        None => Ok(()),
    }
}
