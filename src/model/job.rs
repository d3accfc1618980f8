//! Work that a driver does on an object, and what came of it.

use std::rc::Rc;

use super::cluster::Driver;
use super::documents::SecretValue;
use super::meta::{Key, Uid};
use super::time::Time;

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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Provision,
    Deprovision,
    Start,
    Stop,
}

impl Verb {
    pub const ALL: [Self; 4] = [Self::Provision, Self::Deprovision, Self::Start, Self::Stop];

    pub fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Deprovision => "deprovision",
            Self::Start => "start",
            Self::Stop => "stop",
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
    /// Deprovisioned, started or stopped.
    Done,
    Failed {
        message: String,
    },
}

/// What an installation leaves behind.
#[derive(Clone, Debug)]
pub struct Installation {
    pub infra_id: String,
    pub cluster_id: String,
    pub kubeconfig: SecretValue,
    pub password: SecretValue,
    pub metadata: SecretValue,
}

pub const SUCCEEDED: &str = "succeeded";
pub const FAILED: &str = "failed";
pub const CANCELLED: &str = "cancelled";
