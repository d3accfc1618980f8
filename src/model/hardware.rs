//! What a machine is made of, as metal3 writes it down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Hardware {
    /// Its name, if its BMC knows it.
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
    /// Who made it.
    pub system_vendor: SystemVendor,
    /// The UUID of its board.
    #[serde(rename = "systemUUID", skip_serializing_if = "String::is_empty")]
    pub system_uuid: String,
    /// Its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Value>,
}

impl Hardware {
    /// Model, processors, memory and disks, as far as they are known.
    pub fn summary(&self) -> String {
        let vendor = &self.system_vendor;
        let model = [&*vendor.manufacturer, &*vendor.product_name];
        let mut all: Vec<String> = Vec::new();
        all.extend(Some(model.join(" ").trim().to_owned()).filter(|model| !model.is_empty()));
        all.extend(
            Some(self.cpu.count).filter(|count| *count > 0).map(|count| format!("{count} CPUs")),
        );
        let memory = self.ram_mebibytes;
        all.extend(Some(memory).filter(|memory| *memory > 0).map(|memory| match memory {
            1024.. => format!("{} GiB", memory / 1024),
            _ => format!("{memory} MiB"),
        }));
        let disks = self.storage.len();
        all.extend(
            Some(disks)
                .filter(|disks| *disks > 0)
                .map(|disks| format!("{disks} disk{}", if disks == 1 { "" } else { "s" })),
        );
        all.join(", ")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// `x86_64`, aarch64, ...
    pub arch: String,
    /// Threads.
    pub count: u64,
    /// As its maker calls it.
    pub model: String,
    /// Highest frequency, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_megahertz: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    /// As its BMC calls it.
    pub name: String,
    /// Its address, lower case with colons.
    pub mac: String,
    /// Its first IP address, if known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// In Gbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_gbps: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// As its BMC calls it.
    pub name: String,
    /// In bytes.
    pub size_bytes: u64,
    /// HDD, SSD or NVME.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Its serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemVendor {
    /// Its maker.
    pub manufacturer: String,
    /// Its model.
    pub product_name: String,
    /// Its serial number.
    pub serial_number: String,
}

/// Why a text is no MAC address of a machine: six pairs of hexadecimal digits with colons.
pub fn mac(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split(':').collect();
    let pair = |one: &&str| one.len() == 2 && one.bytes().all(|one| one.is_ascii_hexdigit());
    if parts.len() != 6 || !parts.iter().all(pair) {
        return Err(format!("`{text}` is no MAC address like 52:54:00:12:34:56"));
    }
    let first = u8::from_str_radix(parts[0], 16).unwrap_or_default();
    if first & 1 == 1 {
        return Err(format!("`{text}` is the address of a group, not of a machine"));
    }
    if parts.iter().all(|one| *one == "00") {
        return Err(format!("`{text}` is nobody's address"));
    }
    Ok(())
}
