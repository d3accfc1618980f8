//! Hosts without a controller that are installed with their cluster, or join it: somebody boots them
//! from its image.

use crate::model::agent::{Agent, HostState};
use crate::model::job::Job;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;

use super::enter;
use super::stages::REBOOTING;

const GOES_ON: &str = "Installation is in progress";

/// The image for the hosts of a job's cluster is there; none: they have been booted from it.
pub fn boots(state: &mut State, job: &Job, image: Option<&str>, tick: &Tick) {
    // Whoever has said how far it is was booted.
    let its = |one: &Agent| {
        one.bound_to().is_some_and(|key| key.name == job.object)
            && one.status.progress.current_stage.is_empty()
    };
    let all: Vec<(AgentId, HostState, bool)> = state
        .agents
        .iter()
        .filter(|(_, one)| its(one))
        .map(|(at, one)| (at, one.state(), is_driven(one, job)))
        .collect();
    for (at, now, driven) in all {
        match (now, image) {
            (HostState::PreparingForInstallation, Some(_)) if driven => {
                enter(state, at, HostState::Installing, GOES_ON, tick);
            }
            (
                HostState::PreparingForInstallation
                | HostState::Installing
                | HostState::InstallingInProgress
                | HostState::InstallingPendingUserAction,
                Some(image),
            ) if !driven => {
                let info = format!("Host is to be booted from the image of its cluster: {image}");
                enter(state, at, HostState::InstallingPendingUserAction, &info, tick);
            }
            (
                HostState::PreparingForInstallation | HostState::InstallingPendingUserAction,
                None,
            ) => {
                enter(state, at, HostState::InstallingInProgress, GOES_ON, tick);
            }
            _ => {}
        }
    }
}

/// Whether the job boots it by its controller.
fn is_driven(agent: &Agent, job: &Job) -> bool {
    agent.bmh().is_some_and(|key| job.hosts.contains(&key.to_string()))
}

/// Whether somebody has booted a host for which that was waited.
pub fn goes_on(agent: &Agent) -> bool {
    let progress = &agent.status.progress;
    // One that booted its image again and not its disk has said Rebooting before.
    let news = progress.stage_update_time > agent.status.state_since;
    let told = !progress.current_stage.is_empty();
    agent.state() == HostState::InstallingPendingUserAction
        && told
        && (news || progress.current_stage != REBOOTING)
}
