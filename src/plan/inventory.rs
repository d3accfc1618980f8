//! Works out a pool's inventory as the pool sees it: `status.inventory`, and the conditions that
//! follow from it. It never leases a customization.

use std::collections::BTreeMap;

use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::customization::Customization;
use crate::model::inventory::{CUSTOMIZATION_ATTEMPTS, EntryStatus, InputRefusal, InventoryStatus};
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::pool_versions::pool_version;
use crate::model::state::State;

use super::preflight::render_checked_cluster;
use super::version::is_recipe_changed;

/// Entries that a new cluster could use, most attempts left first, then in the order of the list.
pub fn free_entries(pool: &ClusterPool) -> impl Iterator<Item = &str> {
    let mut entries: Vec<(&str, &InventoryStatus)> =
        entries_of_status(pool, EntryStatus::Available).collect();
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.attempts));
    entries.into_iter().map(|(name, _)| name)
}

/// Entries whose name in DNS or whose address another cluster had when they were last tried: tried
/// anew when nothing better is free.
pub fn entries_with_taken_names(pool: &ClusterPool) -> impl Iterator<Item = &str> {
    let unavailable = entries_of_status(pool, EntryStatus::Unavailable);
    unavailable.filter(|(_, entry)| entry.name_taken).map(|(name, _)| name)
}

/// Listed entries of a status, in the order of the list.
fn entries_of_status(
    pool: &ClusterPool,
    status: EntryStatus,
) -> impl Iterator<Item = (&str, &InventoryStatus)> {
    listed_entries(pool).filter(move |(_, entry)| entry.status == status)
}

fn listed_entries(pool: &ClusterPool) -> impl Iterator<Item = (&str, &InventoryStatus)> {
    let entries = pool.spec.inventory.iter().flatten();
    entries.filter_map(|entry| Some((&*entry.name, pool.status.inventory.get(&entry.name)?)))
}

/// What `status.inventory` of a pool has to be: each entry that is listed, and each that a cluster
/// of the pool still has, as this pool sees it.
pub fn inventory_status(state: &State, pool: &ClusterPool) -> BTreeMap<String, InventoryStatus> {
    let key = pool.key();
    let mut entries = BTreeMap::new();
    for cluster_id in state.members(&key).clusters {
        let Some(cluster) = state.clusters.get(cluster_id) else { continue };
        let Some(name) = &cluster.customization else { continue };
        let Some(customization) = find_customization(state, &key, name) else { continue };
        let holder =
            ClusterHolder { pool: Some(key.clone()), ..ClusterHolder::new(&*cluster.name) };
        if customization.holder.as_ref() == Some(&holder) {
            let unlisted = InventoryStatus {
                status: EntryStatus::ToBeDeleted,
                message: format!("No longer listed; removed with cluster {}", cluster.name),
                ..held_entry(customization, &holder, pool.status.inventory.get(name))
            };
            entries.insert(name.clone(), unlisted);
        }
    }
    // What is listed replaces what was taken for unlisted above.
    for listed in pool.spec.inventory.iter().flatten() {
        let before = pool.status.inventory.get(&listed.name);
        let entry = match find_customization(state, &key, &listed.name) {
            None => missing_entry(before),
            Some(customization) => judge_entry(state, pool, customization, before),
        };
        entries.insert(listed.name.clone(), entry);
    }
    entries
}

fn find_customization<'a>(state: &'a State, pool: &Key, name: &str) -> Option<&'a Customization> {
    state.customizations.by_key(&Key::new(&*pool.namespace, name))
}

/// The entry of a customization that is listed and not there. It keeps its attempts, should the
/// customization come back.
fn missing_entry(before: Option<&InventoryStatus>) -> InventoryStatus {
    InventoryStatus {
        status: EntryStatus::Missing,
        attempts: before.map_or(CUSTOMIZATION_ATTEMPTS, |before| before.attempts),
        message: "The pool's namespace has no customization of this name".into(),
        ..InventoryStatus::default()
    }
}

/// The entry of a customization that a cluster of this pool has: until it is free again, the
/// version is the one that the cluster was made with.
fn held_entry(
    customization: &Customization,
    holder: &ClusterHolder,
    before: Option<&InventoryStatus>,
) -> InventoryStatus {
    let before = before.filter(|before| before.version > 0);
    let cluster = &holder.cluster;
    let generation = customization.metadata.generation;
    let version = before.map_or(generation, |before| before.version);
    let (status, message) = if customization.metadata.deletion_timestamp.is_some() {
        (EntryStatus::Reserved, format!("Being deleted; removed when cluster {cluster} is gone"))
    } else if version == generation {
        (EntryStatus::Reserved, String::new())
    } else {
        let message = format!("Version {generation} waits until cluster {cluster} is gone");
        (EntryStatus::ToBeUpdated, message)
    };
    InventoryStatus {
        version,
        status,
        attempts: before.map_or(CUSTOMIZATION_ATTEMPTS, |before| before.attempts),
        cluster_deployment: cluster.clone(),
        name_taken: false,
        message,
        refusal: before.and_then(|before| before.refusal.clone()),
    }
}

/// The entry of a listed customization that exists. `before` is the entry that the pool had of it.
fn judge_entry(
    state: &State,
    pool: &ClusterPool,
    customization: &Customization,
    before: Option<&InventoryStatus>,
) -> InventoryStatus {
    if let Some(holder) = &customization.holder
        && holder.pool == Some(pool.key())
        && !holder.preserved
    {
        return held_entry(customization, holder, before);
    }
    let version = customization.metadata.generation;
    // What the pool has learned about another version of it does not count.
    let before = before.filter(|before| before.version == version);
    let attempts = before.map_or(CUSTOMIZATION_ATTEMPTS, |before| before.attempts);
    let (status, message) = if let Some(verdict) = pool_verdict(state, pool, customization, before)
    {
        verdict
    } else if let Some(holder) = &customization.holder {
        (EntryStatus::Unavailable, describe_holder(holder))
    } else if customization.metadata.deletion_timestamp.is_some() {
        (EntryStatus::Missing, "Being deleted".into())
    } else if let Some(before) = before.filter(|before| before.name_taken) {
        return before.clone();
    } else {
        (EntryStatus::Available, String::new())
    };
    let refusal = before.and_then(|before| current_refusal(state, pool, before)).cloned();
    InventoryStatus { version, status, attempts, message, refusal, ..InventoryStatus::default() }
}

/// The refusal of a customization that still holds: neither the pool nor what it names was changed
/// since.
fn current_refusal<'a>(
    state: &State,
    pool: &ClusterPool,
    entry: &'a InventoryStatus,
) -> Option<&'a InputRefusal> {
    let refusal = entry.refusal.as_ref()?;
    let is_outdated = refusal.pool_version != pool_version(pool)
        || is_recipe_changed(state, pool, refusal.recipe.as_deref());
    if is_outdated { None } else { Some(refusal) }
}

/// Why this pool cannot use a customization, whoever else has it meanwhile: too many clusters with
/// it were given up, the installer refuses what it makes, or its patches still cannot be applied.
fn pool_verdict(
    state: &State,
    pool: &ClusterPool,
    customization: &Customization,
    before: Option<&InventoryStatus>,
) -> Option<(EntryStatus, String)> {
    let before = before?;
    if before.attempts == 0 {
        let message = format!("{CUSTOMIZATION_ATTEMPTS} clusters with it were given up");
        return Some((EntryStatus::BrokenByCloud, message));
    }
    if let Some(refusal) = current_refusal(state, pool, before) {
        return Some((EntryStatus::BrokenByConfiguration, refusal.cause.clone()));
    }
    if before.status != EntryStatus::BrokenByConfiguration {
        return None;
    }
    let failure = render_checked_cluster(state, pool, Some(&customization.spec)).err()?;
    Some((EntryStatus::BrokenByConfiguration, failure))
}

/// Says which cluster has a customization, for people.
fn describe_holder(holder: &ClusterHolder) -> String {
    let cluster = match &holder.pool {
        Some(pool) => format!("{} of pool {}", holder.cluster, pool.name),
        None => holder.cluster.clone(),
    };
    if holder.preserved {
        format!("Kept by cluster {cluster}, which was left running")
    } else {
        format!("In use by cluster {cluster}")
    }
}

/// The condition `InventoryValid`, from the pool's own inventory only, with Hive's message. A pool
/// without an inventory has none.
pub fn valid_condition(pool: &ClusterPool) -> Option<Condition> {
    pool.spec.inventory.as_ref()?;
    let cloud = sorted_names(pool, EntryStatus::BrokenByCloud);
    let syntax = sorted_names(pool, EntryStatus::BrokenByConfiguration);
    let missing = sorted_names(pool, EntryStatus::Missing);
    let is_valid = cloud.is_empty() && syntax.is_empty() && missing.is_empty();
    Some(if is_valid {
        Condition::new(ConditionType::InventoryValid, "True", ConditionReason::Valid, "")
    } else {
        let problems = serde_json::json!(
            {"BrokenByCloud": cloud, "BrokenBySyntax": syntax, "Missing": missing}
        );
        Condition::new(
            ConditionType::InventoryValid,
            "False",
            ConditionReason::Invalid,
            problems.to_string(),
        )
    })
}

fn sorted_names(pool: &ClusterPool, status: EntryStatus) -> Vec<&str> {
    let mut names: Vec<&str> = entries_of_status(pool, status).map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

/// The condition `InventorySufficient`: whether the inventory suffices for the size. Only a pool
/// has it whose inventory once did not.
pub fn sufficient_condition(pool: &ClusterPool) -> Option<Condition> {
    const KIND: ConditionType = ConditionType::InventorySufficient;
    let size = pool.size();
    let usable = count_usable_entries(pool);
    if let Some(inventory) = &pool.spec.inventory
        && size > usable
    {
        let message = format!(
            "Size is {size}, but the inventory has fewer usable customizations: {usable} of {}",
            inventory.len()
        );
        return Some(Condition::new(KIND, "False", ConditionReason::TooFewCustomizations, message));
    }
    pool.condition(KIND)?;
    let message = if pool.spec.inventory.is_some() {
        "The inventory suffices for the size"
    } else {
        "The pool has no inventory"
    };
    Some(Condition::new(KIND, "True", ConditionReason::Sufficient, message))
}

/// How many entries clusters of the pool have, or may get.
fn count_usable_entries(pool: &ClusterPool) -> usize {
    listed_entries(pool).filter(|(_, entry)| entry.status.is_usable()).count()
}

/// The inventory in a sentence: `4 of 7 usable; missing foo, bar; broken by configuration baz:
/// ...`.
pub fn inventory_summary(pool: &ClusterPool) -> Option<String> {
    let number = pool.spec.inventory.as_ref()?.len();
    let mut parts = vec![format!("{} of {number} usable", count_usable_entries(pool))];
    for status in EntryStatus::ALL.into_iter().filter(|status| !status.is_usable()) {
        let entries = pool.status.inventory.iter().filter(|(_, entry)| entry.status == status);
        let groups = group_by_message(entries);
        if !groups.is_empty() {
            let described: Vec<String> = groups.iter().map(EntryGroup::describe).collect();
            parts.push(format!("{} {}", status.to_string().to_lowercase(), described.join(", ")));
        }
    }
    Some(parts.join("; "))
}

/// Entries of an inventory that have the same message.
struct EntryGroup<'a> {
    names: Vec<&'a str>,
    /// Empty if the status of the entries says it all.
    message: &'a str,
}

impl EntryGroup<'_> {
    fn describe(&self) -> String {
        let names = self.names.join(", ");
        if self.message.is_empty() { names } else { format!("{names}: {}", self.message) }
    }
}

/// Puts entries together that have the same message, so that a long one is said once.
fn group_by_message<'a>(
    entries: impl Iterator<Item = (&'a String, &'a InventoryStatus)>,
) -> Vec<EntryGroup<'a>> {
    let mut groups: Vec<EntryGroup<'a>> = Vec::new();
    for (name, entry) in entries {
        let message = message_of_entry(entry);
        match groups.iter_mut().find(|group| group.message == message) {
            Some(group) => group.names.push(name.as_str()),
            None => groups.push(EntryGroup { names: vec![name.as_str()], message }),
        }
    }
    groups
}

/// The message of an entry; empty if its status says it all.
fn message_of_entry(entry: &InventoryStatus) -> &str {
    let says_all = matches!(entry.status, EntryStatus::Missing | EntryStatus::BrokenByCloud);
    if says_all { "" } else { entry.message.as_str() }
}

#[cfg(test)]
mod tests {
    use crate::model::inventory::InventoryEntry;

    use super::*;

    #[test]
    fn a_message_of_several_customizations_is_said_once() {
        let mut pool = ClusterPool::default();
        let mut listed = Vec::new();
        for (name, message) in [("a", "no network"), ("b", "no disk"), ("c", "no network")] {
            listed.push(InventoryEntry { name: name.into(), ..InventoryEntry::default() });
            let entry = InventoryStatus {
                status: EntryStatus::BrokenByConfiguration,
                message: message.into(),
                ..InventoryStatus::default()
            };
            pool.status.inventory.insert(name.into(), entry);
        }
        pool.spec.inventory = Some(listed);
        let expected = "0 of 3 usable; broken by configuration a, c: no network, b: no disk";
        assert_eq!(inventory_summary(&pool).as_deref(), Some(expected));
    }
}
