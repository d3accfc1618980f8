//! Gives a task to the driver that its order names, and checks that an installation has left behind
//! what using and destroying the cluster needs. Never works on a cluster or a machine itself.

use serde_json::{Map, Value};

use crate::model::driver::Driver;
use crate::model::failure::FailureClass;
use crate::model::job::Verb;
use crate::model::order::JobEnding;

use super::task::{Stopped, Task};
use super::{agent, exec, installer, kube, machines, wipe};

/// Runs the driver of a task to its end.
pub fn run_driver(task: &mut Task) -> Result<JobEnding, Stopped> {
    if let Some(why) = &task.order.refusal {
        return Ok(JobEnding::failed_early(FailureClass::SetupMissing, why.as_str()));
    }
    let ending = match task.order.driver {
        Driver::Installer => installer::run(task)?,
        Driver::Agent => agent::run(task)?,
        Driver::Exec => exec::run(task)?,
        Driver::Redfish if task.order.verb == Verb::Wipe => wipe::run(task)?,
        Driver::Ipmi | Driver::Redfish => machines::run_job_verb(task)?,
        Driver::Missing | Driver::Fake => {
            let name = task.order.driver.name();
            JobEnding::failed(format!("driver `{name}` starts no programs"))
        }
    };
    if task.order.verb == Verb::Provision && ending.is_success() {
        return Ok(find_defect(task).map_or(ending, JobEnding::failed));
    }
    Ok(ending)
}

/// Why a cluster that was installed cannot be used or destroyed, if it cannot. Then it must not
/// count as installed.
fn find_defect(task: &Task) -> Option<String> {
    let Some(kubeconfig) = task.job_folder.read_saved("kubeconfig") else {
        return Some("the driver saved no kubeconfig".to_owned());
    };
    let Some(metadata) = task.job_folder.read_saved("metadata.json") else {
        return Some("the driver saved no metadata.json".to_owned());
    };
    // Whoever reads it to destroy the cluster expects an object, whatever is in it.
    if let Err(error) = serde_json::from_str::<Map<String, Value>>(&metadata) {
        return Some(format!("the driver saved a metadata.json that is no JSON object: {error}"));
    }
    kube::kubeconfig_defect(&kubeconfig).map(|defect| format!("kubeconfig: {defect}"))
}
