//! Runs drivers that are programs of their own, `poolctl-driver-<name> VERB` in the job's folder,
//! by the contract in examples/driver/README.md. Never does anything to a cluster itself.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::order::{HealthReport, JobEnding, Verdict};

use super::files::read_regular_file;
use super::task::{Stopped, Task};

/// What a driver may write to the file `result`. Without it the exit code alone counts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DriverResult {
    message: String,
    /// Trying again is of no use.
    hopeless: bool,
    #[serde(rename = "infraID")]
    infra_id: String,
    #[serde(rename = "clusterID")]
    cluster_id: String,
    health: Option<HealthReport>,
}

/// Runs the driver program, and reads how it ended from its exit code and its result.
pub fn run(task: &mut Task) -> Result<JobEnding, Stopped> {
    let Some(program) = task.program_path("driver") else {
        let reason = task.order.missing.get("driver").cloned();
        return Ok(JobEnding::failed(
            reason.unwrap_or_else(|| "the driver program is missing".into()),
        ));
    };
    let mut environment = BTreeMap::from([
        ("POOLCTL_VERB".to_owned(), task.order.verb.name().to_owned()),
        ("POOLCTL_CLUSTER".to_owned(), task.order.cluster.clone()),
        ("POOLCTL_CLUSTER_NAME".to_owned(), task.order.cluster_name.clone()),
        ("POOLCTL_BASE_DOMAIN".to_owned(), task.order.base_domain.clone()),
        ("POOLCTL_ATTEMPT".to_owned(), task.order.attempt.to_string()),
        (
            "POOLCTL_WANTED".to_owned(),
            if task.order.stopping { "stopped" } else { "running" }.into(),
        ),
    ]);
    if let Some(machine) = task.order.machines.first() {
        environment.insert("POOLCTL_HOST".to_owned(), machine.host.clone());
        environment.insert("POOLCTL_BMC".to_owned(), machine.address.clone());
    }
    let verb = task.order.verb.name();
    let folder = task.job_folder.path().to_owned();
    let code = task.run_program(&program, &[verb], &folder, &environment)?;
    let result = match read_regular_file(&task.job_folder.file_path("result")) {
        Ok(bytes) => match serde_json::from_slice::<DriverResult>(&bytes) {
            Ok(result) => result,
            Err(error) => {
                return Ok(JobEnding::failed(format!(
                    "the result of the driver cannot be read: {error}"
                )));
            }
        },
        Err(_) => DriverResult::default(),
    };
    let message = if code == 0 || !result.message.is_empty() {
        result.message
    } else {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        format!("{name} ended with exit code {code}")
    };
    let verdict = match (code, result.hopeless) {
        (0, _) => Verdict::Succeeded,
        (_, true) => Verdict::Hopeless,
        (_, false) => Verdict::Failed,
    };
    Ok(JobEnding {
        verdict,
        message,
        infra_id: result.infra_id,
        cluster_id: result.cluster_id,
        health: result.health,
        hosts: Vec::new(),
    })
}
