//! The queue of a pool: each waiting claim's place in it, and when its cluster is to be expected.

use std::collections::HashMap;

use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase, Power};
use crate::model::job::{Job, SUCCEEDED, Verb};
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, PAUSED};
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::output::Place;
use crate::store::Store;

/// As much of a pool's history as tells how long things take.
const RECENT: u32 = 20;

/// Place of every waiting claim in the queue of its pool.
pub fn places(store: &Store, now: Time) -> Result<HashMap<Key, Place>, Refusal> {
    let mut queues: HashMap<Key, Vec<Claim>> = HashMap::new();
    for claim in store.all::<Claim>()?.into_iter().filter(Claim::waits) {
        queues.entry(claim.pool_key()).or_default().push(claim);
    }
    let mut places = HashMap::new();
    if queues.is_empty() {
        return Ok(places);
    }
    let live = store.live_jobs()?;
    let clusters = store.all::<Cluster>()?;
    let mut giving_pools = store.all::<ClusterPool>()?;
    giving_pools.retain(|pool| {
        !pool.metadata.annotated(PAUSED) && pool.metadata.deletion_timestamp.is_none()
    });
    let giving_pools: HashMap<Key, ClusterPool> =
        giving_pools.into_iter().map(|pool| (pool.key(), pool)).collect();
    for (pool_key, mut waiting) in queues {
        waiting.sort_by_key(|claim| claim.created);
        let mut jobs = store.last_jobs_of_pool(&pool_key, Verb::Provision, RECENT)?;
        jobs.extend(store.last_jobs_of_pool(&pool_key, Verb::Start, RECENT)?);
        let pool = giving_pools.get(&pool_key);
        let expected = pool.map(|pool| expected(pool, &clusters, (&jobs, &live), now));
        for (at, claim) in waiting.iter().enumerate() {
            let ready = expected.as_ref().and_then(|expected| expected.at(at));
            let wait = ready.map(|ready| ready.since(now));
            places.insert(claim.key(), Place { number: at + 1, wait });
        }
    }
    Ok(places)
}

/// When clusters of a pool will be ready: those on their way, soonest first, and those that are
/// begun when there is room for them.
struct Expected {
    /// None for one that is on its way, nobody knows how long.
    coming: Vec<Option<Time>>,
    /// How long an installation takes, if the pool has a history.
    install: Option<Span>,
    /// Clusters that can be made beside those.
    more: usize,
    /// How many may be made at a time, and how many are.
    at_once: usize,
    busy: usize,
    now: Time,
}

impl Expected {
    fn at(&self, number: usize) -> Option<Time> {
        if let Some(coming) = self.coming.get(number) {
            return *coming;
        }
        let after = number - self.coming.len();
        let rounds = (self.busy + after).checked_div(self.at_once)? + 1;
        let takes = self.install.filter(|_| after < self.more)?;
        Some(self.now.plus(Span(takes.0.saturating_mul(i64::try_from(rounds).ok()?))))
    }
}

fn expected(
    pool: &ClusterPool,
    clusters: &[Cluster],
    (jobs, live): (&[Job], &[Job]),
    now: Time,
) -> Expected {
    let (spec, key) = (&pool.spec, &pool.key());
    let usual = |verb: Verb| {
        let done = jobs.iter().filter(|job| job.verb == verb);
        let done = done.filter(|job| job.outcome.as_deref() == Some(SUCCEEDED));
        median(done.filter_map(|job| Some(job.ended?.since(job.started))).collect())
    };
    let (install, wake) = (usual(Verb::Provision), usual(Verb::Start));
    let mine: Vec<&Cluster> =
        clusters.iter().filter(|cluster| cluster.pool.as_deref() == Some(key)).collect();
    let live: HashMap<&str, Time> =
        live.iter().map(|job| (job.object.as_str(), job.started)).collect();
    let ready = |one: &Cluster| {
        let since = live.get(one.name.as_str()).copied().unwrap_or(now);
        let takes = match (one.phase(), one.power) {
            _ if one.claim.is_some() || one.marked => return None,
            (Phase::Installing | Phase::Retrying, _) => install,
            (Phase::Installed, Power::Hibernating) => wake,
            (Phase::Installed, power) if power.waking() => wake,
            _ => return None,
        };
        // One that takes longer than usual may come at any moment.
        Some(takes.map(|takes| since.plus(takes).max(now)))
    };
    let mut coming: Vec<Option<Time>> = mine.iter().filter_map(|one| ready(one)).collect();
    coming.sort_by_key(|ready| ready.unwrap_or(Time(i64::MAX)));
    let many =
        |most: Option<u32>| most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
    let free = spec.inventory.as_ref().map(|_| pool.status.free_customizations);
    let more = many(spec.max_size).saturating_sub(mine.len()).min(many(free));
    let busy = |one: &&&Cluster| {
        matches!(one.phase(), Phase::Installing | Phase::Retrying | Phase::Deprovisioning)
    };
    let busy = mine.iter().filter(busy).count();
    Expected { coming, install, more, at_once: many(spec.max_concurrent), busy, now }
}

fn median(mut spans: Vec<Span>) -> Option<Span> {
    spans.sort();
    spans.get(spans.len() / 2).copied()
}
