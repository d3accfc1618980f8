//! The kinds that are stored as they are applied: image sets, Secrets without their values,
//! ConfigMaps, namespaces, role bindings and the settings. Here they are only data.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kinds::Kind;
use super::meta::Meta;
use super::site::Site;

/// A release to install, in Hive's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterImageSet {
    /// Name, labels and annotations.
    pub metadata: Meta,
    /// The release image.
    pub spec: ImageSetSpec,
    /// Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub status: Option<serde_json::Value>,
}

/// The pull specification of the release image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageSetSpec {
    /// The release image that clusters are installed from.
    pub release_image: String,
}

/// A Secret as the wire has it. Only the keys are shown again, never a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Secret {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// Type of the Secret: Opaque, kubernetes.io/dockerconfigjson, ...
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Values in base64.
    #[serde(default, skip_serializing)]
    pub data: Option<BTreeMap<String, SecretValue>>,
    /// Values in plain text.
    #[serde(default, skip_serializing)]
    pub string_data: Option<BTreeMap<String, SecretValue>>,
    /// Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub immutable: Option<bool>,
    /// Where each key's value is: the wire's `data` decoded, or still in the state.
    #[serde(skip)]
    pub values: BTreeMap<String, StoredValue>,
}

/// Where the value of a key of a Secret is.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredValue {
    /// In the state. It was not loaded.
    Kept,
    /// In the state, and loaded.
    Loaded(SecretValue),
    /// Not in the state yet. It is to be written.
    New(SecretValue),
    /// In another Secret, under the same key, from which it is to be copied.
    CopyOf(super::meta::Key),
}

/// A value that is never printed: it has no Display, and its Debug hides it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretValue(String);

impl SecretValue {
    /// Wraps a value, so that it is not printed by accident.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for code that has to write it where it is safe.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(hidden)")
    }
}

/// Files by their names. They are shown to everybody who may read the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMap {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// Values in plain text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// Values in base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub binary_data: BTreeMap<String, String>,
    /// Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub immutable: Option<bool>,
}

impl ConfigMap {
    /// The text under a key; none if there is no such key. The error is the reason, as text, why a
    /// binary value is none.
    pub fn text(&self, key: &str) -> Result<Option<String>, String> {
        if let Some(value) = self.data.get(key) {
            return Ok(Some(value.clone()));
        }
        let Some(value) = self.binary_data.get(key) else { return Ok(None) };
        let decoded = String::from_utf8(decode_base64(value)?);
        decoded.map(Some).map_err(|_| "it decodes to binary data".to_owned())
    }

    /// Whether there is a text under a key.
    pub fn has_text(&self, key: &str) -> bool {
        self.text(key).is_ok_and(|text| text.is_some())
    }
}

/// The command that makes a Secret or a ConfigMap of files.
pub fn command_to_create(kind: Kind) -> &'static str {
    if kind == Kind::ConfigMap { "create configmap" } else { "secret create" }
}

/// Decodes a value. Spaces and line breaks in it do not count. The error is the reason as text.
pub fn decode_base64(value: &str) -> Result<Vec<u8>, String> {
    let compact: String = value.split_whitespace().collect();
    STANDARD.decode(compact).map_err(|error| error.to_string())
}

/// A namespace. Objects may be in namespaces that are not declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Name, labels and annotations.
    pub metadata: Meta,
    /// Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub spec: Option<serde_json::Value>,
    /// Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub status: Option<serde_json::Value>,
    #[serde(skip)]
    pub origin: NamespaceOrigin,
}

/// Why a namespace is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceOrigin {
    /// Somebody applied it.
    #[default]
    Applied,
    /// It comes and goes with the cluster of this name.
    Cluster(String),
    /// It is in every state, as `default` is in every cluster.
    EveryState,
}

/// The namespace of objects that name none. Kubernetes has it without anybody creating it.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Hive's label of the namespaces of a pool's clusters, with the pool's name.
pub const CLUSTER_POOL_LABEL: &str = "hive.openshift.io/cluster-pool-name";

impl Namespace {
    /// Whether it says nothing that does not follow from a cluster, or from being in every state.
    pub fn is_implied(&self) -> bool {
        let Meta { labels, annotations, finalizers, .. } = &self.metadata;
        let has_other_label = labels.keys().any(|label| label != CLUSTER_POOL_LABEL);
        !has_other_label && annotations.is_empty() && finalizers.is_empty()
    }
}

/// Who may use the clusters of a namespace, in the wire format of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleBinding {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The role that its subjects get. Subjects with ClusterRole hive-cluster-pool-admin see the
    /// clusters of the pools in its namespace. poolctl does not use other roles.
    pub role_ref: RoleRef,
    /// The users and groups that get the role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Subject>,
}

/// The role that the subjects get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleRef {
    /// The API group of roles, rbac.authorization.k8s.io.
    #[serde(default)]
    pub api_group: String,
    /// Role or ClusterRole.
    pub kind: String,
    /// Name of the role.
    pub name: String,
}

/// A user, a group or a service account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// The API group of users and groups, rbac.authorization.k8s.io.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// User, Group or ServiceAccount.
    pub kind: String,
    /// Name of the user, group or service account.
    pub name: String,
    /// Namespace of a service account.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// poolctl's own settings; the one object is named `default`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Name, labels and annotations.
    pub metadata: Meta,
    /// The settings themselves.
    #[serde(default)]
    pub spec: SettingsSpec,
}

/// The settings of this installation. What is not given has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SettingsSpec {
    /// Days that events and finished jobs are kept; 400 without it. The last 100 events of an
    /// object stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 400))]
    pub keep_events_days: Option<u32>,
    /// Programs by name, such as openshift-install, oc and kubectl, with absolute paths; others
    /// are looked for in the system's usual places.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, PathBuf>,
    /// Directory of the programs named poolctl-driver-NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_directory: Option<PathBuf>,
    /// Directory for images that management controllers download: an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iso_directory: Option<PathBuf>,
    /// The http or https URL of that directory for management controllers.
    #[serde(rename = "isoURL", skip_serializing_if = "Option::is_none")]
    pub iso_url: Option<String>,
    /// Maximum number of jobs at the same time, shared fairly between pools; 20 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 20))]
    pub max_jobs: Option<u32>,
    /// Who has the rights of the account through sudo: only the users and groups named here.
    /// Without it, the members of the groups sudo, wheel and admin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admins: Option<Admins>,
    /// exec:NAME, the program poolctl-driver-NAME in driverDirectory that is run after leases of
    /// addresses have changed. It gets all of them as JSON on its standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_change: Option<String>,
    /// How many claims each person behind sudo may have who is no admin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// How programs, clusters and hosts of this site reach the world: proxies, mirrors and
    /// certificate authorities of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
}

/// `spec.quota` of the Settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// Claims at the same time; 20 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 20))]
    pub claims: Option<u32>,
    /// Claims at the same time that wait for a cluster; 20 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 20))]
    pub waiting: Option<u32>,
}

/// `spec.admins` of the Settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Admins {
    /// Names of users.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Names of groups; their members are admins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}
