//! The drivers, each declared once: its name, who chooses it, who runs its jobs, how its clusters
//! are started and stopped, how hosts join them, and which programs it starts. Whatever checks or
//! lists drivers follows from this list. None is started here.

use serde::{Deserialize, Serialize};

use super::facts::named;
use super::platform::{HostOrigin, traits_of};

/// What stands before the name of a program that follows the contract of drivers: `exec:NAME`.
pub const PROGRAM_PREFIX: &str = "exec:";
/// Hive's annotation by which a cluster is simulated.
pub const FAKE_CLUSTER: &str = "hive.openshift.io/fake-cluster";
/// The value of a simulated platform that cannot stop machines.
pub const NO_POWER: &str = "no-power";

/// Declares the enum of all drivers, and the traits of each. `annotation` says whether the name of
/// the driver is a value of the annotation poolctl.dev/driver.
macro_rules! drivers {
    ($(
        $(#[$attribute:meta])*
        $Driver:ident = $name:literal {
            annotation: $annotation:literal,
            jobs: $jobs:ident,
            power: $power:ident,
            joins_hosts: $joins_hosts:literal,
            boots_images: $boots_images:literal,
            programs: $programs:expr,
        }
    )*) => {
        named! {
            /// What makes, starts, stops and destroys clusters, or controls a host.
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(try_from = "String", into = "&'static str")]
            pub enum Driver {
                $( $(#[$attribute])* $Driver = $name, )*
            }
        }

        impl Driver {
            /// What is declared of the driver beside its name.
            pub const fn traits(self) -> &'static DriverTraits {
                match self {
                    $(Self::$Driver => {
                        const TRAITS: &DriverTraits = &DriverTraits {
                            is_annotation_value: $annotation,
                            jobs: JobRunner::$jobs,
                            power: PowerControl::$power,
                            joins_hosts: $joins_hosts,
                            boots_images: $boots_images,
                            programs: $programs,
                        };
                        TRAITS
                    })*
                }
            }
        }
    };
}

drivers! {
    /// No driver of this build serves the platform.
    #[default]
    Missing = "none" {
        annotation: false,
        jobs: Nobody,
        power: HostsOfInstalled,
        joins_hosts: false,
        boots_images: false,
        programs: &[],
    }
    /// The cluster is simulated, without a program.
    Fake = "fake" {
        annotation: true,
        jobs: Simulation,
        power: Simulation,
        joins_hosts: true,
        boots_images: false,
        programs: &[],
    }
    /// openshift-install.
    Installer = "openshift-install" {
        annotation: true,
        jobs: Supervisor,
        power: ProgramOrHosts,
        joins_hosts: false,
        boots_images: false,
        programs: &[OPENSHIFT_INSTALL, OC, KUBECTL],
    }
    /// A program that follows the contract of drivers: the one that an annotation names.
    Exec = "exec" {
        annotation: false,
        jobs: Supervisor,
        power: Driver,
        joins_hosts: true,
        boots_images: false,
        programs: &[],
    }
    /// ipmitool, for the management controller of a host.
    Ipmi = "ipmitool" {
        annotation: false,
        jobs: Supervisor,
        power: NoClusters,
        joins_hosts: false,
        boots_images: false,
        programs: &[IPMITOOL],
    }
    /// Redfish, for the management controller of a host.
    Redfish = "redfish" {
        annotation: false,
        jobs: Supervisor,
        power: NoClusters,
        joins_hosts: false,
        boots_images: false,
        programs: &[],
    }
    /// openshift-install agent, for the hosts that are bound to a cluster.
    Agent = "agent" {
        annotation: true,
        jobs: Supervisor,
        power: ProgramOrHosts,
        joins_hosts: true,
        boots_images: true,
        programs: &[OPENSHIFT_INSTALL, OC, KUBECTL],
    }
}

const OPENSHIFT_INSTALL: DriverProgram = DriverProgram {
    name: "openshift-install",
    version_arguments: &["version"],
    // `oc` can extract the installer from a release image.
    need: ProgramNeed::RequiredWithout("oc"),
};
const OC: DriverProgram = DriverProgram {
    name: "oc",
    version_arguments: &["version", "--client"],
    need: ProgramNeed::Optional,
};
const KUBECTL: DriverProgram = DriverProgram {
    name: "kubectl",
    version_arguments: &["version", "--client"],
    need: ProgramNeed::Optional,
};
const IPMITOOL: DriverProgram =
    DriverProgram { name: "ipmitool", version_arguments: &["-V"], need: ProgramNeed::Required };

/// What poolctl has to know about a driver beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverTraits {
    /// Whether the annotation poolctl.dev/driver may choose the driver by its name.
    pub is_annotation_value: bool,
    pub jobs: JobRunner,
    pub power: PowerControl,
    /// Whether it lets hosts join the clusters that it has installed. For the clusters of any other
    /// driver `Driver::Agent` does that.
    pub joins_hosts: bool,
    /// Whether its jobs boot hosts from images that they make. Then management controllers, or
    /// people, have to get at those images.
    pub boots_images: bool,
    /// The programs that it starts by their names.
    pub programs: &'static [DriverProgram],
}

/// Who runs the jobs of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobRunner {
    /// The pass itself: a job is done when its time is over.
    Simulation,
    /// A supervisor: a process that is detached from the pass.
    Supervisor,
    /// There are no jobs, or they never end.
    Nobody,
}

/// How the clusters of a driver are started and stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerControl {
    /// They are simulated, and can be stopped unless the annotation poolctl.dev/fake-health says no.
    Simulation,
    /// The program that the annotation poolctl.dev/power names stops them; without it the management
    /// controllers of the hosts that the cluster uses.
    ProgramOrHosts,
    /// The management controllers of the hosts that the cluster uses stop them, once the cluster is
    /// installed.
    HostsOfInstalled,
    /// The driver itself stops them, unless the annotation poolctl.dev/power is `none`.
    Driver,
    /// The driver controls single hosts, and has no clusters.
    NoClusters,
}

/// A program that drivers start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverProgram {
    pub name: &'static str,
    /// The arguments with which it prints its version.
    pub version_arguments: &'static [&'static str],
    pub need: ProgramNeed,
}

/// What a driver can do without one of its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramNeed {
    /// Without the program the driver does nothing.
    Required,
    /// Without the program the driver does less.
    Optional,
    /// Without the program the driver does nothing, unless there is this other program.
    RequiredWithout(&'static str),
}

/// All programs that drivers start by their names, each once.
pub fn driver_programs() -> Vec<DriverProgram> {
    let mut programs: Vec<DriverProgram> = Vec::new();
    for driver in Driver::ALL {
        for program in driver.traits().programs {
            if !programs.iter().any(|listed| listed.name == program.name) {
                programs.push(*program);
            }
        }
    }
    programs
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
    /// The names by which the annotation poolctl.dev/driver chooses a driver, in the order in which
    /// drivers are declared. Programs are chosen by `exec:NAME` besides.
    pub fn annotation_words() -> Vec<&'static str> {
        let mut words = Vec::new();
        for driver in Self::ALL {
            if driver.traits().is_annotation_value {
                words.push(driver.name());
            }
        }
        words
    }

    /// The driver that a value of the annotation poolctl.dev/driver chooses. None if the value is
    /// not one that the annotation may have.
    pub fn from_annotation_value(value: &str) -> Option<Self> {
        if value.starts_with(PROGRAM_PREFIX) {
            return Some(Self::Exec);
        }
        Self::named(value).filter(|driver| driver.traits().is_annotation_value)
    }

    /// Whether its jobs are processes, which a supervisor keeps.
    pub fn is_supervised(self) -> bool {
        self.traits().jobs == JobRunner::Supervisor
    }

    /// Whether its clusters are simulated, without a program.
    pub fn is_simulated(self) -> bool {
        self.traits().jobs == JobRunner::Simulation
    }

    /// The driver that lets hosts join a cluster which this driver has installed. Whichever driver
    /// of poolctl that was, `oc` makes the image that hosts join with.
    #[must_use]
    pub fn joining_driver(self) -> Self {
        if self.traits().joins_hosts { self } else { Self::Agent }
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
    use super::*;

    #[test]
    fn a_driver_is_read_by_its_name_and_no_other_takes_the_place_of_an_unknown_one() {
        for driver in Driver::ALL.iter().copied() {
            let json = serde_json::to_string(&driver).unwrap();
            assert_eq!(json, format!("\"{}\"", driver.name()));
            assert_eq!(serde_json::from_str::<Driver>(&json).unwrap(), driver);
        }
        assert_eq!(serde_json::from_str::<Driver>("\"exec:lab\"").unwrap(), Driver::Exec);
        let error = serde_json::from_str::<Driver>("\"no-such-driver\"").unwrap_err();
        assert_eq!(error.to_string(), "unknown driver `no-such-driver`");
    }

    #[test]
    fn the_annotation_chooses_drivers_of_clusters_alone() {
        assert_eq!(Driver::annotation_words(), ["fake", "openshift-install", "agent"]);
        for driver in Driver::ALL.iter().copied() {
            let is_chosen = Driver::from_annotation_value(driver.name()) == Some(driver);
            assert_eq!(is_chosen, driver.traits().is_annotation_value, "{driver:?}");
        }
        assert_eq!(Driver::from_annotation_value("exec:lab"), Some(Driver::Exec));
        assert_eq!(Driver::from_annotation_value("no-such-driver"), None);
    }

    #[test]
    fn a_program_of_several_drivers_is_listed_once_and_what_replaces_one_is_listed() {
        let programs = driver_programs();
        let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
        assert_eq!(names, ["openshift-install", "oc", "kubectl", "ipmitool"]);
        for program in programs {
            if let ProgramNeed::RequiredWithout(replacement) = program.need {
                assert!(names.contains(&replacement), "{replacement}");
            }
        }
    }

    #[test]
    fn hosts_join_by_a_driver_that_can_let_them_join() {
        for driver in Driver::ALL {
            assert!(driver.joining_driver().traits().joins_hosts, "{driver:?}");
        }
    }
}
