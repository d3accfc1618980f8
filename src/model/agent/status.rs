//! The status of an Agent: what is known of its host, as it is kept and as it is on the wire.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inventory::Inventory;
use super::{ClusterReference, HostState, Role};
use crate::model::condition::Condition;
use crate::model::meta::is_zero;
use crate::model::time::Time;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// Whether the host runs the installation of the other hosts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bootstrap: bool,
    /// The role that the host has in its cluster, or would get.
    pub role: Role,
    /// The hardware of the host, as its agent or its controller reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The progress of the installation.
    #[serde(skip_serializing_if = "is_zero")]
    pub progress: Progress,
    /// The time servers that the host uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ntp_sources: Vec<NtpSource>,
    /// `SpecSynced`, Connected, `RequirementsMet`, Validated, Installed, Bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The state of the host, with a reason.
    pub debug_info: DebugInfo,
    /// The checks of the host, by category.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub validations_info: BTreeMap<String, Vec<Validation>>,
    /// The id of the disk that the host is installed on.
    #[serde(rename = "installation_disk_id", skip_serializing_if = "String::is_empty")]
    pub installation_disk_id: String,
    /// The node of the host in the cluster that it left.
    #[serde(rename = "deprovision_info", skip_serializing_if = "Option::is_none")]
    pub deprovision_info: Option<DeprovisionInfo>,
    /// Kind of the host: Host, or `AddToExistingClusterHost`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The id that the host reports. It is unique in its `InfraEnv`.
    #[serde(rename = "hostID", skip_serializing_if = "String::is_empty")]
    pub host_id: String,
    /// The cluster that the host is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<ClusterReference>,
    /// When the state of the host last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_since: Option<Time>,
    /// When an event last reported that nobody booted the host in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue_noted_at: Option<Time>,
    /// When the host last registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_at: Option<Time>,
    /// When the host last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_contact_time: Option<Time>,
    /// Whether the host cannot read the image that it was booted from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub media_disconnected: bool,
    /// Whether the host was discovered by its management controller; no agent reports then.
    #[serde(rename = "found", skip_serializing_if = "std::ops::Not::not")]
    pub found_by_controller: bool,
    /// How many seconds the clock of the host is ahead of the clock of poolctl's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<i64>,
    /// Images that the host tried to pull.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageReport>,
    /// Other hosts that the host tried to reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerReport>,
    /// How many times the host failed to join its cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub join_failures: u32,
    /// When the host tries again to join its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_again_at: Option<Time>,
    /// The name of the node. It does not change after the installation begins.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// MAC addresses and mainboard UUID, which identify the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub known_by: Vec<String>,
    /// The hostname that the host reported last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub known_as: String,
    /// The SHA-256 of the host's secret. Only an export with secrets contains it.
    #[serde(rename = "secret_hash", skip_serializing)]
    pub secret_hash: Option<String>,
    /// The other Agent of the same machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub duplicate_of: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DebugInfo {
    /// The state, in one word.
    pub state: HostState,
    /// Why the host is in that state, in a sentence.
    pub state_info: String,
    /// Stored for other programs; poolctl does not use it.
    #[serde(rename = "eventsURL", skip_serializing_if = "String::is_empty")]
    pub events_url: String,
    /// Stored for other programs; poolctl does not use it.
    #[serde(rename = "logsURL", skip_serializing_if = "String::is_empty")]
    pub logs_url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// The current stage of the installation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_stage: String,
    /// The same, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress_info: String,
    /// Whether an event has reported that the stage takes too long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stage_timed_out: bool,
    /// How much of the installation is done, in percent.
    #[serde(skip_serializing_if = "is_zero")]
    pub installation_percentage: u64,
    /// When the stage began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_start_time: Option<Time>,
    /// When the host last reported the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_update_time: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NtpSource {
    /// Name or address of the time server.
    #[serde(alias = "source_name")]
    pub source_name: String,
    /// State of the time server: synced, combined, unreachable, error, ...
    #[serde(alias = "source_state")]
    pub source_state: String,
}

/// One of the checks of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Validation {
    /// What was checked.
    pub id: String,
    /// Result: success, failure, pending, error or disabled.
    pub status: String,
    /// The same, in a sentence.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeprovisionInfo {
    /// The cluster that the host has left.
    pub cluster_name: String,
    /// Its namespace.
    pub cluster_namespace: String,
    /// The name of the node there.
    pub node_name: String,
    /// Why the node cannot be removed yet.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImageReport {
    /// The image.
    pub name: String,
    /// Result: success or failure.
    pub result: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PeerReport {
    /// Name of the other Agent.
    pub agent: String,
    /// Addresses that were tried and answered.
    pub reached: Vec<String>,
    /// Addresses that were tried and did not answer.
    pub unreached: Vec<String>,
    /// Latency of the slowest answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// Packets that were lost, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_percent: Option<f64>,
}
