//! Computes the version of a pool from its spec. Clusters that were made from another version are
//! stale; it does not decide what happens to them.

use crate::model::hash::fnv1a;
use crate::model::pool::ClusterPool;

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
