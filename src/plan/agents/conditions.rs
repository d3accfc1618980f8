//! What an Agent's conditions say: they follow from its state, and are right where upstream's are
//! not.

use crate::model::agent::inventory::Inventory;
use crate::model::agent::{Agent, HostState};
use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::rules::validations::{GATES_UNBOUND, holds_up, is_met};

/// Whether what is wished for could be done, and whether the machine is another Agent.
pub const SPEC_SYNCED: ConditionType = ConditionType::SpecSynced;
pub const DUPLICATE: ConditionType = ConditionType::Duplicate;

/// status, reason and message
type Said = (&'static str, ConditionReason, &'static str);

const READY: Said =
    ("True", ConditionReason::AgentIsReady, "The agent is ready to begin the installation");
const NOT_READY: Said =
    ("False", ConditionReason::AgentNotReady, "The agent is not ready to begin the installation");
const NOT_APPROVED: Said =
    ("False", ConditionReason::AgentIsNotApproved, "The agent is not approved");
const ALREADY: Said = (
    "True",
    ConditionReason::AgentAlreadyInstalling,
    "Installation already started and is in progress",
);
const STOPPED: Said =
    ("True", ConditionReason::AgentInstallationStopped, "The agent installation stopped");

const BOUND: Said = ("True", ConditionReason::Bound, "The agent is bound to a cluster deployment");
const UNBOUND: Said =
    ("False", ConditionReason::Unbound, "The agent is not bound to any cluster deployment");
const BINDING: Said =
    ("False", ConditionReason::Binding, "The agent is currently binding to a cluster deployment");
const UNBINDING: Said = (
    "False",
    ConditionReason::Unbinding,
    "The agent is currently unbinding from a cluster deployment",
);
const BY_HAND: Said = (
    "False",
    ConditionReason::UnbindingPendingUserAction,
    "The agent is currently unbinding; Pending host reboot from infraenv image",
);

const CONNECTED: Said = (
    "True",
    ConditionReason::AgentIsConnected,
    "The agent's connection to the installation service is unimpaired",
);
const DISCONNECTED: Said = (
    "False",
    ConditionReason::AgentIsDisconnected,
    "The agent has not contacted the installation service in some time, user action should be taken",
);

const PASSING: Said =
    ("True", ConditionReason::ValidationsPassing, "The agent's validations are passing");
const UNKNOWN: Said = (
    "Unknown",
    ConditionReason::ValidationsUnknown,
    "The agent's validations have not yet been calculated",
);

const NOT_STARTED: &str = "The installation has not yet started";

/// Connected, `RequirementsMet`, Validated, Installed and Bound.
pub fn of(agent: &Agent) -> [Condition; 5] {
    [
        condition(ConditionType::Connected, connected(agent.state())),
        requirements(agent),
        validated(agent),
        installed(agent),
        condition(ConditionType::Bound, bound(agent.state())),
    ]
}

/// Of an Agent whose machine is another one already.
pub fn duplicate(agent: &Agent) -> Option<Condition> {
    let other = &agent.status.duplicate_of;
    let message = format!("The machine is Agent {other} already; this one is never picked");
    let found = agent.is_duplicate();
    found.then(|| Condition::new(DUPLICATE, "True", ConditionReason::SameMachine, message))
}

fn condition(kind: ConditionType, (status, reason, message): Said) -> Condition {
    Condition::new(kind, status, reason, message)
}

fn connected(state: HostState) -> Said {
    match state {
        HostState::Disconnected | HostState::DisconnectedUnbound => DISCONNECTED,
        _ => CONNECTED,
    }
}

fn bound(state: HostState) -> Said {
    match state {
        HostState::Binding => BINDING,
        HostState::UnbindingPendingUserAction => BY_HAND,
        state if state.is_returning() => UNBINDING,
        state if state.is_free() => UNBOUND,
        _ => BOUND,
    }
}

/// On its way to a cluster, or back from one, nothing else can be said of it.
fn under_way(state: HostState) -> Option<Said> {
    match state {
        HostState::Binding => Some(BINDING),
        state if state.is_returning() => Some(UNBINDING),
        _ => None,
    }
}

fn requirements(agent: &Agent) -> Condition {
    let (kind, state) = (ConditionType::RequirementsMet, agent.state());
    if let Some(said) = under_way(state) {
        return condition(kind, said);
    }
    let said = match state {
        HostState::Known | HostState::KnownUnbound if agent.is_duplicate() => NOT_READY,
        HostState::Known | HostState::KnownUnbound if agent.spec.approved => READY,
        HostState::Known | HostState::KnownUnbound => NOT_APPROVED,
        state if is_beside(state) => return unrecognized(kind, state),
        state if has_stopped(state) => STOPPED,
        state if state.is_installing() => ALREADY,
        _ => NOT_READY,
    };
    condition(kind, said)
}

/// Neither before an installation nor after one: retired, or being undone.
fn is_beside(state: HostState) -> bool {
    matches!(
        state,
        HostState::DisabledUnbound | HostState::Resetting | HostState::ResettingPendingUserAction
    )
}

fn unrecognized(kind: ConditionType, state: HostState) -> Condition {
    let text = format!("The installation status is currently not recognized: {state}");
    Condition::new(kind, "Unknown", ConditionReason::UnknownStatus, text)
}

fn has_stopped(state: HostState) -> bool {
    state.is_over() || state == HostState::PreparingFailed
}

fn validated(agent: &Agent) -> Condition {
    let (kind, state) = (ConditionType::Validated, agent.state());
    if let Some(said) = under_way(state) {
        return condition(kind, said);
    }
    let failing = |reason: ConditionReason, how: &str| {
        let bad = agent.validations().filter(|one| !is_met(one));
        let bad: Vec<&str> = bad.map(|one| one.message.as_str()).collect();
        let message = format!("The agent's validations are {how}: {}", bad.join(","));
        Condition::new(kind, "False", reason, message)
    };
    match state {
        HostState::Insufficient | HostState::InsufficientUnbound => {
            failing(ConditionReason::ValidationsFailing, "failing")
        }
        HostState::PendingForInput => {
            failing(ConditionReason::ValidationsUserPending, "pending for user")
        }
        HostState::Known | HostState::KnownUnbound => condition(kind, PASSING),
        state if has_stopped(state) || state.is_installing() => condition(kind, PASSING),
        // The rest are states of nothing that was found: the last results count.
        _ if !is_checked(agent) => condition(kind, UNKNOWN),
        _ if is_failing(agent) => failing(ConditionReason::ValidationsFailing, "failing"),
        _ => condition(kind, PASSING),
    }
}

/// Whether there was anything to check.
fn is_checked(agent: &Agent) -> bool {
    let found = agent.status.inventory.as_ref().is_some_and(Inventory::is_valid);
    found && agent.validations().next().is_some()
}

/// Whether something besides silence keeps it from going on.
fn is_failing(agent: &Agent) -> bool {
    let free = agent.state().is_free();
    agent.validations().any(|one| match one.id.as_str() {
        "connected" | "media-connected" => false,
        id if free => GATES_UNBOUND.contains(&id) && !is_met(one),
        _ => holds_up(one),
    })
}

fn installed(agent: &Agent) -> Condition {
    let (kind, state) = (ConditionType::Installed, agent.state());
    if let Some(said) = under_way(state) {
        return condition(kind, said);
    }
    let said = |status: &str, reason: ConditionReason, message: &str| {
        let info = agent.status.debug_info.state_info.as_str();
        let message =
            if info.is_empty() { message.to_owned() } else { format!("{message}: {info}") };
        Condition::new(kind, status, reason, message)
    };
    match state {
        HostState::Installed | HostState::AddedToExistingCluster => {
            said("True", ConditionReason::InstallationCompleted, "The installation has completed")
        }
        HostState::Error | HostState::PreparingFailed => {
            said("False", ConditionReason::InstallationFailed, "The installation has failed")
        }
        HostState::Cancelled => {
            said("False", ConditionReason::InstallationFailed, "The installation was cancelled")
        }
        state if state.is_installing() => said(
            "False",
            ConditionReason::InstallationInProgress,
            "The installation is in progress",
        ),
        state if is_beside(state) => unrecognized(kind, state),
        _ => Condition::new(kind, "False", ConditionReason::InstallationNotStarted, NOT_STARTED),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::agent::Validation;

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
        for state in HostState::ALL {
            let [connected, requirements, validated, installed, bound] = of(&agent(state));
            let all = [bound.reason, requirements.reason, validated.reason, installed.reason];
            let row = format!("{state} {} {}", all.join(" "), connected.status);
            assert_eq!(rows.next(), Some(row.as_str()));
        }
        assert_eq!(rows.next(), None);
    }

    #[test]
    fn what_is_known_of_an_agent_is_said() {
        let mut one = agent(HostState::Known);
        one.spec.approved = false;
        assert_eq!(of(&one)[1].reason, "AgentIsNotApproved");
        assert_eq!(duplicate(&one), None);
        one.status.duplicate_of = "other".into();
        assert_eq!(of(&one)[1].reason, "AgentNotReady");
        let message = "The machine is Agent other already; this one is never picked";
        assert_eq!(duplicate(&one).unwrap().message, message);
        let mut one = agent(HostState::Cancelled);
        one.status.debug_info.state_info = "by ada".into();
        assert_eq!(of(&one)[3].message, "The installation was cancelled: by ada");
    }

    #[test]
    fn the_last_results_count_while_a_host_is_silent() {
        let result = |id: &str, status: &str, message: &str| Validation {
            id: id.into(),
            status: status.into(),
            message: message.into(),
        };
        let mut one = agent(HostState::DisconnectedUnbound);
        one.status.inventory = Some(Inventory::default());
        let mut all =
            vec![result("connected", "failure", "a"), result("ntp-synced", "failure", "b")];
        one.status.validations_info = BTreeMap::from([("network".into(), all.clone())]);
        assert_eq!(of(&one)[2].reason, "ValidationsPassing");
        all.push(result("has-min-memory", "failure", "c"));
        all.push(result("media-connected", "disabled", "d"));
        one.status.validations_info = BTreeMap::from([("network".into(), all)]);
        assert_eq!(of(&one)[2].message, "The agent's validations are failing: a,b,c");
    }
}
