//! The checks of a host, and which of them it does not meet. It writes down results and never moves
//! a host to another state.

use std::collections::BTreeMap;

use crate::model::agent::needs::HostNeeds;
use crate::model::agent::{Agent, HostState, Role, Validation};
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::rules::validations::{
    ClusterContext, GATES_UNBOUND, blocks_installation, is_met, validate_agent,
};

use super::clusters::{agents_of_cluster, needs_of_cluster};
use super::{PASS_ACTOR, agent_event};

/// The checks of what is in a host, whatever it is for.
const HARDWARE: [&str; 5] = [
    "has-min-cpu-cores",
    "has-min-memory",
    "has-min-valid-disks",
    "has-cpu-cores-for-role",
    "has-memory-for-role",
];
/// The checks of whether all that was found in a host was reported.
const TRUNCATION: [&str; 2] =
    ["inventory-not-fully-truncated", "inventory-not-partially-truncated"];
/// The check of whether its cluster says enough.
const INPUT: [&str; 1] = ["machine-cidr-defined"];

/// Whether the results of a free host's checks are those of now, and with them the verdicts on its
/// disks: a plan has settled the Agent, and the host is not silent. Only whether it is silent follows from
/// the time.
pub fn are_results_current(state: &State, agent_id: AgentId, tick: &Tick) -> bool {
    let Some(agent) = state.agents.get(agent_id) else { return false };
    // A host that was found by its controller keeps its state while it is silent: the state does not tell
    // whether it was checked as a silent one.
    let was_checked_as_reporting =
        matches!(agent.state(), HostState::KnownUnbound | HostState::InsufficientUnbound)
            && !agent.status.found_by_controller;
    was_checked_as_reporting && !agent.is_silent(tick.now) && state.agents.is_settled(agent_id)
}

/// Checks a host as it is now. A check that was met and is not any more is an event, and so is the
/// reverse.
pub fn check_agent(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    // The results of a host that is being installed, or was, stay as they are.
    if agent.state().has_ended_installation() || agent.state().is_installing() {
        return;
    }
    if are_results_current(state, agent_id, tick) {
        return;
    }
    let results = run_checks(state, agent_id, agent, tick.now);
    if *agent.status.validations_info.get() == results {
        return;
    }
    let hostname = agent.hostname();
    let mut events = Vec::new();
    for result in results.values().flatten() {
        let Some(previous) = agent.validations().find(|previous| previous.id == result.id) else {
            continue;
        };
        match (previous.status.as_str(), result.status.as_str()) {
            ("success", "failure") => {
                let reason = EventReason::HostValidationFailed;
                let message =
                    format!("Host {hostname}: validation '{}' {}", result.id, result.message);
                let warning = EventType::Warning;
                events.push(agent_event(agent, reason, warning, message, PASS_ACTOR, tick));
            }
            ("failure", "success") => {
                let reason = EventReason::HostValidationFixed;
                let message = format!("Host {hostname}: validation '{}' is now fixed", result.id);
                let normal = EventType::Normal;
                events.push(agent_event(agent, reason, normal, message, PASS_ACTOR, tick));
            }
            _ => {}
        }
    }
    state.agents.update(agent_id, |agent| agent.set_validations(results));
    for event in events {
        state.record_event(event);
    }
}

/// Validates a host as it would be validated in its cluster, with the role that it has or is meant
/// to have there. A free host is validated as a worker of no cluster.
fn run_checks(
    state: &State,
    agent_id: AgentId,
    agent: &Agent,
    now: Time,
) -> BTreeMap<String, Vec<Validation>> {
    let cluster =
        agent.bound_cluster().and_then(|key| state.clusters.get(state.find_cluster(&key.name)?));
    let Some(cluster) = cluster else { return validate_agent(agent, Role::Worker, None, now) };
    let needs = needs_of_cluster(state, cluster);
    let other_agents: Vec<&Agent> = agents_of_cluster(state, cluster)
        .into_iter()
        .filter(|other_id| *other_id != agent_id)
        .filter_map(|other_id| state.agents.get(other_id))
        .collect();
    let role = role_to_check(agent, &needs);
    validate_agent(
        agent,
        role,
        Some(&ClusterContext { needs: &needs, other_agents: &other_agents }),
        now,
    )
}

/// The role that a host has to be good enough for. A host whose role is not decided yet is checked
/// as a worker.
fn role_to_check(agent: &Agent, needs: &HostNeeds) -> Role {
    match agent.role() {
        _ if needs.is_single_node() => Role::Master,
        Role::AutoAssign => Role::Worker,
        role => role,
    }
}

/// What keeps a free host from being bound; empty for nothing.
pub fn unmet_gates(agent: &Agent) -> String {
    join_unmet(agent, &GATES_UNBOUND)
}

/// What a host has too little of for its cluster; empty for nothing.
pub fn unmet_hardware(agent: &Agent) -> String {
    join_unmet(agent, &HARDWARE)
}

/// What was left out of the report of a host; empty for nothing.
pub fn unmet_truncation(agent: &Agent) -> String {
    join_unmet(agent, &TRUNCATION)
}

/// What the cluster of a host does not say; empty for nothing.
pub fn unmet_input(agent: &Agent) -> String {
    join_unmet(agent, &INPUT)
}

/// All that keeps a bound host from being installed; empty for nothing.
pub fn unmet_before_installation(agent: &Agent) -> String {
    join_messages(agent.validations().filter(|result| blocks_installation(result)))
}

fn join_unmet(agent: &Agent, ids: &[&str]) -> String {
    let results = agent.validations();
    join_messages(results.filter(|result| ids.contains(&result.id.as_str()) && !is_met(result)))
}

/// Sorted, as assisted-service joins them.
fn join_messages<'a>(results: impl Iterator<Item = &'a Validation>) -> String {
    let mut messages: Vec<&str> = results.map(|result| result.message.as_str()).collect();
    messages.sort_unstable();
    messages.join(" ; ")
}
