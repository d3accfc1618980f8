//! Lists what is wrong with a pool: first what `why` says of it, and then what else is bad, each
//! with what helps. What only passes by itself, such as a cluster that is installed, is no trouble.

use super::chain::Chain;
use super::cluster::{is_in_trouble, is_late_to_wake};
use super::evidence::Evidence;
use super::pool::{Obstacle, explain_obstacle, find_obstacle};
use super::shortage::is_about_max_size;
use crate::model::condition::{Condition, ConditionType};
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::state::State;
use crate::model::time::Time;
use crate::plan;

/// What is wrong with a pool, the strongest cause first; empty if nothing is. Its clusters that are
/// in trouble are not listed, but for one that is the strongest cause.
pub fn find_pool_troubles(evidence: &Evidence, pool: &ClusterPool) -> Vec<Chain> {
    let mut troubles: Vec<Chain> = explain_strongest_trouble(evidence, pool).into_iter().collect();
    if pool.metadata.deletion_timestamp.is_some() {
        return troubles;
    }
    for trouble in bad_conditions(pool).filter_map(|bad| explain_condition(evidence, pool, bad)) {
        if !troubles.iter().any(|listed| listed.causes == trouble.causes) {
            troubles.push(trouble);
        }
    }
    troubles
}

/// What keeps a pool from having more ready clusters, unless that only passes by itself.
pub fn explain_strongest_trouble(evidence: &Evidence, pool: &ClusterPool) -> Option<Chain> {
    let obstacle = find_trouble(&evidence.state, pool, evidence.now)?;
    Some(explain_obstacle(evidence, pool, obstacle))
}

/// The name of that in metrics.
pub fn name_strongest_trouble(
    state: &State,
    pool: &ClusterPool,
    now: Time,
) -> Option<&'static str> {
    find_trouble(state, pool, now).map(|obstacle| obstacle.name())
}

/// Whether the conditions and counts of a pool tell that something is wrong with it, or that it
/// lacks clusters. Only then is there something to find for `find_pool_troubles`.
pub fn may_be_in_trouble(pool: &ClusterPool) -> bool {
    let status = &pool.status;
    let is_short = status.ready + status.standby < pool.spec.size;
    pool.metadata.deletion_timestamp.is_some()
        || pool.metadata.has_true_annotation(RECONCILE_PAUSE)
        || is_short
        || status.pending + status.retrying + status.broken > 0
        || bad_conditions(pool).next().is_some()
}

/// The strongest obstacle of a pool, unless that only passes by itself.
fn find_trouble<'a>(state: &'a State, pool: &'a ClusterPool, now: Time) -> Option<Obstacle<'a>> {
    let obstacle = find_obstacle(state, pool)?;
    let is_trouble = match &obstacle {
        Obstacle::Concurrency(limit) => *limit == 0,
        Obstacle::Cluster(cluster) => {
            is_in_trouble(cluster)
                || cluster.paused
                || cluster.power_paused
                || is_late_to_wake(pool, cluster, now)
        }
        _ => true,
    };
    is_trouble.then_some(obstacle)
}

/// The conditions of a pool that say that something is wrong.
fn bad_conditions(pool: &ClusterPool) -> impl Iterator<Item = &Condition> {
    pool.status.conditions.iter().filter(|condition| {
        let kind = ConditionType::named(&condition.kind);
        kind.is_some_and(|kind| condition.status == kind.bad_status())
    })
}

/// Puts a condition that is bad into words, with the command that helps. None for one that says of
/// the pool only what its owner has asked for.
fn explain_condition(
    evidence: &Evidence,
    pool: &ClusterPool,
    condition: &Condition,
) -> Option<Chain> {
    let name = &pool.metadata.name;
    let option = &evidence.namespace_option;
    let message = condition.message.clone();
    let show_customizations = format!("poolctl get customization{option}");
    match ConditionType::named(&condition.kind)? {
        ConditionType::MissingDependencies => {
            Some(explain_obstacle(evidence, pool, Obstacle::MissingDependencies(condition)))
        }
        ConditionType::Degraded => {
            Some(explain_obstacle(evidence, pool, Obstacle::FailingInstallations(message)))
        }
        // A pool at its maximum may have all that is wanted of it. If it lacks clusters for that
        // reason, and for no stronger one, this is its strongest obstacle and listed already.
        ConditionType::CapacityAvailable if is_about_max_size(condition) => None,
        ConditionType::CapacityAvailable => {
            Some(explain_obstacle(evidence, pool, Obstacle::Capacity(condition)))
        }
        ConditionType::InventoryValid => {
            let summary = plan::inventory_summary(pool).unwrap_or(message);
            Some(Chain::new(format!("inventory: {summary}"), show_customizations))
        }
        ConditionType::InventorySufficient => Some(Chain::new(message, show_customizations)),
        ConditionType::AllClustersCurrent => {
            Some(Chain::new(message, format!("poolctl plan --pool {name}{option}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::condition::ConditionReason;

    fn check(pool: &ClusterPool, expected: &[(&str, &str)]) {
        let evidence = Evidence { namespace_option: " -n west".into(), ..Evidence::default() };
        let troubles = find_pool_troubles(&evidence, pool);
        let shown: Vec<(String, &str)> =
            troubles.iter().map(|chain| (chain.causes.join("; "), &*chain.next)).collect();
        let shown: Vec<(&str, &str)> =
            shown.iter().map(|(cause, next)| (cause.as_str(), *next)).collect();
        assert_eq!(shown, expected);
        assert_eq!(may_be_in_trouble(pool), !expected.is_empty());
    }

    #[test]
    fn the_strongest_cause_is_first_and_the_rest_follows() {
        let mut pool = ClusterPool::default();
        pool.metadata.name = "lab".into();
        check(&pool, &[]);
        let stale = Condition::new(
            ConditionType::AllClustersCurrent,
            "False",
            ConditionReason::SomeClusterDeploymentsStale,
            "lab-a is stale",
        );
        pool.status.conditions.push(stale);
        check(&pool, &[("lab-a is stale", "poolctl plan --pool lab -n west")]);
        pool.metadata.annotations.insert(RECONCILE_PAUSE.into(), "true".into());
        check(
            &pool,
            &[
                ("it is paused", "poolctl pool resume lab -n west"),
                ("lab-a is stale", "poolctl plan --pool lab -n west"),
            ],
        );
    }

    #[test]
    fn a_pool_at_its_maximum_that_has_its_size_is_in_no_trouble() {
        let mut pool = ClusterPool::default();
        pool.metadata.name = "lab".into();
        pool.spec.size = 1;
        pool.spec.max_size = Some(1);
        pool.status.size = 1;
        pool.status.conditions.push(Condition::new(
            ConditionType::CapacityAvailable,
            "False",
            ConditionReason::MaxCapacity,
            "Pool is at maximum capacity of 1 waiting and claimed clusters.",
        ));
        let evidence = Evidence::default();
        assert!(find_pool_troubles(&evidence, &pool).is_empty());
        // A claim waits, and nothing is on its way for it.
        pool.status.pending = 1;
        let troubles = find_pool_troubles(&evidence, &pool);
        assert!(
            troubles[0].causes[0].contains("maximum capacity of 1"),
            "{:?}",
            troubles[0].causes
        );
    }

    #[test]
    fn a_cause_is_said_once() {
        let mut pool = ClusterPool::default();
        pool.metadata.name = "lab".into();
        pool.status.conditions.push(Condition::new(
            ConditionType::MissingDependencies,
            "True",
            ConditionReason::Missing,
            "no image set",
        ));
        let next = "poolctl apply -f FILE with what is missing, then poolctl reconcile";
        check(&pool, &[("it cannot make clusters: no image set", next)]);
    }
}
