//! Clusters that a person holds, so that their pool can neither use nor destroy them.

use super::cluster::describe_used_places;
use super::shortage::{
    clusters_of, describe_inventory, find_condition, is_about_max_size, lacks_clusters,
};
use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::ConditionType;
use crate::model::pool::ClusterPool;
use crate::model::state::State;

/// The `maxConcurrent` of a pool, if clusters that a person holds use all places that it allows. The
/// pool then makes and destroys no other until a person lets them go.
pub fn find_held_places(state: &State, pool: &ClusterPool) -> Option<u32> {
    let limit = pool.max_concurrent().filter(|limit| *limit > 0)?;
    let is_used_up = clusters_with_held_place(state, pool).count() >= limit;
    if is_used_up { pool.spec.max_concurrent } else { None }
}

/// Says that `maxConcurrent` is used up, and by which clusters that a person holds.
pub fn describe_held_places(state: &State, pool: &ClusterPool, limit: u32) -> String {
    let held: Vec<&Cluster> = clusters_with_held_place(state, pool).collect();
    describe_used_places(limit, &held)
}

/// Clusters that count for `maxConcurrent` until a person lets them go: those that are to be
/// destroyed and are kept, and those that are paused while they are installed.
pub fn clusters_with_held_place<'a>(
    state: &'a State,
    pool: &ClusterPool,
) -> impl Iterator<Item = &'a Cluster> {
    clusters_of(state, pool).filter(|cluster| cluster.is_kept() || is_install_held(state, cluster))
}

/// Whether an attempt to install a cluster goes on only when a person lets it.
fn is_install_held(state: &State, cluster: &Cluster) -> bool {
    let is_held = cluster.paused && cluster.phase() == Phase::Installing;
    is_held && state.live_job(&cluster.name).is_none()
}

/// Clusters that are to be destroyed and that a person keeps.
pub fn kept_clusters<'a>(
    state: &'a State,
    pool: &ClusterPool,
) -> impl Iterator<Item = &'a Cluster> {
    clusters_of(state, pool).filter(|cluster| cluster.is_kept())
}

/// A cluster that a person holds, so that claims of its pool wait or would wait. If the pool lacks
/// no clusters, it is one that would serve a claim. Otherwise it is to be destroyed and is kept,
/// and has the place or the customization that another cluster needs.
pub fn find_cluster_held_from_claims<'a>(
    state: &'a State,
    pool: &ClusterPool,
) -> Option<&'a Cluster> {
    let claims = usize::try_from(pool.status.pending).unwrap_or(usize::MAX);
    let are_all_held = pool.status.held > 0 && pool.status.held == pool.status.size;
    if claims == 0 && !are_all_held {
        return None;
    }
    if !lacks_clusters(pool) {
        let able = clusters_of(state, pool).filter(|cluster| is_on_its_way(cluster)).count();
        let mut unclaimed = clusters_of(state, pool).filter(|cluster| is_unclaimed(cluster));
        let held = unclaimed.find(|cluster| cluster.is_held_from_claims());
        return if are_all_held || able < claims { held } else { None };
    }
    let is_full = find_condition(pool, ConditionType::CapacityAvailable, "False")
        .is_some_and(is_about_max_size);
    let needs_customization = describe_inventory(pool).is_some();
    kept_clusters(state, pool)
        .find(|cluster| is_full || (needs_customization && cluster.customization.is_some()))
}

/// Whether a cluster may serve a claim, now or later.
fn is_unclaimed(cluster: &Cluster) -> bool {
    cluster.claim.is_none() && cluster.deleting.is_none() && !cluster.marked && !cluster.stopped
}

/// Whether a cluster serves a claim as soon as it runs, and nothing has failed on its way.
fn is_on_its_way(cluster: &Cluster) -> bool {
    is_unclaimed(cluster)
        && !cluster.is_held_from_claims()
        && cluster.start_failure().is_none()
        && (cluster.is_installed() || cluster.failed_at.is_none())
}
