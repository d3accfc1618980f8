//! Work that a driver does on an object, and what came of it.

use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::documents::SecretValue;
use super::driver::Driver;
use super::facts::{facts, named};
use super::hardware::Hardware;
use super::host::ErrorReason;
use super::meta::{Key, Uid};
use super::time::{Span, Time};

facts! {
    /// One job. Live until `ended`; at most one live job per object.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Job in "job" {
        pub id: Uid,
        pub verb: Verb,
        /// The cluster it works on, or the host with its namespace: only that has a slash.
        pub object: String,
        /// All hosts it works on, with their namespaces.
        pub hosts: Vec<String>,
        pub pool: Option<Rc<Key>> as (pool_namespace, pool),
        pub driver: Driver,
        /// 1 for the first try of this verb.
        pub attempt: u32,
        /// Which provision job of its pool this is, from 1; 0 for other verbs.
        pub ordinal: u32,
        pub started: Time,
        pub ended: Option<Time>,
        pub outcome: Option<String>,
        /// What its driver said when it failed.
        pub message: Option<String>,
        /// A pass has seen somebody work on it: it is never begun again.
        pub begun: bool,
    }
    beside {
    }
}

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verb {
        #[default]
        Provision = "provision",
        Deprovision = "deprovision",
        Start = "start",
        Stop = "stop",
        /// Looks how a cluster does that was told to start or stop.
        Health = "health",
        /// Powers a machine off and on.
        Cycle = "cycle",
        /// Asks a machine whether it is on.
        State = "state",
        /// Attaches an image to a machine and boots it from there once.
        Attach = "attach",
        Eject = "eject",
        /// Asks a machine what it is made of.
        Inspect = "inspect",
        /// Hosts join a cluster that is installed.
        AddNodes = "add-nodes",
        /// Empties the disks of a machine.
        Wipe = "wipe",
    }
}

impl Verb {
    /// Whether it only looks: such a job is in no other's way.
    pub fn is_question(self) -> bool {
        match self {
            Self::Health | Self::State | Self::Inspect => true,
            Self::Provision
            | Self::Deprovision
            | Self::Start
            | Self::Stop
            | Self::Cycle
            | Self::Attach
            | Self::Eject
            | Self::AddNodes
            | Self::Wipe => false,
        }
    }
}

/// What a driver says about a finished job.
#[derive(Clone, Debug)]
pub struct Report {
    pub job: Uid,
    /// The cluster it worked on.
    pub object: String,
    pub outcome: Outcome,
}

/// What a failure means for the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Trying again may help; what was made so far is destroyed first.
    Usual,
    /// Trying again is of no use.
    Hopeless,
    /// It failed before anything existed: the platform may be away. It costs no attempt.
    NothingMade,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Installed(Installation),
    /// It goes on; this is there already, and must not be lost.
    Saved(Installation),
    /// What was found of hosts, whatever became of the job.
    Hosts(Vec<HostReport>),
    /// It goes on; this it said last.
    Progress(String),
    /// It goes on; hosts without a controller are to be booted from this image, or have been.
    Boots(Option<String>),
    /// Deprovisioned, started or stopped.
    Done,
    Healthy(Health),
    Failed {
        message: String,
        how: Failure,
    },
    /// Nobody works on it any more, and nobody failed: what it left is cleaned up.
    BrokeOff {
        message: String,
        /// It cannot go better at once.
        later: bool,
    },
}

impl Outcome {
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), how: Failure::Usual }
    }
}

/// What was found of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostReport {
    /// Namespace and name.
    pub host: String,
    /// Of the controller that was asked.
    pub address: String,
    /// Which version of its Secret was used.
    pub credentials: String,
    pub powered_on: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The cipher suite that worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<u8>,
    /// The image that is attached; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// It was booted from where it was to be booted from once.
    pub booted: bool,
    /// Why it could not be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// What has to be put right first, where the driver knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ErrorReason>,
}

/// How a cluster does that was told to start or stop.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Machines that are not yet as they were told to be.
    pub machines: Vec<String>,
    pub nodes_ready: bool,
    pub operators_ready: bool,
    /// How long operators are to be left alone once nodes are ready.
    pub settle: Span,
}

/// What an installation leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    pub infra_id: String,
    pub cluster_id: String,
    pub kubeconfig: Option<SecretValue>,
    pub password: Option<SecretValue>,
    pub metadata: Option<SecretValue>,
    /// Its nodes with their addresses, as they were then.
    pub nodes: Option<SecretValue>,
}

/// A job as the wire has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobDocument {
    /// Its id.
    pub metadata: JobMeta,
    /// What is done to what.
    pub spec: JobSpec,
    /// What became of it; dropped, it was interrupted.
    #[serde(default)]
    pub status: JobStatus,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobMeta {
    /// Its id.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobSpec {
    /// What is done: provision, deprovision, start, stop, health, cycle, state, attach, eject,
    /// inspect, add-nodes or wipe.
    pub verb: String,
    /// The cluster it is done to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The hosts it is done to, with their namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Namespace of that cluster's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_namespace: Option<String>,
    /// That cluster's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Who does it: fake, openshift-install, agent, exec, ipmitool or redfish.
    pub driver: String,
    /// 1 for the first try.
    pub attempt: u32,
    /// Which provision job of its pool this is, from 1; 0 for other verbs.
    pub ordinal: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    /// When it was started.
    #[serde(default)]
    pub started: Time,
    /// When it was over; a job without this still runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// How: succeeded, failed, cancelled or interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What its driver said when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Job {
    pub fn to_wire(&self) -> JobDocument {
        let (pool_namespace, pool) =
            self.pool.as_ref().map(|pool| (pool.namespace.clone(), pool.name.clone())).unzip();
        JobDocument {
            metadata: JobMeta { name: self.id.to_string() },
            spec: JobSpec {
                verb: self.verb.name().into(),
                cluster: self.cluster().unwrap_or_default().to_owned(),
                hosts: self.hosts.clone(),
                pool_namespace,
                pool,
                driver: self.driver.name().into(),
                attempt: self.attempt,
                ordinal: self.ordinal,
            },
            status: JobStatus {
                started: self.started,
                ended: self.ended,
                outcome: self.outcome.clone(),
                message: self.message.clone(),
            },
        }
    }

    /// None for what is no job of ours.
    pub fn from_wire(wire: JobDocument) -> Option<Self> {
        let pool = wire.spec.pool_namespace.zip(wire.spec.pool);
        let object = Some(wire.spec.cluster).filter(|one| !one.is_empty());
        let object = object.or_else(|| wire.spec.hosts.first().cloned())?;
        Some(Self {
            id: wire.metadata.name.parse().ok()?,
            verb: Verb::named(&wire.spec.verb)?,
            object,
            hosts: wire.spec.hosts,
            pool: pool.map(|(namespace, name)| Rc::new(Key::new(namespace, name))),
            driver: Driver::named(&wire.spec.driver)?,
            attempt: wire.spec.attempt,
            ordinal: wire.spec.ordinal,
            started: wire.status.started,
            ended: wire.status.ended,
            outcome: wire.status.outcome,
            message: wire.status.message,
            begun: true,
        })
    }

    /// The cluster it works on, unless that is a host.
    pub fn cluster(&self) -> Option<&str> {
        Some(self.object.as_str()).filter(|object| !object.contains('/'))
    }

    /// The host it works on, unless that is a cluster.
    pub fn host(&self) -> Option<Key> {
        self.object.split_once('/').map(|(namespace, name)| Key::new(namespace, name))
    }

    /// What it works on, as commands take it.
    pub fn subject(&self) -> String {
        let word = if self.cluster().is_some() { "cluster" } else { "host" };
        format!("{word}/{}", self.object)
    }

    /// What a live job is to a state that is moved: nobody works on it any more.
    pub fn interrupt(&mut self, now: Time) {
        if self.ended.is_none() {
            self.ended = Some(now);
            self.outcome = Some(INTERRUPTED.into());
        }
    }
}

pub const INTERRUPTED: &str = "interrupted";
pub const SUCCEEDED: &str = "succeeded";
pub const FAILED: &str = "failed";
pub const CANCELLED: &str = "cancelled";
