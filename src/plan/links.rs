//! Claims and clusters name each other: half-written pairs are completed, claims that go take
//! their cluster with them, and the conditions of claims say how things stand.

use crate::model::claim::{Claim, ClusterRunning, Pending};
use crate::model::cluster::{Cluster, Power};
use crate::model::event_reason::EventReason;
use crate::model::meta::Key;
use crate::model::pool::PAUSED;
use crate::model::state::{ClaimId, State};
use crate::model::tick::Tick;

use super::{CLAIM, CLUSTER, say, warn};

pub fn sync(state: &mut State, pool: &Key, tick: &Tick) {
    for at in state.members(pool).claims {
        if state.claims.get(at).is_some_and(|claim| claim.deleting.is_some()) {
            release(state, at, tick);
        }
    }
    mend(state, pool, tick);
}

/// Completes pairs of which only one end was written; where the ends disagree, the cluster's
/// holds.
pub fn mend(state: &mut State, pool: &Key, tick: &Tick) {
    let members = state.members(pool);
    for at in members.claims {
        let names_one = |claim: &Claim| claim.deleting.is_none() && claim.cluster.is_some();
        if state.claims.get(at).is_some_and(names_one) {
            check(state, at, tick);
        }
    }
    for at in members.clusters {
        let Some(cluster) = state.clusters.get(at) else {
            continue;
        };
        let Some(claim) = cluster.claim_key().and_then(|key| state.claims.find(&key)) else {
            continue;
        };
        let name = cluster.name.clone();
        let unset = |claim: &Claim| claim.cluster.is_none() && claim.pool_key() == *pool;
        if let Some(key) = state.claims.get(claim).filter(|claim| unset(claim)).map(Claim::key) {
            let message = format!("Cluster {name} is assigned to it");
            state.claims.update(claim, |claim| {
                claim.cluster = Some(name);
                claim.pending = Pending::Assigned;
                claim.pending_since = Some(tick.now);
            });
            warn(state, tick, EventReason::AssignmentRepaired, (CLAIM, key), message);
        }
    }
}

/// A claim that is being deleted marks its cluster, and goes when the cluster is gone.
fn release(state: &mut State, at: ClaimId, tick: &Tick) {
    let Some(claim) = state.claims.get(at) else {
        return;
    };
    let key = claim.key();
    let cluster = claim.cluster.as_deref().and_then(|name| state.cluster(name));
    let mine = |cluster: &Cluster| cluster.claim_key().as_ref() == Some(&key);
    match cluster.and_then(|at| state.clusters.get(at).map(|one| (at, one))) {
        Some((at, cluster)) if mine(cluster) => {
            if !cluster.marked && cluster.deleting.is_none() {
                let object = (CLUSTER, cluster.key());
                state.clusters.update(at, |cluster| cluster.marked = true);
                say(
                    state,
                    tick,
                    EventReason::ClusterReleased,
                    object,
                    format!("Released by claim {}", key.name),
                );
            }
        }
        _ if claim.held => {}
        _ => {
            state.claims.remove(at);
            say(state, tick, EventReason::ClaimDeleted, (CLAIM, key), "Claim is gone".into());
        }
    }
}

/// A claim names a cluster that does not name it back.
fn check(state: &mut State, at: ClaimId, tick: &Tick) {
    let Some(claim) = state.claims.get(at) else {
        return;
    };
    let key = claim.key();
    let Some(cluster) = claim.cluster.as_deref().and_then(|name| state.cluster(name)) else {
        return;
    };
    let Some(found) = state.clusters.get(cluster) else {
        return;
    };
    let same_pool = found.pool.as_deref() == Some(&claim.pool_key());
    match found.claim.as_deref() {
        Some(name) if name == key.name && same_pool => {}
        None if same_pool && found.deleting.is_none() && !found.marked && !found.stopped => {
            let (object, message) = (found.key(), format!("Claim {} has it", key.name));
            state.clusters.update(cluster, |cluster| {
                cluster.claim = Some(key.name.clone());
                cluster.claimed_at.get_or_insert(tick.now);
                cluster.power_wanted = Power::Running;
            });
            warn(state, tick, EventReason::AssignmentRepaired, (CLUSTER, object), message);
        }
        _ => {
            let message = format!("Cluster {} was claimed by a different ClusterClaim", found.name);
            state.claims.update(at, |claim| {
                claim.cluster = None;
                claim.pending = Pending::NoClusters;
                claim.pending_since = Some(tick.now);
                claim.running = ClusterRunning::Initialized;
            });
            warn(state, tick, EventReason::AssignmentConflict, (CLAIM, key), message);
        }
    }
}

/// How each claim stands, in Hive's conditions.
pub fn conditions(state: &mut State, pool: &Key, tick: &Tick) {
    for at in state.members(pool).claims {
        let Some(claim) = state.claims.get(at) else {
            continue;
        };
        let (pending, running) = stand(state, claim);
        let key = claim.key();
        let cluster = claim.cluster.clone().unwrap_or_default();
        let handed_over = pending == Pending::Claimed && claim.pending != Pending::Claimed;
        let gone = running == ClusterRunning::Deleted && claim.running != ClusterRunning::Deleted;
        if (claim.pending, claim.running) == (pending, running) {
            continue;
        }
        let waits_no_more = claim.pending.wire().0 != pending.wire().0;
        state.claims.update(at, |claim| {
            if waits_no_more || claim.pending_since.is_none() {
                claim.pending_since = Some(tick.now);
            }
            if claim.running != running {
                claim.running_since = Some(tick.now);
            }
            (claim.pending, claim.running) = (pending, running);
        });
        if gone {
            let message = format!("Cluster {cluster} is gone; release the claim and make another");
            warn(state, tick, EventReason::ClusterGone, (CLAIM, key), message);
        } else if handed_over {
            say(
                state,
                tick,
                EventReason::ClusterClaimed,
                (CLAIM, key),
                format!("Has cluster {cluster}"),
            );
        }
    }
}

fn stand(state: &State, claim: &Claim) -> (Pending, ClusterRunning) {
    let Some(name) = claim.cluster.as_deref() else {
        let pending = match state.pools.by_key(&claim.pool_key()) {
            None => Pending::PoolMissing,
            Some(pool) if pool.metadata.deletion_timestamp.is_some() => Pending::PoolDeleting,
            Some(pool) if pool.metadata.annotated(PAUSED) => Pending::PoolPaused,
            Some(_) => Pending::NoClusters,
        };
        return (pending, claim.running);
    };
    let Some(cluster) = state.cluster(name).and_then(|at| state.clusters.get(at)) else {
        return (claim.pending, ClusterRunning::Deleted);
    };
    if cluster.deleting.is_some() || cluster.marked {
        return (claim.pending, ClusterRunning::Deleting);
    }
    if cluster.claim_key() != Some(claim.key()) {
        return (claim.pending, claim.running);
    }
    let running =
        if cluster.power.runs() { ClusterRunning::Running } else { ClusterRunning::Resuming };
    (Pending::Claimed, running)
}
