//! Chooses what of the state a command loads and plans: the scope that its objects belong to, and
//! what it needs beyond that scope.

use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::store::{NeededObject, Store};

/// An object that a command edits, whether the state has it already or not.
pub struct EditedObject {
    pub kind: Kind,
    pub key: Key,
    /// The pool that the edited claim names, in the namespace of the claim. The store does not know
    /// it if the claim is new or is moved to another pool.
    pool_of_claim: Option<String>,
}

impl EditedObject {
    /// An object that is in the state, or a new one that is not a claim.
    pub fn new(kind: Kind, key: Key) -> Self {
        Self { kind, key, pool_of_claim: None }
    }

    /// An object as it is going to be put or deleted.
    pub fn from_object(object: &Object) -> Self {
        let pool_of_claim = match object {
            Object::ClusterClaim(claim) => Some(claim.pool.clone()),
            _ => None,
        };
        Self { kind: object.kind(), key: object.key(), pool_of_claim }
    }
}

/// The scope in which objects are edited: the pools that they are, belong to, or are named by. It
/// is the whole state for a cluster without a pool, and for a host of such a cluster, because no
/// pool's scope has them.
pub fn scope_of(store: &Store, objects: &[EditedObject]) -> Result<Scope, Refusal> {
    let mut pools = Vec::new();
    let mut stored_pools = None;
    for EditedObject { kind, key, pool_of_claim } in objects {
        match kind {
            Kind::ClusterPool => pools.push(key.clone()),
            Kind::ClusterClaim => {
                let named_pool = pool_of_claim.as_deref();
                pools.extend(named_pool.map(|pool| Key::new(&*key.namespace, pool)));
                pools.extend(store.find_pool_of(Kind::ClusterClaim, key)?);
            }
            Kind::ClusterDeployment => match store.find_pool_of(Kind::ClusterDeployment, key)? {
                Some(pool) => pools.push(pool),
                None => return Ok(Scope::Whole),
            },
            Kind::BareMetalHost => {
                let Some(cluster) = store.find_cluster_of_host(key)? else { continue };
                match store.find_pool_of(Kind::ClusterDeployment, &cluster)? {
                    Some(pool) => pools.push(pool),
                    None => return Ok(Scope::Whole),
                }
            }
            Kind::ClusterImageSet | Kind::Customization
                if store.is_awaited_by_cluster(&key.name)? =>
            {
                return Ok(Scope::Whole);
            }
            Kind::Secret | Kind::ConfigMap | Kind::Customization | Kind::ClusterImageSet => {
                // All pools are read at most once, and only if such an object is edited.
                let candidates = match stored_pools.take() {
                    Some(candidates) => candidates,
                    None => store.list_all::<ClusterPool>()?,
                };
                for candidate in &candidates {
                    if refers_to(candidate, *kind, key) {
                        pools.push(candidate.key());
                    }
                }
                stored_pools = Some(candidates);
            }
            _ => {}
        }
    }
    pools.sort_unstable();
    pools.dedup();
    Ok(Scope::Pools(pools))
}

/// Whether a pool refers to an image set, a secret, a ConfigMap or a customization. Image sets have
/// no namespace; the others are in that of the pool.
fn refers_to(pool: &ClusterPool, kind: Kind, key: &Key) -> bool {
    let spec = &pool.spec;
    let name = &key.name;
    if kind == Kind::ClusterImageSet {
        return spec.image_set_ref.name == *name;
    }
    if pool.metadata.namespace != key.namespace {
        return false;
    }
    if kind == Kind::ConfigMap {
        return pool.config_maps().contains(name);
    }
    if kind == Kind::Secret {
        return is_reference_to(spec.pull_secret_ref.as_ref(), name)
            || is_reference_to(spec.install_config_secret_template_ref.as_ref(), name)
            || pool.credentials_secret() == Some(name.as_str())
            || spec.platform.certificates() == Some(name.as_str())
            || pool.ssh_key_secret() == Some(name.as_str())
            || pool.variable_secrets().contains(name);
    }
    spec.inventory.iter().flatten().any(|entry| entry.name == *name)
        || is_reference_to(spec.customization_ref.as_ref(), name)
}

fn is_reference_to(reference: Option<&LocalRef>, name: &str) -> bool {
    reference.is_some_and(|reference| reference.name == name)
}

/// The objects themselves: an edit needs them also where they are outside of the scope.
pub fn needs_of(objects: &[EditedObject]) -> Vec<NeededObject> {
    objects
        .iter()
        .map(|object| NeededObject { kind: object.kind, key: object.key.clone() })
        .collect()
}
