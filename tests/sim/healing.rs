//! The law that pools heal: at rest, a pool that nothing holds up has all the clusters that it
//! should have, and as many of them run as it says. What people hold, or have made to fail, is left
//! out.

use poolctl::model::annotations::{FAKE_HEALTH, REFRESH};
use poolctl::model::cluster::Cluster;
use poolctl::model::inventory::EntryStatus;
use poolctl::model::pool::{ClusterPool, RECONCILE_PAUSE};
use poolctl::model::refusal::Refusal;
use poolctl::model::state::State;

use super::law::clusters_of;
use super::pools;
use super::step::{Health, Refresh};
use super::world::SimWorld;

/// The first pool that lacks clusters for no reason, and what it lacks.
pub fn find_unhealed_pool(world: &SimWorld) -> Result<Option<String>, Refusal> {
    let state = world.load()?;
    let is_image_set_missing = pools::is_image_set_missing(world)?;
    for pool in state.pools.rows() {
        let clusters = clusters_of(&state, &pool.key());
        if is_held(pool) || clusters.iter().any(|cluster| cluster.paused) {
            continue;
        }
        let name = &pool.metadata.name;
        let unclaimed: Vec<&Cluster> =
            clusters.iter().copied().filter(|cluster| is_unclaimed(cluster)).collect();
        let installed = unclaimed.iter().filter(|cluster| cluster.is_installed()).count();
        let can_be_full = !is_image_set_missing && can_be_full(world, &state, pool, &clusters);
        if can_be_full && installed < pool.size() {
            let size = pool.size();
            return Ok(Some(format!("pool {name} of size {size} has {installed} clusters")));
        }
        let running = unclaimed.iter().filter(|cluster| cluster.power.is_running()).count();
        let wanted = pool.running_count().min(installed);
        if running < wanted && !has_sick_cluster(world, &unclaimed)? {
            return Ok(Some(format!("{running} clusters of pool {name} run, not {wanted}")));
        }
    }
    Ok(None)
}

/// Whether people hold a pool, or are about to lose it.
fn is_held(pool: &ClusterPool) -> bool {
    pool.metadata.has_true_annotation(RECONCILE_PAUSE) || pool.metadata.deletion_timestamp.is_some()
}

fn is_unclaimed(cluster: &Cluster) -> bool {
    cluster.claim.is_none() && cluster.deleting.is_none() && !cluster.marked
}

/// Whether nothing keeps a pool from having as many clusters as its size: neither its configuration
/// nor its limits, and no cluster that people want to fail.
fn can_be_full(world: &SimWorld, state: &State, pool: &ClusterPool, clusters: &[&Cluster]) -> bool {
    let is_refreshed = pool.metadata.annotation(REFRESH) != Some(Refresh::Never.word());
    let has_cursed_cluster = clusters.iter().any(|cluster| world.cursed.contains(&cluster.name));
    if pools::is_spoiled(pool)
        || pool.spec.max_concurrent == Some(0)
        || !is_refreshed
        || has_cursed_cluster
    {
        return false;
    }
    let taken = clusters.iter().filter(|cluster| !is_unclaimed(cluster)).count();
    let room = pool.max_size().unwrap_or(usize::MAX).saturating_sub(taken);
    room >= pool.size() && count_customizations(world, state, pool) >= pool.size()
}

/// The customizations that clusters nobody has claimed have, or may get.
fn count_customizations(world: &SimWorld, state: &State, pool: &ClusterPool) -> usize {
    let Some(inventory) = &pool.spec.inventory else { return usize::MAX };
    let mut count = 0;
    for entry in inventory {
        let Some(seen) = pool.status.inventory.get(&entry.name) else { continue };
        let cluster_id = state.find_cluster(&seen.cluster_deployment);
        let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
        let is_usable = match seen.status {
            EntryStatus::Available => true,
            EntryStatus::Reserved | EntryStatus::ToBeUpdated => cluster.is_some_and(is_unclaimed),
            _ => false,
        };
        count += usize::from(is_usable && !world.troubles.is_doomed(&entry.name));
    }
    count
}

/// Whether a cluster cannot wake or stop as it is told, for good.
fn has_sick_cluster(world: &SimWorld, clusters: &[&Cluster]) -> Result<bool, Refusal> {
    for cluster in clusters {
        let steering = world.store().read_steering(&cluster.name)?;
        let health = steering.annotations.get(FAKE_HEALTH).and_then(|word| Health::named(word));
        if health.is_some_and(|health| health != Health::Healthy) {
            return Ok(true);
        }
    }
    Ok(false)
}
