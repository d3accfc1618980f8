//! Instants that are kept in small files beside the state: when the last pass over everything ended,
//! and when the last backup was made. A pass that has nothing to do and a backup write nothing into
//! the state, so it cannot tell. Nothing depends on them but what people are told.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::model::time::Time;

use super::connection::Store;
use super::copies::{give_to_owner_of_state, path_beside};

/// The end of the name of each file.
pub const LAST_PASS: &str = ".passed";
/// The end of the name of the file whose time is that of the last backup.
pub const LAST_BACKUP: &str = ".backed-up";

impl Store {
    /// Writes down that a pass over everything has ended.
    pub fn note_pass(&self, now: Time) {
        note_instant(self.path(), LAST_PASS, now);
    }

    /// Writes down that a backup was made.
    pub fn note_backup(&self, now: Time) {
        note_instant(self.path(), LAST_BACKUP, now);
    }

    /// When the last pass over everything ended; none if that is not known.
    pub fn last_pass(&self) -> Option<Time> {
        read_instant(self.path(), LAST_PASS)
    }

    /// When the last backup was made by `poolctl backup`; none if that is not known.
    pub fn last_backup(&self) -> Option<Time> {
        read_instant(self.path(), LAST_BACKUP)
    }
}

/// Writes an instant. On a full disk, and where the folder is read-only, nobody is told of it.
fn note_instant(state: &Path, ending: &str, now: Time) {
    drop(write_instant(state, ending, now));
}

/// All instants have the same length, so that the next one replaces the last one whole.
fn write_instant(state: &Path, ending: &str, now: Time) -> io::Result<()> {
    let path = path_beside(state, ending);
    let mut file = File::options().create(true).truncate(false).write(true).open(&path)?;
    give_to_owner_of_state(state, &[&path]);
    file.write_all(format!("{now}\n").as_bytes())
}

fn read_instant(state: &Path, ending: &str) -> Option<Time> {
    let line = fs::read_to_string(path_beside(state, ending)).ok()?;
    line.lines().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_read_as_it_was_written_and_the_last_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state.db");
        assert_eq!(read_instant(&state, LAST_PASS), None);
        for second in [90_000_000, 1_000_000, 86_400_000_000] {
            note_instant(&state, LAST_PASS, Time(second));
            assert_eq!(read_instant(&state, LAST_PASS), Some(Time(second)));
        }
        fs::write(path_beside(&state, LAST_BACKUP), "yesterday").unwrap();
        assert_eq!(read_instant(&state, LAST_BACKUP), None);
    }
}
