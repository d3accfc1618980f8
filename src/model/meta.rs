//! The metadata that every object has, and the keys and references by which objects are found.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time::Time;

/// The namespace and the name by which an object of a kind is found. Kinds without namespaces have
/// the empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// A key. The namespace is empty for kinds without namespaces.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(out, "{}", self.name),
            namespace => write!(out, "{namespace}/{}", self.name),
        }
    }
}

/// 128 random bits, written as a UUID.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub u128);

impl fmt::Display for Uid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        out.write_str(&parts.join("-"))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Uid {
    type Err = std::num::ParseIntError;

    fn from_str(uuid: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(&uuid.replace('-', ""), 16).map(Self)
    }
}

/// The metadata of an object, as Kubernetes has it. All fields but `id` are on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Meta {
    /// Name, unique in its namespace: lower-case letters, digits and dashes, at most 63.
    pub name: String,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unique id, assigned by poolctl.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// When the object was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// When the deletion was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Version of the spec; every change of the spec increases it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// Keys and values for selecting objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Options without a field, and data of other tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Marks of programs that must finish before the object is removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The objects that this one belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Order of insertion; never on the wire.
    #[serde(skip)]
    pub id: i64,
}

/// The part of a cluster's metadata that its driver is told.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Steering {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl Meta {
    /// The namespace and the name.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }

    /// The version of the object, `UID/GENERATION`. It also changes when the object is deleted and
    /// created again.
    pub fn version(&self) -> String {
        format!("{}/{}", self.uid, self.generation)
    }

    /// The value of an annotation; none if it is absent.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }

    /// Whether there is an annotation of this name, whatever its value is.
    pub fn has_annotation(&self, name: &str) -> bool {
        self.annotations.contains_key(name)
    }

    /// Whether an annotation is true, in the spellings of Go's `ParseBool`.
    pub fn has_true_annotation(&self, name: &str) -> bool {
        self.annotation(name).is_some_and(is_go_true)
    }
}

/// Objects stored with their whole metadata, unlike claims and clusters, which are stored as
/// columns.
pub trait HasMeta {
    fn meta(&self) -> &Meta;
    fn meta_mut(&mut self) -> &mut Meta;
}

/// Whether Go's `ParseBool` accepts `value`.
pub fn is_go_bool(value: &str) -> bool {
    is_go_true(value) || matches!(value, "0" | "f" | "F" | "false" | "FALSE" | "False")
}

/// Whether Go's `ParseBool` reads `value` as true.
pub fn is_go_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// One of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OwnerReference {
    /// The owner's API version.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Whether the owner controls it.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner is deleted only after this object.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// A reference by name to an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalRef {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl LocalRef {
    /// A reference to an object in the same namespace.
    pub fn to_name(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// Whether a value is the default of its type, so that it is left out on the wire.
pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
