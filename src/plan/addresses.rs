//! Addresses: claims that wait get one, the oldest first; one that cannot be served is in nobody's
//! way, and says why until it can.

use crate::model::address::Addr;
use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::ip_pool::{IpPool, PAUSES};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::{AddressBook, IpLeaseId, IpPoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::desk::Desk;

/// Every claim that waits is looked at, and those that go, go.
pub fn advance(state: &mut State, book: &dyn AddressBook, tick: &Tick) {
    go(state);
    state.resting.clear();
    let pools: Vec<IpPoolId> = state.ip_pools.iter().map(|(at, _)| at).collect();
    let mut waiting: Vec<(Time, String, IpLeaseId)> = state
        .ip_leases
        .iter()
        .filter(|(_, one)| one.address.is_none() && one.deleting.is_none())
        .map(|(at, one)| (one.created, one.claim.clone(), at))
        .collect();
    if waiting.is_empty() {
        return;
    }
    waiting.sort_unstable();
    for at in pools {
        let Some(pool) = state.ip_pools.get(at).cloned() else { continue };
        let key = pool.metadata.key();
        if pauses(state, &pool) || pool.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let mut desk = Desk::new(&pool, book, state, tick);
        for (_, _, lease) in &waiting {
            let Some(one) = state.ip_leases.get(*lease).filter(|one| one.pool_key() == key) else {
                continue;
            };
            if one
                .claim_meta()
                .is_some_and(|meta| PAUSES.iter().any(|note| meta.annotated_at_all(note)))
            {
                continue;
            }
            match desk.serve(one) {
                Ok(address) => give(state, *lease, &pool, address, tick),
                Err(why) => refuse(state, *lease, why, tick),
            }
        }
        if let Some(until) = desk.due {
            state.resting.insert(key, until);
        }
    }
}

/// A claim that was let go by everybody, and whose pool is not paused.
fn go(state: &mut State) {
    let gone: Vec<IpLeaseId> = state
        .ip_leases
        .iter()
        .filter(|(_, one)| {
            let pool = state.ip_pools.by_key(&one.pool_key());
            one.deleting.is_some()
                && !one.is_kept()
                && !pool.is_some_and(|pool| pauses(state, pool))
        })
        .map(|(at, _)| at)
        .collect();
    for at in gone {
        state.ip_leases.remove(at);
    }
}

/// Whether a pool, or the cluster that it names, is paused.
pub fn pauses(state: &State, pool: &IpPool) -> bool {
    let cluster = state.cluster(&pool.spec.cluster_name).and_then(|at| state.clusters.get(at));
    pool.is_paused() || cluster.is_some_and(|cluster| cluster.paused)
}

fn give(state: &mut State, at: IpLeaseId, pool: &IpPool, address: Addr, tick: &Tick) {
    let network = pool.network_of(pool.entry_of(address));
    let Some(waited) = state.ip_leases.get(at) else { return };
    let leased = (waited.created != tick.now).then_some(tick.now);
    let late = !waited.error.is_empty();
    let key = waited.key();
    state.ip_leases.update(at, |one| {
        (one.address, one.network, one.leased) = (Some(address), network, leased);
        one.error.clear();
    });
    if late {
        say(state, tick, false, EventReason::Leased, key, format!("It has {address}"));
    }
}

fn refuse(state: &mut State, at: IpLeaseId, why: String, tick: &Tick) {
    let Some(one) = state.ip_leases.get(at).filter(|one| one.error != why) else { return };
    let key = one.key();
    state.ip_leases.update(at, |one| one.error.clone_from(&why));
    say(state, tick, true, EventReason::AllocationFailed, key, why);
}

fn say(
    state: &mut State,
    tick: &Tick,
    warning: bool,
    reason: EventReason,
    object: Key,
    message: String,
) {
    let (kind, actor) = (Kind::IpClaim.name(), tick.actor.clone());
    state.event(Event {
        time: tick.now,
        warning,
        reason: reason.into(),
        kind,
        object,
        actor,
        message,
        ..Event::default()
    });
}
