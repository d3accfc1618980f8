//! A pool's inventory as the pool sees it: `status.inventory`, and what the conditions say of it.

use std::collections::BTreeMap;

use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::customization::Customization;
use crate::model::inventory::{ATTEMPTS, EntryStatus, InventoryStatus};
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;

use super::recipe::trial;

/// Entries that a new cluster could use, most attempts left first, then in the order of the list.
pub fn free(pool: &ClusterPool) -> impl Iterator<Item = &str> {
    let mut entries: Vec<(&str, &InventoryStatus)> = with(pool, EntryStatus::Available).collect();
    entries.sort_by_key(|(_, known)| std::cmp::Reverse(known.attempts));
    entries.into_iter().map(|(name, _)| name)
}

/// Entries whose name in DNS another cluster had when they were last tried: tried anew when
/// nothing better is free.
pub fn entries_with_taken_names(pool: &ClusterPool) -> impl Iterator<Item = &str> {
    let unavailable = with(pool, EntryStatus::Unavailable);
    unavailable.filter(|(_, entry)| entry.name_taken).map(|(name, _)| name)
}

/// Listed entries of a status, in the order of the list.
fn with(pool: &ClusterPool, status: EntryStatus) -> impl Iterator<Item = (&str, &InventoryStatus)> {
    listed(pool).filter(move |(_, known)| known.status == status)
}

fn listed(pool: &ClusterPool) -> impl Iterator<Item = (&str, &InventoryStatus)> {
    let entries = pool.spec.inventory.iter().flatten();
    entries.filter_map(|entry| Some((&*entry.name, pool.status.inventory.get(&entry.name)?)))
}

/// Each entry that is listed, and each that a cluster of the pool still has, as this pool sees it.
pub fn seen(state: &State, pool: &ClusterPool) -> BTreeMap<String, InventoryStatus> {
    let key = pool.key();
    let find = |name: &str| state.customizations.by_key(&Key::new(&*key.namespace, name));
    let mut all = BTreeMap::new();
    for at in state.members(&key).clusters {
        let Some(cluster) = state.clusters.get(at) else { continue };
        let Some(name) = &cluster.customization else { continue };
        let holder =
            ClusterHolder { pool: Some(key.clone()), ..ClusterHolder::new(&*cluster.name) };
        if let Some(one) = find(name).filter(|one| one.holder.as_ref() == Some(&holder)) {
            let left = InventoryStatus {
                status: EntryStatus::ToBeDeleted,
                message: format!("No longer listed; goes with cluster {}", cluster.name),
                ..held(one, &holder, pool.status.inventory.get(name))
            };
            all.insert(name.clone(), left);
        }
    }
    for entry in pool.spec.inventory.iter().flatten() {
        let known = pool.status.inventory.get(&entry.name);
        let status = match find(&entry.name) {
            None => absent(known),
            Some(one) => present(state, pool, one, known),
        };
        all.insert(entry.name.clone(), status);
    }
    all
}

fn absent(known: Option<&InventoryStatus>) -> InventoryStatus {
    let attempts = known.map_or(ATTEMPTS, |known| known.attempts);
    let message = "There is no customization of that name in the pool's namespace";
    let status = EntryStatus::Missing;
    InventoryStatus { status, attempts, message: message.into(), ..InventoryStatus::default() }
}

/// Leased to a cluster of this pool: until it is free again, the version is the one that the
/// cluster was made with.
fn held(
    one: &Customization,
    holder: &ClusterHolder,
    known: Option<&InventoryStatus>,
) -> InventoryStatus {
    let known = known.filter(|known| known.version > 0);
    let (cluster, now) = (&holder.cluster, one.metadata.generation);
    let version = known.map_or(now, |known| known.version);
    let (status, message) = if one.metadata.deletion_timestamp.is_some() {
        (EntryStatus::Reserved, format!("Being deleted; goes when cluster {cluster} is gone"))
    } else if version == now {
        (EntryStatus::Reserved, String::new())
    } else {
        (EntryStatus::ToBeUpdated, format!("Version {now} waits until cluster {cluster} is gone"))
    };
    let attempts = known.map_or(ATTEMPTS, |known| known.attempts);
    let cluster_deployment = cluster.clone();
    InventoryStatus { version, status, attempts, cluster_deployment, name_taken: false, message }
}

fn present(
    state: &State,
    pool: &ClusterPool,
    one: &Customization,
    known: Option<&InventoryStatus>,
) -> InventoryStatus {
    let key = Some(pool.key());
    let holder = one.holder.as_ref().filter(|by| by.pool == key && !by.preserved);
    if let Some(holder) = holder {
        return held(one, holder, known);
    }
    let version = one.metadata.generation;
    // What is known of another version of it does not count.
    let known = known.filter(|known| known.version == version);
    let attempts = known.map_or(ATTEMPTS, |known| known.attempts);
    let entry = |status, message| InventoryStatus {
        version,
        status,
        attempts,
        message,
        ..InventoryStatus::default()
    };
    // This pool's own verdict stands, whoever has it meanwhile.
    if attempts == 0 {
        let message = format!("{ATTEMPTS} clusters with it were given up");
        return entry(EntryStatus::BrokenByCloud, message);
    }
    let broken = known.filter(|known| known.status == EntryStatus::BrokenByConfiguration);
    if broken.is_some()
        && let Err(why) = trial(state, pool, Some(&one.spec))
    {
        return entry(EntryStatus::BrokenByConfiguration, why);
    }
    if let Some(holder) = &one.holder {
        let of = holder.pool.as_ref().map(|pool| format!(" of pool {}", pool.name));
        let of = of.unwrap_or_default();
        let message = if holder.preserved {
            format!("Kept by cluster {}{of}, which was left running", holder.cluster)
        } else {
            format!("In use by cluster {}{of}", holder.cluster)
        };
        return entry(EntryStatus::Unavailable, message);
    }
    if one.metadata.deletion_timestamp.is_some() {
        return entry(EntryStatus::Missing, "Being deleted".into());
    }
    match known.filter(|known| known.name_taken) {
        Some(known) => known.clone(),
        None => entry(EntryStatus::Available, String::new()),
    }
}

/// `InventoryValid`, from the pool's own inventory only, with Hive's message.
pub fn valid(pool: &ClusterPool) -> Option<Condition> {
    pool.spec.inventory.as_ref()?;
    let of = |status: EntryStatus| {
        let mut names: Vec<&str> = with(pool, status).map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    };
    let cloud = of(EntryStatus::BrokenByCloud);
    let syntax = of(EntryStatus::BrokenByConfiguration);
    let missing = of(EntryStatus::Missing);
    let all_well = [&cloud, &syntax, &missing].into_iter().all(Vec::is_empty);
    Some(if all_well {
        Condition::new(ConditionType::InventoryValid, "True", ConditionReason::Valid, "")
    } else {
        let wrong = serde_json::json!(
            {"BrokenByCloud": cloud, "BrokenBySyntax": syntax, "Missing": missing}
        );
        Condition::new(
            ConditionType::InventoryValid,
            "False",
            ConditionReason::Invalid,
            wrong.to_string(),
        )
    })
}

/// Whether the inventory suffices for the size; said only of a pool where it once did not.
pub fn sufficient(pool: &ClusterPool) -> Option<Condition> {
    const KIND: ConditionType = ConditionType::InventorySufficient;
    let (size, usable) = (pool.size(), usable(pool));
    if let Some(listed) = pool.spec.inventory.as_ref().filter(|_| size > usable) {
        let message = format!(
            "Size is {size}, and the inventory can serve {usable} clusters: {usable} of its {} \
             customizations are usable",
            listed.len()
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

/// Entries that clusters of the pool have, or may get.
fn usable(pool: &ClusterPool) -> usize {
    listed(pool).filter(|(_, known)| known.status.usable()).count()
}

/// The inventory in a sentence: `4 of 7 usable; missing foo, bar; broken by configuration baz: ...`.
pub fn summary(pool: &ClusterPool) -> Option<String> {
    let many = pool.spec.inventory.as_ref()?.len();
    let mut said = vec![format!("{} of {many} usable", usable(pool))];
    for status in EntryStatus::ALL.into_iter().filter(|status| !status.usable()) {
        // Of some the status says it all.
        let terse = matches!(status, EntryStatus::Missing | EntryStatus::BrokenByCloud);
        let all = pool.status.inventory.iter().filter(|(_, known)| known.status == status);
        let names = all.map(|(name, known)| match &*known.message {
            message if terse || message.is_empty() => name.clone(),
            message => format!("{name}: {message}"),
        });
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            said.push(format!("{} {}", status.to_string().to_lowercase(), names.join(", ")));
        }
    }
    Some(said.join("; "))
}
