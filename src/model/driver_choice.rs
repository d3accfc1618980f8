//! Reads from annotations which driver a cluster has, and whether it can stop its machines. It never
//! looks at a cluster itself: pools ask before they have any.

use std::collections::BTreeMap;

use super::annotations::{DRIVER, FAKE_HEALTH, POWER};
use super::driver::{Driver, FAKE_CLUSTER, NO_POWER, PowerControl, is_made_of_agents};
use super::meta::is_go_true;

impl Driver {
    /// The driver of a cluster: the one that its annotations name, else that of its platform.
    pub fn from_annotations(annotations: &BTreeMap<String, String>, platform: &str) -> Self {
        if annotations.get(FAKE_CLUSTER).is_some_and(|value| is_go_true(value)) {
            return Self::Fake;
        }
        let chosen_driver =
            annotations.get(DRIVER).and_then(|value| Self::from_annotation_value(value));
        if let Some(driver) = chosen_driver {
            return driver;
        }
        if platform.is_empty() {
            Self::Missing
        } else if is_made_of_agents(platform) {
            Self::Agent
        } else {
            Self::Installer
        }
    }

    /// Whether it cannot stop the machines of a cluster that has these annotations.
    pub fn cannot_stop_machines(self, annotations: &BTreeMap<String, String>) -> bool {
        match self.traits().power {
            PowerControl::Simulation | PowerControl::HostsOfInstalled => {
                annotations.get(FAKE_HEALTH).is_some_and(|value| value == NO_POWER)
            }
            PowerControl::ProgramOrHosts | PowerControl::NoClusters => {
                !annotations.contains_key(POWER)
            }
            PowerControl::Driver => annotations.get(POWER).is_some_and(|value| value == "none"),
        }
    }
}
