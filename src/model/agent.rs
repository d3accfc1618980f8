//! Agent: a host that was booted from a discovery image, or found by its management controller;
//! free for clusters, or bound to one. As assisted installer has it on the wire.

pub mod inventory;
pub mod needs;
pub mod report;
pub mod state;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::inventory::Inventory;
pub use self::state::HostState;
use super::condition::{self, Condition};
use super::meta::{Key, Meta, is_zero};
use super::time::{Span, Time};

/// The `InfraEnv` that it belongs to.
pub const INFRA_ENV: &str = "infraenvs.agent-install.openshift.io";
/// The `BareMetalHost` that it is.
pub const BMH: &str = "agent-install.openshift.io/bmh";
/// Namespace of the cluster it is bound to, empty for none.
pub const CLUSTER_NAMESPACE: &str = "agent-install.openshift.io/clusterdeployment-namespace";
/// Labels made of what was found begin so.
pub const INVENTORY: &str = "inventory.agent-install.openshift.io/";
/// The version of those labels, an annotation.
pub const INVENTORY_VERSION: &str = "inventory.agent-install.openshift.io/version";
/// Its node stays in the cluster that it leaves.
pub const SKIP_CLEANUP: &str = "agent.agent-install.openshift.io/skip-spoke-cleanup";
/// Who looks after the hosts of an `InfraEnv`.
pub const OWNER: &str = "poolctl.dev/owner";
/// A host is silent after this long.
pub const SILENT: Span = Span::minutes(3);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// What is wished for.
    #[serde(default)]
    pub spec: AgentSpec,
    /// How it is, kept by poolctl.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: AgentStatus,
    /// What its host proves itself with, as a SHA-256; never on the wire.
    #[serde(skip)]
    pub secret: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSpec {
    /// The cluster it is to belong to; none: to nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_deployment_name: Option<ClusterReference>,
    /// Only approved hosts are installed.
    pub approved: bool,
    /// master, worker or auto-assign.
    pub role: Role,
    /// Its name in the cluster, instead of the one that it says.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The machine config pool of a worker.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine_config_pool: String,
    /// The disk to install on, by its id.
    #[serde(rename = "installation_disk_id", skip_serializing_if = "String::is_empty")]
    pub installation_disk_id: String,
    /// The same by its path; not both.
    #[serde(rename = "installation_disk_path", skip_serializing_if = "String::is_empty")]
    pub installation_disk_path: String,
    /// Arguments of coreos-installer: a list, as JSON.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub installer_args: String,
    /// Ignition that is merged over its own, as JSON.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ignition_config_overrides: String,
    /// Kept for others, no effect here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint_token_reference: Option<ClusterReference>,
    /// Kept for others, no effect here.
    #[serde(rename = "ignitionEndpointHTTPHeaders", skip_serializing_if = "BTreeMap::is_empty")]
    pub ignition_endpoint_http_headers: BTreeMap<String, String>,
    /// Labels of its node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// Kept for others, no effect here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fencing_credentials_secret_ref: String,
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// poolctl decides.
    #[default]
    #[serde(alias = "")]
    AutoAssign,
    /// Of the control plane.
    Master,
    /// For work.
    Worker,
    /// No cluster here has one.
    Arbiter,
    /// The master that installs the others; only in the status.
    Bootstrap,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::AutoAssign => "auto-assign",
            Self::Master => "master",
            Self::Worker => "worker",
            Self::Arbiter => "arbiter",
            Self::Bootstrap => "bootstrap",
        }
    }
}

/// An object of any namespace.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterReference {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// It installs the others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bootstrap: bool,
    /// What it is in its cluster, or would be.
    pub role: Role,
    /// What was found in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// How far its installation is.
    #[serde(skip_serializing_if = "is_zero")]
    pub progress: Progress,
    /// The servers that it takes the time from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ntp_sources: Vec<NtpSource>,
    /// `SpecSynced`, Connected, `RequirementsMet`, Validated, Installed, Bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Its state, and why.
    pub debug_info: DebugInfo,
    /// What it was checked for, by category.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub validations_info: BTreeMap<String, Vec<Validation>>,
    /// The disk that it is installed on.
    #[serde(rename = "installation_disk_id", skip_serializing_if = "String::is_empty")]
    pub installation_disk_id: String,
    /// What is left of it in the cluster that it left.
    #[serde(rename = "deprovision_info", skip_serializing_if = "Option::is_none")]
    pub deprovision_info: Option<DeprovisionInfo>,
    /// Host, or `AddToExistingClusterHost`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// How the host itself calls itself: with its `InfraEnv`, its identity.
    #[serde(rename = "hostID", skip_serializing_if = "String::is_empty")]
    pub host_id: String,
    /// The cluster it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<ClusterReference>,
    /// Since when its state is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_since: Option<Time>,
    /// When it registered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_at: Option<Time>,
    /// When it was heard of last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_contact_time: Option<Time>,
    /// It cannot read the image it was booted from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub media_disconnected: bool,
    /// Found by its management controller; nobody reports.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub found: bool,
    /// Seconds that its clock is ahead of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<i64>,
    /// Images that it tried to pull.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageReport>,
    /// Hosts that it tried to reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerReport>,
    /// The other Agent of the same machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub duplicate_of: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DebugInfo {
    /// Where it is, in one word.
    pub state: HostState,
    /// Why, in a sentence.
    pub state_info: String,
    /// Kept for others, no effect here.
    #[serde(rename = "eventsURL", skip_serializing_if = "String::is_empty")]
    pub events_url: String,
    /// Kept for others, no effect here.
    #[serde(rename = "logsURL", skip_serializing_if = "String::is_empty")]
    pub logs_url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// What it does now.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_stage: String,
    /// The same in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress_info: String,
    /// How much of it is done.
    #[serde(skip_serializing_if = "is_zero")]
    pub installation_percentage: u64,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_start_time: Option<Time>,
    /// When it said so last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_update_time: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NtpSource {
    /// Its name or address.
    #[serde(alias = "source_name")]
    pub source_name: String,
    /// synced, combined, unreachable, error, ...
    #[serde(alias = "source_state")]
    pub source_state: String,
}

/// One of the checks of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Validation {
    /// What was checked.
    pub id: String,
    /// success, failure, pending, error or disabled.
    pub status: String,
    /// The same in a sentence.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeprovisionInfo {
    /// The cluster that it left.
    pub cluster_name: String,
    /// Its namespace.
    pub cluster_namespace: String,
    /// How it was called there.
    pub node_name: String,
    /// What is waited for.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImageReport {
    /// The image.
    pub name: String,
    /// success or failure.
    pub result: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PeerReport {
    /// Name of the other Agent.
    pub agent: String,
    /// Of the addresses that were tried, those that answered.
    pub reached: Vec<String>,
    /// The others.
    pub unreached: Vec<String>,
    /// The slowest answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// Packets that were lost, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_percent: Option<f64>,
}

impl ClusterReference {
    pub fn to(key: &Key) -> Self {
        Self { name: key.name.clone(), namespace: key.namespace.clone() }
    }

    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }
}

impl Agent {
    pub fn key(&self) -> Key {
        self.metadata.key()
    }

    pub fn state(&self) -> HostState {
        self.status.debug_info.state
    }

    /// Its `InfraEnv`, in its namespace.
    pub fn infra_env(&self) -> Option<Key> {
        let name = self.metadata.labels.get(INFRA_ENV)?;
        Some(Key::new(&*self.metadata.namespace, &**name))
    }

    /// Its `BareMetalHost`.
    pub fn bmh(&self) -> Option<Key> {
        let name = self.metadata.labels.get(BMH)?;
        Some(Key::new(&*self.metadata.namespace, &**name))
    }

    pub fn wanted(&self) -> Option<Key> {
        self.spec.cluster_deployment_name.as_ref().map(ClusterReference::key)
    }

    pub fn bound_to(&self) -> Option<Key> {
        self.status.bound_to.as_ref().map(ClusterReference::key)
    }

    /// Its name in a cluster, and what people call it: its id before it has said anything.
    pub fn hostname(&self) -> &str {
        let found = self.status.inventory.as_ref().map(|one| one.hostname.as_str());
        let names = [Some(self.spec.hostname.as_str()), found];
        let mut names = names.into_iter().flatten().filter(|name| !name.is_empty());
        names.next().unwrap_or(&self.metadata.name)
    }

    /// What it is or would be in its cluster.
    pub fn role(&self) -> Role {
        if self.spec.role == Role::AutoAssign { self.status.role } else { self.spec.role }
    }

    pub fn is_silent(&self, now: Time) -> bool {
        self.status.last_contact_time.is_none_or(|seen| now.since(seen) > SILENT)
    }

    pub fn is_day2(&self) -> bool {
        self.status.kind == DAY2
    }

    pub fn is_duplicate(&self) -> bool {
        !self.status.duplicate_of.is_empty()
    }

    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition::find(&self.status.conditions, kind)
    }

    pub fn validations(&self) -> impl Iterator<Item = &Validation> {
        self.status.validations_info.values().flatten()
    }
}

/// Kinds of hosts: of a cluster to be installed, or of one that is.
pub const DAY1: &str = "Host";
pub const DAY2: &str = "AddToExistingClusterHost";
