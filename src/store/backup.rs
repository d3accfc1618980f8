//! Copies of the whole state: one that is taken while others write, and one that is put back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::model::refusal::{Exit, Refusal};

use super::open::{Header, Store, check_header};

/// How long a copy waits for whoever holds the file.
const BUSY: Duration = Duration::from_millis(50);
const PATIENCE: u32 = 200;

/// A copy that was checked and can be put in place of a state.
pub struct Copied {
    conn: Connection,
    /// Holds the file that `conn` reads.
    _folder: tempfile::TempDir,
}

impl Store {
    /// Writes a consistent copy, whole or not at all, for its owner alone.
    pub fn backup(&self, to: &Path) -> Result<(), Refusal> {
        let same = fs::canonicalize(to).is_ok_and(|to| to == self.path());
        if same || to.is_dir() {
            let what = format!("`{}` is not a place for a backup", to.display());
            return Err(Refusal::conflict(what).next("poolctl backup FILE"));
        }
        // An older backup is replaced, anything else is somebody's.
        if to.exists() {
            check_header(to).map_err(|refusal| Refusal { exit: Exit::Conflict, ..refusal })?;
        }
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let wrong = |error: std::io::Error| {
            let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            let exit = if denied { Exit::Denied } else { Exit::Failed };
            Refusal::new(exit, format!("`{}` cannot be written", to.display()))
                .because(error.to_string())
        };
        let file = tempfile::NamedTempFile::new_in(folder).map_err(wrong)?;
        let mut copy = Connection::open(file.path())?;
        transfer(&self.conn, &mut copy)?;
        // One file, readable without a log beside it.
        copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
        copy.close().map_err(|(_, error)| Refusal::from(error))?;
        file.as_file().sync_all().map_err(wrong)?;
        file.persist(to).map_err(|error| wrong(error.error))?;
        fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(wrong)
    }

    /// Puts a copy in place of everything, in one transaction: others see the old or the new.
    /// Needs the write lock.
    pub fn replace(&mut self, by: &Copied) -> Result<(), Refusal> {
        let known = self.mark()?.0;
        // Whoever planned on the old state must find that it is another.
        by.conn.execute("UPDATE state SET revision = max(revision, ?1) + 1", [known])?;
        transfer(&by.conn, &mut self.conn)?;
        self.checkpoint();
        Ok(())
    }
}

/// Reads a backup without touching it: it is copied with its log, if it has one, and checked.
pub fn read_backup(from: &Path) -> Result<Copied, Refusal> {
    if let Header::Absent = check_header(from)? {
        return Err(Refusal::not_found(format!("there is no backup `{}`", from.display())));
    }
    let wrong = |error: std::io::Error| {
        Refusal::invalid(format!("`{}` cannot be read", from.display())).because(error.to_string())
    };
    let folder = tempfile::tempdir().map_err(wrong)?;
    let copy = folder.path().join("state.db");
    fs::copy(from, &copy).map_err(wrong)?;
    let log = |of: &Path| PathBuf::from(format!("{}-wal", of.display()));
    if log(from).exists() {
        fs::copy(log(from), log(&copy)).map_err(wrong)?;
    }
    let conn = Connection::open(&copy)?;
    let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        let what = format!("`{}` is corrupt", from.display());
        return Err(Refusal::new(Exit::State, what).because(found));
    }
    Ok(Copied { conn, _folder: folder })
}

impl Copied {
    /// Names of the clusters it knows, and ids of the jobs.
    pub fn knows(&self) -> Result<(Vec<String>, Vec<String>), Refusal> {
        let list = |sql: &str| -> Result<Vec<String>, Refusal> {
            let mut statement = self.conn.prepare(sql)?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        Ok((list("SELECT name FROM cluster ORDER BY id")?, list("SELECT id FROM job")?))
    }
}

/// A state that cannot be opened makes room for another; returns where it went.
pub fn set_aside(path: &Path) -> Result<PathBuf, Refusal> {
    let aside = before_restore(path);
    for end in ["", "-wal", "-shm"] {
        let of = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        match fs::rename(of(path), of(&aside)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("`{}` cannot be moved", of(path).display());
                return Err(Refusal::new(Exit::State, what).because(error.to_string()));
            }
            _ => {}
        }
    }
    Ok(aside)
}

/// Where the state that a restore replaces is kept.
pub fn before_restore(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.before-restore", path.display()))
}

/// Everything in one step, so that nobody writes between its parts.
fn transfer(from: &Connection, to: &mut Connection) -> Result<(), Refusal> {
    let backup = Backup::new(from, to)?;
    for _ in 0..PATIENCE {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            _ => pause(),
        }
    }
    Err(Refusal::new(Exit::State, "the state file is locked by another program"))
}

#[expect(clippy::disallowed_methods, reason = "waits for another program's lock, as SQLite does")]
fn pause() {
    std::thread::sleep(BUSY);
}
