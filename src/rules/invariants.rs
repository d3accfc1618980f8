//! Refuses a state that must never be, with a message that names the objects. Behind these checks
//! the constraints of the database stand as the wall. Changes nothing.

use std::collections::HashMap;

use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::addresses;
use super::agents;
use super::data_templates;
use super::hosts;
use super::infra_envs;

/// Checks what has changed: nothing is held twice, and both ends of a link agree.
pub fn check_invariants(state: &State) -> Result<(), Refusal> {
    check_clusters(state)?;
    check_claims(state)?;
    check_customizations(state)?;
    addresses::check_invariants(state)?;
    data_templates::check_deletions(state)?;
    infra_envs::check_networks_differ(state)?;
    agents::check_classified_labels(state)?;
    hosts::check_machines_differ(state)
}

/// No two clusters have one name in DNS, and no claim holds two.
fn check_clusters(state: &State) -> Result<(), Refusal> {
    let mut clusters_by_domain = HashMap::new();
    let mut clusters_by_claim = HashMap::new();
    for cluster in state.clusters.difference().filter_map(|change| change.after) {
        let name = &cluster.name;
        let domain = (&cluster.cluster_name, &cluster.base_domain);
        if let Some(twin) = clusters_by_domain.insert(domain, name) {
            let (cluster_name, base_domain) = domain;
            return Err(Refusal::conflict(format!(
                "clusters `{twin}` and `{name}` would both be {cluster_name}.{base_domain}"
            )));
        }
        let Some(claim) = cluster.claim_key() else {
            continue;
        };
        if let Some(twin) = clusters_by_claim.insert(claim.clone(), name) {
            return Err(Refusal::conflict(format!(
                "clusters `{twin}` and `{name}` would both be held by claim `{claim}`"
            )));
        }
    }
    Ok(())
}

/// No two claims hold one cluster.
fn check_claims(state: &State) -> Result<(), Refusal> {
    let mut claims_by_cluster = HashMap::new();
    for claim in state.claims.difference().filter_map(|change| change.after) {
        let Some(cluster) = &claim.cluster else { continue };
        if let Some(twin) = claims_by_cluster.insert(cluster, claim.key()) {
            return Err(Refusal::conflict(format!(
                "claims `{twin}` and `{}` would both hold cluster `{cluster}`",
                claim.key()
            )));
        }
    }
    Ok(())
}

/// A cluster that holds the lease of a customization names that customization.
fn check_customizations(state: &State) -> Result<(), Refusal> {
    for customization in state.customizations.difference().filter_map(|change| change.after) {
        let Some(holder) = &customization.holder else { continue };
        let cluster = state
            .find_cluster(&holder.cluster)
            .and_then(|cluster_id| state.clusters.get(cluster_id));
        let Some(cluster) = cluster else { continue };
        let name = &customization.metadata.name;
        if cluster.customization.as_ref() != Some(name) {
            return Err(Refusal::conflict(format!(
                "customization `{name}` would be leased to cluster `{}`, which does not use it",
                holder.cluster
            )));
        }
    }
    Ok(())
}
