//! Gives machines back that a cluster no longer has. Every way back comes through here: clusters
//! that are released, fail, are cancelled or deleted, hosts that are unbound or moved, Agents that
//! are deleted, hosts that a person has edited or that came with an import. What poolctl has
//! switched on for a cluster is switched off before anything else is done to it. This module never
//! decides that a cluster loses a host.

use crate::model::agent::{Agent, HostState, INFRA_ENV_LABEL};
use crate::model::annotations::{BOOT, HOLD};
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, HostPower, Image, REBOOT};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::{HostId, State};
use crate::model::tick::Tick;

use super::wiping::{self, LastUse};
use super::{leases, record_event};

/// Gives back a host that a cluster may have used. Its disks are wiped if that is wanted. Then it
/// boots the image or, without one, stays off, so that what is on its disks does not run again.
pub fn give_back_used_host(
    state: &mut State,
    host_id: HostId,
    last_use: &LastUse,
    boot_image: Option<&str>,
    tick: &Tick,
) {
    wiping::mark_for_wiping(state, host_id, last_use, tick);
    leases::return_host(state, host_id);
    state.hosts.update(host_id, |host| match boot_image {
        Some(url) => boot_from(host, url, tick),
        None => switch_off(host, tick),
    });
}

/// Lets the controller of a host boot it from an image, also if that is attached already. A reboot
/// that was asked for would boot the disk before.
fn boot_from(host: &mut BareMetalHost, url: &str, tick: &Tick) {
    host.spec.image = Some(Image::live(url));
    host.spec.online = true;
    host.metadata.annotations.remove(REBOOT);
    if !host.is_to_be_wiped() {
        host.status.provisioning.image = None;
    }
    if host.status.may_run_for.is_some() {
        forget_old_power(host, tick);
    }
}

/// Lets a host be off, without an image and without what was asked of its next boot.
pub fn switch_off(host: &mut BareMetalHost, tick: &Tick) {
    host.spec.image = None;
    host.spec.online = false;
    host.metadata.annotations.remove(REBOOT);
    host.metadata.annotations.remove(BOOT);
    forget_old_power(host, tick);
}

/// A host that was off some time ago may be on by now, so its controller is asked again. One that
/// answers with an error has not said whether it is off.
fn forget_old_power(host: &mut BareMetalHost, tick: &Tick) {
    let is_just_seen =
        host.status.last_updated == Some(tick.now) && host.status.error_message.is_empty();
    if host.power() == HostPower::Off && !is_just_seen {
        host.forget_power();
    }
}

/// Gives back the hosts of a cluster that goes. Only those are left that are no Agents, or whose
/// Agent does not name them any more; what poolctl has not switched on stays as it is.
pub fn give_back_hosts_of_cluster(state: &mut State, cluster: &str, tick: &Tick) {
    for host_id in state.hosts_of(cluster) {
        let host = state.hosts.get(host_id);
        let switched_on_for = host.and_then(|host| host.status.switched_on_for.as_deref());
        if switched_on_for == Some(cluster) {
            give_back_stray(state, host_id, cluster, tick);
        }
    }
}

/// Leaves the hosts to a cluster that runs on after its object is gone: nobody switches them off.
pub fn leave_hosts_to_cluster(state: &mut State, cluster: &str) {
    for host_id in state.hosts_of(cluster) {
        leases::leave_host(state, host_id);
    }
}

/// Follows hosts on their way back. One that was seen off, or that reports itself from the discovery
/// image, runs for its last cluster no more.
pub fn follow_returned_hosts(state: &mut State, tick: &Tick) {
    // Only of all hosts is it known that their cluster or their Agent does not exist.
    if state.has_all_hosts {
        for (host_id, cluster) in find_lost_hosts(state) {
            give_back_stray(state, host_id, &cluster, tick);
        }
    }
    let host_ids: Vec<HostId> = state.hosts.iter().map(|(host_id, _)| host_id).collect();
    for host_id in host_ids {
        let Some(host) = state.hosts.get(host_id) else { continue };
        // A job that still works on it may switch it on.
        let is_busy = state.is_host_busy(&host.key().to_string());
        if host.status.may_run_for.is_some() && !is_busy && has_stopped(state, host) {
            state.hosts.update(host_id, |host| host.status.may_run_for = None);
        }
    }
}

/// Whether nothing of its last cluster runs on a host any more.
fn has_stopped(state: &State, host: &BareMetalHost) -> bool {
    let key = host.key();
    host.power() == HostPower::Off
        || state.agents.rows().any(|agent| agent.host_key().as_ref() == Some(&key) && waits(agent))
}

/// Whether a host runs the discovery image and waits there for a cluster.
fn waits(agent: &Agent) -> bool {
    !agent.status.found_by_controller
        && matches!(
            agent.state(),
            HostState::DiscoveringUnbound
                | HostState::InsufficientUnbound
                | HostState::KnownUnbound
        )
}

/// The hosts that were switched on for a cluster which does not exist or does not have them any
/// more, and the name of that cluster. Needs all hosts. A host whose Agent is bound or retired
/// comes back with the Agent, and a held one only when a person says so.
pub fn find_lost_hosts(state: &State) -> Vec<(HostId, String)> {
    let mut lost_hosts = Vec::new();
    for (host_id, host) in state.hosts.iter() {
        let Some(cluster) = &host.status.switched_on_for else { continue };
        let is_had =
            host.cluster() == Some(cluster.as_str()) && state.find_cluster(cluster).is_some();
        if !is_had && !host.metadata.has_annotation(HOLD) && !is_agent_kept(state, &host.key()) {
            lost_hosts.push((host_id, cluster.clone()));
        }
    }
    lost_hosts
}

/// Whether the Agent of a host is bound to a cluster, or retired because its cluster runs on.
fn is_agent_kept(state: &State, host: &Key) -> bool {
    state.agents.rows().any(|agent| {
        let is_kept =
            agent.bound_cluster().is_some() || agent.state() == HostState::DisabledUnbound;
        is_kept && agent.host_key().as_ref() == Some(host)
    })
}

/// Gives back a host that does not come back with its Agent, and records that.
fn give_back_stray(state: &mut State, host_id: HostId, cluster: &str, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let key = host.key();
    let label = host.metadata.labels.get(INFRA_ENV_LABEL);
    let infra_env = label.map(|name| Key::new(&*key.namespace, &**name));
    let pool = state
        .find_cluster(cluster)
        .and_then(|cluster_id| state.clusters.get(cluster_id)?.pool.as_deref().cloned());
    let last_use = LastUse { infra_env, pool, ..LastUse::default() };
    wiping::mark_for_wiping(state, host_id, &last_use, tick);
    leases::return_host_of_gone_cluster(state, host_id, cluster);
    state.hosts.update(host_id, |host| switch_off(host, tick));
    let message = format!("Cluster {cluster} does not have it any more: it is switched off");
    record_event(state, tick, Kind::BareMetalHost, key, EventReason::HostGivenBack, message);
}
