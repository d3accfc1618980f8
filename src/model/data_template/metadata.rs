//! The metaData of a data template: which key gets which value, and where that comes from. It never
//! looks up a value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::meta::is_zero;

/// What the metadata of a machine are made of. Each entry makes one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MetaData {
    /// MAC addresses of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_host_interfaces: Vec<FromHostInterface>,
    /// Addresses leased from IPPools.
    #[serde(
        rename = "ipAddressesFromIPPool",
        alias = "ipAddressesFromPool",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub ip_addresses_from_ip_pool: Vec<FromPool>,
    /// Prefix lengths of those leases.
    #[serde(
        rename = "prefixesFromIPPool",
        alias = "prefixesFromPool",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub prefixes_from_ip_pool: Vec<FromPool>,
    /// Gateways of those leases.
    #[serde(
        rename = "gatewaysFromIPPool",
        alias = "gatewaysFromPool",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub gateways_from_ip_pool: Vec<FromPool>,
    /// DNS servers of those leases, separated by commas.
    #[serde(
        rename = "dnsServersFromIPPool",
        alias = "dnsServersFromPool",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub dns_servers_from_ip_pool: Vec<FromPool>,
    /// Texts with a number calculated from the index of the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// The namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Namespace>,
    /// Names of the machine or of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub object_names: Vec<ObjectName>,
    /// Values of labels; empty if the label does not exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_labels: Vec<FromLabel>,
    /// Values of annotations; empty if the annotation does not exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_annotations: Vec<FromAnnotation>,
    /// Fixed values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strings: Vec<Fixed>,
}

/// A key that holds the MAC address of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FromHostInterface {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
    /// The interface of the host with this name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub interface: String,
    /// Use the host's bootMACAddress instead.
    #[serde(default, rename = "fromBootMAC", skip_serializing_if = "is_zero")]
    pub from_boot_mac: bool,
}

/// A key that holds what the machine is leased from a pool of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FromPool {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
    /// The IPPool.
    #[serde(alias = "Name")]
    pub name: String,
    #[schemars(extend("x-no-effect" = "the kind is always IPPool", "x-as-here" = "IPPool"))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[schemars(extend(
        "x-no-effect" = "the group is always `ipam.metal3.io`",
        "x-as-here" = "ipam.metal3.io"
    ))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
}

/// The value is prefix, then offset + index * step, then suffix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
    /// The number for index 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u32,
    /// The difference between two indexes; default 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u32,
    /// Text before the number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Text after the number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suffix: String,
}

/// A key that holds the namespace of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
}

/// A key that holds the name of an object of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectName {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
    /// machine, metal3machine or baremetalhost.
    pub object: String,
}

/// A key that holds the value of a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromLabel {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
    /// machine, metal3machine or baremetalhost.
    pub object: String,
    /// The label's key.
    pub label: String,
}

/// A key that holds the value of an annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromAnnotation {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
    /// machine, metal3machine or baremetalhost.
    pub object: String,
    /// The annotation's key.
    pub annotation: String,
}

/// A key with the same value for every machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// The key that is set.
    #[serde(alias = "Key")]
    pub key: String,
    /// The value that the key gets.
    pub value: String,
}

impl Index {
    /// The value that the machine with this index gets.
    pub fn value_for(&self, index: u64) -> String {
        let step = u128::from(self.step.max(1));
        let number = u128::from(self.offset) + u128::from(index) * step;
        format!("{}{number}{}", self.prefix, self.suffix)
    }
}

impl MetaData {
    /// The lists whose entries name pools, each after the name of its field.
    pub fn pool_entries(&self) -> [(&'static str, &[FromPool]); 4] {
        [
            ("ipAddressesFromIPPool", &self.ip_addresses_from_ip_pool),
            ("prefixesFromIPPool", &self.prefixes_from_ip_pool),
            ("gatewaysFromIPPool", &self.gateways_from_ip_pool),
            ("dnsServersFromIPPool", &self.dns_servers_from_ip_pool),
        ]
    }

    /// The keys that the entries of each list set, after the name of the list's field.
    pub fn keys_by_list(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut lists = vec![("fromHostInterfaces", keys_of(&self.from_host_interfaces))];
        lists.extend(self.pool_entries().map(|(list, entries)| (list, keys_of(entries))));
        lists.push(("indexes", keys_of(&self.indexes)));
        lists.push(("namespaces", keys_of(&self.namespaces)));
        lists.push(("objectNames", keys_of(&self.object_names)));
        lists.push(("fromLabels", keys_of(&self.from_labels)));
        lists.push(("fromAnnotations", keys_of(&self.from_annotations)));
        lists.push(("strings", keys_of(&self.strings)));
        lists
    }

    /// Every object that a value is read from, by list.
    pub fn source_objects(&self) -> Vec<SourceObject<'_>> {
        let mut objects = Vec::new();
        for (index, entry) in self.object_names.iter().enumerate() {
            objects.push(SourceObject { list: "objectNames", index, object: &entry.object });
        }
        for (index, entry) in self.from_labels.iter().enumerate() {
            objects.push(SourceObject { list: "fromLabels", index, object: &entry.object });
        }
        for (index, entry) in self.from_annotations.iter().enumerate() {
            objects.push(SourceObject { list: "fromAnnotations", index, object: &entry.object });
        }
        objects
    }
}

/// An object that an entry reads its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceObject<'a> {
    /// The field of the list that has the entry.
    pub list: &'static str,
    /// The index of the entry in it.
    pub index: usize,
    /// The word for the object: machine, metal3machine or baremetalhost.
    pub object: &'a str,
}

/// An entry of one of the lists, which sets a key.
trait SetsKey {
    fn key(&self) -> &str;
}

macro_rules! sets_key {
    ($($Entry:ty),+) => {
        $(impl SetsKey for $Entry {
            fn key(&self) -> &str {
                &self.key
            }
        })+
    };
}
sets_key!(FromHostInterface, FromPool, Index, Namespace, ObjectName);
sets_key!(FromLabel, FromAnnotation, Fixed);

fn keys_of(entries: &[impl SetsKey]) -> Vec<&str> {
    entries.iter().map(SetsKey::key).collect()
}
