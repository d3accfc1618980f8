//! Leases of customizations: one cluster of one pool at a time, over all pools of a namespace.
//! Keeps `status.inventory` of the pool and the status of each customization.

use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::customization::Customization;
use crate::model::event_reason::EventReason;
use crate::model::lease::ClusterHolder;
use crate::model::meta::{Key, LocalRef};
use crate::model::state::{CustomizationId, PoolId, State};
use crate::model::tick::Tick;

use super::{CUSTOMIZATION, inventory, leases, warn};

pub fn sync(state: &mut State, at: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let key = pool.key();
    take_what_clusters_name(state, &key, tick);
    release_what_no_cluster_has(state, at);
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let listed = pool.spec.inventory.iter().flatten().map(|entry| entry.name.clone());
    let names: Vec<String> = listed.chain(held_by(state, &key)).collect();
    for name in names {
        if let Some(at) = state.customizations.find(&Key::new(&*key.namespace, name)) {
            write_status(state, at, &key, tick);
        }
    }
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let inventory = inventory::seen(state, pool);
    if inventory != pool.status.inventory {
        state.pools.update(at, |pool| pool.status.inventory = inventory);
    }
}

fn held_by(state: &State, pool: &Key) -> Vec<String> {
    let clusters = state.members(pool).clusters.into_iter();
    clusters.filter_map(|at| state.clusters.get(at)?.customization.clone()).collect()
}

/// A cluster that names a customization has its lease, unless another cluster has it. Returns
/// the customizations that were taken.
pub fn take_what_clusters_name(state: &mut State, pool: &Key, tick: &Tick) -> Vec<CustomizationId> {
    let mut taken = Vec::new();
    for at in state.members(pool).clusters {
        let Some(cluster) = state.clusters.get(at) else {
            continue;
        };
        let Some(name) = cluster.customization.as_deref() else {
            continue;
        };
        let key = Key::new(&*pool.namespace, name);
        let Some(found) = state.customizations.find(&key) else {
            continue;
        };
        let free = state.customizations.get(found).is_some_and(|one| one.holder.is_none());
        if free {
            let pool = Some(pool.clone());
            let holder = ClusterHolder { pool, ..ClusterHolder::new(&*cluster.name) };
            let message =
                format!("Lease taken again for cluster {}, which uses it", holder.cluster);
            leases::grant_customization(state, found, holder);
            warn(state, tick, EventReason::LeaseRepaired, (CUSTOMIZATION, key), message);
            taken.push(found);
        }
    }
    taken
}

/// A lease of this pool whose cluster is gone is free again. All clusters of the pool are in
/// scope, so one that is not in the state does not exist.
fn release_what_no_cluster_has(state: &mut State, at: PoolId) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let key = pool.key();
    let listed = pool.spec.inventory.iter().flatten();
    let orphaned: Vec<CustomizationId> = listed
        .filter_map(|entry| state.customizations.find(&Key::new(&*key.namespace, &*entry.name)))
        .filter(|at| {
            let holder = state.customizations.get(*at).and_then(|one| one.holder.as_ref());
            holder.is_some_and(|holder| {
                let mine = holder.pool.as_ref() == Some(&key) && !holder.preserved;
                mine && state.cluster(&holder.cluster).is_none()
            })
        })
        .collect();
    for at in orphaned {
        leases::return_customization(state, at);
    }
}

/// The customization's own status: who has it, and how its last use went.
pub fn write_status(state: &mut State, at: CustomizationId, pool: &Key, tick: &Tick) {
    let Some(one) = state.customizations.get(at) else {
        return;
    };
    if one.holder.as_ref().is_some_and(|holder| holder.pool.as_ref() != Some(pool)) {
        return;
    }
    let goes = one.metadata.deletion_timestamp.is_some() && one.metadata.finalizers.is_empty();
    if one.holder.is_none() && goes {
        return state.customizations.remove(at);
    }
    if is_current(state, one) {
        return;
    }
    let holder = one.holder.clone();
    let cluster = holder.as_ref().and_then(|holder| state.cluster(&holder.cluster));
    let applied = cluster.and_then(|at| state.clusters.get(at)).and_then(applied);
    let mut status = one.status.clone();
    status.set(available(holder.as_ref()), tick.now);
    if let Some(applied) = applied {
        status.set(applied, tick.now);
    }
    let pool_ref =
        |holder: &ClusterHolder| holder.pool.as_ref().map(|pool| LocalRef::to(&*pool.name));
    status.cluster_deployment_ref = holder.as_ref().map(|holder| LocalRef::to(&*holder.cluster));
    status.cluster_pool_ref = holder.as_ref().and_then(pool_ref);
    status.preserved = holder.as_ref().is_some_and(|holder| holder.preserved);
    if !status.preserved {
        status.preserved_name.clear();
    }
    if status != one.status {
        state.customizations.update(at, |one| one.status = status);
    }
}

/// The same as writing the status and finding it unchanged, without writing it.
fn is_current(state: &State, one: &Customization) -> bool {
    let is = |kind: ConditionType, status: &str, reason: ConditionReason| {
        one.condition(kind.as_str()).is_some_and(|old| old.status == status && old.reason == reason)
    };
    let named = one.status.cluster_deployment_ref.as_ref().map(|one| one.name.as_str());
    let Some(holder) = &one.holder else {
        return named.is_none()
            && is(ConditionType::Available, "True", ConditionReason::Available)
            && !one.status.preserved;
    };
    let cluster = state.cluster(&holder.cluster).and_then(|at| state.clusters.get(at));
    let applied = cluster.and_then(how_it_went);
    named == Some(holder.cluster.as_str())
        && is(ConditionType::Available, "False", ConditionReason::Reserved)
        && applied
            .is_none_or(|(status, reason, _)| is(ConditionType::ApplySucceeded, status, reason))
}

fn available(holder: Option<&ClusterHolder>) -> Condition {
    let Some(ClusterHolder { cluster, pool, .. }) = holder else {
        return Condition::new(
            ConditionType::Available,
            "True",
            ConditionReason::Available,
            "available",
        );
    };
    let pool = pool.as_ref().map_or("", |pool| pool.name.as_str());
    let message = format!("Currently in use by cluster deployment {cluster} of clusterpool {pool}");
    Condition::new(ConditionType::Available, "False", ConditionReason::Reserved, message)
}

fn applied(cluster: &Cluster) -> Option<Condition> {
    let (status, reason, message) = how_it_went(cluster)?;
    Some(Condition::new(ConditionType::ApplySucceeded, status, reason, message))
}

/// status, reason and message
fn how_it_went(cluster: &Cluster) -> Option<(&'static str, ConditionReason, &'static str)> {
    Some(match cluster.phase() {
        Phase::Installed => (
            "True",
            ConditionReason::Succeeded,
            "Patches applied and cluster installed successfully",
        ),
        Phase::Broken => (
            "False",
            ConditionReason::BrokenByCloud,
            "Cluster installation failed. This may or may not be the fault of patches. Check the \
             installation logs.",
        ),
        Phase::Installing | Phase::Retrying => (
            "False",
            ConditionReason::InstallationPending,
            "Patches applied; cluster is installing",
        ),
        // How it went before stays.
        Phase::Deprovisioning => return None,
    })
}
