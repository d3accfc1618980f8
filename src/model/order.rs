//! The order that a supervisor is given, and the ending that it leaves: files in the job's folder.
//! Neither has a secret in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::customization::ManifestPatch;
use super::driver::Driver;
use super::failure::{Failure, FailureClass};
use super::host::wipe::WrittenDisk;
use super::job::{HostReport, Verb};

/// Everything that a driver needs for a job, except the secrets, which are files beside the order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobOrder {
    pub job: String,
    pub verb: Verb,
    /// 1 for the first try of this verb.
    pub attempt: u32,
    /// Name of the cluster in poolctl.
    pub cluster: String,
    /// Name of the cluster in DNS, below `base_domain`.
    pub cluster_name: String,
    pub base_domain: String,
    pub platform: String,
    pub driver: Driver,
    pub release_image: String,
    /// Absolute paths of programs, by their names.
    pub programs: BTreeMap<String, PathBuf>,
    /// Why programs cannot be used, by their names.
    pub missing: BTreeMap<String, String>,
    /// Names of the files that the driver is given.
    pub inputs: Vec<String>,
    /// The id that the installer gave the cluster; empty if it is not known.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// What the Settings say of the site. What may be secret of it is among the inputs.
    #[serde(default)]
    pub site: SiteOrder,
    /// Environment variables of the installer.
    pub environment: BTreeMap<String, String>,
    /// Patches of the pool-wide customization, then those of the cluster's own.
    pub manifest_patches: Vec<ManifestPatch>,
    /// Whether patches follow RFC 6902 to the letter.
    pub strict_patches: bool,
    /// The annotations of the cluster.
    pub annotations: BTreeMap<String, String>,
    /// Whether the machines were told to stop, and not to start. Only a job that asks for health
    /// looks at it.
    pub stopping: bool,
    /// Seconds after which the job has failed.
    pub limit: u64,
    /// Ids of earlier jobs on the cluster, whose programs are ended first.
    pub before: Vec<String>,
    /// The folder for images that management controllers fetch.
    pub iso_directory: Option<PathBuf>,
    /// The URL by which they fetch what is in that folder.
    pub iso_url: Option<String>,
    /// The folder that a driver program has for the cluster, from its first job to its last.
    #[serde(default)]
    pub cluster_folder: Option<PathBuf>,
    /// The folder of what driver programs say of themselves.
    #[serde(default)]
    pub descriptions: Option<PathBuf>,
    /// What the image of a job wipes that boots a host for that; none for every other job.
    #[serde(default)]
    pub wipe: Option<WipeOrder>,
    /// The release whose installer waits on all hosts for the configuration of the cluster; None if
    /// they have to be booted from the image of the cluster.
    #[serde(default)]
    pub waiting_release: Option<String>,
    /// Why the order lacks what its driver needs: then the driver is not run, and this is how the
    /// job ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The hosts of the job. The credentials of each are in the folder `input/machines/INDEX`, by
    /// the index of the host in this list.
    pub machines: Vec<Machine>,
}

/// What the image of a host wipes that is booted for that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WipeOrder {
    /// quick or full.
    pub method: String,
    /// The MAC addresses by which the image recognizes the machine.
    pub macs: Vec<String>,
    /// The disks that are wiped; if there are none, those that have the partitions of an
    /// installation.
    pub disks: Vec<WrittenDisk>,
    /// The discovery image that the image is made of; none if poolctl has made none.
    pub base_image: Option<PathBuf>,
}

/// What a driver is told of the site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SiteOrder {
    /// Repositories with the mirrors that are used in their place.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// The folder for what programs download and jobs share.
    pub cache_directory: PathBuf,
    /// Installers that can be started, by the version or the digest of their release.
    pub installers: BTreeMap<String, PathBuf>,
}

/// What a driver is told of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a host says of itself")]
pub struct Machine {
    /// The host, as `NAMESPACE/NAME`.
    pub host: String,
    /// Address of its controller, in metal3's spelling; empty if the host is gone.
    pub address: String,
    /// Version of the Secret with its credentials.
    pub credentials: String,
    /// Whether it is a node of its cluster's control plane.
    pub master: bool,
    /// Whether any certificate of its controller is accepted.
    pub insecure: bool,
    /// SHA-256 of the only certificate of its controller that is accepted.
    pub pin: Option<String>,
    /// IPMI cipher suite, if one is known to work.
    pub cipher: Option<u8>,
    /// Whether it boots by UEFI.
    pub uefi: bool,
    /// Seconds that it may take to shut down before it is powered off by force.
    pub soft_off: u64,
    /// Whether it is asked to shut down before it is powered off and on.
    pub soft: bool,
    /// What it boots from once: cdrom, pxe or disk.
    pub boot: Option<String>,
    /// URL of the image that is attached and booted from.
    pub image: Option<String>,
    /// Whether it is booted only after all other hosts have their image.
    pub held: bool,
    /// Whether a job that broke off may have told it to come on a moment ago. It may read off then,
    /// and be on soon.
    #[serde(default)]
    pub may_come_on: bool,
}

/// How a job ended. Written whole by the supervisor, never by the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobEnding {
    pub verdict: Verdict,
    /// Why it failed; empty if it succeeded.
    pub message: String,
    /// What kind of cause it failed for.
    pub class: FailureClass,
    /// Whether it failed before anything existed.
    pub nothing_made: bool,
    /// Whether another attempt would fail as well.
    pub hopeless: bool,
    /// A digest of the input that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(rename = "infraID", skip_serializing_if = "String::is_empty")]
    pub infra_id: String,
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// The health of a cluster that was told to start or stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthReport>,
    /// What was found out about hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostReport>,
}

/// How a job ended, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    Succeeded,
    /// It failed. A supervisor of an earlier version may have used the other names.
    #[default]
    #[serde(alias = "hopeless", alias = "nothingMade")]
    Failed,
    /// Somebody ended it, so it does not count as a failure.
    #[serde(alias = "later")]
    BrokeOff,
}

/// The health of a cluster, as drivers report it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthReport {
    /// Names of the machines that do not run yet, or still run.
    pub machines: Vec<String>,
    pub nodes_ready: bool,
    pub operators_ready: bool,
}

impl JobEnding {
    /// A report without details.
    pub fn new(verdict: Verdict, message: impl Into<String>) -> Self {
        Self { verdict, message: message.into(), ..Self::default() }
    }

    /// A failure of which nothing but this message is known.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Verdict::Failed, message)
    }

    /// A failure after which something may be left.
    pub fn failed_as(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, ..Self::failed(message) }
    }

    /// A failure before anything existed.
    pub fn failed_early(class: FailureClass, message: impl Into<String>) -> Self {
        Self { nothing_made: true, ..Self::failed_as(class, message) }
    }

    /// A failure that another attempt would repeat.
    pub fn hopeless(message: impl Into<String>) -> Self {
        Self { hopeless: true, ..Self::failed(message) }
    }

    /// What the failure means, for a job that failed.
    pub fn to_failure(&self) -> Failure {
        Failure {
            message: self.message.clone(),
            class: self.class,
            is_made: !self.nothing_made,
            is_hopeless: self.hopeless,
            input: self.input.clone(),
        }
    }

    /// The report of a job that did all it was told.
    pub fn success() -> Self {
        Self::new(Verdict::Succeeded, "")
    }

    /// Whether the job did all it was told.
    pub fn is_success(&self) -> bool {
        self.verdict == Verdict::Succeeded
    }
}
