//! An open state file, and the connection that everything is read and written through. Nothing here
//! opens a file or makes one.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::copies::{give_to_owner_of_state, path_beside};
use super::last_commit::forget_last_commit;
use super::lock::{Lock, LockWait, read_only_state};
use super::reserve::{make_reserve, use_reserve};
use super::schema::{SCHEMA, read_schema};
use super::second_names::refuse_second_name;
use super::temporary::{parent_folder, remove_abandoned_files};

/// The write-ahead log is folded into the state file when it has more bytes than this.
const LOG_LIMIT: u64 = 512 << 10;

/// How long SQLite waits for a program other than poolctl that holds the write lock.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// An open state file.
pub struct Store {
    file: Rc<Connection>,
    /// A migrated copy in memory, which is read as long as the file has an earlier schema.
    copy: Option<Connection>,
    /// Whether the file has been migrated since it was opened, by this command or by another one.
    is_migrated: Cell<bool>,
    /// When the command that opened the store began; nothing is known before it says so.
    opened_at: Cell<Time>,
    path: PathBuf,
    /// How this command waits for others that write.
    lock_wait: LockWait,
    /// Whether this command has looked for what killed commands have left.
    is_swept: Cell<bool>,
    /// Whether this command may use the reserve, because it gives something back.
    may_use_reserve: Cell<bool>,
}

impl Store {
    /// A store over an open file. `copy` is the migrated copy of a file of an earlier schema.
    pub(super) fn new(file: Connection, copy: Option<Connection>, path: PathBuf) -> Self {
        Self {
            file: Rc::new(file),
            copy,
            is_migrated: Cell::new(false),
            opened_at: Cell::default(),
            path,
            lock_wait: LockWait::default(),
            is_swept: Cell::new(false),
            may_use_reserve: Cell::new(false),
        }
    }

    /// Leaves the file open until the process ends, also after the store is dropped. To close it is
    /// slow: SQLite frees one by one what it knows of the tables, and the kernel frees all of that at
    /// once.
    pub fn leave_open(&self) {
        mem::forget(Rc::clone(&self.file));
    }

    /// Tells the store what time it is, for facts that are true only for a time.
    pub fn set_time(&self, now: Time) {
        self.opened_at.set(now);
    }

    /// The time as the store was told it. It is never before the last pass.
    pub(super) fn time(&self) -> Result<Time, Refusal> {
        Ok(self.opened_at.get().max(self.read_mark()?.now))
    }

    /// Sets how this command waits for others that write.
    #[must_use]
    pub fn with_lock_wait(self, lock_wait: LockWait) -> Self {
        Self { lock_wait, ..self }
    }

    /// Waits for the write lock. Needed before anything is written.
    pub fn lock_to_write(&self) -> Result<Lock, Refusal> {
        refuse_second_name(&self.path)?;
        if self.file.is_readonly("main")? {
            return Err(read_only_state(&self.path));
        }
        let lock = Lock::to_write(&self.path, self.lock_wait)?;
        if !self.is_swept.replace(true) {
            remove_abandoned_files(&self.path);
            make_reserve(&self.path);
        }
        if self.may_use_reserve.get() {
            use_reserve(&self.path);
        }
        Ok(lock)
    }

    /// Why the state can only be read, and what to do about it, if the file has other names than
    /// this one.
    pub fn find_second_name(&self) -> Option<Refusal> {
        refuse_second_name(&self.path).err()
    }

    /// Lets this command use the reserve on a full disk, because it gives something back: it
    /// releases, deletes or expires.
    pub fn allow_reserve(&self) {
        self.may_use_reserve.set(true);
    }

    /// Where the state file is, with all symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The connection for everything that is read and written: the migrated copy while the file has
    /// an earlier schema, else the file.
    pub(super) fn conn(&self) -> &Connection {
        self.earlier_copy().unwrap_or(&self.file)
    }

    /// The file itself. It has the schema of this program only after `migrate`.
    pub(super) fn file(&self) -> &Connection {
        &self.file
    }

    /// The copy in memory, as long as the file still has an earlier schema.
    fn earlier_copy(&self) -> Option<&Connection> {
        let copy = self.copy.as_ref()?;
        // Only between transactions may the file take the place of the copy: whatever is read in
        // one transaction must come from one place.
        if !self.is_migrated.get() && copy.is_autocommit() {
            let schema = read_schema(&self.file);
            self.is_migrated.set(schema.is_ok_and(|schema| schema >= SCHEMA));
        }
        if self.is_migrated.get() { None } else { Some(copy) }
    }

    /// Whether the file has an earlier schema than this program.
    pub(super) fn is_earlier(&self) -> bool {
        self.earlier_copy().is_some()
    }

    /// Makes the store read the file from now on, not the copy.
    pub(super) fn set_migrated(&self) {
        self.is_migrated.set(true);
    }

    /// Turns the write-ahead log on unless it is on, and makes sure that it keeps its name. A backup is
    /// one file without a log; when it has been copied into place, its first write calls this.
    pub(super) fn keep_log(&self) -> Result<(), Refusal> {
        if !self.has_log()? {
            // The record is that of the state in whose place the backup was copied.
            forget_last_commit(&self.path);
            self.file.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        }
        self.sync_name_of_log()
    }

    /// Makes sure that the log, or the journal of a file without one, keeps its name when the power goes:
    /// without it, half a change would stay. Needed before a change that comes before `keep_log`.
    pub(super) fn secure_journal(&self) -> Result<(), Refusal> {
        if self.has_log()? {
            return self.sync_name_of_log();
        }
        // SQLite takes a journal that is there.
        let journal = path_beside(&self.path, "-journal");
        let opened = File::options().create(true).append(true).mode(0o600).open(&journal);
        opened.map_err(|error| Refusal::unwritable(&journal, &error))?;
        give_to_owner_of_state(&self.path, &[&journal]);
        self.sync_folder()
    }

    fn has_log(&self) -> Result<bool, Refusal> {
        let mut statement = self.file.prepare_cached("PRAGMA journal_mode")?;
        let mode: String = statement.query_row([], |row| row.get(0))?;
        Ok(mode == "wal")
    }

    /// Syncs the folder of a log that may be new: one without content. Whoever has written to a log
    /// has synced its folder before.
    fn sync_name_of_log(&self) -> Result<(), Refusal> {
        if log_size(&self.path) > 0 { Ok(()) } else { self.sync_folder() }
    }

    /// Syncs the names of the files beside the state.
    fn sync_folder(&self) -> Result<(), Refusal> {
        // The folder cannot be synced by an account that may not read it.
        let Ok(folder) = File::open(parent_folder(&self.path)) else { return Ok(()) };
        match folder.sync_all() {
            // Not every file system can sync folders.
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            synced => synced.map_err(|error| Refusal::unwritable(&self.path, &error)),
        }
    }

    /// Folds the log into the state file if it has grown large. Failing does no harm: a later
    /// command tries again.
    pub fn checkpoint(&self) {
        if log_size(&self.path) <= LOG_LIMIT {
            return;
        }
        self.fold_log_at_once();
    }

    /// Folds the log into the state file unless somebody reads it.
    pub(super) fn fold_log_at_once(&self) {
        // A reader of the log only postpones this, so it is not worth waiting for one.
        drop(self.file.busy_timeout(Duration::ZERO));
        self.fold_log();
        drop(self.file.busy_timeout(BUSY_TIMEOUT));
    }

    /// Folds the log into the state file and truncates it, as far as its readers permit.
    pub(super) fn fold_log(&self) {
        drop(self.file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    }
}

/// Keeps the plans of prepared statements. Otherwise SQLite, as it is built here, looks at the values
/// that are bound when it plans, and plans a statement anew whenever other values are bound.
pub fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Bytes of the log beside a state file. Those that are folded in already may be among them.
pub fn log_size(path: &Path) -> u64 {
    fs::metadata(path_beside(path, "-wal")).map_or(0, |log| log.len())
}
