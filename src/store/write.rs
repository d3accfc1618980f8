//! Writes a difference inside one transaction: all or nothing, or, after that was refused, each
//! pool's changes under a savepoint of their own. Says in which order; how, the nouns say.

use std::collections::HashSet;
use std::rc::Rc;

use rusqlite::Connection;

use crate::model::event::Event;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::table::Owner;
use crate::model::time::Time;

use super::agents;
use super::claims;
use super::clusters::{self, remove_cluster};
use super::connection::Store;
use super::customizations;
use super::documents::{self, write_plain_kinds};
use super::events::write_event;
use super::infra_envs;
use super::ip_pools;
use super::jobs::{self, release_hosts_of_ended_jobs};
use super::mark::{Mark, write_mark};
use super::secrets;

/// Pools whose changes were undone, and why.
pub type Refused = Vec<(Rc<Key>, Refusal)>;

/// Writes everything that changed, all or nothing. Needs an open write transaction; the caller
/// commits, or rolls back if the database refuses.
pub fn write(store: &Store, state: &State, mark: &Mark) -> Result<(), Refusal> {
    let conn = store.conn();
    make_room(conn, state, mark.now)?;
    write_changes(conn, state, None, mark.now)?;
    write_events_and_mark(conn, state, &[], mark)
}

/// Writes what changed of each pool under a savepoint of its own, and returns the pools that the
/// database refused, with why. Needed only after `write` was refused: a savepoint for each pool
/// makes SQLite keep every page twice.
pub fn write_pool_by_pool(store: &Store, state: &State, mark: &Mark) -> Result<Refused, Refusal> {
    let conn = store.conn();
    let mut refused = Refused::new();
    make_room(conn, state, mark.now)?;
    for owner in state.owners() {
        let Some(pool) = &owner else {
            write_changes(conn, state, Some(&owner), mark.now)?;
            continue;
        };
        conn.execute_batch("SAVEPOINT pool")?;
        match write_changes(conn, state, Some(&owner), mark.now) {
            Ok(()) => conn.execute_batch("RELEASE pool")?,
            Err(refusal) if refusal.exit == Exit::Conflict => {
                conn.execute_batch("ROLLBACK TO pool; RELEASE pool")?;
                let event = violated(pool, &refusal, mark.now);
                let last_events = store.events(Some((Kind::ClusterPool, pool)), 1)?;
                if last_events.first().is_none_or(|last| last.message != event.message) {
                    write_event(conn, &event)?;
                }
                refused.push((Rc::clone(pool), refusal));
            }
            Err(refusal) => return Err(refusal),
        }
    }
    write_events_and_mark(conn, state, &refused, mark)?;
    Ok(refused)
}

/// Removes clusters that are gone and frees the hosts of jobs that ended, for all pools before any
/// pool writes: what one gives back another may take in the same pass, and two may even swap. A pool
/// whose changes are undone has lost these all the same.
fn make_room(conn: &Connection, state: &State, now: Time) -> Result<(), Refusal> {
    let holders = state.customizations.rows().filter_map(|customization| {
        customization.holder.as_ref().filter(|holder| holder.preserved)
    });
    let left_running: HashSet<&str> = holders.map(|holder| holder.cluster.as_str()).collect();
    for change in state.clusters.difference().filter(|change| change.after.is_none()) {
        let Some(cluster) = change.before else { continue };
        remove_cluster(conn, cluster, left_running.contains(cluster.name.as_str()), now)?;
    }
    release_hosts_of_ended_jobs(conn, state)
}

/// Events in the order in which things happened, whoever did them, and the mark of this commit.
fn write_events_and_mark(
    conn: &Connection,
    state: &State,
    refused: &[(Rc<Key>, Refusal)],
    mark: &Mark,
) -> Result<(), Refusal> {
    for (event, owner) in &state.events {
        if !refused.iter().any(|(pool, _)| Some(pool) == owner.as_ref()) {
            write_event(conn, event)?;
        }
    }
    write_mark(conn, mark)
}

/// The event of a pool whose changes were undone.
pub fn violated(pool: &Key, refusal: &Refusal, time: Time) -> Event {
    Event {
        time,
        warning: true,
        reason: "InvariantViolated".into(),
        kind: Kind::ClusterPool.name(),
        object: pool.clone(),
        actor: "poolctl".into(),
        message: format!("The pass of this pool was undone: {refusal}"),
        ..Event::default()
    }
}

/// Writes what changed on behalf of an owner, or all of it. Leases come after the clusters that they
/// point to.
fn write_changes(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
    now: Time,
) -> Result<(), Refusal> {
    claims::write_changes(conn, state, owner)?;
    documents::write_changes(conn, &state.pools, owner)?;
    clusters::write_changes(conn, state, owner)?;
    customizations::write_changes(conn, state, owner)?;
    secrets::write_changes(conn, state, owner)?;
    documents::write_changes(conn, &state.hosts, owner)?;
    jobs::write_changes(conn, state, owner)?;
    infra_envs::write_changes(conn, state, owner)?;
    documents::write_changes(conn, &state.nmstate_configs, owner)?;
    agents::write_changes(conn, state, owner)?;
    ip_pools::write_changes(conn, state, owner, now)?;
    documents::write_changes(conn, &state.data_templates, owner)?;
    write_plain_kinds(conn, state, owner)
}
