//! The state of a host: it follows from the host's checks, from silence, from time and from its
//! cluster. The conditions follow from the state. It never binds a host.

use crate::model::agent::{Agent, CLUSTER_NAMESPACE_LABEL, HostState, Progress, SKIP_CLEANUP};
use crate::model::condition::set_condition_without_probe;
use crate::model::driver::Driver;
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::plan::cluster_hosts::cluster_that_may_run;
use crate::plan::leases;
use crate::rules::validations::disk_problems;

use super::checks::{self, check_agent};
use super::clusters::{self, ClusterStage, cluster_stage, needs_of_cluster};
use super::leaving::leave_cluster;
use super::{
    INSTALLATION_IN_PROGRESS, READY_TO_INSTALL, WAITING_FOR_INVENTORY, booting, conditions,
    enter_state, labels, record_agent_event, returning, roles, stages,
};

const SILENT: &str = "Host has stopped communicating with the installation service";
const MEDIA_LOST: &str = "Unable to read from the discovery media. It was likely disconnected or a network timeout occurred";
const UNMET_HARDWARE: &str = "Host does not meet the minimum hardware requirements";
/// How long a host may take to register again after it was told to.
pub const REGISTRATION_TIMEOUT: Span = Span::minutes(10);

/// Moves a host to the state that follows from its checks, from silence, from time and from its
/// cluster.
pub fn advance_state(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let host_state = agent.state();
    update_deprovision_info(state, agent_id);
    check_agent(state, agent_id, tick);
    match host_state {
        HostState::DisabledUnbound | HostState::Disabled => {}
        HostState::Binding => advance_binding(state, agent_id, tick),
        HostState::Reclaiming | HostState::ReclaimingRebooting => {
            returning::follow_reclaim(state, agent_id, tick);
        }
        HostState::UnbindingPendingUserAction => {
            returning::follow_boot_by_hand(state, agent_id, tick);
        }
        _ if host_state.is_free() || host_state == HostState::Unbinding => {
            advance_unbound(state, agent_id, tick);
        }
        _ => advance_bound(state, agent_id, tick),
    }
}

/// Forgets the node that a host has left in its last cluster once the cluster is gone, or once
/// somebody has said that the node is not to be waited for. Until then it says what removes the
/// node.
fn update_deprovision_info(state: &mut State, agent_id: AgentId) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let Some(info) = &agent.status.deprovision_info else { return };
    let is_skipped = agent.metadata.has_annotation(SKIP_CLEANUP);
    let may_wait = agent.state().is_returning() || !is_skipped;
    if may_wait && cluster_that_may_run(state, agent).is_some() {
        return;
    }
    let is_over = is_skipped || state.find_cluster(&info.cluster_name).is_none();
    let cluster = info.cluster_name.clone();
    let node = &info.node_name;
    let message = format!("Node {node} is still in cluster {cluster}: oc delete node {node}");
    let agent = agent.clone();
    state.agents.update(agent_id, |agent| match &mut agent.status.deprovision_info {
        Some(info) if !is_over => info.message = message,
        deprovision_info => *deprovision_info = None,
    });
    leases::return_addresses_of_agent(state, &agent, &cluster);
    leases::return_addresses_of_gone_cluster(state, &agent.metadata.namespace, &cluster);
}

/// Takes a host out of its cluster again that does not register in time. What its spec wishes for
/// stays.
fn advance_binding(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    if !agent.is_late(REGISTRATION_TIMEOUT, tick) {
        return;
    }
    let Some(cluster) = agent.bound_cluster() else { return };
    let wanted = agent.spec.cluster_deployment_name.clone();
    let hostname = agent.hostname();
    let message = format!(
        "Failed to bind host {hostname} to cluster {}: it did not register again within {}",
        cluster.name,
        REGISTRATION_TIMEOUT.to_short_text()
    );
    record_agent_event(
        state,
        agent_id,
        EventReason::HostBindFailed,
        EventType::Warning,
        message,
        tick,
    );
    leave_cluster(state, agent_id, tick);
    state.agents.update(agent_id, |agent| agent.spec.cluster_deployment_name = wanted);
    enter_state(state, agent_id, HostState::DisconnectedUnbound, SILENT, tick);
}

/// Why no cluster can use a host as it is: it is silent, or it cannot read the image it runs from.
fn why_disconnected(state: &State, agent: &Agent, tick: &Tick) -> Option<&'static str> {
    if is_silent(state, agent, tick) {
        return Some(SILENT);
    }
    agent.status.media_disconnected.then_some(MEDIA_LOST)
}

/// Whether nobody hears of a host: neither the host itself nor, of a host that was found by its
/// management controller, the controller.
fn is_silent(state: &State, agent: &Agent, tick: &Tick) -> bool {
    if !agent.status.found_by_controller {
        return !tick.clock_jumped && agent.is_silent(tick.now);
    }
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key));
    host.is_none_or(|host| host.status.error_count > 0)
}

/// Moves a free host to the state that follows from its silence and from its inventory. A host that
/// was just unbound first has time to register again.
fn advance_unbound(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let host_state = agent.state();
    if let Some(info) = why_disconnected(state, agent, tick) {
        return enter_state(state, agent_id, HostState::DisconnectedUnbound, info, tick);
    }
    if host_state == HostState::Unbinding {
        if agent.is_late(REGISTRATION_TIMEOUT, tick) {
            returning::await_boot_by_hand(state, agent_id, "", tick);
        }
        return;
    }
    if !checks::are_results_current(state, agent_id, tick) {
        let (next, info) = judge_unbound(state, agent);
        return enter_state(state, agent_id, next, &info, tick);
    }
    // Its results are those of the last plan, and so is its state. Only somebody who holds it back may
    // have come or gone.
    if host_state == HostState::KnownUnbound {
        let info = describe_known(state, agent);
        enter_state(state, agent_id, host_state, &info, tick);
    }
}

/// The state of a free host that follows from its inventory, and why it is in that state.
fn judge_unbound(state: &State, agent: &Agent) -> (HostState, String) {
    let was_checked =
        matches!(agent.state(), HostState::KnownUnbound | HostState::InsufficientUnbound);
    match agent.inventory() {
        Some(inventory) if inventory.is_usable() => {
            let unmet = checks::unmet_gates(agent);
            if unmet.is_empty() {
                (HostState::KnownUnbound, describe_known(state, agent))
            } else {
                (HostState::InsufficientUnbound, format!("{UNMET_HARDWARE}: {unmet}"))
            }
        }
        Some(_) if was_checked => {
            let unmet = checks::unmet_truncation(agent);
            (HostState::InsufficientUnbound, format!("{UNMET_HARDWARE}: {unmet}"))
        }
        _ => (HostState::DiscoveringUnbound, WAITING_FOR_INVENTORY.to_owned()),
    }
}

/// What is said of a free host that meets its checks: somebody may hold it back all the same.
fn describe_known(state: &State, agent: &Agent) -> String {
    returning::describe_hold(state, agent)
        .unwrap_or_else(|| "Host is ready to be bound to a cluster".into())
}

/// Moves a bound host to the state that follows from the stage of its cluster. The order of the
/// arms matters: a host whose installation has begun is looked at before one that still waits.
fn advance_bound(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let Some(cluster_key) = agent.bound_cluster() else { return };
    let Some(cluster) = clusters::find_cluster(state, &cluster_key) else {
        // The cluster is gone although nobody was seen to delete it. It may come back, so what the
        // spec wishes for stays.
        let wanted = agent.spec.cluster_deployment_name.clone();
        leave_cluster(state, agent_id, tick);
        state.agents.update(agent_id, |agent| agent.spec.cluster_deployment_name = wanted);
        return;
    };
    let host_state = agent.state();
    let is_day2 = agent.is_day2();
    match cluster_stage(state, cluster) {
        ClusterStage::Installed
            if is_day2 && !host_state.is_installing() && !host_state.has_ended_installation() =>
        {
            advance_checked(state, agent_id, tick);
        }
        ClusterStage::Installed if host_state == HostState::AddedToExistingCluster || is_day2 => {}
        ClusterStage::Installed => {
            enter_state(state, agent_id, HostState::Installed, "Done", tick);
        }
        ClusterStage::Installing if host_state.is_installing() => {
            let topology = needs_of_cluster(state, cluster).topology();
            stages::check_stage_limit(state, agent_id, topology, tick);
            advance_installing(state, agent_id, host_state, tick);
        }
        ClusterStage::Installing
            if host_state == HostState::Known
                || is_another_try(state, agent, &cluster_key.name) =>
        {
            let is_by_image = cluster.driver == Driver::Agent;
            begin_installation(state, agent_id, is_by_image, tick);
        }
        // Nothing has been done to the host yet.
        ClusterStage::Failed if host_state == HostState::PreparingForInstallation => {
            advance_checked(state, agent_id, tick);
        }
        ClusterStage::Ending if host_state == HostState::PreparingForInstallation => {}
        ClusterStage::Failed if host_state.is_installing() || host_state == HostState::Error => {
            let info = "Host is part of a cluster that failed to install";
            enter_state(state, agent_id, HostState::Error, info, tick);
        }
        ClusterStage::Installing if host_state == HostState::Error => {}
        ClusterStage::Open | ClusterStage::Installing | ClusterStage::Failed => {
            advance_checked(state, agent_id, tick);
        }
        ClusterStage::Ending if host_state.is_installing() || host_state == HostState::Error => {
            let info = "Installation was cancelled";
            enter_state(state, agent_id, HostState::Cancelled, info, tick);
        }
        ClusterStage::Ending => {}
    }
}

/// Follows a host that is installed with its cluster. `host_state` is its state at the start of the
/// round.
fn advance_installing(state: &mut State, agent_id: AgentId, host_state: HostState, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let has_reported = !agent.status.progress.current_stage.is_empty();
    let is_in_progress = match host_state {
        HostState::Installing => {
            let cluster = agent.bound_cluster().map(|cluster| cluster.name).unwrap_or_default();
            has_reported || state.live_job(&cluster).is_some_and(|(_, job)| job.begun)
        }
        HostState::PreparingForInstallation => has_reported,
        _ => booting::was_booted_by_hand(agent),
    };
    if is_in_progress {
        enter_state(
            state,
            agent_id,
            HostState::InstallingInProgress,
            INSTALLATION_IN_PROGRESS,
            tick,
        );
    }
}

/// The installation of a host's cluster has begun. Where the hosts boot an image of their cluster,
/// nothing is done to any of them before there is one.
fn begin_installation(state: &mut State, agent_id: AgentId, is_by_image: bool, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let host_state = agent.state();
    let hostname = agent.hostname().to_owned();
    state.agents.update(agent_id, |agent| {
        agent.status.node_name = hostname;
        if host_state == HostState::Error {
            agent.status.progress = Progress::default();
        }
    });
    if is_by_image && host_state == HostState::Known {
        let info = "Host is preparing for installation";
        enter_state(state, agent_id, HostState::PreparingForInstallation, info, tick);
    } else {
        enter_state(state, agent_id, HostState::Installing, INSTALLATION_IN_PROGRESS, tick);
    }
}

/// Whether the cluster of a host is installed anew after the host's own installation failed.
fn is_another_try(state: &State, agent: &Agent, cluster: &str) -> bool {
    let started = state.live_job(cluster).map(|(_, job)| job.started);
    agent.state() == HostState::Error && started > agent.status.state_since
}

/// Moves a bound host, whose cluster is not installed on it yet, to the state that its checks give.
fn advance_checked(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    if let Some(info) = why_disconnected(state, agent, tick) {
        return enter_state(state, agent_id, HostState::Disconnected, info, tick);
    }
    if agent.is_duplicate() {
        let info = format!("Host is the same machine as Agent {}", agent.status.duplicate_of);
        return enter_state(state, agent_id, HostState::Insufficient, &info, tick);
    }
    let has_inventory = agent.usable_inventory().is_some();
    let unmet_hardware = checks::unmet_hardware(agent);
    let unmet_input = checks::unmet_input(agent);
    let unmet_checks = checks::unmet_before_installation(agent);
    let (next, info) = if !has_inventory {
        (HostState::Discovering, WAITING_FOR_INVENTORY.to_owned())
    } else if !unmet_hardware.is_empty() {
        // Whoever mends the hardware wants to know what else would keep the host back.
        (HostState::Insufficient, format!("{UNMET_HARDWARE}: {unmet_checks}"))
    } else if !unmet_input.is_empty() {
        (HostState::PendingForInput, format!("Waiting for user input: {unmet_input}"))
    } else if !unmet_checks.is_empty() {
        let summary = "Host cannot be installed due to following failing validation(s)";
        (HostState::Insufficient, format!("{summary}: {unmet_checks}"))
    } else {
        (HostState::Known, READY_TO_INSTALL.to_owned())
    };
    enter_state(state, agent_id, next, &info, tick);
}

/// Updates what follows from the Agent alone, and from its state: its conditions and the label with the
/// namespace of its cluster.
pub fn update_conditions(state: &mut State, agent_id: AgentId, tick: &Tick) {
    if state.agents.is_settled(agent_id) {
        return;
    }
    let Some(agent) = state.agents.get(agent_id) else { return };
    let namespace = agent.bound_cluster().map(|cluster| cluster.namespace).unwrap_or_default();
    let duplicate_condition = conditions::duplicate_condition(agent);
    let mut new_conditions = agent.conditions().to_vec();
    if duplicate_condition.is_none() {
        new_conditions.retain(|condition| condition.kind != conditions::DUPLICATE);
    }
    for condition in conditions::agent_conditions(agent).into_iter().chain(duplicate_condition) {
        set_condition_without_probe(&mut new_conditions, condition, tick.now);
    }
    // An update copies the whole Agent, so it is made only if something changes.
    let is_label_current = agent.metadata.labels.get(CLUSTER_NAMESPACE_LABEL) == Some(&namespace);
    if is_label_current && new_conditions == agent.conditions() {
        return;
    }
    state.agents.update(agent_id, |agent| {
        labels::set_cluster_namespace(agent, namespace);
        agent.set_conditions(new_conditions);
    });
}

/// Chooses the disk that a bound host will be installed on, as long as its installation has not
/// begun, and judges for each disk whether an installation may go to it.
pub fn update_disks(state: &mut State, agent_id: AgentId, tick: &Tick) {
    if checks::are_results_current(state, agent_id, tick) {
        return;
    }
    let Some(agent) = state.agents.get(agent_id) else { return };
    // Disks that cannot change were judged before.
    if agent.has_final_inventory() {
        return;
    }
    let cluster =
        agent.bound_cluster().and_then(|key| state.clusters.get(state.find_cluster(&key.name)?));
    let bound_role =
        cluster.map(|cluster| needs_of_cluster(state, cluster).node_role(agent.role()));
    let chosen_disk_id = match bound_role {
        Some(node) if agent.state().is_bound_and_checked() => roles::installation_disk(agent, node),
        _ => None,
    };
    let mut problems_by_disk: Vec<Vec<String>> = Vec::new();
    if let Some(inventory) = agent.inventory() {
        let problems =
            inventory.disks.iter().map(|disk| disk_problems(disk, inventory, bound_role));
        problems_by_disk.extend(problems);
    }
    let disks = agent.inventory().into_iter().flat_map(|inventory| &inventory.disks);
    let mut verdicts = disks.zip(&problems_by_disk);
    let are_verdicts_current =
        verdicts.all(|(disk, problems)| disk.installation_eligibility.has_verdict(problems));
    let disk_id = chosen_disk_id.unwrap_or_else(|| agent.status.installation_disk_id.clone());
    if are_verdicts_current && disk_id == agent.status.installation_disk_id {
        return;
    }
    state.agents.update(agent_id, |agent| {
        agent.status.installation_disk_id = disk_id;
        let Some(mut inventory) = agent.inventory().cloned() else { return };
        for (disk, problems) in inventory.disks.iter_mut().zip(problems_by_disk) {
            disk.installation_eligibility.set_verdict(problems);
        }
        agent.set_inventory(inventory);
    });
}
