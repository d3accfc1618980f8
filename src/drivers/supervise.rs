//! The supervisor: a process of its own for each job. It is begun once, keeps its lock while
//! anything works, and writes down how it ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, setsid, umask};

use crate::model::job::Verb;
use crate::model::order::{Ending, Order, Verdict};

use super::journal::{Journal, Output};
use super::place::{Place, Supervisor, since};
use super::process::{self, Background, GRACE, Stopwatch};
use super::{agent, exec, installer, kube, machines};

/// Names the descriptor of the lock, which every program of the job holds.
const LOCK_FD: &str = "POOLCTL_LOCK_FD";
/// As much of what a driver says of its end as is kept, in letters.
const LONGEST_MESSAGE: usize = 16 << 10;
/// Where programs look for others; ours have absolute paths.
pub const PATH: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin";

/// A job that is supervised here.
pub struct Task {
    pub place: Place,
    pub order: Order,
    lock: File,
    watch: Stopwatch,
    stop: Arc<AtomicBool>,
    journal: Journal,
}

/// Why a program was ended.
pub enum Stopped {
    /// The deadline is over.
    Late,
    /// Somebody wanted it.
    Cancelled,
    Failed(io::Error),
}

/// A program that works beside others.
pub struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        // What it says while it ends fits into its pipe.
        process::end_group(&mut self.0, process::pause);
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Supervises the job in a folder, unless somebody does or did. Says nothing: nobody listens.
pub fn run(folder: &Path) -> io::Result<()> {
    // Already the first of a session is as good.
    let _ = setsid();
    umask(Mode::from_raw_mode(0o077));
    let place = Place::at(folder);
    let order = place.order()?;
    let Some(lock) = place.lock()? else { return Ok(()) };
    if !place.begin(&myself()?)? {
        return Ok(());
    }
    // Every program that works for the job holds the lock, so that it counts as running.
    fcntl_setfd(lock.as_fd(), FdFlags::empty())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let journal = Journal::new(&place, &order);
    let watch = Stopwatch::start();
    let mut task = Task { place, order, lock, watch, stop, journal };
    let ending = task.work();
    task.journal.finish();
    let ending = task.scrub_ending(ending);
    task.place.write("outcome", &serde_json::to_vec(&ending)?)
}

fn myself() -> io::Result<Supervisor> {
    let pid = rustix::process::getpid();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    let since = since(pid.as_raw_nonzero().get()).unwrap_or_default();
    Ok(Supervisor { pid: pid.as_raw_nonzero().get(), since, boot })
}

impl Task {
    fn work(&mut self) -> Ending {
        match self.after_others().and_then(|()| self.drive()) {
            Ok(ending) => ending,
            Err(Stopped::Late) => Ending::failed(format!("not over after {} s", self.order.limit)),
            Err(Stopped::Cancelled) => Ending::new(Verdict::BrokeOff, "cancelled"),
            Err(Stopped::Failed(error)) => Ending::failed(error.to_string()),
        }
    }

    fn drive(&mut self) -> Result<Ending, Stopped> {
        let own = self.order.driver.starts_with("exec:");
        let ending = match &*self.order.driver {
            _ if own => exec::run(self)?,
            "ipmitool" | "redfish" => machines::run(self)?,
            "agent" => agent::run(self)?,
            _ => installer::run(self)?,
        };
        if self.order.verb != Verb::Provision || !ending.succeeded() {
            return Ok(ending);
        }
        // What cannot be used or destroyed is not installed.
        let kubeconfig = self.place.kept("kubeconfig");
        let why = match (&kubeconfig, self.place.kept("metadata.json")) {
            (None, _) => Some("it saved no kubeconfig".to_owned()),
            (_, None) => Some("it saved no metadata.json".to_owned()),
            (Some(text), _) => kube::refused(text).map(|why| format!("kubeconfig: {why}")),
        };
        Ok(why.map_or(ending, Ending::failed))
    }

    /// Two programs never work on one cluster: those of earlier jobs are ended first, and what of
    /// them was not begun never will be.
    fn after_others(&mut self) -> Result<(), Stopped> {
        self.pause()?;
        let jobs = self.place.path().parent().map(Path::to_owned).unwrap_or_default();
        let who = myself()?;
        for job in self.order.before.clone() {
            let other = Place::of(&jobs, &job);
            let begun = Stopwatch::start();
            while !other.close(&who)? {
                cancel(&other, begun.elapsed() > GRACE);
                self.pause()?;
            }
            // What it saved at last the state may not know yet.
            for name in ["metadata.json", "kubeconfig"] {
                let saved = other.kept(name).filter(|_| self.order.verb != Verb::Provision);
                if let Some(text) = saved {
                    self.place.write(&format!("input/{name}"), text.as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// Looks at the clock and at who wants the job to end.
    pub fn pause(&mut self) -> Result<(), Stopped> {
        self.journal.take();
        if self.stop.load(Ordering::Relaxed) || self.place.file("cancel").exists() {
            return Err(Stopped::Cancelled);
        }
        if self.watch.elapsed() >= Duration::from_secs(self.order.limit) {
            return Err(Stopped::Late);
        }
        self.journal.wait();
        Ok(())
    }

    /// Runs a program to its end and returns its exit code, 128 and the signal for one that a
    /// signal ended. What it prints goes to the log.
    pub fn run(
        &mut self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<i32, Stopped> {
        let shown = arguments.join(" ");
        self.say(&format!(
            "$ {} {shown}",
            program.file_name().unwrap_or_default().to_string_lossy()
        ));
        let output = self.journal.listen()?;
        self.attend(program, arguments, folder, environment, output)
    }

    /// The same; what it prints is returned.
    pub fn ask(
        &mut self,
        program: &Path,
        arguments: &[&str],
        environment: &BTreeMap<String, String>,
    ) -> Result<(i32, String), Stopped> {
        let output = self.journal.ask()?;
        let folder = self.place.path().to_owned();
        let code = self.attend(program, arguments, &folder, environment, output)?;
        Ok((code, self.journal.answer()))
    }

    fn attend(
        &mut self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: Output,
    ) -> Result<i32, Stopped> {
        let mut child = self.start(program, arguments, folder, environment, output)?;
        loop {
            if let Some(code) = process::ended(&mut child)? {
                self.journal.take();
                return Ok(code);
            }
            if let Err(stopped) = self.pause() {
                // What it prints while it cleans up is read: a full pipe would hold it up.
                process::end_group(&mut child, || {
                    self.journal.take();
                    self.journal.wait();
                });
                return Err(stopped);
            }
        }
    }

    /// Begins a program that works beside what follows, as long as its value is there. What it
    /// prints goes to the log.
    pub fn beside(&mut self, program: &Path, arguments: &[&str]) -> io::Result<Beside> {
        let output = self.journal.listen()?;
        let folder = self.place.file("work");
        Ok(Beside(self.start(program, arguments, &folder, &BTreeMap::new(), output)?))
    }

    fn start(
        &self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: Output,
    ) -> io::Result<Child> {
        let home = self.place.path().display().to_string();
        let mut environment = environment.clone();
        for (name, value) in [
            ("PATH", PATH.to_owned()),
            ("HOME", home.clone()),
            ("POOLCTL_JOB_DIR", home),
            (LOCK_FD, self.lock.as_raw_fd().to_string()),
        ] {
            environment.insert(name.to_owned(), value);
        }
        // To drain its output, a process was started that must not hold the lock; the program must.
        fcntl_setfd(self.lock.as_fd(), FdFlags::empty())?;
        Background { program, arguments, folder, environment: &environment }.start(output)
    }

    /// A line of our own in the log.
    pub fn say(&mut self, line: &str) {
        self.journal.say(line);
    }

    /// A text without the secrets of the job.
    pub fn scrubbed(&mut self, text: &str) -> String {
        self.journal.scrubbed(text)
    }

    /// How it ended, without secrets and within bounds, as the state keeps it.
    fn scrub_ending(&mut self, mut ending: Ending) -> Ending {
        ending.message = self.scrubbed(&ending.message).chars().take(LONGEST_MESSAGE).collect();
        for host in &mut ending.hosts {
            host.error = self.scrubbed(&host.error);
        }
        for machine in ending.health.iter_mut().flat_map(|health| &mut health.machines) {
            *machine = self.scrubbed(machine);
        }
        ending
    }

    /// The program of a name, which was looked up when the job was given.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.order.programs.get(name).cloned()
    }
}

/// Ends another job: by asking its supervisor; by force, or without one, by killing whoever holds
/// its lock.
pub fn cancel(place: &Place, by_force: bool) {
    // Whoever was the first to want it says since when.
    drop(File::create_new(place.file("cancel")));
    if !by_force && !place.is_orphaned() {
        return;
    }
    let lock = fs::canonicalize(place.file("lock")).unwrap_or_default();
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
