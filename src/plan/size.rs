//! How many clusters: Hive's choice, one branch a round, with the corrections of decision 11.

use std::collections::HashSet;

use crate::model::cluster::{Cluster, Phase};
use crate::model::event_reason::EventReason;
use crate::model::pool::{ClusterPool, REFRESH};
use crate::model::state::{Books, ClusterId, PoolId, State};
use crate::model::tick::Tick;

use super::buckets::{Buckets, sort_pool};
use super::inventory::free;
use super::{CLUSTER, POOL, create, pause, say};

/// The reason of the event when a cluster goes that was given up, or did not wake.
pub const BROKEN: EventReason = EventReason::ClusterBroken;
/// The reason of the event when a stale cluster goes.
pub const STALE: EventReason = EventReason::ClusterStale;
const DELETING: EventReason = EventReason::ClusterDeleting;
const TOO_MANY: (EventReason, &str) = (DELETING, "more than the pool's size");

pub fn choose(state: &mut State, at: PoolId, tick: &Tick, names: &dyn Books) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let sorted = sort_pool(state, pool, tick.now);
    if pool.metadata.deletion_timestamp.is_some() {
        return wind_down(state, at, &sorted, tick);
    }
    let (wanted, unclaimed) = (pool.size() + sorted.waiting.len(), sorted.unclaimed());
    let is_paused = pause::is_on(pool);
    let most = pool.max_size().unwrap_or(usize::MAX);
    let (marked, budget) = marked(state, pool, &sorted);
    delete(state, &marked, tick, (DELETING, "to be removed from its pool"));
    if budget == 0 && marked.is_empty() {
        let failing = let_go(state, at, &sorted, unclaimed.saturating_sub(wanted));
        return delete(state, &failing, tick, TOO_MANY);
    }
    if budget == 0 {
        return;
    }
    if unclaimed < wanted {
        let room = most.saturating_sub(sorted.total);
        let number = (wanted - unclaimed).min(room).min(budget);
        if number > 0 && !is_paused && create::add(state, at, number, tick, names) > 0 {
            return;
        }
    }
    // Adding nothing falls through: broken clusters may hold what the new ones wait for.
    if !sorted.broken.is_empty() {
        let broken: Vec<ClusterId> = sorted.broken.iter().copied().take(budget).collect();
        learn_from_broken(state, at, &broken);
        return delete(state, &broken, tick, (BROKEN, "broken"));
    }
    if unclaimed > wanted {
        let order = sorted.installing.iter().chain(&sorted.standby).chain(&sorted.ready);
        let excess: Vec<ClusterId> =
            order.copied().take((unclaimed - wanted).min(budget)).collect();
        return delete(state, &excess, tick, TOO_MANY);
    }
    refresh(state, at, &sorted, budget, tick);
}

/// Where clusters may take as long to wake as they usually do, those that took longer count, too:
/// otherwise a pool of slow ones would be destroyed and made anew for ever.
fn learn_from_broken(state: &mut State, pool_id: PoolId, broken: &[ClusterId]) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let limit = pool.usual_resume_timeout();
    let is_slow = |id: &&ClusterId| state.clusters.get(**id).is_some_and(|one| !one.stopped);
    let slow = broken.iter().filter(is_slow).count();
    if pool.resume_timeout().is_some() || slow == 0 {
        return;
    }
    state.pools.update(pool_id, |pool| {
        (0..slow).for_each(|_| pool.status.note_waking(limit));
    });
}

/// Marked clusters that go now, and what may be started besides within maxConcurrent. Hive does
/// not count marked clusters that are still installing; here they leave no room for others, but
/// may be destroyed in their own place.
fn marked(state: &State, pool: &ClusterPool, sorted: &Buckets) -> (Vec<ClusterId>, usize) {
    let busy = sorted.installing.len() + sorted.deleting.len();
    let limit = pool.max_concurrent().unwrap_or(usize::MAX);
    let installs = |at: &ClusterId| in_flight(state, *at);
    let mut budget = limit.saturating_sub(busy);
    let mut room = budget.saturating_sub(sorted.marked.iter().filter(|at| installs(at)).count());
    let mut going = Vec::new();
    for at in &sorted.marked {
        let place = usize::from(!installs(at));
        if budget > 0 && room >= place {
            going.push(*at);
            (budget, room) = (budget - 1, room - place);
        }
    }
    (going, budget.min(room))
}

/// Whether a cluster is being installed, not waiting for its next attempt.
fn in_flight(state: &State, at: ClusterId) -> bool {
    state.clusters.get(at).is_some_and(|cluster| match cluster.phase() {
        Phase::Installing => true,
        Phase::Retrying => state.live_job(&cluster.name).is_some(),
        _ => false,
    })
}

/// Clusters that wait for their next attempt while maxConcurrent is used up: nothing works on
/// them, so some can be deleted without more being in flight. Otherwise a pool whose
/// installations all fail could never shrink.
fn let_go(state: &State, at: PoolId, sorted: &Buckets, most: usize) -> Vec<ClusterId> {
    let idle = |at: &&ClusterId| !in_flight(state, **at);
    let failing: Vec<ClusterId> = sorted.installing.iter().filter(idle).copied().collect();
    let marked = sorted.marked.iter().filter(|at| in_flight(state, **at)).count();
    let busy = sorted.installing.len() - failing.len() + sorted.deleting.len() + marked;
    let limit = state.pools.get(at).and_then(ClusterPool::max_concurrent);
    let spare = limit.map_or(0, |limit| limit.saturating_sub(busy));
    failing.into_iter().take(spare.min(most)).collect()
}

/// Replaces stale clusters: one at a time, oldest first, in steady state; `fast` within
/// maxConcurrent; `none` not at all.
fn refresh(state: &mut State, at: PoolId, sorted: &Buckets, budget: usize, tick: &Tick) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    // What could not be replaced stays.
    if pool.max_size().is_some_and(|most| sorted.total > most) {
        return;
    }
    let going: HashSet<ClusterId> = sorted.marked.iter().copied().collect();
    let old: Vec<ClusterId> = sorted.stale().filter(|at| !going.contains(at)).collect();
    let policy = pool.metadata.annotation(REFRESH).unwrap_or("slow");
    // Nothing would be made in their place.
    if old.is_empty() || policy == "none" || pause::is_on(pool) {
        return;
    }
    if policy == "fast" {
        let some: Vec<ClusterId> = old.into_iter().take(budget).collect();
        return replace(state, at, &some, tick);
    }
    let steady = sorted.installing.is_empty()
        && sorted.waiting.is_empty()
        && sorted.unclaimed_deleting == 0
        && sorted.usable() >= reachable(state, pool, sorted);
    if steady {
        replace(state, at, &old[..1], tick);
    }
}

fn replace(state: &mut State, at: PoolId, old: &[ClusterId], tick: &Tick) {
    let number = u32::try_from(old.len()).unwrap_or(u32::MAX);
    state.pools.update(at, |pool| pool.status.history.stale_deleted += number);
    delete(state, old, tick, (STALE, "of an older version of its pool or customization"));
}

/// Unclaimed clusters the pool can have at most now: its size, the room under maxSize that the
/// claimed ones and those on their way out leave, and what its inventory can still give.
fn reachable(state: &State, pool: &ClusterPool, sorted: &Buckets) -> usize {
    let theirs = sorted.total - sorted.unclaimed();
    let room = pool.max_size().map(|most| most.saturating_sub(theirs));
    let names = pool.spec.inventory.as_ref().map(|_| free(pool).count() + own(state, sorted));
    let wanted = pool.size() + sorted.waiting.len();
    [room, names].into_iter().flatten().fold(wanted, usize::min)
}

/// Customizations that the pool's unclaimed clusters hold.
fn own(state: &State, sorted: &Buckets) -> usize {
    let unclaimed = [&sorted.installing, &sorted.standby, &sorted.ready].into_iter().flatten();
    let holds =
        |at: &&ClusterId| state.clusters.get(**at).is_some_and(|one| one.customization.is_some());
    unclaimed.filter(holds).count()
}

/// `why`: the reason of the event, and the words.
fn delete(
    state: &mut State,
    clusters: &[ClusterId],
    tick: &Tick,
    (reason, why): (EventReason, &str),
) {
    for at in clusters {
        let Some(key) = state.clusters.get(*at).map(Cluster::key) else {
            continue;
        };
        state.clusters.update(*at, |cluster| cluster.deleting = Some(tick.now));
        say(state, tick, reason, (CLUSTER, key), format!("Deprovisioned: {why}"));
    }
}

/// A pool that is being deleted: unclaimed clusters go, claimed ones stay, and the pool itself is
/// held until none is left.
fn wind_down(state: &mut State, at: PoolId, sorted: &Buckets, tick: &Tick) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let key = pool.key();
    if sorted.total == 0 && pool.metadata.finalizers.is_empty() {
        state.pools.remove(at);
        return say(state, tick, EventReason::PoolDeleted, (POOL, key), "Pool is gone".into());
    }
    let (mut going, budget) = marked(state, pool, sorted);
    let order = [&sorted.installing, &sorted.standby, &sorted.ready, &sorted.broken];
    let others = order.into_iter().flatten().copied().take(budget);
    going.extend(others);
    if going.is_empty() {
        going = let_go(state, at, sorted, usize::MAX);
    }
    delete(state, &going, tick, (DELETING, "its pool is being deleted"));
}
