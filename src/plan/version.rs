//! The version of a pool: clusters made from another one are stale.

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
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in inputs.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}
