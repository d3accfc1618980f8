//! The last commit of a state, as its lock file has it. Whoever loses the write-ahead log, or a part
//! of it, has an older state that looks whole: only what is written elsewhere shows that something
//! is missing. Nothing here changes a state.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Connection;

use crate::model::refusal::{Exit, Refusal};

use super::copies::path_beside;

/// Where the record begins in the lock file: behind what the holder of the lock writes.
const OFFSET_OF_RECORD: u64 = 512;
/// A longer record was not written here.
const MAX_RECORD: usize = 128;
/// So often the record and the state are compared before the state is refused.
const LOOKS: usize = 3;

/// Which commit of which state it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LastCommit {
    revision: i64,
    lineage: String,
}

/// Writes down which commit was the last one. The caller holds the write lock. Nothing is synced: a
/// record that is older than the state does no harm, and so nobody has to know if this fails.
pub fn note_last_commit(conn: &Connection, path: &Path) {
    let Some(commit) = read_commit_of_state(conn) else { return };
    let record = format!("{} {}\n", commit.revision, commit.lineage);
    drop(
        open_for_writing(path)
            .and_then(|file| file.write_all_at(record.as_bytes(), OFFSET_OF_RECORD)),
    );
}

/// Forgets which commit was the last one, because another state takes the place of this one. The
/// caller holds the write lock.
pub fn forget_last_commit(path: &Path) {
    // If it stays, the next command that writes puts it right.
    drop(open_for_writing(path).and_then(|file| file.set_len(OFFSET_OF_RECORD)));
}

/// The lineage of the state that was written last beside this lock file.
pub fn read_noted_lineage(path: &Path) -> Option<String> {
    read_noted_commit(path).map(|commit| commit.lineage)
}

/// Whether a state was written to at this path, whatever is there now.
pub fn is_where_a_state_was(path: &Path) -> bool {
    read_noted_commit(path).is_some()
}

/// Refuses a state that lacks commits which it once had: its log is gone, was cut off, or is
/// damaged at its beginning.
pub fn refuse_lost_commits(conn: &Connection, path: &Path) -> Result<(), Refusal> {
    // A file without a log is a backup, which was put in place of the state and is whole.
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        return Ok(());
    }
    let mut lost_commits = None;
    // A record that another command is writing may be read half old and half new.
    for _ in 0..LOOKS {
        // The record is read first: commits that are made meanwhile only add to the state.
        let Some(noted) = read_noted_commit(path) else { return Ok(()) };
        let Some(present) = read_commit_of_state(conn) else { return Ok(()) };
        if noted.lineage != present.lineage || noted.revision <= present.revision {
            return Ok(());
        }
        lost_commits = Some((noted.revision, present.revision));
    }
    let Some((noted_revision, revision)) = lost_commits else { return Ok(()) };
    let path = path.display();
    Err(Refusal::new(Exit::State, format!("`{path}` lacks its last commits"))
        .because(format!("it had commit {noted_revision}, and ends at commit {revision} now"))
        .because("its log, a file with `-wal` after its name, is gone or damaged")
        .advise(format!(
            "poolctl restore BACKUP; to take the state as it is: \
             install -m 600 /dev/null '{path}.lock'"
        )))
}

fn open_for_writing(path: &Path) -> io::Result<File> {
    File::options().write(true).open(path_beside(path, ".lock"))
}

/// The last commit that can be read. None for a state of an earlier schema, which has no lineage.
fn read_commit_of_state(conn: &Connection) -> Option<LastCommit> {
    let mut statement = conn.prepare_cached("SELECT revision, lineage FROM state").ok()?;
    statement
        .query_row([], |row| Ok(LastCommit { revision: row.get(0)?, lineage: row.get(1)? }))
        .ok()
}

fn read_noted_commit(path: &Path) -> Option<LastCommit> {
    // The lock lies beside the file itself, not beside a symbolic link to it.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let file = File::open(path_beside(path, ".lock")).ok()?;
    let mut bytes = [0; MAX_RECORD];
    let size = file.read_at(&mut bytes, OFFSET_OF_RECORD).ok()?;
    let text = String::from_utf8_lossy(&bytes[..size]).into_owned();
    // What a longer record has left behind the end of the line does not count.
    let (record, _) = text.split_once('\n')?;
    let (revision, lineage) = record.split_once(' ')?;
    Some(LastCommit { revision: revision.parse().ok()?, lineage: lineage.to_owned() })
}
