//! ClusterDeploymentCustomization: patches for one cluster at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::Condition;
use super::lease::{ClusterHolder, Holder, Lease, Resource};
use super::meta::{Key, LocalRef, Meta, is_zero};
use super::time::Time;

/// The condition that says how the last cluster with a customization went.
pub const APPLY_SUCCEEDED: &str = "ApplySucceeded";
/// Its reason when the patches do not apply.
pub const BROKEN_BY_SYNTAX: &str = "BrokenBySyntax";
/// Its reason when the cluster was given up.
pub const BROKEN_BY_CLOUD: &str = "BrokenByCloud";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Customization {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The patches.
    #[serde(default)]
    pub spec: CustomizationSpec,
    /// Who uses it and how that went, written by poolctl.
    #[serde(default)]
    pub status: CustomizationStatus,
    /// Who has it, from the lease row.
    #[serde(skip)]
    pub holder: Option<ClusterHolder>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CustomizationSpec {
    /// RFC 6902 operations on the install-config.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install_config_patches: Vec<Patch>,
    /// RFC 6902 operations on the manifests made from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub installer_manifest_patches: Vec<ManifestPatch>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// What to do: add, remove, replace, move, copy or test.
    pub op: Op,
    /// JSON pointer; one without its leading slash is read as if it had it.
    pub path: String,
    /// Where move and copy take from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Any value.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The value as JSON text; wins over value.
    #[serde(default, rename = "valueJSON", skip_serializing_if = "Option::is_none")]
    pub value_json: Option<String>,
}

/// A value that is given as null is null, not absent.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    #[default]
    Add,
    Remove,
    Replace,
    Move,
    Copy,
    Test,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestPatch {
    /// Which manifests are patched; one that selects none fails the installation.
    pub manifest_selector: ManifestSelector,
    /// RFC 6902 operations on each of them, applied before the installation begins.
    pub patches: Vec<Patch>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestSelector {
    /// Files below the installer's directory.
    pub glob: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CustomizationStatus {
    /// The cluster that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_deployment_ref: Option<LocalRef>,
    /// That cluster's pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_pool_ref: Option<LocalRef>,
    /// The cluster's object is gone, but it was left running and keeps the customization.
    #[serde(skip_serializing_if = "is_zero")]
    pub preserved: bool,
    /// The name in DNS that such a cluster keeps.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preserved_name: String,
    /// The patches as they were last applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_configuration: Option<String>,
    /// Available and ApplySucceeded.
    pub conditions: Vec<Condition>,
}

impl Customization {
    pub fn lease(&self) -> Option<Lease> {
        let holder = Holder::Cluster(self.holder.clone()?);
        Some(Lease::new(Resource::Customization(self.metadata.key()), holder))
    }
}

impl CustomizationStatus {
    /// Says whether anything changed. Upstream's schema of this kind knows no time of probing.
    pub fn set(&mut self, new: Condition, now: Time) -> bool {
        let changed = super::condition::set(&mut self.conditions, new, now);
        for one in &mut self.conditions {
            one.last_probe_time = None;
        }
        changed
    }
}

impl Customization {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        super::condition::find(&self.status.conditions, kind)
    }

    /// Why the last cluster with it was not installed, if it was given up.
    pub fn apply_failure(&self) -> Option<&Condition> {
        let applied = self.condition(APPLY_SUCCEEDED)?;
        [BROKEN_BY_SYNTAX, BROKEN_BY_CLOUD].contains(&applied.reason.as_str()).then_some(applied)
    }

    pub fn key(&self) -> Key {
        self.metadata.key()
    }
}
