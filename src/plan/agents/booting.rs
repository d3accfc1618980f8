//! Hosts without a controller that are installed with their cluster, or join it: they wait until
//! somebody boots them from its image. It decides nothing about hosts that the job itself boots.

use crate::model::agent::{Agent, HostState};
use crate::model::job::Job;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;

use super::stages::REBOOTING;
use super::{INSTALLATION_IN_PROGRESS, enter_state};

/// Updates the hosts of a job that has reported the image from which they are to be booted, or none
/// once they have been booted.
pub fn update_booting_agents(state: &mut State, job: &Job, image: Option<&str>, tick: &Tick) {
    for BootingAgent { agent_id, host_state, is_driven } in find_agents_to_boot(state, job) {
        match (host_state, image) {
            (HostState::PreparingForInstallation, Some(_)) if is_driven => {
                enter_state(state, agent_id, HostState::Installing, INSTALLATION_IN_PROGRESS, tick);
            }
            (
                HostState::PreparingForInstallation
                | HostState::Installing
                | HostState::InstallingInProgress
                | HostState::InstallingPendingUserAction,
                Some(image),
            ) if !is_driven => {
                let info = format!("Host must be booted from the image of its cluster: {image}");
                let next = HostState::InstallingPendingUserAction;
                enter_state(state, agent_id, next, &info, tick);
            }
            (
                HostState::PreparingForInstallation | HostState::InstallingPendingUserAction,
                None,
            ) => {
                enter_state(
                    state,
                    agent_id,
                    HostState::InstallingInProgress,
                    INSTALLATION_IN_PROGRESS,
                    tick,
                );
            }
            _ => {}
        }
    }
}

/// A host of a job's cluster that has not reported a stage yet.
struct BootingAgent {
    agent_id: AgentId,
    host_state: HostState,
    /// Whether the job boots it by its controller, and not a person.
    is_driven: bool,
}

/// The hosts of a job's cluster that have not reported a stage yet. One that has was booted before.
fn find_agents_to_boot(state: &State, job: &Job) -> Vec<BootingAgent> {
    let mut hosts = Vec::new();
    for (agent_id, agent) in state.agents.iter() {
        let is_of_cluster = agent.bound_cluster().is_some_and(|cluster| cluster.name == job.object);
        if is_of_cluster && agent.status.progress.current_stage.is_empty() {
            let is_driven = is_driven(agent, job);
            hosts.push(BootingAgent { agent_id, host_state: agent.state(), is_driven });
        }
    }
    hosts
}

/// Whether the job boots a host by its controller.
fn is_driven(agent: &Agent, job: &Job) -> bool {
    agent.host_key().is_some_and(|host_key| job.hosts.contains(&host_key.to_string()))
}

/// Whether a host that waited for somebody to boot it has been booted, as its report shows.
pub fn was_booted_by_hand(agent: &Agent) -> bool {
    let progress = &agent.status.progress;
    if agent.state() != HostState::InstallingPendingUserAction || progress.current_stage.is_empty()
    {
        return false;
    }
    // A host that booted its image again instead of its disk has said Rebooting before it waited.
    let has_reported_since = progress.stage_update_time > agent.status.state_since;
    has_reported_since || progress.current_stage != REBOOTING
}
