//! The power states of a cluster, and the conditions that Hive shows for each. It starts and stops
//! nothing.

use super::condition::{Condition, ConditionReason, ConditionType};
use super::deployment::PowerState;
use super::facts::{WireFact, named};
use super::time::{Span, Time};

named! {
    /// A power state. A user may ask for Unset, Running or Hibernating; a cluster may be in any.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Power {
        #[default]
        Unset = "Unset",
        Running = "Running",
        Hibernating = "Hibernating",
        /// Machines are told to start.
        Starting = "Starting",
        /// Machines are told to stop.
        Stopping = "Stopping",
        FailedToStart = "FailedToStart",
        WaitingForMachines = "WaitingForMachines",
        WaitingForNodes = "WaitingForNodes",
        /// Operators get time to notice that they run again.
        Pausing = "Pausing",
        WaitingForOperators = "WaitingForOperators",
        FailedToStop = "FailedToStop",
        WaitingForStop = "WaitingForStop",
        /// The cluster runs, and its driver cannot stop it.
        Unsupported = "Unsupported",
        /// The annotation powerstate-pause is set, so the power is neither read nor changed.
        Paused = "Paused",
    }
}

/// How long operators are not asked after the nodes are ready.
pub const SETTLE_TIME: Span = Span::minutes(2);

impl Power {
    /// Whether the driver has done its part, and the cluster's health says when it is over.
    pub fn is_waiting(self) -> bool {
        matches!(
            self,
            Self::WaitingForMachines
                | Self::WaitingForNodes
                | Self::Pausing
                | Self::WaitingForOperators
                | Self::WaitingForStop
        )
    }

    /// Whether the driver could not start or stop the machines.
    pub fn has_failed(self) -> bool {
        matches!(self, Self::FailedToStart | Self::FailedToStop)
    }

    /// The state as `status.powerState` has it.
    pub fn to_wire(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Running | Self::Unsupported => "Running",
            Self::Hibernating => "Hibernating",
            Self::Starting => "StartingMachines",
            Self::Stopping => "Stopping",
            Self::FailedToStart => "FailedToStartMachines",
            Self::WaitingForMachines => "WaitingForMachines",
            Self::WaitingForNodes => "WaitingForNodes",
            Self::Pausing => "PausingForClusterOperatorsToSettle",
            Self::WaitingForOperators => "WaitingForClusterOperators",
            Self::FailedToStop => "FailedToStop",
            Self::WaitingForStop => "WaitingForMachinesToStop",
            Self::Paused => "Unknown",
        }
    }

    /// The state that `status.powerState` and the reason of the condition Hibernating stand for.
    pub fn from_wire(power_state: &str, reason: Option<&str>) -> Self {
        if power_state == "Running" && reason == Some(ConditionReason::Unsupported.as_str()) {
            return Self::Unsupported;
        }
        Self::ALL.iter().copied().find(|power| power.to_wire() == power_state).unwrap_or_default()
    }

    /// Whether the cluster runs. Of a cluster that its driver cannot stop this is assumed.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Running | Self::Unsupported)
    }

    /// Whether the driver has not done its part yet to start the machines.
    pub fn is_being_started(self) -> bool {
        matches!(self, Self::Starting | Self::FailedToStart)
    }

    /// Whether the cluster is on its way from hibernating to running.
    pub fn is_waking(self) -> bool {
        matches!(
            self,
            Self::Starting
                | Self::FailedToStart
                | Self::WaitingForMachines
                | Self::WaitingForNodes
                | Self::Pausing
                | Self::WaitingForOperators
        )
    }

    /// Whether the cluster is on its way from running to hibernating.
    pub fn is_stopping(self) -> bool {
        matches!(self, Self::Stopping | Self::FailedToStop | Self::WaitingForStop)
    }

    /// What the cluster does, in a few words for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Unset => "installed",
            Self::Running | Self::Unsupported => "running",
            Self::Hibernating => "hibernating",
            Self::Paused => "left as it is (powerstate-pause)",
            power if power.is_stopping() => "stopping",
            _ => "waking",
        }
    }

    /// The conditions Hibernating and Ready, without times. `detail` names the machines that are
    /// waited for, or says what failed.
    pub fn conditions(self, detail: Option<&str>) -> [Condition; 2] {
        use ConditionReason as Reason;

        let detail = detail.unwrap_or_default();
        match self {
            Self::Running | Self::Unset => [awake(), running("All machines are started")],
            Self::Unsupported => [
                Condition::new(
                    ConditionType::Hibernating,
                    "False",
                    Reason::Unsupported,
                    "Unsupported platform: its driver cannot stop machines",
                ),
                running("No power state support: cluster assumed to be running"),
            ],
            Self::Hibernating => [
                Condition::new(
                    ConditionType::Hibernating,
                    "True",
                    Reason::Hibernating,
                    "Cluster is stopped",
                ),
                asleep(),
            ],
            Self::Stopping => going_to_sleep(Reason::Stopping, "Stopping cluster machines"),
            Self::FailedToStop => {
                going_to_sleep(Reason::FailedToStop, format!("Failed to stop machines: {detail}"))
            }
            Self::WaitingForStop => going_to_sleep(
                Reason::WaitingForMachinesToStop,
                format!("Stopping cluster machines. Some machines have not yet stopped: {detail}"),
            ),
            Self::Starting => {
                waking_up(Reason::StartingMachines, "Starting cluster machines (step 1/4)")
            }
            Self::FailedToStart => waking_up(
                Reason::FailedToStartMachines,
                format!("Failed to start machines: {detail}"),
            ),
            Self::WaitingForMachines => waking_up(
                Reason::WaitingForMachines,
                format!(
                    "Waiting for cluster machines to start. Some machines are not yet running: \
                     {detail} (step 1/4)"
                ),
            ),
            Self::WaitingForNodes => {
                waking_up(Reason::WaitingForNodes, "Waiting for Nodes to be ready (step 2/4)")
            }
            Self::Pausing => waking_up(
                Reason::PausingForClusterOperatorsToSettle,
                format!("Pausing {SETTLE_TIME} for ClusterOperators to settle (step 3/4)"),
            ),
            Self::WaitingForOperators => waking_up(
                Reason::WaitingForClusterOperators,
                "Waiting for ClusterOperators to be ready (step 4/4)",
            ),
            Self::Paused => {
                unknown_power(Reason::PowerStatePaused, "the powerstate-pause annotation is set")
            }
        }
    }
}

/// Hibernating of a cluster that runs or wakes.
fn awake() -> Condition {
    let reason = ConditionReason::ResumingOrRunning;
    Condition::new(ConditionType::Hibernating, "False", reason, "Resuming or running")
}

/// Ready of a cluster that runs.
fn running(message: &str) -> Condition {
    Condition::new(ConditionType::Ready, "True", ConditionReason::Running, message)
}

/// Hibernating and Ready of a cluster that wakes.
fn waking_up(reason: ConditionReason, message: impl Into<String>) -> [Condition; 2] {
    [awake(), Condition::new(ConditionType::Ready, "False", reason, message)]
}

/// Ready of a cluster that hibernates or goes to sleep.
fn asleep() -> Condition {
    let reason = ConditionReason::StoppingOrHibernating;
    Condition::new(ConditionType::Ready, "False", reason, "Stopping or hibernating")
}

/// Hibernating and Ready of a cluster that goes to sleep.
fn going_to_sleep(reason: ConditionReason, message: impl Into<String>) -> [Condition; 2] {
    [Condition::new(ConditionType::Hibernating, "False", reason, message), asleep()]
}

/// Hibernating and Ready of a cluster that is being deleted.
pub fn conditions_of_deleted_cluster(since: Time) -> [Condition; 2] {
    let message = "ClusterDeployment is being deleted";
    unknown_power(ConditionReason::ClusterDeploymentDeleted, message)
        .map(|condition| condition.with_times(since))
}

/// Hibernating and Ready of a cluster that is not installed yet.
pub fn conditions_before_installation(since: Time) -> [Condition; 2] {
    unknown_power(ConditionReason::Initialized, "Condition Initialized")
        .map(|condition| condition.with_times(since))
}

fn unknown_power(reason: ConditionReason, message: &str) -> [Condition; 2] {
    [ConditionType::Hibernating, ConditionType::Ready]
        .map(|kind| Condition::new(kind, "Unknown", reason, message))
}

/// The power that a user asks for. Of the other powers nobody can ask.
impl WireFact<PowerState> for Power {
    fn take_from(field: &mut PowerState) -> Self {
        match std::mem::take(field) {
            PowerState::Unset => Self::Unset,
            PowerState::Running => Self::Running,
            PowerState::Hibernating => Self::Hibernating,
        }
    }

    fn write_to(&self, field: &mut PowerState) {
        *field = match self {
            Self::Running => PowerState::Running,
            Self::Hibernating => PowerState::Hibernating,
            _ => PowerState::Unset,
        };
    }
}
