//! Finds the files of discovery images: that of an InfraEnv, and those that no InfraEnv names any
//! more. Never removes one: a machine that runs from an image dies with it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::model::documents::SettingsSpec;
use crate::model::infra_env::InfraEnv;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::store::Store;

use crate::commands::Context;
use crate::manifest;

/// The file of the image of an InfraEnv, if it is in the folder of the Settings.
pub fn find_image_file(settings: &SettingsSpec, infra_env: &InfraEnv) -> Option<PathBuf> {
    let (folder, base_url) = settings.iso_directory.as_ref().zip(settings.iso_url.as_ref())?;
    let image_url = &infra_env.status.iso_download_url;
    let path = image_url.strip_prefix(base_url.trim_end_matches('/'))?.strip_prefix('/')?;
    // Another person may have written the URL: it must not lead out of the folder.
    if path.contains("..") {
        return None;
    }
    Some(folder.join(path)).filter(|path| path.is_file())
}

/// Tells where the images of deleted InfraEnvs still are.
pub fn hint_left_images(
    context: &Context,
    store: &Store,
    deleted_objects: &[Object],
) -> anyhow::Result<()> {
    if !deleted_objects.iter().any(|object| matches!(object, Object::InfraEnv(_))) {
        return Ok(());
    }
    let settings = context.door(store).read_settings()?;
    for object in deleted_objects {
        let Object::InfraEnv(infra_env) = object else { continue };
        if let Some(path) = find_image_file(&settings, infra_env) {
            context.hint(&format!(
                "the image of infraenv/{} is still in {}; remove it when no host runs from it",
                infra_env.metadata.name,
                path.display()
            ));
        }
    }
    Ok(())
}

/// Folders of images that no InfraEnv and no live job names, sorted.
pub fn find_orphaned_images(
    store: &Store,
    settings: &SettingsSpec,
) -> Result<Vec<PathBuf>, Refusal> {
    let Some(folder) = &settings.iso_directory else { return Ok(Vec::new()) };
    let jobs = store.live_jobs()?.into_iter();
    let mut used_names: Vec<String> = jobs.map(|job| job.id.to_string()).collect();
    for infra_env in store.list_all::<InfraEnv>()? {
        used_names.extend(infra_env.status.iso_download_url.split('/').map(str::to_owned));
    }
    let entries = match std::fs::read_dir(folder) {
        // The first image makes the folder.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| refuse_unreadable(folder, &error))?,
    };
    let mut orphaned_images = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| refuse_unreadable(folder, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_image_folder_name(&name) && entry.path().is_dir() && !used_names.contains(&name) {
            orphaned_images.push(entry.path());
        }
    }
    orphaned_images.sort_unstable();
    Ok(orphaned_images)
}

/// Whether poolctl makes folders with such names: a person has put the others there.
fn is_image_folder_name(name: &str) -> bool {
    name.len() > 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn refuse_unreadable(folder: &Path, error: &std::io::Error) -> Refusal {
    manifest::refuse_unreadable(&folder.display().to_string(), error)
}
