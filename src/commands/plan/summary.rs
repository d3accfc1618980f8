//! The first line of `plan`: how many clusters would be made and destroyed, and why, which claims
//! would be served and which jobs begin. It only counts.

use std::collections::BTreeMap;

use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::event_reason::EventReason;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::state::State;
use crate::model::table::Change;
use crate::output::DifferenceLine;

use crate::commands::count_of;

/// What a pass would change, in a line: `2 clusters made, 1 destroyed: stale; 1 claim served`.
pub fn summarize_changes(state: &State, changes: &[DifferenceLine]) -> String {
    let mut parts = Vec::new();
    parts.extend(summarize_clusters(state));
    let served_count = state.claims.difference().filter(is_served).count();
    if served_count > 0 {
        parts.push(format!("{} served", count_of(served_count, "claim")));
    }
    let job_count = state.jobs.difference().filter(is_begun).count();
    if job_count > 0 {
        parts.push(format!("{} begun", count_of(job_count, "job")));
    }
    if !parts.is_empty() {
        return parts.join("; ");
    }
    match changes.iter().filter(|change| change.name.is_some()).count() {
        0 => format!("{} recorded", count_of(state.events.len(), "event")),
        object_count => format!("{} changed", count_of(object_count, "object")),
    }
}

/// `2 clusters made, 1 destroyed: stale`; none if a pass would do neither.
fn summarize_clusters(state: &State) -> Option<String> {
    let mut made_count = 0;
    let mut destroyed_count = 0;
    let mut counts_of_causes: BTreeMap<&str, usize> = BTreeMap::new();
    for change in state.clusters.difference() {
        made_count += usize::from(change.before.is_none());
        if let Some(cluster) = newly_deleted(&change) {
            destroyed_count += 1;
            *counts_of_causes.entry(describe_deletion(state, cluster)).or_default() += 1;
        }
    }
    let mut parts = Vec::new();
    if made_count > 0 {
        parts.push(format!("{} made", count_of(made_count, "cluster")));
    }
    if destroyed_count > 0 {
        let destroyed = if made_count > 0 {
            destroyed_count.to_string()
        } else {
            count_of(destroyed_count, "cluster")
        };
        parts.push(format!("{destroyed} destroyed: {}", join_causes(&counts_of_causes)));
    }
    if parts.is_empty() { None } else { Some(parts.join(", ")) }
}

/// `stale`, or `2 stale and 1 broken` if there are several causes.
fn join_causes(counts_of_causes: &BTreeMap<&str, usize>) -> String {
    if let [cause] = counts_of_causes.keys().collect::<Vec<_>>()[..] {
        return (*cause).to_owned();
    }
    let mut causes = Vec::new();
    for (cause, count) in counts_of_causes {
        causes.push(format!("{count} {cause}"));
    }
    causes.join(" and ")
}

/// The cluster of a change that asks for its deletion.
fn newly_deleted<'a>(change: &Change<'a, Cluster>) -> Option<&'a Cluster> {
    let cluster = change.before?;
    let was_deleted = cluster.deleting.is_some();
    let is_deleted = change.after.is_none_or(|after| after.deleting.is_some());
    if is_deleted && !was_deleted { Some(cluster) } else { None }
}

/// Why a cluster is deleted, in a word or two, by the event that a pass would record.
fn describe_deletion(state: &State, cluster: &Cluster) -> &'static str {
    for (event, _) in &state.events {
        let is_about_cluster =
            event.kind == Kind::ClusterDeployment.name() && event.object.name == cluster.name;
        if !is_about_cluster {
            continue;
        }
        match EventReason::named(&event.reason) {
            Some(EventReason::ClusterStale) => return "stale",
            Some(EventReason::ClusterBroken) => return "broken",
            Some(EventReason::ClusterDeleting) => return "not needed",
            _ => {}
        }
    }
    "released"
}

/// Whether a claim gets a cluster.
fn is_served(change: &Change<'_, Claim>) -> bool {
    let had_cluster = change.before.is_some_and(|claim| claim.cluster.is_some());
    !had_cluster && change.after.is_some_and(|claim| claim.cluster.is_some())
}

/// Whether a job begins.
fn is_begun(change: &Change<'_, Job>) -> bool {
    change.before.is_none() && change.after.is_some_and(|job| job.outcome.is_none())
}
