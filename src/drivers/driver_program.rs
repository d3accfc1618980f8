//! Runs a driver program with one verb in the folder of a task, and reads what it leaves there.
//! Knows nothing of what the verbs are for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::model::failure::FailureClass;
use crate::model::order::HealthReport;

use super::files::read_regular_file;
use super::site;
use super::task::{Stopped, Task};

/// What a driver may write to the file `result`. Without it the exit code alone counts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DriverResult {
    pub message: String,
    /// What kind of cause a failure had.
    pub class: FailureClass,
    /// Trying again is of no use.
    pub hopeless: bool,
    #[serde(rename = "infraID")]
    pub infra_id: String,
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    pub health: Option<HealthReport>,
}

/// How a driver program has ended a verb, beside what it wrote to files.
pub struct ProgramEnd {
    pub code: i32,
    /// The last line that it printed to standard error, if it printed any.
    last_words: Option<String>,
}

impl ProgramEnd {
    /// How the program ended, for people: in its own words if it has any. Empty for a success
    /// without words.
    pub fn describe(&self, program: &Path, message: String) -> String {
        if self.code == 0 || !message.is_empty() {
            return message;
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let end = format!("{name} ended with exit code {}", self.code);
        match &self.last_words {
            Some(line) => format!("{end}: {line}"),
            None => end,
        }
    }
}

/// Runs a program with a verb in the folder of its task.
pub fn run_verb(task: &mut Task, program: &Path, verb: &str) -> Result<ProgramEnd, Stopped> {
    let environment = prepare_environment(task, verb)?;
    let folder = task.job_folder.path().to_owned();
    let (code, last_words) = task.run_for_last_words(program, &[verb], &folder, &environment)?;
    Ok(ProgramEnd { code, last_words })
}

/// What a program has written to its result, or its default. The error is for people.
pub fn read_result(task: &Task) -> Result<DriverResult, String> {
    match read_regular_file(&task.job_folder.file_path("result")) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|error| format!("the result of the driver cannot be read: {error}")),
        Err(_) => Ok(DriverResult::default()),
    }
}

/// The variables of the contract, among them those of the site, and the folder that the program has
/// for its cluster.
fn prepare_environment(task: &Task, verb: &str) -> Result<BTreeMap<String, String>, Stopped> {
    let order = &task.order;
    let wanted = if order.stopping { "stopped" } else { "running" };
    let mut environment = BTreeMap::from([
        ("POOLCTL_VERB".to_owned(), verb.to_owned()),
        ("POOLCTL_CLUSTER".to_owned(), order.cluster.clone()),
        ("POOLCTL_CLUSTER_NAME".to_owned(), order.cluster_name.clone()),
        ("POOLCTL_BASE_DOMAIN".to_owned(), order.base_domain.clone()),
        ("POOLCTL_RELEASE_IMAGE".to_owned(), order.release_image.clone()),
        ("POOLCTL_ATTEMPT".to_owned(), order.attempt.to_string()),
        ("POOLCTL_WANTED".to_owned(), wanted.to_owned()),
    ]);
    if let Some(folder) = &order.cluster_folder {
        fs::create_dir_all(folder)?;
        environment.insert("POOLCTL_CLUSTER_DIR".to_owned(), folder.display().to_string());
    }
    if let Some(machine) = order.machines.first() {
        environment.insert("POOLCTL_HOST".to_owned(), machine.host.clone());
        environment.insert("POOLCTL_BMC".to_owned(), machine.address.clone());
    }
    site::add_variables(task, &mut environment).map_err(io::Error::other)?;
    Ok(environment)
}
