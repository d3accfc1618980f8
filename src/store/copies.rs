//! Files beside the state, copied out of it when somebody needs them as files: 0600, whole or
//! not at all. They go when their cluster goes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::model::documents::SecretValue;
use crate::model::refusal::{Exit, Refusal};

/// `clusters/<name>/` beside the state.
pub fn cluster_folder(state: &Path, cluster: &str) -> PathBuf {
    state.with_file_name("clusters").join(cluster)
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
    let written = fs::create_dir_all(&folder).and_then(|()| {
        // Temporary files are made with mode 0600.
        let mut beside = tempfile::NamedTempFile::new_in(&folder)?;
        beside.write_all(value.reveal().as_bytes())?;
        beside.persist(&path)?;
        belongs_with(state, &[folder.parent().unwrap_or(&folder), &folder, &path]);
        Ok(())
    });
    written.map(|()| path.clone()).map_err(|error| {
        Refusal::new(Exit::Failed, format!("`{}` cannot be written", path.display()))
            .because(error.to_string())
    })
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

pub fn exists(state: &Path, cluster: &str, file: &str) -> bool {
    cluster_folder(state, cluster).join(file).exists()
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
