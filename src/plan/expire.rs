//! Lifetimes: how long a claim keeps its cluster.

use crate::model::claim::Claim;
use crate::model::event_reason::EventReason;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{ClaimId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::{CLAIM, say, warn};

/// What was asked for, else the pool's default, and never more than the pool's maximum.
pub fn effective_lifetime(claim: &Claim, pool: Option<&ClusterPool>) -> Option<Span> {
    let limits = pool.and_then(|pool| pool.spec.claim_lifetime.as_ref());
    let asked = claim.lifetime.or_else(|| limits?.default);
    match limits.and_then(|limits| limits.maximum) {
        Some(maximum) => Some(asked.map_or(maximum, |asked| asked.min(maximum))),
        None => asked,
    }
}

/// Tells the owner once that the end is near; a claim that was extended is told again.
fn foretell(state: &mut State, at: ClaimId, pool: &Key, tick: &Tick) {
    let Some(claim) = state.claims.get(at) else {
        return;
    };
    let soon = claim.expires_soon().is_some_and(|soon| tick.now >= soon);
    let over = claim.expires().is_some_and(|end| tick.now >= end);
    if claim.warned == soon || over || tick.jumped {
        return;
    }
    let (key, end) = (claim.key(), claim.expires().unwrap_or_default());
    let lasts = claim.effective;
    state.claims.update(at, |claim| claim.warned = soon);
    if soon {
        let limits = state.pools.by_key(pool).and_then(|pool| pool.spec.claim_lifetime.as_ref());
        let longest = limits.and_then(|limits| limits.maximum);
        let text = if longest.is_some_and(|most| lasts >= Some(most)) {
            format!("It ends {end}; it has the longest lifetime its pool allows")
        } else {
            format!("It ends {end}; poolctl extend {} --for 2h keeps it longer", key.name)
        };
        warn(state, tick, EventReason::ClaimExpiresSoon, (CLAIM, key), text);
    }
}

/// Writes down the lifetime in force, and ends the claims whose time is over.
pub fn lifetimes(state: &mut State, pool: &Key, tick: &Tick) {
    for at in state.members(pool).claims {
        let Some(claim) = state.claims.get(at) else {
            continue;
        };
        let effective = effective_lifetime(claim, state.pools.by_key(pool));
        if claim.effective != effective {
            state.claims.update(at, |claim| claim.effective = effective);
        }
        if state.claims.get(at).is_none_or(|claim| claim.deleting.is_some()) {
            continue;
        }
        foretell(state, at, pool, tick);
        let Some(claim) = state.claims.get(at) else {
            continue;
        };
        if tick.jumped || claim.expires().is_none_or(|end| tick.now < end) {
            continue;
        }
        let lifetime = effective.unwrap_or_default();
        let key = claim.key();
        state.claims.update(at, |claim| claim.deleting = Some(tick.now));
        say(
            state,
            tick,
            EventReason::ClaimExpired,
            (CLAIM, key),
            format!("Its lifetime of {lifetime} is over"),
        );
    }
}
