//! Explains why the clusters of a pool come and go: by those that the pool itself replaced lately.
//! Clusters that a person has claimed or deleted do not count.

use std::collections::{BTreeMap, HashSet};

use super::chain::Chain;
use super::evidence::Evidence;
use crate::model::annotations::REFRESH;
use crate::model::event_reason::EventReason;
use crate::model::pool::ClusterPool;
use crate::model::time::Span;
use crate::plan::{BROKEN_CLUSTER, STALE_CLUSTER};

/// Events that are older do not count.
pub const RECENT_SPAN: Span = Span::hours(24);
/// How many of a pool's last installations are read to know which clusters were its own.
pub const RECENT_JOBS: u32 = 2_000;
/// Fewer replaced clusters need no explanation.
const MANY: usize = 3;

/// Explains why clusters of a pool are replaced, if many were.
pub fn explain_replacements(evidence: &Evidence, pool: &ClusterPool) -> Option<Chain> {
    let replaced = replaced_clusters(evidence);
    let (reason, clusters) = replaced.iter().max_by_key(|(_, clusters)| clusters.len())?;
    if clusters.len() < MANY {
        return None;
    }
    let newest = clusters.first()?;
    let name = &pool.metadata.name;
    let option = &evidence.namespace_option;
    let is_broken = *reason == BROKEN_CLUSTER;
    let why =
        if is_broken { "broken" } else { "of an older version of their pool or customization" };
    let next = if is_broken {
        format!("poolctl events cluster/{newest}")
    } else if pool.metadata.annotation(REFRESH) == Some("none") {
        format!("poolctl events pool/{name}{option}")
    } else {
        format!("poolctl annotate pool {name} {REFRESH}=none --overwrite{option}")
    };
    let count = clusters.len();
    let span = RECENT_SPAN.to_short_text();
    let cause =
        format!("{count} of its clusters were replaced within {span} because they were {why}");
    Some(Chain::new(cause, next))
}

/// The clusters that the pool has replaced, by the reason of their events; the newest first.
fn replaced_clusters(evidence: &Evidence) -> BTreeMap<EventReason, Vec<&str>> {
    let own_clusters: HashSet<&str> =
        evidence.provisions.iter().map(|job| job.object.as_str()).collect();
    let mut replaced: BTreeMap<EventReason, Vec<&str>> = BTreeMap::new();
    for event in &evidence.events {
        let cluster = event.object.name.as_str();
        let reason =
            [BROKEN_CLUSTER, STALE_CLUSTER].into_iter().find(|reason| event.reason == *reason);
        if let Some(reason) = reason
            && own_clusters.contains(cluster)
        {
            replaced.entry(reason).or_default().push(cluster);
        }
    }
    replaced
}
