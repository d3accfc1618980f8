//! Explains a customization: who holds it, or why no cluster takes it.

use super::chain::Chain;
use super::cluster::explain_cluster;
use super::evidence::Evidence;
use crate::model::cluster::Cluster;
use crate::model::customization::Customization;
use crate::model::lease::ClusterHolder;
use crate::model::pool::ClusterPool;
use crate::model::state::State;

/// Explains a customization by the cluster that holds it, or by how each pool sees it.
pub fn explain_customization(evidence: &Evidence, customization: &Customization) -> Chain {
    match &customization.holder {
        Some(holder) => explain_lease(evidence, customization, holder),
        None => explain_free_customization(evidence, &customization.metadata.name),
    }
}

/// The cluster that has a customization, if it is still there.
pub fn cluster_of<'a>(state: &'a State, customization: &Customization) -> Option<&'a Cluster> {
    state.clusters.get(state.find_cluster(&customization.holder.as_ref()?.cluster)?)
}

/// Explains a customization that is leased, by the cluster that has it; one of a cluster that was
/// left running stays leased until a person resets it.
fn explain_lease(
    evidence: &Evidence,
    customization: &Customization,
    holder: &ClusterHolder,
) -> Chain {
    let name = &customization.metadata.name;
    let pool = holder.pool.as_ref().map(|pool| format!(" of pool {}", pool.name));
    let first_cause = format!(
        "customization {name} is leased to cluster {}{}",
        holder.cluster,
        pool.unwrap_or_default()
    );
    match cluster_of(&evidence.state, customization) {
        Some(cluster) => explain_cluster(evidence, cluster).preceded_by(first_cause),
        None => Chain::new(
            format!("{first_cause}, which was left running"),
            format!("poolctl customization reset {name}{}", evidence.namespace_option),
        ),
    }
}

/// Explains a customization that nobody has, by how each pool that lists it sees it.
fn explain_free_customization(evidence: &Evidence, name: &str) -> Chain {
    let option = &evidence.namespace_option;
    let first_cause = format!("customization {name} is leased to no cluster");
    let views: Vec<String> =
        evidence.pools.iter().filter_map(|pool| describe_view(pool, name)).collect();
    if views.is_empty() {
        let next = format!("poolctl get pool{option}");
        return Chain::new(first_cause, next).because("no pool has it in its inventory yet");
    }
    let next = format!("poolctl get customization {name} -o yaml{option}");
    Chain::new(first_cause, next).because(views.join("; "))
}

/// How a pool that lists a customization sees it.
fn describe_view(pool: &ClusterPool, customization: &str) -> Option<String> {
    let entry = pool.status.inventory.get(customization)?;
    let status = entry.status.to_string().to_lowercase();
    let view = format!("its status in pool {} is {status}", pool.metadata.name);
    Some(if entry.message.is_empty() { view } else { format!("{view}: {}", entry.message) })
}
