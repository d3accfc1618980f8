//! Consistent copies of a whole database, which others may write to meanwhile. Nothing here knows
//! what is in it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::model::refusal::{Exit, Refusal};

use super::pages::FILE_HEADER_SIZE;
use super::temporary::{create_temporary_file, parent_folder, remove_abandoned_files};

/// Writes a copy of a database to a file, whole or not at all, in place of a file that is there.
pub fn write_snapshot(from: &Connection, to: &Path) -> Result<(), Refusal> {
    remove_abandoned_files(to);
    let file = create_temporary_file(to).map_err(|error| Refusal::unwritable(to, &error))?;
    let mut copy = Connection::open(file.path())?;
    transfer(from, &mut copy)?;
    // Without a write-ahead log the copy is one file, which can be read anywhere.
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    copy.close().map_err(|(_, error)| Refusal::from(error))?;
    refuse_need_of_log(file.path())
        .and_then(|()| put_in_place(file, to))
        .map_err(|error| Refusal::unwritable(to, &error))
}

/// Refuses a copy that cannot be read without its log: nobody could open it. SQLite calls it no error
/// if the disk does not take the page that says that there is none.
fn refuse_need_of_log(copy: &Path) -> io::Result<()> {
    let mut header = [0; FILE_HEADER_SIZE];
    File::open(copy)?.read_exact(&mut header)?;
    // The versions for writing and for reading: 1 without a log, 2 with one.
    if header[18..20] == [1, 1] {
        return Ok(());
    }
    Err(io::Error::other("the disk did not take the first page of the copy"))
}

/// Gives a temporary file its name. Both are on the disk when this returns.
fn put_in_place(file: tempfile::NamedTempFile, to: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(to).map_err(|error| error.error)?;
    File::open(parent_folder(to))?.sync_all()
}

/// Copies one database over another. All pages go in one step: between several, somebody could
/// write, and SQLite would begin again.
pub fn transfer(from: &Connection, to: &mut Connection) -> Result<(), Refusal> {
    match Backup::new(from, to)?.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(Refusal::new(Exit::State, "the state file is locked by another program")),
    }
}
