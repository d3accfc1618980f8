//! Runs programs as a job would, to try something out: in a folder of its own that is removed
//! afterwards. What is tried there belongs to no cluster and to no job of the state.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::model::documents::SecretValue;
use crate::model::order::JobOrder;

use super::job_folder::{JobFolder, Supervisor};
use super::task::{Stopped, Task};

/// Does some work as a task, with an order and the files that belong to it. Its folder is made
/// below `parent`. The error says for people why the work was not done.
pub fn run_as_trial<T>(
    parent: &Path,
    order: JobOrder,
    inputs: &[(String, SecretValue)],
    work: impl FnOnce(&mut Task) -> Result<T, Stopped>,
) -> Result<T, String> {
    let limit = order.limit;
    try_work(parent, order, inputs, work).map_err(|stopped| match stopped {
        Stopped::DeadlineExceeded => format!("not finished after {limit} s"),
        Stopped::Cancelled => "cancelled".to_owned(),
        Stopped::Failed(error) => error.to_string(),
    })
}

fn try_work<T>(
    parent: &Path,
    order: JobOrder,
    inputs: &[(String, SecretValue)],
    work: impl FnOnce(&mut Task) -> Result<T, Stopped>,
) -> Result<T, Stopped> {
    fs::create_dir_all(parent)?;
    // The folder is removed when this value is dropped, however the work ends.
    let folder = tempfile::Builder::new().prefix(".trial-").tempdir_in(parent)?;
    let job_folder = JobFolder::from_path(folder.path());
    job_folder.create(&order, inputs)?;
    // Those who read what its programs print wait for as long as this process lives.
    job_folder.mark_started(&Supervisor::of_this_process()?)?;
    let Some(lock) = job_folder.try_lock()? else {
        return Err(Stopped::Cancelled);
    };
    let mut task = Task::new(job_folder, order, lock, Arc::new(AtomicBool::new(false)))?;
    let result = work(&mut task);
    task.finish_log();
    result
}
