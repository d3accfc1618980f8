//! Supervises a job in a process of its own: begins it once, holds its lock while anything works,
//! and writes down how it ended. Never does the work itself; drivers do.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, setsid, umask};

use crate::model::job::Verb;
use crate::model::order::{JobEnding, Verdict};

use super::dispatch;
use super::job_folder::{JobFolder, Supervisor};
use super::process::{GRACE, Stopwatch};
use super::task::{Stopped, Task};

/// Letters that are kept of what a driver says about its end.
const MESSAGE_LETTERS: usize = 16 << 10;

/// Supervises the job in a folder, unless another process does or did. Prints nothing, for nobody
/// would read it.
pub fn supervise_job(folder: &Path) -> io::Result<()> {
    // It fails if we are the leader of a session already, which serves as well.
    let _ = setsid();
    umask(Mode::from_raw_mode(0o077));
    let job_folder = JobFolder::from_path(folder);
    let order = match job_folder.read_order() {
        // This is not the folder of a job: nothing may be written there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        order => order,
    };
    let Some(lock) = job_folder.try_lock()? else { return Ok(()) };
    if !job_folder.mark_started(&Supervisor::of_this_process()?)? {
        return Ok(());
    }
    let order = match order {
        Ok(order) => order,
        // Another version of poolctl may have written it. Without an outcome the job would never be
        // over.
        Err(error) => {
            let ending = JobEnding::failed(format!("order.json cannot be read: {error}"));
            return job_folder.write_file("outcome", &serde_json::to_vec(&ending)?);
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut task = Task::new(job_folder, order, lock, stop)?;
    let ending = run_task(&mut task);
    task.finish_log();
    let ending = scrub_ending(&mut task, ending);
    task.job_folder.write_file("outcome", &serde_json::to_vec(&ending)?)
}

fn our_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Runs the driver once earlier jobs have ended, and says how the job ended in any case.
fn run_task(task: &mut Task) -> JobEnding {
    match end_earlier_jobs(task).and_then(|()| dispatch::run_driver(task)) {
        Ok(ending) => ending,
        Err(Stopped::DeadlineExceeded) => {
            JobEnding::failed(format!("not finished after {} s", task.order.limit))
        }
        Err(Stopped::Cancelled) => JobEnding::new(Verdict::BrokeOff, "cancelled"),
        Err(Stopped::Failed(error)) => JobEnding::failed(error.to_string()),
    }
}

/// Ends the earlier jobs on the same object, because two programs must never work on one cluster.
/// An earlier job that was not begun never will be.
fn end_earlier_jobs(task: &mut Task) -> Result<(), Stopped> {
    task.wait_unless_stopped()?;
    let jobs = task.job_folder.path().parent().map(Path::to_owned).unwrap_or_default();
    let ourselves = Supervisor::of_this_process()?;
    for job_id in task.order.before.clone() {
        let earlier_job = JobFolder::for_job(&jobs, &job_id);
        let stopwatch = Stopwatch::start();
        while !earlier_job.prevent_start(&ourselves)? {
            cancel_job(&earlier_job, CancelMode::after(stopwatch.elapsed(), GRACE));
            task.wait_unless_stopped()?;
        }
        if task.order.verb == Verb::Provision {
            continue;
        }
        // What it saved at last may not be in the state yet, so not in our order either.
        for name in ["metadata.json", "kubeconfig"] {
            if let Some(content) = earlier_job.read_saved(name) {
                task.job_folder.write_file(&format!("input/{name}"), content.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Hides secrets in what a driver says about its end, and cuts it: the state keeps it, and people
/// see it.
fn scrub_ending(task: &mut Task, mut ending: JobEnding) -> JobEnding {
    ending.message = task.without_secrets(&ending.message).chars().take(MESSAGE_LETTERS).collect();
    for host in &mut ending.hosts {
        host.error = task.without_secrets(&host.error);
    }
    for machine in ending.health.iter_mut().flat_map(|health| &mut health.machines) {
        *machine = task.without_secrets(machine);
    }
    ending
}

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
    let lock = fs::canonicalize(job_folder.file_path("lock")).unwrap_or_default();
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
