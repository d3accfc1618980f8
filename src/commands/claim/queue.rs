//! The queue of a pool: the place of each waiting claim, and how long it will probably wait. It
//! only estimates: the pass decides which claim gets which cluster.

use std::collections::HashMap;

use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase, Power};
use crate::model::job::{Job, SUCCEEDED, Verb};
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::output::QueuePosition;
use crate::store::Store;

/// Jobs of a pool from which it is estimated how long the next ones take.
const RECENT_JOBS: u32 = 20;

/// The place of every waiting claim in the queue of its pool.
pub fn queue_positions(store: &Store, now: Time) -> Result<HashMap<Key, QueuePosition>, Refusal> {
    let mut queues: HashMap<Key, Vec<Claim>> = HashMap::new();
    for claim in store.list_all::<Claim>()?.into_iter().filter(Claim::is_waiting) {
        queues.entry(claim.pool_key()).or_default().push(claim);
    }
    let mut places = HashMap::new();
    if queues.is_empty() {
        return Ok(places);
    }
    let live_jobs = store.live_jobs()?;
    let clusters = store.list_all::<Cluster>()?;
    let mut giving_pools = store.list_all::<ClusterPool>()?;
    giving_pools.retain(|pool| {
        !pool.metadata.has_true_annotation(RECONCILE_PAUSE)
            && pool.metadata.deletion_timestamp.is_none()
    });
    let giving_pools: HashMap<Key, ClusterPool> =
        giving_pools.into_iter().map(|pool| (pool.key(), pool)).collect();
    for (pool_key, mut waiting) in queues {
        waiting.sort_by_key(|claim| claim.created);
        let mut past_jobs = store.last_jobs_of_pool(&pool_key, Verb::Provision, RECENT_JOBS)?;
        past_jobs.extend(store.last_jobs_of_pool(&pool_key, Verb::Start, RECENT_JOBS)?);
        let forecast = giving_pools
            .get(&pool_key)
            .map(|pool| Forecast::of_pool(pool, &clusters, &past_jobs, &live_jobs, now));
        for (index, claim) in waiting.iter().enumerate() {
            let ready = forecast.as_ref().and_then(|forecast| forecast.ready_at(index));
            let wait = ready.map(|ready| ready.since(now));
            places.insert(claim.key(), QueuePosition { number: index + 1, wait });
        }
    }
    Ok(places)
}

/// When clusters of a pool will be ready: first those that are being made or woken, soonest first,
/// then those that the pool will begin when there is room.
struct Forecast {
    /// When each cluster is ready that is on its way; `None` if the pool has no history to tell.
    coming: Vec<Option<Time>>,
    /// How long an installation takes, if the pool has a history.
    install_time: Option<Span>,
    /// How many clusters can be begun beside those.
    capacity: usize,
    /// How many clusters may be made or destroyed at a time, and how many are.
    max_concurrent: usize,
    busy: usize,
    now: Time,
}

impl Forecast {
    /// Forecasts from the state now and from how long jobs of the pool usually took. `past_jobs`
    /// and `live_jobs` are those of this pool; `clusters` may be of all pools.
    fn of_pool(
        pool: &ClusterPool,
        clusters: &[Cluster],
        past_jobs: &[Job],
        live_jobs: &[Job],
        now: Time,
    ) -> Self {
        let spec = &pool.spec;
        let pool_key = pool.key();
        let install_time = usual_duration(past_jobs, Verb::Provision);
        let wake_time = usual_duration(past_jobs, Verb::Start);
        let pool_clusters: Vec<&Cluster> =
            clusters.iter().filter(|cluster| cluster.pool.as_deref() == Some(&pool_key)).collect();
        let begun: HashMap<&str, Time> =
            live_jobs.iter().map(|job| (job.object.as_str(), job.started)).collect();
        let mut coming = Vec::new();
        let mut busy = 0;
        for cluster in &pool_clusters {
            let phase = cluster.phase();
            busy += usize::from(matches!(
                phase,
                Phase::Installing | Phase::Retrying | Phase::Deprovisioning
            ));
            if cluster.claim.is_some() || cluster.marked {
                continue;
            }
            let duration = match (phase, cluster.power) {
                (Phase::Installing | Phase::Retrying, _) => install_time,
                (Phase::Installed, Power::Hibernating) => wake_time,
                (Phase::Installed, power) if power.is_waking() => wake_time,
                _ => continue,
            };
            let since = begun.get(cluster.name.as_str()).copied().unwrap_or(now);
            // A cluster that takes longer than usual may be ready at any moment.
            coming.push(duration.map(|duration| since.plus(duration).max(now)));
        }
        coming.sort_by_key(|ready| ready.unwrap_or(Time(i64::MAX)));
        let room = limit_or_max(spec.max_size).saturating_sub(pool_clusters.len());
        let free = spec.inventory.as_ref().map(|_| pool.status.free_customizations);
        Self {
            coming,
            install_time,
            capacity: room.min(limit_or_max(free)),
            max_concurrent: limit_or_max(spec.max_concurrent),
            busy,
            now,
        }
    }

    /// When the cluster is ready that the claim at this index of the queue gets, if that is known.
    fn ready_at(&self, index: usize) -> Option<Time> {
        if let Some(coming) = self.coming.get(index) {
            return *coming;
        }
        let index_of_new = index - self.coming.len();
        if index_of_new >= self.capacity {
            return None;
        }
        let rounds = (self.busy + index_of_new).checked_div(self.max_concurrent)? + 1;
        let wait = self.install_time?.0.saturating_mul(i64::try_from(rounds).ok()?);
        Some(self.now.plus(Span(wait)))
    }
}

/// A limit of a pool as a number; without a limit the largest there is.
fn limit_or_max(limit: Option<u32>) -> usize {
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0))
}

/// The median duration of the jobs of this verb that succeeded.
fn usual_duration(jobs: &[Job], verb: Verb) -> Option<Span> {
    let mut durations = Vec::new();
    for job in jobs {
        if job.verb == verb
            && job.outcome.as_deref() == Some(SUCCEEDED)
            && let Some(ended) = job.ended
        {
            durations.push(ended.since(job.started));
        }
    }
    durations.sort();
    durations.get(durations.len() / 2).copied()
}
