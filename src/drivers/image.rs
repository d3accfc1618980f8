//! Puts the image from which the hosts of a job are booted where their management controllers fetch
//! it. Never makes an image, and never boots a host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::image_folder;
use super::task::Task;

/// An image that controllers can fetch until this value is dropped. Its address contains the job's
/// id, which is random, because the image has secrets in it.
pub struct PublishedImage {
    folder: PathBuf,
    pub url: String,
}

impl Drop for PublishedImage {
    fn drop(&mut self) {
        // If it cannot be removed, or a crash comes before, the deprovision job removes it.
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Finds `KIND.<architecture>.iso`, as openshift-install and oc write it, in a folder.
pub fn find_image(work: &Path, kind: &str) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(work)? {
        let path = entry?.path();
        if is_image(&path, kind) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn is_image(path: &Path, kind: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.extension().is_some_and(|extension| extension == "iso")
        && name.split('.').next() == Some(kind)
}

/// Puts the image where controllers fetch it; None if the job has no machines with a controller.
/// The error is for people: what is missing in the Settings, or what could not be written.
pub fn publish_image(
    task: &Task,
    work: &Path,
    kind: &str,
) -> Result<Option<PublishedImage>, String> {
    if task.order.machines.is_empty() {
        return Ok(None);
    }
    let (Some(folder), Some(url)) = (&task.order.iso_directory, &task.order.iso_url) else {
        let message = "isoDirectory and isoURL of the Settings are not set; they say where images \
                       are put and how controllers fetch them";
        return Err(message.into());
    };
    let image = find_image(work, kind)
        .map_err(|error| describe_error(folder, &error))?
        .ok_or("there is no image")?;
    let job_folder = folder.join(&task.order.job);
    image_folder::create_image_folder(&job_folder)
        .map_err(|error| describe_error(folder, &error))?;
    let name = format!("{kind}.iso");
    let published = PublishedImage {
        url: format!("{}/{}/{name}", url.trim_end_matches('/'), task.order.job),
        folder: job_folder.clone(),
    };
    fs::copy(image, job_folder.join(&name)).map_err(|error| describe_error(folder, &error))?;
    image_folder::open_to_group(&job_folder.join(name))
        .map_err(|error| describe_error(folder, &error))?;
    Ok(Some(published))
}

fn describe_error(folder: &Path, error: &io::Error) -> String {
    format!("{}: {error}", folder.display())
}
