//! Supervises a job in a process of its own: begins it once, holds its lock while anything works,
//! and writes down how it ended. Never does the work itself; drivers do.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::Mode;
use rustix::process::{setsid, umask};

use crate::model::job::Verb;
use crate::model::order::{JobEnding, Verdict};

use super::cancel::{CancelMode, cancel_job};
use super::job_folder::{JobFolder, Supervisor};
use super::process::{GRACE, Stopwatch};
use super::task::{Stopped, Task};
use super::{dispatch, evidence};

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
    evidence::keep(&mut task, &ending);
    task.finish_log();
    let ending = scrub_ending(&mut task, ending);
    task.job_folder.write_file("outcome", &serde_json::to_vec(&ending)?)
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
