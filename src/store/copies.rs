//! Files and folders beside the state file: what they are called, and how they are written and
//! removed. The copies of a cluster's secrets below `clusters/` are among them; they are made when
//! a program needs them as files, and removed with the cluster. Nothing here reads the state.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::model::documents::SecretValue;
use crate::model::refusal::{Exit, Refusal};

pub use super::temporary::parent_folder;
use super::temporary::{create_temporary_file, find_abandoned_files_in, remove_abandoned_files};

/// The file among the copies that says that some of them are being removed. No cluster has a name
/// that begins with a dot.
const REMOVALS: &str = ".removing";

/// The path of a state with an ending after it, such as `state.db.lock` for `.lock`.
pub fn path_beside(state: &Path, ending: &str) -> PathBuf {
    let mut path = state.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// A folder that belongs to a state: `clusters` beside `state.db`. States of other names may share
/// a folder, so theirs have the name of the state in front: `lab.db.clusters` beside `lab.db`.
pub fn folder_beside(state: &Path, name: &str) -> PathBuf {
    if state.file_name().is_some_and(|file_name| file_name == "state.db") {
        return state.with_file_name(name);
    }
    path_beside(state, &format!(".{name}"))
}

/// The folder of a cluster's copies: `clusters/<name>` beside the state.
pub fn cluster_folder(state: &Path, cluster: &str) -> PathBuf {
    folder_beside(state, "clusters").join(cluster)
}

/// Whether a path is the state itself, or one of the files and folders beside it.
pub fn is_file_of_state(state: &Path, path: &Path) -> bool {
    if fs::canonicalize(path).is_ok_and(|path| path == state) {
        return true;
    }
    let folder = fs::canonicalize(parent_folder(path)).unwrap_or_default();
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let state_name = state.file_name().unwrap_or_default().to_string_lossy();
    let ending = file_name.strip_prefix(&*state_name);
    folder == parent_folder(state)
        && ending.is_some_and(|ending| ending.is_empty() || ending.starts_with(['.', '-']))
}

/// Why a file could not be copied beside a state.
pub fn refuse_copy(from: &Path, error: &io::Error) -> Refusal {
    let name = from.display();
    let lacks_room = matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    );
    if !lacks_room {
        return Refusal::invalid(format!("`{name}` cannot be read")).because(error.to_string());
    }
    let problem =
        format!("there is no room for a copy of `{name}` beside the state; nothing was changed");
    Refusal::new(Exit::State, problem)
        .because(error.to_string())
        .advise("make room, then run the command again")
}

/// What happens to a file that is there where one is to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ExistingFile {
    Replace,
    /// It stays, and the write is refused as a conflict.
    Keep,
}

/// Writes a file with mode 0600, whole or not at all.
pub fn write_private_file(
    path: &Path,
    bytes: &[u8],
    existing: ExistingFile,
) -> Result<(), Refusal> {
    let target = writable_target(path)?;
    write_and_rename(&target, bytes, existing).map_err(|error| Refusal::unwritable(path, &error))
}

/// Writes a file with mode 0600 in parts, whole or not at all, in place of one that is there.
pub fn write_private_file_in_parts(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let target = writable_target(path)?;
    remove_abandoned_files(&target);
    let mut file =
        create_temporary_file(&target).map_err(|error| Refusal::unwritable(path, &error))?;
    write(&mut file)?;
    file.persist(target).map(drop).map_err(|error| Refusal::unwritable(path, &error.error))
}

/// The file that a path leads to, if a file may be written there.
fn writable_target(path: &Path) -> Result<PathBuf, Refusal> {
    // A link stays, and the file that it leads to is written.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // A device or a pipe is somebody's, and is never replaced by a file.
    if target.exists() && !target.is_file() {
        return Err(Refusal::conflict(format!("`{}` is not a file", target.display())));
    }
    Ok(target)
}

/// Writes a temporary file beside a path, which has mode 0600, and gives it its name at the end.
fn write_and_rename(path: &Path, bytes: &[u8], existing: ExistingFile) -> io::Result<()> {
    remove_abandoned_files(path);
    let mut file = create_temporary_file(path)?;
    file.write_all(bytes)?;
    let renamed = match existing {
        ExistingFile::Replace => file.persist(path),
        ExistingFile::Keep => file.persist_noclobber(path),
    };
    renamed.map(drop).map_err(|error| error.error)
}

/// Writes a file that everybody may read, whole or not at all, in place of one that is there.
pub fn write_public_file(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    write_private_file(path, bytes, ExistingFile::Replace)?;
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(path, readable).map_err(|error| Refusal::unwritable(path, &error))
}

/// What helps where no copies can be written beside the state.
const ELSEWHERE: &str = "poolctl backup FILE, on a disk that can be written, then the same command \
                         with --state FILE";

/// Writes a file among the copies of a cluster and returns its path. A copy that is there is
/// written again.
pub fn write_cluster_copy(
    state: &Path,
    cluster: &str,
    file_name: &str,
    value: &SecretValue,
) -> Result<PathBuf, Refusal> {
    let folder = cluster_folder(state, cluster);
    let path = folder.join(file_name);
    fs::create_dir_all(&folder)
        .map_err(|error| Refusal::unwritable(&path, &error).advise(ELSEWHERE))?;
    write_private_file(&path, value.reveal().as_bytes(), ExistingFile::Replace)
        .map_err(|refusal| refusal.advise(ELSEWHERE))?;
    give_to_owner_of_state(state, &[folder.parent().unwrap_or(&folder), &folder, &path]);
    Ok(path)
}

/// Gives files to the owner of the state, if root has made them.
pub fn give_to_owner_of_state(state: &Path, paths: &[&Path]) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Some((user_id, group_id)) = owner_of(state) else { return };
    for path in paths {
        // To give a file to who has it already would still write to the disk.
        if owner_of(path) != Some((user_id, group_id)) {
            // A file system may refuse this even to root. Then the file stays root's, which root can
            // use.
            drop(std::os::unix::fs::chown(path, Some(user_id), Some(group_id)));
        }
    }
}

/// The user and the group that own a file. None if there is no such file.
fn owner_of(path: &Path) -> Option<(u32, u32)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.uid(), metadata.gid()))
}

/// Whether the user that runs this command owns the state, and so what the command makes beside it.
pub fn is_owned_by_this_user(state: &Path) -> bool {
    let user_id = rustix::process::geteuid().as_raw();
    fs::metadata(state).is_ok_and(|metadata| metadata.uid() == user_id)
}

/// Whether a file is among the copies of a cluster.
pub fn has_cluster_copy(state: &Path, cluster: &str, file_name: &str) -> bool {
    cluster_folder(state, cluster).join(file_name).exists()
}

/// Moves the copies of a cluster to another state, which is the one that knows the cluster.
pub fn move_cluster_copies(state: &Path, cluster: &str, other_state: &Path) {
    let from = cluster_folder(state, cluster);
    let to = cluster_folder(other_state, cluster);
    // What cannot be moved stays where it is.
    drop(fs::create_dir_all(parent_folder(&to)).and_then(|()| fs::rename(from, to)));
}

/// Removes the copies of a cluster that is gone.
pub fn remove_cluster_copies(state: &Path, cluster: &str) {
    // What cannot be removed stays as an orphan, which `doctor` finds.
    drop(fs::remove_dir_all(cluster_folder(state, cluster)));
}

/// The names of the clusters that have copies.
pub fn list_clusters_with_copies(state: &Path) -> Vec<String> {
    let mut clusters = Vec::new();
    for entry in fs::read_dir(cluster_folder(state, "")).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().ok();
        clusters.extend(name.filter(|name| name != REMOVALS));
    }
    clusters
}

/// Temporary files among the copies of a cluster that killed commands have left.
pub fn find_abandoned_copies(state: &Path, cluster: &str) -> Vec<PathBuf> {
    find_abandoned_files_in(&cluster_folder(state, cluster))
}

/// Notes that the copies of clusters are about to be removed. The note is on the disk before the
/// commit after which nothing else tells of them. Without copies there is nothing to note.
pub fn announce_removals(state: &Path) -> Result<(), Refusal> {
    let path = cluster_folder(state, REMOVALS);
    if !parent_folder(&path).exists() {
        return Ok(());
    }
    write_note(&path)
        .and_then(|()| sync_folder_of_copies(state))
        .map_err(|error| Refusal::unwritable(&path, &error))
}

/// Makes the note, which is empty. One that is there already is of another command, which still runs or
/// was killed: it gets a letter, so that nobody takes it for a note of its own.
fn write_note(path: &Path) -> io::Result<()> {
    match fs::File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::File::options().append(true).create(true).open(path)?.write_all(b"+")
        }
        created => created.map(drop),
    }
}

/// Whether copies were to be removed, and nobody has noted the end of it.
pub fn are_removals_announced(state: &Path) -> bool {
    cluster_folder(state, REMOVALS).exists()
}

/// Notes that a command has removed the copies that it announced. A note that other commands have
/// written to stays, and the next pass looks for what is left of theirs.
pub fn end_own_removals(state: &Path) {
    if fs::metadata(cluster_folder(state, REMOVALS)).is_ok_and(|note| note.len() == 0) {
        end_removals(state);
    }
}

/// Notes that the copies are removed, once they are on the disk no more.
pub fn end_removals(state: &Path) {
    // If the note stays, the next pass looks for copies to remove, and finds none.
    if are_removals_announced(state) && sync_folder_of_copies(state).is_ok() {
        drop(fs::remove_file(cluster_folder(state, REMOVALS)));
    }
}

/// Returns when the disk has what was added to the folder of copies and what was removed from it.
fn sync_folder_of_copies(state: &Path) -> io::Result<()> {
    fs::File::open(cluster_folder(state, ""))?.sync_all()
}
