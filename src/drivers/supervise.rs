//! The supervisor: a process of its own for each job. It is begun once, keeps its lock while
//! anything works, and writes down how it ended. Never does the work itself.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, setsid, umask};

use crate::model::job::Verb;
use crate::model::order::{Ending, Verdict};

use super::dispatch;
use super::place::{Place, Supervisor, process_start_ticks};
use super::process::{GRACE, Stopwatch};
use super::task::{Stopped, Task};

/// As much of what a driver says of its end as is kept, in letters.
const LONGEST_MESSAGE: usize = 16 << 10;

/// Supervises the job in a folder, unless somebody does or did. Says nothing: nobody listens.
pub fn run(folder: &Path) -> io::Result<()> {
    // Already the first of a session is as good.
    let _ = setsid();
    umask(Mode::from_raw_mode(0o077));
    let place = Place::from_path(folder);
    let order = match place.read_order() {
        // It is no folder of a job: nothing is written there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        order => order,
    };
    let Some(lock) = place.try_lock()? else { return Ok(()) };
    if !place.mark_started(&find_ourselves()?)? {
        return Ok(());
    }
    let order = match order {
        Ok(order) => order,
        // Another version may have written it. Without an outcome the job would never end.
        Err(error) => {
            let ending = Ending::failed(format!("order.json cannot be read: {error}"));
            return place.write_file("outcome", &serde_json::to_vec(&ending)?);
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut task = Task::new(place, order, lock, stop)?;
    let ending = work_on(&mut task);
    task.finish_log();
    let ending = scrub_ending(&mut task, ending);
    task.job_folder.write_file("outcome", &serde_json::to_vec(&ending)?)
}

fn find_ourselves() -> io::Result<Supervisor> {
    let pid = rustix::process::getpid();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    let since = process_start_ticks(pid.as_raw_nonzero().get()).unwrap_or_default();
    Ok(Supervisor { pid: pid.as_raw_nonzero().get(), since, boot })
}

fn work_on(task: &mut Task) -> Ending {
    match end_earlier_jobs(task).and_then(|()| dispatch::run_driver(task)) {
        Ok(ending) => ending,
        Err(Stopped::DeadlineExceeded) => {
            Ending::failed(format!("not over after {} s", task.order.limit))
        }
        Err(Stopped::Cancelled) => Ending::new(Verdict::BrokeOff, "cancelled"),
        Err(Stopped::Failed(error)) => Ending::failed(error.to_string()),
    }
}

/// Two programs never work on one cluster: those of earlier jobs are ended first, and what of
/// them was not begun never will be.
fn end_earlier_jobs(task: &mut Task) -> Result<(), Stopped> {
    task.wait_unless_stopped()?;
    let jobs = task.job_folder.path().parent().map(Path::to_owned).unwrap_or_default();
    let ourselves = find_ourselves()?;
    for job in task.order.before.clone() {
        let earlier = Place::of(&jobs, &job);
        let begun = Stopwatch::start();
        while !earlier.prevent_start(&ourselves)? {
            cancel(&earlier, begun.elapsed() > GRACE);
            task.wait_unless_stopped()?;
        }
        if task.order.verb == Verb::Provision {
            continue;
        }
        // What it saved at last the state may not know yet.
        for name in ["metadata.json", "kubeconfig"] {
            if let Some(text) = earlier.read_saved(name) {
                task.job_folder.write_file(&format!("input/{name}"), text.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// How it ended, without secrets and within bounds, as the state keeps it.
fn scrub_ending(task: &mut Task, mut ending: Ending) -> Ending {
    ending.message = task.without_secrets(&ending.message).chars().take(LONGEST_MESSAGE).collect();
    for host in &mut ending.hosts {
        host.error = task.without_secrets(&host.error);
    }
    for machine in ending.health.iter_mut().flat_map(|health| &mut health.machines) {
        *machine = task.without_secrets(machine);
    }
    ending
}

/// Ends another job: by asking its supervisor; by force, or without one, by killing whoever holds
/// its lock.
pub fn cancel(place: &Place, by_force: bool) {
    // Whoever was the first to want it says since when.
    drop(File::create_new(place.file_path("cancel")));
    if !by_force && !place.is_orphaned() {
        return;
    }
    let lock = fs::canonicalize(place.file_path("lock")).unwrap_or_default();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(pid) = pid.filter(|pid| holds(*pid, &lock)).and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether a process holds the lock of a file: not one that merely has it open.
fn holds(pid: i32, lock: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut its = open.filter(|one| fs::read_link(one.path()).is_ok_and(|path| path == lock));
    let locked = |one: fs::DirEntry| {
        let info = format!("/proc/{pid}/fdinfo/{}", one.file_name().to_string_lossy());
        fs::read_to_string(info).is_ok_and(|text| text.contains("FLOCK"))
    };
    pid != rustix::process::getpid().as_raw_nonzero().get() && its.any(locked)
}
