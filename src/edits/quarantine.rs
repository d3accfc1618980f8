//! Quarantine: what a restore holds until a person says that nobody uses it. Holds what is free in a
//! backup when nobody knows what was leased since, and gives back what is held. What was leased
//! since is held by `hold.rs`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::model::annotations::{HOLD, QUARANTINE, QUARANTINED_RANGES, RESERVED};
use crate::model::cluster::Cluster;
use crate::model::event_reason::EventReason;
use crate::model::host::BareMetalHost;
use crate::model::ip_pool::{CAPI_PAUSED, IpPool};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::RECONCILE_PAUSE;
use crate::model::quarantine::Quarantine;
use crate::model::state::{HostId, IpPoolId, PoolId, State};
use crate::model::tick::Tick;
use crate::plan;

use super::delete::delete_object;
use super::events::record_event;

/// A pool may have drawn as many names since a backup as nobody knows of.
const SKIPPED_NAMES: u64 = 1 << 16;

/// What became of an object that was given back.
pub struct FreedObject {
    pub kind: Kind,
    pub key: Key,
    /// In a few words, such as `free`.
    pub result: &'static str,
}

/// Whether a claim could get a cluster, now or once it is installed. Needs no document.
pub fn is_free_cluster(cluster: &Cluster) -> bool {
    cluster.pool.is_some() && cluster.claim.is_none() && cluster.deleting.is_none()
}

/// Holds the clusters, the addresses and the hosts that are free in the copy of a backup: nobody
/// knows who has leased them since. The clusters need their documents. Returns what is held.
pub fn hold_free_objects(state: &mut State, tick: &Tick) -> Vec<(Kind, Key)> {
    let mut held = Vec::new();
    let free_clusters = state.clusters.rows().filter(|cluster| is_free_cluster(cluster));
    let cluster_keys: Vec<Key> = free_clusters.map(Cluster::key).collect();
    for key in cluster_keys {
        pause_cluster(state, &key.name, Some(Quarantine::Unknown));
        held.push((Kind::ClusterDeployment, key));
    }
    let pool_ids: Vec<IpPoolId> = state.ip_pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        state.ip_pools.update(pool_id, reserve_all_ranges);
        held.extend(state.ip_pools.get(pool_id).map(|pool| (Kind::IpPool, pool.metadata.key())));
    }
    let hosts = state.hosts.iter();
    let free_hosts = hosts
        .filter(|(_, host)| host.cluster().is_none() && host.metadata.annotation(HOLD).is_none());
    let host_ids: Vec<HostId> = free_hosts.map(|(host_id, _)| host_id).collect();
    for host_id in host_ids {
        state.hosts.update(host_id, |host| {
            let reason = Quarantine::Unknown.name();
            host.metadata.annotations.insert(HOLD.into(), reason.into());
            Quarantine::Unknown.mark(&mut host.metadata);
        });
        held.extend(state.hosts.get(host_id).map(|host| (Kind::BareMetalHost, host.key())));
    }
    let pool_ids: Vec<PoolId> = state.pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        // Clusters that the backup does not have may run under the next names.
        state.pools.update(pool_id, |pool| pool.status.ordinal += SKIPPED_NAMES);
    }
    for (kind, key) in &held {
        let message = "Free in the backup that was restored; who has it since is not known";
        record_event(state, tick, *kind, key.clone(), EventReason::Held, message);
    }
    held
}

/// Gives back what a restore holds. Claims that were made after the backup are released, and their
/// clusters are destroyed as those of all claims: they never go back to their pools. Clusters and
/// leases need their documents.
pub fn release_quarantine(
    state: &mut State,
    objects: &[(Kind, Key)],
    tick: &Tick,
) -> Vec<FreedObject> {
    let mut freed_objects = Vec::new();
    for (kind, key) in objects {
        let result = match kind {
            Kind::ClusterDeployment => release_cluster(state, key, tick),
            Kind::Customization => free_customization(state, key, tick),
            Kind::BareMetalHost => free_host(state, key),
            Kind::IpPool => open_ranges(state, key),
            _ => {
                delete_object(state, *kind, key, tick);
                "released"
            }
        };
        let message = "It was held by a restore, and is given back";
        record_event(state, tick, *kind, key.clone(), EventReason::QuarantineEnded, message);
        freed_objects.push(FreedObject { kind: *kind, key: key.clone(), result });
    }
    freed_objects
}

/// Pauses a cluster by its fact and by the annotation in its document, which must agree. With a
/// quarantine it is written down why.
pub fn pause_cluster(state: &mut State, cluster_name: &str, quarantine: Option<Quarantine>) {
    let Some(cluster_id) = state.find_cluster(cluster_name) else { return };
    state.clusters.update(cluster_id, |cluster| {
        cluster.paused = true;
        if let Some(body) = cluster.body.as_mut() {
            body.metadata.annotations.insert(RECONCILE_PAUSE.into(), "true".into());
            if let Some(quarantine) = quarantine {
                quarantine.mark(&mut body.metadata);
            }
        }
    });
}

/// Ends the pause of a cluster. One that nothing is left of but the backup's word is destroyed, unless
/// a claim has it there: whoever made that claim may use the cluster, and releases it otherwise.
fn release_cluster(state: &mut State, key: &Key, tick: &Tick) -> &'static str {
    let Some(cluster_id) = state.find_cluster(&key.name) else { return "gone" };
    let mut quarantine = None;
    state.clusters.update(cluster_id, |cluster| {
        cluster.paused = false;
        if let Some(body) = cluster.body.as_mut() {
            quarantine = Quarantine::of(&body.metadata);
            body.metadata.annotations.remove(RECONCILE_PAUSE);
            body.metadata.annotations.remove(QUARANTINE);
            cluster.paused = body.metadata.has_annotation(CAPI_PAUSED);
        }
    });
    // Somebody may also have ended the pause by hand, and a claim has it since.
    if state.clusters.get(cluster_id).is_some_and(|cluster| cluster.claim.is_some()) {
        return "in use";
    }
    if quarantine == Some(Quarantine::Gone) {
        delete_object(state, Kind::ClusterDeployment, key, tick);
        return "will be destroyed";
    }
    "free"
}

/// Ends the lease of a customization whose cluster the backup does not have.
fn free_customization(state: &mut State, key: &Key, tick: &Tick) -> &'static str {
    let Some(customization_id) = state.customizations.find(key) else { return "gone" };
    state.customizations.update(customization_id, |customization| {
        customization.metadata.annotations.remove(QUARANTINE);
    });
    let holder = state.customizations.get(customization_id).and_then(|held| held.holder.as_ref());
    if holder.is_some_and(|holder| holder.preserved) {
        plan::free_customization(state, customization_id, tick);
    }
    "free"
}

/// Ends the hold of a host. Its user is taken away only if that is a cluster which does not exist.
fn free_host(state: &mut State, key: &Key) -> &'static str {
    let Some(host_id) = state.hosts.find(key) else { return "gone" };
    state.hosts.update(host_id, |host| {
        host.metadata.annotations.remove(HOLD);
        host.metadata.annotations.remove(QUARANTINE);
    });
    let cluster = state.hosts.get(host_id).and_then(BareMetalHost::cluster);
    if cluster.is_some_and(|cluster| state.find_cluster(cluster).is_none()) {
        plan::leases::return_host(state, host_id);
    }
    "free"
}

/// Reserves all ranges of a pool, and writes down which of them a restore has reserved.
fn reserve_all_ranges(pool: &mut IpPool) {
    let mut lines = lines_of_reservations(pool);
    let mut quarantined = Vec::new();
    for (_, range) in pool.ranges() {
        if let Entry::Vacant(line) = lines.entry(range.to_string()) {
            quarantined.push(line.key().clone());
            line.insert(Quarantine::Unknown.name().to_owned());
        }
    }
    write_reservations(pool, &lines);
    pool.metadata.annotations.insert(QUARANTINED_RANGES.into(), quarantined.join(" "));
    Quarantine::Unknown.mark(&mut pool.metadata);
}

/// Opens the ranges of a pool again that a restore has reserved.
fn open_ranges(state: &mut State, key: &Key) -> &'static str {
    let Some(pool_id) = state.ip_pools.find(key) else { return "gone" };
    state.ip_pools.update(pool_id, |pool| {
        let mut lines = lines_of_reservations(pool);
        let annotations = &mut pool.metadata.annotations;
        annotations.remove(QUARANTINE);
        for range in annotations.remove(QUARANTINED_RANGES).unwrap_or_default().split(' ') {
            lines.remove(range);
        }
        write_reservations(pool, &lines);
    });
    "open"
}

/// The reserved ranges of a pool as they are written, each with its comment.
fn lines_of_reservations(pool: &IpPool) -> BTreeMap<String, String> {
    let ranges = pool.reserved_ranges().into_iter();
    ranges.map(|(range, comment)| (range.to_string(), comment)).collect()
}

fn write_reservations(pool: &mut IpPool, lines: &BTreeMap<String, String>) {
    let mut written_lines = Vec::new();
    for (range, comment) in lines {
        written_lines.push(format!("{range} {comment}").trim().to_owned());
    }
    if written_lines.is_empty() {
        pool.metadata.annotations.remove(RESERVED);
    } else {
        pool.metadata.annotations.insert(RESERVED.into(), written_lines.join("\n"));
    }
}
