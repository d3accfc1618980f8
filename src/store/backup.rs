//! Copies of the whole state: one that is taken while others write, and one that is put back.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::model::refusal::{Exit, Refusal};

use super::connection::Store;
use super::copies::{beside, is_ours};
use super::lock::Lock;
use super::migrate;
use super::open::{Header, check_header, open_file, refuse_second_name};
use super::schema::SCHEMA;
use super::snapshot::{transfer, write_snapshot};

/// A copy that was checked and can be put in place of a state.
pub struct Copied {
    store: Store,
    /// Holds the file that `store` reads.
    _folder: tempfile::TempDir,
}

/// What a restore finds where it is to put the copy.
pub enum Place {
    Empty,
    Usable(Box<Store>),
    /// A state once, and why it is none any more.
    Broken(String),
}

impl Store {
    /// Writes a consistent copy, whole or not at all, for its owner alone.
    pub fn backup(&self, to: &Path) -> Result<(), Refusal> {
        // An older backup is replaced; anything else, a state with its log too, is somebody's.
        let replaceable = match fs::symlink_metadata(to) {
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            _ => matches!(check_header(to), Ok(Header::Ours { plain: true })),
        };
        let replaceable = replaceable && (!is_ours(self.path(), to) || !to.exists());
        if !replaceable {
            let what =
                format!("`{}` is there and is no backup; it was left as it is", to.display());
            return Err(Refusal::conflict(what).next("poolctl backup OTHER-FILE"));
        }
        write_snapshot(self.conn(), to)
    }

    /// Puts a copy in place of everything, in one transaction: others see the old or the new.
    /// Needs the write lock.
    pub fn replace(&mut self, by: &Copied) -> Result<(), Refusal> {
        self.migrate()?;
        self.keep_log()?;
        let known = self.mark()?.0;
        // Whoever planned on the old state must find that it is another.
        by.store.conn().execute("UPDATE state SET revision = max(revision, ?1) + 1", [known])?;
        // What worked when it was taken may work still, elsewhere: it is not begun once more.
        by.store.conn().execute("UPDATE job SET begun = 1 WHERE ended IS NULL", [])?;
        transfer(by.store.conn(), self.file_mut())?;
        self.checkpoint();
        Ok(())
    }
}

/// Reads a backup without touching it: it is copied with its log, if it has one, and checked.
pub fn read_backup(from: &Path) -> Result<Copied, Refusal> {
    // A log lies beside the file itself, not beside a symbolic link to it.
    let from = &fs::canonicalize(from).unwrap_or_else(|_| from.to_owned());
    match check_header(from)? {
        Header::Absent => {
            return Err(Refusal::not_found(format!("there is no backup `{}`", from.display())));
        }
        // A state that is in use: its log may lie beside another name of it.
        Header::Ours { plain: false } => refuse_second_name(from)?,
        // A backup is one file, whatever names it has.
        Header::Ours { plain: true } => {}
    }
    let wrong = |error: std::io::Error| {
        Refusal::invalid(format!("`{}` cannot be read", from.display())).because(error.to_string())
    };
    let folder = tempfile::tempdir().map_err(wrong)?;
    let copy = folder.path().join("state.db");
    // Of a state that is in use the file and its log are copied at one moment.
    let is_in_use = beside(from, ".lock").exists() && beside(from, "-wal").exists();
    let _lock = if is_in_use { Some(Lock::to_write(from)?) } else { None };
    fs::copy(from, &copy).map_err(wrong)?;
    if beside(from, "-wal").exists() {
        fs::copy(beside(from, "-wal"), beside(&copy, "-wal")).map_err(wrong)?;
    }
    let store = Store::connect(&copy)?;
    let found: String =
        store.conn().query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        let what = format!("`{}` is corrupt", from.display());
        return Err(Refusal::new(Exit::State, what).because(found));
    }
    Ok(Copied { store, _folder: folder })
}

impl Copied {
    /// The copy as a state of its own: what is changed in it is put in place with it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Names of the clusters it knows, and ids of the jobs.
    pub fn knows(&self) -> Result<(Vec<String>, Vec<String>), Refusal> {
        let list = |sql: &str| -> Result<Vec<String>, Refusal> {
            let mut statement = self.store.conn().prepare(sql)?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        Ok((list("SELECT name FROM cluster ORDER BY id")?, list("SELECT id FROM job")?))
    }
}

/// Looks at what a copy would replace. What never was a state, is of a newer poolctl or is locked
/// is refused.
pub fn place(path: &Path) -> Result<Place, Refusal> {
    let header = match check_header(path) {
        Ok(header) => header,
        Err(refusal) => {
            return if was_a_state(path) { Ok(Place::Broken(refusal.what)) } else { Err(refusal) };
        }
    };
    if let Header::Absent = header {
        return Ok(Place::Empty);
    }
    refuse_second_name(path)?;
    if let Some(why) = corruption(path)? {
        return Ok(Place::Broken(format!("`{}` is corrupt: {why}", path.display())));
    }
    let file = open_file(path)?;
    // What nothing migrates is of no use here, and another may take its place.
    file.execute_batch("BEGIN")?;
    let known = migrate::check_known(&file, path);
    file.execute_batch("ROLLBACK")?;
    if let Err(refusal) = known {
        return Ok(Place::Broken(refusal.what));
    }
    Ok(Place::Usable(Box::new(Store::connect(path)?)))
}

/// What is corrupt in a state file, if anything is. Nothing is set on the connection that reads it:
/// of a file that is corrupt at its beginning SQLite would refuse that.
fn corruption(path: &Path) -> Result<Option<String>, Refusal> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(path, flags)?;
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let found = file.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found {
        Ok(found) => Ok(Some(found).filter(|found| found != "ok")),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Ok(Some(error.to_string()))
            }
            _ => Err(error.into()),
        },
    }
}

/// A regular file that is empty, or begins as a state does and is cut short.
fn was_a_state(path: &Path) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
    let mut header = Vec::new();
    let read = file.by_ref().take(100).read_to_end(&mut header);
    let short =
        header.len() < 100 && b"SQLite format 3\0".starts_with(&header[..header.len().min(16)]);
    let ours = header.len() == 100
        && header.starts_with(b"SQLite format 3\0")
        && header[68..72] == *b"pool";
    // A newer poolctl knows what to do with its own.
    read.is_ok() && (short || (ours && header[60..64] <= SCHEMA.to_be_bytes()[..]))
}

/// A state that cannot be used makes room for another.
pub fn set_aside(path: &Path, aside: &Path) -> Result<(), Refusal> {
    for end in ["", "-wal", "-shm", "-journal"] {
        match fs::rename(beside(path, end), beside(aside, end)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let what = format!("`{}` cannot be moved", beside(path, end).display());
                return Err(Refusal::new(Exit::State, what).because(error.to_string()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A name for what a restore replaces, not used before.
pub fn before_restore(path: &Path, time: &str) -> PathBuf {
    let end = |at: u32| if at == 1 { String::new() } else { format!("-{at}") };
    let name = |at: u32| beside(path, &format!(".before-restore-{time}{}", end(at)));
    (1..10_000).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(0))
}
