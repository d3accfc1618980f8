//! Refuses objects that come together and hold one thing twice: a name, a name in DNS, a claim or a
//! customization. Looks at the given objects only, never at the state.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::model::object::Object;
use crate::model::refusal::Refusal;

/// Refuses a second holder of a cluster, of its name, of its name in DNS, of a claim or of a
/// customization.
pub fn check_single_holders(objects: &[Object]) -> Result<(), Refusal> {
    let mut names = HashMap::new();
    let mut domains = HashMap::new();
    let mut claims = HashMap::new();
    let mut customizations = HashMap::new();
    let mut claimed_clusters = HashMap::new();
    let mut preserved_leases = HashMap::new();
    let cluster_names = names_of_clusters(objects);
    for object in objects {
        let holder = object.key().to_string();
        match object {
            Object::ClusterClaim(claim) => {
                // If the cluster is among the objects, it says itself which claim holds it.
                let cluster = claim.cluster.as_ref().filter(|name| !cluster_names.contains(name));
                hold(&mut claimed_clusters, cluster, &holder, |name| format!("cluster {name}"))?;
            }
            Object::Customization(customization) if customization.status.preserved => {
                let cluster = customization.status.cluster_deployment_ref.as_ref();
                let name = cluster.map(|reference| &reference.name);
                hold(&mut preserved_leases, name, &holder, |name| {
                    format!("the lease of cluster {name}")
                })?;
            }
            Object::ClusterDeployment(cluster) => {
                let pool_namespace =
                    cluster.pool.as_ref().map(|pool| pool.namespace.as_str()).unwrap_or_default();
                hold(&mut names, Some(&cluster.name), &holder, |name| format!("the name {name}"))?;
                let domain = (&cluster.cluster_name, &cluster.base_domain);
                hold(&mut domains, Some(domain), &holder, |(name, base_domain)| {
                    format!("{name}.{base_domain}")
                })?;
                let claim = cluster.claim.as_ref().map(|claim| (pool_namespace, claim));
                hold(&mut claims, claim, &holder, |(_, claim)| format!("claim {claim}"))?;
                let customization = cluster.customization.as_ref();
                let customization = customization.map(|name| (pool_namespace, name));
                hold(&mut customizations, customization, &holder, |(_, name)| {
                    format!("customization {name}")
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The names of the clusters among some objects.
fn names_of_clusters(objects: &[Object]) -> HashSet<&String> {
    let mut names = HashSet::new();
    for object in objects {
        if let Object::ClusterDeployment(cluster) = object {
            names.insert(&cluster.name);
        }
    }
    names
}

/// Notes that `holder` has a resource, and refuses if another holder has it already.
fn hold<K: Eq + Hash + Copy>(
    holders: &mut HashMap<K, String>,
    resource: Option<K>,
    holder: &str,
    describe: impl Fn(K) -> String,
) -> Result<(), Refusal> {
    let Some(resource) = resource else { return Ok(()) };
    let Some(first_holder) = holders.insert(resource, holder.to_owned()) else { return Ok(()) };
    let resource = describe(resource);
    Err(Refusal::conflict(format!("`{first_holder}` and `{holder}` both hold {resource}"))
        .because("only one object can hold it; remove it from the other one in the file"))
}
