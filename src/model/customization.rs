//! ClusterDeploymentCustomization: patches that make one cluster at a time different. It applies
//! none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::{Condition, ConditionReason, ConditionType};
use super::lease::{ClusterHolder, Holder, Lease, LeasedResource};
use super::meta::{Key, LocalRef, Meta, is_zero};
use super::time::Time;

/// A ClusterDeploymentCustomization, in Hive's wire format. One cluster at a time has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Customization {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The patches.
    #[serde(default)]
    pub spec: CustomizationSpec,
    /// The cluster that uses it, and whether its patches applied; written by poolctl.
    #[serde(default)]
    pub status: CustomizationStatus,
    /// Who has it, from the lease row.
    #[serde(skip)]
    pub holder: Option<ClusterHolder>,
}

/// The patches. They are applied in order, and each sees what those before made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CustomizationSpec {
    /// RFC 6902 operations on the install-config.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install_config_patches: Vec<Patch>,
    /// RFC 6902 operations on the installer's manifests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub installer_manifest_patches: Vec<ManifestPatch>,
}

/// A JSON patch operation: RFC 6902, with Hive's `valueJSON` beside `value`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Operation: add, remove, replace, move, copy or test.
    pub op: PatchOperation,
    /// JSON pointer to the value; a missing leading slash is added.
    pub path: String,
    /// Source path for move and copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value, of any JSON type.
    #[serde(
        default,
        deserialize_with = "deserialize_some",
        skip_serializing_if = "Option::is_none"
    )]
    pub value: Option<Value>,
    /// The value as JSON text. If set, it is used instead of value.
    #[serde(default, rename = "valueJSON", skip_serializing_if = "Option::is_none")]
    pub value_json: Option<String>,
}

/// Reads a value that is there, so that `null` becomes a value and not an absent one.
fn deserialize_some<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The operations of RFC 6902.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchOperation {
    #[default]
    Add,
    Remove,
    Replace,
    Move,
    Copy,
    Test,
}

/// Patches of the manifests that the installer makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestPatch {
    /// Selects the manifests. If it selects none, the installation fails.
    pub manifest_selector: ManifestSelector,
    /// RFC 6902 operations on each selected manifest, applied before the installation begins.
    pub patches: Vec<Patch>,
}

/// The folder of the installer for manifests that a cluster brings along.
pub const ADDED_MANIFESTS: &str = "openshift";

impl ManifestPatch {
    /// Whether it selects among the manifests that a cluster brings along.
    pub fn is_of_added_manifests(&self) -> bool {
        let folder = self.manifest_selector.glob.split_once('/').map(|(folder, _)| folder);
        folder == Some(ADDED_MANIFESTS)
    }
}

/// Which manifests are patched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestSelector {
    /// Files below the installer's directory.
    pub glob: String,
}

/// Who has the customization, and whether its last use succeeded. The plan writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CustomizationStatus {
    /// The cluster that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_deployment_ref: Option<LocalRef>,
    /// The pool of that cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_pool_ref: Option<LocalRef>,
    /// Set if the cluster's object was deleted, but the cluster runs and keeps the customization.
    #[serde(skip_serializing_if = "is_zero")]
    pub preserved: bool,
    /// The DNS name that such a cluster keeps.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preserved_name: String,
    /// The patches as they were last applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_configuration: Option<String>,
    /// The conditions Available and ApplySucceeded.
    pub conditions: Vec<Condition>,
}

impl CustomizationStatus {
    /// Sets a condition. Returns whether anything changed. The probe time is left out, because
    /// upstream's schema of this kind has none.
    pub fn set_condition(&mut self, condition: Condition, now: Time) -> bool {
        let is_changed = super::condition::set_condition(&mut self.conditions, condition, now);
        for condition in &mut self.conditions {
            condition.last_probe_time = None;
        }
        is_changed
    }
}

impl Customization {
    /// The namespace and the name.
    pub fn key(&self) -> Key {
        self.metadata.key()
    }

    /// The lease of the customization; none while no cluster has it.
    pub fn lease(&self) -> Option<Lease> {
        let holder = Holder::Cluster(self.holder.clone()?);
        Some(Lease::new(LeasedResource::Customization(self.metadata.key()), holder))
    }

    /// The condition of a type, if the customization has it.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        super::condition::find_condition(&self.status.conditions, kind)
    }

    /// The condition that says why the customization is broken; none if it is not.
    pub fn apply_failure(&self) -> Option<&Condition> {
        let applied = self.condition(ConditionType::ApplySucceeded)?;
        let is_broken = applied.reason == ConditionReason::BrokenBySyntax
            || applied.reason == ConditionReason::BrokenByCloud;
        is_broken.then_some(applied)
    }
}
