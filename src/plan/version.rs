//! The version of a pool: clusters made from another one are stale.

use crate::model::hash::fnv1a;
use crate::model::pool::ClusterPool;

/// 16 hexadecimal digits over the inputs that Hive hashes. A field that poolctl learns later does
/// not change it: absent fields are not written, so nothing refreshes by itself on an upgrade.
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
