//! Ends claims whose lifetime is over, and warns their owners before that. It never takes the
//! cluster away itself: that follows from the deletion of the claim. Clusters that are to be kept
//! only for a time are marked for deletion, too.

use crate::model::claim::Claim;
use crate::model::cluster::DELETE_AFTER;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{ClaimId, ClusterId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::{record_event, record_warning};

/// How long a claim keeps its cluster: what it asks for, else the pool's default, and never more
/// than the pool's maximum. Without any of these it has no end.
pub fn effective_lifetime(claim: &Claim, pool: Option<&ClusterPool>) -> Option<Span> {
    let limits = pool.and_then(|pool| pool.spec.claim_lifetime.as_ref());
    let asked = claim.lifetime.or_else(|| limits?.default);
    match limits.and_then(|limits| limits.maximum) {
        Some(maximum) => Some(asked.map_or(maximum, |asked| asked.min(maximum))),
        None => asked,
    }
}

/// Tells the owner once that the end is near. A claim that was extended is told again, because the
/// warning is taken back when its end is no longer near.
fn warn_before_expiry(state: &mut State, claim_id: ClaimId, pool: &Key, tick: &Tick) {
    let Some(claim) = state.claims.get(claim_id) else { return };
    let is_near = claim.warning_due_at().is_some_and(|soon| tick.now >= soon);
    let is_over = claim.expires_at().is_some_and(|end| tick.now >= end);
    if claim.warned == is_near || is_over || tick.clock_jumped {
        return;
    }
    let key = claim.key();
    let end = claim.expires_at().unwrap_or_default();
    let lifetime = claim.effective;
    state.claims.update(claim_id, |claim| claim.warned = is_near);
    if is_near {
        let limits = state.pools.by_key(pool).and_then(|pool| pool.spec.claim_lifetime.as_ref());
        let maximum = limits.and_then(|limits| limits.maximum);
        let message = if maximum.is_some_and(|maximum| lifetime >= Some(maximum)) {
            format!("It expires at {end}; its lifetime is the longest that its pool allows")
        } else {
            format!("It expires at {end}; to keep it longer: poolctl extend {} --for 2h", key.name)
        };
        record_warning(
            state,
            tick,
            Kind::ClusterClaim,
            key,
            EventReason::ClaimExpiresSoon,
            message,
        );
    }
}

/// Writes down the effective lifetime of each claim of a pool, and deletes the claims whose
/// lifetime is over.
pub fn expire_claims(state: &mut State, pool: &Key, tick: &Tick) {
    for claim_id in state.members(pool).claims {
        let Some(claim) = state.claims.get(claim_id) else { continue };
        let effective = effective_lifetime(claim, state.pools.by_key(pool));
        if claim.effective != effective {
            state.claims.update(claim_id, |claim| claim.effective = effective);
        }
        if state.claims.get(claim_id).is_none_or(|claim| claim.deleting.is_some()) {
            continue;
        }
        warn_before_expiry(state, claim_id, pool, tick);
        let Some(claim) = state.claims.get(claim_id) else { continue };
        if tick.clock_jumped || claim.expires_at().is_none_or(|end| tick.now < end) {
            continue;
        }
        let lifetime = effective.unwrap_or_default();
        let key = claim.key();
        state.claims.update(claim_id, |claim| claim.deleting = Some(tick.now));
        record_event(
            state,
            tick,
            Kind::ClusterClaim,
            key,
            EventReason::ClaimExpired,
            format!("Its lifetime of {lifetime} is over"),
        );
    }
}

/// Marks a cluster for deletion whose `delete-after` is over, whoever has it, as Hive does.
pub fn expire_cluster(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if tick.clock_jumped || cluster.expires_at().is_none_or(|end| tick.now < end) {
        return;
    }
    let lifetime = cluster.delete_after.unwrap_or_default().to_short_text();
    let key = cluster.key();
    state.clusters.update(cluster_id, |cluster| cluster.deleting = Some(tick.now));
    let message = format!("Its delete-after of {lifetime} is over ({DELETE_AFTER})");
    let reason = EventReason::ClusterDeleting;
    record_event(state, tick, Kind::ClusterDeployment, key, reason, message);
}
