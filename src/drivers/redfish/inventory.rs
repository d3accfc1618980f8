//! What a machine is made of, as its Redfish controller says. What it does not say is left out.

use serde_json::Value;

use crate::model::hardware::{Cpu, Disk, Hardware, Nic, SystemVendor};

use super::super::http::shorten;
use super::service::Service;

/// Nobody has more disks at one controller.
const MOST: usize = 256;

pub fn read_hardware(service: &Service, system: &Value) -> Hardware {
    let text = |value: &Value| shorten(value.as_str().unwrap_or_default()).trim().to_owned();
    let bios = text(&system["BiosVersion"]);
    Hardware {
        hostname: text(&system["HostName"]),
        cpu: cpu(service, system),
        ram_mebibytes: memory(service, system),
        nics: nics(service, system),
        storage: disks(service, system),
        system_vendor: SystemVendor {
            manufacturer: text(&system["Manufacturer"]),
            product_name: text(&system["Model"]),
            serial_number: text(&system["SerialNumber"]),
        },
        system_uuid: text(&system["UUID"]).to_lowercase(),
        firmware: Some(bios)
            .filter(|bios| !bios.is_empty())
            .map(|version| serde_json::json!({"bios": {"version": version}})),
    }
}

/// The members of a collection that are there.
fn all(service: &Service, collection: &Value) -> Vec<Value> {
    let members = service.list_members(collection);
    let found = members.iter().filter_map(|one| service.get_optional(one));
    found.filter(|one| one["Status"]["State"] != "Absent").collect()
}

fn cpu(service: &Service, system: &Value) -> Cpu {
    let processors = all(service, &system["Processors"]);
    let is_cpu = |one: &&Value| one["ProcessorType"].as_str().is_none_or(|kind| kind == "CPU");
    let processors: Vec<&Value> = processors.iter().filter(is_cpu).collect();
    let summary = &system["ProcessorSummary"];
    let threads: u64 = processors
        .iter()
        .filter_map(|one| one["TotalThreads"].as_u64().or(one["TotalCores"].as_u64()))
        .sum();
    let logical = summary["LogicalProcessorCount"].as_u64().or(summary["CoreCount"].as_u64());
    let count =
        if threads > 0 { threads } else { logical.or(summary["Count"].as_u64()).unwrap_or(0) };
    let first = |name: &str| processors.iter().find_map(|one| one[name].as_str());
    let arch = match first("InstructionSet") {
        Some("x86-64") => "x86_64",
        Some("ARM-A64") => "aarch64",
        Some("ppc64") => "ppc64le",
        Some(other) => other,
        None => "",
    };
    Cpu {
        arch: shorten(arch),
        count,
        model: shorten(first("Model").or(summary["Model"].as_str()).unwrap_or_default()),
        clock_megahertz: processors.iter().filter_map(|one| one["MaxSpeedMHz"].as_u64()).max(),
    }
}

fn memory(service: &Service, system: &Value) -> u64 {
    let modules = all(service, &system["Memory"]);
    let sum: u64 = modules.iter().filter_map(|one| one["CapacityMiB"].as_u64()).sum();
    let summary = &system["MemorySummary"]["TotalSystemMemoryGiB"];
    let whole = summary.as_u64().map(|gib| gib.saturating_mul(1024));
    // Some say parts of a GiB.
    let parts = summary.as_f64().filter(|gib| (0.0..1e9).contains(gib)).map(|gib| gib * 1024.0);
    if sum > 0 {
        return sum;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
    whole.or(parts.map(|mib| mib as u64)).unwrap_or(0)
}

fn nics(service: &Service, system: &Value) -> Vec<Nic> {
    let found = all(service, &system["EthernetInterfaces"]).into_iter().filter_map(|one| {
        let mac = one["MACAddress"].as_str().or(one["PermanentMACAddress"].as_str())?;
        let mac = mac.to_lowercase().replace('-', ":");
        let ip = one["IPv4Addresses"][0]["Address"].as_str().unwrap_or_default();
        let speed = one["SpeedMbps"].as_u64().map(|mbps| mbps / 1000).filter(|gbps| *gbps > 0);
        let name = shorten(one["Id"].as_str().or(one["Name"].as_str()).unwrap_or_default());
        Some(Nic { name, mac: shorten(&mac), ip: shorten(ip), speed_gbps: speed })
    });
    let mut found: Vec<Nic> = found.filter(|nic| !nic.mac.is_empty()).collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn disks(service: &Service, system: &Value) -> Vec<Disk> {
    let text = |value: &Value| shorten(value.as_str().unwrap_or_default()).trim().to_owned();
    let name = |one: &Value| text(if one["Name"].is_null() { &one["Id"] } else { &one["Name"] });
    let mut found = Vec::new();
    for storage in all(service, &system["Storage"]) {
        let drives = storage["Drives"].as_array().cloned().unwrap_or_default();
        for one in drives.iter().take(MOST).filter_map(|link| service.get_optional(link)) {
            let kind = match (one["MediaType"].as_str(), one["Protocol"].as_str()) {
                (Some("SSD"), Some("NVMe")) => "NVME",
                (Some(kind @ ("HDD" | "SSD")), _) => kind,
                _ => "",
            };
            found.push(Disk {
                name: name(&one),
                size_bytes: one["CapacityBytes"].as_u64().unwrap_or(0),
                kind: kind.into(),
                model: text(&one["Model"]),
                serial_number: text(&one["SerialNumber"]),
            });
        }
    }
    if found.is_empty() {
        for simple in all(service, &system["SimpleStorage"]) {
            let devices = simple["Devices"].as_array().into_iter().flatten().take(MOST);
            found.extend(devices.map(|one| Disk {
                name: name(one),
                size_bytes: one["CapacityBytes"].as_u64().unwrap_or(0),
                model: text(&one["Model"]),
                ..Disk::default()
            }));
        }
    }
    found
}
