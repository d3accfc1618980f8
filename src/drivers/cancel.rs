//! Ends the programs of a job from outside: by asking its supervisor, or by force. Never decides
//! that a job is to end.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::job_folder::JobFolder;

/// How a job is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CancelMode {
    /// Its supervisor is asked to end it.
    Ask,
    /// Every process of the job is killed.
    Kill,
}

impl CancelMode {
    /// Asks until the grace is over, and kills then.
    pub fn after(elapsed: Duration, grace: Duration) -> Self {
        if elapsed > grace { Self::Kill } else { Self::Ask }
    }
}

/// Ends another job. One that has no supervisor any more, who could be asked, is always killed:
/// that is every process that holds its lock.
pub fn cancel_job(job_folder: &JobFolder, mode: CancelMode) {
    // The age of this file tells since when the job is to end, so an existing one stays.
    drop(File::create_new(job_folder.file_path("cancel")));
    if mode == CancelMode::Ask && !job_folder.is_orphaned() {
        return;
    }
    kill_lock_holders(job_folder);
}

/// Kills every process but this one that holds the lock of a job: its programs, and whatever they
/// have left behind.
pub fn kill_lock_holders(job_folder: &JobFolder) {
    let Ok(lock) = fs::canonicalize(job_folder.file_path("lock")) else { return };
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        if number != our_pid()
            && holds_lock(number, &lock)
            && let Some(pid) = Pid::from_raw(number)
        {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether a process has a lock on this file. It is not enough that it has the file open: whoever
/// looks at the state of a job has that for a moment, too.
fn holds_lock(pid: i32, lock: &Path) -> bool {
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        if fs::read_link(entry.path()).is_ok_and(|path| path == lock) {
            let descriptor = entry.file_name();
            let info_path = format!("/proc/{pid}/fdinfo/{}", descriptor.to_string_lossy());
            if fs::read_to_string(info_path).is_ok_and(|info| info.contains("FLOCK")) {
                return true;
            }
        }
    }
    false
}

fn our_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}
