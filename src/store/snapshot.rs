//! Consistent copies of a whole database, whoever writes to it meanwhile. Knows nothing of what is
//! in it.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::model::refusal::{Exit, Refusal};

use super::copies::{abandoned, parent, unfinished};

/// Writes a consistent copy in place of whatever is there, whole or not at all.
pub fn write_snapshot(from: &Connection, to: &Path) -> Result<(), Refusal> {
    let unwritable = |error: std::io::Error| Refusal::unwritable(to, &error);
    remove_abandoned(to);
    let file = tempfile::Builder::new()
        .prefix(&unfinished(to))
        .tempfile_in(parent(to))
        .map_err(unwritable)?;
    let mut copy = Connection::open(file.path())?;
    transfer(from, &mut copy)?;
    // One file, readable without a log beside it.
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    copy.close().map_err(|(_, error)| Refusal::from(error))?;
    file.as_file().sync_all().map_err(unwritable)?;
    file.persist(to).map_err(|error| unwritable(error.error))?;
    File::open(parent(to)).and_then(|folder| folder.sync_all()).map_err(unwritable)
}

/// Removes what backups that were killed have left.
fn remove_abandoned(to: &Path) {
    for path in abandoned(to) {
        drop(fs::remove_file(path));
    }
}

/// Everything in one step, so that nobody writes between its parts.
pub fn transfer(from: &Connection, to: &mut Connection) -> Result<(), Refusal> {
    match Backup::new(from, to)?.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(Refusal::new(Exit::State, "the state file is locked by another program")),
    }
}
