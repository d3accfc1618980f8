//! Lifetimes: how long a claim keeps its cluster.

use crate::model::claim::Claim;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::{CLAIM, say};

/// What was asked for, else the pool's default, and never more than the pool's maximum.
pub fn effective_lifetime(claim: &Claim, pool: Option<&ClusterPool>) -> Option<Span> {
    let limits = pool.and_then(|pool| pool.spec.claim_lifetime.as_ref());
    let asked = claim.lifetime.or_else(|| limits?.default);
    match limits.and_then(|limits| limits.maximum) {
        Some(maximum) => Some(asked.map_or(maximum, |asked| asked.min(maximum))),
        None => asked,
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
        let Some(claim) = state.claims.get(at).filter(|claim| claim.deleting.is_none()) else {
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
            "ClaimExpired",
            (CLAIM, key),
            format!("Its lifetime of {lifetime} is over"),
        );
    }
}
