//! Metal3DataTemplate: what each machine is told about itself and about its networks, as metal3
//! has it on the wire.

pub mod metadata;
pub mod network;
mod pools;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use self::metadata::MetaData;
use self::network::NetworkData;
pub use self::pools::{Network, Source};
use super::meta::{Key, Meta, is_zero};
use super::time::Time;

/// What an annotation, a label or a name may be read from, in any letter case.
pub const OBJECTS: [&str; 3] = ["machine", "metal3machine", "baremetalhost"];
/// What v1beta2 calls fields of metaData, and what they are called here.
pub const NEWER_NAMES: [(&str, &str); 4] = [
    ("ipAddressesFromPool", "ipAddressesFromIPPool"),
    ("prefixesFromPool", "prefixesFromIPPool"),
    ("gatewaysFromPool", "gatewaysFromIPPool"),
    ("dnsServersFromPool", "dnsServersFromIPPool"),
];

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metal3DataTemplate {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// What machines are told.
    #[serde(default)]
    pub spec: DataTemplateSpec,
    /// Which machine has which number, kept by poolctl.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: DataTemplateStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DataTemplateSpec {
    /// The cluster whose machines are told.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Kept for others, no effect here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_reference: String,
    /// Values by key, for cloud-init; fixed once it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,
    /// Links, networks and services; fixed once it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<NetworkData>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DataTemplateStatus {
    /// The machine of each number.
    #[serde(deserialize_with = "indexes", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("type" = ["object", "array"], "additionalProperties" = true))]
    pub indexes: BTreeMap<String, String>,
    /// The rendered data of each machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data_names: BTreeMap<String, String>,
    /// When a number was last given or taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}

impl Metal3DataTemplate {
    /// The number of a machine.
    pub fn index_of(&self, machine: &str) -> Option<u64> {
        let found = self.status.indexes.iter().find(|(_, one)| *one == machine);
        found.and_then(|(number, _)| number.parse().ok())
    }

    /// The machine of a number.
    pub fn holder_of(&self, index: u64) -> Option<String> {
        self.status.indexes.get(&index.to_string()).cloned()
    }

    pub fn give(&mut self, machine: &str, index: u64, now: Time) {
        let name = format!("{}-{index}", self.metadata.name);
        let old = self.status.indexes.insert(index.to_string(), machine.to_owned());
        self.status.data_names.insert(machine.to_owned(), name);
        if old.as_deref() != Some(machine) {
            self.status.last_updated = Some(now);
        }
    }

    pub fn forget(&mut self, machine: &str) {
        self.status.indexes.retain(|_, one| one != machine);
        self.status.data_names.remove(machine);
    }
}

/// Number to machine; also v1beta1's machine to number, and v1beta2's list.
fn indexes<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    struct Entry {
        index: u64,
        name: String,
    }
    match Value::deserialize(from)? {
        Value::Object(fields) => {
            let pair = |(key, value): (String, Value)| match value {
                Value::String(owner) => Ok((key, owner)),
                Value::Number(number) => Ok((number.to_string(), key)),
                _ => Err(D::Error::custom(format!(
                    "indexes: `{key}` has neither a name nor a number"
                ))),
            };
            fields.into_iter().map(pair).collect()
        }
        other => {
            let all: Vec<Entry> = serde_json::from_value(other).map_err(D::Error::custom)?;
            Ok(all.into_iter().map(|one| (one.index.to_string(), one.name)).collect())
        }
    }
}

impl Metal3DataTemplate {
    pub fn key(&self) -> Key {
        self.metadata.key()
    }
}
