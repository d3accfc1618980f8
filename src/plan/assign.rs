//! Hands running clusters over to the claims that wait: the oldest cluster to the claim that came
//! first. It never wakes a cluster or makes one.

use crate::model::claim::Pending;
use crate::model::cluster::{Cluster, Power};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::{ClusterId, PoolId, State};
use crate::model::tick::Tick;

use super::buckets::sort_pool;
use super::record_event;

/// Assigns clusters of a pool that are ready to its claims that wait. A pool that is being deleted
/// hands nothing over. The pool itself stays as it is: `count_waits` is to follow.
pub fn assign_clusters(state: &mut State, pool_key: &Key, tick: &Tick) {
    let Some(pool_id) = state.pools.find(pool_key) else { return };
    let Some(pool) = state.pools.get(pool_id) else { return };
    if pool.metadata.deletion_timestamp.is_some() {
        return;
    }
    let sorted = sort_pool(state, pool, tick.now);
    // Nothing is done to a paused cluster, so whoever had it would wait for what it lacks.
    let mut ready: Vec<ClusterId> = sorted.ready;
    ready.retain(|cluster_id| {
        state.clusters.get(*cluster_id).is_some_and(|cluster| !cluster.paused)
    });
    for (claim_id, cluster_id) in sorted.waiting.into_iter().zip(ready) {
        let Some(claim) = state.claims.get(claim_id) else { continue };
        let name = claim.name.clone();
        let Some(key) = state.clusters.get(cluster_id).map(Cluster::key) else { continue };
        state.claims.update(claim_id, |claim| {
            claim.cluster = Some(key.name.clone());
            claim.pending = Pending::Assigned;
            claim.pending_since = Some(tick.now);
            claim.wait_uncounted = true;
        });
        state.clusters.update(cluster_id, |cluster| {
            cluster.claim = Some(name.clone());
            cluster.claimed_at.get_or_insert(tick.now);
            cluster.power_wanted = Power::Running;
        });
        record_event(
            state,
            tick,
            Kind::ClusterDeployment,
            key,
            EventReason::ClusterAssigned,
            format!("Assigned to claim {name}"),
        );
    }
}

/// Counts in the history of a pool how long its claims waited that were given a cluster since it
/// counted last.
pub fn count_waits(state: &mut State, pool_id: PoolId) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    for claim_id in state.members(&pool.key()).claims {
        let Some(claim) = state.claims.get(claim_id).filter(|claim| claim.wait_uncounted) else {
            continue;
        };
        let assigned_at = claim.pending_since.unwrap_or(claim.created);
        let waited = assigned_at.since(claim.created);
        state.claims.update(claim_id, |claim| claim.wait_uncounted = false);
        state.pools.update(pool_id, |pool| pool.status.history.count_assigned_claim(waited));
    }
}
