//! Wiping: what becomes of the disks of a host that comes back from a cluster. It only says who
//! wipes a host and how that went; a driver does it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::annotations::WIPE;
use super::super::driver::PROGRAM_PREFIX;
use super::super::infra_env::InfraEnv;
use super::super::time::Time;
use super::BareMetalHost;

/// The value of the annotation by which nobody wipes a host, whatever its `InfraEnv` says.
pub const NO_WIPE: &str = "none";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Wipe {
    /// State of the wipe: pending, done or failed.
    pub state: WipeState,
    /// When this state began.
    pub since: Time,
    /// The program that wipes the host: exec:NAME.
    pub driver: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WipeState {
    /// The disks are being wiped. No cluster gets the host before that is done.
    #[default]
    Pending,
    /// The disks are wiped.
    Done,
    /// The disks could not be wiped.
    Failed,
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

/// The program that wipes a host, as `exec:NAME`; none if nobody does. The host's own annotation
/// counts before that of its `InfraEnv`.
pub fn wipe_program<'a>(
    host: &'a BareMetalHost,
    infra_env: Option<&'a InfraEnv>,
) -> Option<&'a str> {
    let by_host = host.metadata.annotation(WIPE);
    let wiper = by_host.or_else(|| infra_env?.metadata.annotation(WIPE))?;
    if wiper.starts_with(PROGRAM_PREFIX) { Some(wiper) } else { None }
}
