//! Starts and stops the machines of clusters, and looks how those do. It does so by the management
//! controllers of their hosts, by the program that the cluster's power annotation names, or by the
//! cluster's own API. Never makes or destroys a cluster.

use crate::model::order::JobEnding;

use super::task::{Stopped, Task};
use super::{exec, kube, machines};

/// Starts or stops the machines of a cluster, as the verb says.
pub fn switch_machines(task: &mut Task) -> Result<JobEnding, Stopped> {
    if task.order.machines.is_empty() { exec::run(task) } else { machines::run_job_verb(task) }
}

/// Looks how far a cluster is that was told to start or stop.
pub fn check_health(task: &mut Task) -> Result<JobEnding, Stopped> {
    if !task.order.machines.is_empty() {
        let ending = machines::check_health(task)?;
        let machines_are_late =
            ending.health.as_ref().is_some_and(|health| !health.machines.is_empty());
        if task.order.stopping || machines_are_late {
            return Ok(ending);
        }
        // All machines are on, so the cluster can say how its nodes and operators do.
        return Ok(JobEnding { hosts: ending.hosts, ..kube::check_health(task)? });
    }
    // The program that stops machines knows best whether they are stopped.
    if task.order.stopping && task.program_path("driver").is_some() {
        let ending = exec::run(task)?;
        if ending.is_success() && ending.health.is_some() {
            return Ok(ending);
        }
    }
    kube::check_health(task)
}
