//! Facts about a pool by which its shortages are explained: its clusters, its conditions, and what
//! it has too little of. It never looks for the cause.

use crate::model::cluster::Cluster;
use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::pool::ClusterPool;
use crate::model::state::State;

/// Whether a condition says only that a pool has as many clusters as its owner allows.
pub fn is_about_max_size(condition: &Condition) -> bool {
    ConditionReason::named(&condition.reason) == Some(ConditionReason::MaxCapacity)
}

/// The condition of a type, if its status is the given one.
pub fn find_condition<'a>(
    pool: &'a ClusterPool,
    kind: ConditionType,
    status: &str,
) -> Option<&'a Condition> {
    pool.condition(kind).filter(|condition| condition.status == status)
}

/// The clusters of a pool, the claimed ones as well.
pub fn clusters_of<'a>(state: &'a State, pool: &ClusterPool) -> impl Iterator<Item = &'a Cluster> {
    let members = state.members(&pool.key()).clusters.into_iter();
    members.filter_map(move |cluster_id| state.clusters.get(cluster_id))
}

/// Whether the pool has fewer clusters than its size and its waiting claims ask for.
pub fn lacks_clusters(pool: &ClusterPool) -> bool {
    pool.status.size < pool.spec.size.saturating_add(pool.status.pending)
}

/// Why no entry of the inventory can be used. None if one is free or no more clusters are needed.
pub fn describe_inventory(pool: &ClusterPool) -> Option<String> {
    let entries = pool.spec.inventory.as_ref()?;
    if pool.status.free_customizations > 0 || !lacks_clusters(pool) {
        return None;
    }
    let mut uses = Vec::new();
    for entry in entries {
        // What no pass has looked at yet may be free.
        let seen = pool.status.inventory.get(&entry.name)?;
        let why = if seen.message.is_empty() { &seen.cluster_deployment } else { &seen.message };
        let status = seen.status.to_string().to_lowercase();
        uses.push(format!("{} is {status} ({why})", entry.name));
    }
    let count = entries.len();
    Some(format!("none of its customizations ({count}) is free: {}", uses.join("; ")))
}
