//! What a cluster is made from: the install-config before and after the patches.

use serde_json::Value;

use crate::model::customization::CustomizationSpec;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::render::install_config::{self, Rendered};
use crate::rules;

/// The install-config of a pool before any patch: its template, or one made from its platform.
pub fn recipe(state: &State, pool: &ClusterPool) -> Result<Value, String> {
    let template = pool.spec.install_config_secret_template_ref.as_ref();
    let template = template.map(|one| Key::new(&*pool.metadata.namespace, &*one.name));
    let template = match template {
        Some(key) => Some(state.templates.get(&key).ok_or_else(|| absent(&key.name))?),
        None => None,
    };
    install_config::base(&pool.spec, template)
}

fn absent(template: &str) -> String {
    format!(
        "install config template secret: secrets \"{template}\" not found, or without install-config.yaml"
    )
}

/// The install-config, with a name that can be one in DNS.
pub fn render(
    base: &Value,
    name: &str,
    patches: Option<&CustomizationSpec>,
    pool: &ClusterPool,
) -> Result<Rendered, String> {
    let rendered = install_config::render(base, name, patches, pool)?;
    // What does not look like a name may be a secret that went astray: it is not repeated.
    let is_label = |text: &str| rules::label("a name", text).is_ok();
    if !is_label(&rendered.cluster_name) {
        let why = "a-z, 0-9 and dashes, at most 63, beginning and ending with a letter or digit";
        return Err(format!("/metadata/name of the patched install-config is no name: {why}"));
    }
    if !rendered.base_domain.split('.').all(is_label) {
        return Err("/baseDomain of the patched install-config is not a domain".into());
    }
    Ok(rendered)
}

/// What the next cluster would get, its random name left open.
pub fn trial(
    state: &State,
    pool: &ClusterPool,
    patches: Option<&CustomizationSpec>,
) -> Result<Rendered, String> {
    render(&recipe(state, pool)?, &bounded(&pool.metadata.name, "xxxxx"), patches, pool)
}

/// A cluster's name is a DNS label: a long pool name is cut and told apart by its hash.
pub fn bounded(pool: &str, suffix: &str) -> String {
    if pool.len() + 1 + suffix.len() <= 63 {
        return format!("{pool}-{suffix}");
    }
    let mut hash = 0x811c_9dc5_u32;
    for byte in pool.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{}-{hash:08x}-{suffix}", &pool[..48])
}
