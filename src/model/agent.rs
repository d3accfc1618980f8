//! Agent: a host that was booted from a discovery image or found by its management controller, and
//! that is free or bound to a cluster. Its wire format is assisted installer's. It says what an
//! Agent is; what becomes of one is decided in `plan/agents`.

pub mod facts;
pub mod hostname;
pub mod inventory;
pub mod needs;
pub mod report;
pub mod state;

use std::collections::BTreeMap;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::hostname::is_valid_hostname;
use self::inventory::Inventory;
pub use self::state::HostState;
use super::agent_classification::CLASSIFICATION_LABEL_PREFIX;
use super::condition::{self, Condition, ConditionType};
use super::deferred::Deferred;
use super::facts::named;
use super::lease::{ClusterHolder, Holder, Lease, LeasedResource};
use super::meta::{Key, Meta, is_zero};
use super::tick::Tick;
use super::time::{Span, Time};

/// Label: the name of the Agent's `InfraEnv`, in the Agent's namespace.
pub const INFRA_ENV_LABEL: &str = "infraenvs.agent-install.openshift.io";
/// Label: the name of the Agent's `BareMetalHost`, in the Agent's namespace.
pub const HOST_LABEL: &str = "agent-install.openshift.io/bmh";
/// Label: the namespace of the cluster that the Agent is bound to, empty for none.
pub const CLUSTER_NAMESPACE_LABEL: &str = "agent-install.openshift.io/clusterdeployment-namespace";
/// What the labels begin with that are made from the inventory.
pub const INVENTORY_LABEL_PREFIX: &str = "inventory.agent-install.openshift.io/";
/// Annotation: the version of the labels that are made from the inventory.
pub const INVENTORY_VERSION: &str = "inventory.agent-install.openshift.io/version";
/// Annotation: the node stays in the cluster that the host leaves.
pub const SKIP_CLEANUP: &str = "agent.agent-install.openshift.io/skip-spoke-cleanup";
/// The machine config pool of hosts that join an installed cluster.
pub const DAY2_POOL: &str = "worker";
/// A host that has not reported for longer than this is disconnected.
pub const DISCONNECTED_AFTER: Span = Span::minutes(3);

/// A machine as an agent on it reports, in the wire format of assisted-service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The desired settings of the host.
    #[serde(default)]
    pub spec: AgentSpec,
    /// The observed state of the host, written by poolctl.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: AgentStatus,
    /// The SHA-256 of the secret with which the host proves its identity; never on the wire.
    #[serde(skip)]
    pub secret: Option<String>,
}

/// What people want of a machine. Each field of assisted-service is accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSpec {
    /// The cluster to bind the host to; without it, the host is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_deployment_name: Option<ClusterReference>,
    /// Only approved hosts are installed.
    pub approved: bool,
    /// The requested role: master, worker or auto-assign.
    pub role: Role,
    /// The hostname in the cluster, instead of the hostname that the host reports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The MachineConfigPool of a worker.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine_config_pool: String,
    /// The disk to install on, by its id.
    #[serde(rename = "installation_disk_id", skip_serializing_if = "String::is_empty")]
    pub installation_disk_id: String,
    /// The disk to install on, by its path. Set the id or the path, not both.
    #[serde(rename = "installation_disk_path", skip_serializing_if = "String::is_empty")]
    pub installation_disk_path: String,
    /// Arguments for coreos-installer, as a JSON list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub installer_args: String,
    /// Ignition config in JSON that is merged into that of the host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ignition_config_overrides: String,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint_token_reference: Option<ClusterReference>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(rename = "ignitionEndpointHTTPHeaders", skip_serializing_if = "BTreeMap::is_empty")]
    pub ignition_endpoint_http_headers: BTreeMap<String, String>,
    /// Labels for the node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fencing_credentials_secret_ref: String,
}

named! {
    /// What a machine is to be in its cluster. `AutoAssign` leaves the choice to the plan.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum Role {
        /// poolctl chooses the role.
        #[default]
        #[serde(alias = "")]
        AutoAssign = "auto-assign",
        /// A control plane node.
        Master = "master",
        /// A worker node.
        Worker = "worker",
        /// An arbiter node; poolctl cannot install a cluster with an arbiter.
        Arbiter = "arbiter",
        /// The master that runs the installation; only used in the status.
        Bootstrap = "bootstrap",
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

impl ClusterReference {
    /// The reference to the object with this key.
    pub fn from_key(key: &Key) -> Self {
        Self { name: key.name.clone(), namespace: key.namespace.clone() }
    }

    /// The key of the object. The namespace may be empty, as people may leave it out.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }
}

/// The checks of a host, by their categories.
pub type Validations = BTreeMap<String, Vec<Validation>>;

fn is_part_empty<T: DeserializeOwned + Default + PartialEq>(part: &Rc<Deferred<T>>) -> bool {
    *part.get() == T::default()
}

/// What is known of a machine: what it reported, and what poolctl made of it. An Agent is copied to
/// see whether it changes; its longest parts, which seldom do, are shared by the copies, and decoded
/// when somebody first reads them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// Whether the host runs the installation of the other hosts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bootstrap: bool,
    /// The role that the host has in its cluster, or would get.
    pub role: Role,
    /// The hardware of the host, as its agent or its controller reports it.
    #[schemars(with = "Option<Inventory>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Rc<Deferred<Inventory>>>,
    /// The progress of the installation.
    #[serde(skip_serializing_if = "is_zero")]
    pub progress: Progress,
    /// The time servers that the host uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ntp_sources: Vec<NtpSource>,
    /// `SpecSynced`, Connected, `RequirementsMet`, Validated, Installed, Bound.
    #[schemars(with = "Vec<Condition>")]
    #[serde(skip_serializing_if = "is_part_empty")]
    pub conditions: Rc<Deferred<Vec<Condition>>>,
    /// The state of the host, with a reason.
    pub debug_info: DebugInfo,
    /// The checks of the host, by category.
    #[schemars(with = "Validations")]
    #[serde(skip_serializing_if = "is_part_empty")]
    pub validations_info: Rc<Deferred<Validations>>,
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
    /// The release image whose installer waits on the host for the configuration of a cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub installer_release: String,
    /// Images that the host tried to pull.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageReport>,
    /// Other hosts that the host tried to reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerReport>,
    /// Names in DNS that the host asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainReport>,
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

/// The state of a machine in the words of assisted-service, and where to read more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DebugInfo {
    /// The state, in one word.
    pub state: HostState,
    /// Why the host is in that state, in a sentence.
    pub state_info: String,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(rename = "eventsURL", skip_serializing_if = "String::is_empty")]
    pub events_url: String,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(rename = "logsURL", skip_serializing_if = "String::is_empty")]
    pub logs_url: String,
}

/// How far the installation of a machine is.
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

/// A time server as the machine sees it.
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

/// The cluster that the machine was taken out of, so that its node can be removed there.
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

/// Whether the machine could pull a container image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImageReport {
    /// The image.
    pub name: String,
    /// Result: success or failure.
    pub result: String,
}

/// What a machine sees of another one over the network.
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
    /// Addresses that answered, but not to packets as large as the MTU of the host's interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mtu_failed: Vec<String>,
}

/// To which addresses a machine resolves a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DomainReport {
    /// The name.
    pub name: String,
    /// The addresses that DNS gave for it; none if it gave none.
    pub addresses: Vec<String>,
}

impl Agent {
    /// The namespace and the name of the agent.
    pub fn key(&self) -> Key {
        self.metadata.key()
    }

    /// The state of assisted-service that the machine is in.
    pub fn state(&self) -> HostState {
        self.status.debug_info.state
    }

    /// The `InfraEnv` that the host was booted from.
    pub fn infra_env_key(&self) -> Option<Key> {
        let name = self.metadata.labels.get(INFRA_ENV_LABEL)?;
        Some(Key::new(&*self.metadata.namespace, &**name))
    }

    /// The `BareMetalHost` that is the same machine.
    pub fn host_key(&self) -> Option<Key> {
        let name = self.metadata.labels.get(HOST_LABEL)?;
        Some(Key::new(&*self.metadata.namespace, &**name))
    }

    /// The cluster that the host is to belong to, by its spec.
    pub fn requested_cluster(&self) -> Option<Key> {
        self.spec.cluster_deployment_name.as_ref().map(ClusterReference::key)
    }

    /// The cluster that the host belongs to now.
    pub fn bound_cluster(&self) -> Option<Key> {
        self.status.bound_to.as_ref().map(ClusterReference::key)
    }

    /// The lease of the host; none while it is free. A host whose cluster was left running is still
    /// leased to that cluster.
    pub fn lease(&self) -> Option<Lease> {
        let holder = match self.bound_cluster() {
            Some(cluster) => Holder::Cluster(ClusterHolder::new(cluster.name)),
            None if self.state() == HostState::DisabledUnbound => Holder::ForgottenCluster,
            None => return None,
        };
        Some(Lease::new(LeasedResource::Agent(self.key()), holder))
    }

    /// Makes the cluster the holder of the host.
    pub fn bind(&mut self, cluster: &Key) {
        self.status.bound_to = Some(ClusterReference::from_key(cluster));
    }

    /// What the host is called: the name of its node once it is installed, then the name that its
    /// spec asks for, then the one that it reports or reported last. An Agent that has reported
    /// none is called by its id.
    pub fn hostname(&self) -> &str {
        let status = &self.status;
        if !status.node_name.is_empty() {
            return &status.node_name;
        }
        if is_valid_hostname(&self.spec.hostname) {
            return &self.spec.hostname;
        }
        if let Some(inventory) = self.inventory()
            && !inventory.hostname.is_empty()
        {
            return &inventory.hostname;
        }
        if status.known_as.is_empty() { &self.metadata.name } else { &status.known_as }
    }

    /// The role that the host has in its cluster, or would get. A wish that comes after its
    /// installation has begun changes nothing.
    pub fn role(&self) -> Role {
        let is_settled =
            !self.state().can_change_settings() && self.status.role != Role::AutoAssign;
        if is_settled || self.spec.role == Role::AutoAssign {
            self.status.role
        } else {
            self.spec.role
        }
    }

    /// The MAC addresses, the UUID and the id by which the machine is recognised, in lower case.
    pub fn identities(&self) -> impl Iterator<Item = String> {
        let host_id = Some(&self.status.host_id).filter(|host_id| !host_id.is_empty());
        self.status.known_by.iter().chain(host_id).map(|identity| identity.to_lowercase())
    }

    /// Stores an inventory, and with it the name and the identities of the machine. These stay when
    /// the inventory is dropped.
    pub fn identify_by_inventory(&mut self, inventory: Inventory, uuid: &str) {
        self.status.known_by = inventory.macs().map(str::to_lowercase).collect();
        if !uuid.is_empty() {
            self.status.known_by.push(uuid.to_lowercase());
        }
        self.status.known_as.clone_from(&inventory.hostname);
        self.set_inventory(inventory);
    }

    /// What the host or its controller has reported.
    pub fn inventory(&self) -> Option<&Inventory> {
        self.status.inventory.as_deref().map(Deferred::get)
    }

    /// The inventory, unless the host has reported none, or all of it was left out of the report.
    pub fn usable_inventory(&self) -> Option<&Inventory> {
        self.inventory().filter(|inventory| inventory.is_usable())
    }

    /// Whether the inventory never changes again: no other report of a host that is installed is
    /// accepted. Not so if its controller has found the host, because that goes on answering.
    pub fn has_final_inventory(&self) -> bool {
        self.state().is_installed() && !self.status.found_by_controller
    }

    /// The cluster whose other hosts and names the host is to reach. None once the host is installed:
    /// nobody looks at the results then, and each check-in would load the cluster for nothing.
    pub fn cluster_to_reach(&self) -> Option<Key> {
        if self.state().is_installed() { None } else { self.bound_cluster() }
    }

    /// Stores an inventory. The name and the identities of the machine stay as they are.
    pub fn set_inventory(&mut self, inventory: Inventory) {
        self.status.inventory = Some(Rc::new(inventory.into()));
    }

    /// All conditions of the Agent.
    pub fn conditions(&self) -> &[Condition] {
        self.status.conditions.get()
    }

    /// Stores all conditions of the Agent.
    pub fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.status.conditions = Rc::new(conditions.into());
    }

    /// Stores the results of all checks.
    pub fn set_validations(&mut self, validations: Validations) {
        self.status.validations_info = Rc::new(validations.into());
    }

    /// Whether the host has not reported for too long, or never.
    pub fn is_silent(&self, now: Time) -> bool {
        self.status.last_contact_time.is_none_or(|contact| now.since(contact) > DISCONNECTED_AFTER)
    }

    /// Whether the host has been in its state for longer than `limit`. Never so in a pass whose
    /// clock has jumped, because then nobody knows how long it really was.
    pub fn is_late(&self, limit: Span, tick: &Tick) -> bool {
        let state_since = self.status.state_since;
        !tick.clock_jumped && state_since.is_some_and(|since| tick.now.since(since) > limit)
    }

    /// Prepares the host for the installation of its cluster. If the cluster is already installed,
    /// the host joins it as a worker.
    pub fn prepare_to_join(&mut self, is_installed: bool) {
        self.status.kind = if is_installed { DAY2_HOST } else { DAY1_HOST }.into();
        if is_installed {
            self.status.role = Role::Worker;
            if self.spec.machine_config_pool.is_empty() {
                self.spec.machine_config_pool = DAY2_POOL.into();
            }
        }
    }

    /// Clears what follows from the cluster that the host was in, and keeps what the machine is
    /// recognised by. A host that reports itself also loses its inventory: it reports a new one when
    /// it registers again.
    pub fn forget_cluster(&mut self) {
        let status = &mut self.status;
        status.bound_to = None;
        status.node_name.clear();
        status.kind = DAY1_HOST.into();
        (status.progress, status.bootstrap, status.role) = Default::default();
        (status.join_failures, status.join_again_at) = Default::default();
        status.installation_disk_id.clear();
        status.images.clear();
        status.peers.clear();
        status.domains.clear();
        if !status.found_by_controller {
            status.inventory = None;
        }
    }

    /// Whether the machine joins a cluster that is installed already.
    pub fn is_day2(&self) -> bool {
        self.status.kind == DAY2_HOST
    }

    /// Whether another agent is the same machine. Such an agent is never picked for a cluster.
    pub fn is_duplicate(&self) -> bool {
        !self.status.duplicate_of.is_empty()
    }

    /// The condition of a type, if the agent has it.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        condition::find_condition(self.conditions(), kind)
    }

    /// All validations of the machine, of every category.
    pub fn validations(&self) -> impl Iterator<Item = &Validation> {
        self.status.validations_info.get().values().flatten()
    }
}

/// Whether only poolctl sets this label of Agents.
pub fn is_own_label(name: &str) -> bool {
    [INFRA_ENV_LABEL, HOST_LABEL, CLUSTER_NAMESPACE_LABEL].contains(&name)
        || name.starts_with(INVENTORY_LABEL_PREFIX)
        || name.starts_with(CLASSIFICATION_LABEL_PREFIX)
}

/// `status.kind` of a host that is there when its cluster is installed.
pub const DAY1_HOST: &str = "Host";
/// `status.kind` of a host that joins a cluster after its installation.
pub const DAY2_HOST: &str = "AddToExistingClusterHost";
