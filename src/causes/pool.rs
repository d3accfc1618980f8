//! Explains a pool: what keeps it from having more clusters ready.

use super::chain::Chain;
use super::cluster::{describe_used_places, explain_cluster};
use super::evidence::Evidence;
use super::held_clusters::{
    clusters_with_held_place, describe_held_places, find_cluster_held_from_claims,
    find_held_places, kept_clusters,
};
use super::replacements::explain_replacements;
use super::shortage::{
    clusters_of, describe_inventory, find_condition, is_about_max_size, lacks_clusters,
};
use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::inventory::{EntryStatus, InventoryStatus};
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::state::State;
use crate::plan;

/// What keeps a pool from having more ready clusters, as far as the state alone shows it.
pub enum Obstacle<'a> {
    Deletion,
    Pause,
    MissingDependencies(&'a Condition),
    /// Installations fail, and for a while no other starts; or clusters cannot be destroyed.
    FailingInstallations(String),
    /// `maxConcurrent` is used up.
    Concurrency(u32),
    /// `maxConcurrent` is used up by clusters that a person holds.
    HeldClusters(u32),
    /// A cluster that is broken, or that failed to install or to start, or that is waking up.
    Cluster(&'a Cluster),
    /// `maxSize` is used up by claims that never expire.
    EndlessClaims(u32),
    /// No customization of the inventory is free.
    Inventory(String),
    Capacity(&'a Condition),
}

impl Obstacle<'_> {
    /// Its name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Deletion => "Deletion",
            Self::Pause => "Pause",
            Self::MissingDependencies(_) => "MissingDependencies",
            Self::FailingInstallations(_) => "FailingInstallations",
            Self::Concurrency(_) => "Concurrency",
            Self::HeldClusters(_) => "HeldClusters",
            Self::Cluster(_) => "Cluster",
            Self::EndlessClaims(_) => "EndlessClaims",
            Self::Inventory(_) => "Inventory",
            Self::Capacity(_) => "Capacity",
        }
    }
}

/// Explains a pool by its strongest obstacle. Without one, by the clusters that it replaced lately,
/// and else by the cluster that will be ready next.
pub fn explain_pool(evidence: &Evidence, pool: &ClusterPool) -> Chain {
    let status = &pool.status;
    let held = if status.held > 0 { format!(", {} held", status.held) } else { String::new() };
    let first_cause = format!(
        "pool {} has size {}: {} ready, {} standby{held}, {}, {} broken; {} claimed, {} \
         deprovisioning",
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
        Some(Obstacle::Deletion) => kept_clusters(state, pool).next(),
        Some(Obstacle::HeldClusters(_)) => clusters_with_held_place(state, pool).next(),
        Some(Obstacle::Cluster(cluster)) => Some(cluster),
        Some(_) => None,
        None => find_next_cluster(state, pool),
    }
}

/// Whether a pool has no obstacle now, so that only its past can explain why it lacks clusters.
pub fn is_explained_by_history(state: &State, pool: &ClusterPool) -> bool {
    find_obstacle(state, pool).is_none()
}

/// What keeps a pool from making the clusters that it should have, in the words of its explanation.
/// None if it has enough clusters, if it is not to make any, or if it is making as many as it may.
pub fn describe_shortage(state: &State, pool: &ClusterPool) -> Option<String> {
    if !lacks_clusters(pool) || has_its_size_and_wakes_the_rest(state, pool) {
        return None;
    }
    match find_obstacle(state, pool)? {
        Obstacle::Deletion | Obstacle::Pause => None,
        Obstacle::MissingDependencies(condition) | Obstacle::Capacity(condition) => {
            Some(condition.message.clone())
        }
        Obstacle::FailingInstallations(cause) | Obstacle::Inventory(cause) => Some(cause),
        Obstacle::Concurrency(0) => Some(describe_used_places(0, &[])),
        Obstacle::HeldClusters(limit) => Some(describe_held_places(state, pool, limit)),
        Obstacle::EndlessClaims(max_size) => Some(describe_endless_claims(max_size)),
        Obstacle::Concurrency(_) | Obstacle::Cluster(_) => describe_inventory(pool).or_else(|| {
            find_condition(pool, ConditionType::CapacityAvailable, "False")
                .map(|condition| condition.message.clone())
        }),
    }
}

/// Why a claim never gets a cluster if none is on its way for it: what a person has to change. None
/// if something may change by itself.
pub fn describe_dead_end(state: &State, pool: &ClusterPool) -> Option<String> {
    if let Some(cause) = describe_stuck_standby(state, pool) {
        return Some(cause);
    }
    let obstacle = find_general_obstacle(pool)
        .or_else(|| find_endless_claims(state, pool))
        .or_else(|| find_held_places(state, pool).map(Obstacle::HeldClusters))
        .or_else(|| find_cluster_held_from_claims(state, pool).map(Obstacle::Cluster))
        .or_else(|| find_lasting_shortage(state, pool));
    match obstacle? {
        Obstacle::MissingDependencies(condition) => Some(condition.message.clone()),
        Obstacle::HeldClusters(limit) => Some(describe_held_places(state, pool, limit)),
        Obstacle::Concurrency(limit) => Some(describe_used_places(limit, &[])),
        Obstacle::EndlessClaims(max_size) => Some(describe_endless_claims(max_size)),
        Obstacle::Inventory(cause) if is_inventory_lost(state, pool) => Some(cause),
        Obstacle::Cluster(cluster) if cluster.is_kept() => {
            Some(format!("cluster {} is being deleted, but is kept", cluster.name))
        }
        Obstacle::Cluster(cluster) => Some(format!("cluster {} is paused", cluster.name)),
        _ => None,
    }
}

/// Whether a standby cannot be started, and nobody knows whether its platform could start any: it is
/// tried again and again, and never counts as broken.
pub fn is_stuck_standby(pool: &ClusterPool, cluster: &Cluster) -> bool {
    cluster.start_failure().is_some()
        && cluster.platform_answers_since.is_none()
        && pool.resume_timeout().is_none()
}

fn describe_stuck_standby(state: &State, pool: &ClusterPool) -> Option<String> {
    for cluster_id in state.members(&pool.key()).clusters {
        if let Some(cluster) = state.clusters.get(cluster_id)
            && cluster.claim.is_none()
            && is_stuck_standby(pool, cluster)
        {
            let failure = cluster.start_failure().unwrap_or_default();
            return Some(format!("cluster {} cannot be started: {failure}", cluster.name));
        }
    }
    None
}

/// The strongest obstacle of a pool. They are sought in this order because removing a later one
/// does not help while an earlier one is there, and what only a person removes comes before what
/// passes by itself.
pub fn find_obstacle<'a>(state: &'a State, pool: &'a ClusterPool) -> Option<Obstacle<'a>> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Some(Obstacle::Deletion);
    }
    if pool.metadata.has_true_annotation(RECONCILE_PAUSE) {
        return Some(Obstacle::Pause);
    }
    find_general_obstacle(pool)
        .or_else(|| find_endless_claims(state, pool))
        .or_else(|| find_held_places(state, pool).map(Obstacle::HeldClusters))
        .or_else(|| find_cluster_held_from_claims(state, pool).map(Obstacle::Cluster))
        .or_else(|| describe_paused_installations(pool).map(Obstacle::FailingInstallations))
        .or_else(|| describe_failed_destruction(state, pool).map(Obstacle::FailingInstallations))
        .or_else(|| find_failed_cluster(state, pool).map(Obstacle::Cluster))
        .or_else(|| describe_failing_installations(pool).map(Obstacle::FailingInstallations))
        .or_else(|| find_lasting_shortage(state, pool))
        .or_else(|| find_passing_obstacle(state, pool))
}

/// Why no installation of a pool begins now.
fn describe_paused_installations(pool: &ClusterPool) -> Option<String> {
    if pool.is_install_paused() { describe_failing_installations(pool) } else { None }
}

/// Why installations of a pool fail, while it has one to begin or to repeat.
fn describe_failing_installations(pool: &ClusterPool) -> Option<String> {
    let status = &pool.status;
    let installs = lacks_clusters(pool) || status.installing > 0 || status.retrying > 0;
    if installs { plan::describe_install_pause(pool) } else { None }
}

/// Why a cluster of a pool cannot be destroyed, if that concerns the whole pool.
fn describe_failed_destruction(state: &State, pool: &ClusterPool) -> Option<String> {
    plan::describe_failed_destruction(state, pool).map(|(_, message)| message)
}

/// What keeps a pool from making any cluster at all, until a person changes it.
fn find_general_obstacle(pool: &ClusterPool) -> Option<Obstacle<'_>> {
    if let Some(condition) = find_condition(pool, ConditionType::MissingDependencies, "True") {
        return Some(Obstacle::MissingDependencies(condition));
    }
    let is_standing_still =
        pool.spec.max_concurrent == Some(0) && (lacks_clusters(pool) || pool.status.retrying > 0);
    if is_standing_still {
        return Some(Obstacle::Concurrency(0));
    }
    if are_all_entries_unusable(pool) {
        return describe_inventory(pool).map(Obstacle::Inventory);
    }
    None
}

/// Claims that never expire, if they have all clusters that `maxSize` allows. Whatever else is in
/// the way, nothing comes for another claim before one of them is released.
fn find_endless_claims<'a>(state: &State, pool: &ClusterPool) -> Option<Obstacle<'a>> {
    let max_size = pool.spec.max_size.filter(|max_size| *max_size > 0)?;
    let is_used_up = count_endless_claims(state, pool) >= pool.max_size()?;
    let is_obstacle =
        is_used_up && lacks_clusters(pool) && !are_claims_about_to_be_served(state, pool);
    is_obstacle.then_some(Obstacle::EndlessClaims(max_size))
}

/// What a pool has too little of, if that does not come back by itself.
fn find_lasting_shortage<'a>(state: &State, pool: &'a ClusterPool) -> Option<Obstacle<'a>> {
    if are_claims_about_to_be_served(state, pool) {
        return None;
    }
    if (pool.status.inventory.values().any(is_unusable) || is_inventory_lost(state, pool))
        && let Some(cause) = describe_inventory(pool)
    {
        return Some(Obstacle::Inventory(cause));
    }
    let condition = find_condition(pool, ConditionType::CapacityAvailable, "False")?;
    let is_beyond_pool = matches!(
        ConditionReason::named(&condition.reason)?,
        ConditionReason::HostsExhausted
            | ConditionReason::AddressesExhausted
            | ConditionReason::InputWrong
    );
    is_beyond_pool.then_some(Obstacle::Capacity(condition))
}

/// What passes by itself, sooner or later.
fn find_passing_obstacle<'a>(state: &'a State, pool: &'a ClusterPool) -> Option<Obstacle<'a>> {
    if let Some(limit) = exhausted_concurrency(pool) {
        return Some(Obstacle::Concurrency(limit));
    }
    if let Some(cluster) = find_next_cluster(state, pool)
        && cluster.power.is_waking()
    {
        return Some(Obstacle::Cluster(cluster));
    }
    if let Some(cause) = describe_inventory(pool) {
        return Some(Obstacle::Inventory(cause));
    }
    let condition = find_condition(pool, ConditionType::CapacityAvailable, "False")?;
    if is_about_max_size(condition) {
        if !lacks_clusters(pool) {
            return None;
        }
        if let Some(cluster) = find_next_cluster(state, pool)
            && cluster.phase() == Phase::Installing
            && state.live_job(&cluster.name).is_some()
        {
            return Some(Obstacle::Cluster(cluster));
        }
    }
    Some(Obstacle::Capacity(condition))
}

/// Whether a pool has as many clusters as its size, and one of them wakes for each claim.
fn has_its_size_and_wakes_the_rest(state: &State, pool: &ClusterPool) -> bool {
    pool.status.size >= pool.spec.size && are_claims_about_to_be_served(state, pool)
}

/// Whether there are claims that wait, and a standby is waking for each of them.
fn are_claims_about_to_be_served(state: &State, pool: &ClusterPool) -> bool {
    let mut waking = 0;
    for cluster in clusters_of(state, pool) {
        let is_healthy = cluster.claim.is_none() && !cannot_wake(cluster);
        waking += u32::from(is_healthy && cluster.power.is_waking());
    }
    pool.status.pending > 0 && pool.status.pending <= waking
}

/// Whether an entry of an inventory cannot be used until a person mends it.
fn is_unusable(entry: &InventoryStatus) -> bool {
    entry.status.is_broken() || entry.status == EntryStatus::Missing
}

fn are_all_entries_unusable(pool: &ClusterPool) -> bool {
    let Some(entries) = &pool.spec.inventory else { return false };
    let mut seen = entries.iter().map(|listed| pool.status.inventory.get(&listed.name));
    seen.all(|entry| entry.is_some_and(is_unusable))
}

/// Whether no customization of the inventory becomes free by itself: each is missing, broken, or
/// used by a claim that never expires.
fn is_inventory_lost(state: &State, pool: &ClusterPool) -> bool {
    pool.spec.inventory.iter().flatten().all(|listed| {
        pool.status.inventory.get(&listed.name).is_some_and(|entry| match entry.status {
            EntryStatus::Reserved => {
                let cluster_id = state.find_cluster(&entry.cluster_deployment);
                let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
                cluster.is_some_and(|cluster| has_endless_claim(state, cluster))
            }
            _ => is_unusable(entry),
        })
    })
}

/// How many clusters of a pool are kept by claims that never expire.
fn count_endless_claims(state: &State, pool: &ClusterPool) -> usize {
    clusters_of(state, pool).filter(|cluster| has_endless_claim(state, cluster)).count()
}

fn has_endless_claim(state: &State, cluster: &Cluster) -> bool {
    let claim = cluster.claim_key().and_then(|key| state.claims.by_key(&key));
    cluster.deleting.is_none()
        && !cluster.marked
        && claim.is_some_and(|claim| claim.effective.is_none() && claim.deleting.is_none())
}

fn describe_endless_claims(max_size: u32) -> String {
    format!("maxSize {max_size} is used up by claims without an end")
}

/// Puts an obstacle into words, with the command that removes it.
pub fn explain_obstacle(evidence: &Evidence, pool: &ClusterPool, obstacle: Obstacle<'_>) -> Chain {
    let name = &pool.metadata.name;
    let option = &evidence.namespace_option;
    match obstacle {
        Obstacle::Deletion => explain_deletion(evidence, pool),
        Obstacle::Pause => {
            Chain::new("it is paused", format!("poolctl pool resume {name}{option}"))
        }
        Obstacle::MissingDependencies(condition) => {
            let next = match ConditionReason::named(&condition.reason) {
                Some(ConditionReason::DriverUnusable) => {
                    format!("poolctl driver check --pool {name}{option}")
                }
                Some(ConditionReason::InputWrong) => {
                    format!("poolctl pool render {name}{option}")
                }
                _ => {
                    "poolctl apply -f FILE with what is missing, then poolctl reconcile".to_owned()
                }
            };
            Chain::new(format!("it cannot make clusters: {}", condition.message), next)
        }
        Obstacle::FailingInstallations(cause) => {
            Chain::new(cause, format!("poolctl events pool/{name}{option}"))
        }
        Obstacle::Concurrency(limit) => {
            let next = if limit == 0 {
                command_to_raise_limit(name, "maxConcurrent", 1, option)
            } else {
                "poolctl reconcile --wait".to_owned()
            };
            let mut users: Vec<&Cluster> = clusters_of(&evidence.state, pool).collect();
            users.retain(|user| matches!(user.phase(), Phase::Installing | Phase::Deprovisioning));
            Chain::new(describe_used_places(limit, &users), next)
        }
        Obstacle::HeldClusters(limit) => {
            let cause = describe_held_places(&evidence.state, pool, limit);
            match clusters_with_held_place(&evidence.state, pool).next() {
                Some(cluster) => explain_cluster(evidence, cluster).preceded_by(cause),
                None => Chain::new(cause, format!("poolctl get cluster{option}")),
            }
        }
        Obstacle::EndlessClaims(max_size) => {
            Chain::new(describe_endless_claims(max_size), format!("poolctl get claim{option}"))
        }
        Obstacle::Cluster(cluster) => explain_cluster(evidence, cluster),
        Obstacle::Inventory(cause) => {
            Chain::new(cause, format!("poolctl get customization{option}"))
        }
        Obstacle::Capacity(condition) => {
            let next = match ConditionReason::named(&condition.reason) {
                Some(ConditionReason::HostsExhausted) => format!("poolctl get agent{option}"),
                Some(ConditionReason::AddressesExhausted) => format!("poolctl get ippool{option}"),
                Some(ConditionReason::InputWrong) => format!("poolctl pool render {name}{option}"),
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
    match kept_clusters(&evidence.state, pool).next() {
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
    if has_waiting_claims(&evidence.state, pool) {
        let cause = "the next pass decides what to do for the claims that wait";
        Chain::new(cause, "poolctl reconcile --wait")
    } else if pool.status.ready > 0 {
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

fn has_waiting_claims(state: &State, pool: &ClusterPool) -> bool {
    let claims = state.members(&pool.key()).claims.into_iter();
    claims.filter_map(|claim_id| state.claims.get(claim_id)).any(Claim::is_waiting)
}

fn command_to_raise_limit(pool: &str, field: &str, limit: u32, namespace_option: &str) -> String {
    format!(
        "poolctl patch pool {pool} -p '{{\"spec\": {{\"{field}\": {limit}}}}}'{namespace_option}"
    )
}

/// A cluster that is broken or whose last installation failed, or else a standby that cannot wake.
fn find_failed_cluster<'a>(state: &'a State, pool: &ClusterPool) -> Option<&'a Cluster> {
    let failed = clusters_of(state, pool).find(|cluster| match cluster.phase() {
        Phase::Broken | Phase::Retrying => true,
        Phase::Installing => cluster.failed_at.is_some(),
        Phase::Installed | Phase::Deprovisioning => false,
    });
    failed.or_else(|| {
        clusters_of(state, pool).find(|cluster| cluster.claim.is_none() && cannot_wake(cluster))
    })
}

/// Whether a cluster that was called does not wake: its machines cannot be started, or it takes too
/// long.
fn cannot_wake(cluster: &Cluster) -> bool {
    let is_late = cluster.power.is_waking() && cluster.passed_over.is_some();
    cluster.deleting.is_none() && (is_late || cluster.start_failure().is_some())
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
