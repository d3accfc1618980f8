//! Sorts a pool's clusters into what can be done with them.

use std::collections::HashSet;

use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Power};
use crate::model::inventory::EntryStatus;
use crate::model::pool::ClusterPool;
use crate::model::state::{ClaimId, ClusterId, State};
use crate::model::time::Time;

use super::version::pool_version;

/// Places in the table of clusters.
#[derive(Debug, Default)]
pub struct Buckets {
    pub deleting: Vec<ClusterId>,
    /// To be removed by the pool: released, evicted, or their customization left the inventory.
    pub marked: Vec<ClusterId>,
    pub claimed: Vec<ClusterId>,
    /// Newest first.
    pub installing: Vec<ClusterId>,
    /// Oldest first, as are the following.
    pub standby: Vec<ClusterId>,
    pub ready: Vec<ClusterId>,
    pub broken: Vec<ClusterId>,
    /// Unclaimed ones without a version.
    pub unknown: Vec<ClusterId>,
    /// Unclaimed ones of another version of the pool or of their customization, or whose
    /// customization left the inventory.
    pub mismatched: Vec<ClusterId>,
    /// Never claimed and deprovisioning.
    pub unclaimed_deleting: usize,
    pub total: usize,
    /// Claims that wait, first come first.
    pub waiting: Vec<ClaimId>,
}

impl Buckets {
    /// Clusters nobody has, broken ones too.
    pub fn unclaimed(&self) -> usize {
        self.usable() + self.broken.len()
    }

    pub fn usable(&self) -> usize {
        self.installing.len() + self.standby.len() + self.ready.len()
    }

    pub fn stale(&self) -> impl Iterator<Item = ClusterId> {
        self.unknown.iter().chain(&self.mismatched).copied()
    }
}

pub fn sort_pool(state: &State, pool: &ClusterPool, now: Time) -> Buckets {
    let version = pool_version(pool);
    let inventory = pool.spec.inventory.as_ref();
    let listed: Option<HashSet<&str>> =
        inventory.map(|all| all.iter().map(|entry| entry.name.as_str()).collect());
    let members = state.members(&pool.key());
    let mut sorted = Buckets::default();
    for at in members.clusters {
        let Some(cluster) = state.clusters.get(at) else {
            continue;
        };
        sorted.total += 1;
        let removed = removed(listed.as_ref(), cluster);
        put(&mut sorted, pool, cluster, at, removed, now);
        let in_pool = cluster.deleting.is_none() && !cluster.marked && cluster.claim.is_none();
        if in_pool {
            match cluster.version.as_deref() {
                None | Some("") => sorted.unknown.push(at),
                Some(made) if made != version || removed || updated(pool, cluster) => {
                    sorted.mismatched.push(at);
                }
                Some(_) => {}
            }
        }
    }
    let waits = |at: &ClaimId| state.claims.get(*at).is_some_and(Claim::waits);
    sorted.waiting = members.claims.into_iter().filter(waits).collect();
    let age = |at: &ClusterId| state.clusters.get(*at).map(|cluster| cluster.created);
    // Members come in order of insertion, and the sorts are stable: that breaks ties.
    for oldest_first in [
        &mut sorted.standby,
        &mut sorted.ready,
        &mut sorted.broken,
        &mut sorted.unknown,
        &mut sorted.mismatched,
    ] {
        oldest_first.sort_by_key(age);
    }
    sorted.installing.sort_by_key(age);
    sorted.installing.reverse();
    sorted.waiting.sort_by_key(|at| state.claims.get(*at).map(|claim| claim.created));
    sorted
}

fn put(
    sorted: &mut Buckets,
    pool: &ClusterPool,
    cluster: &Cluster,
    at: ClusterId,
    removed: bool,
    now: Time,
) {
    if cluster.claim.is_some() {
        sorted.claimed.push(at);
    }
    if cluster.deleting.is_some() {
        sorted.unclaimed_deleting += usize::from(cluster.claim.is_none());
        sorted.deleting.push(at);
    } else if cluster.marked || (cluster.claim.is_none() && removed) {
        sorted.marked.push(at);
    } else if cluster.claim.is_some() {
    } else if is_broken(pool, cluster, now) {
        sorted.broken.push(at);
    } else if !cluster.installed() {
        sorted.installing.push(at);
    } else if cluster.power.runs() {
        sorted.ready.push(at);
    } else {
        sorted.standby.push(at);
    }
}

/// Whether its customization is no longer in the inventory.
fn removed(listed: Option<&HashSet<&str>>, cluster: &Cluster) -> bool {
    let name = cluster.customization.as_deref();
    listed.zip(name).is_some_and(|(listed, name)| !listed.contains(name))
}

/// Whether its customization was changed since.
fn updated(pool: &ClusterPool, cluster: &Cluster) -> bool {
    let entry = cluster.customization.as_ref().and_then(|name| pool.status.inventory.get(name));
    entry.is_some_and(|entry| entry.status == EntryStatus::ToBeUpdated)
}

pub fn is_broken(pool: &ClusterPool, cluster: &Cluster, now: Time) -> bool {
    cluster.stopped || timeout(pool, cluster).is_some_and(|end| now >= end)
}

/// Whether a cluster that nobody has is on its way from hibernating to running.
fn is_waking(cluster: &Cluster) -> bool {
    let called = cluster.wants() == Power::Running && cluster.deleting.is_none();
    let looked_after = called && cluster.claim.is_none() && !cluster.paused;
    cluster.installed() && cluster.power.waking() && looked_after
}

/// When a cluster that is waking counts as broken. With a resumeTimeout its whole waking counts.
/// Without one only the present step does, and only once its machines were told to start: an outage of
/// the platform must break no standby.
fn timeout(pool: &ClusterPool, cluster: &Cluster) -> Option<Time> {
    if !is_waking(cluster) {
        return None;
    }
    if let Some(limit) = pool.resume_timeout() {
        return Some(cluster.awake_since?.plus(limit));
    }
    if matches!(cluster.power, Power::Starting | Power::FailedToStart) {
        return None;
    }
    Some(cluster.power_since?.plus(pool.usual_resume_timeout()))
}

/// When a cluster that is waking has kept a claim waiting for so long that the next standby is woken
/// for that claim, too.
pub fn passed_over_at(pool: &ClusterPool, cluster: &Cluster) -> Option<Time> {
    let awake = cluster.awake_since.filter(|_| is_waking(cluster))?;
    // What was passed over in an earlier waking may be so again.
    let is_passed_over = cluster.passed_over.is_some_and(|passed| passed >= awake);
    (!is_passed_over).then(|| awake.plus(pool.wake_next_after()))
}

/// The instants at which waking clusters of a pool count as broken, or as too slow for the claims
/// that wait.
pub fn timeouts(state: &State, pool: &ClusterPool) -> Vec<Time> {
    let members = state.members(&pool.key());
    let waits = |claim: &ClaimId| state.claims.get(*claim).is_some_and(Claim::waits);
    let claims_wait = members.claims.iter().any(waits);
    let clusters = members.clusters.into_iter().filter_map(|at| state.clusters.get(at));
    let instants = clusters.flat_map(|cluster| {
        let passed_over = passed_over_at(pool, cluster).filter(|_| claims_wait);
        [timeout(pool, cluster), passed_over].into_iter().flatten()
    });
    instants.collect()
}
