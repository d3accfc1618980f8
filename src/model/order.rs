//! What a supervisor is told, and what it says when its job is over: files in the job's folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::customization::ManifestPatch;
use super::driver::Driver;
use super::job::{HostReport, Verb};

/// Everything that a driver needs, but for the secrets, which lie beside it as files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Order {
    pub job: String,
    pub verb: Verb,
    /// 1 for the first try of this verb.
    pub attempt: u32,
    /// The cluster as poolctl calls it.
    pub cluster: String,
    /// The cluster in DNS.
    pub cluster_name: String,
    pub base_domain: String,
    pub platform: String,
    pub driver: Driver,
    pub release_image: String,
    /// Programs by name, with absolute paths.
    pub programs: BTreeMap<String, PathBuf>,
    /// Programs that cannot be used, and why.
    pub missing: BTreeMap<String, String>,
    /// The files that it was given.
    pub inputs: Vec<String>,
    /// What the installer called the cluster, if it is known.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// Environment of the installer.
    pub environment: BTreeMap<String, String>,
    /// Of the pool-wide customization first, then of the cluster's own.
    pub manifest_patches: Vec<ManifestPatch>,
    /// The pool's annotation.
    pub strict_patches: bool,
    pub annotations: BTreeMap<String, String>,
    /// Its machines were told to stop; else to start.
    pub stopping: bool,
    /// Seconds after which the job has failed.
    pub limit: u64,
    /// Earlier jobs on the cluster: their programs are ended first.
    pub before: Vec<String>,
    /// Where images for controllers are put, and how those fetch them.
    pub iso_directory: Option<PathBuf>,
    pub iso_url: Option<String>,
    /// Hosts, whose credentials lie in `input/machines/`, by their places here.
    pub machines: Vec<Machine>,
}

/// A host as its management controller is told of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a host says of itself")]
pub struct Machine {
    /// Namespace and name.
    pub host: String,
    /// Of its controller, in metal3's spelling; empty for one that is gone.
    pub address: String,
    /// Which version of its Secret opens it.
    pub credentials: String,
    /// One of its cluster's control plane.
    pub master: bool,
    /// Any certificate will do.
    pub insecure: bool,
    /// SHA-256 of the one certificate that will.
    pub pin: Option<String>,
    /// IPMI cipher suite, if one is known to work.
    pub cipher: Option<u8>,
    /// Boots by UEFI.
    pub uefi: bool,
    /// Seconds that it has to shut down.
    pub soft_off: u64,
    /// It is asked to shut down before it is cycled.
    pub soft: bool,
    /// What it boots from once: cdrom, pxe or disk.
    pub boot: Option<String>,
    /// What is attached and booted from.
    pub image: Option<String>,
    /// It is not booted before all others have their image.
    pub held: bool,
}

/// How a job ended. Written whole by the supervisor, never by the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ending {
    pub verdict: Verdict,
    /// What went wrong.
    pub message: String,
    #[serde(rename = "infraID", skip_serializing_if = "String::is_empty")]
    pub infra_id: String,
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// How a cluster does that is waking or going to sleep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthReport>,
    /// What was found of hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostReport>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    Succeeded,
    #[default]
    Failed,
    /// Trying again is of no use.
    Hopeless,
    /// It failed before anything existed: the platform may be away.
    NothingMade,
    /// Somebody ended it: nobody's failure.
    BrokeOff,
    /// Nothing was begun: something is missing that somebody has to bring.
    Later,
}

/// `health` as drivers report it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthReport {
    /// Machines that are not yet as they were told to be.
    pub machines: Vec<String>,
    pub nodes_ready: bool,
    pub operators_ready: bool,
}

impl Ending {
    pub fn new(verdict: Verdict, message: impl Into<String>) -> Self {
        Self { verdict, message: message.into(), ..Self::default() }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Verdict::Failed, message)
    }

    pub fn hopeless(message: impl Into<String>) -> Self {
        Self::new(Verdict::Hopeless, message)
    }

    pub fn done() -> Self {
        Self::new(Verdict::Succeeded, "")
    }

    pub fn succeeded(&self) -> bool {
        self.verdict == Verdict::Succeeded
    }
}
