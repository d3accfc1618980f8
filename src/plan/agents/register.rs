//! What a host says: that it is there, what is in it, that it still is. Only recorded; the next
//! pass looks at it.

use serde_json::{Value, json};

use crate::model::agent::report::Report;
use crate::model::agent::{Agent, ClusterReference, DAY1, HostState, INFRA_ENV, OWNER};
use crate::model::cluster::Cluster;
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::{Key, Meta};
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;

use super::clusters::{ONLY_OPEN_CLUSTERS, Stage, stage};
use super::stages::{self, REBOOTING};
use super::{AWAITS_INVENTORY, about, enter, owned_by};

/// The most hosts of an environment that nobody has approved.
const UNAPPROVED: usize = 1000;
/// How often a host is to check in, in seconds.
const AFTER: u64 = 60;
const AFTER_LONGER: u64 = 120;

/// A host says that it was booted. Where it is then, or why that is not taken.
pub fn register(state: &mut State, at: AgentId, tick: &Tick) -> Result<(), String> {
    let Some(agent) = state.agents.get(at).cloned() else { return Ok(()) };
    let (next, info) = after_boot(&agent)?;
    state.agents.update(at, |one| {
        one.status.registered_at = Some(tick.now);
        one.status.last_contact_time = Some(tick.now);
        one.status.media_disconnected = false;
        one.status.found = false;
        if matches!(next, HostState::DiscoveringUnbound | HostState::Discovering) {
            forget(one);
        }
    });
    if next == HostState::Discovering && agent.bound_to().is_some() {
        let day2 = agent.bound_to().and_then(|key| state.clusters.get(state.cluster(&key.name)?));
        let day2 = day2.is_some_and(Cluster::installed);
        state.agents.update(at, |agent| agent.prepare_to_join(day2));
    }
    enter(state, at, next, &info, tick);
    if let Some(agent) = state.agents.get(at) {
        let text = format!("Host {}: Successfully registered", agent.hostname());
        let event =
            about(agent, EventReason::HostRegistrationSucceeded, false, text, &tick.actor, tick);
        state.event(event);
    }
    Ok(())
}

/// What was found before the boot may be otherwise after it.
fn forget(one: &mut Agent) {
    let status = &mut one.status;
    (status.inventory, status.progress, status.bootstrap) = Default::default();
    status.images.clear();
    status.ntp_sources.clear();
    status.peers.clear();
    status.clock_offset_seconds = None;
}

/// Where a host is that was in a state and was booted.
fn after_boot(agent: &Agent) -> Result<(HostState, String), String> {
    use HostState as S;
    let now = agent.state();
    let reached = agent.status.progress.current_stage.as_str();
    // Whoever joined has rebooted when it is done.
    let joined = now == S::AddedToExistingCluster && reached == "Done";
    let rebooting = reached == REBOOTING || joined;
    let disk = || {
        let found = agent.status.inventory.as_ref();
        let id = &agent.status.installation_disk_id;
        let disk = found
            .and_then(|one| one.disks.iter().find(|disk| disk.id == *id).or(one.disks.first()));
        disk.map(|one| format!("{} {} ({}, {})", one.model, one.serial, one.name, one.id))
            .unwrap_or_default()
    };
    let stays = |next: S| Ok((next, agent.status.debug_info.state_info.clone()));
    match now {
        S::Reclaiming => Err(format!(
            "Host is in {now} state, it registers again once it is rebooted from the discovery image"
        )),
        S::PreparingForInstallation | S::PreparingSuccessful => {
            Ok((S::Known, "Host is ready to be installed".into()))
        }
        S::Resetting if rebooting => stays(now),
        S::InstallingPendingUserAction if rebooting => {
            Err(format!("Host is required to be booted from disk {}", disk()))
        }
        S::InstallingInProgress | S::AddedToExistingCluster if rebooting => Ok((
            S::InstallingPendingUserAction,
            format!(
                "Expected the host to boot from disk, but it booted the installation image - \
                 please reboot and fix boot order to boot from disk {}",
                disk()
            ),
        )),
        S::Installing | S::InstallingInProgress => {
            Ok((S::Error, "The host unexpectedly restarted during the installation".into()))
        }
        S::Error | S::Cancelled | S::PreparingFailed => stays(now),
        S::Installed | S::AddedToExistingCluster => Err(
            "Host is trying to register after the cluster has already been installed. That most \
             probably means that the host is booting from the installation ISO, and therefore not \
             effectively joining the cluster. The request will be ignored. Fix the boot order and \
             reboot the host."
                .into(),
        ),
        S::Disabled | S::DisabledUnbound => {
            let why = &agent.status.debug_info.state_info;
            Err(format!("Host is in {now} state: {why}"))
        }
        _ if agent.bound_to().is_some() => Ok((S::Discovering, AWAITS_INVENTORY.into())),
        _ => Ok((S::DiscoveringUnbound, AWAITS_INVENTORY.into())),
    }
}

/// A host that its environment did not know, or why that takes none: it may have so many already that
/// nobody has approved. Who makes it gives it its id.
pub fn new(
    state: &State,
    environment: &InfraEnv,
    id: &str,
    unapproved: usize,
) -> Result<Agent, String> {
    if unapproved >= UNAPPROVED {
        let name = &environment.metadata.name;
        return Err(format!(
            "InfraEnv {name} has {UNAPPROVED} hosts that nobody has approved, and takes no more"
        ));
    }
    takes_new(state, environment)?;
    let meta = &environment.metadata;
    let mut labels = environment.spec.agent_labels.clone();
    labels.insert(INFRA_ENV.into(), meta.name.clone());
    // The same machine of another environment may have its name already.
    let taken = state.agents.find(&Key::new(&*meta.namespace, id)).is_some();
    let name = if taken { format!("{}-{id}", meta.name) } else { id.to_owned() };
    let owner = meta.annotation(OWNER).map(|owner| (OWNER.to_owned(), owner.to_owned()));
    let metadata = Meta {
        name,
        namespace: meta.namespace.clone(),
        labels,
        annotations: owner.into_iter().collect(),
        owner_references: vec![owned_by(environment)],
        ..Meta::default()
    };
    let mut agent = Agent { metadata, ..Agent::default() };
    agent.status.kind = DAY1.into();
    id.clone_into(&mut agent.status.host_id);
    early(state, &mut agent, environment);
    Ok(agent)
}

fn takes_new(state: &State, environment: &InfraEnv) -> Result<(), String> {
    if environment.spec.image_type == "disconnected-iso" {
        return Err("Cannot register a host to an InfraEnv with disconnected-iso type".into());
    }
    let Some(cluster) = environment.cluster() else { return Ok(()) };
    let found = super::clusters::at(state, &cluster);
    match found.map(|one| stage(state, one)) {
        None | Some(Stage::Open) => Ok(()),
        Some(Stage::Installed) => {
            Err("Cannot add hosts to an existing cluster using the original Discovery ISO.".into())
        }
        Some(_) => Err(ONLY_OPEN_CLUSTERS.into()),
    }
}

/// A host of an environment with a cluster belongs to that at once.
fn early(state: &State, agent: &mut Agent, environment: &InfraEnv) {
    let Some(cluster) = environment.cluster() else { return };
    agent.spec.cluster_deployment_name = Some(ClusterReference::to(&cluster));
    let id = &agent.status.host_id;
    let bound = |other: &Agent| other.status.host_id == *id && other.bound_to().is_some();
    if super::clusters::at(state, &cluster).is_none() || state.agents.rows().any(bound) {
        return;
    }
    agent.bind(&cluster);
    agent.status.debug_info.state = HostState::Discovering;
}

/// Takes what a host found in itself.
pub fn report(state: &mut State, at: AgentId, report: Report, tick: &Tick) -> Result<(), String> {
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    let now = agent.state();
    let takes = now.is_free() || now.is_checked() || now == HostState::InstallingInProgress;
    if report.inventory.is_some() && !takes {
        return Err(format!(
            "Host is in {now} state, host can be updated only in one of [discovering known \
             disconnected insufficient pending-for-input discovering-unbound known-unbound \
             disconnected-unbound insufficient-unbound installing-in-progress] states"
        ));
    }
    if let Some(found) = report.inventory.as_ref().filter(|_| agent.bound_to().is_some()) {
        let macs: Vec<String> = found.macs().map(str::to_lowercase).collect();
        let has = |other: &Agent| other.identities().any(|one| macs.contains(&one));
        let bound = |other: &&Agent| other.bound_to().is_some() && other.key() != agent.key();
        if let Some(other) = state.agents.rows().filter(bound).find(|other| has(other)) {
            return Err(format!(
                "Host {} says that it has an address of host {}, which is bound",
                agent.hostname(),
                other.hostname()
            ));
        }
    }
    let media = report.media_disconnected;
    let lost = media == Some(true) && !agent.status.media_disconnected;
    let name = agent.hostname().to_owned();
    state.agents.update(at, |one| {
        let status = &mut one.status;
        status.last_contact_time = Some(tick.now);
        status.media_disconnected = media.unwrap_or(false);
        if let Some(mut found) = report.inventory {
            found.report_time = Some(tick.now);
            status.found = false;
            let id = one.status.host_id.clone();
            one.found(found, &id);
        }
        let status = &mut one.status;
        if let Some(sources) = report.ntp_sources {
            status.ntp_sources = sources;
        }
        if let Some(images) = report.images {
            status.images = images;
        }
        if let Some(peers) = report.peers {
            status.peers = peers;
        }
        if let Some(theirs) = report.timestamp {
            status.clock_offset_seconds = Some(theirs.saturating_sub(tick.now.0 / 1_000_000));
        }
    });
    if let Some(stage) = &report.stage {
        stages::said(state, at, stage, tick);
    }
    if let Some(agent) = state.agents.get(at).filter(|_| lost) {
        let text = format!("Host {name}: Unable to read from the discovery media");
        let event = about(agent, EventReason::HostMediaDisconnected, true, text, &tick.actor, tick);
        state.event(event);
    }
    Ok(())
}

/// What a host is to do that has just said that it is there.
pub fn after_check_in(state: &State, agent: &Agent) -> Value {
    let now = agent.state();
    let next = match now {
        HostState::Binding | HostState::Unbinding => "register",
        HostState::UnbindingPendingUserAction
        | HostState::Reclaiming
        | HostState::ReclaimingRebooting => "reboot",
        _ => "none",
    };
    let idle = matches!(now, HostState::DisconnectedUnbound | HostState::Disconnected);
    let after = if idle { AFTER_LONGER } else { AFTER };
    let others = state.agents.rows().filter(|other| {
        other.key() != agent.key()
            && other.bound_to().is_some()
            && other.bound_to() == agent.bound_to()
    });
    let addresses = |one: &Agent| {
        let found = one.status.inventory.iter().flat_map(|found| &found.interfaces);
        let all = found.flat_map(|one| one.ipv4_addresses.iter().chain(&one.ipv6_addresses));
        let bare = all.filter_map(|text| text.split('/').next().map(str::to_owned));
        bare.collect::<Vec<_>>()
    };
    let peers: Vec<Value> = others
        .map(|one| json!({"agent": one.metadata.name, "addresses": addresses(one)}))
        .collect();
    json!({"next": next, "after": after, "peers": peers})
}
