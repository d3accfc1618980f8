//! Reads what a machine is made of, as its Redfish controller tells. What it does not tell is left
//! out, never guessed.

use serde_json::Value;

use crate::model::hardware::{Cpu, Disk, Hardware, Nic, SystemVendor};

use super::super::http::shorten;
use super::service::Service;

/// Disks at one controller that are read; nobody has more.
const DISKS_AT_CONTROLLER: usize = 256;

/// The hardware of a system. It cannot fail: a resource that cannot be read counts as missing.
pub fn read_hardware(service: &Service, system: &Value) -> Hardware {
    let bios_version = text_of(&system["BiosVersion"]);
    let firmware = if bios_version.is_empty() {
        None
    } else {
        Some(serde_json::json!({"bios": {"version": bios_version}}))
    };
    Hardware {
        hostname: text_of(&system["HostName"]),
        cpu: read_cpu(service, system),
        ram_mebibytes: read_memory(service, system),
        nics: read_nics(service, system),
        storage: read_disks(service, system),
        system_vendor: SystemVendor {
            manufacturer: text_of(&system["Manufacturer"]),
            product_name: text_of(&system["Model"]),
            serial_number: text_of(&system["SerialNumber"]),
        },
        system_uuid: text_of(&system["UUID"]).to_lowercase(),
        firmware,
    }
}

fn text_of(value: &Value) -> String {
    shorten(value.as_str().unwrap_or_default()).trim().to_owned()
}

/// The members of a collection, without slots that are empty.
fn present_members(service: &Service, collection: &Value) -> Vec<Value> {
    let links = service.list_members(collection);
    let members = links.iter().filter_map(|link| service.get_optional(link));
    members.filter(|member| member["Status"]["State"] != "Absent").collect()
}

/// The processors together. Their number is that of threads, as metal3 counts.
fn read_cpu(service: &Service, system: &Value) -> Cpu {
    let mut processors = present_members(service, &system["Processors"]);
    // A GPU is a processor, too.
    processors
        .retain(|processor| processor["ProcessorType"].as_str().is_none_or(|kind| kind == "CPU"));
    let threads: u64 = processors
        .iter()
        .filter_map(|processor| {
            processor["TotalThreads"].as_u64().or(processor["TotalCores"].as_u64())
        })
        .sum();
    let summary = &system["ProcessorSummary"];
    let summary_count = summary["LogicalProcessorCount"]
        .as_u64()
        .or(summary["CoreCount"].as_u64())
        .or(summary["Count"].as_u64());
    let model = first_text(&processors, "Model").or(summary["Model"].as_str());
    let architecture = match first_text(&processors, "InstructionSet") {
        Some("x86-64") => "x86_64",
        Some("ARM-A64") => "aarch64",
        Some("ppc64") => "ppc64le",
        Some(instruction_set) => instruction_set,
        None => "",
    };
    Cpu {
        arch: shorten(architecture),
        count: if threads > 0 { threads } else { summary_count.unwrap_or(0) },
        model: shorten(model.unwrap_or_default()),
        clock_megahertz: processors
            .iter()
            .filter_map(|processor| processor["MaxSpeedMHz"].as_u64())
            .max(),
    }
}

/// The field of the first processor that has it.
fn first_text<'a>(processors: &'a [Value], field: &str) -> Option<&'a str> {
    processors.iter().find_map(|processor| processor[field].as_str())
}

/// In MiB: the modules together, or else what the summary says in GiB.
fn read_memory(service: &Service, system: &Value) -> u64 {
    let modules = present_members(service, &system["Memory"]);
    let sum: u64 = modules.iter().filter_map(|module| module["CapacityMiB"].as_u64()).sum();
    if sum > 0 {
        return sum;
    }
    let gibibytes = &system["MemorySummary"]["TotalSystemMemoryGiB"];
    match gibibytes.as_u64() {
        Some(gibibytes) => gibibytes.saturating_mul(1024),
        // Some say parts of a GiB.
        None => gibibytes.as_f64().map_or(0, mebibytes_of),
    }
}

/// Zero for a number of GiB that cannot be meant.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn mebibytes_of(gibibytes: f64) -> u64 {
    if (0.0..1e9).contains(&gibibytes) { (gibibytes * 1024.0) as u64 } else { 0 }
}

/// The network interfaces that have a MAC address, by their names.
fn read_nics(service: &Service, system: &Value) -> Vec<Nic> {
    let mut nics = Vec::new();
    for interface in present_members(service, &system["EthernetInterfaces"]) {
        let address =
            interface["MACAddress"].as_str().or(interface["PermanentMACAddress"].as_str());
        let mac = shorten(&address.unwrap_or_default().to_lowercase().replace('-', ":"));
        if mac.is_empty() {
            continue;
        }
        let name = interface["Id"].as_str().or(interface["Name"].as_str());
        let ip = interface["IPv4Addresses"][0]["Address"].as_str();
        let speed_gbps = interface["SpeedMbps"].as_u64().map(|mbps| mbps / 1000);
        nics.push(Nic {
            name: shorten(name.unwrap_or_default()),
            mac,
            ip: shorten(ip.unwrap_or_default()),
            speed_gbps: speed_gbps.filter(|gbps| *gbps > 0),
        });
    }
    nics.sort_by(|left, right| left.name.cmp(&right.name));
    nics
}

/// The disks at all controllers. Older services have only `SimpleStorage`, which tells less.
fn read_disks(service: &Service, system: &Value) -> Vec<Disk> {
    let mut disks = Vec::new();
    for storage in present_members(service, &system["Storage"]) {
        let links = storage["Drives"].as_array().into_iter().flatten().take(DISKS_AT_CONTROLLER);
        for drive in links.filter_map(|link| service.get_optional(link)) {
            let kind = match (drive["MediaType"].as_str(), drive["Protocol"].as_str()) {
                (Some("SSD"), Some("NVMe")) => "NVME",
                (Some(kind @ ("HDD" | "SSD")), _) => kind,
                _ => "",
            };
            disks.push(Disk {
                name: disk_name(&drive),
                size_bytes: drive["CapacityBytes"].as_u64().unwrap_or(0),
                kind: kind.into(),
                model: text_of(&drive["Model"]),
                serial_number: text_of(&drive["SerialNumber"]),
            });
        }
    }
    if !disks.is_empty() {
        return disks;
    }
    for storage in present_members(service, &system["SimpleStorage"]) {
        let devices = storage["Devices"].as_array().into_iter().flatten();
        for device in devices.take(DISKS_AT_CONTROLLER) {
            disks.push(Disk {
                name: disk_name(device),
                size_bytes: device["CapacityBytes"].as_u64().unwrap_or(0),
                model: text_of(&device["Model"]),
                ..Disk::default()
            });
        }
    }
    disks
}

fn disk_name(disk: &Value) -> String {
    text_of(if disk["Name"].is_null() { &disk["Id"] } else { &disk["Name"] })
}
