//! Backups of the whole state: how one is written while others use the state, and how one is read,
//! checked and put in place of the state. What is in it is looked at only where a restore needs
//! that.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::model::refusal::{Exit, Refusal};

use super::connection::Store;
use super::copies::{is_file_of_state, path_beside, refuse_copy};
use super::last_commit::{
    forget_last_commit, is_where_a_state_was, note_last_commit, refuse_lost_commits,
};
use super::lock::{Lock, LockWait};
use super::log_damage::refuse_damaged_log;
use super::migrate;
use super::open::{APPLICATION_ID, HEADER_SIZE, Header, SQLITE_MAGIC, check_header, open_file};
use super::schema::SCHEMA;
use super::second_names::refuse_second_name;
use super::snapshot::{transfer, write_snapshot};
use super::temporary::{
    TemporaryFolder, find_abandoned_files_in, parent_folder, remove_abandoned_files,
    remove_file_or_folder,
};

/// How the names of backups begin that are rotated.
const NAME_OF_ROTATED: &str = "poolctl";

/// A copy of a backup that was checked and can be put in place of a state.
pub struct BackupCopy {
    store: Store,
    /// The folder of the file that `store` reads. It is removed with this value.
    _folder: TemporaryFolder,
}

/// What a restore finds where it is to put the backup.
pub enum RestoreTarget {
    /// No file.
    Empty,
    /// A state that this program can use.
    Usable(Box<Store>),
    /// What was a state once and is of no use any more, and why.
    Broken(String),
}

impl Store {
    /// Writes a backup: a consistent copy with mode 0600, whole or not at all. It replaces an older
    /// backup and nothing else.
    pub fn backup(&self, to: &Path) -> Result<(), Refusal> {
        // It may lack what is in the log beside another name, and would outlive every warning.
        refuse_second_name(self.path())?;
        // A state with a log is no backup: it is in use.
        let is_free_or_backup = match fs::symlink_metadata(to) {
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            _ => matches!(check_header(to), Ok(Header::Ours { plain: true })),
        };
        let is_file_of_state = is_file_of_state(self.path(), to) && to.exists();
        if !is_free_or_backup || is_file_of_state {
            return Err(Refusal::conflict(format!(
                "`{}` exists and is not a backup; it was left as it is",
                to.display()
            ))
            .next("poolctl backup OTHER-FILE"));
        }
        remove_abandoned_snapshots(parent_folder(to));
        write_snapshot(self.conn(), to)
    }

    /// Writes a backup into a folder, named after `time`, which is spelled for a file name. Then
    /// removes the oldest of those that were made so, until `count` are left. Returns its path.
    pub fn backup_and_rotate(
        &self,
        folder: &Path,
        time: &str,
        count: usize,
    ) -> Result<PathBuf, Refusal> {
        fs::create_dir_all(folder).map_err(|error| Refusal::unwritable(folder, &error))?;
        // What backups that were killed have left has the time of those in its name.
        remove_abandoned_files(&folder.join(NAME_OF_ROTATED));
        let path = folder.join(format!("{NAME_OF_ROTATED}.{time}.db"));
        self.backup(&path)?;
        // The new one stays, even if a clock that went back makes it the oldest.
        let mut older_backups = list_rotated_backups(folder);
        older_backups.retain(|older_path| *older_path != path);
        let surplus = (older_backups.len() + 1).saturating_sub(count);
        for older_path in older_backups.iter().take(surplus) {
            fs::remove_file(older_path).map_err(|error| Refusal::unwritable(older_path, &error))?;
        }
        Ok(path)
    }

    /// Puts a backup in place of everything in this state, in one transaction: other commands see
    /// the old state or the new one. The caller holds the write lock.
    pub fn replace(&self, backup: &BackupCopy) -> Result<(), Refusal> {
        self.migrate()?;
        self.keep_log()?;
        let revision = self.read_revision()?;
        let copy = backup.store.conn();
        // A command that has planned on the old state must find another revision when it writes.
        // Within a lineage the revisions of the log follow on those of the file.
        let revision_of_other = "UPDATE state SET revision = max(revision, ?1) + 1";
        let next_revision = "UPDATE state SET revision = ?1 + 1";
        let is_same_lineage = self.read_lineage()? == backup.store.read_lineage()?;
        let sql = if is_same_lineage { next_revision } else { revision_of_other };
        copy.execute(sql, [revision])?;
        // The network was told of the addresses of this state, and not of those of the backup. A
        // backup of an earlier schema has no such columns, and it knows of nothing that was told.
        let sql = "UPDATE state SET address_changes = max(address_changes, told_changes) + 1, \
                   tell_after = NULL";
        drop(copy.execute(sql, []));
        // A job that was live when the backup was taken may still run elsewhere: it is not started
        // again.
        copy.execute("UPDATE job SET begun = 1 WHERE ended IS NULL", [])?;
        // The connection of the store is shared, and SQLite wants one of its own for this.
        let mut file = open_file(self.path())?;
        forget_last_commit(self.path());
        transfer(copy, &mut file)?;
        note_last_commit(self.file(), self.path());
        // A log that begins with another state could be taken for one from elsewhere.
        self.fold_log_at_once();
        Ok(())
    }
}

/// Removes what killed commands have left in a folder that was to become a backup of any name: it has
/// secrets. The files of other programs may be named in the same way; they stay.
fn remove_abandoned_snapshots(folder: &Path) {
    for path in find_abandoned_files_in(folder) {
        if has_header_of_state(&path) {
            remove_file_or_folder(&path);
            remove_file_or_folder(&path_beside(&path, "-journal"));
        }
    }
}

/// Whether a file begins as one that poolctl has made.
fn has_header_of_state(path: &Path) -> bool {
    let mut header = [0; HEADER_SIZE];
    // Nobody works on the file, so no lock of this program is lost when it is closed.
    let header_read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    header_read.is_ok()
        && header.starts_with(SQLITE_MAGIC)
        && header[68..72] == APPLICATION_ID.to_be_bytes()
}

/// The backups in a folder that were made to be rotated, the oldest first.
fn list_rotated_backups(folder: &Path) -> Vec<PathBuf> {
    let mut backups = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let time = name
            .strip_prefix(NAME_OF_ROTATED)
            .and_then(|name| name.strip_prefix('.'))
            .and_then(|name| name.strip_suffix(".db"));
        // Nobody else's file is removed, whatever its name is.
        if time.is_some_and(|time| !time.contains('.'))
            && matches!(check_header(&entry.path()), Ok(Header::Ours { plain: true }))
        {
            backups.push(entry.path());
        }
    }
    // The time in the name has the same length in all of them.
    backups.sort_unstable();
    backups
}

/// Reads a backup without touching it: copies it, with its log if it has one, and checks the copy.
/// A state that is in use may serve as a backup as well. The copy, which has all secrets, lies
/// beside the state that is to be restored.
pub fn read_backup(from: &Path, state: &Path, lock_wait: LockWait) -> Result<BackupCopy, Refusal> {
    // A log lies beside the file itself, not beside a symbolic link to it.
    let from = &fs::canonicalize(from).unwrap_or_else(|_| from.to_owned());
    match check_header(from)? {
        Header::Absent => {
            return Err(Refusal::not_found(format!("there is no backup `{}`", from.display())));
        }
        // The log of a state that is in use may lie beside another name of it.
        Header::Ours { plain: false } => refuse_second_name(from)?,
        // A backup has no log, so further names of it do no harm.
        Header::Ours { plain: true } => {}
    }
    let folder = create_folder_of_copy(state)?;
    let copy = folder.path().join("state.db");
    // Nobody may fold the log of a state that is in use between the copy of its file and that of
    // its log.
    let is_in_use = path_beside(from, ".lock").exists() && path_beside(from, "-wal").exists();
    let _lock = if is_in_use { Some(Lock::to_write(from, lock_wait)?) } else { None };
    fs::copy(from, &copy).map_err(|error| refuse_copy(from, &error))?;
    if path_beside(from, "-wal").exists() {
        fs::copy(path_beside(from, "-wal"), path_beside(&copy, "-wal"))
            .map_err(|error| refuse_copy(from, &error))?;
    }
    let store = Store::connect(&copy)?;
    refuse_lost_commits(store.file(), from)?;
    let finding: String =
        store.conn().query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if finding != "ok" {
        return Err(
            Refusal::new(Exit::State, format!("`{}` is corrupt", from.display())).because(finding)
        );
    }
    Ok(BackupCopy { store, _folder: folder })
}

/// Makes the folder for the copy of a backup, and removes those of restores that were killed.
fn create_folder_of_copy(state: &Path) -> Result<TemporaryFolder, Refusal> {
    // A symbolic link to the state may lead to another folder, which has its locks and copies.
    let state = &fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
    remove_abandoned_files(state);
    fs::create_dir_all(parent_folder(state))
        .and_then(|()| TemporaryFolder::create_beside(state))
        .map_err(|error| Refusal::unwritable(state, &error))
}

impl BackupCopy {
    /// The copy as a state of its own. What is changed in it before the restore is restored with
    /// it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The names of the clusters in the backup, the oldest first.
    pub fn list_cluster_names(&self) -> Result<Vec<String>, Refusal> {
        self.select_strings("SELECT name FROM cluster ORDER BY id")
    }

    /// The ids of the jobs in the backup, as their folders are named.
    pub fn list_job_ids(&self) -> Result<Vec<String>, Refusal> {
        self.select_strings("SELECT id FROM job")
    }

    fn select_strings(&self, sql: &str) -> Result<Vec<String>, Refusal> {
        let mut statement = self.store.conn().prepare(sql)?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Looks at what a restore would replace. A file that never was a state, a state of a newer poolctl
/// and one that is locked are refused.
pub fn inspect_restore_target(path: &Path) -> Result<RestoreTarget, Refusal> {
    let header = match check_header(path) {
        Ok(header) => header,
        Err(refusal) if was_a_state(path) => return Ok(RestoreTarget::Broken(refusal.what)),
        Err(refusal) => return Err(refusal),
    };
    if let Header::Absent = header {
        return Ok(RestoreTarget::Empty);
    }
    refuse_second_name(path)?;
    if let Some(corruption) = find_corruption(path)? {
        return Ok(RestoreTarget::Broken(format!("`{}` is corrupt: {corruption}", path.display())));
    }
    if let Err(refusal) = refuse_damaged_log(path) {
        return Ok(RestoreTarget::Broken(refusal.what));
    }
    let file = open_file(path)?;
    if let Err(refusal) = refuse_lost_commits(&file, path) {
        return Ok(RestoreTarget::Broken(refusal.what));
    }
    // A state that no migration makes usable may be replaced as well.
    file.execute_batch("BEGIN")?;
    let checked = migrate::check_schema_is_known(&file, path);
    file.execute_batch("ROLLBACK")?;
    if let Err(refusal) = checked {
        return Ok(RestoreTarget::Broken(refusal.what));
    }
    Ok(RestoreTarget::Usable(Box::new(Store::connect(path)?)))
}

/// What SQLite finds corrupt in a state file, if anything is. The connection has no pragmas set, as
/// SQLite refuses to set them if the beginning of the file is corrupt.
fn find_corruption(path: &Path) -> Result<Option<String>, Refusal> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(path, flags)?;
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let finding = file.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match finding {
        Ok(finding) if finding == "ok" => Ok(None),
        Ok(finding) => Ok(Some(finding)),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Ok(Some(error.to_string()))
            }
            _ => Err(error.into()),
        },
    }
}

/// Whether a file was a state of this or an earlier poolctl: a regular file that is empty, that
/// begins as one and ends within the header, that has the header of one, or in whose place a state
/// was and that is no database of another program.
fn was_a_state(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut header = Vec::new();
    if file.take(HEADER_SIZE as u64).read_to_end(&mut header).is_err() {
        return false;
    }
    if header.len() < HEADER_SIZE {
        return SQLITE_MAGIC.starts_with(&header[..header.len().min(SQLITE_MAGIC.len())]);
    }
    if !header.starts_with(SQLITE_MAGIC) {
        return is_where_a_state_was(path);
    }
    // A state of a newer poolctl is not broken: that program can use it.
    header[68..72] == APPLICATION_ID.to_be_bytes() && header[60..64] <= SCHEMA.to_be_bytes()[..]
}

/// Moves a state that cannot be used, with its log and journal, to make room for another one.
pub fn move_state_aside(path: &Path, aside: &Path) -> Result<(), Refusal> {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let from = path_beside(path, ending);
        match fs::rename(&from, path_beside(aside, ending)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Refusal::new(
                    Exit::State,
                    format!("`{}` cannot be moved", from.display()),
                )
                .because(error.to_string()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A path for the state that a restore replaces, beside it and not taken yet. `time` is that of the
/// restore, spelled for a file name.
pub fn path_for_replaced_state(path: &Path, time: &str) -> PathBuf {
    let first = path_beside(path, &format!(".before-restore-{time}"));
    if !first.exists() {
        return first;
    }
    for number in 2..10_000 {
        let numbered = path_beside(&first, &format!("-{number}"));
        if !numbered.exists() {
            return numbered;
        }
    }
    path_beside(&first, "-0")
}
