//! ClusterDeployment as the wire has it. What the plan reads of it is in `cluster.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::condition::Condition;
use super::meta::{LocalRef, Meta, is_zero};
use super::platform::Platform;
use super::pool::EnvVar;
use super::time::{Span, Time};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterDeployment {
    pub metadata: Meta,
    pub spec: DeploymentSpec,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: DeploymentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeploymentSpec {
    /// Domain below which the cluster has its own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_domain: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_service_account_signing_key_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_bundles: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_install_ref: Option<Map<String, Value>>,
    /// What the installation made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_metadata: Option<ClusterMetadata>,
    /// Name in DNS: api.NAME.DOMAIN.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The pool that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_pool_ref: Option<ClusterPoolRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_config: Option<Map<String, Value>>,
    /// Hibernates after running this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hibernate_after: Option<Span>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Value>,
    /// Installations tried before it is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_attempts_limit: Option<u32>,
    #[serde(skip_serializing_if = "is_zero")]
    pub installed: bool,
    #[serde(rename = "manageDNS", skip_serializing_if = "is_zero")]
    pub manage_dns: bool,
    pub platform: Platform,
    /// Running, Hibernating, or nothing, which means Running.
    #[serde(skip_serializing_if = "is_zero")]
    pub power_state: PowerState,
    /// Leave the machines alone when the object goes.
    #[serde(skip_serializing_if = "is_zero")]
    pub preserve_on_delete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<Provisioning>,
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
    #[serde(rename = "infraID")]
    pub infra_id: String,
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    pub admin_kubeconfig_secret_ref: LocalRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_password_secret_ref: Option<LocalRef>,
    #[serde(rename = "metadataJSONSecretRef", skip_serializing_if = "Option::is_none")]
    pub metadata_json_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterPoolRef {
    pub namespace: String,
    pub pool_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claim_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_deployment_customization: Option<LocalRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Provisioning {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customization_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_set_ref: Option<LocalRef>,
    /// A Secret with `install-config.yaml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_config_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub installer_env: Vec<EnvVar>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installer_image_override: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests_config_map_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_image: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_known_hosts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_private_key_secret_ref: Option<LocalRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeploymentStatus {
    #[serde(rename = "apiURL", skip_serializing_if = "String::is_empty")]
    pub api_url: String,
    #[serde(rename = "webConsoleURL", skip_serializing_if = "String::is_empty")]
    pub web_console_url: String,
    pub install_restarts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_started_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub power_state: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
