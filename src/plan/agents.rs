//! Plans Agents: the state of each host, which cluster it belongs to, and how it gets there and
//! back. "Host" here means the machine of an Agent; the management controller of that machine is
//! described by a `BareMetalHost`. This module never touches a machine: it records what the
//! controller is to do. The states are those of assisted-service; where it has no deadline, poolctl
//! has its own.

mod binding;
mod booting;
mod checks;
pub mod clusters;
pub mod conditions;
mod controller_inventory;
mod deadlines;
mod document;
mod duplicates;
mod hints;
mod infra_envs;
pub mod joining;
mod labels;
mod leaving;
mod machines;
pub mod pick;
mod refresh;
mod register;
mod returning;
pub mod roles;
mod spread;
pub mod stages;

pub use binding::{bind_refusal, why_kept_back};
pub use booting::update_booting_agents;
pub use clusters::find_shortage;
pub use deadlines::due_instants;
pub use document::{agent_config_document, nodes_config_document};
pub use leaving::{release_agents_of_cluster, unbind_refusal};
pub use machines::why_approved;
pub use register::{
    MAX_UNAPPROVED, accept_report, check_in_answer, new_agent, refuse_crowd, register_agent,
};
pub use returning::retire_agent;

use crate::model::agent::{Agent, HostState};
use crate::model::condition::{Condition, is_set_without_probe, set_condition_without_probe};
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::meta::OwnerReference;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;

use super::PASS_ACTOR;

/// The state info of a host that has reported nothing yet.
const WAITING_FOR_INVENTORY: &str = "Waiting for host to send hardware details";
/// The state info of a bound host that passes its checks.
const READY_TO_INSTALL: &str = "Host is ready to be installed";
/// The state info of a host that is being installed.
const INSTALLATION_IN_PROGRESS: &str = "Installation is in progress";
/// The longest state info, in bytes.
const MAX_STATE_INFO: usize = 2040;

/// Brings all Agents up to date: what is known of their machines, then their states and clusters,
/// then their roles and conditions, which follow from the new states.
pub fn advance_agents(state: &mut State, tick: &Tick) {
    infra_envs::update_infra_envs(state, tick);
    let agent_ids: Vec<AgentId> = state.agents.iter().map(|(agent_id, _)| agent_id).collect();
    let hosts_by_mac = machines::index_hosts(state);
    let classifications = labels::read_classifications(state);
    for agent_id in &agent_ids {
        machines::recognize_machine(state, *agent_id, &hosts_by_mac, &classifications, tick);
    }
    duplicates::mark_duplicates(state, tick);
    let changes_before = state.changes_made();
    for agent_id in &agent_ids {
        refresh::advance_state(state, *agent_id, tick);
        binding::sync_spec(state, *agent_id, tick);
    }
    clusters::assign_roles(state, tick);
    // `advance_state` has checked each host. Its role, or another host of its cluster, may have changed
    // since.
    let must_check_again = state.changes_made() != changes_before;
    for agent_id in agent_ids {
        if must_check_again {
            checks::check_agent(state, agent_id, tick);
        }
        refresh::update_disks(state, agent_id, tick);
        refresh::update_conditions(state, agent_id, tick);
    }
}

/// Writes a condition of a host. It is compared before: an update copies the whole Agent.
fn set_agent_condition(state: &mut State, agent_id: AgentId, condition: Condition, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    if !is_set_without_probe(agent.conditions(), &condition) {
        let mut conditions = agent.conditions().to_vec();
        set_condition_without_probe(&mut conditions, condition, tick.now);
        state.agents.update(agent_id, |agent| agent.set_conditions(conditions));
    }
}

/// Moves a host to a state, or changes the state info of the one that it is in. Only a new state is
/// recorded in an event; it is a warning if the host needs a person now.
fn enter_state(state: &mut State, agent_id: AgentId, next: HostState, info: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let previous = agent.state();
    let mut info = info.to_owned();
    if info.len() > MAX_STATE_INFO {
        // A text cannot be cut within a character.
        let mut ends = (0..=MAX_STATE_INFO).rev();
        let end = ends.find(|end| info.is_char_boundary(*end)).unwrap_or_default();
        info.truncate(end);
    }
    if previous == next && agent.status.debug_info.state_info == info {
        return;
    }
    let message =
        format!("Host {}: updated status from {previous} to {next} ({info})", agent.hostname());
    state.agents.update(agent_id, |agent| {
        agent.status.debug_info.state = next;
        agent.status.debug_info.state_info = info;
        if previous != next {
            agent.status.state_since = Some(tick.now);
        }
    });
    if previous != next {
        let is_warning = matches!(
            next,
            HostState::Disconnected
                | HostState::InstallingPendingUserAction
                | HostState::Insufficient
                | HostState::Error
        );
        record_agent_event(
            state,
            agent_id,
            EventReason::HostStatusUpdated,
            EventType::warning_if(is_warning),
            message,
            tick,
        );
    }
}

/// Records what happened to a host. The event is shown for its Agent, its InfraEnv and its cluster.
fn record_agent_event(
    state: &mut State,
    agent_id: AgentId,
    reason: EventReason,
    event_type: EventType,
    message: String,
    tick: &Tick,
) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let event = agent_event(agent, reason, event_type, message, PASS_ACTOR, tick);
    state.record_event(event);
}

/// Makes an event of an Agent, which is shown for the InfraEnv and the bound cluster, too. `actor`
/// is the account or the program that acted. The caller records the event.
pub fn agent_event(
    agent: &Agent,
    reason: EventReason,
    event_type: EventType,
    message: String,
    actor: &str,
    tick: &Tick,
) -> Event {
    Event {
        time: tick.now,
        event_type,
        reason: reason.into(),
        kind: Kind::Agent.name(),
        object: agent.key(),
        actor: actor.into(),
        message,
        infra_env: agent.infra_env_key(),
        cluster: agent.bound_cluster(),
        pool: None,
    }
}

/// The owner reference of an Agent to its InfraEnv.
fn owner_reference(infra_env: &InfraEnv) -> OwnerReference {
    OwnerReference {
        api_version: Kind::InfraEnv.api_version().into(),
        kind: Kind::InfraEnv.name().into(),
        name: infra_env.metadata.name.clone(),
        uid: infra_env.metadata.uid.clone(),
        ..OwnerReference::default()
    }
}
