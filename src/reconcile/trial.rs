//! Tries what the next installation of a pool needs, in a folder that is removed afterwards.
//! Changes nothing in the state, and makes nothing on a platform.

use std::path::Path;

use serde_json::Value;

use crate::drivers::probe::{self, Finding, PoolNames};
use crate::model::deployment::{ClusterDeployment, Provisioning};
use crate::model::documents::ConfigMap;
use crate::model::driver::Driver;
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::order::JobOrder;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::plan::Rendered;
use crate::rules;

use super::Door;
use super::cluster_files::read_config_value;
use super::order::{Inputs, find_programs, installer_environment, parameters_input};

/// Seconds that a trial may take.
const TRIAL_SECONDS: u64 = 600;
/// The inputs that a cluster has of its own. A pool has none of them.
const INPUTS_OF_CLUSTERS: [&str; 4] =
    ["install-config.yaml", "metadata.json", "nodes.json", "kubeconfig"];
/// The step that looks at what the Settings name.
const SITE: &str = "site";
/// The fields of platforms that may name a host.
const HOST_FIELDS: [&str; 3] = ["vCenter", "server", "address"];

impl Door<'_> {
    /// Tries what openshift-install needs for the next cluster of a pool. `missing` is what the pool
    /// names and is not there.
    pub fn probe_installer(
        &self,
        pool: &ClusterPool,
        rendered: &Rendered,
        missing: &[String],
    ) -> Result<Vec<Finding>, Refusal> {
        let mut findings = self.probe_site()?;
        let (order, mut inputs) = self.make_trial_order(pool, rendered)?;
        let platform = serde_json::to_value(&pool.spec.platform).unwrap_or_default();
        let mut addresses = Vec::new();
        collect_host_names(&platform, &mut addresses);
        let certificates = pool.spec.platform.certificates();
        if let Some(name) = certificates {
            let key = Key::new(&*pool.metadata.namespace, name);
            for file_name in self.store.list_secret_keys(&key)? {
                if !file_name.contains('/')
                    && let Some(value) = self.store.read_secret_value(&key, &file_name)?
                {
                    inputs.push((format!("{}/{file_name}", probe::CERTIFICATES), value));
                }
            }
        }
        let credentials = pool.credentials_secret();
        let pool_names = PoolNames { addresses, credentials, certificates, missing };
        findings.extend(probe::probe_installer(&self.jobs_folder(), order, &inputs, &pool_names));
        Ok(findings)
    }

    /// Whether the Secrets exist that the site of the Settings names. Empty if it names none.
    fn probe_site(&self) -> Result<Vec<Finding>, Refusal> {
        let settings = self.read_settings()?;
        let site = settings.site.unwrap_or_default();
        let references =
            site.additional_certificate_authorities.iter().chain(&site.pull_secret_ref);
        let mut findings = Vec::new();
        for reference in references {
            let Key { namespace, name } = reference.key();
            let secret = format!("Secret `{namespace}/{name}`");
            findings.push(if self.store.list_secret_keys(&reference.key())?.is_empty() {
                let next =
                    format!("poolctl secret create {name} -n {namespace} --from-file=KEY=FILE");
                Finding::failed(SITE, format!("{secret} of the Settings is missing"), next)
            } else {
                Finding::ok(SITE, format!("{secret} of the Settings exists"))
            });
        }
        Ok(findings)
    }

    /// Asks the program that is the driver of a pool whether it could install its next cluster.
    pub fn probe_driver_program(
        &self,
        pool: &ClusterPool,
        rendered: &Rendered,
        program: &Path,
    ) -> Result<Finding, Refusal> {
        let (order, inputs) = self.make_trial_order(pool, rendered)?;
        Ok(probe::probe_program(&self.jobs_folder(), order, &inputs, program))
    }

    /// What a driver would be given for the next cluster of a pool.
    fn make_trial_order(
        &self,
        pool: &ClusterPool,
        rendered: &Rendered,
    ) -> Result<(JobOrder, Inputs), Refusal> {
        let settings = self.read_settings()?;
        let cluster = next_cluster(pool);
        let annotations = cluster.metadata.annotations.clone();
        let driver = pool.driver();
        let job = Job { verb: Verb::Provision, driver, ..Job::default() };
        let (programs, mut missing) = find_programs(&job, &annotations, &settings)?;
        let site = self.describe_site(&settings, &mut missing);
        let mut inputs = self.read_cluster_inputs(&cluster)?;
        inputs.retain(|(name, _)| !INPUTS_OF_CLUSTERS.contains(&&**name));
        inputs.push(("install-config.yaml".into(), rendered.text.clone()));
        self.add_site_pull_secret(&settings, &mut inputs)?;
        inputs.extend(self.read_platform_certificates(&cluster)?);
        inputs.extend(self.read_site_inputs(&settings)?);
        inputs.extend(self.read_variables_of_pool(pool)?);
        if driver == Driver::Exec {
            inputs.push(parameters_input(&annotations));
        }
        let order = JobOrder {
            verb: Verb::Provision,
            driver,
            attempt: 1,
            cluster: rendered.cluster_name.clone(),
            cluster_name: rendered.cluster_name.clone(),
            base_domain: rendered.base_domain.clone(),
            platform: pool.spec.platform.name().to_owned(),
            release_image: self.find_release_image(&cluster)?,
            inputs: inputs.iter().map(|(name, _)| name.clone()).collect(),
            programs,
            missing,
            site,
            environment: installer_environment(&cluster),
            limit: TRIAL_SECONDS,
            annotations,
            ..JobOrder::default()
        };
        Ok((order, inputs))
    }

    /// The variables of the installer whose values are in Secrets or ConfigMaps, each as a file.
    fn read_variables_of_pool(&self, pool: &ClusterPool) -> Result<Inputs, Refusal> {
        let mut inputs = Inputs::new();
        for variable in &pool.spec.installer_env {
            let Some((kind, source)) = variable.value_source() else { continue };
            if !rules::is_installer_variable(&variable.name) {
                continue;
            }
            let key = Key::new(&*pool.metadata.namespace, &*source.name);
            let value = if kind == Kind::ConfigMap {
                let config_map = self.store.find::<ConfigMap>(&key)?;
                config_map.and_then(|config_map| read_config_value(&config_map, &source))
            } else {
                self.store.read_secret_value(&key, &source.key)?
            };
            if let Some(value) = value {
                inputs.push((format!("environment/{}", variable.name), value));
            }
        }
        Ok(inputs)
    }
}

/// The next cluster of a pool as far as its driver would be told of it. It refers to the Secrets of
/// the pool itself.
fn next_cluster(pool: &ClusterPool) -> ClusterDeployment {
    let mut cluster = ClusterDeployment::default();
    cluster.metadata.name.clone_from(&pool.metadata.name);
    cluster.metadata.namespace.clone_from(&pool.metadata.namespace);
    cluster.metadata.annotations.clone_from(&pool.spec.annotations);
    cluster.spec.platform = pool.spec.platform.clone();
    cluster.spec.pull_secret_ref.clone_from(&pool.spec.pull_secret_ref);
    cluster.spec.provisioning = Some(Provisioning {
        image_set_ref: Some(pool.spec.image_set_ref.clone()),
        installer_env: pool.spec.installer_env.clone(),
        ..Provisioning::default()
    });
    cluster
}

/// Collects the hosts that a platform names.
fn collect_host_names(document: &Value, host_names: &mut Vec<String>) {
    match document {
        Value::Object(map) => {
            for (name, value) in map {
                match value.as_str() {
                    Some(host) if HOST_FIELDS.contains(&&**name) && !host.is_empty() => {
                        host_names.push(host.to_owned());
                    }
                    _ => collect_host_names(value, host_names),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_host_names(item, host_names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hosts_are_found_wherever_a_platform_names_them() {
        let platform = json!({"vsphere": {"vCenter": "a.example.com", "network": "b.example.com",
            "infrastructure": {"vcenters": [{"server": "c.example.com"}]}}});
        let mut host_names = Vec::new();
        collect_host_names(&platform, &mut host_names);
        host_names.sort_unstable();
        assert_eq!(host_names, ["a.example.com", "c.example.com"]);
    }
}
