//! Temporary files and folders beside the file that they are to become. They are locked as long as
//! a command works on them, so that those of commands that were killed are known and removed: there
//! are secrets in them.

use std::ffi::OsString;
use std::fs::{self, DirEntry, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

/// How many letters of the name of a temporary file are drawn at random.
const RANDOM_LETTERS: usize = 6;
/// What SQLite adds to the name of a database that it works on.
const ENDINGS_OF_SQLITE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// A younger file may have been made and not yet been locked.
const MIN_AGE: Duration = Duration::from_secs(1);

/// A folder that is removed with this value. As long as there is this value, nobody else removes
/// it.
pub struct TemporaryFolder {
    folder: TempDir,
    _lock: File,
}

impl TemporaryFolder {
    /// Makes a folder with mode 0700 beside a file.
    pub fn create_beside(path: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(&prefix_of_name(path))
            .rand_bytes(RANDOM_LETTERS)
            .tempdir_in(parent_folder(path))?;
        let lock = File::open(folder.path())?;
        // Where nothing can be locked, nothing is removed as abandoned.
        drop(lock.lock());
        Ok(Self { folder, _lock: lock })
    }

    /// The path of the folder. It is removed with this value.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes a file with mode 0600 that is to become the file at `path`. It is locked as long as it is
/// open.
pub fn create_temporary_file(path: &Path) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix(&prefix_of_name(path))
        .rand_bytes(RANDOM_LETTERS)
        .tempfile_in(parent_folder(path))?;
    // Where nothing can be locked, nothing is removed as abandoned.
    drop(file.as_file().lock());
    Ok(file)
}

/// How the names of temporary files begin that are to become this file.
fn prefix_of_name(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// The folder that a file is in.
pub fn parent_folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Removes what killed commands have left that was to become this file. What cannot be removed is
/// found by `doctor`.
pub fn remove_abandoned_files(path: &Path) {
    for abandoned_path in find_abandoned_files(path) {
        remove_file_or_folder(&abandoned_path);
    }
}

/// Removes a file, or a folder with everything in it.
pub fn remove_file_or_folder(path: &Path) {
    drop(fs::remove_dir_all(path).or_else(|_| fs::remove_file(path)));
}

/// Temporary files and folders that were to become this file, or a copy of it with an ending after
/// its name, and that no command works on.
pub fn find_abandoned_files(path: &Path) -> Vec<PathBuf> {
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut abandoned_files = find_abandoned_files_in(parent_folder(path));
    abandoned_files.retain(|abandoned_path| {
        let name = abandoned_path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name_of_target(&name).and_then(|target| target.strip_prefix(&*file_name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    abandoned_files
}

/// Temporary files and folders in a folder that no command works on.
pub fn find_abandoned_files_in(folder: &Path) -> Vec<PathBuf> {
    let mut abandoned_files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name_of_target(&name).is_some()
            && entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_dir())
            && age_of(&entry) > MIN_AGE
            && !is_in_use(&folder.join(without_ending_of_sqlite(&name)))
        {
            abandoned_files.push(entry.path());
        }
    }
    abandoned_files
}

/// The name of the file that a temporary file with this name was to become: `state.db` of
/// `.state.db.x1Y2z3` and of `.state.db.x1Y2z3-wal`.
fn name_of_target(name: &str) -> Option<&str> {
    let (target, letters) = without_ending_of_sqlite(name).strip_prefix('.')?.rsplit_once('.')?;
    let is_drawn = letters.len() == RANDOM_LETTERS
        && letters.chars().all(|letter| letter.is_ascii_alphanumeric());
    if is_drawn { Some(target) } else { None }
}

fn without_ending_of_sqlite(name: &str) -> &str {
    let mut names = ENDINGS_OF_SQLITE.iter().filter_map(|ending| name.strip_suffix(ending));
    names.next().unwrap_or(name)
}

/// Whether a command works on a temporary file or folder. One that is gone may have left files of
/// SQLite, which nobody works on.
fn is_in_use(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => file.try_lock().is_err(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// The time since a file was last written to; zero if it cannot be told.
fn age_of(entry: &DirEntry) -> Duration {
    let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|modified| modified.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_temporary_files_say_what_they_were_to_become() {
        for (name, target) in [
            (".state.db.x1Y2z3", Some("state.db")),
            (".state.db.x1Y2z3-wal", Some("state.db")),
            (".state.db.swp", None),
            (".state.db.x1Y2z", None),
            ("state.db.x1Y2z3", None),
            (".bashrc", None),
            (".state.db.x1Y2z3-old", None),
        ] {
            assert_eq!(name_of_target(name), target, "{name}");
        }
    }

    #[test]
    fn what_is_locked_is_not_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let file = create_temporary_file(&path).unwrap();
        let beside = TemporaryFolder::create_beside(&path).unwrap();
        assert!(is_in_use(file.path()) && is_in_use(beside.path()));
        let (file, kept_path) = file.keep().unwrap();
        drop(file);
        assert!(!is_in_use(&kept_path));
        // It is younger than a second.
        assert!(find_abandoned_files(&path).is_empty());
    }
}
