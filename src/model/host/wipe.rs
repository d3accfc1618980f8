//! Wiping: what becomes of the disks of a host that comes back from a cluster. It only says who
//! wipes a host and how that went; a driver does it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::driver::EXEC;
use super::super::infra_env::InfraEnv;
use super::super::time::Time;
use super::BareMetalHost;

pub use super::super::annotations::WIPE;

/// The value of the annotation by which nobody wipes a host, whatever its `InfraEnv` says.
pub const NOBODY: &str = "none";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Wipe {
    /// pending, done or failed.
    pub state: WipeState,
    /// Since when.
    pub since: Time,
    /// Who does it: exec:NAME.
    pub driver: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WipeState {
    /// Nobody gets the host before it is done.
    #[default]
    Pending,
    /// Its disks are empty.
    Done,
    /// They are as its last cluster left them.
    Failed,
}

/// The annotation `poolctl.dev/hold` of a host whose wipe failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WipeHold {
    /// The whole of it, as poolctl wrote it; a person may have put another one in its place since.
    pub annotation: String,
    /// Why a person held the host before that, if anybody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_before: Option<String>,
}

/// The program that wipes a host, as `exec:NAME`; none if nobody does. The host's own annotation
/// counts before that of its `InfraEnv`.
pub fn wiper<'a>(host: &'a BareMetalHost, infra_env: Option<&'a InfraEnv>) -> Option<&'a str> {
    let by_host = host.metadata.annotation(WIPE);
    let wiper = by_host.or_else(|| infra_env?.metadata.annotation(WIPE))?;
    if wiper.starts_with(EXEC) { Some(wiper) } else { None }
}
