//! Sorts a pool's clusters by what can be done with them, and finds its claims that wait. It
//! decides nothing about them and changes nothing.

use std::collections::HashSet;

use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase, Power};
use crate::model::inventory::EntryStatus;
use crate::model::pool::ClusterPool;
use crate::model::pool_versions::pool_version;
use crate::model::state::{ClaimId, ClusterId, State};
use crate::model::time::Time;

use super::version::is_recipe_changed;

/// The clusters of a pool and its waiting claims, by their ids in the state. The lists `claimed`,
/// `unknown`, `mismatched` and `failed_stale` overlap with the other lists of clusters, which do not
/// overlap with each other.
#[derive(Debug, Default)]
pub struct SortedPool {
    pub deleting: Vec<ClusterId>,
    /// To be removed by the pool: released, evicted, or their customization left the inventory.
    pub marked: Vec<ClusterId>,
    /// Those that a claim has, also while they are being deleted.
    pub claimed: Vec<ClusterId>,
    /// Newest first, as are the following.
    pub installing: Vec<ClusterId>,
    /// Those that wait for their next attempt to be installed, or for an object that they name.
    pub retrying: Vec<ClusterId>,
    /// Installed and not running. Oldest first, as are the following.
    pub standby: Vec<ClusterId>,
    /// Running, and nobody has them.
    pub ready: Vec<ClusterId>,
    /// Given up, or not awake in time.
    pub broken: Vec<ClusterId>,
    /// Unclaimed ones without a version.
    pub unknown: Vec<ClusterId>,
    /// Unclaimed ones of another version of the pool or of their customization, or whose
    /// customization left the inventory.
    pub mismatched: Vec<ClusterId>,
    /// Unclaimed ones that could not be installed, and that the pool would make otherwise now.
    pub failed_stale: Vec<ClusterId>,
    /// How many of those that are being deleted no claim has.
    pub unclaimed_deleting: usize,
    /// All clusters of the pool.
    pub total: usize,
    /// Claims that wait, first come first.
    pub waiting: Vec<ClaimId>,
}

impl SortedPool {
    /// How many clusters nobody has, broken ones too.
    pub fn unclaimed(&self) -> usize {
        self.usable() + self.retrying.len() + self.broken.len()
    }

    /// How many unclaimed clusters can serve a claim, now or soon. Those whose installation has
    /// failed are not counted: nobody knows whether the next attempt succeeds.
    pub fn usable(&self) -> usize {
        self.installing.len() + self.standby.len() + self.ready.len()
    }

    /// Clusters that are not what the pool would make now.
    pub fn stale(&self) -> impl Iterator<Item = ClusterId> {
        self.unknown.iter().chain(&self.mismatched).copied()
    }

    /// Puts a cluster in the one list that says what the pool can do with it. A claimed cluster is
    /// also in `claimed`, whatever else it is.
    fn put(
        &mut self,
        cluster_id: ClusterId,
        cluster: &Cluster,
        is_unlisted: bool,
        is_broken: bool,
    ) {
        let is_claimed = cluster.claim.is_some();
        if is_claimed {
            self.claimed.push(cluster_id);
        }
        if cluster.deleting.is_some() {
            self.unclaimed_deleting += usize::from(!is_claimed);
            self.deleting.push(cluster_id);
        } else if cluster.marked || (is_unlisted && !is_claimed) {
            self.marked.push(cluster_id);
        } else if is_claimed {
            // It belongs to its user: the pool does nothing with it.
        } else if is_broken {
            self.broken.push(cluster_id);
        } else if cluster.phase() == Phase::Retrying || cluster.lacks_named_object() {
            self.retrying.push(cluster_id);
        } else if !cluster.is_installed() {
            self.installing.push(cluster_id);
        } else if cluster.power.is_running() {
            self.ready.push(cluster_id);
        } else {
            self.standby.push(cluster_id);
        }
    }

    /// Members come in the order in which they were made, and the sorts are stable: that breaks ties.
    fn order_by_age(&mut self, state: &State) {
        for clusters in [
            &mut self.installing,
            &mut self.retrying,
            &mut self.standby,
            &mut self.ready,
            &mut self.broken,
            &mut self.unknown,
            &mut self.mismatched,
            &mut self.failed_stale,
        ] {
            clusters.sort_by_key(|cluster_id| {
                state.clusters.get(*cluster_id).map(|cluster| cluster.created)
            });
        }
        self.installing.reverse();
        self.retrying.reverse();
        self.waiting.sort_by_key(|claim_id| state.claims.get(*claim_id).map(|claim| claim.created));
    }
}

/// Sorts the clusters of a pool and finds the claims that wait. Which waking clusters count as
/// broken depends on `now`.
pub fn sort_pool(state: &State, pool: &ClusterPool, now: Time) -> SortedPool {
    let version = state.pool_versions.get(pool);
    let inventory = pool.spec.inventory.as_ref();
    let listed: Option<HashSet<&str>> =
        inventory.map(|entries| entries.iter().map(|entry| entry.name.as_str()).collect());
    let members = state.members(&pool.key());
    let mut sorted = SortedPool::default();
    for cluster_id in members.clusters {
        let Some(cluster) = state.clusters.get(cluster_id) else { continue };
        sorted.total += 1;
        let is_unlisted = is_unlisted(listed.as_ref(), cluster);
        sorted.put(cluster_id, cluster, is_unlisted, is_broken(pool, cluster, now));
        // Clusters that go, or that have a user, are never replaced for being stale.
        if cluster.deleting.is_some() || cluster.marked || cluster.claim.is_some() {
            continue;
        }
        match cluster.version.as_deref() {
            None | Some("") => sorted.unknown.push(cluster_id),
            Some(made_from)
                if *made_from != *version
                    || is_unlisted
                    || is_customization_updated(pool, cluster) =>
            {
                sorted.mismatched.push(cluster_id);
            }
            Some(_) => {}
        }
        if !is_unlisted && is_failed_stale(state, pool, cluster) {
            sorted.failed_stale.push(cluster_id);
        }
    }
    sorted.waiting = members.claims;
    sorted.waiting.retain(|claim_id| does_claim_wait(state, *claim_id));
    sorted.order_by_age(state);
    sorted
}

/// Whether its customization is no longer in the inventory of the pool.
fn is_unlisted(listed: Option<&HashSet<&str>>, cluster: &Cluster) -> bool {
    let customization = cluster.customization.as_deref();
    listed.zip(customization).is_some_and(|(listed, name)| !listed.contains(name))
}

/// Whether an unclaimed cluster could not be installed, not yet, or lacks an object that it names,
/// and its pool would make it otherwise now. Nothing is lost when it is replaced. A paused cluster is left as it is.
pub fn is_failed_stale(state: &State, pool: &ClusterPool, cluster: &Cluster) -> bool {
    let has_failed = matches!(cluster.phase(), Phase::Retrying | Phase::Broken);
    let cannot_be_used = has_failed || cluster.lacks_named_object();
    if !cannot_be_used || cluster.claim.is_some() || cluster.marked || cluster.paused {
        return false;
    }
    cluster.version.as_deref() != Some(pool_version(pool).as_str())
        || is_customization_updated(pool, cluster)
        || is_recipe_changed(state, pool, cluster.recipe.as_deref())
}

/// Whether its customization was changed since the cluster was made.
fn is_customization_updated(pool: &ClusterPool, cluster: &Cluster) -> bool {
    let entry = cluster.customization.as_ref().and_then(|name| pool.status.inventory.get(name));
    entry.is_some_and(|entry| entry.status == EntryStatus::ToBeUpdated)
}

fn does_claim_wait(state: &State, claim_id: ClaimId) -> bool {
    state.claims.get(claim_id).is_some_and(Claim::is_waiting)
}

/// Whether a cluster is of no use to its pool: it was given up, or is not awake in time.
pub fn is_broken(pool: &ClusterPool, cluster: &Cluster, now: Time) -> bool {
    cluster.stopped || counts_as_broken_at(pool, cluster).is_some_and(|end| now >= end)
}

/// Whether a cluster that nobody has is on its way from hibernating to running.
fn is_waking(cluster: &Cluster) -> bool {
    let is_called = cluster.wanted_power() == Power::Running && cluster.deleting.is_none();
    let is_looked_after = is_called && cluster.claim.is_none() && !cluster.paused;
    cluster.is_installed() && cluster.power.is_waking() && is_looked_after
}

/// When a cluster that is waking counts as broken. With a resumeTimeout its whole waking counts.
/// Without one only the present step does. As long as its machines are not started, only the time
/// counts in which the platform is known to answer: an outage must break no standby.
fn counts_as_broken_at(pool: &ClusterPool, cluster: &Cluster) -> Option<Time> {
    if !is_waking(cluster) {
        return None;
    }
    if let Some(limit) = pool.resume_timeout() {
        return Some(cluster.awake_since?.plus(limit));
    }
    let since = if cluster.power.is_being_started() {
        cluster.platform_answers_since
    } else {
        cluster.power_since
    };
    Some(since?.plus(pool.usual_resume_timeout()))
}

/// When a cluster has been waking for so long that the next standby is woken, too.
pub fn passed_over_at(pool: &ClusterPool, cluster: &Cluster) -> Option<Time> {
    if !is_waking(cluster) {
        return None;
    }
    let awake_since = cluster.awake_since?;
    // A cluster that was passed over in an earlier waking may be passed over again.
    if cluster.passed_over.is_some_and(|passed_over| passed_over >= awake_since) {
        return None;
    }
    Some(awake_since.plus(pool.wake_next_after()))
}

/// The instants at which waking clusters of a pool count as broken, or as too slow.
pub fn waking_deadlines(state: &State, pool: &ClusterPool) -> Vec<Time> {
    let members = state.members(&pool.key());
    let mut deadlines = Vec::new();
    for cluster in members.clusters.into_iter().filter_map(|id| state.clusters.get(id)) {
        deadlines.extend(counts_as_broken_at(pool, cluster));
        deadlines.extend(passed_over_at(pool, cluster));
    }
    deadlines
}
