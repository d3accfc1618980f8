//! An open state file and the connection that everything is read and written through. Opens no file
//! and makes none.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::model::refusal::Refusal;

use super::copies::beside;
use super::schema::{SCHEMA, read_schema};

/// The log is folded into the state file when it is larger than this.
const LOG_LIMIT: u64 = 512 << 10;

/// How long a writer outside of poolctl is waited for.
pub const BUSY: Duration = Duration::from_secs(10);

/// An open state file.
pub struct Store {
    file: Connection,
    /// A migrated copy in memory, which is read as long as the file has an earlier schema.
    copy: Option<Connection>,
    /// The file was migrated since, here or by another command.
    is_migrated: Cell<bool>,
    path: PathBuf,
}

impl Store {
    pub(super) fn new(file: Connection, copy: Option<Connection>, path: PathBuf) -> Self {
        Self { file, copy, is_migrated: Cell::new(false), path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is read and written.
    pub(super) fn conn(&self) -> &Connection {
        self.earlier_copy().unwrap_or(&self.file)
    }

    /// The file itself. It has the schema of this program only after `migrate`.
    pub(super) fn file(&self) -> &Connection {
        &self.file
    }

    pub(super) fn file_mut(&mut self) -> &mut Connection {
        &mut self.file
    }

    /// The copy in memory of a state that still has an earlier schema.
    fn earlier_copy(&self) -> Option<&Connection> {
        let copy = self.copy.as_ref()?;
        // Looked at between transactions only: what is read in one comes from one place.
        if !self.is_migrated.get() && copy.is_autocommit() {
            let schema = read_schema(&self.file);
            self.is_migrated.set(schema.is_ok_and(|schema| schema >= SCHEMA));
        }
        if self.is_migrated.get() { None } else { Some(copy) }
    }

    pub(super) fn is_earlier(&self) -> bool {
        self.earlier_copy().is_some()
    }

    /// From now on the file is read, not the copy.
    pub(super) fn set_migrated(&self) {
        self.is_migrated.set(true);
    }

    /// A state keeps a log; a backup that was copied into place does so from its first write on.
    pub(super) fn keep_log(&self) -> Result<(), Refusal> {
        let mode: String = self.conn().query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        if mode != "wal" {
            self.conn().query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        }
        Ok(())
    }

    /// Folds the log into the state file when it has grown. Nothing depends on it.
    pub fn checkpoint(&self) {
        if log_size(&self.path) <= LOG_LIMIT {
            return;
        }
        // Readers only put it off: nobody waits for them.
        drop(self.file.busy_timeout(Duration::ZERO));
        self.fold_log();
        drop(self.file.busy_timeout(BUSY));
    }

    pub(super) fn fold_log(&self) {
        drop(self.file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    }
}

/// Bytes in the log that are not folded in yet, roughly.
pub fn log_size(path: &Path) -> u64 {
    fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len())
}
