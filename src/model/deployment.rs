//! The wire format of ClusterDeployment. It has no logic: the facts that plans read of a cluster are
//! in `cluster.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::condition::Condition;
use super::meta::{LocalRef, Meta, is_zero};
use super::platform::Platform;
use super::time::{Span, Time};

/// The key of a Secret that has a private key for SSH.
pub const SSH_PRIVATE_KEY: &str = "ssh-privatekey";

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
    /// A ConfigMap with manifests to add.
    #[schemars(extend("x-no-effect" = "use manifestsSecretRef"))]
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeploymentStatus {
    /// The URL of its API, once it is installed.
    #[serde(rename = "apiURL", skip_serializing_if = "String::is_empty")]
    pub api_url: String,
    /// The URL of its console, once it is installed.
    #[serde(rename = "webConsoleURL", skip_serializing_if = "String::is_empty")]
    pub web_console_url: String,
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

/// One variable of an installer's environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvVar {
    /// Name of the variable.
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Another source of the value: the key of a Secret. It is kept as it is written.
    #[schemars(with = "Option<EnvSource>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<Value>,
}

/// `valueFrom` of a variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvSource {
    /// A key of a Secret that is in the namespace of the cluster, or of its pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKey>,
    #[schemars(extend("x-no-effect" = "use secretKeyRef"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<Value>,
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

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretKey {
    /// Name of the Secret.
    pub name: String,
    /// The key in it.
    pub key: String,
    /// Whether the variable is left out if there is no such Secret or key.
    #[serde(skip_serializing_if = "is_zero")]
    pub optional: bool,
}
