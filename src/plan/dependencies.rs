//! Lists what a pool refers to by name and that is missing: without it the pool cannot make a
//! cluster. It never looks at what clusters have that exist already.

use crate::model::deployment::{DataKey, SSH_PRIVATE_KEY, config_maps_with_manifests};
use crate::model::driver::{Driver, FAKE_CLUSTER};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef};
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::rules::is_installer_variable;

use super::preflight::find_wrong_input;
use super::recipe::unpatched_install_config;

/// What a pool needs and does not have, in Hive's words; empty if nothing is missing.
pub fn missing_dependencies(state: &State, pool: &ClusterPool) -> Vec<String> {
    let mut missing = Vec::new();
    missing.extend(missing_image_set(state, pool));
    missing.extend(missing_secrets(state, pool));
    missing.extend(missing_variables(state, pool));
    missing.extend(missing_manifests(state, pool));
    missing.extend(missing_customization(state, pool));
    missing.extend(template_problem(state, pool));
    missing.extend(driver_problem(pool));
    missing.extend(driver_program_problem(state, pool));
    if missing.is_empty() {
        missing.extend(find_wrong_input(state, pool));
    }
    missing
}

/// Says that the pool's ClusterImageSet is not there, in the words of the API server, as Hive does.
fn missing_image_set(state: &State, pool: &ClusterPool) -> Option<String> {
    let name = &pool.spec.image_set_ref.name;
    if state.image_sets.find(&Key::new("", name)).is_some() {
        return None;
    }
    let kind = "clusterimagesets.hive.openshift.io";
    Some(format!("cluster image set: {kind} \"{name}\" not found"))
}

/// A Secret that a pool may name.
struct SecretUse<'a> {
    /// What it is for, in Hive's words.
    purpose: &'static str,
    /// Its name; none if the pool names none.
    secret: Option<&'a str>,
    /// The key that it must have; none if any will do.
    needed: Option<NeededKey>,
}

/// A key that a Secret must have.
struct NeededKey {
    key: &'static str,
    /// What Hive says of a Secret without it.
    lacking: &'static str,
}

/// Says which Secrets of the pool are not there, or lack the key that their purpose needs.
fn missing_secrets(state: &State, pool: &ClusterPool) -> Vec<String> {
    let spec = &pool.spec;
    let uses = [
        SecretUse {
            purpose: "pull secret",
            secret: referenced_name(spec.pull_secret_ref.as_ref()),
            needed: Some(NeededKey {
                key: ".dockerconfigjson",
                lacking: "pull secret does not contain .dockerconfigjson data",
            }),
        },
        SecretUse {
            purpose: "install config template secret",
            secret: referenced_name(spec.install_config_secret_template_ref.as_ref()),
            needed: Some(NeededKey {
                key: "install-config.yaml",
                lacking: "install-config secret does not contain install-config.yaml data",
            }),
        },
        SecretUse {
            purpose: "credentials secret",
            secret: pool.credentials_secret(),
            needed: None,
        },
        SecretUse {
            purpose: "certificates secret",
            secret: spec.platform.certificates(),
            needed: None,
        },
        SecretUse {
            purpose: "SSH key secret",
            secret: pool.ssh_key_secret(),
            needed: Some(NeededKey {
                key: SSH_PRIVATE_KEY,
                lacking: "SSH key secret does not contain ssh-privatekey data",
            }),
        },
    ];
    let mut missing = Vec::new();
    for SecretUse { purpose, secret, needed } in uses {
        let Some(name) = secret else { continue };
        let Some(secret) = state.secrets.by_key(&Key::new(&*pool.metadata.namespace, name)) else {
            missing.push(format!("{purpose}: secrets \"{name}\" not found"));
            continue;
        };
        if let Some(NeededKey { key, lacking }) = needed
            && !secret.values.contains_key(key)
        {
            missing.push(format!("{purpose}: {lacking}"));
        }
    }
    missing
}

/// Says which variables of the installer have no value, because the object or its key that they take
/// it from is not there. What is not passed on or may be left out is not missing.
fn missing_variables(state: &State, pool: &ClusterPool) -> Vec<String> {
    let mut missing = Vec::new();
    for variable in &pool.spec.installer_env {
        let Some((kind, source)) = variable.value_source() else { continue };
        if source.optional || !is_installer_variable(&variable.name) {
            continue;
        }
        let subject = format!("installer variable {}", variable.name);
        let DataKey { name, key, .. } = source;
        let source_key = Key::new(&*pool.metadata.namespace, &*name);
        let (word, has_key) = if kind == Kind::ConfigMap {
            let config_map = state.config_maps.by_key(&source_key);
            ("configmap", config_map.map(|config_map| config_map.has_text(&key)))
        } else {
            let secret = state.secrets.by_key(&source_key);
            ("secret", secret.map(|secret| secret.values.contains_key(&key)))
        };
        match has_key {
            None => missing.push(format!("{subject}: {word}s \"{name}\" not found")),
            Some(false) => {
                missing.push(format!("{subject}: {word} \"{name}\" does not contain {key} data"));
            }
            Some(true) => {}
        }
    }
    missing
}

/// Says which ConfigMaps with manifests for the clusters are not there.
fn missing_manifests(state: &State, pool: &ClusterPool) -> Vec<String> {
    let mut missing = Vec::new();
    for name in config_maps_with_manifests(&pool.spec.annotations) {
        if state.config_maps.find(&Key::new(&*pool.metadata.namespace, name)).is_none() {
            missing.push(format!("manifests: configmaps \"{name}\" not found"));
        }
    }
    missing
}

/// Says that the customization that all clusters of the pool use is not there.
fn missing_customization(state: &State, pool: &ClusterPool) -> Option<String> {
    let name = referenced_name(pool.spec.customization_ref.as_ref())?;
    let key = Key::new(&*pool.metadata.namespace, name);
    if state.customizations.find(&key).is_some() {
        return None;
    }
    Some(format!("pool-wide customizationRef {name} not found"))
}

/// Why the install-config template cannot be used. One that is not there is reported with the
/// secrets.
fn template_problem(state: &State, pool: &ClusterPool) -> Option<String> {
    if let Some(reference) = &pool.spec.install_config_secret_template_ref {
        let key = Key::new(&*pool.metadata.namespace, &*reference.name);
        if !state.templates.contains_key(&key) {
            return None;
        }
    }
    let problem = unpatched_install_config(state, pool).err()?;
    Some(format!("install config template secret: {problem}"))
}

/// Says why no driver can install clusters of the pool, and what to set.
pub fn driver_problem(pool: &ClusterPool) -> Option<String> {
    let platform = pool.spec.platform.name();
    match pool.driver() {
        Driver::Missing => Some(format!(
            "driver: no driver of this build serves platform {platform}; for simulated clusters, \
             set {FAKE_CLUSTER}: \"true\" in the pool's spec.annotations"
        )),
        Driver::Agent if !pool.picks_hosts() => Some(format!(
            "platform {platform}: a pool of hosts needs platform agentBareMetal with an \
             agentSelector"
        )),
        _ => None,
    }
}

/// Says why the program that is the pool's driver cannot be used, and which command tells more.
/// None if it can, or if nobody has looked.
pub fn driver_program_problem(state: &State, pool: &ClusterPool) -> Option<String> {
    let name = pool.driver_program()?;
    let sighting = state.drivers.get(name)?;
    let described_mismatch = sighting
        .description
        .as_ref()
        .and_then(|description| description.find_mismatch(&pool.spec.annotations));
    let why = sighting.missing.clone().or(described_mismatch)?;
    let Key { name: pool_name, namespace } = pool.key();
    Some(format!(
        "driver poolctl-driver-{name}: {why}; see poolctl driver check --pool {pool_name} -n \
         {namespace}"
    ))
}

/// The name in a reference, unless that is empty.
fn referenced_name(reference: Option<&LocalRef>) -> Option<&str> {
    reference.map(|reference| reference.name.as_str()).filter(|name| !name.is_empty())
}

/// Joins errors as Hive writes them: one as it is, several in brackets.
pub fn join_errors(errors: &[String]) -> String {
    match errors {
        [error] => error.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
