//! A pool's inventory: the customizations that the pool lists, and what it knows of each. It holds
//! these; `plan` decides which customization the next cluster gets.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `spec.inventory[]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InventoryEntry {
    /// Kind: ClusterDeploymentCustomization (default).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Name of the customization, in the pool's namespace.
    pub name: String,
}

/// `status.inventory.<name>`: a customization as this pool sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InventoryStatus {
    /// Generation of the customization when it was last read; of a reserved one, the generation with
    /// which its cluster was made.
    pub version: i64,
    /// Available, Reserved, To Be Updated, To Be Deleted, Broken by configuration, Broken by cloud,
    /// Missing or Unavailable.
    pub status: EntryStatus,
    /// How many more clusters may fail to install before the entry is Broken by cloud.
    pub attempts: u32,
    /// The cluster of this pool that uses the customization.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_deployment: String,
    /// Whether it is unavailable because another cluster has the same DNS name or address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name_taken: bool,
    /// Why the customization cannot be used, or what it waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last configuration with it that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<InputRefusal>,
}

/// `status.inventory.<name>.refusal`. It holds until the customization, its pool, or what the pool
/// names is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputRefusal {
    /// The version of the pool.
    pub pool_version: String,
    /// Versions of the release image, the template, the pull secret and the platform's Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// The message of the installer.
    pub cause: String,
}

/// How many clusters with a customization may be given up before it is broken by cloud.
pub const CUSTOMIZATION_ATTEMPTS: u32 = 3;

/// Whether the pool can use a customization now, and if not, why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EntryStatus {
    /// The next cluster may get it.
    #[default]
    Available,
    /// A cluster of this pool has it.
    Reserved,
    /// Its patches do not apply to this pool's template, or the installer refuses the result.
    #[serde(rename = "Broken by configuration")]
    BrokenByConfiguration,
    /// All its attempts were used up by clusters that did not install.
    #[serde(rename = "Broken by cloud")]
    BrokenByCloud,
    /// The pool lists it, but it does not exist.
    Missing,
    /// Another pool uses it, or another cluster has the same DNS name or address.
    Unavailable,
    /// The pool does not list it any more, but one of its clusters has it.
    #[serde(rename = "To Be Deleted")]
    ToBeDeleted,
    /// A cluster of this pool has an older version of it.
    #[serde(rename = "To Be Updated")]
    ToBeUpdated,
}

impl EntryStatus {
    /// All values.
    pub const ALL: [Self; 8] = [
        Self::Available,
        Self::Reserved,
        Self::BrokenByConfiguration,
        Self::BrokenByCloud,
        Self::Missing,
        Self::Unavailable,
        Self::ToBeDeleted,
        Self::ToBeUpdated,
    ];

    /// Whether a cluster of this pool uses the customization, or the next one may.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Available | Self::Reserved | Self::ToBeUpdated)
    }

    /// Whether no cluster gets the customization before somebody mends or resets it.
    pub fn is_broken(self) -> bool {
        matches!(self, Self::BrokenByConfiguration | Self::BrokenByCloud)
    }
}

impl fmt::Display for EntryStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Available => "Available",
            Self::Reserved => "Reserved",
            Self::BrokenByConfiguration => "Broken by configuration",
            Self::BrokenByCloud => "Broken by cloud",
            Self::Missing => "Missing",
            Self::Unavailable => "Unavailable",
            Self::ToBeDeleted => "To Be Deleted",
            Self::ToBeUpdated => "To Be Updated",
        })
    }
}
