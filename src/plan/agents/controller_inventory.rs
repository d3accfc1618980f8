//! The inventory of a host that was found by its management controller: no agent runs on such a
//! host, so the hardware that the controller reports is written down as an agent would report it.

use crate::model::agent::inventory::{
    Cpu, Disk, Eligibility, Interface, Inventory, Memory, SystemVendor,
};
use crate::model::hardware::{self, Hardware, Nic};
use crate::model::host::BareMetalHost;
use crate::model::state::{AgentId, State};

/// Takes the inventory of a host from its controller, if the host was found by that: with the id of
/// the machine, and with the time when the controller last answered.
pub fn update_inventory(state: &mut State, agent_id: AgentId) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    if !agent.status.found_by_controller {
        return;
    }
    let Some(host) = agent.host_key().and_then(|key| state.hosts.by_key(&key)) else { return };
    let answered_at = if host.status.error_count == 0 { host.status.last_updated } else { None };
    let hardware = host.status.hardware.as_ref();
    let inventory = hardware.map(|hardware| to_inventory(hardware, host));
    let uuid = hardware.map(|hardware| hardware.system_uuid.clone()).unwrap_or_default();
    // All Agents are looked at only for one that has no id yet.
    let needs_id = agent.status.host_id.is_empty()
        && !uuid.is_empty()
        && !state.agents.rows().any(|other_agent| {
            other_agent.status.host_id.eq_ignore_ascii_case(&uuid)
                && other_agent.infra_env_key() == agent.infra_env_key()
        });
    state.agents.update(agent_id, |agent| {
        let status = &mut agent.status;
        if needs_id {
            status.host_id.clone_from(&uuid);
        }
        status.last_contact_time = status.last_contact_time.max(answered_at);
        if let Some(mut inventory) = inventory {
            if let Some(previous) = &status.inventory {
                inventory.keep_verdicts(previous.get());
            }
            agent.identify_by_inventory(inventory, &uuid);
        }
    });
}

/// Makes the inventory that an agent would report from what the controller of a host says. Fields
/// that no controller knows stay empty.
fn to_inventory(hardware: &Hardware, host: &BareMetalHost) -> Inventory {
    let hostname =
        if hardware.hostname.is_empty() { &host.metadata.name } else { &hardware.hostname };
    let vendor = &hardware.system_vendor;
    Inventory {
        hostname: hostname.to_lowercase(),
        memory: Memory {
            physical_bytes: hardware.ram_mebibytes << 20,
            usable_bytes: hardware.ram_mebibytes << 20,
            physical_bytes_method: "redfish".into(),
        },
        cpu: Cpu {
            count: hardware.cpu.count,
            model_name: hardware.cpu.model.clone(),
            architecture: hardware.cpu.arch.clone(),
            clock_megahertz: hardware.cpu.clock_megahertz.unwrap_or_default(),
            flags: Vec::new(),
        },
        interfaces: to_interfaces(&hardware.nics, &host.spec.boot_mac_address),
        disks: hardware.storage.iter().map(to_disk).collect(),
        system_vendor: SystemVendor {
            manufacturer: vendor.manufacturer.clone(),
            product_name: vendor.product_name.clone(),
            serial_number: vendor.serial_number.clone(),
            is_virtual: false,
        },
        ..Inventory::default()
    }
}

/// The interfaces that a controller reports, and the one that the machine boots from, which is
/// known also where the controller does not report it.
fn to_interfaces(nics: &[Nic], boot_mac_address: &str) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = nics.iter().map(to_interface).collect();
    let boot_mac = boot_mac_address.to_lowercase();
    let is_reported = interfaces.iter().any(|interface| interface.mac_address == boot_mac);
    if !boot_mac.is_empty() && !is_reported {
        interfaces.push(Interface {
            name: "boot".into(),
            mac_address: boot_mac,
            kind: "physical".into(),
            ..Interface::default()
        });
    }
    interfaces
}

/// A speed of -1 is how an agent reports that it does not know the speed. The link is taken to be
/// up, because controllers seldom say.
fn to_interface(nic: &Nic) -> Interface {
    Interface {
        name: nic.name.clone(),
        mac_address: nic.mac.to_lowercase(),
        kind: "physical".into(),
        speed_mbps: nic.speed_gbps.map_or(-1, |gbps| gbps.saturating_mul(1000).cast_signed()),
        has_carrier: true,
        ..Interface::default()
    }
}

/// A controller does not say whether a disk is eligible or bootable, so each is taken to be both. The
/// validations still judge it by its size and type.
fn to_disk(disk: &hardware::Disk) -> Disk {
    // An agent calls NVMe disks solid state disks, too.
    let drive_type = if disk.kind == "NVME" { "SSD" } else { &disk.kind };
    Disk {
        id: disk.name.clone(),
        name: disk.name.clone(),
        drive_type: drive_type.into(),
        size_bytes: disk.size_bytes,
        serial: disk.serial_number.clone(),
        installation_eligibility: Eligibility { eligible: true, ..Eligibility::default() },
        bootable: true,
        has_uuid: true,
        model: disk.model.clone(),
        ..Disk::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::{Agent, HOST_LABEL, INFRA_ENV_LABEL};
    use crate::model::infra_env::InfraEnv;
    use crate::model::meta::Meta;
    use crate::model::tick::Tick;
    use crate::plan::agents::advance_agents;

    fn meta(name: &str) -> Meta {
        Meta { name: name.into(), ..Meta::default() }
    }

    fn disk(name: &str, size_bytes: u64) -> hardware::Disk {
        hardware::Disk {
            name: name.into(),
            size_bytes,
            kind: "HDD".into(),
            ..hardware::Disk::default()
        }
    }

    #[test]
    fn a_disk_that_is_too_small_is_judged_once() {
        let mut state = State::default();
        state.infra_envs.load(InfraEnv { metadata: meta("rack"), ..InfraEnv::default() });
        let mut host = BareMetalHost { metadata: meta("n1"), ..BareMetalHost::default() };
        let storage = vec![disk("sda", 200_000_000_000), disk("sdb", 8_000_000_000)];
        host.status.hardware = Some(Hardware { storage, ..Hardware::default() });
        state.hosts.load(host);
        let mut agent = Agent { metadata: meta("n1"), ..Agent::default() };
        agent.metadata.labels.insert(INFRA_ENV_LABEL.into(), "rack".into());
        agent.metadata.labels.insert(HOST_LABEL.into(), "n1".into());
        agent.status.found_by_controller = true;
        let agent_id = state.agents.load(agent);
        let tick = Tick::default();
        advance_agents(&mut state, &tick);
        advance_agents(&mut state, &tick);
        let settled = state.changes_made();
        advance_agents(&mut state, &tick);
        assert_eq!(state.changes_made(), settled);
        let inventory = state.agents.get(agent_id).unwrap().inventory().unwrap();
        let eligible: Vec<bool> =
            inventory.disks.iter().map(|disk| disk.installation_eligibility.eligible).collect();
        assert_eq!(eligible, [true, false]);
    }
}
