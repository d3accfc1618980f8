//! Kernel locks beside the state file: nothing to clean up after a crash.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::model::refusal::{Exit, Refusal};

use super::copies;

/// Held until dropped.
pub struct Lock(#[expect(dead_code, reason = "held for its lock, never read")] File);

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
        file.lock().map_err(|error| {
            Refusal::new(Exit::State, "the state file cannot be locked").because(error.to_string())
        })?;
        Ok(Self(file))
    }
}

/// The right to run a whole pass, or none while another one runs.
pub fn try_pass_lock(state: &Path) -> Result<Option<Lock>, Refusal> {
    let file = open(state, ".pass")?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(Refusal::new(Exit::State, "the pass cannot be locked").because(error.to_string()))
        }
    }
}
