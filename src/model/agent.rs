//! Agent: a host that was booted from a discovery image, or found by its management controller;
//! free for clusters, or bound to one. As assisted installer has it on the wire.

pub mod inventory;
pub mod needs;
pub mod report;
pub mod state;
mod status;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::inventory::Inventory;
pub use self::state::HostState;
pub use self::status::{
    AgentStatus, DebugInfo, DeprovisionInfo, ImageReport, NtpSource, PeerReport, Progress,
    Validation,
};
use super::condition::{self, Condition, ConditionType};
use super::lease::{ClusterHolder, Holder, Lease, Resource};
use super::meta::{Key, Meta, is_zero};
use super::tick::Tick;
use super::time::{Span, Time};

pub use super::annotations::OWNER;

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
/// The machine config pool of hosts that join a cluster which is installed.
pub const DAY2_POOL: &str = "worker";
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

    /// The lease of the cluster that has its host, which may be one that was left running.
    pub fn lease(&self) -> Option<Lease> {
        let holder = match self.bound_to() {
            Some(cluster) => Holder::Cluster(ClusterHolder::new(cluster.name)),
            None if self.state() == HostState::DisabledUnbound => Holder::ForgottenCluster,
            None => return None,
        };
        Some(Lease::new(Resource::Agent(self.key()), holder))
    }

    /// The cluster has the host from here on.
    pub fn bind(&mut self, cluster: &Key) {
        self.status.bound_to = Some(ClusterReference::to(cluster));
    }

    /// Its name in a cluster, and what people call it: its id before it has said anything.
    pub fn hostname(&self) -> &str {
        if !self.status.node_name.is_empty() {
            return &self.status.node_name;
        }
        let found = self.status.inventory.as_ref().map(|one| one.hostname.as_str());
        let asked = Some(self.spec.hostname.as_str()).filter(|name| can_be_a_host(name));
        let known = Some(self.status.known_as.as_str());
        let mut names = [asked, found, known].into_iter().flatten().filter(|name| !name.is_empty());
        names.next().unwrap_or(&self.metadata.name)
    }

    /// What it is or would be in its cluster: what it was installed as it stays.
    pub fn role(&self) -> Role {
        let settled = !self.state().takes_wishes() && self.status.role != Role::AutoAssign;
        let decided = settled || self.spec.role == Role::AutoAssign;
        if decided { self.status.role } else { self.spec.role }
    }

    /// All that its machine is known by, in lower case.
    pub fn identities(&self) -> impl Iterator<Item = String> {
        let id = Some(&self.status.host_id).filter(|id| !id.is_empty());
        self.status.known_by.iter().chain(id).map(|one| one.to_lowercase())
    }

    /// Takes down what was found, and what it is known by from now on.
    pub fn found(&mut self, inventory: Inventory, uuid: &str) {
        let macs = inventory.macs().map(str::to_lowercase);
        let uuid = Some(uuid.to_lowercase()).filter(|uuid| !uuid.is_empty());
        self.status.known_by = macs.chain(uuid).collect();
        self.status.known_as.clone_from(&inventory.hostname);
        self.status.inventory = Some(inventory);
    }

    pub fn is_silent(&self, now: Time) -> bool {
        self.status.last_contact_time.is_none_or(|seen| now.since(seen) > SILENT)
    }

    /// Whether it is in its state for longer than `limit`; not where the clock itself has jumped.
    pub fn is_late(&self, limit: Span, tick: &Tick) -> bool {
        let since = self.status.state_since;
        !tick.jumped && since.is_some_and(|since| tick.now.since(since) > limit)
    }

    /// Makes it a part of an installation, or a worker that joins a cluster which is installed.
    pub fn prepare_to_join(&mut self, is_installed: bool) {
        self.status.kind = if is_installed { DAY2 } else { DAY1 }.into();
        if is_installed {
            self.status.role = Role::Worker;
            if self.spec.machine_config_pool.is_empty() {
                self.spec.machine_config_pool = DAY2_POOL.into();
            }
        }
    }

    /// Forgets what it was in its cluster; what it is by itself stays.
    pub fn forget_cluster(&mut self) {
        let status = &mut self.status;
        status.bound_to = None;
        status.node_name.clear();
        status.kind = DAY1.into();
        (status.progress, status.bootstrap, status.role) = Default::default();
        (status.join_failures, status.join_again_at) = Default::default();
        status.installation_disk_id.clear();
        status.images.clear();
        status.peers.clear();
        if !status.found {
            status.inventory = None;
        }
    }

    pub fn is_day2(&self) -> bool {
        self.status.kind == DAY2
    }

    pub fn is_duplicate(&self) -> bool {
        !self.status.duplicate_of.is_empty()
    }

    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        condition::find(&self.status.conditions, kind)
    }

    pub fn validations(&self) -> impl Iterator<Item = &Validation> {
        self.status.validations_info.values().flatten()
    }
}

/// Names that every machine has for itself.
pub const EVERYBODYS: [&str; 6] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
];

/// Whether a host may be called so: a name in DNS, in lower case, and not everybody's.
pub fn can_be_a_host(name: &str) -> bool {
    let part = |part: &str| {
        let letter = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
        (1..=63).contains(&part.len()) && part.bytes().all(letter)
    };
    let fits = name.len() <= 63 && !name.starts_with('-') && name.split('.').all(part);
    fits && !EVERYBODYS.contains(&name)
}

/// Whether an Agent has a label from poolctl alone.
pub fn is_own_label(name: &str) -> bool {
    [INFRA_ENV, BMH, CLUSTER_NAMESPACE].contains(&name) || name.starts_with(INVENTORY)
}

/// Kinds of hosts: of a cluster to be installed, or of one that is.
pub const DAY1: &str = "Host";
pub const DAY2: &str = "AddToExistingClusterHost";
