//! Opens state files and makes new ones, each in one step. A file that is no state of this program
//! is refused and left untouched.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{CWD, RenameFlags, StatVfsMountFlags, renameat_with, statvfs};
use rustix::io::Errno;

use crate::model::refusal::{Exit, Refusal};

use super::connection::{BUSY_TIMEOUT, Store, keep_plans, log_size};
use super::copies::path_beside;
use super::last_commit::{is_where_a_state_was, refuse_lost_commits};
use super::lock::{create_lock_file, read_beside_writers};
use super::log_damage::{refuse_damaged_log, refuse_missing_log};
use super::log_match::refuse_foreign_log;
use super::migrate::{create_schema, migrate_copy_in_memory};
use super::schema::{SCHEMA, check_not_newer, read_schema, refuse_newer};
use super::second_names::refuse_second_name;
use super::temporary::{create_temporary_file, parent_folder};

/// The application id of a state file: "pool" in ASCII.
pub const APPLICATION_ID: u32 = 0x706f_6f6c;

/// How the header of every SQLite file begins.
pub const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Bytes of the header of a SQLite file (<https://sqlite.org/fileformat.html>, section 1.3).
pub const HEADER_SIZE: usize = 100;

impl Store {
    /// Opens a state that exists. Nothing is written.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        match check_header(path)? {
            Header::Ours { .. } => Self::connect(path),
            Header::Absent => Err(Refusal::not_found(format!(
                "there is no state at `{}`",
                path.display()
            ))
            .advise(
                "poolctl pool create NAME --fake --fake-install-duration 3s, or --state FILE \
                         for another state",
            )),
        }
    }

    /// Opens a state, and makes it first if there is none. If many commands do so at once, one
    /// makes it and the others open it.
    pub fn open_or_create(path: &Path) -> Result<Self, Refusal> {
        if let Header::Absent = check_header(path)? {
            create_state(path)?;
            check_header(path)?;
        }
        Self::connect(path)
    }

    /// Opens a file whose header was checked.
    pub(super) fn connect(path: &Path) -> Result<Self, Refusal> {
        // Locks and copies lie beside the file itself, whatever symbolic link it was reached by.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = open_file(&path)?;
        let is_earlier = read_beside_writers(&path, || {
            refuse_lost_commits(&file, &path)?;
            Ok(read_schema(&file)? < SCHEMA)
        })?;
        let copy = if is_earlier { Some(migrate_copy_in_memory(&file, &path)?) } else { None };
        Ok(Self::new(file, copy, path))
    }
}

/// Opens a connection to a state file and sets its pragmas.
pub(super) fn open_file(path: &Path) -> Result<Connection, Refusal> {
    read_beside_writers(path, || open_file_once(path))
}

/// The pragmas of every connection to a state file. A test checks that SQLite accepts them.
const PRAGMAS: [(&str, i64); 4] = [
    // FULL: a commit is durable when it returns.
    ("synchronous", 2),
    ("foreign_keys", 1),
    ("wal_autocheckpoint", 0),
    // MEMORY: what a savepoint may have to undo is not written to a file of its own.
    ("temp_store", 2),
];

/// Opens a connection to a state file as `open_file` does, and gives up if others commit without a
/// pause.
fn open_file_once(path: &Path) -> Result<Connection, Refusal> {
    let conn = connect_to_file(path)?;
    // The log is folded in only when it is large, which saves a command three of five fsyncs.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    keep_plans(&conn)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // A pass reads and writes rows of two dozen tables, each in several forms: no statement is to
    // be parsed twice.
    conn.set_prepared_statement_cache_capacity(256);
    for (pragma, value) in PRAGMAS {
        conn.pragma_update(None, pragma, value)?;
    }
    // The migration of a newer poolctl may still be in the log, where the header does not show it.
    check_not_newer(&conn, path)?;
    // Who cannot write has no index of the log of its own.
    if !conn.is_readonly("main")? {
        refuse_damaged_log(path)?;
    }
    Ok(conn)
}

/// Opens a connection to a state file, which cannot write if the file is read-only.
fn connect_to_file(path: &Path) -> Result<Connection, Refusal> {
    let has_log_files = ["-wal", "-shm"].iter().all(|end| path_beside(path, end).exists());
    if has_log_files || log_size(path) > 0 || may_make_log(path) {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        return Ok(Connection::open_with_flags(path, flags)?);
    }
    // SQLite would make a log and its index, which it cannot or must not. On a read-only file system
    // the file is whole without them, and nobody changes it.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(immutable_uri(path), flags)?)
}

/// Whether SQLite can make a log and its index beside a file. Beside one of several names they would
/// be of no use to anybody.
fn may_make_log(path: &Path) -> bool {
    let system = statvfs(path);
    let is_read_only = system.is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY));
    !is_read_only && refuse_second_name(path).is_ok()
}

/// The address of a file that does not change, as SQLite understands it
/// (<https://sqlite.org/uri.html>).
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?immutable=1"
}

/// What the first bytes of a file say.
pub enum Header {
    Absent,
    /// A state. A `plain` one is one file without a log, as a backup is.
    Ours {
        plain: bool,
    },
}

/// Reads the header of a file before SQLite touches it, and refuses a file that this program may
/// not open.
pub fn check_header(path: &Path) -> Result<Header, Refusal> {
    // Opening a pipe would wait for whoever writes to it.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return Err(foreign_file(path, "is not a file"));
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Header::Absent),
        Err(error) => {
            let is_denied = error.kind() == ErrorKind::PermissionDenied;
            let exit = if is_denied { Exit::Denied } else { Exit::State };
            return Err(Refusal::new(
                exit,
                format!("the state `{}` cannot be read", path.display()),
            )
            .because(error.to_string()));
        }
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(foreign_file(path, "is a directory, not a state file"));
    }
    let mut header = [0; HEADER_SIZE];
    if let Err(error) = file.read_exact(&mut header) {
        let is_too_short = error.kind() == ErrorKind::UnexpectedEof;
        let problem = if is_too_short {
            "is empty or too short to be a state file"
        } else {
            "cannot be read"
        };
        return Err(foreign_file(path, problem));
    }
    if !header.starts_with(SQLITE_MAGIC) || read_number(&header, 68) != APPLICATION_ID {
        return Err(foreign_file(path, "is not a poolctl state file"));
    }
    let schema = read_number(&header, 60);
    if schema > SCHEMA {
        return Err(refuse_newer(path, schema));
    }
    if is_cut_short(path, &file, &header) {
        return Err(foreign_file(path, "is cut short: a part of the state file is missing"));
    }
    // Byte 18 is the version that a writer needs: 1 without a write-ahead log, 2 with one.
    let has_log_mode = header[18] != 1;
    // The log of a state with several names may lie beside another one, which is refused later.
    if refuse_second_name(path).is_ok() {
        if has_log_mode {
            refuse_missing_log(path)?;
        }
        refuse_foreign_log(path, &file, page_size(&header))?;
    }
    Ok(Header::Ours { plain: !has_log_mode && !path_beside(path, "-wal").exists() })
}

/// Refuses a file that is no state, or none that this program can use.
fn foreign_file(path: &Path, problem: &str) -> Refusal {
    let refusal = Refusal::new(Exit::State, format!("`{}` {problem}", path.display()))
        .because("it was left as it is");
    if is_where_a_state_was(path) {
        return refusal
            .because("a state was here: what is missing or damaged of it cannot be told")
            .next("poolctl restore BACKUP");
    }
    refusal.advise("poolctl state path, or --state FILE for another state")
}

/// The big-endian number of four bytes at an offset of the header.
fn read_number(header: &[u8; HEADER_SIZE], offset: usize) -> u32 {
    u32::from_be_bytes([header[offset], header[offset + 1], header[offset + 2], header[offset + 3]])
}

/// Whether a part of a state file is missing. While there is a log, the file may rightly be short:
/// folding the log in writes the first page first, which says how many pages there will be.
fn is_cut_short(path: &Path, file: &File, header: &[u8; HEADER_SIZE]) -> bool {
    // The size is read again after the log: another command may have folded the log in meanwhile.
    is_shorter_than_its_pages(file, header)
        && !has_log(path)
        && is_shorter_than_its_pages(file, header)
}

/// Whether a file has fewer bytes than the pages that its header counts, at byte 28.
fn is_shorter_than_its_pages(file: &File, header: &[u8; HEADER_SIZE]) -> bool {
    let expected_size = page_size(header) * u64::from(read_number(header, 28));
    file.metadata().is_ok_and(|metadata| metadata.len() < expected_size)
}

/// Bytes of a page of a file.
fn page_size(header: &[u8; HEADER_SIZE]) -> u64 {
    match u64::from(u16::from_be_bytes([header[16], header[17]])) {
        // 64 KiB does not fit into the two bytes of the field.
        1 => 65536,
        size => size,
    }
}

/// Whether a write-ahead log, or the journal of a file without one, still has pages of the file.
fn has_log(path: &Path) -> bool {
    log_size(path) > 0 || path_beside(path, "-journal").exists()
}

/// Builds a whole state in a temporary file and gives it its name at the end. If another command
/// was faster, its state stays and the temporary file goes.
fn create_state(path: &Path) -> Result<(), Refusal> {
    let folder = parent_folder(path);
    fs::create_dir_all(folder).map_err(|error| uncreatable_state(path, &error))?;
    let temporary = create_temporary_file(path).map_err(|error| uncreatable_state(path, &error))?;
    build_state(temporary.path())?;
    temporary.as_file().sync_all().map_err(|error| uncreatable_state(path, &error))?;
    create_lock_file(path)?;
    match rename_without_replacing(temporary.path(), path) {
        Ok(()) => {
            // The file no longer has its temporary name, so there is nothing to remove under it.
            drop(temporary.keep());
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| uncreatable_state(path, &error))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(uncreatable_state(path, &error)),
    }
}

/// The refusal of a state that cannot be created, with the exit code that says whether the user
/// lacks rights.
fn uncreatable_state(path: &Path, error: &io::Error) -> Refusal {
    let is_denied = error.kind() == ErrorKind::PermissionDenied;
    let exit = if is_denied { Exit::Denied } else { Exit::State };
    let refusal =
        Refusal::new(exit, format!("the state cannot be created at `{}`", path.display()))
            .because(error.to_string());
    if error.kind() == ErrorKind::StorageFull {
        return refusal.advise("make room, then run the command again");
    }
    refusal
}

/// Gives a file another name unless that name is taken. The file never has both names, which a hard
/// link would give it for a moment: if poolctl were killed then, the state would keep its second
/// name and be refused from then on.
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // NFS, 9p and some FUSE file systems cannot do this in one step. On those, a command that
        // makes a state locks the folder, so that no other makes one between the two steps.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let folder = File::open(parent_folder(to))?;
            folder.lock()?;
            if fs::symlink_metadata(to).is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        renamed => Ok(renamed?),
    }
}

/// Makes all tables in a new file, as one with a write-ahead log.
fn build_state(path: &Path) -> Result<(), Refusal> {
    let conn = Connection::open(path)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    create_schema(&conn)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.execute_batch("COMMIT")?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Refusal::new(Exit::State, "SQLite cannot keep a write-ahead log here")
            .because(format!("journal_mode is {mode}")));
    }
    // Closing the last connection folds the log in and removes it.
    conn.close().map_err(|(_, error)| error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SQLite ignores a pragma that it does not know, and reports no error.
    #[test]
    fn every_pragma_of_a_state_is_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        build_state(&path).unwrap();
        let conn = open_file(&path).unwrap();
        for (pragma, value) in PRAGMAS {
            let in_force: i64 = conn.pragma_query_value(None, pragma, |row| row.get(0)).unwrap();
            assert_eq!(in_force, value, "{pragma}");
        }
    }
}
