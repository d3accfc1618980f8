//! Jobs: the work of a driver on a cluster or a host, and what came of it. Nothing is started here;
//! `drivers/` does that for jobs which are committed.

use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::documents::SecretValue;
use super::driver::Driver;
use super::facts::{facts, named};
use super::failure::{Failure, FailureClass};
use super::hardware::Hardware;
use super::host::ErrorReason;
use super::meta::{Key, Uid};
use super::time::{Span, Time};

/// After this time no controller acts any more on what it was told.
const POWER_DELAY: Span = Span::minutes(5);

facts! {
    /// One job. It is live until it has ended; an object has one live job at most.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Job in "job" of JobDocument {
        pub id: Uid,
        pub verb: Verb,
        /// The name of a cluster, or `NAMESPACE/NAME` of a host. Only a host's has a slash.
        pub object: String,
        /// Every host that the job works on, as `NAMESPACE/NAME`.
        pub hosts: Vec<String> => spec.hosts,
        pub pool: Option<Rc<Key>> as (pool_namespace, pool),
        pub driver: Driver,
        /// 1 for the first try of this verb.
        pub attempt: u32 => spec.attempt,
        /// Which provision job of its pool this is, from 1; 0 for other verbs.
        pub ordinal: u32 => spec.ordinal,
        pub started: Time => status.started,
        pub ended: Option<Time> => status.ended,
        /// How it ended: one of the constants at the end of this file.
        pub outcome: Option<String> => status.outcome,
        /// What the driver said when the job failed.
        pub message: Option<String> => status.message,
        /// What kind of cause the failure had.
        pub class: Option<FailureClass> as (failure_class) => status.class,
        /// Whether a pass has seen that a supervisor began the job. Such a job is never begun again.
        pub begun: bool,
    }
    beside {
    }
}

named! {
    /// What a driver is told to do. The names are those that drivers of your own get as their first
    /// argument.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verb {
        #[default]
        Provision = "provision",
        Deprovision = "deprovision",
        Start = "start",
        Stop = "stop",
        /// Asks for the health of a cluster that was told to start or stop.
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
        /// Adds hosts to an installed cluster.
        AddNodes = "add-nodes",
        /// Empties the disks of a machine.
        Wipe = "wipe",
    }
}

impl Verb {
    /// Whether the job only reads, so it may run beside other jobs.
    pub fn is_read_only(self) -> bool {
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

    /// Whether the job switches machines on, maybe only for a while.
    fn switches_on(self) -> bool {
        match self {
            Self::Provision
            | Self::Start
            | Self::Cycle
            | Self::Attach
            | Self::AddNodes
            | Self::Wipe => true,
            Self::Deprovision
            | Self::Stop
            | Self::Health
            | Self::State
            | Self::Eject
            | Self::Inspect => false,
        }
    }
}

/// What a driver reports of a job, at its end or while it runs.
#[derive(Clone, Debug)]
pub struct JobReport {
    pub job: Uid,
    /// What the job works on, as `Job::object` has it.
    pub object: String,
    pub outcome: JobOutcome,
}

/// What a driver reports. `Saved`, `Hosts`, `Progress` and `Boots` do not end the job.
#[derive(Clone, Debug)]
pub enum JobOutcome {
    /// The cluster is installed.
    Installed(Installation),
    /// What the installation has made so far. It is needed to destroy the cluster, so it is stored
    /// before the installation ends.
    Saved(Installation),
    /// What was found out about hosts, however the job ends.
    Hosts(Vec<HostReport>),
    /// The last message of the installer.
    Progress(String),
    /// The URL of the image from which a person has to boot the hosts that have no controller; none
    /// once they are booted.
    Boots(Option<String>),
    /// The cluster is destroyed, started or stopped.
    Done,
    /// The health of a cluster that was told to start or stop, be it good or bad.
    Healthy(ClusterHealth),
    /// The driver failed.
    Failed(Failure),
    /// The job ended without a verdict, as when the machine was rebooted. What it left is cleaned
    /// up. The text says why, for people.
    BrokeOff(String),
}

impl JobOutcome {
    /// A failure of which nothing but this message is known.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(Failure::new(FailureClass::Unclear, message))
    }
}

/// What a driver found out about a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostReport {
    /// The host, as `NAMESPACE/NAME`.
    pub host: String,
    /// The address of the controller that was asked.
    pub address: String,
    /// The version of the Secret whose credentials were used.
    pub credentials: String,
    /// Whether the host is on; none if that could not be read.
    pub powered_on: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The IPMI cipher suite that worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<u8>,
    /// The URL of the attached image; empty if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether the host was booted once from what it was told to boot from.
    pub booted: bool,
    /// Why the job failed on this host; empty if it did not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// What a person has to mend before it can succeed, if the driver knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ErrorReason>,
    /// Whether it failed because its controller did not answer, or could not now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
}

/// The health of a cluster that was told to start or stop.
#[derive(Clone, Debug, Default)]
pub struct ClusterHealth {
    /// Names of the machines that do not run yet, or still run.
    pub machines: Vec<String>,
    pub nodes_ready: bool,
    pub operators_ready: bool,
    /// How long operators need, after the nodes are ready, to notice that they run again.
    pub settle: Span,
}

/// What an installation leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    pub infra_id: String,
    pub cluster_id: String,
    /// The kubeconfig of the cluster's administrator.
    pub kubeconfig: Option<SecretValue>,
    /// The administrator's password.
    pub password: Option<SecretValue>,
    /// The installer's `metadata.json`, which it needs to destroy the cluster.
    pub metadata: Option<SecretValue>,
    /// The cluster's nodes with their addresses at the end of the installation.
    pub nodes: Option<SecretValue>,
}

/// A job as the wire has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobDocument {
    /// Its id.
    pub metadata: JobMeta,
    /// The work, and the objects that it is for.
    pub spec: JobSpec,
    /// The result. In an import, a job without status counts as interrupted.
    #[serde(default)]
    pub status: JobStatus,
}

/// The name of a job: its id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobMeta {
    /// Its id.
    pub name: String,
}

/// What is to be done, by which driver, on what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobSpec {
    /// What is done: provision, deprovision, start, stop, health, cycle, state, attach, eject,
    /// inspect, add-nodes or wipe.
    pub verb: String,
    /// The cluster of the job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The hosts of the job, with their namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Namespace of the cluster's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_namespace: Option<String>,
    /// The cluster's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The name of the driver, of which `poolctl driver list` lists all; exec for any exec:NAME.
    pub driver: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Which provision job of its pool this is, from 1; 0 for other verbs.
    pub ordinal: u32,
}

/// How the job went. It has no end and no outcome while it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    /// When the job was started.
    #[serde(default)]
    pub started: Time,
    /// When the job ended; empty while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Outcome: succeeded, failed, cancelled or interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Error message of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Files that are kept of a failed installation on this machine. An import takes none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Class of the failure of a provision or deprovision job: CloudAway, ControllerAway, Capacity,
    /// SetupMissing, InputWrong, BootstrapFailed, OperatorsNotReady or Unclear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
}

impl Job {
    /// The job in the wire format that `get job` prints.
    pub fn to_wire(&self) -> JobDocument {
        let mut document = JobDocument::default();
        self.write_fields(&mut document);
        document.metadata.name = self.id.to_string();
        document.spec.verb = self.verb.name().into();
        document.spec.driver = self.driver.name().into();
        self.cluster().unwrap_or_default().clone_into(&mut document.spec.cluster);
        document.spec.pool_namespace = self.pool.as_ref().map(|pool| pool.namespace.clone());
        document.spec.pool = self.pool.as_ref().map(|pool| pool.name.clone());
        document
    }

    /// None for a document that poolctl cannot have written: one without an object, or with an
    /// unknown verb or driver.
    pub fn from_wire(mut document: JobDocument) -> Option<Self> {
        let mut job = Self { begun: true, ..Self::default() };
        job.take_fields(&mut document);
        let JobDocument { metadata, spec, .. } = document;
        job.id = metadata.name.parse().ok()?;
        job.verb = Verb::named(&spec.verb)?;
        job.driver = Driver::named(&spec.driver)?;
        job.object =
            if spec.cluster.is_empty() { job.hosts.first()?.clone() } else { spec.cluster };
        if let (Some(namespace), Some(name)) = (spec.pool_namespace, spec.pool) {
            job.pool = Some(Rc::new(Key::new(namespace, name)));
        }
        Some(job)
    }

    /// The cluster that the job works on; none if it works on a host.
    pub fn cluster(&self) -> Option<&str> {
        if self.object.contains('/') { None } else { Some(&self.object) }
    }

    /// The host that the job works on; none if it works on a cluster.
    pub fn host(&self) -> Option<Key> {
        self.object.split_once('/').map(|(namespace, name)| Key::new(namespace, name))
    }

    /// The job's object as commands take it: `cluster/NAME` or `host/NAMESPACE/NAME`.
    pub fn object_word(&self) -> String {
        let kind = if self.cluster().is_some() { "cluster" } else { "host" };
        format!("{kind}/{}", self.object)
    }

    /// Whether machines of the job may come on after this time without being told again: it
    /// switches machines on, and has ended without success shortly before. A controller may still
    /// act on what it was told last.
    pub fn may_still_switch_on(&self, now: Time) -> bool {
        let is_done = self.outcome.as_deref() == Some(SUCCEEDED);
        let is_recent = self.ended.is_none_or(|ended| ended.plus(POWER_DELAY) > now);
        self.verb.switches_on() && !is_done && is_recent
    }

    /// Ends a live job as interrupted. A state that moves to another machine does this to its jobs,
    /// because their programs do not move with it.
    pub fn interrupt(&mut self, now: Time) {
        if self.ended.is_none() {
            self.ended = Some(now);
            self.outcome = Some(INTERRUPTED.into());
        }
    }
}

// The outcomes of jobs, as the state and the wire have them.
/// The process of the job ended without an outcome, such as by a reboot.
pub const INTERRUPTED: &str = "interrupted";
/// The driver reported success.
pub const SUCCEEDED: &str = "succeeded";
/// The driver reported a failure, or its time was over.
pub const FAILED: &str = "failed";
/// poolctl or a person ended the job.
pub const CANCELLED: &str = "cancelled";

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_job(verb: Verb, outcome: &str) -> Job {
        let ended = Some(Time::default());
        Job { verb, ended, outcome: Some(outcome.into()), ..Job::default() }
    }

    #[test]
    fn every_job_that_switches_machines_on_may_do_so_a_moment_after_it_broke_off() {
        let soon = Time::default().plus(Span::minutes(1));
        for verb in Verb::ALL.iter().copied() {
            let switches_on = match verb {
                Verb::Deprovision | Verb::Stop | Verb::Eject => false,
                verb => !verb.is_read_only(),
            };
            assert_eq!(ended_job(verb, FAILED).may_still_switch_on(soon), switches_on, "{verb:?}");
        }
        let live_job = Job { verb: Verb::AddNodes, ..Job::default() };
        assert!(live_job.may_still_switch_on(soon));
        assert!(!ended_job(Verb::Wipe, SUCCEEDED).may_still_switch_on(soon));
        let later = Time::default().plus(POWER_DELAY);
        assert!(!ended_job(Verb::Wipe, FAILED).may_still_switch_on(later));
    }
}
