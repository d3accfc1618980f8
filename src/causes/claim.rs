//! Explains a claim: why it has no running cluster, or why it is not gone yet.

use super::chain::Chain;
use super::cluster::explain_cluster;
use super::evidence::Evidence;
use super::pool::explain_pool;
use crate::model::claim::{Claim, ClusterRunning};
use crate::model::cluster::Cluster;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::state::State;
use crate::model::time::Time;

/// Explains a claim by its release, its cluster or its place in the queue. The explanation goes on
/// with the pool or the cluster that the claim waits for.
pub fn explain_claim(evidence: &Evidence, claim: &Claim) -> Chain {
    match (claim.deleting, &claim.cluster) {
        (Some(since), _) => explain_release(evidence, claim, since),
        (None, Some(cluster)) => explain_assignment(evidence, claim, cluster),
        (None, None) => explain_wait(evidence, claim),
    }
}

/// The cluster that a claim has, if it is still there.
pub fn cluster_of<'a>(state: &'a State, claim: &Claim) -> Option<&'a Cluster> {
    state.clusters.get(state.find_cluster(claim.cluster.as_deref()?)?)
}

/// The pool that a claim waits for: to get a cluster from it, or to give the cluster back to a pool
/// that is paused.
pub fn explained_pool<'a>(state: &'a State, claim: &Claim) -> Option<&'a ClusterPool> {
    let pool = state.pools.by_key(&claim.pool_key())?;
    let keeps_cluster = pool.metadata.has_true_annotation(RECONCILE_PAUSE)
        && cluster_of(state, claim).is_some_and(|cluster| cluster.deleting.is_none());
    let waits_for_pool = claim.is_waiting() || (claim.deleting.is_some() && keeps_cluster);
    waits_for_pool.then_some(pool)
}

/// Explains a claim that was released and is not gone, by what keeps its cluster from being
/// destroyed.
fn explain_release(evidence: &Evidence, claim: &Claim, since: Time) -> Chain {
    let activity = evidence.describe_activity("terminating", Some(since));
    let first_cause = format!("claim {} {activity}", claim.name);
    if let Some(pool) = explained_pool(&evidence.state, claim) {
        return explain_pool(evidence, pool).preceded_by(first_cause);
    }
    match cluster_of(&evidence.state, claim) {
        Some(cluster) => explain_cluster(evidence, cluster).preceded_by(first_cause),
        None => Chain::new(first_cause, "poolctl reconcile --wait"),
    }
}

/// Explains a claim with a cluster: what the cluster lacks, or that it runs and until when.
fn explain_assignment(evidence: &Evidence, claim: &Claim, cluster_name: &str) -> Chain {
    let name = &claim.name;
    let option = &evidence.namespace_option;
    let first_cause = format!("claim {name} has cluster {cluster_name}");
    let Some(cluster) = cluster_of(&evidence.state, claim) else {
        let cause = format!("{first_cause}, which is gone");
        return Chain::new(cause, format!("poolctl release {name}{option}"));
    };
    if claim.running != ClusterRunning::Running {
        return explain_cluster(evidence, cluster).preceded_by(first_cause);
    }
    let end = match claim.expires_at() {
        Some(end) => format!("it expires at {end}, in {}", end.since(evidence.now).to_short_text()),
        None => "it does not expire".to_owned(),
    };
    let cause = format!("{first_cause}, which runs; {end}");
    Chain::new(cause, format!("poolctl kubeconfig {name}{option}"))
}

/// Explains a claim without a cluster, by its place in the queue and by the obstacle of its pool.
fn explain_wait(evidence: &Evidence, claim: &Claim) -> Chain {
    let pool_name = &claim.pool;
    let first_cause = format!(
        "claim {} {} in the queue of pool {pool_name} ({})",
        claim.name,
        evidence.describe_activity("waiting", Some(claim.created)),
        evidence.queue_position
    );
    match explained_pool(&evidence.state, claim) {
        Some(pool) => explain_pool(evidence, pool).preceded_by(first_cause),
        None => Chain::new(first_cause, "poolctl get pool -A")
            .because(format!("there is no pool {pool_name} in namespace {}", claim.namespace)),
    }
}
