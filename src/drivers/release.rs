//! Finds the openshift-install that belongs to a release: the one that is given, or one that oc
//! takes out of the release once. Never runs it but for its version.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::task::{Stopped, Task};

const NAME: &str = "openshift-install";

/// The path of the installer of the order's release. The inner error says for people why there is
/// none.
pub fn find_installer(task: &mut Task) -> Result<Result<PathBuf, String>, Stopped> {
    let release_image = task.order.release_image.clone();
    let mut reason = match task.order.missing.get(NAME) {
        Some(reason) => reason.clone(),
        None => format!("there is no {NAME}"),
    };
    if let Some(program) = task.program_path(NAME) {
        match ask_version(task, &program)? {
            Ok(version) if version.is_of(&release_image) => return Ok(Ok(program)),
            Ok(version) => {
                reason = format!("{} is of release {}", program.display(), version.release);
            }
            Err(error) => reason = error,
        }
    }
    let Some(oc) = task.program_path("oc") else {
        return Ok(Err(format!(
            "{reason}; the cluster needs the one of {release_image}: name it in programs of the \
             Settings, or install oc, which extracts it from the release"
        )));
    };
    extract_installer(task, &oc, &release_image)
}

/// What `openshift-install version` says.
struct Version {
    /// As `4.18.3`.
    number: String,
    /// The release image.
    release: String,
}

impl Version {
    /// Whether it belongs to a release image: it names that image, or the image's tag begins with
    /// its number. A digest tells nothing of a number.
    fn is_of(&self, release_image: &str) -> bool {
        if self.release == release_image {
            return true;
        }
        if release_image.contains('@') || self.number.is_empty() {
            return false;
        }
        let tag = release_image.rsplit_once(':').map_or("", |(_, tag)| tag);
        // After the number comes the architecture, as in `4.18.3-x86_64`.
        tag.strip_prefix(self.number.as_str())
            .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'))
    }
}

/// Asks a program for its version. The inner error is for people.
fn ask_version(task: &mut Task, program: &Path) -> Result<Result<Version, String>, Stopped> {
    let (code, output) = task.ask_program(program, &["version"], &BTreeMap::new())?;
    let number = output.lines().find_map(|line| line.strip_prefix("openshift-install "));
    let release = output.lines().find_map(|line| line.strip_prefix("release image "));
    Ok(match number {
        Some(number) if code == 0 => Ok(Version {
            number: number.trim().trim_start_matches('v').to_owned(),
            release: release.unwrap_or_default().trim().to_owned(),
        }),
        _ => Err(format!("{} does not say its version (exit code {code})", program.display())),
    })
}

/// Takes the installer out of a release image, once: it is kept beside the state, in a folder named
/// after the image.
fn extract_installer(
    task: &mut Task,
    oc: &Path,
    release_image: &str,
) -> Result<Result<PathBuf, String>, Stopped> {
    let state = task.job_folder.path().parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let tools = state.join("tools");
    let folder = tools.join(folder_name(release_image));
    let installer = folder.join(NAME);
    if installer.is_file() {
        return Ok(Ok(installer));
    }
    fs::create_dir_all(&tools)?;
    let new_folder = tempfile::Builder::new().prefix(".new-").tempdir_in(&tools)?;
    let target = new_folder.path().display().to_string();
    let pull_secret = task.job_folder.input_path("pull-secret.json").display().to_string();
    let arguments = [
        "adm",
        "release",
        "extract",
        "--command",
        NAME,
        "--to",
        &target,
        "-a",
        &pull_secret,
        release_image,
    ];
    let code = task.run_program(oc, &arguments, new_folder.path(), &BTreeMap::new())?;
    if code != 0 || !new_folder.path().join(NAME).is_file() {
        return Ok(Err(format!(
            "{NAME} cannot be extracted from {release_image} (oc: exit code {code})"
        )));
    }
    // It fails if another job was faster: then that one's is used.
    if fs::rename(new_folder.path(), &folder).is_ok() {
        drop(new_folder.keep());
    }
    Ok(Ok(installer))
}

/// A name of its own for each release image: all but lower-case letters, digits, dots and hyphens
/// is written as a number.
fn folder_name(release_image: &str) -> String {
    release_image
        .chars()
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '.' | '-' => letter.to_string(),
            _ => format!("_{:x}", u32::from(letter)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_image_or_its_tag() {
        let version = Version { number: "4.18.3".into(), release: "quay.io/ocp@sha256:abc".into() };
        for (release_image, expected) in [
            ("quay.io/ocp@sha256:abc", true),
            ("quay.io/ocp@sha256:abd", false),
            ("quay.io/ocp:4.18.3-x86_64", true),
            ("quay.io/ocp:4.18.3", true),
            ("quay.io/ocp:4.18.30-x86_64", false),
            ("quay.io/ocp:4.19.1-x86_64", false),
        ] {
            assert_eq!(version.is_of(release_image), expected, "{release_image}");
        }
    }
}
