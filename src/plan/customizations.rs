//! Leases of customizations: one cluster of one pool at a time, over all pools of a namespace.
//! Keeps `status.inventory` of the pool and the status of each customization.

use std::collections::BTreeMap;

use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::Condition;
use crate::model::customization::{Customization, Holder};
use crate::model::meta::{Key, LocalRef};
use crate::model::pool::{ATTEMPTS, ClusterPool, InventoryStatus};
use crate::model::state::State;
use crate::model::tick::Tick;

use super::{CUSTOMIZATION, warn};

pub const AVAILABLE: &str = "Available";
pub const RESERVED: &str = "Reserved";
pub const BROKEN_BY_CONFIGURATION: &str = "Broken by configuration";
pub const BROKEN_BY_CLOUD: &str = "Broken by cloud";
pub const MISSING: &str = "Missing";
pub const UNAVAILABLE: &str = "Unavailable";
/// How the message begins when an entry is unavailable because of its name in DNS.
pub const NAME_TAKEN: &str = "The name is taken";

/// Entries that a new cluster could use, most attempts left first, then in the order of the list.
pub fn free(pool: &ClusterPool) -> impl Iterator<Item = &str> {
    let mut entries: Vec<(&str, u32)> = entries(pool, AVAILABLE).collect();
    entries.sort_by_key(|(_, attempts)| std::cmp::Reverse(*attempts));
    entries.into_iter().map(|(name, _)| name)
}

/// Entries that could not be used when last tried: their patches did not apply, or another
/// cluster had the name in DNS. Tried anew when nothing better is free; they work as soon as they
/// or what was in their way is mended.
pub fn worth_another_look(pool: &ClusterPool) -> impl Iterator<Item = &str> {
    let by_name = |(name, _): &(&str, u32)| {
        pool.status.inventory.get(*name).is_some_and(|one| one.message.starts_with(NAME_TAKEN))
    };
    let taken = entries(pool, UNAVAILABLE).filter(by_name);
    entries(pool, BROKEN_BY_CONFIGURATION).chain(taken).map(|(name, _)| name)
}

fn entries<'a>(pool: &'a ClusterPool, status: &str) -> impl Iterator<Item = (&'a str, u32)> {
    let listed = pool.spec.inventory.iter().flatten();
    listed.filter_map(move |entry| {
        let known = pool.status.inventory.get(&entry.name)?;
        (known.status == status).then_some((entry.name.as_str(), known.attempts))
    })
}

pub fn sync(state: &mut State, at: usize, tick: &Tick) {
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
    let inventory = inventory(state, pool);
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
pub fn take_what_clusters_name(state: &mut State, pool: &Key, tick: &Tick) -> Vec<usize> {
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
            let holder = Holder::new(&*cluster.name, Some(pool.clone()));
            let message =
                format!("Lease taken again for cluster {}, which uses it", holder.cluster);
            state.customizations.update(found, |one| one.holder = Some(holder));
            warn(state, tick, "LeaseRepaired", (CUSTOMIZATION, key), message);
            taken.push(found);
        }
    }
    taken
}

/// A lease of this pool whose cluster is gone is free again. All clusters of the pool are in
/// scope, so one that is not in the state does not exist.
fn release_what_no_cluster_has(state: &mut State, at: usize) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let key = pool.key();
    let listed = pool.spec.inventory.iter().flatten();
    let orphaned: Vec<usize> = listed
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
        state.customizations.update(at, |one| one.holder = None);
    }
}

/// The customization's own status: who has it, and how its last use went.
pub fn write_status(state: &mut State, at: usize, pool: &Key, tick: &Tick) {
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
    let pool_ref = |holder: &Holder| holder.pool.as_ref().map(|pool| LocalRef::to(&*pool.name));
    status.cluster_deployment_ref = holder.as_ref().map(|holder| LocalRef::to(&*holder.cluster));
    status.cluster_pool_ref = holder.as_ref().and_then(pool_ref);
    status.preserved = holder.as_ref().is_some_and(|holder| holder.preserved);
    if status != one.status {
        state.customizations.update(at, |one| one.status = status);
    }
}

/// The same as writing the status and finding it unchanged, without writing it.
fn is_current(state: &State, one: &Customization) -> bool {
    let is = |kind: &str, status: &str, reason: &str| {
        one.condition(kind).is_some_and(|old| old.status == status && old.reason == reason)
    };
    let named = one.status.cluster_deployment_ref.as_ref().map(|one| one.name.as_str());
    let Some(holder) = &one.holder else {
        return named.is_none() && is("Available", "True", "Available");
    };
    let cluster = state.cluster(&holder.cluster).and_then(|at| state.clusters.get(at));
    let applied = cluster.and_then(how_it_went);
    named == Some(holder.cluster.as_str())
        && is("Available", "False", "Reserved")
        && applied.is_none_or(|(status, reason, _)| is("ApplySucceeded", status, reason))
}

fn available(holder: Option<&Holder>) -> Condition {
    let Some(Holder { cluster, pool, .. }) = holder else {
        return Condition::new("Available", "True", "Available", "available");
    };
    let pool = pool.as_ref().map_or("", |pool| pool.name.as_str());
    let message = format!("Currently in use by cluster deployment {cluster} of clusterpool {pool}");
    Condition::new("Available", "False", "Reserved", message)
}

fn applied(cluster: &Cluster) -> Option<Condition> {
    let (status, reason, message) = how_it_went(cluster)?;
    Some(Condition::new("ApplySucceeded", status, reason, message))
}

/// status, reason and message
fn how_it_went(cluster: &Cluster) -> Option<(&'static str, &'static str, &'static str)> {
    Some(match cluster.phase() {
        Phase::Installed => {
            ("True", "Succeeded", "Patches applied and cluster installed successfully")
        }
        Phase::Broken => (
            "False",
            "BrokenByCloud",
            "Cluster installation failed. This may or may not be the fault of patches. Check the \
             installation logs.",
        ),
        Phase::Installing | Phase::Retrying => {
            ("False", "InstallationPending", "Patches applied; cluster is installing")
        }
        // How it went before stays.
        Phase::Deprovisioning => return None,
    })
}

/// Each entry as this pool sees it.
fn inventory(state: &State, pool: &ClusterPool) -> BTreeMap<String, InventoryStatus> {
    let listed = pool.spec.inventory.iter().flatten();
    listed
        .map(|entry| {
            let key = Key::new(&*pool.metadata.namespace, &*entry.name);
            let known = pool.status.inventory.get(&entry.name);
            let status = match state.customizations.by_key(&key) {
                None => absent(known),
                Some(one) => present(pool, one, known),
            };
            (entry.name.clone(), status)
        })
        .collect()
}

fn absent(known: Option<&InventoryStatus>) -> InventoryStatus {
    let attempts = known.map_or(ATTEMPTS, |known| known.attempts);
    let message = "There is no customization of that name in the pool's namespace";
    let status = MISSING.into();
    InventoryStatus { status, attempts, message: message.into(), ..InventoryStatus::default() }
}

fn present(
    pool: &ClusterPool,
    one: &Customization,
    known: Option<&InventoryStatus>,
) -> InventoryStatus {
    let version = one.metadata.generation;
    let fresh = InventoryStatus {
        version,
        status: AVAILABLE.into(),
        attempts: ATTEMPTS,
        ..InventoryStatus::default()
    };
    // What is known of another version of it does not count.
    let known = known.filter(|known| known.version == version).unwrap_or(&fresh);
    let as_is = InventoryStatus {
        cluster_deployment: String::new(),
        message: String::new(),
        status: AVAILABLE.into(),
        ..known.clone()
    };
    match &one.holder {
        Some(holder) if holder.pool.as_ref() == Some(&pool.key()) => {
            let cluster_deployment = holder.cluster.clone();
            InventoryStatus { status: RESERVED.into(), cluster_deployment, ..as_is }
        }
        Some(holder) => {
            let by = holder
                .pool
                .as_ref()
                .map_or(String::new(), |pool| format!(" of pool {}", pool.name));
            let message = format!("In use by cluster {}{by}", holder.cluster);
            InventoryStatus { status: UNAVAILABLE.into(), message, ..as_is }
        }
        None if one.metadata.deletion_timestamp.is_some() => {
            InventoryStatus { status: MISSING.into(), message: "Being deleted".into(), ..as_is }
        }
        None if known.attempts == 0 => {
            let message = format!("{ATTEMPTS} clusters with it were given up");
            InventoryStatus { status: BROKEN_BY_CLOUD.into(), message, ..as_is }
        }
        None if known.status == BROKEN_BY_CONFIGURATION => known.clone(),
        None if known.message.starts_with(NAME_TAKEN) => known.clone(),
        None => as_is,
    }
}

/// `InventoryValid`, from the pool's own inventory only.
pub fn valid(pool: &ClusterPool) -> Option<Condition> {
    let inventory = pool.spec.inventory.as_ref()?;
    let of = |status: &str| {
        let names = inventory.iter().map(|entry| &entry.name);
        let mut names: Vec<&String> = names
            .filter(|name| pool.status.inventory.get(*name).is_some_and(|one| one.status == status))
            .collect();
        names.sort();
        serde_json::json!(names)
    };
    let wrong = serde_json::json!({
        "BrokenByCloud": of(BROKEN_BY_CLOUD),
        "BrokenBySyntax": of(BROKEN_BY_CONFIGURATION),
        "Missing": of(MISSING),
    });
    let any =
        wrong.as_object().is_some_and(|all| all.values().any(|one| one != &serde_json::json!([])));
    Some(if any {
        Condition::new("InventoryValid", "False", "Invalid", wrong.to_string())
    } else {
        Condition::new("InventoryValid", "True", "Valid", "")
    })
}
