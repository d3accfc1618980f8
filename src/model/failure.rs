//! Failures of jobs: the classes of their causes, and what a class means for the next attempt and for
//! the pool. Which class a failure has is decided where its cause is seen, by a driver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::ConditionReason;
use super::facts::{
    Fact, FactReader, FactRow, FactValue, UnreadableFact, named, read_optional_named,
};

named! {
    /// What kind of cause a failure has. The names are those of the reasons of conditions.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum FailureClass {
        /// The platform cannot be reached.
        CloudAway = "CloudAway",
        /// The management controller of a host does not answer, or cannot now.
        ControllerAway = "ControllerAway",
        /// The platform has no room: a quota is used up, or no host, disk or address is left.
        Capacity = "Capacity",
        /// A program, an image, a credential or a certificate is missing or not accepted.
        SetupMissing = "SetupMissing",
        /// The configuration is refused.
        #[serde(alias = "InputRefused")]
        InputWrong = "InputWrong",
        /// Machines were made, and the first one did not bring up the others.
        BootstrapFailed = "BootstrapFailed",
        /// Machines were made, and the cluster did not become ready on them.
        OperatorsNotReady = "OperatorsNotReady",
        /// Any other cause.
        #[default]
        #[serde(alias = "InstallationsFail")]
        Unclear = "Unclear",
    }
}

impl FailureClass {
    /// The reason of a condition that is bad because of such a failure.
    pub fn condition_reason(self) -> ConditionReason {
        match self {
            Self::CloudAway => ConditionReason::CloudAway,
            Self::ControllerAway => ConditionReason::ControllerAway,
            Self::Capacity => ConditionReason::Capacity,
            Self::SetupMissing => ConditionReason::SetupMissing,
            Self::InputWrong => ConditionReason::InputWrong,
            Self::BootstrapFailed => ConditionReason::BootstrapFailed,
            Self::OperatorsNotReady => ConditionReason::OperatorsNotReady,
            Self::Unclear => ConditionReason::Unclear,
        }
    }

    /// Whether every cluster of a pool would fail alike now, whatever its own part in it.
    pub fn concerns_whole_pool(self) -> bool {
        match self {
            Self::CloudAway | Self::Capacity | Self::SetupMissing | Self::InputWrong => true,
            Self::ControllerAway
            | Self::BootstrapFailed
            | Self::OperatorsNotReady
            | Self::Unclear => false,
        }
    }

    /// Whether a cluster of a pool is tried again later and later though its failures use up no
    /// attempt, because its pool does not wait.
    pub fn delays_cluster_alone(self) -> bool {
        self == Self::ControllerAway
    }
}

/// Empty where nothing has failed.
impl Fact for Option<FailureClass> {
    fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact> {
        read_optional_named(reader, FailureClass::named)
    }

    fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>) {
        match self {
            Some(class) => class.write(values),
            None => values.push(FactValue::Null),
        }
    }
}

/// Why a job failed, and what its driver knows of what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// A sentence for people, with the first cause in the words of the program.
    pub message: String,
    pub class: FailureClass,
    /// Whether something may exist now that has to be destroyed. Only a driver that is certain of
    /// the contrary says no.
    pub is_made: bool,
    /// Whether another attempt would fail as well.
    pub is_hopeless: bool,
    /// A digest of the input that was refused, if the class is `InputWrong` and it is known.
    pub input: Option<String>,
}

impl Failure {
    /// A failure after which something is left and another attempt may succeed.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { message: message.into(), class, is_made: true, ..Self::default() }
    }

    /// Whether the failure counts as an attempt of its cluster. What the site or the platform is to
    /// blame for counts for no cluster, and neither does what failed before anything existed.
    pub fn uses_up_attempt(&self) -> bool {
        match self.class {
            FailureClass::CloudAway
            | FailureClass::ControllerAway
            | FailureClass::Capacity
            | FailureClass::SetupMissing => false,
            FailureClass::InputWrong | FailureClass::Unclear => self.is_made,
            FailureClass::BootstrapFailed | FailureClass::OperatorsNotReady => true,
        }
    }

    /// Whether the pool waits before its next installation. Otherwise a failure that uses up no
    /// attempt would be repeated every minute.
    pub fn pauses_pool(&self) -> bool {
        self.class.concerns_whole_pool()
            || !(self.uses_up_attempt() || self.class.delays_cluster_alone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_the_reason_of_conditions_with_its_name() {
        for class in FailureClass::ALL {
            assert_eq!(class.condition_reason().as_str(), class.name());
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }

    #[test]
    fn what_the_site_is_to_blame_for_uses_up_no_attempt_even_if_machines_exist() {
        for class in FailureClass::ALL {
            let failure = Failure::new(*class, "no");
            let is_spared = !failure.uses_up_attempt();
            let is_of_site = matches!(
                class,
                FailureClass::CloudAway
                    | FailureClass::ControllerAway
                    | FailureClass::Capacity
                    | FailureClass::SetupMissing
            );
            let is_delayed = failure.pauses_pool() || class.delays_cluster_alone();
            assert_eq!(is_spared, is_of_site, "{class:?}");
            assert!(!is_spared || is_delayed, "{class:?} is tried without end");
        }
        let nothing_made = Failure { is_made: false, ..Failure::new(FailureClass::Unclear, "no") };
        assert!(!nothing_made.uses_up_attempt() && nothing_made.pauses_pool());
    }

    #[test]
    fn names_of_earlier_versions_are_read() {
        let class: FailureClass = serde_json::from_str("\"InputRefused\"").unwrap();
        assert_eq!(class, FailureClass::InputWrong);
        let class: FailureClass = serde_json::from_str("\"InstallationsFail\"").unwrap();
        assert_eq!(class, FailureClass::Unclear);
    }
}
