//! Work that a driver does on an object, and what came of it.

use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster::Driver;
use super::documents::SecretValue;
use super::meta::{Key, Uid};
use super::time::{Span, Time};

/// One job. Live until `ended`; at most one live job per object.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: Uid,
    pub verb: Verb,
    /// The cluster it works on.
    pub object: String,
    pub pool: Option<Rc<Key>>,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    #[default]
    Provision,
    Deprovision,
    Start,
    Stop,
    /// Looks how a cluster does that was told to start or stop.
    Health,
}

impl Verb {
    pub const ALL: [Self; 5] =
        [Self::Provision, Self::Deprovision, Self::Start, Self::Stop, Self::Health];

    pub fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Deprovision => "deprovision",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Health => "health",
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

#[derive(Clone, Debug)]
pub enum Outcome {
    Installed(Installation),
    /// It goes on; this is there already, and must not be lost.
    Saved(Installation),
    /// It goes on; this it said last.
    Progress(String),
    /// Deprovisioned, started or stopped.
    Done,
    Healthy(Health),
    Failed {
        message: String,
        /// Trying again is of no use.
        hopeless: bool,
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
        Self::Failed { message: message.into(), hopeless: false }
    }
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
    /// What became of it.
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
    /// What is done: provision, deprovision, start, stop or health.
    pub verb: String,
    /// The cluster it is done to.
    pub cluster: String,
    /// Namespace of that cluster's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_namespace: Option<String>,
    /// That cluster's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Who does it: fake, openshift-install or exec.
    pub driver: String,
    /// 1 for the first try.
    pub attempt: u32,
    /// Which provision job of its pool this is, from 1; 0 for other verbs.
    pub ordinal: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    /// When it was started.
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
                cluster: self.object.clone(),
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
        Some(Self {
            id: wire.metadata.name.parse().ok()?,
            verb: Verb::ALL.into_iter().find(|verb| verb.name() == wire.spec.verb)?,
            object: wire.spec.cluster,
            pool: pool.map(|(namespace, name)| Rc::new(Key::new(namespace, name))),
            driver: Driver::ALL.into_iter().find(|one| one.name() == wire.spec.driver)?,
            attempt: wire.spec.attempt,
            ordinal: wire.spec.ordinal,
            started: wire.status.started,
            ended: wire.status.ended,
            outcome: wire.status.outcome,
            message: wire.status.message,
            begun: true,
        })
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
