//! The inventory of a machine as its agent reports it, in the shape that an Agent has on the wire.
//! It holds what was reported; which disk is good enough is judged in `rules/validations`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::time::Time;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Inventory {
    /// The hostname that the machine has.
    pub hostname: String,
    /// IPv4 address of its management controller.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bmc_address: String,
    /// IPv6 address of its management controller.
    #[serde(rename = "bmcV6Address", skip_serializing_if = "String::is_empty")]
    pub bmc_v6_address: String,
    /// When the inventory was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_time: Option<Time>,
    /// Memory.
    pub memory: Memory,
    /// Processors.
    pub cpu: Cpu,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// How the machine was booted.
    pub boot: Boot,
    /// The maker of the machine.
    pub system_vendor: SystemVendor,
    /// Graphics cards and accelerators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// Routes to networks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Version of its trusted platform module.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tpm_version: String,
    /// What the agent left out because there was too much of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Size in bytes.
    pub physical_bytes: u64,
    /// How much of it programs can use, in bytes.
    pub usable_bytes: u64,
    /// How it was measured: dmidecode, ghw or meminfo.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub physical_bytes_method: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Number of threads.
    pub count: u64,
    /// Highest frequency, in MHz.
    pub clock_megahertz: u64,
    /// Features of the processor.
    pub flags: Vec<String>,
    /// The model, as its maker names it.
    pub model_name: String,
    /// Architecture: `x86_64`, aarch64, ...
    pub architecture: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Interface {
    /// Name on the machine.
    pub name: String,
    /// MAC address, lower case with colons.
    pub mac_address: String,
    /// Type: physical, vlan or bond.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// IPv4 addresses with prefixes.
    #[serde(rename = "ipV4Addresses")]
    pub ipv4_addresses: Vec<String>,
    /// IPv6 addresses with prefixes.
    #[serde(rename = "ipV6Addresses")]
    pub ipv6_addresses: Vec<String>,
    /// Whether a cable is connected.
    pub has_carrier: bool,
    /// The largest packet, in bytes.
    pub mtu: u64,
    /// Speed in Mbit/s; -1 if it is not known.
    pub speed_mbps: i64,
    /// Flags: up, broadcast, ...
    pub flags: Vec<String>,
    /// Its maker.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// Its model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub product: String,
    /// Name that the firmware gives it.
    #[serde(rename = "biosDevName", skip_serializing_if = "String::is_empty")]
    pub bios_dev_name: String,
    /// Client id of its DHCP lease.
    #[serde(rename = "clientID", skip_serializing_if = "String::is_empty")]
    pub client_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "as the wire has it")]
pub struct Disk {
    /// The first of these paths that it has: by identity, by place, by name.
    pub id: String,
    /// Name that the kernel gives it.
    pub name: String,
    /// Path: /dev/NAME.
    pub path: String,
    /// Path by identity.
    #[serde(rename = "byID", skip_serializing_if = "String::is_empty")]
    pub by_id: String,
    /// Path by place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by_path: String,
    /// Type: HDD, SSD, Multipath, ...
    pub drive_type: String,
    /// Host, channel, target and LUN.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,
    /// Its maker.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// Its model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Its serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Its World Wide Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether the machine booted from it or could.
    pub bootable: bool,
    /// Whether it can be removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removable: bool,
    /// Whether the agent runs from it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_installation_media: bool,
    /// Whether it has a UUID; virtual disks of vSphere have one if disk.EnableUUID is set.
    #[serde(rename = "hasUUID")]
    pub has_uuid: bool,
    /// Output of its self-test.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub smart: String,
    /// How fast it is, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_perf: Option<IoPerf>,
    /// Whether it can be installed on, judged by the agent and then by poolctl.
    pub installation_eligibility: Eligibility,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IoPerf {
    /// 99 of 100 syncs take less than this.
    pub sync_duration_milliseconds: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Eligibility {
    /// Whether the cluster may be installed on the disk.
    pub eligible: bool,
    /// Why it may not be installed there.
    pub not_eligible_reasons: Vec<String>,
    /// The reasons that poolctl has found, not the agent; they are computed again whenever the disk
    /// is judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judged_reasons: Vec<String>,
}

impl Eligibility {
    /// The reasons against the disk that the agent reported, without those that poolctl found.
    pub fn reported_reasons(&self) -> impl Iterator<Item = &String> {
        self.not_eligible_reasons.iter().filter(move |reason| !self.judged_reasons.contains(reason))
    }

    /// Replaces the verdict on the disk. `reasons` are all that there are against it, those that the
    /// agent reported among them; a disk with none is eligible.
    pub fn set_verdict(&mut self, reasons: Vec<String>) {
        let reported: Vec<String> = self.reported_reasons().cloned().collect();
        let judged = reasons.iter().filter(|reason| !reported.contains(reason));
        self.judged_reasons = judged.cloned().collect();
        self.eligible = reasons.is_empty();
        self.not_eligible_reasons = reasons;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Boot {
    /// Boot mode: uefi or bios.
    pub current_boot_mode: String,
    /// Type of the boot device: persistent or ephemeral.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device_type: String,
    /// The interface that the machine booted from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pxe_interface: String,
    /// Secure boot: Enabled, Disabled, NotSupported or Unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub secure_boot_state: String,
    /// Arguments of the kernel.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command_line: String,
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
    /// Whether it is a virtual machine.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Gpu {
    /// Address of the slot.
    pub address: String,
    /// Its model, as a number.
    #[serde(rename = "deviceID")]
    pub device_id: String,
    /// Its model.
    pub name: String,
    /// Its maker.
    pub vendor: String,
    /// Its maker, as a number.
    #[serde(rename = "vendorID")]
    pub vendor_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    /// Destination network; 0.0.0.0 or :: for all.
    pub destination: String,
    /// Address family: 2 for IPv4, 10 for IPv6.
    pub family: u64,
    /// The next router.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// The interface that it uses.
    pub interface: String,
    /// Of several routes the one with the lowest metric is used.
    pub metric: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Truncation {
    /// How much was left out: partial or full.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was left out.
    pub reasons: Vec<String>,
}

impl Disk {
    /// Whether a person may mean this disk by an id or a path.
    pub fn is_named(&self, id_or_path: &str) -> bool {
        [&self.id, &self.path, &self.by_id, &self.by_path]
            .into_iter()
            .any(|name| name == id_or_path)
    }
}

impl Inventory {
    /// Keeps the verdicts of the previous inventory on the same disks, until they are judged anew.
    pub fn keep_verdicts(&mut self, previous: &Self) {
        for disk in &mut self.disks {
            let same_disk = previous.disks.iter().find(|previous_disk| previous_disk.id == disk.id);
            if let Some(previous_disk) = same_disk {
                disk.installation_eligibility.clone_from(&previous_disk.installation_eligibility);
            }
        }
    }

    /// Whether the inventory says anything. The agent leaves out all of it when it is too long.
    pub fn is_complete(&self) -> bool {
        self.truncation.as_ref().is_none_or(|truncation| truncation.kind != "full")
    }

    /// The MAC addresses of all interfaces that have one.
    pub fn macs(&self) -> impl Iterator<Item = &str> {
        let macs = self.interfaces.iter().map(|interface| interface.mac_address.as_str());
        macs.filter(|mac| !mac.is_empty())
    }
}
