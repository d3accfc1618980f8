//! Runs programs as a job would, to try something out: in a folder of its own that is removed
//! afterwards. What is tried there belongs to no cluster and to no job of the state, so no pass
//! ends it: a second process of ours, the guard, does so if this one is killed.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::setsid;

use crate::model::documents::SecretValue;
use crate::model::order::JobOrder;

use super::cancel::kill_lock_holders;
use super::job_folder::{JobFolder, JobState, Supervisor};
use super::process;
use super::task::{Stopped, Task};

/// The hidden command that makes a guard of poolctl.
pub const GUARD_COMMAND: &str = "__guard";
/// What the names of folders begin with that may be those of trials.
const PREFIX: &str = ".trial-";

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
    remove_abandoned_trials(parent);
    // The writing end is dropped last: when the guard is told that the trial is over, nothing is
    // left of it.
    let (reader, _writer) = io::pipe()?;
    // The folder is removed when this value is dropped, however the work ends.
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
    process::start_reader(GUARD_COMMAND, folder.path(), reader)?;
    let job_folder = JobFolder::from_path(folder.path());
    job_folder.create(&order, inputs)?;
    let Some(lock) = job_folder.try_lock()? else {
        return Err(Stopped::Cancelled);
    };
    // Those who read what its programs print wait for as long as this process lives.
    job_folder.mark_started(&Supervisor::of_this_process()?)?;
    let mut task = Task::new(job_folder, order, lock, Arc::new(AtomicBool::new(false)))?;
    let result = work(&mut task);
    task.finish_log();
    // Without our lock, whoever holds it was left behind by a program.
    drop(task);
    kill_lock_holders(&JobFolder::from_path(folder.path()));
    result
}

/// Whether a folder is that of a trial: its order is of no job.
fn is_trial(folder: &JobFolder) -> bool {
    folder.read_order().is_ok_and(|order| order.job.is_empty())
}

/// Removes the folders of trials whose guard was killed with them, as when the machine was switched
/// off: there are secrets in them.
fn remove_abandoned_trials(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        // The folders of jobs beside it are many, and need not be read.
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let folder = JobFolder::from_path(&entry.path());
        if is_trial(&folder) && folder.read_state() == JobState::Interrupted {
            // What cannot be removed now is tried again by the next trial.
            drop(fs::remove_dir_all(folder.path()));
        }
    }
}

/// Waits until the process that tries something out in a folder is gone. If the folder is still
/// there then, that process was killed: what it has left behind is ended and removed.
pub fn guard_trial(folder: &Path) -> io::Result<()> {
    // It fails if we are the leader of a session already, which serves as well.
    let _ = setsid();
    // Nobody writes anything. The pipe is closed with the trial, or with its process.
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let job_folder = JobFolder::from_path(folder);
    if !is_trial(&job_folder) {
        return Ok(());
    }
    kill_lock_holders(&job_folder);
    fs::remove_dir_all(folder)
}
