//! Who holds a lock: what its holder wrote into the lock file, and what the kernel says of that
//! process now. Nothing here takes a lock.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::UNIX_EPOCH;

use crate::model::time::Time;

/// Longer lock files than this were not written here.
const MAX_RECORD: usize = 512;
/// As many letters of a command are shown.
const MAX_COMMAND_LETTERS: usize = 40;

/// The process that has taken a lock, as it wrote that down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pid: u32,
    /// When it was started, in ticks since the boot: two processes may have had the same number.
    started: String,
    /// The machine or the container in which it has this number.
    host: String,
    /// When it took the lock.
    since: Time,
}

/// What the kernel says of a process.
struct Process {
    started: String,
    /// `T` for one that was stopped by a signal, `t` for one that a debugger has stopped.
    state: char,
}

impl LockHolder {
    /// Writes down that this process holds a lock, so that others can name it.
    pub fn write(file: &File) {
        let pid = std::process::id();
        let started = read_process(pid).map(|process| process.started).unwrap_or_default();
        // The time is that of the file. What an earlier holder wrote after the end of this line
        // does not count. On a full disk nobody is named.
        drop(file.write_all_at(format!("{pid} {started} {}\n", host_name()).as_bytes(), 0));
    }

    /// A sentence about who holds a lock and since when.
    pub fn describe(file: &File) -> String {
        let Some(holder) = Self::read(file) else {
            return "a process that cannot be named holds the write lock".into();
        };
        let Self { pid, host, since, .. } = &holder;
        match holder.find_process() {
            Some(process) => {
                let stopped = if process.is_stopped() { ", which is stopped," } else { "" };
                let command = command_of(*pid);
                format!(
                    "`{command}` (process {pid}){stopped} has held the write lock since {since}"
                )
            }
            None => format!("process {pid} of `{host}` has held the write lock since {since}"),
        }
    }

    /// What helps somebody whom the holder of a lock keeps waiting.
    pub fn advise(file: &File) -> String {
        let Some(holder) = Self::read(file) else {
            return "find the process: fuser -v \"$(poolctl state path).lock\"".into();
        };
        let pid = holder.pid;
        match holder.find_process() {
            Some(process) if process.is_stopped() => {
                format!("kill -CONT {pid} lets it go on; kill -KILL {pid} ends it")
            }
            Some(_) => format!("wait for it, or end it: kill {pid}"),
            None => format!("on `{}`, let process {pid} go on, or end it", holder.host),
        }
    }

    /// What the last holder has written. None if that is not usable, or if the holder was a process
    /// of this machine that is gone: then another one holds the lock, which could not write.
    fn read(file: &File) -> Option<Self> {
        let mut bytes = [0; MAX_RECORD];
        let size = file.read_at(&mut bytes, 0).ok()?;
        let record = String::from_utf8_lossy(&bytes[..size]).into_owned();
        let mut words = record.lines().next()?.split(' ');
        let pid = words.next()?.parse().ok()?;
        let started = words.next()?.to_owned();
        let host = words.next()?.to_owned();
        let modified = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
        let since_epoch = modified.duration_since(UNIX_EPOCH).ok()?;
        let since = Time(i64::try_from(since_epoch.as_micros()).ok()?);
        let holder = Self { pid, started, host, since };
        let is_gone = holder.host == host_name() && holder.find_process().is_none();
        if is_gone { None } else { Some(holder) }
    }

    /// The process itself, if it can be seen from here.
    fn find_process(&self) -> Option<Process> {
        if self.host != host_name() {
            return None;
        }
        let process = read_process(self.pid)?;
        if process.started == self.started { Some(process) } else { None }
    }
}

impl Process {
    fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// Reads what proc(5) says of a process.
fn read_process(pid: u32) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name of the program, which may contain anything. The state is the
    // third field and the start the twenty-second.
    let (_, fields_after_name) = status.rsplit_once(") ")?;
    let mut fields = fields_after_name.split(' ');
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?.to_owned();
    Some(Process { started, state })
}

/// The program and the verb of a process; `poolctl` if its command line may not be read. The other
/// words may name what is not for everybody who waits.
fn command_of(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command_line = String::from_utf8_lossy(&bytes).into_owned();
    let mut words = command_line.split('\0');
    let path = words.next().unwrap_or_default();
    let program = path.rsplit('/').next().unwrap_or_default();
    let verb = words.next().unwrap_or_default();
    let command: String = format!("{program} {verb}").chars().take(MAX_COMMAND_LETTERS).collect();
    if program.is_empty() { "poolctl".into() } else { command.trim_end().to_owned() }
}

/// The name of this machine or container.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.split_whitespace().next().unwrap_or("localhost").to_owned()
}
