//! The scope in which objects are edited, and what is loaded for that beyond it.

use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::store::{Need, Store};

/// The scope in which objects are edited: the pools that they are, belong to, or are named by.
pub fn scope_of(store: &Store, objects: &[(Kind, Key, Option<String>)]) -> Result<Scope, Refusal> {
    let mut pools = Vec::new();
    let mut known_pools = None;
    for (kind, key, pool) in objects {
        match kind {
            Kind::ClusterPool => pools.push(key.clone()),
            Kind::ClusterClaim => {
                pools.extend(pool.as_ref().map(|pool| Key::new(&*key.namespace, &**pool)));
                pools.extend(store.pool_of(Kind::ClusterClaim, key)?);
            }
            Kind::ClusterDeployment => match store.pool_of(Kind::ClusterDeployment, key)? {
                Some(pool) => pools.push(pool),
                None => return Ok(Scope::Whole),
            },
            Kind::BareMetalHost => {
                let Some(cluster) = store.consumer_of(key)? else { continue };
                match store.pool_of(Kind::ClusterDeployment, &cluster)? {
                    Some(pool) => pools.push(pool),
                    None => return Ok(Scope::Whole),
                }
            }
            Kind::Secret | Kind::Customization | Kind::ClusterImageSet => {
                // Read once, and only if it is needed.
                let known = match known_pools.take() {
                    Some(known) => known,
                    None => store.all::<ClusterPool>()?,
                };
                let naming = known.iter().filter(|pool| names(pool, *kind, key));
                pools.extend(naming.map(ClusterPool::key));
                known_pools = Some(known);
            }
            _ => {}
        }
    }
    pools.sort();
    pools.dedup();
    Ok(Scope::Pools(pools))
}

/// Whether a pool refers to an object.
fn names(pool: &ClusterPool, kind: Kind, key: &Key) -> bool {
    let (spec, name) = (&pool.spec, Some(key.name.as_str()));
    let of = |one: &Option<LocalRef>| one.as_ref().map(|one| one.name.clone());
    if kind == Kind::ClusterImageSet {
        return Some(spec.image_set_ref.name.as_str()) == name;
    }
    let secrets = [of(&spec.pull_secret_ref), of(&spec.install_config_secret_template_ref)];
    let listed = spec.inventory.iter().flatten().any(|entry| Some(entry.name.as_str()) == name);
    pool.metadata.namespace == key.namespace
        && match kind {
            Kind::Secret => {
                secrets.iter().any(|one| one.as_deref() == name) || pool.credentials() == name
            }
            _ => listed || of(&spec.customization_ref).as_deref() == name,
        }
}

pub fn needs_of(objects: &[(Kind, Key, Option<String>)]) -> Vec<Need> {
    objects.iter().map(|(kind, key, _)| Need { kind: *kind, key: key.clone() }).collect()
}
