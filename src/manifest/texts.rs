//! Reads the texts of manifests from files, folders and standard input. It knows nothing of what they
//! say.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::model::refusal::{Exit, Refusal};

/// The name and the text of a file, of each manifest in a folder, or of standard input if the path
/// is `-`. A text of more than `limit` bytes is refused.
pub fn read_texts(path: &Path, limit: usize) -> Result<Vec<(String, String)>, Refusal> {
    let name = path.display().to_string();
    if name == "-" {
        let content = read_text("stdin", std::io::stdin().lock(), limit)?;
        return Ok(vec![("stdin".into(), content)]);
    }
    let metadata = std::fs::metadata(path).map_err(|error| refuse_unreadable(&name, &error))?;
    if !metadata.is_dir() {
        let content = read_file(path, &name, limit)?;
        return Ok(vec![(name, content)]);
    }
    let mut texts = Vec::new();
    for file in manifest_files(path, &name)? {
        let file_name = file.display().to_string();
        let content = read_file(&file, &file_name, limit)?;
        texts.push((file_name, content));
    }
    Ok(texts)
}

/// The manifests in a folder, not in folders below it, in the order of their names.
fn manifest_files(folder: &Path, name: &str) -> Result<Vec<PathBuf>, Refusal> {
    let entries = std::fs::read_dir(folder).map_err(|error| refuse_unreadable(name, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| refuse_unreadable(name, &error))?.path();
        let is_manifest = path.extension().is_some_and(|extension| {
            extension == "yaml" || extension == "yml" || extension == "json"
        });
        if is_manifest && !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Refusal::invalid(format!("`{name}` has no yaml, yml or json files")));
    }
    files.sort_unstable();
    Ok(files)
}

/// The folders with manifests at and below each path, and the paths that are files.
pub fn folders_below(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    let mut folders = Vec::new();
    let mut waiting = paths.to_vec();
    while let Some(path) = waiting.pop() {
        if !path.is_dir() {
            folders.push(path);
            continue;
        }
        let name = path.display().to_string();
        let entries = std::fs::read_dir(&path).map_err(|error| refuse_unreadable(&name, &error))?;
        for entry in entries {
            let below = entry.map_err(|error| refuse_unreadable(&name, &error))?.path();
            // A link may lead back to a folder above.
            if below.is_dir() && !below.is_symlink() {
                waiting.push(below);
            }
        }
        if manifest_files(&path, &name).is_ok() {
            folders.push(path);
        }
    }
    if folders.is_empty() {
        return Err(Refusal::invalid("there are no yaml, yml or json files in the folders"));
    }
    folders.sort_unstable();
    Ok(folders)
}

fn read_file(path: &Path, name: &str, limit: usize) -> Result<String, Refusal> {
    let file = std::fs::File::open(path).map_err(|error| refuse_unreadable(name, &error))?;
    read_text(name, file, limit)
}

/// Reads a text of at most `limit` bytes. `name` is how a refusal calls the source.
pub fn read_text(name: &str, source: impl Read, limit: usize) -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    // One byte more than is accepted shows that there is more.
    source
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refuse_unreadable(name, &error))?;
    if bytes.len() > limit {
        return Err(refuse_large(name, limit));
    }
    String::from_utf8(bytes).map_err(|_| Refusal::invalid(format!("{name}: is not UTF-8 text")))
}

/// Refuses a text that has more than `limit` bytes.
pub fn refuse_large(name: &str, limit: usize) -> Refusal {
    Refusal::invalid(format!("{name}: more than {limit} bytes"))
        .advise("split it into several files")
}

/// Why a file cannot be read, with the exit code that fits.
pub fn refuse_unreadable(name: &str, error: &std::io::Error) -> Refusal {
    use std::io::ErrorKind;
    let exit = match error.kind() {
        ErrorKind::NotFound => Exit::NotFound,
        ErrorKind::PermissionDenied => Exit::Denied,
        _ => Exit::Failed,
    };
    Refusal::new(exit, format!("`{name}` cannot be read")).because(error.to_string())
}
