//! Finds the state file, makes a new one in one step, and refuses what is not one, untouched.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{AtFlags, CWD, RenameFlags, StatxAttributes, StatxFlags, renameat_with, statx};
use rustix::io::Errno;

use crate::model::refusal::{Exit, Refusal};

use super::connection::{BUSY, Store, log_size};
use super::copies::{beside, parent, unfinished};
use super::migrate::{migrated_copy, run_migrations};
use super::schema::{SCHEMA, check_not_newer, read_schema};

/// "pool" in ASCII: says whose file it is.
const APPLICATION: u32 = 0x706f_6f6c;
impl Store {
    /// Opens a state that exists. Nothing is written.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        match check_header(path)? {
            Header::Ours { .. } => Self::connect(path),
            Header::Absent => {
                Err(Refusal::not_found(format!("there is no state at `{}`", path.display()))
                    .advise("poolctl pool create NAME --fake, or --state FILE for another state"))
            }
        }
    }

    /// Opens a state, making it first if there is none. Of many at once, one makes it.
    pub fn open_or_create(path: &Path) -> Result<Self, Refusal> {
        if let Header::Absent = check_header(path)? {
            create(path)?;
            check_header(path)?;
        }
        Self::connect(path)
    }

    pub(super) fn connect(path: &Path) -> Result<Self, Refusal> {
        // Locks and copies lie beside the file itself, whatever symbolic link it was reached by.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = open_file(&path)?;
        let is_earlier = read_schema(&file)? < SCHEMA;
        let copy = if is_earlier { Some(migrated_copy(&file, &path)?) } else { None };
        Ok(Self::new(file, copy, path))
    }
}

/// A connection to a state file, with what SQLite is to hold to read back.
pub(super) fn open_file(path: &Path) -> Result<Connection, Refusal> {
    refuse_second_name(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    if conn.is_readonly("main")? {
        return Err(Refusal::new(
            Exit::State,
            format!("the state `{}` is read-only", path.display()),
        )
        .advise("ls -l, and df for the mount"));
    }
    // A command folds the log only when it is large: two fsyncs instead of five.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.busy_timeout(BUSY)?;
    for (pragma, value) in [
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("wal_autocheckpoint", 0),
        // What a savepoint may have to undo stays in memory, not in a file of its own.
        ("temp_store", 2),
    ] {
        conn.pragma_update(None, pragma, value)?;
        // A pragma that SQLite does not understand is ignored without a word.
        let set: i64 = conn.pragma_query_value(None, pragma, |row| row.get(0))?;
        if set != value {
            let what = format!("SQLite did not take {pragma} = {value}, but {set}");
            return Err(Refusal::new(Exit::State, what));
        }
    }
    // What a newer poolctl has migrated may be in the log only.
    check_not_newer(&conn, path)?;
    Ok(conn)
}

/// What the first bytes of a file say.
pub enum Header {
    Absent,
    /// A state; `plain` when it is one file, as a backup is, and not one with a log.
    Ours {
        plain: bool,
    },
}

/// Reads the first bytes before SQLite touches the file.
pub fn check_header(path: &Path) -> Result<Header, Refusal> {
    let refuse = |what: &str| {
        Err(Refusal::new(Exit::State, format!("`{}` {what}", path.display()))
            .because("it was left as it is")
            .advise("poolctl state path, or --state FILE for another state"))
    };
    // A pipe would be waited for.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return refuse("is not a file");
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Header::Absent),
        Err(error) => {
            let denied = error.kind() == ErrorKind::PermissionDenied;
            let exit = if denied { Exit::Denied } else { Exit::State };
            return Err(Refusal::new(
                exit,
                format!("the state `{}` cannot be read", path.display()),
            )
            .because(error.to_string()));
        }
    };
    let mut header = [0; 100];
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return refuse("is a directory, not a state file");
    }
    if let Err(error) = file.read_exact(&mut header) {
        return match error.kind() {
            ErrorKind::UnexpectedEof => refuse("is empty or too short to be a state file"),
            _ => refuse("cannot be read"),
        };
    }
    let number = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if &header[..16] != b"SQLite format 3\0" || number(68) != APPLICATION {
        return refuse("is not a poolctl state file");
    }
    if number(60) > SCHEMA {
        return refuse("was written by a newer poolctl");
    }
    let page = match u64::from(u16::from_be_bytes([header[16], header[17]])) {
        1 => 65536,
        size => size,
    };
    // While a log is there, the file may be shorter than its first page says: folding the log in
    // writes that page first. Without one, a part is missing.
    let short = || file.metadata().is_ok_and(|meta| meta.len() < page * u64::from(number(28)));
    let hot = || beside(path, "-journal").exists();
    if short() && log_size(path) == 0 && !hot() && short() {
        return refuse("is cut short: a part of the state file is missing");
    }
    Ok(Header::Ours { plain: header[18] == 1 && !beside(path, "-wal").exists() })
}

/// Refuses a state that has a second name: a hard link, or a bind mount of the file alone. SQLite
/// keeps its log, and we keep our locks, beside the name that was used. Through another name an
/// acknowledged claim is not seen and its cluster is claimed once more. Reading is refused as well:
/// nobody can tell which name has the log, and without it an old state would pass for the present.
pub fn refuse_second_name(path: &Path) -> Result<(), Refusal> {
    // statx is there since Linux 4.11 and marks mount points since 5.8; an older kernel knows of
    // neither, and refuses nothing.
    let Ok(status) = statx(CWD, path, AtFlags::empty(), StatxFlags::NLINK) else {
        return Ok(());
    };
    let is_mount_point = status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    if status.stx_nlink < 2 && !is_mount_point {
        return Ok(());
    }
    let path = path.display();
    let refusal = Refusal::new(Exit::State, format!("the state `{path}` has more than one name"));
    let refusal = if is_mount_point {
        refusal.because("it is a bind mount of one file").advise(format!(
            "findmnt -no SOURCE '{path}' names the file; use that one, or mount its folder"
        ))
    } else {
        refusal.because(format!("it has {} hard links", status.stx_nlink)).advise(format!(
            "find \"$(stat -c %m '{path}')\" -xdev -samefile '{path}' lists them; keep the one \
             with a -wal beside it, rm the others"
        ))
    };
    Err(refusal
        .because("its log and its locks lie beside one name, and are not seen through another"))
}

/// Builds a whole state beside and gives it its name at last. Whoever comes second opens what the
/// first has made.
fn create(path: &Path) -> Result<(), Refusal> {
    let failed = |error: io::Error| {
        let denied = error.kind() == ErrorKind::PermissionDenied;
        let full = error.kind() == ErrorKind::StorageFull;
        let exit = if denied { Exit::Denied } else { Exit::State };
        let refusal = Refusal::new(exit, format!("no state can be made at `{}`", path.display()))
            .because(error.to_string());
        if full { refusal.advise("make room, then run the command again") } else { refusal }
    };
    let folder = parent(path);
    fs::create_dir_all(folder).map_err(failed)?;
    let beside =
        tempfile::Builder::new().prefix(&unfinished(path)).tempfile_in(folder).map_err(failed)?;
    build(beside.path())?;
    beside.as_file().sync_all().map_err(failed)?;
    match rename_without_replacing(beside.path(), path) {
        Ok(()) => {
            // Nothing has the temporary name any more that would have to be removed.
            drop(beside.keep());
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Gives a file another name unless that is taken. It never has both names: if poolctl were killed
/// in between, the state would keep the second one and be refused ever after.
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // NFS, 9p and some FUSE file systems cannot do it in one step. There whoever makes a state
        // locks the folder, so that nobody else can make one between the two steps.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let folder = File::open(parent(to))?;
            folder.lock()?;
            if fs::symlink_metadata(to).is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        renamed => Ok(renamed?),
    }
}

fn build(path: &Path) -> Result<(), Refusal> {
    let conn = Connection::open(path)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    run_migrations(&conn)?;
    conn.pragma_update(None, "application_id", APPLICATION)?;
    conn.execute_batch("COMMIT")?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Refusal::new(Exit::State, "SQLite cannot keep a write-ahead log here")
            .because(format!("journal_mode is {mode}")));
    }
    // The last connection folds the log and removes it.
    conn.close().map_err(|(_, error)| error.into())
}
