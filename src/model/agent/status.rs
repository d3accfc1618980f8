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
    /// When it was last said that nobody has booted it in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue_noted_at: Option<Time>,
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
    /// How often it failed to join its cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub join_failures: u32,
    /// When it is to join it again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_again_at: Option<Time>,
    /// How it is called in the cluster that it is installed for, whatever is wished for later.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Its addresses and the UUID of its board, as they were known last: it is told apart by them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub known_by: Vec<String>,
    /// How it called itself last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub known_as: String,
    /// What its secret is known by: only an export with secrets has it.
    #[serde(rename = "secret_hash", skip_serializing)]
    pub secret_hash: Option<String>,
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
    /// Its stage takes too long, and that was said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stage_timed_out: bool,
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
