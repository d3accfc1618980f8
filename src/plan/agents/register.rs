//! What a host itself says: that it has booted, what is in it, and that it is still there. It is
//! recorded here; what follows from it the next pass decides.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::agent::inventory::Inventory;
use crate::model::agent::report::{AgentReport, BootMedia};
use crate::model::agent::{
    Agent, ClusterReference, DAY1_HOST, HostState, INFRA_ENV_LABEL, Progress,
};
use crate::model::annotations::OWNER;
use crate::model::cluster::Cluster;
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::{Key, Meta};
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::rules::validations::needed_domains;

use super::clusters::{self, ClusterStage, ONLY_OPEN_CLUSTERS, cluster_stage};
use super::stages::{REBOOTING, record_stage};
use super::{READY_TO_INSTALL, WAITING_FOR_INVENTORY, agent_event, enter_state, owner_reference};

/// The most hosts of an InfraEnv that nobody has approved, beside those that somebody expects.
pub const MAX_UNAPPROVED: usize = 1000;
/// How often a host is to check in, in seconds.
const CHECK_IN_INTERVAL: u64 = 60;
/// How often a host is to check in that was silent before, in seconds.
const CHECK_IN_INTERVAL_IF_DISCONNECTED: u64 = 120;

/// Records that a host has booted the discovery image. The error says why that is not accepted in
/// the state that the host is in.
pub fn register_agent(state: &mut State, agent_id: AgentId, tick: &Tick) -> Result<(), String> {
    let Some(agent) = state.agents.get(agent_id).cloned() else { return Ok(()) };
    let (next, info) = state_after_boot(&agent)?;
    state.agents.update(agent_id, |agent| {
        agent.status.registered_at = Some(tick.now);
        agent.status.last_contact_time = Some(tick.now);
        agent.status.media_disconnected = false;
        agent.status.found_by_controller = false;
        if matches!(next, HostState::DiscoveringUnbound | HostState::Discovering) {
            forget_reports(agent);
        }
    });
    if next == HostState::Discovering
        && let Some(cluster_key) = agent.bound_cluster()
    {
        let cluster_id = state.find_cluster(&cluster_key.name);
        let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
        let is_installed = cluster.is_some_and(Cluster::is_installed);
        state.agents.update(agent_id, |agent| agent.prepare_to_join(is_installed));
    }
    enter_state(state, agent_id, next, &info, tick);
    if let Some(agent) = state.agents.get(agent_id) {
        let message = format!("Host {}: Successfully registered", agent.hostname());
        let reason = EventReason::HostRegistrationSucceeded;
        let event = agent_event(agent, reason, EventType::Normal, message, &tick.actor, tick);
        state.record_event(event);
    }
    Ok(())
}

/// Forgets what a host reported before it booted: it may not be so any more.
fn forget_reports(agent: &mut Agent) {
    let status = &mut agent.status;
    status.inventory = None;
    status.progress = Progress::default();
    status.bootstrap = false;
    status.installer_release.clear();
    status.images.clear();
    status.ntp_sources.clear();
    status.peers.clear();
    status.domains.clear();
    status.clock_offset_seconds = None;
}

/// The state of a host once it has booted the discovery image, and the info of that state.
fn state_after_boot(agent: &Agent) -> Result<(HostState, String), String> {
    let host_state = agent.state();
    let stage = agent.status.progress.current_stage.as_str();
    // A host that has joined a cluster has rebooted before it was done.
    let has_joined = host_state == HostState::AddedToExistingCluster && stage == "Done";
    let is_rebooting = stage == REBOOTING || has_joined;
    let info = &agent.status.debug_info.state_info;
    match host_state {
        HostState::Reclaiming => Err(format!(
            "Host is in {host_state} state; it can register after it is rebooted from the \
             discovery image"
        )),
        HostState::PreparingForInstallation | HostState::PreparingSuccessful if !is_rebooting => {
            Ok((HostState::Known, READY_TO_INSTALL.into()))
        }
        HostState::Resetting if is_rebooting => Ok((host_state, info.clone())),
        HostState::InstallingPendingUserAction if is_rebooting => {
            let disk = describe_installation_disk(agent);
            Err(format!("Host is required to be booted from disk {disk}"))
        }
        // It may have reached this stage since the last pass, which has not seen it installing.
        HostState::PreparingForInstallation
        | HostState::PreparingSuccessful
        | HostState::Installing
        | HostState::InstallingInProgress
        | HostState::AddedToExistingCluster
            if is_rebooting =>
        {
            let disk = describe_installation_disk(agent);
            let info = format!(
                "Expected the host to boot from disk, but it booted the installation image - \
                 please reboot and fix boot order to boot from disk {disk}"
            );
            Ok((HostState::InstallingPendingUserAction, info))
        }
        HostState::Installing | HostState::InstallingInProgress => {
            let info = "The host unexpectedly restarted during the installation";
            Ok((HostState::Error, info.into()))
        }
        HostState::Error | HostState::Cancelled | HostState::PreparingFailed => {
            Ok((host_state, info.clone()))
        }
        HostState::Installed | HostState::AddedToExistingCluster => Err(
            "Host is trying to register after the cluster has already been installed. That most \
             probably means that the host is booting from the installation ISO, and therefore not \
             effectively joining the cluster. The request will be ignored. Fix the boot order and \
             reboot the host."
                .into(),
        ),
        HostState::Disabled | HostState::DisabledUnbound => {
            Err(format!("Host is in {host_state} state: {info}"))
        }
        _ if agent.bound_cluster().is_some() => {
            Ok((HostState::Discovering, WAITING_FOR_INVENTORY.into()))
        }
        _ => Ok((HostState::DiscoveringUnbound, WAITING_FOR_INVENTORY.into())),
    }
}

/// The disk that a host is installed on, as people can tell it from others; empty if nothing is
/// known of its disks.
fn describe_installation_disk(agent: &Agent) -> String {
    let Some(inventory) = agent.inventory() else { return String::new() };
    let disk_id = &agent.status.installation_disk_id;
    let installation_disk = inventory.disks.iter().find(|disk| disk.id == *disk_id);
    let Some(disk) = installation_disk.or(inventory.disks.first()) else { return String::new() };
    format!("{} {} ({}, {})", disk.model, disk.serial, disk.name, disk.id)
}

/// Refuses one more host that nobody has approved. `unapproved` is how many the `InfraEnv` has, and
/// `reserved` how many more it takes because somebody expects this one.
pub fn refuse_crowd(infra_env: &str, unapproved: usize, reserved: usize) -> Result<(), String> {
    if unapproved < MAX_UNAPPROVED.saturating_add(reserved) {
        return Ok(());
    }
    Err(format!("InfraEnv {infra_env} has {unapproved} unapproved hosts and accepts no more"))
}

/// Makes the Agent of a host that its InfraEnv did not know, and that calls itself `id`. The error
/// says why the InfraEnv takes no such host. The caller inserts the Agent.
pub fn new_agent(state: &State, infra_env: &InfraEnv, id: &str) -> Result<Agent, String> {
    let infra_env_metadata = &infra_env.metadata;
    let infra_env_name = &infra_env_metadata.name;
    check_takes_new_hosts(state, infra_env)?;
    let mut labels = infra_env.spec.agent_labels.clone();
    labels.insert(INFRA_ENV_LABEL.into(), infra_env_name.clone());
    // The same machine in another InfraEnv may have the name already.
    let is_taken = state.agents.find(&Key::new(&*infra_env_metadata.namespace, id)).is_some();
    let name = if is_taken { format!("{infra_env_name}-{id}") } else { id.to_owned() };
    let mut annotations = BTreeMap::new();
    if let Some(owner) = infra_env_metadata.annotation(OWNER) {
        annotations.insert(OWNER.to_owned(), owner.to_owned());
    }
    let metadata = Meta {
        name,
        namespace: infra_env_metadata.namespace.clone(),
        labels,
        annotations,
        owner_references: vec![owner_reference(infra_env)],
        ..Meta::default()
    };
    let mut agent = Agent { metadata, ..Agent::default() };
    agent.status.kind = DAY1_HOST.into();
    id.clone_into(&mut agent.status.host_id);
    bind_to_cluster_of_infra_env(state, &mut agent, infra_env);
    Ok(agent)
}

/// Refuses a new host if the cluster of its InfraEnv is past the point where hosts can be added.
/// The words are assisted-service's.
fn check_takes_new_hosts(state: &State, infra_env: &InfraEnv) -> Result<(), String> {
    if infra_env.spec.image_type == "disconnected-iso" {
        return Err("Cannot register a host to an InfraEnv with disconnected-iso type".into());
    }
    let Some(cluster_key) = infra_env.cluster_key() else { return Ok(()) };
    let Some(cluster) = clusters::find_cluster(state, &cluster_key) else { return Ok(()) };
    match cluster_stage(state, cluster) {
        ClusterStage::Open => Ok(()),
        ClusterStage::Installed => {
            Err("Cannot add hosts to an existing cluster using the original Discovery ISO.".into())
        }
        _ => Err(ONLY_OPEN_CLUSTERS.into()),
    }
}

/// Binds a new host whose InfraEnv has a cluster to that, unless the same machine is bound already.
fn bind_to_cluster_of_infra_env(state: &State, agent: &mut Agent, infra_env: &InfraEnv) {
    let Some(cluster_key) = infra_env.cluster_key() else { return };
    agent.spec.cluster_deployment_name = Some(ClusterReference::from_key(&cluster_key));
    let id = &agent.status.host_id;
    let is_bound_already = state.agents.rows().any(|other_agent| {
        other_agent.status.host_id == *id && other_agent.bound_cluster().is_some()
    });
    if clusters::find_cluster(state, &cluster_key).is_none() || is_bound_already {
        return;
    }
    agent.bind(&cluster_key);
    agent.status.debug_info.state = HostState::Discovering;
}

/// Records a report of a host. The error says why the report is not accepted.
pub fn accept_report(
    state: &mut State,
    agent_id: AgentId,
    report: AgentReport,
    tick: &Tick,
) -> Result<(), String> {
    let Some(agent) = state.agents.get(agent_id) else { return Ok(()) };
    if let Some(inventory) = &report.inventory {
        check_inventory_is_accepted(state, agent, inventory)?;
    }
    let is_disconnected = report.media == Some(BootMedia::Disconnected);
    let has_lost_media = is_disconnected && !agent.status.media_disconnected;
    // The event calls the host as it was called before the report.
    let hostname = agent.hostname().to_owned();
    let stage = report.stage.clone();
    state.agents.update(agent_id, |agent| record_report(agent, report, tick));
    if let Some(stage) = stage {
        record_stage(state, agent_id, &stage, tick);
    }
    if has_lost_media && let Some(agent) = state.agents.get(agent_id) {
        let message = format!("Host {hostname}: Unable to read from the discovery media");
        let reason = EventReason::HostMediaDisconnected;
        let event = agent_event(agent, reason, EventType::Warning, message, &tick.actor, tick);
        state.record_event(event);
    }
    Ok(())
}

/// Refuses an inventory in a state in which nothing may change it, and one with a MAC address of
/// another host that is bound: a bound host must not become the duplicate of another.
fn check_inventory_is_accepted(
    state: &State,
    agent: &Agent,
    inventory: &Inventory,
) -> Result<(), String> {
    let host_state = agent.state();
    let is_accepted = host_state.is_free()
        || host_state.is_bound_and_checked()
        || host_state == HostState::InstallingInProgress;
    if !is_accepted {
        return Err(format!(
            "Host is in {host_state} state, host can be updated only in one of [discovering known \
             disconnected insufficient pending-for-input discovering-unbound known-unbound \
             disconnected-unbound insufficient-unbound installing-in-progress] states"
        ));
    }
    if agent.bound_cluster().is_none() {
        return Ok(());
    }
    let macs: Vec<String> = inventory.macs().map(str::to_lowercase).collect();
    for other_agent in state.agents.rows() {
        let is_other_bound =
            other_agent.bound_cluster().is_some() && other_agent.key() != agent.key();
        if is_other_bound && other_agent.identities().any(|identity| macs.contains(&identity)) {
            return Err(format!(
                "Host {} reports a MAC address of host {}, which is bound",
                agent.hostname(),
                other_agent.hostname()
            ));
        }
    }
    Ok(())
}

/// Takes a report into the status of an Agent. A part that was not reported leaves what is known;
/// only the boot media counts as connected again.
fn record_report(agent: &mut Agent, report: AgentReport, tick: &Tick) {
    agent.status.last_contact_time = Some(tick.now);
    agent.status.media_disconnected = report.media == Some(BootMedia::Disconnected);
    if let Some(mut inventory) = report.inventory {
        inventory.report_time = Some(tick.now);
        // The installation may end before the next pass, and then the disks are not judged again.
        if agent.state().is_installing()
            && let Some(previous) = agent.inventory()
        {
            inventory.keep_verdicts(previous);
        }
        agent.status.found_by_controller = false;
        let host_id = agent.status.host_id.clone();
        agent.identify_by_inventory(inventory, &host_id);
    }
    let status = &mut agent.status;
    if let Some(ntp_sources) = report.ntp_sources {
        status.ntp_sources = ntp_sources;
    }
    if let Some(images) = report.images {
        status.images = images;
    }
    if let Some(peers) = report.peers {
        status.peers = peers;
    }
    if let Some(domains) = report.domains {
        status.domains = domains;
    }
    if let Some(installer_release) = report.installer_release {
        status.installer_release = installer_release;
    }
    if let Some(timestamp) = report.timestamp {
        let now_in_seconds = tick.now.0 / 1_000_000;
        status.clock_offset_seconds = Some(timestamp.saturating_sub(now_in_seconds));
    }
}

/// What the agent on a host that has just checked in is to do: `next` (register, reboot or none),
/// `after` how many seconds it checks in again, the `peers` that it is to reach, which are the other
/// hosts of its cluster with their addresses, and the `domains` that it is to ask DNS for, if any. A
/// host that is installed is not checked again, so it has nothing to reach.
pub fn check_in_answer(state: &State, agent: &Agent) -> Value {
    let host_state = agent.state();
    let next = match host_state {
        HostState::Binding | HostState::Unbinding => "register",
        HostState::UnbindingPendingUserAction
        | HostState::Reclaiming
        | HostState::ReclaimingRebooting => "reboot",
        _ => "none",
    };
    let after = match host_state {
        HostState::DisconnectedUnbound | HostState::Disconnected => {
            CHECK_IN_INTERVAL_IF_DISCONNECTED
        }
        _ => CHECK_IN_INTERVAL,
    };
    let mut answer = json!({"next": next, "after": after, "peers": []});
    if let Some(cluster_key) = agent.cluster_to_reach() {
        answer["peers"] = list_peers(state, agent, &cluster_key);
        let domains = domains_of_cluster(state, &cluster_key);
        if !domains.is_empty() {
            answer["domains"] = json!(domains);
        }
    }
    answer
}

/// The other hosts of the cluster of a host, with their addresses.
fn list_peers(state: &State, agent: &Agent, cluster_key: &Key) -> Value {
    let mut peers = Vec::new();
    for peer in state.agents.rows() {
        if peer.bound_cluster().as_ref() == Some(cluster_key) && peer.key() != agent.key() {
            peers.push(json!({"agent": peer.metadata.name, "addresses": list_addresses(peer)}));
        }
    }
    peers.into()
}

/// The names that a host of a cluster has to find in DNS.
fn domains_of_cluster(state: &State, cluster_key: &Key) -> Vec<String> {
    let Some(cluster) = clusters::find_cluster(state, cluster_key) else { return Vec::new() };
    let needs = clusters::needs_of_cluster(state, cluster);
    needed_domains(&needs).into_iter().map(|domain| domain.name).collect()
}

/// The IP addresses of all interfaces of a host, without prefixes.
fn list_addresses(agent: &Agent) -> Vec<&str> {
    let Some(inventory) = agent.inventory() else { return Vec::new() };
    let mut addresses = Vec::new();
    for interface in &inventory.interfaces {
        for address in interface.ipv4_addresses.iter().chain(&interface.ipv6_addresses) {
            addresses.extend(address.split('/').next());
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::inventory::{Disk, Inventory};

    /// The disks of a host are not judged again once it is installed.
    #[test]
    fn a_report_during_an_installation_keeps_the_verdicts_on_disks() {
        let disk = Disk { id: "sda".into(), ..Disk::default() };
        let reported = Inventory { disks: vec![disk], ..Inventory::default() };
        let mut judged = reported.clone();
        judged.disks[0].installation_eligibility.set_verdict(vec!["too small".into()]);
        for (host_state, is_kept) in
            [(HostState::InstallingInProgress, true), (HostState::Known, false)]
        {
            let mut agent = Agent::default();
            agent.status.debug_info.state = host_state;
            agent.set_inventory(judged.clone());
            let report =
                AgentReport { inventory: Some(reported.clone()), ..AgentReport::default() };
            record_report(&mut agent, report, &Tick::default());
            let disks = &agent.inventory().unwrap().disks;
            assert_eq!(*disks == judged.disks, is_kept, "{host_state}");
        }
    }
}
