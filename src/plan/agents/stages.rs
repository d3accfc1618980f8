//! How far the installation of a host is, as it says itself, and when that takes too long.

use crate::model::agent::HostState;
use crate::model::event_reason::EventReason;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::{enter, note};

/// The stage in which a host leaves its image for its disk.
pub const REBOOTING: &str = "Rebooting";
/// The stages that there are.
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

/// Until a stage counts as taking too long.
fn limit(reached: &str, sno: bool) -> Span {
    match reached {
        "Starting installation" | "Writing image to disk" => Span::minutes(30),
        "Copying registry data to disk" => Span::minutes(90),
        REBOOTING if sno => Span::minutes(80),
        REBOOTING => Span::minutes(40),
        "Waiting for ignition" => Span::hours(24),
        _ => Span::minutes(60),
    }
}

/// A host says where it is.
pub fn said(state: &mut State, at: AgentId, reached: &str, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let news = agent.status.progress.current_stage != reached;
    let text = format!("Host {}: reached installation stage {reached}", agent.hostname());
    state.agents.update(at, |one| {
        let progress = &mut one.status.progress;
        if news {
            progress.stage_start_time = Some(tick.now);
            progress.progress_info.clear();
            progress.stage_timed_out = false;
        }
        reached.clone_into(&mut progress.current_stage);
        progress.stage_update_time = Some(tick.now);
    });
    if news {
        note(state, at, EventReason::HostInstallProgressUpdated, false, text, tick);
    }
}

/// Says once of a stage that it takes too long. Whoever does not come up from its disk is somebody's
/// to boot; for the others their cluster's installation has a limit of its own.
pub fn late(state: &mut State, at: AgentId, sno: bool, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    let (progress, name) = (&agent.status.progress, agent.hostname());
    let reached = progress.current_stage.clone();
    let limit = limit(&reached, sno);
    let over = progress.stage_start_time.is_some_and(|since| tick.now.since(since) > limit);
    if tick.jumped || !over || reached == "Done" || progress.stage_timed_out {
        return;
    }
    let info = format!("timed out after {}", limit.short());
    let text = format!("Host {name}: installation stage {reached} {info}");
    state.agents.update(at, |agent| {
        agent.status.progress.progress_info.clone_from(&info);
        agent.status.progress.stage_timed_out = true;
    });
    note(state, at, EventReason::HostStageTimedOut, true, text, tick);
    if reached == REBOOTING {
        let info = format!(
            "Host has not come up from its disk within {}: boot it from its installation disk",
            limit.short()
        );
        enter(state, at, HostState::InstallingPendingUserAction, &info, tick);
    }
}
