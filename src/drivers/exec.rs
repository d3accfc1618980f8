//! Runs drivers that are programs of their own, `poolctl-driver-<name> VERB` in the job's folder,
//! by the contract in docs/drivers.md. Never does anything to a cluster itself.

use std::path::Path;

use crate::model::failure::FailureClass;
use crate::model::job::Verb;
use crate::model::order::{JobEnding, Verdict};

use super::driver_program::{read_result, run_verb};
use super::task::{Stopped, Task};
use super::{description, site};

/// The exit code of a shell that has not found a program.
const PROGRAM_NOT_FOUND: i32 = 127;

/// Runs the driver program, and reads how it ended from its exit code and its result.
pub fn run(task: &mut Task) -> Result<JobEnding, Stopped> {
    let Some(program) = task.program_path("driver") else {
        let reason = task.order.missing.get("driver").cloned();
        let message = reason.unwrap_or_else(|| "the driver program is missing".into());
        return Ok(JobEnding::failed_early(FailureClass::SetupMissing, message));
    };
    if task.order.verb == Verb::Provision
        && let Some(problem) =
            find_mismatch(task, &program).or_else(|| site::make_cache_directory(task).err())
    {
        return Ok(JobEnding::failed_early(FailureClass::SetupMissing, problem));
    }
    let verb = task.order.verb.name();
    let end = run_verb(task, &program, verb)?;
    let result = match read_result(task) {
        Ok(result) => result,
        Err(error) => return Ok(JobEnding::failed(error)),
    };
    let verdict = if end.code == 0 { Verdict::Succeeded } else { Verdict::Failed };
    let class = match (end.code, result.class) {
        (PROGRAM_NOT_FOUND, FailureClass::Unclear) => FailureClass::SetupMissing,
        (_, class) => class,
    };
    // A driver saves what destroys a cluster before it makes anything of it.
    let has_begun = task.job_folder.saved_path("metadata.json").exists();
    let is_provision = task.order.verb == Verb::Provision;
    Ok(JobEnding {
        verdict,
        message: end.describe(&program, result.message),
        class,
        nothing_made: is_provision && class == FailureClass::SetupMissing && !has_begun,
        hopeless: result.hopeless,
        infra_id: result.infra_id,
        cluster_id: result.cluster_id,
        health: result.health,
        ..JobEnding::default()
    })
}

/// Why the cluster of a task must not be given to a program, by what the program says of itself.
fn find_mismatch(task: &Task, program: &Path) -> Option<String> {
    let folder = task.order.descriptions.as_ref()?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let kept = description::read_description(folder, program);
    match kept.map_or_else(|| description::ask_description(folder, program), Ok) {
        Ok(description) => {
            let mismatch = description.find_mismatch(&task.order.annotations)?;
            Some(format!("{name}: {mismatch}"))
        }
        Err(error) => Some(format!("{name}: {error}")),
    }
}
