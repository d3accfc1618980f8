//! How a host is: what follows from its checks, from silence, time and its cluster, and what is
//! said of it.

use crate::model::agent::inventory::Inventory;
use crate::model::agent::{Agent, HostState, Progress, SKIP_CLEANUP};
use crate::model::condition::set_unprobed;
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::plan::clusters_hosts::cluster_that_may_run;
use crate::plan::leases;
use crate::rules::validations::disk_problems;

use super::checks::{self, check_agent};
use super::clusters::{self, Stage, needs, stage};
use super::leaving::leave_cluster;
use super::{AWAITS_INVENTORY, booting, conditions, enter, labels, note, returning, roles, stages};

const SILENT: &str = "Host has stopped communicating with the installation service";
const MEDIA: &str = "Unable to read from the discovery media. It was likely disconnected or a network timeout occurred";
/// Until a host that was told to register again has done so.
const COMES_BACK: Span = Span::minutes(10);

/// What time, silence and its cluster make of a host.
pub fn advance(state: &mut State, at: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let now = agent.state();
    cleaned(state, at);
    check_agent(state, at, tick);
    match now {
        HostState::DisabledUnbound | HostState::Disabled => {}
        HostState::Binding => binding(state, at, tick),
        HostState::Reclaiming | HostState::ReclaimingRebooting => {
            returning::reclaim(state, at, tick);
        }
        HostState::UnbindingPendingUserAction => returning::pending(state, at, tick),
        _ if now.is_free() || now == HostState::Unbinding => unbound(state, at, tick),
        _ => bound(state, at, tick),
    }
}

/// What is left of a host in the cluster that it left is nobody's any more once that is gone.
fn cleaned(state: &mut State, at: AgentId) {
    let Some(agent) = state.agents.get(at) else { return };
    let Some(info) = &agent.status.deprovision_info else { return };
    let skipped = agent.metadata.annotated_at_all(SKIP_CLEANUP);
    let waits = agent.state().is_returning() || !skipped;
    if waits && cluster_that_may_run(state, agent).is_some() {
        return;
    }
    let over = skipped || state.cluster(&info.cluster_name).is_none();
    let (cluster, node) = (&info.cluster_name, &info.node_name);
    let text = format!("Node {node} is in cluster {cluster} still: oc delete node {node}");
    let (gone, agent) = (cluster.clone(), agent.clone());
    state.agents.update(at, |one| match &mut one.status.deprovision_info {
        Some(info) if !over => info.message = text,
        left => *left = None,
    });
    leases::return_addresses_of_host(state, &agent, &gone);
    leases::return_addresses_of_gone_cluster(state, &agent.metadata.namespace, &gone);
}

/// One that does not register again for its cluster is not taken.
fn binding(state: &mut State, at: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    if !agent.is_late(COMES_BACK, tick) {
        return;
    }
    let Some(cluster) = agent.bound_to() else { return };
    let wanted = agent.spec.cluster_deployment_name.clone();
    let name = agent.hostname().to_owned();
    let text = format!(
        "Failed to bind host {name} to cluster {}: it did not register again within {}",
        cluster.name,
        COMES_BACK.short()
    );
    note(state, at, EventReason::HostBindFailed, true, text, tick);
    leave_cluster(state, at, tick);
    state.agents.update(at, |one| one.spec.cluster_deployment_name = wanted);
    enter(state, at, HostState::DisconnectedUnbound, SILENT, tick);
}

/// Why nobody can use a host as it is: nobody hears of it, or it cannot read its image.
fn lost(state: &State, agent: &Agent, tick: &Tick) -> Option<&'static str> {
    let media = agent.status.media_disconnected.then_some(MEDIA);
    Some(SILENT).filter(|_| is_gone(state, agent, tick)).or(media)
}

/// Whether nobody hears of it.
fn is_gone(state: &State, agent: &Agent, tick: &Tick) -> bool {
    if !agent.status.found {
        return !tick.jumped && agent.is_silent(tick.now);
    }
    // Its management controller says how it is.
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key));
    host.is_none_or(|host| host.status.error_count > 0)
}

fn unbound(state: &mut State, at: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let now = agent.state();
    if let Some(info) = lost(state, agent, tick) {
        return enter(state, at, HostState::DisconnectedUnbound, info, tick);
    }
    if now == HostState::Unbinding {
        if agent.is_late(COMES_BACK, tick) {
            returning::lost(state, at, "", tick);
        }
        return;
    }
    let (next, info) = match &agent.status.inventory {
        Some(found) if found.is_valid() => {
            let wrong = checks::unmet_gates(agent);
            if wrong.is_empty() {
                let ready = || "Host is ready to be bound to a cluster".to_owned();
                let held = returning::held(state, agent);
                (HostState::KnownUnbound, held.unwrap_or_else(ready))
            } else {
                let text = "Host does not meet the minimum hardware requirements";
                (HostState::InsufficientUnbound, format!("{text}: {wrong}"))
            }
        }
        Some(_) if matches!(now, HostState::KnownUnbound | HostState::InsufficientUnbound) => {
            let wrong = checks::unmet_truncation(agent);
            let text = "Host does not meet the minimum hardware requirements";
            (HostState::InsufficientUnbound, format!("{text}: {wrong}"))
        }
        _ => (HostState::DiscoveringUnbound, AWAITS_INVENTORY.to_owned()),
    };
    enter(state, at, next, &info, tick);
}

fn bound(state: &mut State, at: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let Some(key) = agent.bound_to() else { return };
    let Some(cluster) = clusters::at(state, &key) else {
        // It is gone, and nobody was seen taking it away: it may come back.
        let wanted = agent.spec.cluster_deployment_name.clone();
        leave_cluster(state, at, tick);
        state.agents.update(at, |one| one.spec.cluster_deployment_name = wanted);
        return;
    };
    let (now, day2) = (agent.state(), agent.is_day2());
    // Before there is an image, nothing is done to any host.
    let by_image = cluster.driver == Driver::Agent;
    match stage(state, cluster) {
        Stage::Installed if day2 && !now.is_installing() && !now.is_over() => {
            checked(state, at, tick);
        }
        Stage::Installed if now == HostState::AddedToExistingCluster || day2 => {}
        Stage::Installed => enter(state, at, HostState::Installed, "Done", tick),
        Stage::Installing if now.is_installing() => {
            stages::late(state, at, needs(state, cluster).is_sno(), tick);
            let Some(agent) = state.agents.get(at) else { return };
            let told = !agent.status.progress.current_stage.is_empty();
            let begun = told || state.live_job(&key.name).is_some_and(|(_, job)| job.begun);
            let goes_on = match now {
                HostState::Installing => begun,
                HostState::PreparingForInstallation => told,
                _ => booting::goes_on(agent),
            };
            if goes_on {
                let info = "Installation is in progress";
                enter(state, at, HostState::InstallingInProgress, info, tick);
            }
        }
        Stage::Installing if now == HostState::Known || is_another_try(state, agent, &key.name) => {
            let name = agent.hostname().to_owned();
            state.agents.update(at, |one| {
                one.status.node_name = name;
                if now == HostState::Error {
                    one.status.progress = Progress::default();
                }
            });
            if by_image && now == HostState::Known {
                let info = "Host is preparing for installation";
                enter(state, at, HostState::PreparingForInstallation, info, tick);
            } else {
                enter(state, at, HostState::Installing, "Installation is in progress", tick);
            }
        }
        // Nothing has been done to it yet.
        Stage::Failed if now == HostState::PreparingForInstallation => checked(state, at, tick),
        Stage::Ending if now == HostState::PreparingForInstallation => {}
        Stage::Failed if now.is_installing() || now == HostState::Error => {
            let info = "Host is part of a cluster that failed to install";
            enter(state, at, HostState::Error, info, tick);
        }
        Stage::Installing if now == HostState::Error => {}
        Stage::Open | Stage::Installing | Stage::Failed => checked(state, at, tick),
        Stage::Ending if now.is_installing() || now == HostState::Error => {
            enter(state, at, HostState::Cancelled, "Installation was cancelled", tick);
        }
        Stage::Ending => {}
    }
}

/// Whether its cluster is installed anew after its own installation failed.
fn is_another_try(state: &State, agent: &Agent, cluster: &str) -> bool {
    let begun = state.live_job(cluster).map(|(_, job)| job.started);
    agent.state() == HostState::Error && begun > agent.status.state_since
}

/// Bound, and its cluster not installed on it yet.
fn checked(state: &mut State, at: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    if let Some(info) = lost(state, agent, tick) {
        return enter(state, at, HostState::Disconnected, info, tick);
    }
    if agent.is_duplicate() {
        let info = format!("Host is the same machine as Agent {}", agent.status.duplicate_of);
        return enter(state, at, HostState::Insufficient, &info, tick);
    }
    let valid = agent.status.inventory.as_ref().is_some_and(Inventory::is_valid);
    let hardware = checks::unmet_hardware(agent);
    let input = checks::unmet_input(agent);
    let other = checks::unmet_before_installation(agent);
    let (next, info) = if !valid {
        (HostState::Discovering, AWAITS_INVENTORY.to_owned())
    } else if !hardware.is_empty() {
        let text = "Host does not meet the minimum hardware requirements";
        (HostState::Insufficient, format!("{text}: {hardware}"))
    } else if !input.is_empty() {
        (HostState::PendingForInput, format!("Waiting for user input: {input}"))
    } else if !other.is_empty() {
        let text = "Host cannot be installed due to following failing validation(s)";
        (HostState::Insufficient, format!("{text}: {other}"))
    } else {
        (HostState::Known, "Host is ready to be installed".to_owned())
    };
    enter(state, at, next, &info, tick);
}

/// What is said of a host, once everything is settled.
pub fn judge(state: &mut State, at: AgentId, tick: &Tick) {
    check_agent(state, at, tick);
    let Some(agent) = state.agents.get(at) else { return };
    let cluster = agent.bound_to().and_then(|key| state.clusters.get(state.cluster(&key.name)?));
    let sno = cluster.is_some_and(|one| needs(state, one).is_sno());
    let disk = if cluster.is_some() && agent.state().is_checked() {
        let known = agent.status.installation_disk_id.clone();
        roles::installation_disk(agent, agent.role(), sno).unwrap_or(known)
    } else {
        agent.status.installation_disk_id.clone()
    };
    let bound = cluster.map(|_| (agent.role(), sno));
    let disks = agent.status.inventory.as_ref().map(|found| {
        let why = |one| disk_problems(one, found, bound);
        found.disks.iter().map(why).collect::<Vec<_>>()
    });
    let namespace = agent.bound_to().map(|key| key.namespace).unwrap_or_default();
    state.agents.update(at, |one| {
        one.status.installation_disk_id = disk;
        let found = one.status.inventory.iter_mut().flat_map(|found| &mut found.disks);
        for (one, why) in found.zip(disks.into_iter().flatten()) {
            one.installation_eligibility.judge(why);
        }
        labels::bound(one, namespace);
    });
    let Some(agent) = state.agents.get(at) else { return };
    let said: Vec<_> =
        conditions::of(agent).into_iter().chain(conditions::duplicate(agent)).collect();
    let duplicate = agent.is_duplicate();
    state.agents.update(at, |one| {
        if !duplicate {
            one.status.conditions.retain(|known| known.kind != conditions::DUPLICATE);
        }
        for new in said {
            set_unprobed(&mut one.status.conditions, new, tick.now);
        }
    });
}
