//! Discovery images: what makes one, where it lies, and which belong to nobody any more.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::model::documents::SettingsSpec;
use crate::model::infra_env::InfraEnv;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::store::Store;

use crate::commands::Context;
use crate::manifest;

/// Where the image of an InfraEnv lies, if it is in the folder of the Settings.
pub fn file_of(settings: &SettingsSpec, one: &InfraEnv) -> Option<PathBuf> {
    let (folder, url) = settings.iso_directory.as_ref().zip(settings.iso_url.as_ref())?;
    let rest = one.status.iso_download_url.strip_prefix(url.trim_end_matches('/'))?;
    let rest = rest.strip_prefix('/').filter(|rest| !rest.contains(".."))?;
    Some(folder.join(rest)).filter(|path| path.is_file())
}

/// Says of InfraEnvs that go where their images still are: a host that runs from a medium dies
/// with it.
pub fn hint_left(context: &Context, store: &Store, gone: &[Object]) -> anyhow::Result<()> {
    let of = |one: &Object| matches!(one, Object::InfraEnv(_));
    if !gone.iter().any(of) {
        return Ok(());
    }
    let settings = context.door(store).settings()?;
    for object in gone {
        let Object::InfraEnv(one) = object else { continue };
        if let Some(path) = file_of(&settings, one) {
            let (name, path) = (&one.metadata.name, path.display());
            context.hint(&format!(
                "the image of infraenv/{name} is still in {path}; remove it once no host runs from it"
            ));
        }
    }
    Ok(())
}

/// Folders of images that no InfraEnv and no job that lives names.
pub fn nobodys(store: &Store, settings: &SettingsSpec) -> Result<Vec<PathBuf>, Refusal> {
    let Some(folder) = &settings.iso_directory else { return Ok(Vec::new()) };
    let jobs = store.live_jobs()?.into_iter().map(|job| job.id.to_string());
    let mut known: Vec<String> = jobs.collect();
    for infra_env in store.all::<InfraEnv>()? {
        known.extend(infra_env.status.iso_download_url.split('/').map(str::to_owned));
    }
    let mut found = Vec::new();
    let unreadable = |error: std::io::Error| manifest::io(&folder.display().to_string(), &error);
    let entries = match std::fs::read_dir(folder) {
        // The first image makes it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // What is called otherwise somebody else has put there.
        let ours =
            name.len() > 32 && name.bytes().all(|one| one.is_ascii_hexdigit() || one == b'-');
        if ours && entry.path().is_dir() && !known.contains(&name) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
