//! How far the installation of a host is, as the host reports it, and when a stage takes too long.
//! It never ends an installation.

use crate::model::agent::HostState;
use crate::model::agent::needs::Topology;
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::{enter_state, record_agent_event};

/// The stage in which a host leaves its image for its disk.
pub const REBOOTING: &str = "Rebooting";
/// The stages that a host may report, in assisted-service's words.
pub const STAGES: [&str; 15] = [
    "Preparing installation",
    "Starting installation",
    "Installing",
    "Writing image to disk",
    "Copying registry data to disk",
    "Waiting for control plane",
    "Waiting for bootkube",
    "Waiting for controller",
    REBOOTING,
    "Waiting for ignition",
    "Configuring",
    "Joined",
    "Done",
    "Failed",
    "Verifying installation",
];

/// How long a stage of an installation may take.
fn stage_limit(stage: &str, topology: Topology) -> Span {
    match stage {
        "Starting installation" | "Writing image to disk" => Span::minutes(30),
        "Copying registry data to disk" => Span::minutes(90),
        REBOOTING if topology == Topology::SingleNode => Span::minutes(80),
        REBOOTING => Span::minutes(40),
        "Waiting for ignition" => Span::hours(24),
        _ => Span::minutes(60),
    }
}

/// How long a stage may take, whatever the size of its cluster.
pub fn stage_limits(stage: &str) -> impl Iterator<Item = Span> + use<'_> {
    let topologies = [Topology::SingleNode, Topology::MultiNode];
    topologies.into_iter().map(move |topology| stage_limit(stage, topology))
}

/// Records the installation stage that a host reports.
pub fn record_stage(state: &mut State, agent_id: AgentId, stage: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let has_changed = agent.status.progress.current_stage != stage;
    let message = format!("Host {}: reached installation stage {stage}", agent.hostname());
    state.agents.update(agent_id, |agent| {
        let progress = &mut agent.status.progress;
        if has_changed {
            progress.stage_start_time = Some(tick.now);
            progress.progress_info.clear();
            progress.stage_timed_out = false;
        }
        stage.clone_into(&mut progress.current_stage);
        progress.stage_update_time = Some(tick.now);
    });
    if has_changed {
        let reason = EventReason::HostInstallProgressUpdated;
        record_agent_event(state, agent_id, reason, EventType::Normal, message, tick);
    }
}

/// Records once that a stage takes too long. A host that does not come up from its disk has to be
/// booted by a person; for the others the installation of their cluster has a limit of its own.
pub fn check_stage_limit(state: &mut State, agent_id: AgentId, topology: Topology, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let progress = &agent.status.progress;
    let stage = progress.current_stage.clone();
    let limit = stage_limit(&stage, topology);
    let is_over = progress.stage_start_time.is_some_and(|start| tick.now.since(start) > limit);
    if tick.clock_jumped || !is_over || stage == "Done" || progress.stage_timed_out {
        return;
    }
    let progress_info = format!("timed out after {}", limit.to_short_text());
    let hostname = agent.hostname();
    let message = format!("Host {hostname}: installation stage {stage} {progress_info}");
    state.agents.update(agent_id, |agent| {
        agent.status.progress.progress_info = progress_info;
        agent.status.progress.stage_timed_out = true;
    });
    record_agent_event(
        state,
        agent_id,
        EventReason::HostStageTimedOut,
        EventType::Warning,
        message,
        tick,
    );
    if stage == REBOOTING {
        let info = format!(
            "Host has not come up from its disk within {}: boot it from its installation disk",
            limit.to_short_text()
        );
        enter_state(state, agent_id, HostState::InstallingPendingUserAction, &info, tick);
    }
}
