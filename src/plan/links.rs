//! Keeps claims and clusters naming each other: half-written pairs are completed, claims that are
//! deleted release their clusters, and the conditions of claims say how things stand. It never
//! chooses a cluster for a claim.

use crate::model::claim::{Claim, ClusterRunning, Pending};
use crate::model::cluster::Power;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::RECONCILE_PAUSE;
use crate::model::state::{ClaimId, ClusterId, State};
use crate::model::tick::Tick;

use super::{record_event, record_warning};

/// Releases the clusters of deleted claims, and completes half-written pairs.
pub fn sync_links(state: &mut State, pool: &Key, tick: &Tick) {
    for claim_id in state.members(pool).claims {
        if state.claims.get(claim_id).is_some_and(|claim| claim.deleting.is_some()) {
            release_cluster(state, claim_id, tick);
        }
    }
    complete_pairs(state, pool, tick);
}

/// Completes pairs of which only one end was written. Where the ends disagree, what the cluster
/// says holds.
pub fn complete_pairs(state: &mut State, pool: &Key, tick: &Tick) {
    let members = state.members(pool);
    for claim_id in members.claims {
        if state.claims.get(claim_id).is_some_and(|claim| claim.cluster.is_some()) {
            check_cluster_of_claim(state, claim_id, tick);
        }
    }
    for cluster_id in members.clusters {
        check_claim_of_cluster(state, cluster_id, pool, tick);
    }
}

/// A claim that a cluster names gets the cluster, if it names none itself.
fn check_claim_of_cluster(state: &mut State, cluster_id: ClusterId, pool: &Key, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let Some(claim_id) = cluster.claim_key().and_then(|key| state.claims.find(&key)) else {
        return;
    };
    let Some(claim) = state.claims.get(claim_id) else { return };
    if claim.cluster.is_some() || claim.pool_key() != *pool {
        return;
    }
    let key = claim.key();
    let name = cluster.name.clone();
    let message = format!("Cluster {name} is assigned to it");
    state.claims.update(claim_id, |claim| {
        claim.cluster = Some(name);
        claim.pending = Pending::Assigned;
        claim.pending_since = Some(tick.now);
    });
    record_warning(state, tick, Kind::ClusterClaim, key, EventReason::AssignmentRepaired, message);
}

/// Marks the cluster of a claim that is being deleted; once the cluster is gone, the claim goes,
/// too.
fn release_cluster(state: &mut State, claim_id: ClaimId, tick: &Tick) {
    let Some(claim) = state.claims.get(claim_id) else { return };
    let key = claim.key();
    let cluster_id = claim.cluster.as_deref().and_then(|name| state.find_cluster(name));
    let cluster = cluster_id.and_then(|id| Some((id, state.clusters.get(id)?)));
    match cluster {
        Some((cluster_id, cluster)) if cluster.claim_key().as_ref() == Some(&key) => {
            if !cluster.marked && cluster.deleting.is_none() {
                let cluster_key = cluster.key();
                state.clusters.update(cluster_id, |cluster| cluster.marked = true);
                record_event(
                    state,
                    tick,
                    Kind::ClusterDeployment,
                    cluster_key,
                    EventReason::ClusterReleased,
                    format!("Released by claim {}", key.name),
                );
            }
        }
        // A finalizer of another program keeps the claim.
        _ if claim.held => {}
        _ => {
            state.claims.remove(claim_id);
            record_event(
                state,
                tick,
                Kind::ClusterClaim,
                key,
                EventReason::ClaimDeleted,
                "Claim is gone".into(),
            );
        }
    }
}

/// Looks whether the cluster that a claim names is assigned to the claim. A free cluster is assigned
/// to it, unless the claim is being deleted; if another claim has the cluster, this one has none.
fn check_cluster_of_claim(state: &mut State, claim_id: ClaimId, tick: &Tick) {
    let Some(claim) = state.claims.get(claim_id) else { return };
    let key = claim.key();
    let Some(cluster_id) = claim.cluster.as_deref().and_then(|name| state.find_cluster(name))
    else {
        return;
    };
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let is_same_pool = cluster.pool.as_deref() == Some(&claim.pool_key());
    let is_going = cluster.deleting.is_some() || cluster.marked || cluster.stopped;
    match cluster.claim.as_deref() {
        Some(name) if name == key.name && is_same_pool => {}
        None if claim.deleting.is_some() => {
            let message =
                format!("Cluster {} stays without it: the claim is being deleted", cluster.name);
            state.claims.update(claim_id, |claim| claim.cluster = None);
            let reason = EventReason::AssignmentRepaired;
            record_warning(state, tick, Kind::ClusterClaim, key, reason, message);
        }
        None if is_same_pool && !is_going => {
            let cluster_key = cluster.key();
            let message = format!("Assigned to claim {}", key.name);
            state.clusters.update(cluster_id, |cluster| {
                cluster.claim = Some(key.name.clone());
                cluster.claimed_at.get_or_insert(tick.now);
                cluster.power_wanted = Power::Running;
            });
            record_warning(
                state,
                tick,
                Kind::ClusterDeployment,
                cluster_key,
                EventReason::AssignmentRepaired,
                message,
            );
        }
        _ => {
            let name = &cluster.name;
            let message = format!("Cluster {name} was claimed by a different ClusterClaim");
            state.claims.update(claim_id, |claim| {
                claim.cluster = None;
                claim.pending = Pending::NoClusters;
                claim.pending_since = Some(tick.now);
                claim.running = ClusterRunning::Initialized;
            });
            record_warning(
                state,
                tick,
                Kind::ClusterClaim,
                key,
                EventReason::AssignmentConflict,
                message,
            );
        }
    }
}

/// Writes how each claim of a pool stands, in Hive's conditions. A claim that has just got its
/// running cluster, or lost its cluster, leaves an event; other changes are seen in the conditions.
pub fn write_claim_conditions(state: &mut State, pool: &Key, tick: &Tick) {
    for claim_id in state.members(pool).claims {
        let Some(claim) = state.claims.get(claim_id) else { continue };
        let (pending, running) = claim_conditions(state, claim);
        if (claim.pending, claim.running) == (pending, running) {
            continue;
        }
        let key = claim.key();
        let cluster = claim.cluster.clone().unwrap_or_default();
        let is_handed_over = pending == Pending::Claimed && claim.pending != Pending::Claimed;
        let is_cluster_gone =
            running == ClusterRunning::Deleted && claim.running != ClusterRunning::Deleted;
        let has_new_status = claim.pending.condition_words().0 != pending.condition_words().0;
        state.claims.update(claim_id, |claim| {
            if has_new_status || claim.pending_since.is_none() {
                claim.pending_since = Some(tick.now);
            }
            if claim.running != running {
                claim.running_since = Some(tick.now);
            }
            claim.pending = pending;
            claim.running = running;
        });
        if is_cluster_gone {
            let message = format!("Cluster {cluster} is gone; release the claim and make another");
            record_warning(state, tick, Kind::ClusterClaim, key, EventReason::ClusterGone, message);
        } else if is_handed_over {
            record_event(
                state,
                tick,
                Kind::ClusterClaim,
                key,
                EventReason::ClusterClaimed,
                format!("Has cluster {cluster}"),
            );
        }
    }
}

/// What the conditions Pending and ClusterRunning of a claim have to say now.
fn claim_conditions(state: &State, claim: &Claim) -> (Pending, ClusterRunning) {
    let Some(name) = claim.cluster.as_deref() else {
        let pending = match state.pools.by_key(&claim.pool_key()) {
            None => Pending::PoolMissing,
            Some(pool) if pool.metadata.deletion_timestamp.is_some() => Pending::PoolDeleting,
            Some(pool) if pool.metadata.has_true_annotation(RECONCILE_PAUSE) => Pending::PoolPaused,
            Some(_) => Pending::NoClusters,
        };
        return (pending, claim.running);
    };
    let Some(cluster) = state.find_cluster(name).and_then(|id| state.clusters.get(id)) else {
        return (claim.pending, ClusterRunning::Deleted);
    };
    if cluster.deleting.is_some() || cluster.marked {
        return (claim.pending, ClusterRunning::Deleting);
    }
    if cluster.claim_key() != Some(claim.key()) {
        return (claim.pending, claim.running);
    }
    let running =
        if cluster.power.is_running() { ClusterRunning::Running } else { ClusterRunning::Resuming };
    (Pending::Claimed, running)
}
