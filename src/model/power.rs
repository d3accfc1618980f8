//! Power of a cluster: its states, and the conditions Hive shows for each.

use super::condition::{Condition, ConditionReason, ConditionType};
use super::deployment::PowerState;
use super::facts::named;
use super::time::{Span, Time};

named! {
    /// Wanted: Unset, Running or Hibernating. Found: any of them.
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
        /// Operators get time to notice that they were away.
        Pausing = "Pausing",
        WaitingForOperators = "WaitingForOperators",
        FailedToStop = "FailedToStop",
        WaitingForStop = "WaitingForStop",
        /// Runs, and its driver cannot stop it.
        Unsupported = "Unsupported",
        /// The annotation powerstate-pause is set: nobody looks.
        Paused = "Paused",
    }
}

/// How long operators are left alone after the nodes are ready.
pub const SETTLE: Span = Span::minutes(2);

impl Power {
    /// The driver has done its part; health says when it is over.
    pub fn waits(self) -> bool {
        matches!(
            self,
            Self::WaitingForMachines
                | Self::WaitingForNodes
                | Self::Pausing
                | Self::WaitingForOperators
                | Self::WaitingForStop
        )
    }

    /// The driver could not start or stop the machines.
    pub fn failed(self) -> bool {
        matches!(self, Self::FailedToStart | Self::FailedToStop)
    }

    /// As `status.powerState` has it.
    pub fn wire(self) -> &'static str {
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

    /// What the wire's power state and reason of Hibernating mean.
    pub fn from_wire(text: &str, reason: Option<&str>) -> Self {
        if text == "Running" && reason == Some(ConditionReason::Unsupported.as_str()) {
            return Self::Unsupported;
        }
        Self::ALL.iter().copied().find(|power| power.wire() == text).unwrap_or_default()
    }

    /// Machines run and all is well, as far as anybody can tell.
    pub fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Unsupported)
    }

    /// On the way from hibernating to running.
    pub fn waking(self) -> bool {
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

    /// On the way from running to hibernating.
    pub fn stopping(self) -> bool {
        matches!(self, Self::Stopping | Self::FailedToStop | Self::WaitingForStop)
    }

    /// What it does, in a word or two.
    pub fn doing(self) -> &'static str {
        match self {
            Self::Unset => "installed",
            Self::Running | Self::Unsupported => "running",
            Self::Hibernating => "hibernating",
            Self::Paused => "not looked at (powerstate-pause)",
            power if power.stopping() => "going to sleep",
            _ => "waking",
        }
    }

    /// The conditions Hibernating and Ready. `message` names machines or says what failed.
    pub fn conditions(self, message: Option<&str>) -> [Condition; 2] {
        use ConditionReason as Reason;

        let what = message.unwrap_or_default();
        let awake = ("False", Reason::ResumingOrRunning, "Resuming or running".to_owned());
        let asleep = ("False", Reason::StoppingOrHibernating, "Stopping or hibernating".to_owned());
        let waking = |reason, text: String| (awake.clone(), ("False", reason, text));
        let stopping = |reason, text: String| (("False", reason, text), asleep.clone());
        let (hibernating, ready) = match self {
            Self::Hibernating => {
                (("True", Reason::Hibernating, "Cluster is stopped".into()), asleep.clone())
            }
            Self::Stopping => stopping(Reason::Stopping, "Stopping cluster machines".into()),
            Self::FailedToStop => {
                stopping(Reason::FailedToStop, format!("Failed to stop machines: {what}"))
            }
            Self::WaitingForStop => stopping(
                Reason::WaitingForMachinesToStop,
                format!("Stopping cluster machines. Some machines have not yet stopped: {what}"),
            ),
            Self::Starting => {
                waking(Reason::StartingMachines, "Starting cluster machines (step 1/4)".into())
            }
            Self::FailedToStart => {
                waking(Reason::FailedToStartMachines, format!("Failed to start machines: {what}"))
            }
            Self::WaitingForMachines => waking(
                Reason::WaitingForMachines,
                format!(
                    "Waiting for cluster machines to start. Some machines are not yet running: \
                     {what} (step 1/4)"
                ),
            ),
            Self::WaitingForNodes => {
                waking(Reason::WaitingForNodes, "Waiting for Nodes to be ready (step 2/4)".into())
            }
            Self::Pausing => waking(
                Reason::PausingForClusterOperatorsToSettle,
                format!("Pausing {SETTLE} for ClusterOperators to settle (step 3/4)"),
            ),
            Self::WaitingForOperators => waking(
                Reason::WaitingForClusterOperators,
                "Waiting for ClusterOperators to be ready (step 4/4)".into(),
            ),
            Self::Unsupported => {
                let why = "Unsupported platform: its driver cannot stop machines".into();
                let text = "No power state support: cluster assumed to be running".into();
                (("False", Reason::Unsupported, why), ("True", Reason::Running, text))
            }
            Self::Paused => {
                let paused = (
                    "Unknown",
                    Reason::PowerStatePaused,
                    "the powerstate-pause annotation is set".into(),
                );
                (paused.clone(), paused)
            }
            Self::Running | Self::Unset => {
                (awake.clone(), ("True", Reason::Running, "All machines are started".into()))
            }
        };
        let condition = |kind, (status, reason, text): (&str, Reason, String)| {
            Condition::new(kind, status, reason, text)
        };
        [condition(ConditionType::Hibernating, hibernating), condition(ConditionType::Ready, ready)]
    }
}

/// Both conditions of a cluster that is being deleted.
pub fn deleted(since: Time) -> [Condition; 2] {
    unknown(ConditionReason::ClusterDeploymentDeleted, "ClusterDeployment is being deleted", since)
}

/// Both conditions of a cluster that is not installed yet.
pub fn initialized(since: Time) -> [Condition; 2] {
    unknown(ConditionReason::Initialized, "Condition Initialized", since)
}

fn unknown(reason: ConditionReason, text: &str, since: Time) -> [Condition; 2] {
    [ConditionType::Hibernating, ConditionType::Ready]
        .map(|kind| Condition::new(kind, "Unknown", reason, text).at(since))
}

impl From<PowerState> for Power {
    fn from(wanted: PowerState) -> Self {
        match wanted {
            PowerState::Unset => Self::Unset,
            PowerState::Running => Self::Running,
            PowerState::Hibernating => Self::Hibernating,
        }
    }
}

impl From<Power> for PowerState {
    fn from(power: Power) -> Self {
        match power {
            Power::Running => Self::Running,
            Power::Hibernating => Self::Hibernating,
            _ => Self::Unset,
        }
    }
}
