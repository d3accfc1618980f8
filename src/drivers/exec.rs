//! Drivers that are programs: `poolctl-driver-<name> VERB` in the job's folder, by the contract in
//! examples/driver/README.md.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::order::{Ending, HealthReport, Verdict};

use super::files::read_regular_file;
use super::task::{Stopped, Task};

/// What a driver leaves as `result`; without it the exit code alone counts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Result_ {
    message: String,
    /// Trying again is of no use.
    hopeless: bool,
    #[serde(rename = "infraID")]
    infra_id: String,
    #[serde(rename = "clusterID")]
    cluster_id: String,
    health: Option<HealthReport>,
}

pub fn run(task: &mut Task) -> Result<Ending, Stopped> {
    let Some(program) = task.program_path("driver") else {
        let why = task.order.missing.get("driver").cloned();
        return Ok(Ending::failed(why.unwrap_or_else(|| "there is no driver for this".into())));
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
    if let Some(host) = task.order.machines.first() {
        environment.insert("POOLCTL_HOST".to_owned(), host.host.clone());
        environment.insert("POOLCTL_BMC".to_owned(), host.address.clone());
    }
    let (verb, folder) = (task.order.verb.name(), task.job_folder.path().to_owned());
    let code = task.run_program(&program, &[verb], &folder, &environment)?;
    let found = match read_regular_file(&task.job_folder.file_path("result")) {
        Ok(bytes) => match serde_json::from_slice::<Result_>(&bytes) {
            Ok(found) => found,
            Err(error) => return Ok(Ending::failed(format!("result cannot be read: {error}"))),
        },
        Err(_) => Result_::default(),
    };
    let message = match (code, found.message.is_empty()) {
        (0, _) | (_, false) => found.message,
        (code, true) => {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{name} ended with exit code {code}")
        }
    };
    let verdict = match (code, found.hopeless) {
        (0, _) => Verdict::Succeeded,
        (_, true) => Verdict::Hopeless,
        (_, false) => Verdict::Failed,
    };
    Ok(Ending {
        verdict,
        message,
        infra_id: found.infra_id,
        cluster_id: found.cluster_id,
        health: found.health,
        hosts: Vec::new(),
    })
}
