//! Computes the versions of what the spec of a pool only names. A cluster that could not be installed
//! from earlier ones is worth another try; it does not decide what happens to it.

use crate::model::annotations::{DRIVER, INSTALL_TIMEOUT, MANIFESTS, PARAMETERS};
use crate::model::hash::fnv1a;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;

/// Annotations of a pool's clusters that decide how they are installed.
const INSTALLATION_ANNOTATIONS: [&str; 4] = [DRIVER, PARAMETERS, INSTALL_TIMEOUT, MANIFESTS];

/// Versions of what a cluster is installed from and the version of its pool does not count: the
/// release image, the Secrets with the template, the pull secret, and the credentials and
/// certificates of the platform, the variables of the installer, ConfigMaps and the driver. None
/// while any of what the pool only names is not there. A healthy cluster is not stale because this
/// has changed, but one that could not be installed is worth another try with what is there now.
pub fn recipe_of(state: &State, pool: &ClusterPool) -> Option<String> {
    let spec = &pool.spec;
    let image_set = state.image_sets.by_key(&Key::new("", &*spec.image_set_ref.name))?;
    let mut versions = vec![image_set.spec.release_image.clone()];
    let references = [&spec.install_config_secret_template_ref, &spec.pull_secret_ref];
    let named = references.into_iter().flatten().map(|reference| reference.name.as_str());
    let of_platform = [spec.platform.credentials(), spec.platform.certificates()];
    let names = named.chain(of_platform.into_iter().flatten());
    for name in names.filter(|name| !name.is_empty()) {
        let key = Key::new(&*pool.metadata.namespace, name);
        versions.push(state.secrets.by_key(&key)?.metadata.version());
    }
    for name in INSTALLATION_ANNOTATIONS {
        if let Some(value) = spec.annotations.get(name) {
            versions.push(format!("{name}={value}"));
        }
    }
    if !spec.installer_env.is_empty() {
        let variables = serde_json::json!(spec.installer_env).to_string();
        versions.push(format!("{:016x}", fnv1a(variables.bytes())));
    }
    for name in pool.variable_secrets() {
        // A variable may be optional, so that its Secret need not be there.
        if let Some(secret) = state.secrets.by_key(&Key::new(&*pool.metadata.namespace, name)) {
            versions.push(secret.metadata.version());
        }
    }
    for name in pool.config_maps() {
        let key = Key::new(&*pool.metadata.namespace, name);
        if let Some(config_map) = state.config_maps.by_key(&key) {
            versions.push(config_map.metadata.version());
        }
    }
    Some(versions.join(" "))
}

/// Whether something that a pool only names was changed since this recipe of it. It was not as long
/// as something is missing, or if it is not known what there was.
pub fn is_recipe_changed(state: &State, pool: &ClusterPool, recipe: Option<&str>) -> bool {
    recipe.zip(recipe_of(state, pool)).is_some_and(|(before, recipe)| before != recipe)
}
