//! Hands running clusters to the claims that wait: the oldest to the first that came.

use crate::model::claim::Pending;
use crate::model::cluster::{Cluster, Power};
use crate::model::event_reason::EventReason;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{ClusterId, State};
use crate::model::tick::Tick;

use super::buckets::sort_pool;
use super::{CLUSTER, say};

pub fn claims(state: &mut State, pool: &Key, tick: &Tick) {
    let gives = |pool: &&ClusterPool| pool.metadata.deletion_timestamp.is_none();
    let Some(found) = state.pools.by_key(pool).filter(gives) else {
        return;
    };
    let sorted = sort_pool(state, found, tick.now);
    let at = state.pools.find(pool);
    // Nothing is done to a paused cluster: whoever had it would wait for what it lacks.
    let is_paused = |at: &ClusterId| state.clusters.get(*at).is_some_and(|cluster| cluster.paused);
    let ready: Vec<ClusterId> = sorted.ready.into_iter().filter(|at| !is_paused(at)).collect();
    for (claim, cluster) in sorted.waiting.into_iter().zip(ready) {
        let found = state.claims.get(claim).map(|claim| (claim.name.clone(), claim.created));
        let Some((name, created)) = found else {
            continue;
        };
        let Some(key) = state.clusters.get(cluster).map(Cluster::key) else {
            continue;
        };
        state.claims.update(claim, |claim| {
            claim.cluster = Some(key.name.clone());
            claim.pending = Pending::Assigned;
            claim.pending_since = Some(tick.now);
        });
        state.clusters.update(cluster, |cluster| {
            cluster.claim = Some(name.clone());
            cluster.claimed_at.get_or_insert(tick.now);
            cluster.power_wanted = Power::Running;
        });
        if let Some(at) = at {
            state.pools.update(at, |pool| pool.status.history.assigned(tick.now.since(created)));
        }
        say(
            state,
            tick,
            EventReason::ClusterAssigned,
            (CLUSTER, key),
            format!("Assigned to claim {name}"),
        );
    }
}
