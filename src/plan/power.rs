//! Who runs and who hibernates: the oldest runningCount + waiting claims run.

use crate::model::cluster::Power;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::buckets::sort_pool;

pub fn choose(state: &mut State, pool: usize, tick: &Tick) {
    let Some(pool) = state.pools.get(pool) else {
        return;
    };
    if pool.metadata.deletion_timestamp.is_some() {
        return;
    }
    let sorted = sort_pool(state, pool, tick.now);
    let running = usize::try_from(pool.spec.running_count).unwrap_or(usize::MAX);
    let running = running.saturating_add(sorted.waiting.len());
    let mut clusters: Vec<usize> =
        [sorted.installing, sorted.standby, sorted.ready].into_iter().flatten().collect();
    clusters.sort_by_key(|at| (state.clusters.get(*at).map(|cluster| cluster.created), *at));
    for (rank, at) in clusters.into_iter().enumerate() {
        let wanted = if rank < running { Power::Running } else { Power::Hibernating };
        if state.clusters.get(at).is_some_and(|cluster| cluster.power_wanted != wanted) {
            state.clusters.update(at, |cluster| cluster.power_wanted = wanted);
        }
    }
}
