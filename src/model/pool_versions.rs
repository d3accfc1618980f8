//! The versions of pools, and those that were computed for a state: a pass asks for them again and
//! again. A cluster that was made from another version of its pool is stale; what happens to it is not
//! decided here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::hash::fnv1a;
use super::meta::{Key, LocalRef};
use super::platform::Platform;
use super::pool::{ClusterPool, PoolSpec};

/// The versions that were computed so far, by the keys of their pools.
#[derive(Debug, Default)]
pub struct PoolVersions {
    computed: RefCell<HashMap<Key, ComputedVersion>>,
}

/// A version, and all of the spec that it follows from.
#[derive(Debug)]
struct ComputedVersion {
    platform: Platform,
    base_domain: String,
    image_set_ref: LocalRef,
    install_config_secret_template_ref: Option<LocalRef>,
    customization_ref: Option<LocalRef>,
    has_inventory: bool,
    version: Rc<str>,
}

impl PoolVersions {
    /// The version of a pool, which is computed only if the spec of the pool is not what it was.
    pub fn get(&self, pool: &ClusterPool) -> Rc<str> {
        let key = pool.key();
        if let Some(computed) = self.computed.borrow().get(&key)
            && computed.follows_from(&pool.spec)
        {
            return Rc::clone(&computed.version);
        }
        let version: Rc<str> = pool_version(pool).into();
        let computed = ComputedVersion::new(&pool.spec, Rc::clone(&version));
        self.computed.borrow_mut().insert(key, computed);
        version
    }
}

impl ComputedVersion {
    fn new(spec: &PoolSpec, version: Rc<str>) -> Self {
        Self {
            platform: spec.platform.clone(),
            base_domain: spec.base_domain.clone(),
            image_set_ref: spec.image_set_ref.clone(),
            install_config_secret_template_ref: spec.install_config_secret_template_ref.clone(),
            customization_ref: spec.customization_ref.clone(),
            has_inventory: spec.inventory.is_some(),
            version,
        }
    }

    fn follows_from(&self, spec: &PoolSpec) -> bool {
        self.platform == spec.platform
            && self.base_domain == spec.base_domain
            && self.image_set_ref == spec.image_set_ref
            && self.install_config_secret_template_ref == spec.install_config_secret_template_ref
            && self.customization_ref == spec.customization_ref
            && self.has_inventory == spec.inventory.is_some()
    }
}

/// The version of a pool: 16 hexadecimal digits, a hash over the inputs that Hive hashes. A field
/// that poolctl learns later does not change it, because absent fields are not hashed. So no
/// cluster is replaced just because poolctl was upgraded.
pub fn pool_version(pool: &ClusterPool) -> String {
    let spec = &pool.spec;
    let inputs = serde_json::json!({
        "platform": spec.platform,
        "baseDomain": spec.base_domain,
        "imageSetRef": spec.image_set_ref,
        "installConfigSecretTemplateRef": spec.install_config_secret_template_ref,
        "customizationRef": spec.customization_ref,
        "hasInventory": spec.inventory.is_some(),
    });
    format!("{:016x}", fnv1a(inputs.to_string().bytes()))
}
