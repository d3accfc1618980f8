//! The wire format of ClusterDeployment. It decides nothing: the facts that plans read of a cluster
//! are in `cluster.rs`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::annotations::MANIFESTS;
use super::condition::Condition;
use super::kinds::Kind;
use super::meta::{LocalRef, Meta, is_zero};
use super::platform::Platform;
use super::time::{Span, Time};

/// The key of a Secret that has a private key for SSH.
pub const SSH_PRIVATE_KEY: &str = "ssh-privatekey";

/// A cluster, in Hive's wire format. The state keeps `Cluster`, from which this is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterDeployment {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The desired state of the cluster.
    pub spec: DeploymentSpec,
    /// The observed state of the cluster, written by poolctl.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: DeploymentStatus,
}

/// What Hive lets people say of a cluster, those fields included that poolctl only stores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeploymentSpec {
    /// Base domain; the cluster's domain is NAME.BASEDOMAIN.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_domain: String,
    /// A Secret with the key that signs service accounts.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_service_account_signing_key_secret_ref: Option<LocalRef>,
    /// Certificates of its endpoints.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_bundles: Vec<Value>,
    /// An object of another installer that makes it.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_install_ref: Option<Map<String, Value>>,
    /// Facts about the installed cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_metadata: Option<ClusterMetadata>,
    /// Name of the cluster in DNS: api.NAME.BASEDOMAIN.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The pool that created the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_pool_ref: Option<ClusterPoolRef>,
    /// Certificates and URL of its API server.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_config: Option<Map<String, Value>>,
    /// The cluster hibernates after it has run this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hibernate_after: Option<Span>,
    /// Ingress controllers to set up on it.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Value>,
    /// Maximum number of installation attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_attempts_limit: Option<u32>,
    /// Whether the cluster is installed. In a new manifest, true adopts an existing cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub installed: bool,
    /// Have a DNS zone made for it.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(rename = "manageDNS", skip_serializing_if = "is_zero")]
    pub manage_dns: bool,
    /// The platform that the cluster is made on.
    pub platform: Platform,
    /// The desired power state: Running (default) or Hibernating.
    #[serde(skip_serializing_if = "is_zero")]
    pub power_state: PowerState,
    /// If true, the machines keep running when the object is deleted.
    #[serde(skip_serializing_if = "is_zero")]
    pub preserve_on_delete: bool,
    /// How the cluster is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<Provisioning>,
    /// A Secret with the pull secret (.dockerconfigjson). A cluster of a pool has its own copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<LocalRef>,
}

/// What a user may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PowerState {
    #[default]
    #[serde(rename = "")]
    Unset,
    Running,
    Hibernating,
}

/// What a cluster is known by once it was begun. Whoever destroys it needs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterMetadata {
    /// Id that marks the resources of the cluster on its platform.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// Id of the cluster, created by the installation.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// A Secret with the admin's kubeconfig.
    pub admin_kubeconfig_secret_ref: LocalRef,
    /// A Secret with the admin's username and password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_password_secret_ref: Option<LocalRef>,
    /// A Secret with metadata.json as the installer wrote it.
    #[serde(rename = "metadataJSONSecretRef", skip_serializing_if = "Option::is_none")]
    pub metadata_json_secret_ref: Option<LocalRef>,
    /// Facts that only its platform has.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Value>,
}

/// The pool and the claim of a cluster. poolctl writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterPoolRef {
    /// Namespace of the pool.
    pub namespace: String,
    /// Name of the pool.
    pub pool_name: String,
    /// The claim that holds it, in the pool's namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claim_name: String,
    /// When the claim got the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_timestamp: Option<Time>,
    /// The customization of the inventory that is leased to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_deployment_customization: Option<LocalRef>,
}

/// How the cluster is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Provisioning {
    /// The pool's customizationRef when the cluster was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customization_ref: Option<LocalRef>,
    /// The ClusterImageSet that the cluster is installed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_set_ref: Option<LocalRef>,
    /// A Secret with `install-config.yaml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_config_secret_ref: Option<LocalRef>,
    /// Environment variables of the installer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub installer_env: Vec<EnvVar>,
    /// Installer to use instead of the release's.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installer_image_override: Option<String>,
    /// A ConfigMap with manifests to add, each under the name of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests_config_map_ref: Option<LocalRef>,
    /// A Secret with manifests to add, each under the name of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests_secret_ref: Option<LocalRef>,
    /// Release to install instead of the image set's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_image: Option<String>,
    /// Host keys that the installer trusts.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_known_hosts: Vec<String>,
    /// A Secret with the SSH key to the machines, under `ssh-privatekey`. When the bootstrap fails,
    /// its logs are fetched with the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_private_key_secret_ref: Option<LocalRef>,
}

/// How the cluster is. The plan writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeploymentStatus {
    /// The URL of its API, once it is installed.
    #[serde(rename = "apiURL", skip_serializing_if = "String::is_empty")]
    pub api_url: String,
    /// The URL of its console, once it is installed.
    #[serde(rename = "webConsoleURL", skip_serializing_if = "String::is_empty")]
    pub web_console_url: String,
    /// The certificates that a Hive has put on its endpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_bundles: Vec<Value>,
    /// The image of `oc` that a Hive used to install it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cli_image: String,
    /// The image of the installer that a Hive used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub installer_image: String,
    /// The version of OpenShift that a Hive installed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub install_version: String,
    /// What a Hive has made on the platform beside the cluster, such as private links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_status: Option<Map<String, Value>>,
    /// How many installation attempts failed.
    pub install_restarts: u32,
    /// When an installation first began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_started_timestamp: Option<Time>,
    /// When it was installed, or adopted as installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_timestamp: Option<Time>,
    /// Whether an installation was interrupted. Its resources are destroyed before the next.
    #[serde(skip_serializing_if = "is_zero")]
    pub interrupted: bool,
    /// When poolctl woke another standby cluster because this one took too long. Until this one
    /// runs, poolctl wakes the other clusters first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_over_timestamp: Option<Time>,
    /// Running, Hibernating, StartingMachines, Stopping; nothing until it is installed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub power_state: String,
    /// The machines that poolctl waits for, or what failed at the last start or stop.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub power_detail: String,
    /// The conditions that apply to it now; `poolctl describe cluster NAME` shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A Secret that a cluster names for its installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallationSecret<'a> {
    /// The field that names it.
    pub field: String,
    /// Its name.
    pub name: &'a str,
    /// The key that it must have; none if any will do.
    pub key: Option<&'static str>,
}

impl ClusterDeployment {
    /// The Secrets that it names and without which no installation of it can succeed.
    pub fn installation_secrets(&self) -> Vec<InstallationSecret<'_>> {
        let spec = &self.spec;
        let provisioning = spec.provisioning.as_ref();
        let install_config =
            provisioning.and_then(|provisioning| provisioning.install_config_secret_ref.as_ref());
        let platform = spec.platform.name();
        let uses = [
            (
                "spec.provisioning.installConfigSecretRef".to_owned(),
                install_config.map(|reference| reference.name.as_str()),
                Some("install-config.yaml"),
            ),
            (
                "spec.pullSecretRef".to_owned(),
                spec.pull_secret_ref.as_ref().map(|reference| reference.name.as_str()),
                Some(".dockerconfigjson"),
            ),
            (
                format!("spec.platform.{platform}.credentialsSecretRef"),
                spec.platform.credentials(),
                None,
            ),
            (
                format!("spec.platform.{platform}.certificatesSecretRef"),
                spec.platform.certificates(),
                None,
            ),
        ];
        let mut named = Vec::new();
        for (field, name, key) in uses {
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                named.push(InstallationSecret { field, name, key });
            }
        }
        named
    }
}

/// The names of the ConfigMaps with manifests that the annotations of a cluster, or those that a
/// pool gives its clusters, name.
pub fn config_maps_with_manifests(
    annotations: &BTreeMap<String, String>,
) -> impl Iterator<Item = &str> {
    let names = annotations.get(MANIFESTS).map(String::as_str).unwrap_or_default();
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}

impl DeploymentStatus {
    /// What only the program knows that installed the cluster. All else follows from facts.
    #[must_use]
    pub fn into_installers_part(self) -> Self {
        Self {
            api_url: self.api_url,
            web_console_url: self.web_console_url,
            certificate_bundles: self.certificate_bundles,
            cli_image: self.cli_image,
            installer_image: self.installer_image,
            install_version: self.install_version,
            platform_status: self.platform_status,
            ..Self::default()
        }
    }
}

/// One variable of an installer's environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvVar {
    /// Name of the variable.
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Another source of the value: the key of a Secret or of a ConfigMap. It is kept as it is
    /// written.
    #[schemars(with = "Option<EnvSource>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<Value>,
}

impl EnvVar {
    /// The key that has the value, and whether it is one of a Secret or of a ConfigMap; none if the
    /// variable says its value itself, or takes it from nowhere.
    pub fn value_source(&self) -> Option<(Kind, DataKey)> {
        if self.value.is_some() {
            return None;
        }
        let source: EnvSource = serde_json::from_value(self.value_from.clone()?).ok()?;
        let in_secret = source.secret_key_ref.map(|key| (Kind::Secret, key));
        in_secret.or_else(|| source.config_map_key_ref.map(|key| (Kind::ConfigMap, key)))
    }
}

/// `valueFrom` of a variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvSource {
    /// A key of a Secret that is in the namespace of the cluster, or of its pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<DataKey>,
    /// A key of a ConfigMap that is in the namespace of the cluster, or of its pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<DataKey>,
    #[schemars(extend("x-no-effect" = "there is no Pod to take it from"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<Value>,
    #[schemars(extend("x-no-effect" = "use secretKeyRef"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_key_ref: Option<Value>,
    #[schemars(extend("x-no-effect" = "there is no Pod to take it from"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_field_ref: Option<Value>,
}

/// A key of a Secret or of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataKey {
    /// Name of the object.
    pub name: String,
    /// The key in it.
    pub key: String,
    /// Whether the variable is left out if there is no such object or key.
    #[serde(skip_serializing_if = "is_zero")]
    pub optional: bool,
}
