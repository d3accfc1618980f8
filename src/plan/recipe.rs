//! Says what a cluster is made from: the install-config of its pool, before and after the patches
//! of a customization. It makes nothing and changes nothing.

use serde_json::Value;

use crate::model::customization::CustomizationSpec;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::render::install_config::{self, Rendered};
use crate::rules;

/// The longest label of DNS, and so the longest name of a cluster.
const LONGEST_LABEL: usize = 63;
/// How many letters of a long pool's name are kept in the names of its clusters.
const KEPT_OF_LONG_NAME: usize = 48;

/// The install-config of a pool before any patch: its template, or one made from its platform. The
/// error is a sentence that fits a condition.
pub fn unpatched_install_config(state: &State, pool: &ClusterPool) -> Result<Value, String> {
    let Some(reference) = &pool.spec.install_config_secret_template_ref else {
        return install_config::render_base(&pool.spec, None);
    };
    let key = Key::new(&*pool.metadata.namespace, &*reference.name);
    let template = state.templates.get(&key).ok_or_else(|| describe_missing_template(&key.name))?;
    install_config::render_base(&pool.spec, Some(template))
}

fn describe_missing_template(secret: &str) -> String {
    format!(
        "install config template secret: secrets \"{secret}\" not found, or it has no \
         install-config.yaml"
    )
}

/// Renders the install-config of a cluster, and refuses names that cannot be in DNS.
pub fn render_install_config(
    base: &Value,
    name: &str,
    patches: Option<&CustomizationSpec>,
    pool: &ClusterPool,
) -> Result<Rendered, String> {
    let rendered = install_config::render(base, name, patches, pool)?;
    // What does not look like a name may be a secret that went astray: it is not repeated.
    if !is_label(&rendered.cluster_name) {
        let why = "use at most 63 of a-z, 0-9 and dashes, no dash first or last";
        return Err(format!(
            "/metadata/name of the patched install-config is not a valid name: {why}"
        ));
    }
    if !rendered.base_domain.split('.').all(is_label) {
        return Err("/baseDomain of the patched install-config is not a domain".into());
    }
    Ok(rendered)
}

fn is_label(word: &str) -> bool {
    rules::check_dns_label("a name", word).is_ok()
}

/// Renders what the next cluster of a pool would get. Its random suffix is left open as `xxxxx`.
pub fn render_next_cluster(
    state: &State,
    pool: &ClusterPool,
    patches: Option<&CustomizationSpec>,
) -> Result<Rendered, String> {
    let base = unpatched_install_config(state, pool)?;
    render_install_config(&base, &cluster_name(&pool.metadata.name, "xxxxx"), patches, pool)
}

/// `POOL-SUFFIX`. A cluster's name is a label of DNS, so a long pool name is cut, and a hash of the
/// whole name tells it from others that begin alike.
pub fn cluster_name(pool: &str, suffix: &str) -> String {
    if pool.len() + 1 + suffix.len() <= LONGEST_LABEL {
        return format!("{pool}-{suffix}");
    }
    // FNV-1a of 32 bits: names of existing clusters were made with it.
    let mut hash = 0x811c_9dc5_u32;
    for byte in pool.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{}-{hash:08x}-{suffix}", &pool[..KEPT_OF_LONG_NAME])
}
