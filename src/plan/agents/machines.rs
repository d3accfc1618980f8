//! Which machine a host is: its labels, and its management controller.

use std::collections::BTreeMap;

use crate::model::agent::inventory::{
    Cpu, Disk, Eligibility, Interface, Inventory, Memory, SystemVendor,
};
use crate::model::agent::{Agent, BMH, ClusterReference, INFRA_ENV, Role};
use crate::model::condition::{self, Condition, ConditionReason, ConditionType, set_unprobed};
use crate::model::event_reason::EventReason;
use crate::model::hardware::Hardware;
use crate::model::host::{BareMetalHost, CLUSTER_REFERENCE, ROLE};
use crate::model::infra_env::{IMAGE_CREATED, InfraEnv, LabelSelector};
use crate::model::kinds::Kind;
use crate::model::state::{AgentId, InfraEnvId, State};
use crate::model::tick::Tick;

use super::super::{leases, say, warn};
use super::{clusters, hints, labels, note};

/// What a `BareMetalHost` says of its Agent.
const HOSTNAME: &str = "bmac.agent-install.openshift.io/hostname";
const MACHINE_CONFIG_POOL: &str = "bmac.agent-install.openshift.io/machine-config-pool";
const INSTALLER_ARGS: &str = "bmac.agent-install.openshift.io/installer-args";
const IGNITION: &str = "bmac.agent-install.openshift.io/ignition-config-overrides";
/// A condition of a host whose cluster reference does not count.
const REFERENCE: ConditionType = ConditionType::ClusterReference;
/// A disk that no hint fits.
const NO_DISK: &str = "/dev/not-found-by-hints";

/// What is said of each environment.
pub fn infra_envs(state: &mut State, tick: &Tick) {
    let all: Vec<InfraEnvId> = state.infra_envs.iter().map(|(at, _)| at).collect();
    for at in all {
        let Some(one) = state.infra_envs.get(at) else { continue };
        let (key, new) = (one.key(), one.status.agent_label_selector.is_empty());
        let said = image(state, one);
        state.infra_envs.update(at, |one| {
            let own = BTreeMap::from([(INFRA_ENV.to_owned(), one.metadata.name.clone())]);
            let selector = LabelSelector { match_labels: own, ..LabelSelector::default() };
            one.status.agent_label_selector = selector;
            if let Some(said) = said {
                set_unprobed(&mut one.status.conditions, said, tick.now);
            }
        });
        if new {
            let object = (Kind::InfraEnv.name(), key);
            say(
                state,
                tick,
                EventReason::InfraEnvRegistered,
                object,
                "Registered infra env".into(),
            );
        }
    }
}

/// What keeps an environment from having an image, or does so no more.
fn image(state: &State, one: &InfraEnv) -> Option<Condition> {
    let known = one.status.conditions.iter().find(|known| known.kind == IMAGE_CREATED);
    if let Some(key) = one.cluster() {
        let Some(cluster) = clusters::at(state, &key) else {
            let name = &key.name;
            let text =
                format!("ClusterDeployment is missing: {name} in namespace {}", key.namespace);
            return Some(Condition::new(
                IMAGE_CREATED,
                "Unknown",
                ConditionReason::MissingClusterDeployment,
                text,
            ));
        };
        let (its, wanted) = (one.architecture(), clusters::architecture(state, cluster));
        if let Some(wanted) = wanted.filter(|other| *other != clusters::plain(its)) {
            let text = format!(
                "Failed to create image: Specified CPU architecture ({its}) doesn't match the cluster ({wanted})"
            );
            return Some(Condition::new(
                IMAGE_CREATED,
                "False",
                ConditionReason::ImageCreationError,
                text,
            ));
        }
    }
    // What was in the way is not any more; whether there is an image the next command finds out.
    known.filter(|one| one.status == "Unknown").map(|_| {
        Condition::new(
            IMAGE_CREATED,
            "False",
            ConditionReason::ImageNotCreated,
            "There is no image yet",
        )
    })
}

/// Looks at what is known of a host beside its state.
pub fn recognize(state: &mut State, at: AgentId, tick: &Tick) {
    take_hardware(state, at);
    link(state, at);
    let Some(agent) = state.agents.get(at) else { return };
    let environment = agent.infra_env().and_then(|key| state.infra_envs.by_key(&key)).cloned();
    let linked = agent.bmh().and_then(|key| state.hosts.by_key(&key)).cloned();
    let allowed = approved_by(state, agent).is_some();
    let (before, mut after) = (agent.clone(), agent.clone());
    after.spec.approved |= allowed;
    if let Some(found) = &before.status.inventory {
        labels::apply(&mut after, found);
    }
    if let Some(environment) = &environment {
        labels::inherited(environment, &mut after);
    }
    if let Some(host) = &linked {
        follow(host, environment.as_ref(), &mut after);
        labels::of_host(host, &mut after);
        use_it(state, host, &before);
        refer(state, host, environment.as_ref(), tick);
    }
    let news = after.spec.approved != before.spec.approved;
    after.metadata.generation += i64::from(after.spec != before.spec);
    let name = after.hostname().to_owned();
    state.agents.update(at, |one| *one = after);
    if news {
        let text = format!("Host {name}: updated approved to true");
        note(state, at, EventReason::HostApprovedUpdated, false, text, tick);
    }
}

/// Why a host is approved whatever is said of it.
pub fn approved_by(state: &State, agent: &Agent) -> Option<String> {
    let environment = agent.infra_env().and_then(|key| state.infra_envs.by_key(&key));
    if let Some(environment) = environment.filter(|one| one.approves()) {
        let name = &environment.metadata.name;
        return Some(format!("InfraEnv {name} approves all of its hosts (agentApproval)"));
    }
    let linked = agent.bmh().and_then(|key| state.hosts.by_key(&key))?;
    let name = &linked.metadata.name;
    Some(format!("BareMetalHost {name} is driven by poolctl, and approved with that"))
}

/// The machine of a host that is bound is its cluster's.
fn use_it(state: &mut State, host: &BareMetalHost, agent: &Agent) {
    let Some(cluster) = agent.bound_to().filter(|_| host.spec.consumer_ref.is_none()) else {
        return;
    };
    let Some(at) = state.hosts.find(&host.key()) else { return };
    leases::grant_host(state, at, &cluster);
}

/// A host is the machine whose controller is known by its address, if that takes part.
fn link(state: &mut State, at: AgentId) {
    let Some(agent) = state.agents.get(at) else { return };
    if let Some(key) = agent.bmh() {
        if state.hosts.by_key(&key).is_some() {
            return;
        }
        // It was deleted; another may stand for the same machine.
        state.agents.update(at, |one| drop(one.metadata.labels.remove(BMH)));
    }
    let Some(agent) = state.agents.get(at) else { return };
    let (Some(found), Some(environment)) = (&agent.status.inventory, agent.infra_env()) else {
        return;
    };
    let takes_part = |host: &&BareMetalHost| {
        let meta = &host.metadata;
        meta.namespace == environment.namespace
            && meta.labels.get(INFRA_ENV) == Some(&environment.name)
            && found.macs().any(|mac| mac.eq_ignore_ascii_case(&host.spec.boot_mac_address))
    };
    let host = state.hosts.rows().find(takes_part).map(|host| host.metadata.name.clone());
    if let Some(name) = host {
        state.agents.update(at, |one| drop(one.metadata.labels.insert(BMH.into(), name)));
    }
}

/// What its `BareMetalHost` says of it.
fn follow(host: &BareMetalHost, environment: Option<&InfraEnv>, agent: &mut Agent) {
    let said = |name: &str| host.metadata.annotation(name).map(str::to_owned);
    let spec = &mut agent.spec;
    match said(ROLE).as_deref() {
        Some("master") => spec.role = Role::Master,
        Some("worker") => spec.role = Role::Worker,
        Some("auto-assign") => spec.role = Role::AutoAssign,
        _ => {}
    }
    spec.hostname = said(HOSTNAME).unwrap_or(std::mem::take(&mut spec.hostname));
    let pool = std::mem::take(&mut spec.machine_config_pool);
    spec.machine_config_pool = said(MACHINE_CONFIG_POOL).unwrap_or(pool);
    spec.installer_args = said(INSTALLER_ARGS).unwrap_or(std::mem::take(&mut spec.installer_args));
    let ignition = std::mem::take(&mut spec.ignition_config_overrides);
    spec.ignition_config_overrides = said(IGNITION).unwrap_or(ignition);
    let own = environment.is_some_and(|one| one.spec.cluster_ref.is_some());
    if let Some(text) = said(CLUSTER_REFERENCE).filter(|_| !own) {
        match text.split_once('/') {
            Some((namespace, name)) => {
                let reference = ClusterReference { name: name.into(), namespace: namespace.into() };
                spec.cluster_deployment_name = Some(reference);
            }
            None if text.is_empty() => spec.cluster_deployment_name = None,
            // What is no reference is nobody's wish.
            None => {}
        }
    }
    if let (Some(hints), Some(found)) = (&host.spec.root_device_hints, &agent.status.inventory) {
        let disk = hints::disk(found, hints).map_or(NO_DISK, |disk| &disk.id);
        agent.spec.installation_disk_id = disk.to_owned();
        agent.spec.installation_disk_path.clear();
    }
}

/// Says of a host that the cluster which it names does not count, and says it no more.
fn refer(state: &mut State, host: &BareMetalHost, environment: Option<&InfraEnv>, tick: &Tick) {
    let Some(at) = state.hosts.find(&host.key()) else { return };
    let known = condition::find(&host.status.conditions, REFERENCE).is_some();
    let said = host.metadata.annotation(CLUSTER_REFERENCE);
    let own = environment.and_then(InfraEnv::cluster).map(|key| key.to_string());
    let Some(own) = own.filter(|own| said.is_some_and(|said| said != own)) else {
        if known {
            let kept = |one: &Condition| one.kind != REFERENCE;
            state.hosts.update(at, |one| one.status.conditions.retain(kept));
        }
        return;
    };
    let text = format!(
        "failed to reconcile cluster reference.  InfraEnv already has cluster reference {own}"
    );
    let new =
        Condition::new(REFERENCE, "False", ConditionReason::InfraEnvHasCluster, text.as_str());
    state.hosts.update(at, |one| set_unprobed(&mut one.status.conditions, new, tick.now));
    if !known {
        let object = (Kind::BareMetalHost.name(), host.key());
        warn(state, tick, EventReason::ClusterReferenceRefused, object, text);
    }
}

/// What the controller of a host that was found says is in it.
fn take_hardware(state: &mut State, at: AgentId) {
    let Some(agent) = state.agents.get(at).filter(|one| one.status.found) else { return };
    let Some(host) = agent.bmh().and_then(|key| state.hosts.by_key(&key)) else { return };
    let seen = host.status.last_updated.filter(|_| host.status.error_count == 0);
    let hardware = host.status.hardware.clone();
    let name = host.metadata.name.clone();
    let found = hardware.map(|hardware| inventory(&hardware, &name, &host.spec.boot_mac_address));
    let uuid = host.status.hardware.as_ref().map(|one| one.system_uuid.clone()).unwrap_or_default();
    let taken = state.agents.rows().any(|one| {
        one.infra_env() == agent.infra_env() && one.status.host_id.eq_ignore_ascii_case(&uuid)
    });
    let id = Some(uuid.clone()).filter(|uuid| !uuid.is_empty() && !taken);
    state.agents.update(at, |one| {
        if let Some(id) = id.filter(|_| one.status.host_id.is_empty()) {
            one.status.host_id = id;
        }
        one.status.last_contact_time = one.status.last_contact_time.max(seen);
        if let Some(mut found) = found {
            if let Some(before) = &one.status.inventory {
                found.judged_as(before);
            }
            one.found(found, &uuid);
        }
    });
}

/// What a controller says is in a machine, as an agent in it would say.
fn inventory(hardware: &Hardware, name: &str, mac: &str) -> Inventory {
    let hostname = if hardware.hostname.is_empty() { name } else { &hardware.hostname };
    let mut interfaces: Vec<Interface> = hardware
        .nics
        .iter()
        .map(|nic| Interface {
            name: nic.name.clone(),
            mac_address: nic.mac.to_lowercase(),
            kind: "physical".into(),
            speed_mbps: nic.speed_gbps.map_or(-1, |gbps| gbps.saturating_mul(1000).cast_signed()),
            has_carrier: true,
            ..Interface::default()
        })
        .collect();
    let boots = mac.to_lowercase();
    if !boots.is_empty() && !interfaces.iter().any(|one| one.mac_address == boots) {
        let (name, kind) = ("boot".into(), "physical".into());
        interfaces.push(Interface { name, mac_address: boots, kind, ..Interface::default() });
    }
    let disk = |one: &crate::model::hardware::Disk| {
        let drive_type = match one.kind.as_str() {
            "NVME" => "SSD",
            kind => kind,
        };
        let (vendor, model) = (String::new(), one.model.clone());
        let eligible = Eligibility { eligible: true, ..Eligibility::default() };
        Disk {
            id: one.name.clone(),
            name: one.name.clone(),
            drive_type: drive_type.into(),
            size_bytes: one.size_bytes,
            serial: one.serial_number.clone(),
            installation_eligibility: eligible,
            bootable: true,
            has_uuid: true,
            vendor,
            model,
            ..Disk::default()
        }
    };
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
        interfaces,
        disks: hardware.storage.iter().map(disk).collect(),
        system_vendor: SystemVendor {
            manufacturer: vendor.manufacturer.clone(),
            product_name: vendor.product_name.clone(),
            serial_number: vendor.serial_number.clone(),
            is_virtual: false,
        },
        ..Inventory::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::meta::Meta;

    #[test]
    fn a_disk_that_is_too_small_is_judged_once() {
        let mut state = State::default();
        let meta = |name: &str| Meta { name: name.into(), ..Meta::default() };
        state.infra_envs.load(InfraEnv { metadata: meta("rack"), ..InfraEnv::default() });
        let mut host = BareMetalHost { metadata: meta("n1"), ..BareMetalHost::default() };
        let disks = [("sda", 200_000_000_000), ("sdb", 8_000_000_000)];
        let disk = |(name, size_bytes): (&str, u64)| crate::model::hardware::Disk {
            name: name.into(),
            size_bytes,
            kind: "HDD".into(),
            ..Default::default()
        };
        let storage = disks.map(disk).into();
        host.status.hardware = Some(Hardware { storage, ..Hardware::default() });
        state.hosts.load(host);
        let mut agent = Agent { metadata: meta("n1"), ..Agent::default() };
        agent.metadata.labels.insert(INFRA_ENV.into(), "rack".into());
        agent.metadata.labels.insert(BMH.into(), "n1".into());
        agent.status.found = true;
        let at = state.agents.load(agent);
        let tick = Tick::default();
        super::super::advance(&mut state, &tick);
        super::super::advance(&mut state, &tick);
        let settled = state.changes_made();
        super::super::advance(&mut state, &tick);
        assert_eq!(state.changes_made(), settled);
        let found = state.agents.get(at).unwrap().status.inventory.clone().unwrap();
        let good: Vec<bool> =
            found.disks.iter().map(|one| one.installation_eligibility.eligible).collect();
        assert_eq!(good, [true, false]);
    }
}
