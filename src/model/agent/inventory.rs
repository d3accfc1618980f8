//! The inventory of a machine as its agent reports it, in the shape that an Agent has on the wire.
//! It holds what was reported; which disk is good enough is judged in `rules/validations`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::time::Time;

/// The hardware of a machine, as the agent of assisted-service reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Inventory {
    /// The hostname that the machine has.
    pub hostname: String,
    /// IPv4 address of the management controller.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bmc_address: String,
    /// IPv6 address of the management controller.
    #[serde(rename = "bmcV6Address", skip_serializing_if = "String::is_empty")]
    pub bmc_v6_address: String,
    /// When the inventory was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_time: Option<Time>,
    /// Memory (RAM).
    pub memory: Memory,
    /// Processors.
    pub cpu: Cpu,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// How the machine was booted.
    pub boot: Boot,
    /// Vendor, product and serial number of the machine.
    pub system_vendor: SystemVendor,
    /// Graphics cards and accelerators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// Routes to networks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Version of the trusted platform module (TPM).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tpm_version: String,
    /// Data that the agent left out because the report was too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
}

/// Memory in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Size in bytes.
    pub physical_bytes: u64,
    /// Usable size in bytes.
    pub usable_bytes: u64,
    /// Source of the sizes: dmidecode, ghw or meminfo.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub physical_bytes_method: String,
}

/// The processors of a machine, all sockets together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Number of CPU threads.
    pub count: u64,
    /// Highest frequency, in MHz.
    pub clock_megahertz: u64,
    /// CPU features (flags).
    pub flags: Vec<String>,
    /// Model name.
    pub model_name: String,
    /// Architecture: `x86_64`, aarch64, ...
    pub architecture: String,
}

/// A network interface with its addresses in CIDR notation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Interface {
    /// Name of the interface in the operating system.
    pub name: String,
    /// MAC address, lower case with colons.
    pub mac_address: String,
    /// Type: physical, vlan or bond.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// IPv4 addresses with prefix lengths.
    #[serde(rename = "ipV4Addresses")]
    pub ipv4_addresses: Vec<String>,
    /// IPv6 addresses with prefix lengths.
    #[serde(rename = "ipV6Addresses")]
    pub ipv6_addresses: Vec<String>,
    /// Whether a cable is connected.
    pub has_carrier: bool,
    /// MTU (largest packet) in bytes.
    pub mtu: u64,
    /// Speed in Mbit/s; -1 if it is not known.
    pub speed_mbps: i64,
    /// Flags: up, broadcast, ...
    pub flags: Vec<String>,
    /// Vendor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// Model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub product: String,
    /// Name that the firmware gives the interface.
    #[serde(rename = "biosDevName", skip_serializing_if = "String::is_empty")]
    pub bios_dev_name: String,
    /// Client id of the DHCP lease.
    #[serde(rename = "clientID", skip_serializing_if = "String::is_empty")]
    pub client_id: String,
}

/// A disk with its size in bytes and all names by which Linux knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "as the wire has it")]
pub struct Disk {
    /// The first path that exists of byID, byPath and path.
    pub id: String,
    /// Name that the kernel gives the disk.
    pub name: String,
    /// Path: /dev/NAME.
    pub path: String,
    /// Path below /dev/disk/by-id.
    #[serde(rename = "byID", skip_serializing_if = "String::is_empty")]
    pub by_id: String,
    /// Path below /dev/disk/by-path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by_path: String,
    /// Type: HDD, SSD, Multipath, ...
    pub drive_type: String,
    /// SCSI address: host, channel, target and LUN.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,
    /// Vendor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// Model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// World Wide Name (WWN).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether the machine can boot from the disk, or did.
    pub bootable: bool,
    /// Whether the disk is removable.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removable: bool,
    /// Whether the disk holds the image that the agent runs from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_installation_media: bool,
    /// Whether the disk has a UUID. Virtual disks of vSphere have one if disk.EnableUUID is set.
    #[serde(rename = "hasUUID")]
    pub has_uuid: bool,
    /// Output of the SMART self-test.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub smart: String,
    /// How a disk of iSCSI is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iscsi: Option<Iscsi>,
    /// Measured speed of the disk, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_perf: Option<IoPerf>,
    /// Whether a cluster can be installed on the disk, checked by the agent and by poolctl.
    pub installation_eligibility: Eligibility,
}

/// How a disk is reached over iSCSI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Iscsi {
    /// The address of the machine's interface through which the disk is reached.
    pub host_ip_address: String,
}

/// How fast a disk is, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IoPerf {
    /// 99 % of sync operations take less time than this, in milliseconds.
    pub sync_duration_milliseconds: u64,
}

/// Whether a disk may be installed on, and if not, why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Eligibility {
    /// Whether the cluster may be installed on the disk.
    pub eligible: bool,
    /// Why the cluster may not be installed on the disk.
    pub not_eligible_reasons: Vec<String>,
    /// The reasons that poolctl found, not the agent. poolctl computes them again for each check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judged_reasons: Vec<String>,
}

impl Eligibility {
    /// The reasons against the disk that the agent reported, without those that poolctl found.
    pub fn reported_reasons(&self) -> impl Iterator<Item = &String> {
        self.not_eligible_reasons.iter().filter(move |reason| !self.judged_reasons.contains(reason))
    }

    /// Whether this is the verdict on the disk already.
    pub fn has_verdict(&self, reasons: &[String]) -> bool {
        let mut judged = self.clone();
        judged.set_verdict(reasons.to_vec());
        judged == *self
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

/// How the machine was booted.
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
    /// Kernel arguments.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command_line: String,
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
    /// Whether it is a virtual machine.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
}

/// A graphics card, with the ids of its PCI device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Gpu {
    /// Address of the PCI slot.
    pub address: String,
    /// Model id.
    #[serde(rename = "deviceID")]
    pub device_id: String,
    /// Model.
    pub name: String,
    /// Vendor.
    pub vendor: String,
    /// Vendor id.
    #[serde(rename = "vendorID")]
    pub vendor_id: String,
}

/// A route of the machine's routing table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    /// Destination network; 0.0.0.0 or :: is the default route.
    pub destination: String,
    /// Address family: 2 for IPv4, 10 for IPv6.
    pub family: u64,
    /// Gateway of the route.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// Network interface of the route.
    pub interface: String,
    /// Metric: the route with the lowest metric is used.
    pub metric: i64,
}

/// Which part of an inventory the agent left out because it was too large.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Truncation {
    /// How much data was left out: partial or full.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which data was left out.
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
    pub fn is_usable(&self) -> bool {
        self.truncation.as_ref().is_none_or(|truncation| truncation.kind != "full")
    }

    /// The MAC addresses of all interfaces that have one.
    pub fn macs(&self) -> impl Iterator<Item = &str> {
        let macs = self.interfaces.iter().map(|interface| interface.mac_address.as_str());
        macs.filter(|mac| !mac.is_empty())
    }
}
