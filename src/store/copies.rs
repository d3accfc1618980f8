//! Files beside the state, copied out of it when somebody needs them as files: 0600, whole or
//! not at all. They go when their cluster goes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::documents::SecretValue;
use crate::model::refusal::Refusal;

/// A file being made is not abandoned yet.
const YOUNG: Duration = Duration::from_secs(3600);

/// `state.db.lock` beside `state.db`.
pub fn beside(state: &Path, end: &str) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// `clusters` beside `state.db`; a state of another name has a folder of its own.
pub fn folder(state: &Path, what: &str) -> PathBuf {
    if state.file_name().is_some_and(|name| name == "state.db") {
        return state.with_file_name(what);
    }
    beside(state, &format!(".{what}"))
}

/// `clusters/<name>/` beside the state.
pub fn cluster_folder(state: &Path, cluster: &str) -> PathBuf {
    folder(state, "clusters").join(cluster)
}

/// Whether a path is the state itself, or one of the files and folders beside it.
pub fn is_ours(state: &Path, path: &Path) -> bool {
    let folder = fs::canonicalize(parent(path)).unwrap_or_default();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let rest = name(path).strip_prefix(&name(state)).map(str::to_owned);
    fs::canonicalize(path).is_ok_and(|path| path == state)
        || (folder == parent(state)
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-'])))
}

/// The folder a file is in.
pub fn parent(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// How the name of a state begins that is being made.
pub(super) fn unfinished(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

/// Files that were to become this one an hour ago or longer.
pub(super) fn abandoned(path: &Path) -> Vec<PathBuf> {
    let prefix = unfinished(path);
    let is_old = |entry: &fs::DirEntry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
        entry.file_name().to_string_lossy().starts_with(&prefix) && age > YOUNG
    };
    let entries = fs::read_dir(parent(path)).into_iter().flatten().flatten();
    entries.filter(is_old).map(|entry| entry.path()).collect()
}

/// Writes a file whole or not at all, for its owner alone.
pub fn place(path: &Path, bytes: &[u8], replace: bool) -> Result<(), Refusal> {
    let unwritable = |error: std::io::Error| Refusal::unwritable(path, &error);
    // Through a link to the file; anything but a file is somebody's device or pipe.
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    if path.exists() && !path.is_file() {
        let what = format!("`{}` is not a file", path.display());
        return Err(Refusal::conflict(what));
    }
    // Temporary files are made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(parent(path)).map_err(unwritable)?;
    file.write_all(bytes).map_err(unwritable)?;
    let placed = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    placed.map(drop).map_err(|error| unwritable(error.error))
}

/// The same for a file that everybody may read.
pub fn publish(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    place(path, bytes, true)?;
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(path, readable).map_err(|error| Refusal::unwritable(path, &error))
}

/// Writes a copy and returns where it is. A copy that is there already is written again.
pub fn write(
    state: &Path,
    cluster: &str,
    file: &str,
    value: &SecretValue,
) -> Result<PathBuf, Refusal> {
    let folder = cluster_folder(state, cluster);
    let path = folder.join(file);
    fs::create_dir_all(&folder).map_err(|error| Refusal::unwritable(&path, &error))?;
    place(&path, value.reveal().as_bytes(), true)?;
    belongs_with(state, &[folder.parent().unwrap_or(&folder), &folder, &path]);
    Ok(path)
}

/// What root makes beside somebody's state is that somebody's.
pub fn belongs_with(state: &Path, made: &[&Path]) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Ok(owner) = fs::metadata(state) else { return };
    for path in made {
        // Root may; where it may not, nothing is lost.
        drop(std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid())));
    }
}

/// Whether what we make beside the state belongs to who has the state.
pub fn are_ours(state: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    fs::metadata(state).is_ok_and(|found| found.uid() == us)
}

pub fn exists(state: &Path, cluster: &str, file: &str) -> bool {
    cluster_folder(state, cluster).join(file).exists()
}

/// What is known of a cluster stays with the state that knows it, when that gets another name.
pub fn hand_on(state: &Path, cluster: &str, other: &Path) {
    let (from, to) = (cluster_folder(state, cluster), cluster_folder(other, cluster));
    // What cannot be moved stays where it was.
    drop(fs::create_dir_all(parent(&to)).and_then(|()| fs::rename(from, to)));
}

/// Removes the copies of a cluster that is gone.
pub fn forget(state: &Path, cluster: &str) {
    // What cannot be removed is an orphan that nobody reads.
    drop(fs::remove_dir_all(cluster_folder(state, cluster)));
}

/// Clusters that have copies.
pub fn clusters(state: &Path) -> Vec<String> {
    let entries = fs::read_dir(cluster_folder(state, "")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
