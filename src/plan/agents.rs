//! Agents: how each host is, which cluster it belongs to, and how it gets there and back. The
//! states are assisted-service's; the deadlines are ours where it has none.

mod binding;
mod booting;
mod checks;
pub mod clusters;
pub mod conditions;
mod document;
mod duplicates;
mod hints;
pub mod joining;
pub mod labels;
mod leaving;
mod machines;
pub mod pick;
mod refresh;
mod register;
mod returning;
pub mod roles;
pub mod stages;

pub use binding::{bind_refusal, kept};
pub use booting::boots;
pub use clusters::lacks;
pub use document::{document, nodes_document};
pub use leaving::{release_agents_of_cluster, unbind_refusal};
pub use machines::approved_by;
pub use register::{after_check_in, new, register, report};
pub use returning::retire;

use crate::model::agent::{Agent, HostState};
use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::meta::OwnerReference;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;

use super::{AGENT, PASS};

/// What is said of a host that has reported nothing yet.
const AWAITS_INVENTORY: &str = "Waiting for host to send hardware details";
/// The longest that is said about a state.
const LONGEST: usize = 2040;

/// Every host as it is now; then what is wished for; then how it is after that.
pub fn advance(state: &mut State, tick: &Tick) {
    machines::infra_envs(state, tick);
    let all: Vec<AgentId> = state.agents.iter().map(|(at, _)| at).collect();
    for at in &all {
        machines::recognize(state, *at, tick);
    }
    let same = |state: &State, at: AgentId| {
        state.agents.get(at).map(|one| one.status.duplicate_of.clone()).unwrap_or_default()
    };
    let before: Vec<String> = all.iter().map(|at| same(state, *at)).collect();
    duplicates::find(state, tick);
    for (at, before) in all.iter().zip(&before) {
        tell_duplicate(state, *at, before, tick);
    }
    for at in &all {
        refresh::advance(state, *at, tick);
        binding::follow(state, *at, tick);
    }
    clusters::roles(state, tick);
    for at in all {
        refresh::judge(state, at, tick);
    }
}

/// Moves a host to a state, or says something else about the one that it is in.
fn enter(state: &mut State, at: AgentId, next: HostState, info: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let before = agent.state();
    let mut info = info.to_owned();
    if info.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| info.is_char_boundary(*end)).unwrap_or_default();
        info.truncate(end);
    }
    if before == next && agent.status.debug_info.state_info == info {
        return;
    }
    let text =
        format!("Host {}: updated status from {before} to {next} ({info})", agent.hostname());
    state.agents.update(at, |one| {
        one.status.debug_info.state = next;
        one.status.debug_info.state_info = info;
        if before != next {
            one.status.state_since = Some(tick.now);
        }
    });
    if before != next {
        let bad = matches!(
            next,
            HostState::Disconnected
                | HostState::InstallingPendingUserAction
                | HostState::Insufficient
                | HostState::Error
        );
        note(state, at, EventReason::HostStatusUpdated, bad, text, tick);
    }
}

/// Writes down what happened to a host, for those who look at its environment and its cluster.
fn note(
    state: &mut State,
    at: AgentId,
    reason: EventReason,
    warning: bool,
    message: String,
    tick: &Tick,
) {
    let Some(agent) = state.agents.get(at) else { return };
    let event = about(agent, reason, warning, message, PASS, tick);
    state.event(event);
}

/// Says that a host is another Agent's machine, or is not any more.
fn tell_duplicate(state: &mut State, at: AgentId, before: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let (name, other) = (agent.hostname(), agent.status.duplicate_of.as_str());
    let (reason, text) = match other {
        same if same == before => return,
        "" => (
            EventReason::HostDuplicateFixed,
            format!("Host {name}: is not the same machine as Agent {before} any more"),
        ),
        other => (
            EventReason::HostDuplicateFound,
            format!("Host {name}: is the same machine as Agent {other}, and is never picked"),
        ),
    };
    let found = !other.is_empty();
    note(state, at, reason, found, text, tick);
}

/// What happened to a host.
pub fn about(
    agent: &Agent,
    reason: EventReason,
    warning: bool,
    message: String,
    actor: &str,
    tick: &Tick,
) -> Event {
    Event {
        time: tick.now,
        warning,
        reason: reason.into(),
        kind: AGENT,
        object: agent.key(),
        actor: actor.into(),
        message,
        infra_env: agent.infra_env(),
        cluster: agent.bound_to(),
    }
}

/// The environment that an Agent goes with.
fn owned_by(environment: &InfraEnv) -> OwnerReference {
    OwnerReference {
        api_version: Kind::InfraEnv.api_version().into(),
        kind: Kind::InfraEnv.name().into(),
        name: environment.metadata.name.clone(),
        uid: environment.metadata.uid.clone(),
        ..OwnerReference::default()
    }
}
