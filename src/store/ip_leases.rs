//! Reads the rows of leases of addresses: by claim, by address, by pool and by cluster. Never
//! grants or removes a lease.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::{Deserialize, Serialize};

use crate::model::address::{Addr, IpRange};
use crate::model::annotations::OWNER;
use crate::model::ip_lease::{IpLease, LeaseMetadata};
use crate::model::ip_pool::{AddressNetwork, IpPool};
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::time::Time;

use super::connection::Store;

/// What follows SELECT in a query for leases, up to its WHERE. `read_lease` reads a row of the
/// result.
pub const LEASE_SELECTION: &str = "s.namespace, l.claim, p.name, l.address, n.body, l.created, \
    l.more, l.cluster, l.agent, l.claim_namespace \
    FROM ip_lease l JOIN ip_scope s ON s.id = l.scope JOIN ip_pool p ON p.id = l.pool \
    JOIN ip_network n ON n.id = l.network";
/// What follows SELECT in a query for claims that wait for an address, up to its WHERE.
/// `read_waiting_claim` reads a row of the result.
pub const WAITING_CLAIM_SELECTION: &str =
    "namespace, claim, pool, created, more, id, cluster, agent FROM ip_wait";

/// The lease of a claim (`?2`) of a namespace (`?1`) from a pool of that namespace. The index needs
/// the last condition.
const OWN_CLAIM: &str = "WHERE l.scope = (SELECT id FROM ip_scope WHERE namespace = ?1) \
    AND l.claim = ?2 AND l.claim_namespace IS NULL";
/// The same from a pool of another namespace, which shares it.
const FOREIGN_CLAIM: &str = "WHERE l.claim_namespace = ?1 AND l.claim = ?2";
/// The claim of a lease is in a namespace (`?1`).
const OF_NAMESPACE: &str =
    "coalesce(l.claim_namespace, (SELECT namespace FROM ip_scope WHERE id = l.scope)) = ?1";

/// Facts that few leases have: the JSON in the column `more`. Times are microseconds since 1970.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RareFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    leased: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleting: Option<i64>,
    /// A person has leased the address by hand, and the claim does not exist.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_hand: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    /// When the lease ends by itself. Its notes say so; here an index finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
    /// The end that a warning was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    warned: Option<i64>,
    /// The BareMetalHost that the claim is for, beside its owners: the leases of a host are found by
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// The namespace of the pool that a waiting claim names. A column has that of a lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Box<LeaseMetadata>>,
}

impl RareFields {
    /// The rare facts of a lease.
    pub fn of_lease(lease: &IpLease) -> Self {
        Self {
            leased: lease.leased.map(|time| time.0),
            deleting: lease.deleting.map(|time| time.0),
            by_hand: !lease.claimed,
            error: lease.error.clone(),
            expires: lease.expires_at().map(|time| time.0),
            warned: lease.warned_until.map(|time| time.0),
            host: lease.host().map(str::to_owned),
            pool_namespace: match lease.address {
                None => lease.pool_namespace.clone(),
                Some(_) => None,
            },
            notes: lease.notes.clone().filter(|notes| **notes != LeaseMetadata::default()),
        }
    }

    /// The JSON for the column `more`.
    pub fn to_json(&self) -> Result<String, Refusal> {
        serde_json::to_string(self).map_err(unreadable_lease)
    }

    fn write_to(self, lease: &mut IpLease) {
        lease.leased = self.leased.map(Time);
        lease.deleting = self.deleting.map(Time);
        lease.claimed = !self.by_hand;
        lease.error = self.error;
        lease.warned_until = self.warned.map(Time);
        lease.pool_namespace = lease.pool_namespace.take().or(self.pool_namespace);
        lease.notes = self.notes.filter(|notes| **notes != LeaseMetadata::default());
    }
}

fn unreadable_lease(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(Exit::State, "a lease of an address cannot be read").because(why.to_string())
}

/// Reads an address from the bytes that `Addr::to_key` makes of it for columns.
pub fn read_address(key: &[u8]) -> Result<Addr, Refusal> {
    Addr::from_key(key).ok_or_else(|| unreadable_lease("no address"))
}

/// Reads a row that was selected by `LEASE_SELECTION`.
pub fn read_lease(row: &Row<'_>) -> Result<IpLease, Refusal> {
    let address: Vec<u8> = row.get(3)?;
    let network: String = row.get(4)?;
    let rare_fields: Option<String> = row.get(6)?;
    let address_namespace: String = row.get(0)?;
    let claim_namespace: Option<String> = row.get(9)?;
    let mut lease = IpLease {
        pool_namespace: claim_namespace.as_ref().map(|_| address_namespace.clone()),
        namespace: claim_namespace.unwrap_or(address_namespace),
        claim: row.get(1)?,
        pool: row.get(2)?,
        address: Some(read_address(&address)?),
        network: serde_json::from_str(&network).map_err(unreadable_lease)?,
        created: whole_seconds(row.get(5)?),
        holder: read_holder(row, 7)?,
        ..IpLease::default()
    };
    let rare_fields: RareFields = match rare_fields {
        Some(json) => serde_json::from_str(&json).map_err(unreadable_lease)?,
        None => RareFields::default(),
    };
    rare_fields.write_to(&mut lease);
    Ok(lease)
}

/// Reads a row that was selected by `WAITING_CLAIM_SELECTION`: a lease that has no address yet.
pub fn read_waiting_claim(row: &Row<'_>) -> Result<IpLease, Refusal> {
    let rare_fields: String = row.get(4)?;
    let mut lease = IpLease {
        namespace: row.get(0)?,
        claim: row.get(1)?,
        pool: row.get(2)?,
        created: whole_seconds(row.get(3)?),
        id: row.get(5)?,
        holder: read_holder(row, 6)?,
        ..IpLease::default()
    };
    let rare_fields: RareFields = serde_json::from_str(&rare_fields).map_err(unreadable_lease)?;
    rare_fields.write_to(&mut lease);
    Ok(lease)
}

/// Reads from a column the cluster that a lease goes with, and from the next one the Agent of the
/// host that the address is for.
fn read_holder(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ClusterHolder>> {
    let Some(cluster) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    Ok(Some(ClusterHolder { agent: row.get(column + 1)?, ..ClusterHolder::new(cluster) }))
}

/// Leases keep their creation in whole seconds, as the wire has it.
fn whole_seconds(seconds: i64) -> Time {
    Time(seconds.saturating_mul(1_000_000))
}

/// The leases that the clauses select, each with a query of its own, so they should be few. The
/// clauses begin with WHERE and name the row of a lease `l`.
pub fn select_leases(
    conn: &Connection,
    clauses: &str,
    values: impl Params,
) -> Result<Vec<IpLease>, Refusal> {
    // Most of these queries find no lease. One for keys alone takes a quarter of the time to prepare.
    let sql = format!("SELECT l.scope, l.address FROM ip_lease l {clauses}");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        let (scope, address): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let of_key = "WHERE l.scope = ?1 AND l.address = ?2";
        visit_selected_leases(conn, of_key, params![scope, address], &mut |lease| {
            leases.push(lease);
        })?;
    }
    Ok(leases)
}

/// Hands on the leases that the clauses select, one by one.
fn visit_selected_leases(
    conn: &Connection,
    clauses: &str,
    values: impl Params,
    visit: &mut dyn FnMut(IpLease),
) -> Result<(), Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT {LEASE_SELECTION} {clauses}"))?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        visit(read_lease(row)?);
    }
    Ok(())
}

/// The lease of a claim; without an address if the claim still waits for one.
pub fn select_lease_of_claim(conn: &Connection, key: &Key) -> Result<Option<IpLease>, Refusal> {
    let values = params![key.namespace, key.name];
    for clauses in [OWN_CLAIM, FOREIGN_CLAIM] {
        if let Some(lease) = select_leases(conn, clauses, values)?.pop() {
            return Ok(Some(lease));
        }
    }
    let sql = format!("SELECT {WAITING_CLAIM_SELECTION} WHERE namespace = ?1 AND claim = ?2");
    let claim = conn.prepare_cached(&sql)?.query_row(values, |row| Ok(read_waiting_claim(row)));
    claim.optional()?.transpose()
}

/// The lease of an address of a pool of a namespace, whatever the pool.
pub fn select_lease_of_address(
    conn: &Connection,
    namespace: &str,
    address: Addr,
) -> Result<Option<IpLease>, Refusal> {
    let clauses =
        "WHERE l.scope = (SELECT id FROM ip_scope WHERE namespace = ?1) AND l.address = ?2";
    Ok(select_leases(conn, clauses, params![namespace, address.to_key()])?.pop())
}

/// The lease whose IPAddress was given this name, instead of the one that follows from its pool and
/// its address.
pub fn select_lease_by_given_name(
    conn: &Connection,
    key: &Key,
) -> Result<Option<IpLease>, Refusal> {
    let clauses =
        format!("WHERE l.more ->> '$.notes.address.name' = ?2 AND {OF_NAMESPACE} LIMIT 1");
    Ok(select_leases(conn, &clauses, params![key.namespace, key.name])?.pop())
}

/// The leases of the claims that are for a BareMetalHost, and those of them that wait.
pub fn select_leases_of_host(conn: &Connection, host: &Key) -> Result<Vec<IpLease>, Refusal> {
    let clauses = format!("WHERE l.more ->> '$.host' = ?2 AND {OF_NAMESPACE} ORDER BY l.claim");
    let values = params![host.namespace, host.name];
    let mut leases = select_leases(conn, &clauses, values)?;
    let sql = format!(
        "SELECT {WAITING_CLAIM_SELECTION} \
         WHERE namespace = ?1 AND more ->> '$.host' = ?2 ORDER BY id"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        leases.push(read_waiting_claim(row)?);
    }
    Ok(leases)
}

/// The leases that go with a cluster, in the order of their claims.
pub fn select_leases_of_cluster(
    conn: &Connection,
    namespace: &str,
    cluster: &str,
) -> Result<Vec<IpLease>, Refusal> {
    let clauses = format!("WHERE l.cluster = ?2 AND {OF_NAMESPACE} ORDER BY l.claim");
    select_leases(conn, &clauses, params![namespace, cluster])
}

/// Puts a lease into the state unless the state has it already, perhaps with edits.
pub fn load_lease(state: &mut State, lease: IpLease) {
    if !state.ip_leases.has_or_had(&lease.key()) {
        state.ip_leases.load(lease);
    }
}

impl Store {
    /// The lease of a claim; without an address if the claim still waits for one.
    pub fn find_lease_of_claim(&self, claim: &Key) -> Result<Option<IpLease>, Refusal> {
        select_lease_of_claim(self.conn(), claim)
    }

    /// Counts the claims that a guest has made for addresses in all namespaces, but for those that
    /// are being released.
    pub fn count_ip_claims_of(&self, owner: &str) -> Result<u32, Refusal> {
        let is_of_owner = format!("more ->> '$.notes.claim.annotations.\"{OWNER}\"' = ?1");
        let is_wanted = "more ->> '$.deleting' IS NULL";
        let sql = format!(
            "SELECT (SELECT count(*) FROM ip_lease WHERE {is_of_owner} AND {is_wanted}) \
             + (SELECT count(*) FROM ip_wait WHERE {is_of_owner} AND {is_wanted})"
        );
        let mut statement = self.conn().prepare_cached(&sql)?;
        Ok(statement.query_row([owner], |row| row.get(0))?)
    }

    /// The lease of an address of a pool of a namespace, whatever the pool.
    pub fn find_lease_of_address(
        &self,
        namespace: &str,
        address: Addr,
    ) -> Result<Option<IpLease>, Refusal> {
        select_lease_of_address(self.conn(), namespace, address)
    }

    /// The leases of a pool, in the order of their addresses.
    pub fn list_leases_of_pool(&self, pool: &IpPool) -> Result<Vec<IpLease>, Refusal> {
        let mut leases = Vec::new();
        self.visit_leases_of_pool(pool, &mut |lease| leases.push(lease))?;
        Ok(leases)
    }

    /// Hands on the leases of a pool one by one, in the order of their addresses.
    pub fn visit_leases_of_pool(
        &self,
        pool: &IpPool,
        visit: &mut dyn FnMut(IpLease),
    ) -> Result<(), Refusal> {
        let clauses = "WHERE l.pool = ?1 ORDER BY l.address";
        visit_selected_leases(self.conn(), clauses, [pool.metadata.id], visit)
    }

    /// The leases of the claims of a namespace from pools that other namespaces share with it, in the
    /// order of their addresses.
    pub fn list_leases_from_shared_pools(&self, namespace: &str) -> Result<Vec<IpLease>, Refusal> {
        let clauses = "WHERE l.claim_namespace = ?1 ORDER BY l.address";
        let mut leases = Vec::new();
        visit_selected_leases(self.conn(), clauses, [namespace], &mut |lease| leases.push(lease))?;
        Ok(leases)
    }

    /// Hands on the addresses that are leased from a pool, each with what the claim is called for
    /// the pool, in their order.
    pub fn visit_leased_addresses(
        &self,
        pool: &IpPool,
        visit: &mut dyn FnMut(Addr, String),
    ) -> Result<(), Refusal> {
        let sql = "SELECT l.address, \
                   coalesce(l.claim_namespace || '/', '') || l.claim FROM ip_lease l \
                   WHERE l.scope = (SELECT id FROM ip_scope WHERE namespace = ?1) AND l.pool = ?2 \
                   ORDER BY l.address";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut rows = statement.query(params![pool.metadata.namespace, pool.metadata.id])?;
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(0)?;
            visit(read_address(&key)?, row.get(1)?);
        }
        Ok(())
    }

    /// The first leased addresses of a range in the namespace of a pool, `limit` at most, each with
    /// what its claim is called for the pool, and whether it is leased from this pool.
    pub fn find_leases_in_range(
        &self,
        pool: &IpPool,
        range: IpRange,
        limit: usize,
    ) -> Result<BTreeMap<Addr, (String, bool)>, Refusal> {
        let sql = "SELECT l.address, \
                   coalesce(l.claim_namespace || '/', '') || l.claim, l.pool FROM ip_lease l \
                   WHERE l.scope = (SELECT id FROM ip_scope WHERE namespace = ?1) \
                   AND l.address BETWEEN ?2 AND ?3 ORDER BY l.address LIMIT ?4";
        let mut statement = self.conn().prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let namespace = &pool.metadata.namespace;
        let mut rows =
            statement.query(params![namespace, range.start.to_key(), range.end.to_key(), limit])?;
        let mut claims = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(0)?;
            let is_of_pool = row.get::<_, i64>(2)? == pool.metadata.id;
            claims.insert(read_address(&key)?, (row.get(1)?, is_of_pool));
        }
        Ok(claims)
    }

    /// The leases that go with a cluster, in the order of their claims.
    pub fn list_leases_of_cluster(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<IpLease>, Refusal> {
        select_leases_of_cluster(self.conn(), namespace, name)
    }
}

/// The id of the row that stands for a namespace in leases. Inserts the row if there is none.
pub fn find_or_insert_scope(conn: &Connection, namespace: &str) -> Result<i64, Refusal> {
    let sql = "SELECT id FROM ip_scope WHERE namespace = ?1";
    let scope = conn.prepare_cached(sql)?.query_row([namespace], |row| row.get(0)).optional()?;
    if let Some(scope) = scope {
        return Ok(scope);
    }
    conn.prepare_cached("INSERT INTO ip_scope (namespace) VALUES (?1)")?.execute([namespace])?;
    Ok(conn.last_insert_rowid())
}

/// The id of the row of a network, which leases share. Inserts the row if there is none.
pub fn find_or_insert_network(conn: &Connection, network: &AddressNetwork) -> Result<i64, Refusal> {
    let body = serde_json::to_string(network).map_err(unreadable_lease)?;
    let sql = "SELECT id FROM ip_network WHERE body = ?1";
    let network_id = conn.prepare_cached(sql)?.query_row([&body], |row| row.get(0)).optional()?;
    if let Some(network_id) = network_id {
        return Ok(network_id);
    }
    conn.prepare_cached("INSERT INTO ip_network (body) VALUES (?1)")?.execute([&body])?;
    Ok(conn.last_insert_rowid())
}
