//! Kernel locks on files beside the state file. The kernel releases them when a process ends, so
//! that nothing has to be cleaned up after a crash. Nothing here opens the state.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Span;

use super::copies::{give_to_owner_of_state, path_beside};
use super::lock_holder::LockHolder;
use super::second_names::refuse_second_name;

/// A command that waits longer than this for the write lock says who holds it.
const SILENT_WAIT: Duration = Duration::from_secs(2);
/// How long a command that only reads waits for a writer. A commit takes milliseconds, and the import
/// of a large state a few seconds.
const LONGEST_COMMIT: Duration = Duration::from_secs(3);

/// Network file systems, by their numbers in statfs(2): NFS, SMB, CIFS, SMB 2, AFS and 9P.
const NETWORK_FILE_SYSTEMS: [u64; 6] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f, 0x0102_1997];

/// A lock that is held until it is dropped.
pub struct Lock {
    file: File,
    /// The signals that were blocked before the lock was taken, to be put back after it.
    signals_before: Option<SigSet>,
}

/// How a command waits for the write lock.
#[derive(Clone, Copy)]
pub struct LockWait {
    /// After this time the command is refused with exit code 7.
    pub limit: Span,
    /// Tells people what is waited for, in a sentence without a full stop.
    pub report: fn(&str),
    /// Whether locks are trusted also on a network file system.
    pub trusts_network: bool,
}

impl LockWait {
    /// How long a command waits if nothing else is asked for.
    pub const LIMIT: Span = Span::seconds(60);
}

impl Default for LockWait {
    /// Waits a minute and reports nothing.
    fn default() -> Self {
        Self { limit: Self::LIMIT, report: ignore_report, trusts_network: false }
    }
}

fn ignore_report(_: &str) {}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock goes first: a stop signal that was held back takes effect as soon as it is let
        // in.
        let _ = self.file.unlock();
        if let Some(signals) = &self.signals_before {
            let _ = signals.thread_set_mask();
        }
    }
}

impl Lock {
    /// Waits for the write lock. Writers queue here, in an order that the kernel chooses, for the
    /// milliseconds that a commit takes. A wait that takes longer names the process that holds the
    /// lock, and ends with a refusal.
    pub fn to_write(state: &Path, wait: LockWait) -> Result<Self, Refusal> {
        if !wait.trusts_network && is_on_network(state) {
            return Err(untrusted_file_system(state));
        }
        let file = open_lock_file(state, ".lock")?;
        let lock = Self { file, signals_before: block_stop_signals() };
        lock_within_limit(&lock.file, wait)?;
        LockHolder::write(&lock.file);
        Ok(lock)
    }
}

/// Reads what `read` reads. If others changed the state so often meanwhile that SQLite gave up, reads
/// once more with the write lock, for which writers wait. Nothing is made or written.
pub fn read_beside_writers<T>(
    state: &Path,
    read: impl Fn() -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let outcome = read();
    if !outcome.as_ref().is_err_and(|refusal| refusal.exit == Exit::Busy) {
        return outcome;
    }
    let Ok(file) = File::open(path_beside(state, ".lock")) else { return outcome };
    let lock = Lock { file, signals_before: block_stop_signals() };
    // A writer that holds the lock for longer commits nothing meanwhile, and was not in the way.
    match wait_for_lock(&lock.file, LONGEST_COMMIT) {
        Ok(LockOutcome::Taken) => read(),
        _ => outcome,
    }
}

/// Takes the lock that a pass over everything needs; none while another such pass runs.
pub fn try_pass_lock(state: &Path) -> Result<Option<Lock>, Refusal> {
    try_lock_beside(state, ".pass", "the pass cannot be locked")
}

/// Takes the lock of the process that tells a program of changed addresses; none while there is
/// another such process.
pub fn try_tell_lock(state: &Path) -> Result<Option<Lock>, Refusal> {
    try_lock_beside(state, ".tell", "the program of onChange cannot be locked")
}

/// Takes the lock of a file beside the state, unless another process has it.
fn try_lock_beside(state: &Path, ending: &str, problem: &str) -> Result<Option<Lock>, Refusal> {
    refuse_second_name(state)?;
    let file = open_lock_file(state, ending)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { file, signals_before: None })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(Refusal::new(Exit::State, problem).because(error.to_string()))
        }
    }
}

/// Whether a file is on a network file system, whose locks may not hold on other machines.
pub fn is_on_network(path: &Path) -> bool {
    let system = rustix::fs::statfs(path);
    system.is_ok_and(|system| NETWORK_FILE_SYSTEMS.contains(&system.f_type.unsigned_abs()))
}

fn untrusted_file_system(state: &Path) -> Refusal {
    let path = state.display();
    Refusal::new(Exit::State, format!("the state `{path}` is on a network file system"))
        .because("file locks are not reliable there: two machines may lease one cluster")
        .because("it can be read and backed up, but not changed")
        .advise("use a local disk, or add --i-know if only one machine ever uses the state")
}

/// Who has held the write lock for longer than a commit takes. Nothing is made or written.
pub fn find_frozen_writer(state: &Path) -> Option<String> {
    // Without a file there is no lock, and where it cannot be opened nobody can write.
    let file = File::options().write(true).read(true).open(path_beside(state, ".lock")).ok()?;
    match wait_for_lock(&file, LONGEST_COMMIT) {
        Ok(LockOutcome::Late) => Some(LockHolder::describe(&file)),
        _ => None,
    }
}

/// How a wait for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockOutcome {
    Taken,
    Late,
}

/// Takes the lock of a file, and says who holds it if that takes long.
fn lock_within_limit(file: &File, wait: LockWait) -> Result<(), Refusal> {
    let limit = Duration::from_micros(wait.limit.0.unsigned_abs());
    let silent_wait = SILENT_WAIT.min(limit);
    if wait_for_lock(file, silent_wait).map_err(|error| unlockable_state(&error))?
        == LockOutcome::Taken
    {
        return Ok(());
    }
    if limit > silent_wait {
        (wait.report)(&format!("waiting for the write lock: {}", LockHolder::describe(file)));
        let rest = limit.saturating_sub(silent_wait);
        if wait_for_lock(file, rest).map_err(|error| unlockable_state(&error))?
            == LockOutcome::Taken
        {
            return Ok(());
        }
    }
    let waited = wait.limit.to_short_text();
    Err(Refusal::new(Exit::Busy, format!("the state was locked by another command for {waited}"))
        .because(LockHolder::describe(file))
        .advise(LockHolder::advise(file)))
}

/// Waits so long for the lock of a file.
fn wait_for_lock(file: &File, limit: Duration) -> io::Result<LockOutcome> {
    match file.try_lock() {
        Ok(()) => return Ok(LockOutcome::Taken),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The kernel waits without a limit, so another thread waits for it. The lock belongs to both
    // descriptors of the file. If this wait is given up, so is the other descriptor, as soon as it
    // has the lock.
    let waiting_file = file.try_clone()?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let locked = waiting_file.lock();
        // Nobody listens any more if the wait was given up.
        drop(sender.send(locked));
    })?;
    match receiver.recv_timeout(limit) {
        Ok(locked) => locked.map(|()| LockOutcome::Taken),
        Err(_) => Ok(LockOutcome::Late),
    }
}

fn unlockable_state(error: &io::Error) -> Refusal {
    Refusal::new(Exit::State, "the state file cannot be locked").because(error.to_string())
}

/// Holds back the signals by which a terminal stops a program, and returns those that were blocked
/// before. A command that is stopped during a commit would keep every other writer waiting.
fn block_stop_signals() -> Option<SigSet> {
    let stop_signals = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU]);
    stop_signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()
}

/// Makes the file of the write lock of a new state. It is there as long as the state is: a state
/// without it is a copy.
pub fn create_lock_file(state: &Path) -> Result<(), Refusal> {
    open_lock_file(state, ".lock").map(drop)
}

/// The refusal of a change to a state that can only be read.
pub fn read_only_state(path: &Path) -> Refusal {
    let path = path.display();
    Refusal::new(Exit::State, format!("the state `{path}` is read-only"))
        .because("it can be read, exported and backed up elsewhere, but not changed")
        .advise(format!("check its mode and its mount: ls -l '{path}'; df '{path}'"))
}

/// Opens a lock file beside the state, and makes it if there is none.
fn open_lock_file(state: &Path, ending: &str) -> Result<File, Refusal> {
    let path = path_beside(state, ending);
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    give_to_owner_of_state(state, &[&path]);
    file.map_err(|error| {
        if error.kind() == ErrorKind::ReadOnlyFilesystem {
            return read_only_state(state);
        }
        Refusal::new(Exit::State, format!("the lock file `{}` cannot be opened", path.display()))
            .because(error.to_string())
    })
}
