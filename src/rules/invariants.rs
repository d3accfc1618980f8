//! What must always hold, with a message; the database's constraints stand behind it.

use std::collections::HashMap;

use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::addresses;
use super::data_templates;
use super::hosts::are_different;
use super::infra_envs;

/// Looks at what changed: nothing is held twice, both ends of a link agree.
pub fn invariants(state: &State) -> Result<(), Refusal> {
    let mut claims = HashMap::new();
    let mut names = HashMap::new();
    for cluster in state.clusters.difference().filter_map(|change| change.after) {
        let dns = (&cluster.cluster_name, &cluster.base_domain);
        if let Some(other) = names.insert(dns, &cluster.name) {
            return Err(Refusal::conflict(format!(
                "clusters `{other}` and `{}` would both be {}.{}",
                cluster.name, dns.0, dns.1
            )));
        }
        let Some(key) = cluster.claim_key() else {
            continue;
        };
        if let Some(other) = claims.insert(key.clone(), &cluster.name) {
            let name = &cluster.name;
            return Err(Refusal::conflict(format!(
                "clusters `{other}` and `{name}` would both be held by claim `{key}`"
            )));
        }
    }
    for one in state.customizations.difference().filter_map(|change| change.after) {
        let Some(holder) = &one.holder else { continue };
        let cluster = state.cluster(&holder.cluster).and_then(|at| state.clusters.get(at));
        let disagrees = |name: &str| name != one.metadata.name;
        if cluster.is_some_and(|one| one.customization.as_deref().is_none_or(disagrees)) {
            return Err(Refusal::conflict(format!(
                "customization `{}` would be leased to cluster `{}`, which does not use it",
                one.metadata.name, holder.cluster
            )));
        }
    }
    addresses::invariants(state)?;
    data_templates::invariants(state)?;
    infra_envs::are_different(state)?;
    are_different(state)
}
