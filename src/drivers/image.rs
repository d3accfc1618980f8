//! The image from which the hosts of a job are booted: found where a program left it, and put where
//! controllers fetch it. Never boots a host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::shelf;
use super::task::Task;

/// The image lies where controllers fetch it while it is needed, under a name that nobody guesses.
pub struct Published {
    folder: PathBuf,
    pub url: String,
}

impl Drop for Published {
    fn drop(&mut self) {
        // Whoever is left behind by a crash goes with the deprovision job.
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Finds `KIND.<architecture>.iso`.
pub fn find_image(work: &Path, kind: &str) -> io::Result<Option<PathBuf>> {
    let is_image = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        path.extension().is_some_and(|end| end == "iso")
            && name.is_some_and(|name| name.split('.').next() == Some(kind))
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(work)? {
        paths.push(entry?.path());
    }
    Ok(paths.into_iter().find(is_image))
}

/// Puts the image where controllers fetch it; without controllers it stays where it is.
pub fn publish(task: &Task, work: &Path, kind: &str) -> Result<Option<Published>, String> {
    if task.order.machines.is_empty() {
        return Ok(None);
    }
    let (Some(folder), Some(url)) = (&task.order.iso_directory, &task.order.iso_url) else {
        return Err("isoDirectory and isoURL of the Settings say where images are put and how \
                    controllers fetch them, and are not set"
            .into());
    };
    let wrong = |error: io::Error| format!("{}: {error}", folder.display());
    let image = find_image(work, kind).map_err(wrong)?.ok_or("there is no image")?;
    let own = folder.join(&task.order.job);
    shelf::folder(&own).map_err(wrong)?;
    let name = format!("{kind}.iso");
    let published = Published {
        url: format!("{}/{}/{name}", url.trim_end_matches('/'), task.order.job),
        folder: own.clone(),
    };
    fs::copy(image, own.join(&name)).map_err(wrong)?;
    shelf::open(&own.join(name)).map_err(wrong)?;
    Ok(Some(published))
}
