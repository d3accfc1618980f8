//! The ways back of hosts that have left a cluster: by themselves, by their controllers, or by
//! somebody who boots them. Each says what comes next.

use crate::model::agent::{Agent, HostState};
use crate::model::driver::EXEC;
use crate::model::event_reason::EventReason;
use crate::model::host::wipe::WIPE;
use crate::model::host::{BOOT, BareMetalHost, HOLD, Image, REBOOT};
use crate::model::infra_env::InfraEnv;
use crate::model::job::Verb;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::plan::clusters_hosts::cluster_that_may_run;
use crate::plan::{leases, wiping};

use super::{AWAITS_INVENTORY, enter, note};

const UNBINDING: &str = "Host is waiting to be unbound from the cluster";
const REBOOTING: &str = "Host is rebooting into the discovery image";
/// Until a host that is on its way back counts as lost.
const RECLAIMED: Span = Span::minutes(60);

/// On its way back: at once, when it registers again, or when it is booted.
pub fn back(state: &mut State, at: AgentId, agent: &Agent, used: bool, tick: &Tick) {
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key));
    let image = agent.infra_env().and_then(|key| state.infra_envs.by_key(&key)).map(url_of);
    let image = image.filter(|url| !url.is_empty() && !agent.status.found);
    let image = image.filter(|_| used && host.is_some_and(can_boot));
    let_go(state, agent, image.as_deref(), tick);
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key));
    let brings = image.is_some();
    if agent.status.found {
        enter(state, at, HostState::DiscoveringUnbound, AWAITS_INVENTORY, tick);
    } else if brings {
        let info = host.map(on_its_way).unwrap_or_default();
        enter(state, at, HostState::Reclaiming, &info, tick);
    } else if used {
        let info = by_hand(state, agent, "");
        enter(state, at, HostState::UnbindingPendingUserAction, &info, tick);
    } else {
        enter(state, at, HostState::Unbinding, UNBINDING, tick);
    }
}

/// The machine of a host is nobody's any more; what was on it is wiped and is not met again.
pub fn let_go(state: &mut State, agent: &Agent, image: Option<&str>, tick: &Tick) {
    let Some(host) = agent.bmh().and_then(|key| state.hosts.find(&key)) else { return };
    let used = was_used(state, agent) || agent.state() == HostState::DisabledUnbound;
    if used {
        wiping::due(state, host, agent.infra_env().as_ref(), tick);
    }
    leases::return_host(state, host);
    if used {
        state.hosts.update(host, |host| leaves(host, image, tick));
    }
}

/// Whether a cluster may run on a host, or may have left something on its disks. The state of the
/// Agent is not enough: an installation that failed or was cancelled before the host reported any
/// progress leaves the Agent as it was, and the machine switched on.
pub fn was_used(state: &State, agent: &Agent) -> bool {
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key));
    let switched_on = host.is_some_and(|host| host.status.switched_on_for.is_some());
    agent.state().is_used() || switched_on
}

/// What its controller is to do with a host that was a node.
fn leaves(host: &mut BareMetalHost, image: Option<&str>, tick: &Tick) {
    // It boots from the discovery image again, and registers.
    if let Some(url) = image {
        host.spec.image = Some(Image::live(url));
        host.spec.online = true;
        if !host.is_to_be_wiped() {
            // Also one that is attached already.
            host.status.provisioning.image = None;
        }
        return;
    }
    // Its disk has what it was; nobody is to meet that again.
    host.spec.image = None;
    host.spec.online = false;
    host.metadata.annotations.remove(REBOOT);
    host.metadata.annotations.remove(BOOT);
    // That it was off some time ago does not mean that it is off now.
    if host.power() == Some(false) && host.status.last_updated != Some(tick.now) {
        host.forget_power();
    }
}

fn url_of(environment: &InfraEnv) -> String {
    environment.status.iso_download_url.clone()
}

/// Whether its controller boots it from an image.
fn can_boot(host: &BareMetalHost) -> bool {
    host.boots_images() && !host.is_left_alone() && !host.spec.disable_power_off
}

fn on_its_way(host: &BareMetalHost) -> String {
    let image = host.spec.image.as_ref().map(|one| one.url.as_str()).unwrap_or_default();
    let wiped = if host.is_to_be_wiped() { ", once its disks are wiped" } else { "" };
    format!("Host is on its way back: its controller boots it from {image}{wiped}")
}

/// What somebody has to do for a host that nobody else brings back.
pub fn by_hand(state: &State, agent: &Agent, since: &str) -> String {
    let key = agent.infra_env();
    let environment = key.as_ref().and_then(|key| state.infra_envs.by_key(key));
    let name = key.as_ref().map(|key| key.name.as_str()).unwrap_or_default();
    let url = environment.map(url_of).filter(|url| !url.is_empty());
    let image = url.unwrap_or_else(|| format!("poolctl infraenv iso {name}"));
    let wiper = environment.and_then(|one| one.metadata.annotation(WIPE));
    let wipe = match wiper.filter(|one| one.starts_with(EXEC) && agent.bmh().is_none()) {
        Some(wiper) => format!("; wipe its disks first, {wiper} does it for BareMetalHosts alone"),
        None => String::new(),
    };
    format!(
        "{UNBINDING}{since}: boot it from the discovery image of InfraEnv {name} ({image}){wipe}"
    )
}

/// Its controller brings it back; whoever has not registered again in time is somebody's to boot.
pub fn reclaim(state: &mut State, at: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let now = agent.state();
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key));
    // That takes as long as it takes.
    if let Some(host) = host.filter(|one| one.is_to_be_wiped()) {
        let info = on_its_way(host);
        return enter(state, at, now, &info, tick);
    }
    let wiped = host.and_then(|one| one.status.wipe.as_ref()).map(|one| one.since);
    let since = agent.status.state_since.max(wiped);
    if !tick.jumped && since.is_some_and(|since| tick.now.since(since) > RECLAIMED) {
        let (name, limit) = (agent.hostname(), RECLAIMED.short());
        let text = format!("Host {name}: did not register again within {limit}");
        note(state, at, EventReason::HostReclaimFailed, true, text, tick);
        state.agents.update(at, Agent::forget_cluster);
        return lost(state, at, "", tick);
    }
    let Some(host) = host.filter(|_| now == HostState::Reclaiming) else { return };
    if is_booted(state, host) {
        enter(state, at, HostState::ReclaimingRebooting, REBOOTING, tick);
    } else {
        let info = on_its_way(host);
        enter(state, at, now, &info, tick);
    }
}

/// Whether it boots from its image, or has.
fn is_booted(state: &State, host: &BareMetalHost) -> bool {
    let live = state.live_job(&host.key().to_string());
    let url = |image: &Image| image.url.clone();
    let wanted = host.spec.image.as_ref().map(url);
    let is_attached =
        wanted.is_some() && wanted == host.status.provisioning.image.as_ref().map(url);
    is_attached || live.is_some_and(|(_, job)| job.verb == Verb::Attach)
}

/// It waits for somebody to boot it; after an hour that is said again.
pub fn pending(state: &mut State, at: AgentId, tick: &Tick) {
    if tick.jumped {
        return;
    }
    let Some(agent) = state.agents.get(at) else { return };
    if !agent.is_late(RECLAIMED, tick) {
        return lost(state, at, "", tick);
    }
    let since = format!(", for more than {}", RECLAIMED.short());
    let info = by_hand(state, agent, &since);
    let text = format!("Host {}: {info}", agent.hostname());
    let is_noted = agent.status.overdue_noted_at >= agent.status.state_since;
    lost(state, at, &since, tick);
    if !is_noted {
        state.agents.update(at, |agent| agent.status.overdue_noted_at = Some(tick.now));
        note(state, at, EventReason::HostUnbindOverdue, true, text, tick);
    }
}

/// Somebody has to boot it.
pub fn lost(state: &mut State, at: AgentId, since: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let info = by_hand(state, agent, since);
    enter(state, at, HostState::UnbindingPendingUserAction, &info, tick);
}

/// Its cluster is left running: nobody gets the host before somebody says that it has had its day.
pub fn retire(state: &mut State, at: AgentId, cluster: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let text = format!("Host {}: retired, it goes on in cluster {cluster}", agent.hostname());
    let info = format!(
        "Host is retired: it goes on in cluster {cluster}, which was left running; when it is used \
         no more: poolctl delete agent {}",
        agent.metadata.name
    );
    note(state, at, EventReason::HostRetired, false, text, tick);
    leases::retire_agent(state, at);
    enter(state, at, HostState::DisabledUnbound, &info, tick);
}

/// What is said of a machine that may still run as a node.
pub fn not_seen_off(cluster: &str) -> String {
    format!("its controller has not reported it off since it left cluster {cluster}")
}

/// Why a host that is free is in no pick, and what lets it be.
pub fn held(state: &State, agent: &Agent) -> Option<String> {
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key))?;
    let Some(why) = host.held() else {
        let cluster = cluster_that_may_run(state, agent)?;
        return Some(format!("Host is held: {}", not_seen_off(cluster)));
    };
    let name = &host.metadata.name;
    let by_hand = host.metadata.annotated_at_all(HOLD);
    let next = if by_hand { format!("; poolctl host unhold {name}") } else { String::new() };
    Some(format!("Host is held: {why}{next}"))
}
