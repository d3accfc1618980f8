//! Explains a pool: what keeps it from having more clusters ready.

use super::chain::Chain;
use super::cluster::explain_cluster;
use super::evidence::Evidence;
use super::replacements::explain_replacements;
use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::state::State;
use crate::plan;

/// What keeps a pool from having more ready clusters, as far as the state alone shows it.
enum Obstacle<'a> {
    Deletion,
    Pause,
    MissingDependencies(&'a Condition),
    /// Installations fail, and for a while no other starts.
    FailingInstallations(String),
    /// `maxConcurrent` is used up.
    Concurrency(u32),
    /// A cluster that is broken or failed to install, or that is waking up.
    Cluster(&'a Cluster),
    /// No customization of the inventory is free.
    Inventory(String),
    Capacity(&'a Condition),
}

/// Explains a pool by its strongest obstacle. Without one, by the clusters that it replaced lately,
/// and else by the cluster that will be ready next.
pub fn explain_pool(evidence: &Evidence, pool: &ClusterPool) -> Chain {
    let status = &pool.status;
    let first_cause = format!(
        "pool {} has size {}: {} ready, {} standby, {}, {} broken; {} claimed, {} deprovisioning",
        pool.metadata.name,
        pool.spec.size,
        status.ready,
        status.standby,
        describe_installing(status.installing.into(), status.retrying.into()),
        status.broken,
        status.claimed,
        status.deleting
    );
    let reason = match find_obstacle(&evidence.state, pool) {
        Some(obstacle) => explain_obstacle(evidence, pool, obstacle),
        None => {
            explain_replacements(evidence, pool).unwrap_or_else(|| explain_progress(evidence, pool))
        }
    };
    reason.preceded_by(first_cause)
}

/// How many clusters are being installed, and, if there are any, how many wait for their next
/// attempt: `2 installing, 1 retrying`.
pub fn describe_installing(installing: u64, retrying: u64) -> String {
    if retrying == 0 {
        return format!("{installing} installing");
    }
    format!("{installing} installing, {retrying} retrying")
}

/// The cluster that the explanation of a pool may lead to, if any.
pub fn explained_cluster<'a>(state: &'a State, pool: &'a ClusterPool) -> Option<&'a Cluster> {
    match find_obstacle(state, pool) {
        Some(Obstacle::Deletion) => find_kept_cluster(state, pool),
        Some(Obstacle::Cluster(cluster)) => Some(cluster),
        Some(_) => None,
        None => find_next_cluster(state, pool),
    }
}

/// Whether a pool has no obstacle now, so that only its past can explain why it lacks clusters.
pub fn is_explained_by_history(state: &State, pool: &ClusterPool) -> bool {
    find_obstacle(state, pool).is_none()
}

/// What a pool lacks to make the clusters that it should have. None if it has enough clusters.
pub fn describe_shortage(pool: &ClusterPool) -> Option<String> {
    if !lacks_clusters(pool) {
        return None;
    }
    if let Some(condition) = find_condition(pool, ConditionType::MissingDependencies, "True") {
        return Some(condition.message.clone());
    }
    describe_inventory(pool).or_else(|| {
        find_condition(pool, ConditionType::CapacityAvailable, "False")
            .map(|condition| condition.message.clone())
    })
}

/// The strongest obstacle of a pool. They are sought in this order because removing a later one
/// does not help while an earlier one is there.
fn find_obstacle<'a>(state: &'a State, pool: &'a ClusterPool) -> Option<Obstacle<'a>> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Some(Obstacle::Deletion);
    }
    if pool.metadata.has_true_annotation(RECONCILE_PAUSE) {
        return Some(Obstacle::Pause);
    }
    if let Some(condition) = find_condition(pool, ConditionType::MissingDependencies, "True") {
        return Some(Obstacle::MissingDependencies(condition));
    }
    if let Some(cause) = plan::describe_install_pause(pool) {
        return Some(Obstacle::FailingInstallations(cause));
    }
    if let Some(limit) = exhausted_concurrency(pool) {
        return Some(Obstacle::Concurrency(limit));
    }
    if let Some(cluster) = find_failed_cluster(state, pool) {
        return Some(Obstacle::Cluster(cluster));
    }
    if let Some(cluster) = find_next_cluster(state, pool)
        && cluster.power.is_waking()
    {
        return Some(Obstacle::Cluster(cluster));
    }
    if let Some(cause) = describe_inventory(pool) {
        return Some(Obstacle::Inventory(cause));
    }
    find_condition(pool, ConditionType::CapacityAvailable, "False").map(Obstacle::Capacity)
}

/// Puts an obstacle into words, with the command that removes it.
fn explain_obstacle(evidence: &Evidence, pool: &ClusterPool, obstacle: Obstacle<'_>) -> Chain {
    let name = &pool.metadata.name;
    let option = &evidence.namespace_option;
    match obstacle {
        Obstacle::Deletion => explain_deletion(evidence, pool),
        Obstacle::Pause => {
            Chain::new("it is paused", format!("poolctl pool resume {name}{option}"))
        }
        Obstacle::MissingDependencies(condition) => Chain::new(
            format!("it cannot make clusters: {}", condition.message),
            "poolctl apply -f FILE with what is missing, then poolctl reconcile",
        ),
        Obstacle::FailingInstallations(cause) => {
            Chain::new(cause, format!("poolctl events pool/{name}{option}"))
        }
        Obstacle::Concurrency(limit) => {
            let next = if limit == 0 {
                command_to_raise_limit(name, "maxConcurrent", 1, option)
            } else {
                "poolctl reconcile --wait".to_owned()
            };
            let cause = format!(
                "maxConcurrent is {limit}: no more clusters can be installed or destroyed now"
            );
            Chain::new(cause, next)
        }
        Obstacle::Cluster(cluster) => explain_cluster(evidence, cluster),
        Obstacle::Inventory(cause) => {
            Chain::new(cause, format!("poolctl get customization{option}"))
        }
        Obstacle::Capacity(condition) => {
            let next = match ConditionReason::named(&condition.reason) {
                Some(ConditionReason::HostsExhausted) => format!("poolctl get agent{option}"),
                Some(ConditionReason::AddressesExhausted) => format!("poolctl get ippool{option}"),
                _ if pool.status.claimed > 0 => format!("poolctl get claim{option}"),
                _ => {
                    let limit = pool.spec.max_size.unwrap_or(0).saturating_add(1);
                    command_to_raise_limit(name, "maxSize", limit, option)
                }
            };
            Chain::new(format!("it cannot have more clusters: {}", condition.message), next)
        }
    }
}

/// Explains a pool that is being deleted.
fn explain_deletion(evidence: &Evidence, pool: &ClusterPool) -> Chain {
    let option = &evidence.namespace_option;
    let cause = "it is being deleted and gives no more clusters";
    if pool.spec.max_concurrent == Some(0) {
        let next = command_to_raise_limit(&pool.metadata.name, "maxConcurrent", 1, option);
        return Chain::new(format!("{cause}; maxConcurrent is 0, so none can be destroyed"), next);
    }
    match find_kept_cluster(&evidence.state, pool) {
        Some(cluster) => explain_cluster(evidence, cluster).preceded_by(cause),
        None => Chain::new(cause, format!("poolctl get claim,cluster{option}")),
    }
}

/// Explains a pool that has no obstacle.
fn explain_progress(evidence: &Evidence, pool: &ClusterPool) -> Chain {
    if let Some(cluster) = find_next_cluster(&evidence.state, pool) {
        return explain_cluster(evidence, cluster);
    }
    let name = &pool.metadata.name;
    let option = &evidence.namespace_option;
    let running = pool.spec.running_count;
    let claim = format!("poolctl claim {name}{option}");
    if pool.status.ready > 0 {
        Chain::new("it has all the clusters that it should have", claim)
    } else if pool.status.standby > 0 {
        let cause = "its clusters hibernate, and a claim wakes one";
        Chain::new(format!("{cause}; runningCount is {running}"), claim)
    } else if pool.spec.size == 0 {
        let cause = "its size is 0: it makes clusters only for claims";
        Chain::new(cause, format!("poolctl pool scale {name} --size 1{option}"))
    } else {
        let cause = format!("the next pass decides what to do; runningCount is {running}");
        Chain::new(cause, "poolctl reconcile --wait")
    }
}

fn command_to_raise_limit(pool: &str, field: &str, limit: u32, namespace_option: &str) -> String {
    format!(
        "poolctl patch pool {pool} -p '{{\"spec\": {{\"{field}\": {limit}}}}}'{namespace_option}"
    )
}

fn find_condition<'a>(
    pool: &'a ClusterPool,
    kind: ConditionType,
    status: &str,
) -> Option<&'a Condition> {
    pool.condition(kind).filter(|condition| condition.status == status)
}

fn clusters_of<'a>(state: &'a State, pool: &ClusterPool) -> impl Iterator<Item = &'a Cluster> {
    let members = state.members(&pool.key()).clusters.into_iter();
    members.filter_map(move |cluster_id| state.clusters.get(cluster_id))
}

/// A cluster that is being deleted, while its protection, a finalizer or a pause keeps it.
fn find_kept_cluster<'a>(state: &'a State, pool: &ClusterPool) -> Option<&'a Cluster> {
    clusters_of(state, pool).find(|cluster| {
        cluster.deleting.is_some() && (cluster.protected || cluster.held || cluster.paused)
    })
}

/// A cluster that is broken or whose installation failed.
fn find_failed_cluster<'a>(state: &'a State, pool: &ClusterPool) -> Option<&'a Cluster> {
    clusters_of(state, pool)
        .find(|cluster| matches!(cluster.phase(), Phase::Broken | Phase::Retrying))
}

/// The cluster that is likely to be ready first, or else to make room for another.
fn find_next_cluster<'a>(state: &'a State, pool: &ClusterPool) -> Option<&'a Cluster> {
    let ranked =
        clusters_of(state, pool).filter_map(|cluster| Some((rank_by_progress(cluster)?, cluster)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, cluster)| cluster)
}

/// The rank of a cluster by how soon it will be ready or gone: the lower, the sooner. None if it is
/// claimed or does not change.
fn rank_by_progress(cluster: &Cluster) -> Option<u8> {
    match (cluster.phase(), cluster.power) {
        _ if cluster.claim.is_some() => None,
        (Phase::Installed, power) if power.is_waking() => Some(0),
        (Phase::Installing, _) => Some(1),
        (Phase::Deprovisioning, _) => Some(2),
        _ => None,
    }
}

/// The `maxConcurrent` of a pool that lacks clusters, if it is used up.
fn exhausted_concurrency(pool: &ClusterPool) -> Option<u32> {
    let status = &pool.status;
    let limit = pool.spec.max_concurrent?;
    let is_exhausted = status.installing + status.deleting >= limit;
    (lacks_clusters(pool) && is_exhausted).then_some(limit)
}

/// Whether the pool has fewer clusters than its size and its waiting claims ask for.
fn lacks_clusters(pool: &ClusterPool) -> bool {
    pool.status.size < pool.spec.size.saturating_add(pool.status.pending)
}

/// Why no entry of the inventory can be used. None if one is free or no more clusters are needed.
fn describe_inventory(pool: &ClusterPool) -> Option<String> {
    let entries = pool.spec.inventory.as_ref()?;
    if pool.status.free_customizations > 0 || !lacks_clusters(pool) {
        return None;
    }
    let mut uses = Vec::new();
    for entry in entries {
        let Some(seen) = pool.status.inventory.get(&entry.name) else { continue };
        let why = if seen.message.is_empty() { &seen.cluster_deployment } else { &seen.message };
        let status = seen.status.to_string().to_lowercase();
        uses.push(format!("{} is {status} ({why})", entry.name));
    }
    let count = entries.len();
    Some(format!("none of its customizations ({count}) is free: {}", uses.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Event;
    use crate::model::job::Job;
    use crate::plan::STALE_CLUSTER;

    fn check(evidence: &Evidence, pool: &ClusterPool, cause: &str, next: &str) {
        let chain = explain_pool(evidence, pool);
        let last = chain.causes.last().map(String::as_str);
        assert_eq!((last, &*chain.next), (Some(cause), next));
    }

    #[test]
    fn the_past_counts_only_if_nothing_is_in_the_way() {
        let mut pool = ClusterPool::default();
        pool.metadata.name = "lab".into();
        let mut evidence = Evidence { namespace_option: " -n west".into(), ..Evidence::default() };
        check(
            &evidence,
            &pool,
            "its size is 0: it makes clusters only for claims",
            "poolctl pool scale lab --size 1 -n west",
        );
        for cluster in ["lab-a", "lab-b", "lab-c"] {
            evidence.provisions.push(Job { object: cluster.into(), ..Job::default() });
            let mut event = Event { reason: STALE_CLUSTER.into(), ..Event::default() };
            event.object.name = cluster.into();
            evidence.events.push(event);
        }
        assert!(is_explained_by_history(&evidence.state, &pool));
        check(
            &evidence,
            &pool,
            "3 of its clusters were replaced within 24h because they were of an older version of \
             their pool or customization",
            "poolctl annotate pool lab poolctl.dev/refresh=none --overwrite -n west",
        );
        pool.metadata.annotations.insert(RECONCILE_PAUSE.into(), "true".into());
        assert!(!is_explained_by_history(&evidence.state, &pool));
        check(&evidence, &pool, "it is paused", "poolctl pool resume lab -n west");
    }
}
