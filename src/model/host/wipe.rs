//! Wiping: what becomes of the disks of a host that comes back from a cluster. It only says how a
//! host is wiped and how that went; a driver does it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::agent::inventory::Disk;
use super::super::annotations::WIPE;
use super::super::backoff::Backoff;
use super::super::driver::PROGRAM_PREFIX;
use super::super::infra_env::InfraEnv;
use super::super::meta::{Meta, is_zero};
use super::super::time::{Span, Time};
use super::BareMetalHost;

/// The value of the annotation by which nobody wipes a host, whatever its `InfraEnv` says.
pub const NO_WIPE: &str = "none";
/// Clears the partition tables and the signatures of the disks that the installation has written.
pub const QUICK_WIPE: &str = "quick";
/// Overwrites the disks that the installation has written.
pub const FULL_WIPE: &str = "full";

/// How long a host waits after its disks could not be wiped.
const BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(2), factor: 2, max_delay: Span::hours(6) };

/// The wipe of the disks that the last cluster of a machine wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Wipe {
    /// State of the wipe: pending, done or failed.
    pub state: WipeState,
    /// When this state began.
    pub since: Time,
    /// How the disks are wiped: quick, full, or exec:NAME for a program.
    pub driver: String,
    /// The disks that the installation was told to write. If there are none, a wipe looks for the
    /// disks that have the partitions of Red Hat Enterprise Linux CoreOS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<WrittenDisk>,
    /// The InfraEnv whose discovery image the image is made of that wipes the host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub infra_env: String,
    /// Number of failures in a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Why it failed the last time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far a wipe is. A machine is given out again after `Done` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WipeState {
    /// The disks are being wiped. No cluster gets the host before that is done.
    #[default]
    Pending,
    /// The disks are wiped.
    Done,
    /// The disks could not be wiped. It is tried again.
    Failed,
}

/// A disk that an installation has written, by all that it is known by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WrittenDisk {
    /// A path that stays the same at every boot, below /dev/disk.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// World Wide Name (WWN).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
}

impl WrittenDisk {
    /// The disk as it can be found after another boot. Names such as `sda` may change, so only
    /// paths below /dev/disk count.
    pub fn of_inventory(disk: &Disk) -> Self {
        let paths = [&disk.by_id, &disk.by_path, &disk.id];
        let stable_path = paths.into_iter().find(|path| path.starts_with("/dev/disk/"));
        Self {
            path: stable_path.cloned().unwrap_or_default(),
            serial: disk.serial.clone(),
            wwn: disk.wwn.clone(),
        }
    }

    /// Whether nothing tells it from other disks.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The annotation `poolctl.dev/hold` of a host whose wipe failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WipeHold {
    /// The value that poolctl wrote. If the annotation has another one, a person has changed it.
    pub annotation: String,
    /// The value that a person had given the annotation before, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_before: Option<String>,
}

impl Wipe {
    /// Whether a program of somebody wipes the host, and not poolctl.
    pub fn is_by_program(&self) -> bool {
        self.driver.starts_with(PROGRAM_PREFIX)
    }

    /// When a wipe that failed is tried again: 2, 4, 8 ... minutes after the failure, at most 6 hours.
    pub fn retry_at(&self) -> Option<Time> {
        if self.state != WipeState::Failed {
            return None;
        }
        Some(self.since.plus(BACKOFF.delay(self.failures)))
    }
}

/// How somebody wants a host to be wiped: `none`, `quick`, `full` or `exec:NAME`; none if nobody has
/// said it. The host's own annotation counts before that of its `InfraEnv`, and that before the
/// pool's, whose metadata is given.
pub fn asked_wipe<'a>(
    host: &'a BareMetalHost,
    infra_env: Option<&'a InfraEnv>,
    pool: Option<&'a Meta>,
) -> Option<&'a str> {
    let by_host = host.metadata.annotation(WIPE);
    by_host.or_else(|| infra_env?.metadata.annotation(WIPE)).or_else(|| pool?.annotation(WIPE))
}

/// The program that wipes a host, as `exec:NAME`; none if none does.
pub fn wipe_program<'a>(
    host: &'a BareMetalHost,
    infra_env: Option<&'a InfraEnv>,
) -> Option<&'a str> {
    let asked = asked_wipe(host, infra_env, None)?;
    if asked.starts_with(PROGRAM_PREFIX) { Some(asked) } else { None }
}
