//! Hosts with the jobs that work on them.

use rusqlite::{Connection, params};

use crate::model::bmc::Address;
use crate::model::host::BareMetalHost;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::Row;

use super::documents::{self, decode, need};
use super::load::{jobs, secret};

/// All hosts; whoever loads them loads all live jobs.
pub fn all(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    for one in documents::all::<BareMetalHost>(conn, None)? {
        take(conn, state, one)?;
    }
    Ok(())
}

/// A host, and what works on it.
pub fn one(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.hosts.knows(key) {
        return Ok(());
    }
    need(conn, &mut state.hosts, key)?;
    with_job(conn, state, key)
}

/// The hosts that clusters of a pool use.
pub fn of_pool(conn: &Connection, state: &mut State, pool: &Key) -> Result<(), Refusal> {
    let sql = "SELECT h.id, h.body FROM host h JOIN cluster c ON c.name = h.consumer \
               WHERE h.consumer IS NOT NULL AND c.pool_namespace = ?1 AND c.pool = ?2 ORDER BY h.id";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![pool.namespace, pool.name])?;
    while let Some(row) = rows.next()? {
        let one: BareMetalHost = decode(row)?;
        let key = one.key();
        take(conn, state, one)?;
        with_job(conn, state, &key)?;
    }
    Ok(())
}

/// Other hosts with the address or the controller of one that an edit has put in, and the Secrets
/// that those which were put in name.
pub fn beside(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let edited: Vec<BareMetalHost> =
        state.hosts.difference().filter_map(|change| change.after.cloned()).collect();
    // One controller has many spellings; all have its name in them.
    let sql = "SELECT id, body FROM host WHERE mac = lower(?1) OR instr(lower(bmc), lower(?2))";
    for host in edited {
        let mac = Some(&host.spec.boot_mac_address).filter(|mac| !mac.is_empty());
        let address = host.address();
        let bmc = address.as_ref().map(Address::host);
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![mac, bmc])?;
        while let Some(row) = rows.next()? {
            let other: BareMetalHost = decode(row)?;
            let key = other.key();
            take(conn, state, other)?;
            with_job(conn, state, &key)?;
        }
        credentials(conn, state, &host)?;
    }
    users(conn, state)
}

/// Hosts that are reached with Secrets that an edit has changed.
fn users(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let changed = state.secrets.difference().filter_map(|change| change.after.or(change.before));
    let changed: Vec<Key> = changed.map(Row::key).collect();
    let sql = "SELECT id, body FROM host \
               WHERE namespace = ?1 AND body ->> '$.spec.bmc.credentialsName' = ?2";
    for key in changed {
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![key.namespace, key.name])?;
        while let Some(row) = rows.next()? {
            let one: BareMetalHost = decode(row)?;
            let key = one.key();
            take(conn, state, one)?;
            with_job(conn, state, &key)?;
        }
    }
    Ok(())
}

fn take(conn: &Connection, state: &mut State, one: BareMetalHost) -> Result<(), Refusal> {
    if state.hosts.knows(&one.key()) {
        return Ok(());
    }
    credentials(conn, state, &one)?;
    state.hosts.load(one);
    Ok(())
}

fn credentials(conn: &Connection, state: &mut State, one: &BareMetalHost) -> Result<(), Refusal> {
    let Some(bmc) = &one.spec.bmc else { return Ok(()) };
    secret(conn, state, &Key::new(&*one.metadata.namespace, &*bmc.credentials_name))
}

fn with_job(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if let Some(host) = state.hosts.by_key(key).cloned() {
        credentials(conn, state, &host)?;
    }
    let which = "ended IS NULL AND id IN (SELECT job FROM job_host WHERE host = ?1 AND live)";
    jobs(conn, which, [key.to_string()], state)
}
