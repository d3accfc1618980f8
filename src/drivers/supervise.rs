//! The supervisor: a process of its own for each job. It is begun once, keeps its lock while
//! anything works, and writes down how it ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
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
use crate::render::redact;

use super::place::{Place, Supervisor, plain, since};
use super::process::{self, Background, GRACE, Stopwatch};
use super::scrub::Scrubber;
use super::{agent, exec, installer, kube, machines};

/// Names the descriptor of the lock, which every program of the job holds.
const LOCK_FD: &str = "POOLCTL_LOCK_FD";
/// As much of the output as is taken at a time, and as a log may have.
const PIECE: u64 = 1 << 20;
const LONGEST_LOG: u64 = 64 << 20;
/// Where programs look for others; ours have absolute paths.
pub const PATH: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin";

/// A job that is supervised here.
pub struct Task {
    pub place: Place,
    pub order: Order,
    lock: File,
    watch: Stopwatch,
    stop: Arc<AtomicBool>,
    scrubber: Scrubber,
    /// How much of the raw output is in the log.
    read: u64,
    /// Files that were saved when secrets were last looked for.
    saved: usize,
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
        process::end_group(&mut self.0);
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
    let scrubber = Scrubber::new(secrets(&place, &order).iter().map(String::as_str));
    let watch = Stopwatch::start();
    let mut task = Task { place, order, lock, watch, stop, scrubber, read: 0, saved: 0 };
    let ending = task.work();
    task.flow(true);
    let mut ending = Ending { message: task.scrubbed(&ending.message), ..ending };
    for host in &mut ending.hosts {
        host.error = task.scrubbed(&host.error);
    }
    task.place.write("outcome", &serde_json::to_vec(&ending)?)
}

fn myself() -> io::Result<Supervisor> {
    let pid = rustix::process::getpid();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    let since = since(pid.as_raw_nonzero().get()).unwrap_or_default();
    Ok(Supervisor { pid: pid.as_raw_nonzero().get(), since, boot })
}

/// All secrets that the job was given, or has made.
fn secrets(place: &Place, order: &Order) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![place.file("input"), place.file("saved")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(text) =
                plain(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok())
            {
                let named = entry.file_name() != "install-config.yaml";
                found.extend(redact::secrets_in(&text, named));
            }
        }
    }
    for (name, value) in &order.environment {
        found.extend(redact::secret_of_variable(name, value));
    }
    found
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
        self.flow(false);
        if self.stop.load(Ordering::Relaxed) || self.place.file("cancel").exists() {
            return Err(Stopped::Cancelled);
        }
        if self.watch.elapsed() >= Duration::from_secs(self.order.limit) {
            return Err(Stopped::Late);
        }
        process::pause();
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
        ))?;
        let raw = File::options().create(true).append(true).open(self.place.file("raw"))?;
        let output = (raw.try_clone()?, raw);
        self.attend(program, arguments, folder, environment, output)
    }

    /// The same; what it prints is returned.
    pub fn ask(
        &mut self,
        program: &Path,
        arguments: &[&str],
        environment: &BTreeMap<String, String>,
    ) -> Result<(i32, String), Stopped> {
        let path = self.place.file("answer");
        let raw = File::options().create(true).append(true).open(self.place.file("raw"))?;
        let output = (File::create(&path)?, raw);
        let folder = self.place.path().to_owned();
        let code = self.attend(program, arguments, &folder, environment, output)?;
        let text = fs::read(&path)?;
        fs::remove_file(&path)?;
        Ok((code, String::from_utf8_lossy(&text).into_owned()))
    }

    fn attend(
        &mut self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: (File, File),
    ) -> Result<i32, Stopped> {
        let mut child = self.start(program, arguments, folder, environment, output)?;
        loop {
            if let Some(code) = process::ended(&mut child)? {
                self.flow(false);
                return Ok(code);
            }
            if let Err(stopped) = self.pause() {
                process::end_group(&mut child);
                return Err(stopped);
            }
        }
    }

    /// Begins a program that works beside what follows, as long as its value is there. What it
    /// prints goes to the log.
    pub fn beside(&self, program: &Path, arguments: &[&str]) -> io::Result<Beside> {
        let raw = File::options().create(true).append(true).open(self.place.file("raw"))?;
        let output = (raw.try_clone()?, raw);
        let folder = self.place.file("work");
        Ok(Beside(self.start(program, arguments, &folder, &BTreeMap::new(), output)?))
    }

    fn start(
        &self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: (File, File),
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
        Background { program, arguments, folder, environment: &environment }.start(output)
    }

    /// A line of our own in the log.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        let mut raw = File::options().create(true).append(true).open(self.place.file("raw"))?;
        writeln!(raw, "{line}")?;
        self.flow(false);
        Ok(())
    }

    /// Takes what programs have printed into the log, without secrets. What cannot be written now
    /// is tried again: a log ends no job.
    fn flow(&mut self, end: bool) {
        self.learn();
        loop {
            let before = self.read;
            let flowed = self.flowing(false);
            if !end || flowed.is_err() || self.read == before {
                break;
            }
        }
        if end {
            let _ = self.flowing(true);
        }
    }

    fn flowing(&mut self, end: bool) -> io::Result<()> {
        let Ok(mut raw) = File::open(self.place.file("raw")) else { return Ok(()) };
        let mut log = File::options().create(true).append(true).open(self.place.file("log"))?;
        raw.seek(SeekFrom::Start(self.read))?;
        let mut new = Vec::new();
        raw.take(PIECE).read_to_end(&mut new)?;
        let mut shown = self.scrubber.pass(&new);
        if end {
            shown.extend(self.scrubber.finish());
        }
        self.read += new.len() as u64;
        if log.metadata()?.len() < LONGEST_LOG {
            log.write_all(&shown)?;
        }
        Ok(())
    }

    /// What programs have saved meanwhile is a secret, too.
    fn learn(&mut self) {
        let saved = fs::read_dir(self.place.file("saved")).map_or(0, Iterator::count);
        if saved != self.saved {
            self.saved = saved;
            let known = secrets(&self.place, &self.order);
            self.scrubber.know(known.iter().map(String::as_str));
        }
    }

    fn scrubbed(&self, text: &str) -> String {
        let known = secrets(&self.place, &self.order);
        let mut scrubber = Scrubber::new(known.iter().map(String::as_str));
        let mut shown = scrubber.pass(text.as_bytes());
        shown.extend(scrubber.finish());
        String::from_utf8_lossy(&shown).into_owned()
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
