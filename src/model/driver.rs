//! Drivers: which there are, and which one a cluster or a host has. None is started here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::named;
use super::meta::is_go_true;
use super::platform::{HostOrigin, traits_of};

pub use super::annotations::{DRIVER, FAKE_HEALTH, POWER};

/// What stands before the name of a program that follows the contract of drivers: `exec:NAME`.
pub const PROGRAM_PREFIX: &str = "exec:";
/// Hive's annotation by which a cluster is simulated.
pub const FAKE_CLUSTER: &str = "hive.openshift.io/fake-cluster";
/// The value of a simulated platform that cannot stop machines.
pub const NO_POWER: &str = "no-power";

named! {
    /// The program that makes, starts, stops and destroys clusters, or controls a host.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(try_from = "String", into = "&'static str")]
    pub enum Driver {
        /// No driver of this build serves the platform.
        #[default]
        Missing = "none",
        /// The cluster is simulated, without a program.
        Fake = "fake",
        /// openshift-install.
        Installer = "openshift-install",
        /// A program that follows the contract of drivers.
        Exec = "exec",
        /// ipmitool, for the management controller of a host.
        Ipmi = "ipmitool",
        /// Redfish, for the management controller of a host.
        Redfish = "redfish",
        /// openshift-install agent, for the hosts that are bound to a cluster.
        Agent = "agent",
    }
}

/// Whether a driver may have this name: at most 32 lower-case letters, digits and dashes.
pub fn is_driver_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether clusters of a platform are made of hosts that are bound to them.
pub fn is_made_of_agents(platform: &str) -> bool {
    traits_of(platform).is_some_and(|platform| platform.hosts == HostOrigin::Bound)
}

impl Driver {
    /// The driver of a cluster: the one that its annotations name, else that of its platform.
    pub fn from_annotations(annotations: &BTreeMap<String, String>, platform: &str) -> Self {
        if annotations.get(FAKE_CLUSTER).is_some_and(|value| is_go_true(value)) {
            return Self::Fake;
        }
        match annotations.get(DRIVER).map(String::as_str) {
            Some("fake") => Self::Fake,
            Some("openshift-install") => Self::Installer,
            Some("agent") => Self::Agent,
            Some(name) if name.starts_with(PROGRAM_PREFIX) => Self::Exec,
            _ if platform.is_empty() => Self::Missing,
            _ if is_made_of_agents(platform) => Self::Agent,
            _ => Self::Installer,
        }
    }

    /// Whether its jobs are processes, which a supervisor keeps.
    pub fn is_supervised(self) -> bool {
        match self {
            Self::Missing | Self::Fake => false,
            Self::Installer | Self::Exec | Self::Ipmi | Self::Redfish | Self::Agent => true,
        }
    }

    /// Whether it cannot stop the machines of a cluster that has these annotations.
    pub fn cannot_stop_machines(self, annotations: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Fake | Self::Missing => {
                annotations.get(FAKE_HEALTH).is_some_and(|value| value == NO_POWER)
            }
            Self::Installer | Self::Agent | Self::Ipmi | Self::Redfish => {
                !annotations.contains_key(POWER)
            }
            Self::Exec => annotations.get(POWER).is_some_and(|value| value == "none"),
        }
    }
}

impl From<Driver> for &'static str {
    fn from(driver: Driver) -> Self {
        driver.name()
    }
}

impl TryFrom<String> for Driver {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        // In orders of earlier versions the name of the program follows, as in the annotation.
        if name.starts_with(PROGRAM_PREFIX) {
            return Ok(Self::Exec);
        }
        Self::named(&name).ok_or_else(|| format!("unknown driver `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::Driver;

    #[test]
    fn a_driver_is_read_by_its_name_and_no_other_takes_the_place_of_an_unknown_one() {
        for driver in Driver::ALL.iter().copied() {
            let json = serde_json::to_string(&driver).unwrap();
            assert_eq!(json, format!("\"{}\"", driver.name()));
            assert_eq!(serde_json::from_str::<Driver>(&json).unwrap(), driver);
        }
        assert_eq!(serde_json::from_str::<Driver>("\"exec:lab\"").unwrap(), Driver::Exec);
        let error = serde_json::from_str::<Driver>("\"terraform\"").unwrap_err();
        assert_eq!(error.to_string(), "unknown driver `terraform`");
    }
}
