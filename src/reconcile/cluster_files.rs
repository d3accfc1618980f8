//! What an installation takes from Secrets and ConfigMaps that somebody names for it: manifests and
//! variables of the installer, each as a file. Never changes the state.

use std::collections::BTreeMap;

use crate::model::cluster::Cluster;
use crate::model::deployment::{
    ClusterDeployment, DataKey, InstallationSecret, config_maps_with_manifests,
};
use crate::model::documents::{ConfigMap, SecretValue, command_to_create};
use crate::model::driver::Driver;
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::rules;

use super::Door;
use super::order::{Inputs, is_file_name};

/// The folder of the inputs with the manifests.
const FOLDER: &str = "manifests";

impl Door<'_> {
    /// Refuses to install a cluster that was applied by hand while Secrets that it names are not
    /// there, or lack their key. The clusters of a pool have Secrets of their own, and a driver of
    /// one's own may need none.
    pub(super) fn check_secrets(
        &self,
        cluster: &Cluster,
        wire: &ClusterDeployment,
    ) -> Result<(), Refusal> {
        if cluster.pool.is_some() || cluster.driver == Driver::Exec {
            return Ok(());
        }
        let namespace = &cluster.namespace;
        let mut missing = Vec::new();
        let mut next = None;
        for InstallationSecret { field, name, key } in wire.installation_secrets() {
            let keys = self.store.list_secret_keys(&Key::new(&**namespace, name))?;
            let is_there = match key {
                Some(key) => keys.iter().any(|existing_key| existing_key == key),
                None => !keys.is_empty(),
            };
            if !is_there {
                missing.push(format!("Secret `{name}` of {field}"));
                let key = key.unwrap_or("KEY");
                next.get_or_insert_with(|| {
                    format!("poolctl secret create {name} -n {namespace} --from-file={key}=FILE")
                });
            }
        }
        let Some(next) = next else { return Ok(()) };
        let what = format!("the cluster lacks {}", missing.join(" and "));
        Err(Refusal::not_found(what).advise(next))
    }

    /// The manifests of a cluster: those of its Secret or its ConfigMap, then those of the
    /// ConfigMaps that its annotation names. Of files with the same name the last one counts.
    pub(super) fn read_manifests(
        &self,
        cluster: &Cluster,
        wire: &ClusterDeployment,
    ) -> Result<Inputs, Refusal> {
        let mut manifests: BTreeMap<String, SecretValue> = BTreeMap::new();
        if let Some(provisioning) = &wire.spec.provisioning {
            if let Some(reference) = &provisioning.manifests_secret_ref {
                manifests.extend(self.read_manifests_of_secret(cluster, &reference.name)?);
            }
            if let Some(reference) = &provisioning.manifests_config_map_ref {
                manifests.extend(self.read_manifests_of_config_map(cluster, &reference.name)?);
            }
        }
        for name in config_maps_with_manifests(&wire.metadata.annotations) {
            manifests.extend(self.read_manifests_of_config_map(cluster, name)?);
        }
        Ok(manifests.into_iter().collect())
    }

    fn read_manifests_of_secret(&self, cluster: &Cluster, name: &str) -> Result<Inputs, Refusal> {
        let namespace = &cluster.namespace;
        let manifests = self.read_secret_files(&Key::new(&**namespace, name), FOLDER)?;
        if manifests.is_empty() {
            let what =
                format!("Secret `{name}` of spec.provisioning.manifestsSecretRef is missing");
            return Err(Refusal::not_found(what)
                .advise(format!("poolctl secret create {name} -n {namespace} --from-file=FILE")));
        }
        Ok(manifests)
    }

    fn read_manifests_of_config_map(
        &self,
        cluster: &Cluster,
        name: &str,
    ) -> Result<Inputs, Refusal> {
        let Some(config_map) = self.find_config_map(cluster, name)? else {
            let what = format!("ConfigMap `{name}` with manifests of the cluster is missing");
            let namespace = lasting_namespace(cluster);
            let command = command_to_create(Kind::ConfigMap);
            return Err(Refusal::not_found(what)
                .advise(format!("poolctl {command} {name} -n {namespace} --from-file=FILE")));
        };
        let mut manifests = Inputs::new();
        for key in config_map.data.keys().chain(config_map.binary_data.keys()) {
            let content = config_map.text(key).map_err(|why| {
                Refusal::invalid(format!("`{key}` of ConfigMap `{name}` is no manifest"))
                    .because(why)
            })?;
            if is_file_name(key) {
                let manifest = SecretValue::new(content.unwrap_or_default());
                manifests.push((format!("{FOLDER}/{key}"), manifest));
            }
        }
        if manifests.is_empty() {
            let what = format!("ConfigMap `{name}` with manifests of the cluster has no files");
            let namespace = lasting_namespace(cluster);
            return Err(Refusal::invalid(what)
                .next(format!("poolctl edit configmap {name} -n {namespace}")));
        }
        Ok(manifests)
    }

    /// The variables of the installer whose values are in Secrets or ConfigMaps, each as a file. An
    /// installation without one of them is refused, unless that one is optional.
    pub(super) fn read_variables(
        &self,
        job: &Job,
        cluster: &Cluster,
        wire: &ClusterDeployment,
    ) -> Result<Inputs, Refusal> {
        let mut inputs = Inputs::new();
        let provisioning = wire.spec.provisioning.iter();
        for variable in provisioning.flat_map(|provisioning| &provisioning.installer_env) {
            let Some((kind, source)) = variable.value_source() else { continue };
            if !rules::is_installer_variable(&variable.name) {
                continue;
            }
            if let Some(value) = self.read_variable(cluster, kind, &source)? {
                inputs.push((format!("environment/{}", variable.name), value));
            } else if job.verb == Verb::Provision && !source.optional {
                let DataKey { name, key, .. } = &source;
                let what = format!("variable {} of the installer has no value", variable.name);
                let cause = format!("there is no key `{key}` in {} `{name}`", kind.name());
                let namespace = lasting_namespace(cluster);
                let command = command_to_create(kind);
                return Err(Refusal::not_found(what).because(cause).advise(format!(
                    "poolctl {command} {name} -n {namespace} --from-file={key}=FILE"
                )));
            }
        }
        Ok(inputs)
    }

    /// The value of a variable. The Secret of a pool's variable is where the pool is, and is not
    /// copied to its clusters.
    fn read_variable(
        &self,
        cluster: &Cluster,
        kind: Kind,
        source: &DataKey,
    ) -> Result<Option<SecretValue>, Refusal> {
        if kind == Kind::ConfigMap {
            let config_map = self.find_config_map(cluster, &source.name)?;
            return Ok(config_map.and_then(|config_map| read_config_value(&config_map, source)));
        }
        for namespace in searched_namespaces(cluster) {
            let secret_key = Key::new(namespace, &*source.name);
            if let Some(value) = self.store.read_secret_value(&secret_key, &source.key)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// The ConfigMap of a name: where the cluster is, or else where its pool is.
    fn find_config_map(&self, cluster: &Cluster, name: &str) -> Result<Option<ConfigMap>, Refusal> {
        for namespace in searched_namespaces(cluster) {
            let config_map = self.store.find::<ConfigMap>(&Key::new(namespace, name))?;
            if config_map.is_some() {
                return Ok(config_map);
            }
        }
        Ok(None)
    }
}

/// Where a cluster looks for what it is given: in its own namespace, and then in that of its pool.
fn searched_namespaces(cluster: &Cluster) -> impl Iterator<Item = &str> {
    let pool = cluster.pool.as_deref();
    [cluster.namespace.as_str()].into_iter().chain(pool.map(|pool| pool.namespace.as_str()))
}

/// Where what a cluster is given should be: the namespace of a pool's cluster goes with the cluster.
fn lasting_namespace(cluster: &Cluster) -> &str {
    let pool = cluster.pool.as_deref();
    pool.map_or(cluster.namespace.as_str(), |pool| pool.namespace.as_str())
}

/// The value of a variable in a ConfigMap; none if it is not there or is no text.
pub(super) fn read_config_value(config_map: &ConfigMap, source: &DataKey) -> Option<SecretValue> {
    config_map.text(&source.key).ok().flatten().map(SecretValue::new)
}
