//! Takes over what Hive knew of failures when its objects are imported: which customizations of an
//! inventory have failed. A pass does not come here, and links are completed elsewhere.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::cluster::Phase;
use crate::model::condition::{ConditionReason, ConditionType};
use crate::model::customization::Customization;
use crate::model::inventory::{CUSTOMIZATION_ATTEMPTS, EntryStatus, InventoryStatus};
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{PoolId, State};

/// The message of Hive's condition `InventoryValid`, which is a JSON document with names.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct HiveInventory {
    broken_by_cloud: Vec<String>,
    broken_by_syntax: Vec<String>,
}

/// How the last use of a customization failed.
enum PastFailure {
    /// Its cluster was given up.
    ByCloud,
    /// Its patches could not be applied, and why.
    BySyntax(String),
}

/// Fills the inventory of each pool in which the file says nothing of an entry, as is so with every
/// file of Hive. Needs the whole state: a failure that nothing in it mentions was none.
pub fn restore_inventory_history(state: &mut State) {
    let pool_ids: Vec<PoolId> = state.pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        let Some(pool) = state.pools.get(pool_id) else { continue };
        let entries = failed_entries(state, pool);
        if !entries.is_empty() {
            state.pools.update(pool_id, |pool| pool.status.inventory.extend(entries));
        }
    }
}

/// The entries of a pool that have failed and of which the pool knows nothing.
fn failed_entries(state: &State, pool: &ClusterPool) -> BTreeMap<String, InventoryStatus> {
    let validity = pool.condition(ConditionType::InventoryValid);
    let hive_inventory: HiveInventory = validity
        .and_then(|condition| serde_json::from_str(&condition.message).ok())
        .unwrap_or_default();
    let mut entries = BTreeMap::new();
    for listed in pool.spec.inventory.iter().flatten() {
        let name = &listed.name;
        let key = Key::new(&*pool.metadata.namespace, &**name);
        let Some(customization) = state.customizations.by_key(&key) else { continue };
        if pool.status.inventory.contains_key(name) {
            continue;
        }
        let failure = if customization.condition(ConditionType::ApplySucceeded).is_some() {
            failure_in_status(customization)
        } else if has_broken_cluster(state, pool, name) {
            Some(PastFailure::ByCloud)
        } else {
            failure_in_inventory(&hive_inventory, name)
        };
        if let Some(failure) = failure {
            entries.insert(name.clone(), entry_after(failure, customization));
        }
    }
    entries
}

/// What the customization itself says of its last use.
fn failure_in_status(customization: &Customization) -> Option<PastFailure> {
    let applied = customization.apply_failure()?;
    if applied.reason == ConditionReason::BrokenByCloud {
        return Some(PastFailure::ByCloud);
    }
    Some(PastFailure::BySyntax(applied.message.clone()))
}

/// Whether a cluster of the pool that was given up has the customization.
fn has_broken_cluster(state: &State, pool: &ClusterPool, customization: &str) -> bool {
    let clusters = state.members(&pool.key()).clusters.into_iter();
    clusters.filter_map(|cluster_id| state.clusters.get(cluster_id)).any(|cluster| {
        cluster.phase() == Phase::Broken && cluster.customization.as_deref() == Some(customization)
    })
}

/// What Hive says of an entry in the condition of its pool.
fn failure_in_inventory(hive_inventory: &HiveInventory, name: &str) -> Option<PastFailure> {
    if hive_inventory.broken_by_cloud.iter().any(|broken| broken == name) {
        return Some(PastFailure::ByCloud);
    }
    if hive_inventory.broken_by_syntax.iter().any(|broken| broken == name) {
        return Some(PastFailure::BySyntax("Hive could not apply its patches".into()));
    }
    None
}

/// The entry of a customization after its failure. Hive may use one again whose cluster was given
/// up, so it has lost one attempt and comes after those that never failed.
fn entry_after(failure: PastFailure, customization: &Customization) -> InventoryStatus {
    let entry = InventoryStatus {
        version: customization.metadata.generation,
        attempts: CUSTOMIZATION_ATTEMPTS,
        ..InventoryStatus::default()
    };
    match failure {
        PastFailure::ByCloud => InventoryStatus { attempts: CUSTOMIZATION_ATTEMPTS - 1, ..entry },
        PastFailure::BySyntax(message) => {
            let status = EntryStatus::BrokenByConfiguration;
            InventoryStatus { status, message, ..entry }
        }
    }
}
