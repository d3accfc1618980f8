//! Who may hold what, over objects that come together: one holder each.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::model::object::Object;
use crate::model::refusal::Refusal;

/// Refuses a second cluster of a name, of a name in DNS, of a claim or of a customization.
pub fn one_holder_each(objects: &[Object]) -> Result<(), Refusal> {
    let mut names = HashMap::new();
    let mut domains = HashMap::new();
    let mut claims = HashMap::new();
    let mut customizations = HashMap::new();
    let mut clusters = HashMap::new();
    let mut preserved = HashMap::new();
    let there = objects.iter().filter_map(|one| match one {
        Object::ClusterDeployment(one) => Some(&one.name),
        _ => None,
    });
    let there: HashSet<&String> = there.collect();
    for object in objects {
        let who = object.key().to_string();
        match object {
            Object::ClusterClaim(one) => {
                // Of two claims of a cluster that is there, that cluster says whose it is.
                let cluster = one.cluster.as_ref().filter(|name| !there.contains(name));
                take(&mut clusters, cluster, &who, |name| format!("cluster {name}"))?;
            }
            Object::Customization(one) if one.status.preserved => {
                let holder = one.status.cluster_deployment_ref.as_ref().map(|one| &one.name);
                take(&mut preserved, holder, &who, |name| format!("the lease of cluster {name}"))?;
            }
            _ => {}
        }
        let Object::ClusterDeployment(one) = object else { continue };
        let pool = one.pool.as_ref().map(|pool| pool.namespace.as_str()).unwrap_or_default();
        take(&mut names, Some(&one.name), &who, |name| format!("the name {name}"))?;
        let domain = (&one.cluster_name, &one.base_domain);
        take(&mut domains, Some(domain), &who, |(name, domain)| format!("{name}.{domain}"))?;
        let claim = one.claim.as_ref().map(|claim| (pool, claim));
        take(&mut claims, claim, &who, |(_, claim)| format!("claim {claim}"))?;
        let lease = one.customization.as_ref().map(|name| (pool, name));
        take(&mut customizations, lease, &who, |(_, name)| format!("customization {name}"))?;
    }
    Ok(())
}

fn take<K: Eq + Hash + Copy>(
    taken: &mut HashMap<K, String>,
    what: Option<K>,
    who: &str,
    name: impl Fn(K) -> String,
) -> Result<(), Refusal> {
    let Some(what) = what else { return Ok(()) };
    match taken.insert(what, who.to_owned()) {
        None => Ok(()),
        Some(first) => {
            Err(Refusal::conflict(format!("`{first}` and `{who}` both hold {}", name(what)))
                .because("nothing is ever held twice; take it from one of them in the file"))
        }
    }
}
