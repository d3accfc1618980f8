//! Metal3DataTemplate: what each machine is told about itself and about its networks, in metal3's
//! wire format. It only holds the template; `render/` makes the data of each machine from it.

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
pub use self::network::{AnyNetwork, NetworkList};
pub use self::pools::PoolSource;
use super::meta::{Key, Meta, is_zero};
use super::time::Time;
use super::typed::read_value;

/// The objects that a value may be read from: a name, a label or an annotation of one of them. A
/// template may write them in any letter case.
pub const SOURCE_OBJECTS: [&str; 3] = ["machine", "metal3machine", "baremetalhost"];
/// Fields of metaData that v1beta2 has renamed: the name there, then the name here.
pub const V1BETA2_FIELD_NAMES: [(&str, &str); 4] = [
    ("ipAddressesFromPool", "ipAddressesFromIPPool"),
    ("prefixesFromPool", "prefixesFromIPPool"),
    ("gatewaysFromPool", "gatewaysFromIPPool"),
    ("dnsServersFromPool", "dnsServersFromIPPool"),
];

/// A Metal3DataTemplate, in metal3's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metal3DataTemplate {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The data that machines get.
    #[serde(default)]
    pub spec: DataTemplateSpec,
    /// The index of each machine, written by poolctl.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: DataTemplateStatus,
}

/// What machines of the template get: metadata, and network data in the format of OpenStack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DataTemplateSpec {
    /// The cluster that the machines belong to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_reference: String,
    /// Metadata for cloud-init: keys and values. They cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,
    /// Network data: links, networks and services. They cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<NetworkData>,
}

/// Which machine has which index. An index is never given to two machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DataTemplateStatus {
    /// The machine of each index.
    #[serde(deserialize_with = "deserialize_indexes", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("type" = ["object", "array"], "additionalProperties" = true))]
    pub indexes: BTreeMap<String, String>,
    /// The rendered data of each machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data_names: BTreeMap<String, String>,
    /// When an index was last leased or released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}

impl Metal3DataTemplate {
    /// The namespace and the name.
    pub fn key(&self) -> Key {
        self.metadata.key()
    }

    /// The key of the Metal3Data of an index.
    pub fn data_key(&self, index: u64) -> Key {
        Key::new(&*self.metadata.namespace, Self::data_name(&self.metadata.name, index))
    }

    /// The index that a machine has, from 0.
    pub fn index_of(&self, machine: &str) -> Option<u64> {
        let mut indexes = self.status.indexes.iter();
        let (index, _) = indexes.find(|(_, holder)| *holder == machine)?;
        index.parse().ok()
    }

    /// The machine that has an index.
    pub fn holder_of(&self, index: u64) -> Option<String> {
        self.status.indexes.get(&index.to_string()).cloned()
    }

    /// The name of the Metal3Data of an index.
    pub fn data_name(template: &str, index: u64) -> String {
        format!("{template}-{index}")
    }

    /// Gives an index to a machine. Whoever had it before loses it.
    pub fn assign_index(&mut self, machine: &str, index: u64, now: Time) {
        let data_name = Self::data_name(&self.metadata.name, index);
        let previous_holder = self.status.indexes.insert(index.to_string(), machine.to_owned());
        self.status.data_names.insert(machine.to_owned(), data_name);
        if previous_holder.as_deref() != Some(machine) {
            self.status.last_updated = Some(now);
        }
    }

    /// Takes back the index of a machine.
    pub fn release_index(&mut self, machine: &str) {
        self.status.indexes.retain(|_, holder| holder != machine);
        self.status.data_names.remove(machine);
    }
}

/// Reads `status.indexes`: a map from index to machine, as poolctl writes it; v1beta1's map from
/// machine to index; or v1beta2's list.
fn deserialize_indexes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    struct Entry {
        index: u64,
        name: String,
    }
    let mut indexes = BTreeMap::new();
    match Value::deserialize(deserializer)? {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(machine) => indexes.insert(key, machine),
                    Value::Number(index) => indexes.insert(index.to_string(), key),
                    _ => {
                        let message =
                            format!("indexes: the value of `{key}` is neither a name nor a number");
                        return Err(D::Error::custom(message));
                    }
                };
            }
        }
        value => {
            let entries: Vec<Entry> = read_value(&value).map_err(D::Error::custom)?;
            indexes.extend(entries.into_iter().map(|entry| (entry.index.to_string(), entry.name)));
        }
    }
    Ok(indexes)
}
