//! Kernel locks beside the state file: nothing to clean up after a crash.

use std::fs::{File, TryLockError};
use std::path::Path;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use crate::model::refusal::{Exit, Refusal};

use super::copies;

/// Held until dropped.
pub struct Lock {
    file: File,
    /// Signals as they were before a commit.
    signals: Option<SigSet>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // First the lock: what was held back may stop us here.
        let _ = self.file.unlock();
        if let Some(signals) = &self.signals {
            let _ = signals.thread_set_mask();
        }
    }
}

/// Whoever is stopped from a terminal in the middle of a commit would hold up everybody.
fn not_to_be_stopped() -> Option<SigSet> {
    let stops = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU]);
    stops.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()
}

/// Opens a lock file beside the state, making it if there is none.
fn open(state: &Path, what: &str) -> Result<File, Refusal> {
    let path = copies::beside(state, what);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    copies::belongs_with(state, &[&path]);
    file.map_err(|error| {
        let what = format!("the lock file `{}` cannot be opened", path.display());
        Refusal::new(Exit::State, what).because(error.to_string())
    })
}

impl Lock {
    /// Writers queue here, in the order the kernel chooses, for the milliseconds a commit takes.
    pub fn to_write(state: &Path) -> Result<Self, Refusal> {
        let file = open(state, ".lock")?;
        let lock = Self { file, signals: not_to_be_stopped() };
        lock.file.lock().map_err(|error| {
            Refusal::new(Exit::State, "the state file cannot be locked").because(error.to_string())
        })?;
        Ok(lock)
    }
}

/// The right to run a whole pass, or none while another one runs.
pub fn try_pass_lock(state: &Path) -> Result<Option<Lock>, Refusal> {
    let file = open(state, ".pass")?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { file, signals: None })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(Refusal::new(Exit::State, "the pass cannot be locked").because(error.to_string()))
        }
    }
}
