//! Keeps the leases of customizations in step with the clusters that use them: a customization
//! belongs to one cluster of one pool at a time, over all pools of a namespace. Writes
//! `status.inventory` of the pool and the status of each customization. It never chooses a
//! customization for a new cluster.

use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::{Condition, ConditionReason, ConditionText, ConditionType};
use crate::model::customization::Customization;
use crate::model::event_reason::EventReason;
use crate::model::failure::FailureClass;
use crate::model::kinds::Kind;
use crate::model::lease::ClusterHolder;
use crate::model::meta::{Key, LocalRef};
use crate::model::state::{CustomizationId, PoolId, State};
use crate::model::tick::Tick;

use super::{inventory, leases, record_warning};

/// Brings leases, the status of customizations and the inventory of a pool up to date.
pub fn sync_customizations(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let key = pool.key();
    lease_named_customizations(state, &key, tick);
    return_orphaned_customizations(state, pool_id);
    let Some(pool) = state.pools.get(pool_id) else { return };
    let listed = pool.spec.inventory.iter().flatten().map(|entry| entry.name.clone());
    let names: Vec<String> = listed.chain(names_in_clusters(state, &key)).collect();
    for name in names {
        if let Some(customization_id) = state.customizations.find(&Key::new(&*key.namespace, name))
        {
            write_customization_status(state, customization_id, &key, tick);
        }
    }
    let Some(pool) = state.pools.get(pool_id) else { return };
    let inventory = inventory::inventory_status(state, pool);
    if inventory != pool.status.inventory {
        state.pools.update(pool_id, |pool| pool.status.inventory = inventory);
    }
}

/// The customizations that clusters of a pool name.
fn names_in_clusters(state: &State, pool: &Key) -> Vec<String> {
    let clusters = state.members(pool).clusters.into_iter();
    clusters.filter_map(|id| state.clusters.get(id)?.customization.clone()).collect()
}

/// Gives clusters of a pool the leases of the customizations that they name, unless another cluster
/// has them. Returns the customizations that were leased.
pub fn lease_named_customizations(
    state: &mut State,
    pool: &Key,
    tick: &Tick,
) -> Vec<CustomizationId> {
    let mut leased = Vec::new();
    for cluster_id in state.members(pool).clusters {
        let Some(cluster) = state.clusters.get(cluster_id) else { continue };
        let Some(name) = cluster.customization.as_deref() else { continue };
        let key = Key::new(&*pool.namespace, name);
        let Some(customization_id) = state.customizations.find(&key) else { continue };
        let customization = state.customizations.get(customization_id);
        if customization.is_none_or(|customization| customization.holder.is_some()) {
            continue;
        }
        let pool = Some(pool.clone());
        let holder = ClusterHolder { pool, ..ClusterHolder::new(&*cluster.name) };
        let message = format!("Lease restored for cluster {}, which uses it", holder.cluster);
        leases::grant_customization(state, customization_id, holder);
        record_warning(state, tick, Kind::Customization, key, EventReason::LeaseRepaired, message);
        leased.push(customization_id);
    }
    leased
}

/// Frees the leases of this pool whose cluster is gone. All clusters of the pool are in scope, so
/// one that is not in the state does not exist.
fn return_orphaned_customizations(state: &mut State, pool_id: PoolId) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let key = pool.key();
    let mut orphaned: Vec<CustomizationId> = Vec::new();
    for entry in pool.spec.inventory.iter().flatten() {
        let entry_key = Key::new(&*key.namespace, &*entry.name);
        let Some(customization_id) = state.customizations.find(&entry_key) else { continue };
        let customization = state.customizations.get(customization_id);
        let Some(holder) = customization.and_then(|row| row.holder.as_ref()) else { continue };
        let is_of_this_pool = holder.pool.as_ref() == Some(&key) && !holder.preserved;
        if is_of_this_pool && state.find_cluster(&holder.cluster).is_none() {
            orphaned.push(customization_id);
        }
    }
    for customization_id in orphaned {
        leases::return_customization(state, customization_id);
    }
}

/// Writes the status of a customization: who has it, and how its last use went. A customization
/// that another pool's cluster has is left to that pool; a deleted one that nobody has is removed.
pub fn write_customization_status(
    state: &mut State,
    customization_id: CustomizationId,
    pool: &Key,
    tick: &Tick,
) {
    let Some(customization) = state.customizations.get(customization_id) else { return };
    let holder = customization.holder.as_ref();
    if holder.is_some_and(|holder| holder.pool.as_ref() != Some(pool)) {
        return;
    }
    let metadata = &customization.metadata;
    let is_deleted = metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty();
    if holder.is_none() && is_deleted {
        return state.customizations.remove(customization_id);
    }
    if is_status_current(state, customization) {
        return;
    }
    let cluster_id = holder.and_then(|holder| state.find_cluster(&holder.cluster));
    let cluster = cluster_id.and_then(|id| state.clusters.get(id));
    let mut status = customization.status.clone();
    status.set_condition(available_condition(holder), tick.now);
    if let Some(outcome) = cluster.and_then(describe_use) {
        status.set_condition(outcome.to_condition(ConditionType::ApplySucceeded), tick.now);
    }
    status.cluster_deployment_ref = holder.map(|holder| LocalRef::to_name(&*holder.cluster));
    let pool_of_holder = holder.and_then(|holder| holder.pool.as_ref());
    status.cluster_pool_ref = pool_of_holder.map(|pool| LocalRef::to_name(&*pool.name));
    status.preserved = holder.is_some_and(|holder| holder.preserved);
    if !status.preserved {
        status.preserved_name.clear();
    }
    if status != customization.status {
        state.customizations.update(customization_id, |customization| {
            customization.status = status;
        });
    }
}

/// Whether writing the status would change nothing: the same as writing it and comparing, but
/// without a copy of the status, which is large.
fn is_status_current(state: &State, customization: &Customization) -> bool {
    let status = &customization.status;
    let cluster_in_status = status.cluster_deployment_ref.as_ref().map(|to| to.name.as_str());
    let Some(holder) = &customization.holder else {
        let kind = ConditionType::Available;
        return cluster_in_status.is_none()
            && has_condition(customization, kind, "True", ConditionReason::Available)
            && !status.preserved;
    };
    if cluster_in_status != Some(holder.cluster.as_str()) {
        return false;
    }
    let kind = ConditionType::Available;
    if !has_condition(customization, kind, "False", ConditionReason::Reserved) {
        return false;
    }
    let cluster = state.find_cluster(&holder.cluster).and_then(|id| state.clusters.get(id));
    cluster.and_then(describe_use).is_none_or(|outcome| {
        let kind = ConditionType::ApplySucceeded;
        has_condition(customization, kind, outcome.status, outcome.reason)
    })
}

/// Whether a condition has this status and this reason; its message does not count.
fn has_condition(
    customization: &Customization,
    kind: ConditionType,
    status: &str,
    reason: ConditionReason,
) -> bool {
    let condition = customization.condition(kind);
    condition.is_some_and(|condition| condition.status == status && condition.reason == reason)
}

/// The condition Available, in Hive's words.
fn available_condition(holder: Option<&ClusterHolder>) -> Condition {
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

/// How the use of a customization for a cluster goes, as its condition `ApplySucceeded` says it.
/// While the cluster is being destroyed the condition stays as it is.
fn describe_use(cluster: &Cluster) -> Option<ConditionText> {
    Some(match cluster.phase() {
        Phase::Installed => ConditionText::new(
            "True",
            ConditionReason::Succeeded,
            "Patches applied and cluster installed successfully",
        ),
        Phase::Broken if cluster.failure_class == Some(FailureClass::InputWrong) => {
            ConditionText::new(
                "False",
                ConditionReason::BrokenBySyntax,
                "The configuration with the patches is refused. Check the installation logs.",
            )
        }
        Phase::Broken => ConditionText::new(
            "False",
            ConditionReason::BrokenByCloud,
            "Cluster installation failed. This may or may not be the fault of patches. Check the \
             installation logs.",
        ),
        Phase::Installing | Phase::Retrying => ConditionText::new(
            "False",
            ConditionReason::InstallationPending,
            "Patches applied; cluster is installing",
        ),
        Phase::Deprovisioning => return None,
    })
}
