//! The conditions of an Agent. They follow from its state, with assisted-service's words, also for
//! the states for which assisted-service writes wrong conditions. They never change a state.

use crate::model::agent::{Agent, HostState};
use crate::model::condition::{Condition, ConditionReason, ConditionText, ConditionType};
use crate::rules::validations::{GATES_UNBOUND, blocks_installation, is_met};

/// Whether what the spec wishes for was done.
pub const SPEC_SYNCED: ConditionType = ConditionType::SpecSynced;
/// Whether the machine is another Agent already.
pub const DUPLICATE: ConditionType = ConditionType::Duplicate;

const READY: ConditionText = ConditionText::new(
    "True",
    ConditionReason::AgentIsReady,
    "The agent is ready to begin the installation",
);
const NOT_READY: ConditionText = ConditionText::new(
    "False",
    ConditionReason::AgentNotReady,
    "The agent is not ready to begin the installation",
);
const NOT_APPROVED: ConditionText =
    ConditionText::new("False", ConditionReason::AgentIsNotApproved, "The agent is not approved");
const ALREADY: ConditionText = ConditionText::new(
    "True",
    ConditionReason::AgentAlreadyInstalling,
    "Installation already started and is in progress",
);
const STOPPED: ConditionText = ConditionText::new(
    "True",
    ConditionReason::AgentInstallationStopped,
    "The agent installation stopped",
);

const BOUND: ConditionText = ConditionText::new(
    "True",
    ConditionReason::Bound,
    "The agent is bound to a cluster deployment",
);
const UNBOUND: ConditionText = ConditionText::new(
    "False",
    ConditionReason::Unbound,
    "The agent is not bound to any cluster deployment",
);
const BINDING: ConditionText = ConditionText::new(
    "False",
    ConditionReason::Binding,
    "The agent is currently binding to a cluster deployment",
);
const UNBINDING: ConditionText = ConditionText::new(
    "False",
    ConditionReason::Unbinding,
    "The agent is currently unbinding from a cluster deployment",
);
const BY_HAND: ConditionText = ConditionText::new(
    "False",
    ConditionReason::UnbindingPendingUserAction,
    "The agent is currently unbinding; Pending host reboot from infraenv image",
);

const CONNECTED: ConditionText = ConditionText::new(
    "True",
    ConditionReason::AgentIsConnected,
    "The agent's connection to the installation service is unimpaired",
);
const DISCONNECTED: ConditionText = ConditionText::new(
    "False",
    ConditionReason::AgentIsDisconnected,
    "The agent has not contacted the installation service in some time, user action should be taken",
);

const PASSING: ConditionText = ConditionText::new(
    "True",
    ConditionReason::ValidationsPassing,
    "The agent's validations are passing",
);
const UNKNOWN: ConditionText = ConditionText::new(
    "Unknown",
    ConditionReason::ValidationsUnknown,
    "The agent's validations have not yet been calculated",
);

const NOT_STARTED: ConditionText = ConditionText::new(
    "False",
    ConditionReason::InstallationNotStarted,
    "The installation has not yet started",
);
const COMPLETED: ConditionText = ConditionText::new(
    "True",
    ConditionReason::InstallationCompleted,
    "The installation has completed",
);
const FAILED: ConditionText =
    ConditionText::new("False", ConditionReason::InstallationFailed, "The installation has failed");
const CANCELLED: ConditionText = ConditionText::new(
    "False",
    ConditionReason::InstallationFailed,
    "The installation was cancelled",
);
const IN_PROGRESS: ConditionText = ConditionText::new(
    "False",
    ConditionReason::InstallationInProgress,
    "The installation is in progress",
);

/// Connected, `RequirementsMet`, Validated, Installed and Bound, in this order.
pub fn agent_conditions(agent: &Agent) -> [Condition; 5] {
    [
        describe_connection(agent.state()).to_condition(ConditionType::Connected),
        requirements_met(agent),
        validated(agent),
        installed(agent),
        describe_binding(agent.state()).to_condition(ConditionType::Bound),
    ]
}

/// Duplicate, which only an Agent has whose machine is another Agent already.
pub fn duplicate_condition(agent: &Agent) -> Option<Condition> {
    if !agent.is_duplicate() {
        return None;
    }
    let original = &agent.status.duplicate_of;
    let message = format!("The machine is that of Agent {original}, so this Agent is never picked");
    Some(Condition::new(DUPLICATE, "True", ConditionReason::SameMachine, message))
}

/// Whether the spec of an Agent is followed, as far as that has been tried.
pub fn is_spec_synced(agent: &Agent) -> bool {
    agent.condition(SPEC_SYNCED).is_none_or(|condition| condition.status != "False")
}

fn describe_connection(state: HostState) -> ConditionText {
    match state {
        HostState::Disconnected | HostState::DisconnectedUnbound => DISCONNECTED,
        _ => CONNECTED,
    }
}

/// What Bound says in each state. A host that must be booted by hand says so; other hosts on their
/// way back are just unbinding.
fn describe_binding(state: HostState) -> ConditionText {
    match state {
        HostState::Binding => BINDING,
        HostState::UnbindingPendingUserAction => BY_HAND,
        state if state.is_returning() => UNBINDING,
        state if state.is_free() => UNBOUND,
        _ => BOUND,
    }
}

/// What `RequirementsMet`, Validated and Installed all say of a host on its way to a cluster or
/// back.
fn describe_transit(state: HostState) -> Option<ConditionText> {
    match state {
        HostState::Binding => Some(BINDING),
        state if state.is_returning() => Some(UNBINDING),
        _ => None,
    }
}

/// Whether the host may be installed: its checks pass, it is approved, and it is no duplicate. Once
/// its installation has begun the question is settled.
fn requirements_met(agent: &Agent) -> Condition {
    let kind = ConditionType::RequirementsMet;
    let state = agent.state();
    if let Some(transit) = describe_transit(state) {
        return transit.to_condition(kind);
    }
    let condition_text = match state {
        HostState::Known | HostState::KnownUnbound if agent.is_duplicate() => NOT_READY,
        HostState::Known | HostState::KnownUnbound if agent.spec.approved => READY,
        HostState::Known | HostState::KnownUnbound => NOT_APPROVED,
        state if is_retired_or_reset(state) => return unknown_status(kind, state),
        state if has_stopped(state) => STOPPED,
        state if state.is_installing() => ALREADY,
        _ => NOT_READY,
    };
    condition_text.to_condition(kind)
}

/// Neither before an installation nor after one: retired, or being reset.
fn is_retired_or_reset(state: HostState) -> bool {
    matches!(
        state,
        HostState::DisabledUnbound | HostState::Resetting | HostState::ResettingPendingUserAction
    )
}

fn unknown_status(kind: ConditionType, state: HostState) -> Condition {
    let message = format!("The installation status is currently not recognized: {state}");
    Condition::new(kind, "Unknown", ConditionReason::UnknownStatus, message)
}

/// Whether the installation of a host is over, well or badly.
fn has_stopped(state: HostState) -> bool {
    state.has_ended_installation() || state == HostState::PreparingFailed
}

/// Whether the checks of the host pass. The states that follow from checks say it themselves; for
/// the others the last results count.
fn validated(agent: &Agent) -> Condition {
    let kind = ConditionType::Validated;
    let state = agent.state();
    if let Some(transit) = describe_transit(state) {
        return transit.to_condition(kind);
    }
    match state {
        HostState::Insufficient | HostState::InsufficientUnbound => validations_failing(agent),
        HostState::PendingForInput => {
            let messages = join_unmet_validations(agent);
            let message = format!("The agent's validations are pending for user: {messages}");
            Condition::new(kind, "False", ConditionReason::ValidationsUserPending, message)
        }
        HostState::Known | HostState::KnownUnbound => PASSING.to_condition(kind),
        state if has_stopped(state) || state.is_installing() => PASSING.to_condition(kind),
        // The other states do not follow from checks, so the last results of those count.
        _ if !is_checked(agent) => UNKNOWN.to_condition(kind),
        _ if is_failing(agent) => validations_failing(agent),
        _ => PASSING.to_condition(kind),
    }
}

fn validations_failing(agent: &Agent) -> Condition {
    let messages = join_unmet_validations(agent);
    let message = format!("The agent's validations are failing: {messages}");
    let reason = ConditionReason::ValidationsFailing;
    Condition::new(ConditionType::Validated, "False", reason, message)
}

fn join_unmet_validations(agent: &Agent) -> String {
    let unmet = agent.validations().filter(|validation| !is_met(validation));
    let messages: Vec<&str> = unmet.map(|validation| validation.message.as_str()).collect();
    messages.join(",")
}

/// Whether a host has been checked, which needs a usable inventory.
fn is_checked(agent: &Agent) -> bool {
    let has_inventory = agent.usable_inventory().is_some();
    has_inventory && agent.validations().next().is_some()
}

/// Whether a host fails a check that counts, besides those that follow from its silence.
fn is_failing(agent: &Agent) -> bool {
    let is_free = agent.state().is_free();
    agent.validations().any(|validation| match validation.id.as_str() {
        "connected" | "media-connected" => false,
        id if is_free => GATES_UNBOUND.contains(&id) && !is_met(validation),
        _ => blocks_installation(validation),
    })
}

/// How far the installation of the host is. The message ends with the info of its state, which says
/// what is going on or what went wrong.
fn installed(agent: &Agent) -> Condition {
    let kind = ConditionType::Installed;
    let state = agent.state();
    if let Some(transit) = describe_transit(state) {
        return transit.to_condition(kind);
    }
    let condition_text = match state {
        HostState::Installed | HostState::AddedToExistingCluster => COMPLETED,
        HostState::Error | HostState::PreparingFailed => FAILED,
        HostState::Cancelled => CANCELLED,
        state if state.is_installing() => IN_PROGRESS,
        state if is_retired_or_reset(state) => return unknown_status(kind, state),
        _ => return NOT_STARTED.to_condition(kind),
    };
    let info = &agent.status.debug_info.state_info;
    if info.is_empty() {
        return condition_text.to_condition(kind);
    }
    let message = format!("{}: {info}", condition_text.message);
    Condition::new(kind, condition_text.status, condition_text.reason, message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::agent::Validation;
    use crate::model::agent::inventory::Inventory;

    /// State, then Bound, `RequirementsMet`, Validated, Installed and Connected.
    const TABLE: &str = "
        discovering-unbound Unbound AgentNotReady ValidationsUnknown InstallationNotStarted True
        insufficient-unbound Unbound AgentNotReady ValidationsFailing InstallationNotStarted True
        known-unbound Unbound AgentIsReady ValidationsPassing InstallationNotStarted True
        disconnected-unbound Unbound AgentNotReady ValidationsUnknown InstallationNotStarted False
        disabled-unbound Unbound UnknownStatus ValidationsUnknown UnknownStatus True
        binding Binding Binding Binding Binding True
        unbinding Unbinding Unbinding Unbinding Unbinding True
        unbinding-pending-user-action UnbindingPendingUserAction Unbinding Unbinding Unbinding True
        reclaiming Unbinding Unbinding Unbinding Unbinding True
        reclaiming-rebooting Unbinding Unbinding Unbinding Unbinding True
        discovering Bound AgentNotReady ValidationsUnknown InstallationNotStarted True
        known Bound AgentIsReady ValidationsPassing InstallationNotStarted True
        insufficient Bound AgentNotReady ValidationsFailing InstallationNotStarted True
        pending-for-input Bound AgentNotReady ValidationsUserPending InstallationNotStarted True
        disconnected Bound AgentNotReady ValidationsUnknown InstallationNotStarted False
        disabled Bound AgentNotReady ValidationsUnknown InstallationNotStarted True
        preparing-for-installation Bound AgentAlreadyInstalling ValidationsPassing InstallationInProgress True
        preparing-failed Bound AgentInstallationStopped ValidationsPassing InstallationFailed True
        preparing-successful Bound AgentAlreadyInstalling ValidationsPassing InstallationInProgress True
        installing Bound AgentAlreadyInstalling ValidationsPassing InstallationInProgress True
        installing-in-progress Bound AgentAlreadyInstalling ValidationsPassing InstallationInProgress True
        installing-pending-user-action Bound AgentAlreadyInstalling ValidationsPassing InstallationInProgress True
        resetting Bound UnknownStatus ValidationsUnknown UnknownStatus True
        resetting-pending-user-action Bound UnknownStatus ValidationsUnknown UnknownStatus True
        installed Bound AgentInstallationStopped ValidationsPassing InstallationCompleted True
        added-to-existing-cluster Bound AgentInstallationStopped ValidationsPassing InstallationCompleted True
        error Bound AgentInstallationStopped ValidationsPassing InstallationFailed True
        cancelled Bound AgentInstallationStopped ValidationsPassing InstallationFailed True";

    fn agent(state: HostState) -> Agent {
        let mut agent = Agent::default();
        agent.spec.approved = true;
        agent.status.debug_info.state = state;
        agent
    }

    #[test]
    fn every_state_has_its_conditions() {
        let mut rows = TABLE.lines().map(str::trim).filter(|row| !row.is_empty());
        for &state in HostState::ALL {
            let [connected, requirements, validated, installed, bound] =
                agent_conditions(&agent(state));
            let reasons = [bound.reason, requirements.reason, validated.reason, installed.reason];
            let row = format!("{state} {} {}", reasons.join(" "), connected.status);
            assert_eq!(rows.next(), Some(row.as_str()));
        }
        assert_eq!(rows.next(), None);
    }

    #[test]
    fn approval_duplicates_and_the_state_info_are_told() {
        let mut known_agent = agent(HostState::Known);
        known_agent.spec.approved = false;
        assert_eq!(agent_conditions(&known_agent)[1].reason, "AgentIsNotApproved");
        assert_eq!(duplicate_condition(&known_agent), None);
        known_agent.status.duplicate_of = "other".into();
        assert_eq!(agent_conditions(&known_agent)[1].reason, "AgentNotReady");
        let message = "The machine is that of Agent other, so this Agent is never picked";
        assert_eq!(duplicate_condition(&known_agent).unwrap().message, message);
        let mut cancelled = agent(HostState::Cancelled);
        cancelled.status.debug_info.state_info = "by ada".into();
        let message = "The installation was cancelled: by ada";
        assert_eq!(agent_conditions(&cancelled)[3].message, message);
    }

    fn validation(id: &str, status: &str, message: &str) -> Validation {
        Validation { id: id.into(), status: status.into(), message: message.into() }
    }

    #[test]
    fn the_last_results_count_while_a_host_is_silent() {
        let mut silent = agent(HostState::DisconnectedUnbound);
        silent.set_inventory(Inventory::default());
        let mut validations =
            vec![validation("connected", "failure", "a"), validation("ntp-synced", "failure", "b")];
        silent.set_validations(BTreeMap::from([("network".into(), validations.clone())]));
        assert_eq!(agent_conditions(&silent)[2].reason, "ValidationsPassing");
        validations.push(validation("has-min-memory", "failure", "c"));
        validations.push(validation("media-connected", "disabled", "d"));
        silent.set_validations(BTreeMap::from([("network".into(), validations)]));
        let message = "The agent's validations are failing: a,b,c";
        assert_eq!(agent_conditions(&silent)[2].message, message);
    }
}
