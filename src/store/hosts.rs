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
use super::open::Store;
use super::read::Filter;
use super::stored::Stored;

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
    some(conn, state, sql, params![pool.namespace, pool.name])
}

/// The host that boots from an address.
pub fn by_mac(conn: &Connection, state: &mut State, mac: &str) -> Result<(), Refusal> {
    some(conn, state, "SELECT id, body FROM host WHERE mac = ?1", [mac])
}

/// Those that a query finds, and what works on them.
fn some(
    conn: &Connection,
    state: &mut State,
    sql: &str,
    who: impl rusqlite::Params,
) -> Result<(), Refusal> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(who)?;
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
    let mut edited = Vec::new();
    for change in state.hosts.difference() {
        let is = |one: &BareMetalHost| {
            let mac = Some(one.spec.boot_mac_address.to_lowercase()).filter(|mac| !mac.is_empty());
            (mac, one.address().map(|address| address.controller()))
        };
        let Some(after) = change.after else { continue };
        let same = change.before.is_some_and(|before| is(before) == is(after));
        edited.push((after.clone(), (!same).then(|| is(after))));
    }
    let wanted: Vec<(Option<String>, Option<String>)> =
        edited.iter().filter_map(|(_, is)| is.clone()).collect();
    // One controller has many spellings: each is read.
    if !wanted.is_empty() {
        let sql = "SELECT namespace, name, mac, bmc FROM host";
        let mut statement = conn.prepare_cached(sql)?;
        let (mut rows, mut met) = (statement.query([])?, Vec::new());
        while let Some(row) = rows.next()? {
            let (mac, bmc): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
            let bmc = bmc.and_then(|text| text.parse::<Address>().ok());
            let bmc = bmc.map(|address| address.controller());
            let meets = |(its, controller): &(Option<String>, Option<String>)| {
                (its.is_some() && *its == mac) || (controller.is_some() && *controller == bmc)
            };
            if wanted.iter().any(meets) {
                met.push(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            }
        }
        for key in met {
            one(conn, state, &key)?;
        }
    }
    for (host, _) in edited {
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
        some(conn, state, sql, params![key.namespace, key.name])?;
    }
    Ok(())
}

impl Stored for BareMetalHost {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        one(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        documents::list(store.conn(), filter)
    }
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
