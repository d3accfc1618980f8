//! NMStateConfig: the network configuration of a host, which is found by the MAC addresses of its
//! interfaces. Its wire format is assisted installer's. It never reads the configuration itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::Meta;

/// The network configuration of a machine, in the wire format of assisted-service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NMStateConfig {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The network configuration.
    #[serde(default)]
    pub spec: NMStateConfigSpec,
}

/// The configuration in nmstate's format, and the MAC addresses by which its machine is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NMStateConfigSpec {
    /// The interfaces of the configuration, and their MAC addresses.
    pub interfaces: Vec<NMStateInterface>,
    /// The configuration in the format of nmstate. It uses the names in interfaces.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub config: Value,
}

/// Which interface of the configuration has which MAC address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NMStateInterface {
    /// The name of the interface in the configuration.
    pub name: String,
    /// The MAC address of the interface.
    pub mac_address: String,
}

impl NMStateConfig {
    /// Whether it is for a host with these MAC addresses: it names one of them.
    pub fn is_for<'a>(&self, mut macs: impl Iterator<Item = &'a str>) -> bool {
        macs.any(|mac| {
            self.spec
                .interfaces
                .iter()
                .any(|interface| interface.mac_address.eq_ignore_ascii_case(mac))
        })
    }
}
