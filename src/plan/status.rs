//! Writes what a pool says of itself: counts and conditions. It comes after all other steps of the
//! pool, and changes nothing but `status`.

use crate::model::condition::{self, Condition, ConditionReason, ConditionType, Shortage};
use crate::model::event_reason::EventReason;
use crate::model::failure::FailureClass;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, PoolStatus};
use crate::model::state::{ClusterId, PoolId, State};
use crate::model::tick::Tick;

use super::buckets::{SortedPool, sort_pool};
use super::dependencies::{driver_program_problem, join_errors, missing_dependencies};
use super::inventory::{free_entries, sufficient_condition, valid_condition};
use super::life::next_deprovision_at;
use super::pause::describe_install_pause;
use super::power::why_power_is_unsupported;
use super::preflight::find_wrong_input;
use super::{record_event, record_warning};

/// A pool has this condition only if its driver cannot stop machines, or could not before.
const HIBERNATION: ConditionType = ConditionType::HibernationSupported;

/// A pool has this condition only if its installations fail, or failed before.
const DEGRADED: ConditionType = ConditionType::Degraded;

/// The conditions that every pool has from the first pass on.
const CONDITIONS: [ConditionType; 5] = [
    ConditionType::MissingDependencies,
    ConditionType::CapacityAvailable,
    ConditionType::AllClustersCurrent,
    ConditionType::InventoryValid,
    ConditionType::DeletionPossible,
];

/// Writes the counts and conditions of a pool, and records an event for each condition that became
/// worse or better.
pub fn write_pool_status(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let sorted = sort_pool(state, pool, tick.now);
    let mut status = pool.status.clone();
    status.provisions += state.begun_provisions.get(&pool_id).copied().unwrap_or(0);
    write_counts(state, pool, &sorted, &mut status);
    // As in Hive, a pool has all its conditions from the beginning, with the status Unknown.
    for kind in CONDITIONS {
        if condition::find_condition(&status.conditions, kind).is_none() {
            condition::set_condition(&mut status.conditions, initial_condition(kind), tick.now);
        }
    }
    let mut changes = Vec::new();
    for condition in pool_conditions(state, pool, &sorted) {
        let before = condition::find_condition(&status.conditions, &condition.kind);
        let is_news = before.is_none_or(|before| {
            (&before.reason, &before.message) != (&condition.reason, &condition.message)
        });
        if is_news {
            changes.push((before.map(|before| before.status.clone()), condition.clone()));
        }
        condition::set_condition(&mut status.conditions, condition, tick.now);
    }
    let key = pool.key();
    if status != pool.status {
        state.begun_provisions.remove(&pool_id);
        state.pools.update(pool_id, |pool| pool.status = status);
    }
    for (status_before, condition) in changes {
        record_change(state, tick, &key, status_before.as_deref(), &condition);
    }
}

/// Counts the clusters of pools that another program has kept, and that are there before the first
/// pass: Hive does not count those of claims. Conditions stay as they are.
pub fn restore_counts(state: &mut State, tick: &Tick) {
    let pool_ids: Vec<PoolId> = state.pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        let Some(pool) = state.pools.get(pool_id) else { continue };
        let was_kept_here = pool.status.ordinal > 0 || pool.status.provisions > 0;
        if !was_kept_here && !state.members(&pool.key()).clusters.is_empty() {
            count_clusters(state, pool_id, tick);
        }
    }
}

/// Counts the clusters of all pools anew after some were held, before a pass does so.
pub fn recount_clusters(state: &mut State, tick: &Tick) {
    let pool_ids: Vec<PoolId> = state.pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        count_clusters(state, pool_id, tick);
    }
}

fn count_clusters(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let sorted = sort_pool(state, pool, tick.now);
    let mut status = pool.status.clone();
    write_counts(state, pool, &sorted, &mut status);
    if status != pool.status {
        state.pools.update(pool_id, |pool| pool.status = status);
    }
}

/// One event for a condition that became worse or better, none for one that is fine at first.
fn record_change(
    state: &mut State,
    tick: &Tick,
    key: &Key,
    status_before: Option<&str>,
    condition: &Condition,
) {
    let Some(kind) = ConditionType::named(&condition.kind) else { return };
    let Some(reason) = EventReason::named(&condition.kind) else { return };
    if kind == DEGRADED && status_before == Some(condition.status.as_str()) {
        // Each pause has an event of its own.
        return;
    }
    let bad = kind.bad_status();
    if condition.status == bad && kind != ConditionType::DeletionPossible {
        let message = condition.message.clone();
        record_warning(state, tick, Kind::ClusterPool, key.clone(), reason, message);
    } else if status_before == Some(bad) && condition.status != bad {
        let Condition { kind, status, message, .. } = condition;
        let detail = if message.is_empty() { String::new() } else { format!(": {message}") };
        let message = format!("{kind} is {status}{detail}");
        record_event(state, tick, Kind::ClusterPool, key.clone(), reason, message);
    }
}

/// Counts the clusters of a pool by what the pool can do with them. A cluster may be in several
/// counts.
fn write_counts(state: &State, pool: &ClusterPool, sorted: &SortedPool, status: &mut PoolStatus) {
    let held_standby = count_paused(state, &sorted.standby);
    let held_ready = count_paused(state, &sorted.ready);
    status.size = as_count(sorted.unclaimed());
    status.standby = as_count(sorted.standby.len() - held_standby);
    status.ready = as_count(sorted.ready.len() - held_ready);
    status.held = as_count(held_standby + held_ready);
    status.installing = as_count(sorted.installing.len());
    status.retrying = as_count(sorted.retrying.len());
    status.broken = as_count(sorted.broken.len());
    status.stale = as_count(sorted.stale().count());
    status.claimed = as_count(sorted.claimed.len());
    status.deleting = as_count(sorted.deleting.len());
    status.pending = as_count(sorted.waiting.len());
    status.free_customizations = as_count(free_entries(pool).count());
    let members = state.members(&pool.key()).clusters.into_iter();
    let clusters = members.filter_map(|cluster_id| state.clusters.get(cluster_id));
    let running = clusters.filter(|cluster| {
        cluster.is_installed() && cluster.deleting.is_none() && cluster.power.is_running()
    });
    status.running = as_count(running.count());
}

/// How many of these clusters are paused. A claim gets none of them, as `assign` says.
fn count_paused(state: &State, clusters: &[ClusterId]) -> usize {
    let clusters = clusters.iter().filter_map(|cluster_id| state.clusters.get(*cluster_id));
    clusters.filter(|cluster| cluster.paused).count()
}

fn as_count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn initial_condition(kind: ConditionType) -> Condition {
    Condition::new(kind, "Unknown", ConditionReason::Initialized, "Condition Initialized")
}

/// The conditions of a pool. One that is being deleted only says what it waits for.
fn pool_conditions(state: &State, pool: &ClusterPool, sorted: &SortedPool) -> Vec<Condition> {
    if pool.metadata.deletion_timestamp.is_some() {
        return vec![deletion_condition(state, pool)];
    }
    let mut conditions = vec![
        dependencies_condition(state, pool),
        capacity_condition(state, pool, sorted),
        currency_condition(state, sorted),
    ];
    conditions.extend(valid_condition(pool).or_else(|| lost_inventory_condition(pool)));
    conditions.extend(sufficient_condition(pool));
    conditions.extend(hibernation_condition(state, pool));
    conditions.extend(degraded_condition(state, pool));
    conditions
}

/// MissingDependencies, in Hive's words: True means that something is missing.
fn dependencies_condition(state: &State, pool: &ClusterPool) -> Condition {
    let missing = missing_dependencies(state, pool);
    if missing.is_empty() {
        return Condition::new(
            ConditionType::MissingDependencies,
            "False",
            ConditionReason::Verified,
            "Dependencies verified",
        );
    }
    let reason = if missing.len() > 1 {
        ConditionReason::Missing
    } else if driver_program_problem(state, pool).is_some() {
        ConditionReason::DriverUnusable
    } else if find_wrong_input(state, pool).as_ref() == missing.first() {
        ConditionReason::InputWrong
    } else {
        ConditionReason::Missing
    };
    Condition::new(ConditionType::MissingDependencies, "True", reason, join_errors(&missing))
}

/// That hibernation works is worth a condition only where it did not work before.
fn hibernation_condition(state: &State, pool: &ClusterPool) -> Option<Condition> {
    if let Some(message) = why_power_is_unsupported(state, pool) {
        return Some(Condition::new(HIBERNATION, "False", ConditionReason::Unsupported, message));
    }
    pool.condition(HIBERNATION)?;
    Some(Condition::new(HIBERNATION, "True", ConditionReason::Supported, "Hibernation capable"))
}

/// Degraded: since when installations fail, why, and when the next one begins. What keeps a cluster
/// from being destroyed would keep others from being made, even if none is to be made now.
fn degraded_condition(state: &State, pool: &ClusterPool) -> Option<Condition> {
    if let Some(pause) = &pool.status.install_pause
        && let Some(message) = describe_install_pause(pool)
    {
        return Some(Condition::new(DEGRADED, "True", pause.class.condition_reason(), message));
    }
    if let Some((class, message)) = describe_failed_destruction(state, pool) {
        return Some(Condition::new(DEGRADED, "True", class.condition_reason(), message));
    }
    pool.condition(DEGRADED)?;
    let reason = ConditionReason::InstallationsResumed;
    Some(Condition::new(DEGRADED, "False", reason, "Installations begin as usual"))
}

/// The first cluster of a pool that cannot be destroyed for a cause that concerns the whole pool, and
/// when that is tried again. What a person keeps is not tried.
pub fn describe_failed_destruction(
    state: &State,
    pool: &ClusterPool,
) -> Option<(FailureClass, String)> {
    let members = state.members(&pool.key()).clusters.into_iter();
    let clusters = members.filter_map(|cluster_id| state.clusters.get(cluster_id));
    for cluster in clusters.filter(|cluster| cluster.undo_failed_at.is_some() && !cluster.is_kept())
    {
        let class = cluster.undo_class.unwrap_or_default();
        if class.concerns_whole_pool()
            && let Some(failure) = &cluster.undo_failure
        {
            let next = match next_deprovision_at(cluster) {
                Some(next) => format!("the next attempt is at {next}"),
                None => "a person has to help".to_owned(),
            };
            let name = &cluster.name;
            return Some((class, format!("cluster {name} cannot be destroyed; {next}: {failure}")));
        }
    }
    None
}

/// A pool that lost its inventory has nothing to say of it any more.
fn lost_inventory_condition(pool: &ClusterPool) -> Option<Condition> {
    let condition = pool.condition(ConditionType::InventoryValid)?;
    if condition.reason == ConditionReason::Initialized {
        return None;
    }
    Some(initial_condition(ConditionType::InventoryValid))
}

/// CapacityAvailable. The maximum of the pool counts before a shortage that was met while making
/// clusters.
fn capacity_condition(state: &State, pool: &ClusterPool, sorted: &SortedPool) -> Condition {
    let kind = ConditionType::CapacityAvailable;
    if let Some(most) = pool.max_size().filter(|most| sorted.total >= *most) {
        let full = format!("Pool is at maximum capacity of {most} waiting and claimed clusters.");
        return Condition::new(kind, "False", ConditionReason::MaxCapacity, full);
    }
    if let Some(Shortage { reason, message }) = state.shortages.get(&pool.key()) {
        return Condition::new(kind, "False", *reason, message.as_str());
    }
    let room = "There is capacity to add more clusters to the pool.";
    Condition::new(kind, "True", ConditionReason::Available, room)
}

/// Whether all clusters are of the pool's version. Another version is reported before an unknown
/// one.
fn currency_condition(state: &State, sorted: &SortedPool) -> Condition {
    let kind = ConditionType::AllClustersCurrent;
    let unassigned = "unassigned ClusterDeployments";
    if !sorted.mismatched.is_empty() {
        let names = join_names(state, &sorted.mismatched);
        let message = format!("Some {unassigned} do not match the pool configuration: {names}");
        Condition::new(kind, "False", ConditionReason::SomeClusterDeploymentsStale, message)
    } else if !sorted.unknown.is_empty() {
        let names = join_names(state, &sorted.unknown);
        let message =
            format!("Some {unassigned} are missing their pool spec hash annotation: {names}");
        Condition::new(kind, "Unknown", ConditionReason::SomeClusterDeploymentsUnknown, message)
    } else {
        let message = format!("All {unassigned} match the pool configuration");
        Condition::new(kind, "True", ConditionReason::ClusterDeploymentsCurrent, message)
    }
}

/// DeletionPossible, which names the clusters that a deleted pool still waits for.
fn deletion_condition(state: &State, pool: &ClusterPool) -> Condition {
    let names = join_names(state, &state.members(&pool.key()).clusters);
    if names.is_empty() {
        let message = "No ClusterDeployments pending cleanup";
        return Condition::new(
            ConditionType::DeletionPossible,
            "True",
            ConditionReason::DeletionPossible,
            message,
        );
    }
    let message = format!("The following ClusterDeployments are pending cleanup: {names}");
    Condition::new(
        ConditionType::DeletionPossible,
        "False",
        ConditionReason::ClusterDeploymentsPendingCleanup,
        message,
    )
}

/// The names of clusters, sorted, with commas between them.
fn join_names(state: &State, clusters: &[ClusterId]) -> String {
    let rows = clusters.iter().filter_map(|cluster_id| state.clusters.get(*cluster_id));
    let mut names: Vec<&str> = rows.map(|cluster| cluster.name.as_str()).collect();
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_of_a_pool_has_an_event() {
        let others = [HIBERNATION, DEGRADED, ConditionType::InventorySufficient];
        for kind in CONDITIONS.into_iter().chain(others) {
            assert!(EventReason::named(kind.as_str()).is_some(), "{kind:?}");
        }
    }
}
