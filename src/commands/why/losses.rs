//! Clusters that a pool replaced of its own accord lately: what `why` says of a pool whose clusters
//! come and go.

use std::collections::{BTreeMap, HashSet};

use crate::model::job::Verb;
use crate::model::pool::{ClusterPool, REFRESH};
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::plan::{BROKEN, STALE};
use crate::store::Store;

use crate::commands::why::Chain;

/// How far back.
const LATELY: Span = Span::hours(24);
/// So many of the pool's last installations tell which clusters were its own.
const JOBS: u32 = 2_000;
/// Fewer are nothing to wonder about.
const MANY: usize = 3;

/// Why a pool's clusters are replaced, if many are.
pub fn of(
    store: &Store,
    pool: &ClusterPool,
    now: Time,
    at: &str,
) -> Result<Option<Chain>, Refusal> {
    let key = pool.key();
    let jobs = store.last_jobs_of_pool(&key, Verb::Provision, JOBS)?;
    let mine: HashSet<&str> = jobs.iter().map(|job| job.object.as_str()).collect();
    let events = store.events_since(Time(now.0 - LATELY.0))?;
    let mut lost: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in &events {
        let why = [BROKEN, STALE].into_iter().find(|why| event.reason == *why);
        if let Some(why) = why.filter(|_| mine.contains(event.object.name.as_str())) {
            lost.entry(why).or_default().push(&event.object.name);
        }
    }
    let Some((why, clusters)) = lost.iter().max_by_key(|(_, clusters)| clusters.len()) else {
        return Ok(None);
    };
    if clusters.len() < MANY {
        return Ok(None);
    }
    let name = &pool.metadata.name;
    let (why, next) = match *why {
        STALE => (
            "of an older version of its pool or customization",
            if pool.metadata.annotation(REFRESH) == Some("none") {
                format!("poolctl events pool/{name}{at}")
            } else {
                format!("poolctl annotate pool {name} {REFRESH}=none --overwrite{at}")
            },
        ),
        _ => ("broken", format!("poolctl events cluster/{}", clusters[0])),
    };
    let (many, span) = (clusters.len(), LATELY.short());
    let text = format!("{many} of its clusters were replaced within {span}: {why}");
    Ok(Some(Chain::of(text, next)))
}
