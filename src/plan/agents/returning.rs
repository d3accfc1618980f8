//! The ways back of hosts that have left a cluster: by themselves, by their controllers, or by
//! somebody who boots them. It never decides that a host leaves its cluster.

use crate::model::agent::{Agent, HostState};
use crate::model::annotations::{HOLD, WIPE};
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::host::BareMetalHost;
use crate::model::host::wipe::{NO_WIPE, WrittenDisk};
use crate::model::infra_env::InfraEnv;
use crate::model::job::Verb;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::plan::cluster_hosts::cluster_that_may_run;
use crate::plan::wiping::LastUse;
use crate::plan::{give_back, leases};

use super::{WAITING_FOR_INVENTORY, enter_state, record_agent_event};

const UNBINDING: &str = "Host is waiting to be unbound from the cluster";
const REBOOTING_INTO_DISCOVERY: &str = "Host is rebooting into the discovery image";
/// How long a host may take to register again before somebody has to boot it.
pub const RETURN_TIMEOUT: Span = Span::minutes(60);

/// Sends a host that has left its cluster on its way back. A host that was not used registers again
/// by itself; a used one has to be booted from the discovery image first, by its controller or by a
/// person. `agent` is the Agent as it was in its cluster.
pub fn begin_return(
    state: &mut State,
    agent_id: AgentId,
    agent: &Agent,
    was_used: bool,
    tick: &Tick,
) {
    let boot_image = if was_used { boot_image_url(state, agent) } else { None };
    release_machine(state, agent, boot_image.as_deref(), tick);
    if agent.status.found_by_controller {
        enter_state(state, agent_id, HostState::DiscoveringUnbound, WAITING_FOR_INVENTORY, tick);
    } else if boot_image.is_some() {
        let host = agent.host_key().and_then(|key| state.hosts.by_key(&key));
        let info = host.map(describe_boot).unwrap_or_default();
        enter_state(state, agent_id, HostState::Reclaiming, &info, tick);
    } else if was_used {
        await_boot_by_hand(state, agent_id, "", tick);
    } else {
        enter_state(state, agent_id, HostState::Unbinding, UNBINDING, tick);
    }
}

/// The discovery image from which the controller of a host boots it again. None if nobody knows the
/// image, if the host has no controller that can do it, or if no agent runs on the host.
fn boot_image_url(state: &State, agent: &Agent) -> Option<String> {
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key))?;
    if agent.status.found_by_controller || !can_boot(host) {
        return None;
    }
    let infra_env = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key))?;
    infra_env.image_url().map(str::to_owned)
}

/// Gives the machine of a host back. If a cluster may have used it, its disks are wiped where that
/// is asked for, and it is switched off or boots the image. `agent` is the Agent as it was in its
/// cluster.
pub fn release_machine(state: &mut State, agent: &Agent, boot_image: Option<&str>, tick: &Tick) {
    let Some(host_id) = agent.host_key().and_then(|key| state.hosts.find(&key)) else { return };
    if was_used(state, agent) || agent.state() == HostState::DisabledUnbound {
        let last_use = describe_last_use(state, agent);
        give_back::give_back_used_host(state, host_id, &last_use, boot_image, tick);
    } else {
        leases::return_host(state, host_id);
    }
}

/// What an Agent tells of the cluster that its host has left: its pool, and the disk that the
/// installer was told to write.
fn describe_last_use(state: &State, agent: &Agent) -> LastUse {
    let cluster = agent.bound_cluster().and_then(|key| state.find_cluster(&key.name));
    let pool =
        cluster.and_then(|cluster_id| state.clusters.get(cluster_id)?.pool.as_deref().cloned());
    let disk_id = &agent.status.installation_disk_id;
    let disks = agent.inventory().into_iter().flat_map(|inventory| &inventory.disks);
    let written = disks.filter(|disk| !disk_id.is_empty() && disk.id == *disk_id);
    let mut written_disks: Vec<WrittenDisk> = written.map(WrittenDisk::of_inventory).collect();
    written_disks.retain(|disk| !disk.is_unknown());
    LastUse { infra_env: agent.infra_env_key(), pool, written_disks }
}

/// Whether a cluster may run on a host, or may have left something on its disks. The state of the
/// Agent is not enough: an installation that failed or was cancelled before the host reported any
/// progress leaves the Agent as it was, and the machine switched on.
pub fn was_used(state: &State, agent: &Agent) -> bool {
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key));
    let was_switched_on = host.is_some_and(|host| host.status.switched_on_for.is_some());
    agent.state().may_have_cluster_data() || was_switched_on
}

/// Whether the controller of a host may boot it from an image.
fn can_boot(host: &BareMetalHost) -> bool {
    host.can_boot_images() && !host.is_left_alone() && !host.spec.disable_power_off
}

/// The state info of a host that its controller boots from the discovery image.
fn describe_boot(host: &BareMetalHost) -> String {
    let image = host.spec.image.as_ref().map(|image| image.url.as_str()).unwrap_or_default();
    let after_wipe = if host.is_to_be_wiped() { ", once its disks are wiped" } else { "" };
    format!("Host is returning: its controller boots it from {image}{after_wipe}")
}

/// The state info of a host that somebody has to boot from the discovery image. `since` is empty,
/// or a clause that says for how long.
fn describe_boot_by_hand(state: &State, agent: &Agent, since: &str) -> String {
    let infra_env_key = agent.infra_env_key();
    let infra_env = infra_env_key.as_ref().and_then(|key| state.infra_envs.by_key(key));
    let name = infra_env_key.as_ref().map(|key| key.name.as_str()).unwrap_or_default();
    let image = match infra_env.and_then(InfraEnv::image_url) {
        Some(url) => url.to_owned(),
        None => format!("poolctl infraenv iso {name}"),
    };
    let wiper = infra_env.and_then(|infra_env| infra_env.metadata.annotation(WIPE));
    let wipe = match wiper.filter(|wiper| *wiper != NO_WIPE && agent.host_key().is_none()) {
        Some(wiper) => format!("; wipe its disks first: {wiper} wipes only BareMetalHosts"),
        None => String::new(),
    };
    format!(
        "{UNBINDING}{since}: boot it from the discovery image of InfraEnv {name} ({image}){wipe}"
    )
}

/// Follows a host that its controller boots from the discovery image. One that has not registered
/// again in time is somebody's to boot.
pub fn follow_reclaim(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key));
    let host_state = agent.state();
    // Wiping disks has no limit of time.
    if let Some(host) = host
        && host.is_to_be_wiped()
    {
        let info = describe_boot(host);
        return enter_state(state, agent_id, host_state, &info, tick);
    }
    let wiped_at = host.and_then(|host| host.status.wipe.as_ref()).map(|wipe| wipe.since);
    let since = agent.status.state_since.max(wiped_at);
    if !tick.clock_jumped && since.is_some_and(|since| tick.now.since(since) > RETURN_TIMEOUT) {
        return give_up_reclaim(state, agent_id, tick);
    }
    let Some(host) = host else { return };
    if host_state != HostState::Reclaiming {
        return;
    }
    if is_booted_from_image(state, host) {
        enter_state(
            state,
            agent_id,
            HostState::ReclaimingRebooting,
            REBOOTING_INTO_DISCOVERY,
            tick,
        );
    } else {
        let info = describe_boot(host);
        enter_state(state, agent_id, host_state, &info, tick);
    }
}

/// Leaves it to a person to boot a host, whose controller did not bring it back.
fn give_up_reclaim(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let host_id = agent.host_key().and_then(|key| state.hosts.find(&key));
    let hostname = agent.hostname();
    let limit = RETURN_TIMEOUT.to_short_text();
    let message = format!("Host {hostname}: did not register again within {limit}");
    record_agent_event(
        state,
        agent_id,
        EventReason::HostReclaimFailed,
        EventType::Warning,
        message,
        tick,
    );
    // What its disks have may run by now: it is off until somebody boots it.
    if let Some(host_id) = host_id {
        state.hosts.update(host_id, |host| give_back::switch_off(host, tick));
    }
    state.agents.update(agent_id, Agent::forget_cluster);
    await_boot_by_hand(state, agent_id, "", tick);
}

/// Whether the image of a host is attached to it, or is being attached.
fn is_booted_from_image(state: &State, host: &BareMetalHost) -> bool {
    let live_job = state.live_job(&host.key().to_string());
    let wanted_url = host.spec.image.as_ref().map(|image| &image.url);
    // One that is not live was attached, and never booted from.
    let attached_image = host.status.provisioning.image.as_ref().filter(|image| image.is_live());
    let attached_url = attached_image.map(|image| &image.url);
    let is_attached = wanted_url.is_some() && wanted_url == attached_url;
    is_attached || live_job.is_some_and(|(_, job)| job.verb == Verb::Attach)
}

/// Follows a host that waits for somebody to boot it. An event says once that it waits for too
/// long.
pub fn follow_boot_by_hand(state: &mut State, agent_id: AgentId, tick: &Tick) {
    if tick.clock_jumped {
        return;
    }
    let Some(agent) = state.agents.get(agent_id) else { return };
    if !agent.is_late(RETURN_TIMEOUT, tick) {
        return await_boot_by_hand(state, agent_id, "", tick);
    }
    let since = format!(", for more than {}", RETURN_TIMEOUT.to_short_text());
    let info = describe_boot_by_hand(state, agent, &since);
    let message = format!("Host {}: {info}", agent.hostname());
    let is_noted = agent.status.overdue_noted_at >= agent.status.state_since;
    await_boot_by_hand(state, agent_id, &since, tick);
    if !is_noted {
        state.agents.update(agent_id, |agent| agent.status.overdue_noted_at = Some(tick.now));
        record_agent_event(
            state,
            agent_id,
            EventReason::HostUnbindOverdue,
            EventType::Warning,
            message,
            tick,
        );
    }
}

/// Lets a host wait until somebody boots it from the discovery image. `since` is empty, or a clause
/// that says for how long it has waited.
pub fn await_boot_by_hand(state: &mut State, agent_id: AgentId, since: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let info = describe_boot_by_hand(state, agent, since);
    enter_state(state, agent_id, HostState::UnbindingPendingUserAction, &info, tick);
}

/// Retires a host whose cluster is left running: no cluster gets it until somebody deletes its
/// Agent.
pub fn retire_agent(state: &mut State, agent_id: AgentId, cluster: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let hostname = agent.hostname();
    let message = format!("Host {hostname}: retired, because it still runs in cluster {cluster}");
    let info = format!(
        "Host is retired: it still runs in cluster {cluster}, which was left running. When nothing \
         uses it any more: poolctl delete agent {}",
        agent.metadata.name
    );
    let host_id = agent.host_key().and_then(|key| state.hosts.find(&key));
    record_agent_event(state, agent_id, EventReason::HostRetired, EventType::Normal, message, tick);
    leases::retire_agent(state, agent_id);
    if let Some(host_id) = host_id {
        leases::leave_host(state, host_id);
    }
    enter_state(state, agent_id, HostState::DisabledUnbound, &info, tick);
}

/// Why a host is held whose machine may still run as a node of a cluster.
pub fn not_seen_off(cluster: &str) -> String {
    format!("its controller has not reported that it is off since it left cluster {cluster}")
}

/// Why a host that is free is not picked, and what lets it be picked again.
pub fn describe_hold(state: &State, agent: &Agent) -> Option<String> {
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key))?;
    let Some(why) = host.hold_reason() else {
        let cluster = cluster_that_may_run(state, agent)?;
        return Some(format!("Host is held: {}", not_seen_off(cluster)));
    };
    if !host.metadata.has_annotation(HOLD) {
        return Some(format!("Host is held: {why}"));
    }
    let name = &host.metadata.name;
    Some(format!("Host is held: {why}; poolctl host unhold {name}"))
}
