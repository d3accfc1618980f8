//! The hardware of a machine as its management controller describes it, in metal3's wire format. It
//! judges nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The hardware that a management controller reports, in metal3's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Hardware {
    /// The hostname, if the controller knows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Processors.
    pub cpu: Cpu,
    /// Memory, in MiB.
    pub ram_mebibytes: u64,
    /// Network interfaces.
    pub nics: Vec<Nic>,
    /// Disks.
    pub storage: Vec<Disk>,
    /// The maker of the machine.
    pub system_vendor: SystemVendor,
    /// The UUID of the board.
    #[serde(rename = "systemUUID", skip_serializing_if = "String::is_empty")]
    pub system_uuid: String,
    /// Its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Value>,
}

impl Hardware {
    /// Model, processors, memory and disks in one line, as far as they are known.
    pub fn summary(&self) -> String {
        let SystemVendor { manufacturer, product_name, .. } = &self.system_vendor;
        let model = format!("{manufacturer} {product_name}").trim().to_owned();
        let cpus = match self.cpu.count {
            0 => String::new(),
            1 => "1 CPU".to_owned(),
            count => format!("{count} CPUs"),
        };
        let memory = match self.ram_mebibytes {
            0 => String::new(),
            mebibytes @ 1..1024 => format!("{mebibytes} MiB"),
            mebibytes => format!("{} GiB", mebibytes / 1024),
        };
        let disks = match self.storage.len() {
            0 => String::new(),
            1 => "1 disk".to_owned(),
            count => format!("{count} disks"),
        };
        let mut parts = vec![model, cpus, memory, disks];
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

/// The processors, all sockets together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Architecture: `x86_64`, aarch64, ...
    pub arch: String,
    /// Number of CPU threads.
    pub count: u64,
    /// Model name.
    pub model: String,
    /// Highest frequency, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_megahertz: Option<u64>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    /// Name that the controller gives it.
    pub name: String,
    /// Its MAC address, in lower case with colons.
    pub mac: String,
    /// Its first IP address, if known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Speed in Gbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_gbps: Option<u64>,
}

/// A disk with its size in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// Name that the controller gives it.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Type: HDD, SSD or NVME.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
}

/// Who made the machine, and its serial number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemVendor {
    /// Vendor.
    pub manufacturer: String,
    /// Model.
    pub product_name: String,
    /// Serial number.
    pub serial_number: String,
}

/// Checks that a text is the MAC address of a machine: six pairs of hexadecimal digits with colons,
/// neither the address of a group nor all zeros. The error is a sentence for people.
pub fn check_mac_address(address: &str) -> Result<(), String> {
    let pairs: Vec<&str> = address.split(':').collect();
    if pairs.len() != 6 || !pairs.iter().all(|pair| is_hexadecimal_pair(pair)) {
        return Err(format!("`{address}` is not a MAC address like 52:54:00:12:34:56"));
    }
    let first_byte = u8::from_str_radix(pairs[0], 16).unwrap_or_default();
    if first_byte & 1 == 1 {
        return Err(format!("`{address}` is a multicast address, not the address of a machine"));
    }
    if pairs.iter().all(|pair| *pair == "00") {
        return Err(format!("`{address}` is not the address of a machine"));
    }
    Ok(())
}

fn is_hexadecimal_pair(pair: &str) -> bool {
    pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit())
}
