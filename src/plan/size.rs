//! Decides how many clusters a pool has: which are made, and which are deleted. It takes one branch
//! a round, in Hive's order, with the corrections of decision 11. It never touches a claimed
//! cluster that is not marked.

use std::collections::HashSet;

use crate::model::annotations::REFRESH;
use crate::model::cluster::{Cluster, Phase};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::pool::ClusterPool;
use crate::model::state::{Books, ClusterId, PoolId, State};
use crate::model::tick::Tick;

use super::buckets::{SortedPool, sort_pool};
use super::inventory::free_entries;
use super::{create, record_event};

/// The reason of the event when a cluster goes that was given up, or did not wake.
pub const BROKEN_CLUSTER: EventReason = EventReason::ClusterBroken;
/// The reason of the event when a stale cluster goes.
pub const STALE_CLUSTER: EventReason = EventReason::ClusterStale;

/// Why clusters are deleted.
#[derive(Clone, Copy)]
enum DeletionCause {
    Marked,
    TooMany,
    Broken,
    Stale,
    PoolDeleted,
}

impl DeletionCause {
    fn event_reason(self) -> EventReason {
        match self {
            Self::Marked | Self::TooMany | Self::PoolDeleted => EventReason::ClusterDeleting,
            Self::Broken => BROKEN_CLUSTER,
            Self::Stale => STALE_CLUSTER,
        }
    }

    /// A clause for people.
    fn describe(self, cluster: &Cluster) -> String {
        match self {
            Self::Marked => "it is marked to be removed from its pool".to_owned(),
            Self::TooMany => "the pool has more clusters than its size".to_owned(),
            Self::Broken if cluster.is_installed() => {
                let [_, ready] = cluster.power.conditions(cluster.power_message.as_deref());
                format!("it is broken, because it did not wake: {}", ready.message)
            }
            Self::Broken => "it is broken, because its installation was given up".to_owned(),
            Self::Stale => "it is of an older version of its pool or customization".to_owned(),
            Self::PoolDeleted => "its pool is being deleted".to_owned(),
        }
    }
}

/// Makes clusters, or deletes those that are marked, broken, too many or stale. A pool that is
/// being deleted loses its clusters, and goes itself once none is left.
pub fn choose_size(state: &mut State, pool_id: PoolId, tick: &Tick, names: &dyn Books) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let sorted = sort_pool(state, pool, tick.now);
    if pool.metadata.deletion_timestamp.is_some() {
        return wind_down_pool(state, pool_id, &sorted, tick);
    }
    let wanted = pool.size() + sorted.waiting.len();
    let unclaimed = sorted.unclaimed();
    let is_paused = pool.is_install_paused();
    let max_size = pool.max_size().unwrap_or(usize::MAX);
    let (marked, budget) = choose_marked_clusters(state, pool, &sorted);
    delete_clusters(state, &marked, tick, DeletionCause::Marked);
    if budget == 0 {
        return;
    }
    // Before any are made: at maxSize they leave the room for those that replace them.
    if !sorted.failed_stale.is_empty() {
        let failed: Vec<ClusterId> = sorted.failed_stale.iter().copied().take(budget).collect();
        return delete_stale_clusters(state, pool_id, &failed, tick);
    }
    if unclaimed < wanted {
        let room = max_size.saturating_sub(sorted.total);
        let number = (wanted - unclaimed).min(room).min(budget);
        if number > 0
            && !is_paused
            && create::create_clusters(state, pool_id, number, tick, names) > 0
        {
            return;
        }
    }
    // Making nothing falls through: broken clusters may hold what the new ones wait for.
    if !sorted.broken.is_empty() {
        let broken: Vec<ClusterId> = sorted.broken.iter().copied().take(budget).collect();
        learn_from_broken(state, pool_id, &broken);
        return delete_clusters(state, &broken, tick, DeletionCause::Broken);
    }
    if unclaimed > wanted {
        let order = [&sorted.retrying, &sorted.installing, &sorted.standby, &sorted.ready];
        let number = (unclaimed - wanted).min(budget);
        let excess: Vec<ClusterId> = order.into_iter().flatten().copied().take(number).collect();
        return delete_clusters(state, &excess, tick, DeletionCause::TooMany);
    }
    replace_stale_clusters(state, pool_id, &sorted, budget, tick);
}

/// Where clusters may take as long to wake as they usually do, those that took longer count, too:
/// otherwise a pool of slow ones would be destroyed and made anew for ever.
fn learn_from_broken(state: &mut State, pool_id: PoolId, broken: &[ClusterId]) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    if pool.resume_timeout().is_some() {
        return;
    }
    let limit = pool.usual_resume_timeout();
    let broken_clusters = broken.iter().filter_map(|cluster_id| state.clusters.get(*cluster_id));
    // How long machines could not be started says nothing about waking.
    let slow = broken_clusters
        .filter(|cluster| !cluster.stopped && !cluster.power.is_being_started())
        .count();
    state.pools.update(pool_id, |pool| {
        for _ in 0..slow {
            pool.status.note_waking(limit);
        }
    });
}

/// The marked clusters to delete now, and how many other clusters may be made or destroyed besides
/// within maxConcurrent. Hive does not count marked clusters that are still installing. Here they
/// leave no room for others, but may be destroyed in their own place.
fn choose_marked_clusters(
    state: &State,
    pool: &ClusterPool,
    sorted: &SortedPool,
) -> (Vec<ClusterId>, usize) {
    let cleaning = count_in_flight(state, &sorted.retrying);
    let busy = sorted.installing.len() + cleaning + sorted.deleting.len();
    let limit = pool.max_concurrent().unwrap_or(usize::MAX);
    let mut budget = limit.saturating_sub(busy);
    let mut room = budget.saturating_sub(count_in_flight(state, &sorted.marked));
    let mut chosen = Vec::new();
    for cluster_id in &sorted.marked {
        let place = usize::from(!is_in_flight(state, *cluster_id));
        if budget > 0 && room >= place {
            chosen.push(*cluster_id);
            budget -= 1;
            room -= place;
        }
    }
    (chosen, budget.min(room))
}

/// Whether a cluster is being installed, or what its last attempt left is being destroyed. One that
/// only waits for its next attempt, or for an object that it names, is not in flight.
fn is_in_flight(state: &State, cluster_id: ClusterId) -> bool {
    state.clusters.get(cluster_id).is_some_and(|cluster| match cluster.phase() {
        Phase::Installing => {
            !cluster.lacks_named_object() || state.live_job(&cluster.name).is_some()
        }
        Phase::Retrying => state.live_job(&cluster.name).is_some(),
        _ => false,
    })
}

fn count_in_flight(state: &State, clusters: &[ClusterId]) -> usize {
    clusters.iter().filter(|cluster_id| is_in_flight(state, **cluster_id)).count()
}

/// Deletes healthy stale clusters, so that new ones are made in their place. By default that is one
/// at a time, oldest first, and only while the pool has all its clusters; with the policy `fast` as
/// many as maxConcurrent allows; with `none` not at all.
fn replace_stale_clusters(
    state: &mut State,
    pool_id: PoolId,
    sorted: &SortedPool,
    budget: usize,
    tick: &Tick,
) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    // What could not be replaced stays.
    if pool.max_size().is_some_and(|max_size| sorted.total > max_size) {
        return;
    }
    let marked: HashSet<ClusterId> = sorted.marked.iter().copied().collect();
    let mut stale: Vec<ClusterId> =
        sorted.stale().filter(|cluster_id| !marked.contains(cluster_id)).collect();
    let policy = pool.metadata.annotation(REFRESH).unwrap_or("slow");
    // While the pool is paused nothing would be made in their place.
    if policy == "none" || pool.is_install_paused() {
        return;
    }
    if policy == "fast" {
        stale.truncate(budget);
    } else if is_steady(state, pool, sorted) {
        stale.truncate(1);
    } else {
        return;
    }
    if !stale.is_empty() {
        delete_stale_clusters(state, pool_id, &stale, tick);
    }
}

/// Whether a pool has all the clusters that it can have, and nothing is on its way. A cluster that
/// has failed is none that the pool has: while what the pool makes now fails, what it made before
/// stays.
fn is_steady(state: &State, pool: &ClusterPool, sorted: &SortedPool) -> bool {
    sorted.installing.is_empty()
        && sorted.waiting.is_empty()
        && sorted.unclaimed_deleting == 0
        && sorted.usable() >= reachable_size(state, pool, sorted)
}

/// Deletes clusters that are older than the spec of the pool, and counts them in its history.
fn delete_stale_clusters(state: &mut State, pool_id: PoolId, stale: &[ClusterId], tick: &Tick) {
    let number = u32::try_from(stale.len()).unwrap_or(u32::MAX);
    state.pools.update(pool_id, |pool| pool.status.history.stale_deleted += number);
    delete_clusters(state, stale, tick, DeletionCause::Stale);
}

/// Unclaimed clusters the pool can have at most now: its size, the room under maxSize that the
/// claimed ones and those on their way out leave, and what its inventory can still give.
fn reachable_size(state: &State, pool: &ClusterPool, sorted: &SortedPool) -> usize {
    let mut reachable = pool.size() + sorted.waiting.len();
    if let Some(max_size) = pool.max_size() {
        let not_available = sorted.total - sorted.unclaimed();
        reachable = reachable.min(max_size.saturating_sub(not_available));
    }
    if pool.spec.inventory.is_some() {
        let held = count_held_customizations(state, sorted);
        reachable = reachable.min(free_entries(pool).count() + held);
    }
    reachable
}

/// Customizations that the pool's unclaimed clusters hold, but for broken ones.
fn count_held_customizations(state: &State, sorted: &SortedPool) -> usize {
    let holders = [&sorted.retrying, &sorted.installing, &sorted.standby, &sorted.ready];
    let clusters =
        holders.into_iter().flatten().filter_map(|cluster_id| state.clusters.get(*cluster_id));
    clusters.filter(|cluster| cluster.customization.is_some()).count()
}

/// Requests the deletion of clusters, and records why.
fn delete_clusters(state: &mut State, clusters: &[ClusterId], tick: &Tick, cause: DeletionCause) {
    for cluster_id in clusters {
        let Some(cluster) = state.clusters.get(*cluster_id) else { continue };
        let key = cluster.key();
        let message = format!("Deprovisioning: {}", cause.describe(cluster));
        state.clusters.update(*cluster_id, |cluster| cluster.deleting = Some(tick.now));
        record_event(state, tick, Kind::ClusterDeployment, key, cause.event_reason(), message);
    }
}

/// A pool that is being deleted: unclaimed clusters go, claimed ones stay, and the pool itself is
/// held until none is left.
fn wind_down_pool(state: &mut State, pool_id: PoolId, sorted: &SortedPool, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let key = pool.key();
    if sorted.total == 0 && pool.metadata.finalizers.is_empty() {
        state.pools.remove(pool_id);
        return record_event(
            state,
            tick,
            Kind::ClusterPool,
            key,
            EventReason::PoolDeleted,
            "Pool is gone".into(),
        );
    }
    let (mut chosen, budget) = choose_marked_clusters(state, pool, sorted);
    let unclaimed =
        [&sorted.retrying, &sorted.installing, &sorted.standby, &sorted.ready, &sorted.broken];
    chosen.extend(unclaimed.into_iter().flatten().copied().take(budget));
    delete_clusters(state, &chosen, tick, DeletionCause::PoolDeleted);
}
