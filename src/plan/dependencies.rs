//! What a pool refers to by name must be there before it can make a cluster.

use crate::model::driver::{Driver, FAKE};
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;

use super::recipe::recipe;

/// What is missing, in Hive's words.
pub fn missing(state: &State, pool: &ClusterPool) -> Vec<String> {
    let spec = &pool.spec;
    let mut found = Vec::new();
    let image_set = &spec.image_set_ref.name;
    if state.image_sets.find(&Key::new("", image_set)).is_none() {
        let kind = "clusterimagesets.hive.openshift.io";
        found.push(format!("cluster image set: {kind} \"{image_set}\" not found"));
    }
    let name = |reference: &Option<crate::model::meta::LocalRef>| {
        reference.as_ref().map(|one| one.name.clone()).filter(|name| !name.is_empty())
    };
    let secrets = [
        ("pull secret", name(&spec.pull_secret_ref), Some(".dockerconfigjson")),
        (
            "install config template secret",
            name(&spec.install_config_secret_template_ref),
            Some("install-config.yaml"),
        ),
        ("credentials secret", pool.credentials().map(str::to_owned), None),
    ];
    for (what, name, key) in secrets {
        let Some(name) = name else { continue };
        match state.secrets.by_key(&Key::new(&*pool.metadata.namespace, &*name)) {
            None => found.push(format!("{what}: secrets \"{name}\" not found")),
            Some(secret) => {
                if let Some(key) = key.filter(|key| !secret.values.contains_key(*key)) {
                    found.push(format!("{what}: secrets \"{name}\" has no key \"{key}\""));
                }
            }
        }
    }
    if let Some(name) = name(&spec.customization_ref)
        && state.customizations.find(&Key::new(&*pool.metadata.namespace, &*name)).is_none()
    {
        found.push(format!("pool-wide customizationRef {name} not found"));
    }
    let template = spec.install_config_secret_template_ref.as_ref();
    let template = template.map(|one| Key::new(&*pool.metadata.namespace, &*one.name));
    let there = template.is_none_or(|key| state.templates.contains_key(&key));
    if let Some(why) = recipe(state, pool).err().filter(|_| there) {
        found.push(format!("install config template secret: {why}"));
    }
    if pool.driver() == Driver::Missing {
        found.push(format!(
            "driver: no driver of this build serves platform {}; annotate the pool's clusters \
             (spec.annotations) with {FAKE}: \"true\" for simulated ones",
            spec.platform.name()
        ));
    }
    if pool.driver() == Driver::Agent && !pool.picks_hosts() {
        found.push(format!(
            "platform {}: a pool of hosts needs platform agentBareMetal, whose agentSelector says which",
            spec.platform.name()
        ));
    }
    found
}

/// Hive's way to write one or several errors.
pub fn joined(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
