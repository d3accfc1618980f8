//! Leases addresses to the claims that wait, the oldest claim first. A claim that cannot be served
//! is in nobody's way, and says why until it can. Which address a claim gets is the allocator's
//! choice.

use crate::model::address::Addr;
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, PAUSE_ANNOTATIONS};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::{AddressBook, IpLeaseId, IpPoolId, State};
use crate::model::text::{NamePart, parts_of_name};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::address_allocator::AddressAllocator;

/// Serves the claims that wait, and removes those that everybody has let go.
pub fn lease_addresses(state: &mut State, book: &dyn AddressBook, tick: &Tick) {
    remove_released_claims(state);
    state.resting_until.clear();
    let waiting = waiting_claims(state);
    if waiting.is_empty() {
        return;
    }
    let pool_ids: Vec<IpPoolId> = state.ip_pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        let Some(pool) = state.ip_pools.get(pool_id).cloned() else { continue };
        match find_obstacle(state, &pool) {
            None => serve_claims(state, &pool, &waiting, book, tick),
            Some(problem) => refuse_claims(state, &pool.metadata.key(), &waiting, &problem, tick),
        }
    }
    refuse_claims_without_pool(state, &waiting, tick);
}

/// Why a pool leases nothing now, whatever is free.
fn find_obstacle(state: &State, pool: &IpPool) -> Option<String> {
    let name = &pool.metadata.name;
    if pool.metadata.deletion_timestamp.is_some() {
        return Some(format!("IPPool {name} is being deleted"));
    }
    if pool.is_paused() {
        return Some(format!("IPPool {name} is paused"));
    }
    let cluster = &pool.spec.cluster_name;
    is_paused(state, pool).then(|| format!("IPPool {name} is paused with its cluster {cluster}"))
}

/// Tells the claims that ask a pool for an address why none gets one.
fn refuse_claims(state: &mut State, pool: &Key, waiting: &[IpLeaseId], problem: &str, tick: &Tick) {
    for lease_id in waiting {
        if state.ip_leases.get(*lease_id).is_some_and(|lease| lease.pool_key() == *pool) {
            note_problem(state, *lease_id, problem.to_owned(), tick);
        }
    }
}

/// Tells claims that they name no pool. A claim is loaded together with its pool, so that a pool
/// which is not in the state does not exist.
fn refuse_claims_without_pool(state: &mut State, waiting: &[IpLeaseId], tick: &Tick) {
    for lease_id in waiting {
        let Some(lease) = state.ip_leases.get(*lease_id) else { continue };
        let pool = lease.pool_key();
        if state.ip_pools.find(&pool).is_none() {
            let problem = format!("there is no IPPool {}", pool.name);
            note_problem(state, *lease_id, problem, tick);
        }
    }
}

/// Claims without an address, the oldest first; of those of the same time the first by name, where
/// numbers count as numbers: `web-2` comes before `web-10`.
fn waiting_claims(state: &State) -> Vec<IpLeaseId> {
    let mut waiting: Vec<(Time, Vec<NamePart<'_>>, IpLeaseId)> = Vec::new();
    for (lease_id, lease) in state.ip_leases.iter() {
        if lease.address.is_none() && lease.deleting.is_none() {
            waiting.push((lease.created, parts_of_name(&lease.claim), lease_id));
        }
    }
    waiting.sort_unstable();
    waiting.into_iter().map(|(_, _, lease_id)| lease_id).collect()
}

/// Leases addresses of a pool to those of the claims that ask it for one.
fn serve_claims(
    state: &mut State,
    pool: &IpPool,
    waiting: &[IpLeaseId],
    book: &dyn AddressBook,
    tick: &Tick,
) {
    let key = pool.metadata.key();
    let mut allocator = AddressAllocator::new(pool, book, state, tick);
    for lease_id in waiting {
        let Some(lease) = state.ip_leases.get(*lease_id) else { continue };
        if lease.pool_key() != key {
            continue;
        }
        if is_claim_paused(lease) {
            note_problem(state, *lease_id, "the claim is paused".to_owned(), tick);
            continue;
        }
        match allocator.allocate(lease) {
            Ok(address) => grant(state, *lease_id, pool, address, tick),
            Err(problem) => note_problem(state, *lease_id, problem, tick),
        }
    }
    if let Some(until) = allocator.resting_until {
        state.resting_until.insert(key, until);
    }
}

fn is_claim_paused(lease: &IpLease) -> bool {
    let Some(metadata) = lease.stored_claim_meta() else { return false };
    PAUSE_ANNOTATIONS.iter().any(|annotation| metadata.has_annotation(annotation))
}

/// Removes claims that everybody has let go, unless their pool is paused.
fn remove_released_claims(state: &mut State) {
    let mut released: Vec<IpLeaseId> = Vec::new();
    for (lease_id, lease) in state.ip_leases.iter() {
        if lease.deleting.is_none() || lease.has_finalizer() {
            continue;
        }
        let pool = state.ip_pools.by_key(&lease.pool_key());
        if pool.is_none_or(|pool| !is_paused(state, pool)) {
            released.push(lease_id);
        }
    }
    for lease_id in released {
        state.ip_leases.remove(lease_id);
    }
}

/// Whether a pool, or the cluster that it names, is paused.
pub fn is_paused(state: &State, pool: &IpPool) -> bool {
    let cluster = state.find_cluster(&pool.spec.cluster_name).and_then(|id| state.clusters.get(id));
    pool.is_paused() || cluster.is_some_and(|cluster| cluster.paused)
}

/// Gives an address to a claim. Only a claim that had to wait for it gets an event.
fn grant(state: &mut State, lease_id: IpLeaseId, pool: &IpPool, address: Addr, tick: &Tick) {
    let Some(lease) = state.ip_leases.get(lease_id) else { return };
    let mut network = pool.network_of_range(pool.range_index_of(address));
    if lease.cluster_api_origin().is_some() {
        // Cluster API's addresses have no DNS servers.
        network.dns_servers.clear();
    }
    let leased_at = (lease.created != tick.now).then_some(tick.now);
    let has_waited = !lease.error.is_empty();
    let key = lease.key();
    state.ip_leases.update(lease_id, |lease| {
        lease.address = Some(address);
        lease.network = network;
        lease.leased = leased_at;
        lease.error.clear();
    });
    if has_waited {
        let message = format!("It has {address}");
        record_claim_event(state, tick, EventType::Normal, EventReason::Leased, key, message);
    }
}

/// Writes down why a claim gets no address, and records an event if that is news.
fn note_problem(state: &mut State, lease_id: IpLeaseId, problem: String, tick: &Tick) {
    let Some(lease) = state.ip_leases.get(lease_id) else { return };
    if lease.error == problem {
        return;
    }
    let key = lease.key();
    state.ip_leases.update(lease_id, |lease| lease.error.clone_from(&problem));
    record_claim_event(
        state,
        tick,
        EventType::Warning,
        EventReason::AllocationFailed,
        key,
        problem,
    );
}

/// Records an event of a claim. Its actor is whoever started the pass.
fn record_claim_event(
    state: &mut State,
    tick: &Tick,
    event_type: EventType,
    reason: EventReason,
    object: Key,
    message: String,
) {
    state.record_event(Event {
        time: tick.now,
        event_type,
        reason: reason.into(),
        kind: Kind::IpClaim.name(),
        object,
        actor: tick.actor.clone(),
        message,
        ..Event::default()
    });
}
