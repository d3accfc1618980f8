//! What a pool says of itself: counts and conditions, written after everything else.

use crate::model::cluster::Cluster;
use crate::model::condition::{self, Condition, ConditionReason, ConditionType, Shortage};
use crate::model::event_reason::EventReason;
use crate::model::pool::{ClusterPool, PoolStatus};
use crate::model::state::{ClusterId, PoolId, State};
use crate::model::tick::Tick;

use super::buckets::{Buckets, sort_pool};
use super::dependencies::{joined, missing};
use super::inventory::{free, sufficient, valid};
use super::power::unsupported;
use super::{POOL, say, warn};

/// Only where a driver cannot stop machines, or could not.
const HIBERNATION: ConditionType = ConditionType::HibernationSupported;

const CONDITIONS: [ConditionType; 5] = [
    ConditionType::MissingDependencies,
    ConditionType::CapacityAvailable,
    ConditionType::AllClustersCurrent,
    ConditionType::InventoryValid,
    ConditionType::DeletionPossible,
];

pub fn write(state: &mut State, at: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let sorted = sort_pool(state, pool, tick.now);
    let mut status = pool.status.clone();
    status.provisions += state.begun.get(&at).copied().unwrap_or(0);
    count(state, pool, &sorted, &mut status);
    for kind in CONDITIONS {
        if condition::find(&status.conditions, kind).is_none() {
            let new = Condition::new(
                kind,
                "Unknown",
                ConditionReason::Initialized,
                "Condition Initialized",
            );
            condition::set(&mut status.conditions, new, tick.now);
        }
    }
    let mut news = Vec::new();
    for new in conditions(state, pool, &sorted) {
        let old = condition::find(&status.conditions, &new.kind);
        if old.is_none_or(|old| (&old.reason, &old.message) != (&new.reason, &new.message)) {
            news.push((old.map(|old| old.status.clone()), new.clone()));
        }
        condition::set(&mut status.conditions, new, tick.now);
    }
    let key = pool.key();
    if status != pool.status {
        state.begun.remove(&at);
        state.pools.update(at, |pool| pool.status = status);
    }
    for (old, new) in news {
        tell(state, tick, &key, old.as_deref(), &new);
    }
}

/// One event for a condition that became worse or better, none for one that is fine at first.
fn tell(
    state: &mut State,
    tick: &Tick,
    key: &crate::model::meta::Key,
    old: Option<&str>,
    new: &Condition,
) {
    let bad = if new.kind == ConditionType::MissingDependencies { "True" } else { "False" };
    let object = (POOL, key.clone());
    let Some(reason) = EventReason::named(&new.kind) else { return };
    if new.status == bad && new.kind != ConditionType::DeletionPossible {
        warn(state, tick, reason, object, new.message.clone());
    } else if old == Some(bad) && new.status != bad {
        say(state, tick, reason, object, format!("{} is {}", new.kind, new.status));
    }
}

fn count(state: &State, pool: &ClusterPool, sorted: &Buckets, status: &mut PoolStatus) {
    let number = |many: usize| u32::try_from(many).unwrap_or(u32::MAX);
    status.size = number(sorted.unclaimed());
    status.standby = number(sorted.standby.len());
    status.ready = number(sorted.ready.len());
    status.installing = number(sorted.installing.len());
    status.broken = number(sorted.broken.len());
    status.stale = number(sorted.stale().count());
    status.claimed = number(sorted.claimed.len());
    status.deleting = number(sorted.deleting.len());
    status.pending = number(sorted.waiting.len());
    status.free_customizations = number(free(pool).count());
    let runs = |one: &&Cluster| one.installed() && one.deleting.is_none() && one.power.runs();
    let members = state.members(&pool.key()).clusters.into_iter();
    status.running = number(members.filter_map(|at| state.clusters.get(at)).filter(runs).count());
}

fn conditions(state: &State, pool: &ClusterPool, sorted: &Buckets) -> Vec<Condition> {
    if pool.metadata.deletion_timestamp.is_some() {
        return vec![deletion_possible(state, pool)];
    }
    let lacks = missing(state, pool);
    let dependencies = if lacks.is_empty() {
        Condition::new(
            ConditionType::MissingDependencies,
            "False",
            ConditionReason::Verified,
            "Dependencies verified",
        )
    } else {
        Condition::new(
            ConditionType::MissingDependencies,
            "True",
            ConditionReason::Missing,
            joined(&lacks),
        )
    };
    let mut all = vec![dependencies, capacity(state, pool, sorted), current(state, sorted)];
    all.extend(valid(pool).or_else(|| no_inventory(pool)));
    all.extend(sufficient(pool));
    let text = unsupported(state, pool).map(|text| ("False", ConditionReason::Unsupported, text));
    let known = pool
        .condition(HIBERNATION)
        .map(|_| ("True", ConditionReason::Supported, "Hibernation capable"));
    let hibernation = text.or(known);
    all.extend(
        hibernation.map(|(status, reason, text)| Condition::new(HIBERNATION, status, reason, text)),
    );
    all
}

/// A pool that lost its inventory has nothing to say of it any more.
fn no_inventory(pool: &ClusterPool) -> Option<Condition> {
    let known = pool
        .condition(ConditionType::InventoryValid)
        .is_some_and(|old| old.reason != ConditionReason::Initialized);
    known.then(|| {
        Condition::new(
            ConditionType::InventoryValid,
            "Unknown",
            ConditionReason::Initialized,
            "Condition Initialized",
        )
    })
}

fn capacity(state: &State, pool: &ClusterPool, sorted: &Buckets) -> Condition {
    let kind = ConditionType::CapacityAvailable;
    if let Some(most) = pool.max_size().filter(|most| sorted.total >= *most) {
        let full = format!("Pool is at maximum capacity of {most} waiting and claimed clusters.");
        return Condition::new(kind, "False", ConditionReason::MaxCapacity, full);
    }
    if let Some(Shortage { reason, message }) = state.short.get(&pool.key()) {
        return Condition::new(kind, "False", *reason, message.as_str());
    }
    let room = "There is capacity to add more clusters to the pool.";
    Condition::new(kind, "True", ConditionReason::Available, room)
}

/// A mismatch beats an unknown version.
fn current(state: &State, sorted: &Buckets) -> Condition {
    let all = ConditionType::AllClustersCurrent;
    let unassigned = "unassigned ClusterDeployments";
    if !sorted.mismatched.is_empty() {
        let names = names(state, sorted.mismatched.iter().copied());
        let message = format!("Some {unassigned} do not match the pool configuration: {names}");
        Condition::new(all, "False", ConditionReason::SomeClusterDeploymentsStale, message)
    } else if !sorted.unknown.is_empty() {
        let names = names(state, sorted.unknown.iter().copied());
        let message =
            format!("Some {unassigned} are missing their pool spec hash annotation: {names}");
        Condition::new(all, "Unknown", ConditionReason::SomeClusterDeploymentsUnknown, message)
    } else {
        let message = format!("All {unassigned} match the pool configuration");
        Condition::new(all, "True", ConditionReason::ClusterDeploymentsCurrent, message)
    }
}

fn deletion_possible(state: &State, pool: &ClusterPool) -> Condition {
    let left = state.members(&pool.key()).clusters;
    let left = names(state, left.into_iter());
    if left.is_empty() {
        let message = "No ClusterDeployments pending cleanup";
        return Condition::new(
            ConditionType::DeletionPossible,
            "True",
            ConditionReason::DeletionPossible,
            message,
        );
    }
    let message = format!("The following ClusterDeployments are pending cleanup: {left}");
    Condition::new(
        ConditionType::DeletionPossible,
        "False",
        ConditionReason::ClusterDeploymentsPendingCleanup,
        message,
    )
}

fn names(state: &State, clusters: impl Iterator<Item = ClusterId>) -> String {
    let mut names: Vec<&str> =
        clusters.filter_map(|at| Some(state.clusters.get(at)?.name.as_str())).collect();
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_of_a_pool_has_an_event() {
        for kind in CONDITIONS.into_iter().chain([HIBERNATION, ConditionType::InventorySufficient])
        {
            assert!(EventReason::named(kind.as_str()).is_some(), "{kind:?}");
        }
    }
}
