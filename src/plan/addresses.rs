//! Leases addresses to the claims that wait, the oldest claim first. A claim that cannot be served
//! is in nobody's way, and says why until it can. Which address a claim gets is the allocator's
//! choice.

use std::collections::HashMap;

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
    let waiting = find_waiting_claims(state);
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
fn refuse_claims(
    state: &mut State,
    pool: &Key,
    waiting: &[WaitingClaim],
    problem: &str,
    tick: &Tick,
) {
    for claim in waiting.iter().filter(|claim| claim.pool.as_ref() == Ok(pool)) {
        note_problem(state, claim.lease_id, problem.to_owned(), tick);
    }
}

/// Tells claims that they name no pool. A claim is loaded together with its pool, so that a pool
/// which is not in the state does not exist.
fn refuse_claims_without_pool(state: &mut State, waiting: &[WaitingClaim], tick: &Tick) {
    for claim in waiting {
        if let Err(problem) = &claim.pool {
            note_problem(state, claim.lease_id, problem.clone(), tick);
        }
    }
}

/// A claim without an address.
struct WaitingClaim {
    lease_id: IpLeaseId,
    /// The key of the pool that it means; the error says why there is none.
    pool: Result<Key, String>,
}

/// The pool that a claim without an address means: the one that it names with its namespace, else
/// the one of this name that serves the claim's namespace.
fn find_pool_of_claim(state: &State, lease: &IpLease) -> Result<Key, String> {
    let namespace = lease.namespace.as_str();
    if lease.pool_namespace.is_none() {
        let pool = find_serving_pool(state, namespace, &lease.pool)?;
        return match pool {
            Some(pool) => Ok(pool.metadata.key()),
            None => Err(format!("there is no IPPool {}", lease.pool)),
        };
    }
    let key = lease.pool_key();
    // Whether there is such a pool is nothing that another namespace is told.
    if state.ip_pools.by_key(&key).is_some_and(|pool| pool.serves(namespace)) {
        Ok(key)
    } else {
        Err(format!("there is no IPPool {key} that is shared with namespace {namespace}"))
    }
}

/// The pool that a name means in a namespace: the pool of that namespace, or if there is none, the
/// one that another namespace shares with it. The error says that there are several of these.
pub fn find_serving_pool<'a>(
    state: &'a State,
    namespace: &str,
    name: &str,
) -> Result<Option<&'a IpPool>, String> {
    let own_pool = state.ip_pools.by_key(&Key::new(namespace, name));
    if own_pool.is_some() {
        return Ok(own_pool);
    }
    let pools = state.ip_pools.rows();
    let mut shared_pools: Vec<&IpPool> =
        pools.filter(|pool| pool.metadata.name == name && pool.serves(namespace)).collect();
    shared_pools
        .sort_unstable_by(|left, right| left.metadata.namespace.cmp(&right.metadata.namespace));
    if let [first, .., last] = shared_pools.as_slice() {
        return Err(format!(
            "IPPool {name} is ambiguous: {} and {} are both shared with namespace {namespace}; name \
             the one that is meant in spec.pool.namespace",
            first.metadata.key(),
            last.metadata.key()
        ));
    }
    Ok(shared_pools.pop())
}

/// Claims without an address, the oldest first; of those of the same time the first by name, where
/// numbers count as numbers: `web-2` comes before `web-10`.
fn find_waiting_claims(state: &State) -> Vec<WaitingClaim> {
    let mut waiting: Vec<(Time, Vec<NamePart<'_>>, IpLeaseId)> = Vec::new();
    for (lease_id, lease) in state.ip_leases.iter() {
        if lease.address.is_none() && lease.deleting.is_none() {
            waiting.push((lease.created, parts_of_name(&lease.claim), lease_id));
        }
    }
    waiting.sort_unstable();
    let mut claims = Vec::new();
    // Many claims name the same pool.
    let mut pools: HashMap<(&str, Key), Result<Key, String>> = HashMap::new();
    for (_, _, lease_id) in waiting {
        let Some(lease) = state.ip_leases.get(lease_id) else { continue };
        let pool = pools
            .entry((lease.namespace.as_str(), lease.pool_key()))
            .or_insert_with(|| find_pool_of_claim(state, lease));
        claims.push(WaitingClaim { lease_id, pool: pool.clone() });
    }
    claims
}

/// Leases addresses of a pool to those of the claims that ask it for one.
fn serve_claims(
    state: &mut State,
    pool: &IpPool,
    waiting: &[WaitingClaim],
    book: &dyn AddressBook,
    tick: &Tick,
) {
    let key = pool.metadata.key();
    let mut allocator = AddressAllocator::new(pool, book, state, tick);
    for claim in waiting.iter().filter(|claim| claim.pool.as_ref() == Ok(&key)) {
        let Some(lease) = state.ip_leases.get(claim.lease_id) else { continue };
        if is_claim_paused(lease) {
            note_problem(state, claim.lease_id, "the claim is paused".to_owned(), tick);
            continue;
        }
        match allocate_to_claim(&mut allocator, pool, lease) {
            Ok(address) => grant(state, claim.lease_id, pool, address, tick),
            Err(problem) => note_problem(state, claim.lease_id, problem, tick),
        }
    }
    if let Some(until) = allocator.resting_until {
        state.resting_until.insert(key, until);
    }
}

/// Chooses an address for a claim, which the pool knows with its namespace if that is another one: a
/// claim of the same name in the pool's namespace may have an address of its own kept for it.
fn allocate_to_claim(
    allocator: &mut AddressAllocator<'_>,
    pool: &IpPool,
    lease: &IpLease,
) -> Result<Addr, String> {
    match pool.namespace_for_claim(&lease.namespace) {
        None => allocator.allocate(lease),
        pool_namespace => allocator.allocate(&IpLease { pool_namespace, ..lease.clone() }),
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
    let pool_namespace = pool.namespace_for_claim(&lease.namespace);
    state.ip_leases.update(lease_id, |lease| {
        lease.pool_namespace = pool_namespace;
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
