//! Writes a difference inside one transaction: all of it or nothing, or, after that was refused,
//! each pool's changes under a savepoint of their own. This file says in which order rows are
//! written. How they are written is in the files of their kinds.

use std::collections::HashSet;
use std::rc::Rc;

use rusqlite::Connection;

use crate::model::due::DueChanges;
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::table::{Change, Owner, Row, Table};
use crate::model::time::Time;

use super::agent_parts::refuse_unreadable_parts;
use super::agents::write_changed_agents;
use super::claims::write_claim;
use super::clusters::{remove_cluster, write_cluster};
use super::connection::Store;
use super::customizations;
use super::documents::{write_changed_documents, write_plain_kinds};
use super::due::write_due;
use super::event_chain::EventChain;
use super::events::write_event;
use super::hosts::write_changed_hosts;
use super::infra_envs::write_infra_env;
use super::ip_pools;
use super::jobs::{release_hosts_of_ended_jobs, write_changed_jobs};
use super::mark::{CommitMark, write_mark};
use super::pools::write_pool;
use super::secrets::write_changed_secrets;

/// Pools whose changes were undone, and why.
pub type RefusedPools = Vec<(Rc<Key>, Refusal)>;

/// Writes everything that changed, all or nothing. Needs an open write transaction; the caller
/// commits, or rolls back if the database refuses.
pub fn write(
    store: &Store,
    state: &State,
    due: &DueChanges,
    mark: &CommitMark,
) -> Result<(), Refusal> {
    refuse_unreadable_parts(&state.decode_error)?;
    let conn = store.conn();
    remove_clusters_and_release_hosts(conn, state, mark.now)?;
    write_changed_rows(conn, state, None, mark.now)?;
    write_due(conn, due)?;
    write_events_and_mark(conn, state, &[], &[], mark)
}

/// Writes what changed of each pool under a savepoint of its own, and returns the pools whose
/// changes the database refused. Needed only after `write` was refused: a savepoint for each pool
/// makes SQLite keep every page twice.
pub fn write_pool_by_pool(
    store: &Store,
    state: &State,
    due: &DueChanges,
    mark: &CommitMark,
) -> Result<RefusedPools, Refusal> {
    let conn = store.conn();
    let mut refused = RefusedPools::new();
    let mut events_of_refusals = Vec::new();
    remove_clusters_and_release_hosts(conn, state, mark.now)?;
    for owner in state.owners() {
        let Some(pool) = &owner else {
            write_changed_rows(conn, state, Some(&owner), mark.now)?;
            continue;
        };
        conn.execute_batch("SAVEPOINT pool")?;
        match write_changed_rows(conn, state, Some(&owner), mark.now) {
            Ok(()) => conn.execute_batch("RELEASE pool")?,
            Err(refusal) if refusal.exit == Exit::Conflict => {
                conn.execute_batch("ROLLBACK TO pool; RELEASE pool")?;
                let event = invariant_violated_event(pool, &refusal, mark.now);
                // Every pass may be refused for the same reason: it is recorded once.
                let last_events = store.list_events(Some((Kind::ClusterPool, pool)), 1)?;
                if last_events.first().is_none_or(|last| last.message != event.message) {
                    events_of_refusals.push(event);
                }
                refused.push((Rc::clone(pool), refusal));
            }
            Err(refusal) => return Err(refusal),
        }
    }
    // What was planned for these pools was undone, so it is still to be done.
    let refused_pools = refused.iter().map(|(pool, _)| Key::clone(pool)).collect();
    write_due(conn, &DueChanges { dirty_pools: refused_pools, ..due.clone() })?;
    write_events_and_mark(conn, state, &events_of_refusals, &refused, mark)?;
    Ok(refused)
}

/// Removes clusters that are gone and frees the hosts of jobs that ended, for all pools before any
/// pool is written: another pool may take in the same pass what one gives back, and two pools may
/// even swap. If the changes of a pool are undone afterwards, what it gave back here stays given
/// back.
fn remove_clusters_and_release_hosts(
    conn: &Connection,
    state: &State,
    now: Time,
) -> Result<(), Refusal> {
    let mut clusters_left_running = HashSet::new();
    for customization in state.customizations.rows() {
        if let Some(holder) = &customization.holder
            && holder.preserved
        {
            clusters_left_running.insert(holder.cluster.as_str());
        }
    }
    for change in state.clusters.difference() {
        if let (Some(cluster), None) = (change.before, change.after) {
            let is_left_running = clusters_left_running.contains(cluster.name.as_str());
            remove_cluster(conn, cluster, is_left_running, now)?;
        }
    }
    release_hosts_of_ended_jobs(conn, state)
}

/// Writes the events in the order in which they happened, whichever pool they are of, and the mark
/// of this commit. The events of a pool that was refused are of changes that were undone.
fn write_events_and_mark(
    conn: &Connection,
    state: &State,
    events_of_refusals: &[Event],
    refused: &[(Rc<Key>, Refusal)],
    mark: &CommitMark,
) -> Result<(), Refusal> {
    let mut events: Vec<&Event> = events_of_refusals.iter().collect();
    for (event, owner) in &state.events {
        if !refused.iter().any(|(pool, _)| Some(pool) == owner.as_ref()) {
            events.push(event);
        }
    }
    if events.is_empty() {
        return write_mark(conn, mark, None);
    }
    let mut chain = EventChain::load(conn)?;
    for event in events {
        write_event(conn, event, &mut chain)?;
    }
    write_mark(conn, mark, chain.last_link())
}

/// The event of a pool whose changes were undone.
pub fn invariant_violated_event(pool: &Key, refusal: &Refusal, time: Time) -> Event {
    Event {
        time,
        event_type: EventType::Warning,
        reason: EventReason::InvariantViolated.into(),
        kind: Kind::ClusterPool.name(),
        object: pool.clone(),
        actor: "poolctl".into(),
        message: format!("The pass of this pool was undone: {refusal}"),
        ..Event::default()
    }
}

/// Writes what changed on behalf of an owner, or all of it. Leases of customizations and addresses
/// come after the clusters that they point to.
fn write_changed_rows(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
    now: Time,
) -> Result<(), Refusal> {
    write_each_change(conn, &state.claims, owner, write_claim)?;
    write_each_change(conn, &state.pools, owner, write_pool)?;
    write_each_change(conn, &state.clusters, owner, write_cluster)?;
    customizations::write_changed_customizations(conn, state, owner)?;
    write_changed_secrets(conn, state, owner)?;
    write_changed_hosts(conn, state, owner)?;
    write_changed_jobs(conn, state, owner)?;
    write_each_change(conn, &state.infra_envs, owner, write_infra_env)?;
    write_changed_documents(conn, &state.nmstate_configs, owner)?;
    write_changed_agents(conn, state, owner)?;
    ip_pools::write_changed_ip_pools(conn, state, owner, now)?;
    write_changed_documents(conn, &state.data_templates, owner)?;
    write_plain_kinds(conn, state, owner)
}

/// Writes the changes of a table, on behalf of an owner or of all, one by one and in their order.
fn write_each_change<T: Row>(
    conn: &Connection,
    table: &Table<T>,
    owner: Option<&Owner>,
    write_change: impl Fn(&Connection, &Change<'_, T>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for change in table.difference().filter(|change| change.is_on_behalf_of(owner)) {
        write_change(conn, &change)?;
    }
    Ok(())
}
