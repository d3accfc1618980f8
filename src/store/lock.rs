//! Kernel locks on files beside the state file. The kernel releases them when a process ends, so
//! that nothing has to be cleaned up after a crash. Nothing here opens the state.

use std::fs::{File, TryLockError};
use std::path::Path;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use crate::model::refusal::{Exit, Refusal};

use super::copies::{give_to_owner_of_state, path_beside};

/// A lock that is held until it is dropped.
pub struct Lock {
    file: File,
    /// The signals that were blocked before the lock was taken, to be put back after it.
    signals_before: Option<SigSet>,
}

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
    /// milliseconds that a commit takes.
    pub fn to_write(state: &Path) -> Result<Self, Refusal> {
        let file = open_lock_file(state, ".lock")?;
        let lock = Self { file, signals_before: block_stop_signals() };
        lock.file.lock().map_err(|error| {
            Refusal::new(Exit::State, "the state file cannot be locked").because(error.to_string())
        })?;
        Ok(lock)
    }
}

/// Takes the lock that a pass over everything needs; none while another such pass runs.
pub fn try_pass_lock(state: &Path) -> Result<Option<Lock>, Refusal> {
    let file = open_lock_file(state, ".pass")?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { file, signals_before: None })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(Refusal::new(Exit::State, "the pass cannot be locked").because(error.to_string()))
        }
    }
}

/// Holds back the signals by which a terminal stops a program, and returns those that were blocked
/// before. A command that is stopped during a commit would keep every other writer waiting.
fn block_stop_signals() -> Option<SigSet> {
    let stop_signals = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU]);
    stop_signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()
}

/// Opens a lock file beside the state, and makes it if there is none.
fn open_lock_file(state: &Path, ending: &str) -> Result<File, Refusal> {
    let path = path_beside(state, ending);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    give_to_owner_of_state(state, &[&path]);
    file.map_err(|error| {
        Refusal::new(Exit::State, format!("the lock file `{}` cannot be opened", path.display()))
            .because(error.to_string())
    })
}
