//! The openshift-install that belongs to a release: given, or taken out of the release once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::task::{Stopped, Task};

const NAME: &str = "openshift-install";

/// The installer of the order's release, or why there is none.
pub fn find_installer(task: &mut Task) -> Result<Result<PathBuf, String>, Stopped> {
    let wanted = task.order.release_image.clone();
    let missing = task.order.missing.get(NAME).cloned();
    let mut why = missing.unwrap_or_else(|| format!("there is no {NAME}"));
    if let Some(given) = task.program_path(NAME) {
        match version(task, &given)? {
            Ok(found) if found.is_of(&wanted) => return Ok(Ok(given)),
            Ok(found) => why = format!("{} is of release {}", given.display(), found.release),
            Err(wrong) => why = wrong,
        }
    }
    let Some(oc) = task.program_path("oc") else {
        return Ok(Err(format!(
            "{why}; wanted is the one of {wanted}: name it in programs of the Settings, or install oc, which takes it out of the release"
        )));
    };
    extract(task, &oc, &wanted)
}

/// What `openshift-install version` says.
struct Version {
    number: String,
    release: String,
}

impl Version {
    /// By its release image, or by the version that the image's tag begins with.
    fn is_of(&self, wanted: &str) -> bool {
        let tag = wanted.rsplit_once(':').map_or("", |(_, tag)| tag);
        let rest = tag.strip_prefix(self.number.as_str());
        let same = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        self.release == wanted || (!wanted.contains('@') && !self.number.is_empty() && same)
    }
}

fn version(task: &mut Task, program: &Path) -> Result<Result<Version, String>, Stopped> {
    let (code, text) = task.ask_program(program, &["version"], &BTreeMap::new())?;
    let after = |prefix: &str| text.lines().find_map(|line| line.strip_prefix(prefix));
    let (number, release) = (after("openshift-install "), after("release image "));
    Ok(match number {
        Some(number) if code == 0 => Ok(Version {
            number: number.trim().trim_start_matches('v').to_owned(),
            release: release.unwrap_or_default().trim().to_owned(),
        }),
        _ => Err(format!("{} does not say its version (exit code {code})", program.display())),
    })
}

/// Taken out of the release image once, and kept beside the state under its name.
fn extract(task: &mut Task, oc: &Path, wanted: &str) -> Result<Result<PathBuf, String>, Stopped> {
    // Each release has a folder of its own: letters that others stand for are spelled out.
    let safe = |letter: char| match letter {
        'a'..='z' | '0'..='9' | '.' | '-' => letter.to_string(),
        other => format!("_{:x}", u32::from(other)),
    };
    let folder: String = wanted.chars().map(safe).collect();
    let state = task.job_folder.path().parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let tools = state.join("tools");
    let kept = tools.join(&folder).join(NAME);
    if kept.is_file() {
        return Ok(Ok(kept));
    }
    fs::create_dir_all(&tools)?;
    let made = tempfile::Builder::new().prefix(".new-").tempdir_in(&tools)?;
    let to = made.path().display().to_string();
    let secret = task.job_folder.input_path("pull-secret.json").display().to_string();
    let arguments =
        ["adm", "release", "extract", "--command", NAME, "--to", &to, "-a", &secret, wanted];
    let folder = tools.join(folder);
    let code = task.run_program(oc, &arguments, made.path(), &BTreeMap::new())?;
    if code != 0 || !made.path().join(NAME).is_file() {
        return Ok(Err(format!("{NAME} cannot be taken out of {wanted} (oc: exit code {code})")));
    }
    // Another job may have been faster.
    if fs::rename(made.path(), &folder).is_ok() {
        drop(made.keep());
    }
    Ok(Ok(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_image_or_its_tag() {
        let one = Version { number: "4.18.3".into(), release: "quay.io/ocp@sha256:abc".into() };
        for (wanted, is) in [
            ("quay.io/ocp@sha256:abc", true),
            ("quay.io/ocp@sha256:abd", false),
            ("quay.io/ocp:4.18.3-x86_64", true),
            ("quay.io/ocp:4.18.3", true),
            ("quay.io/ocp:4.18.30-x86_64", false),
            ("quay.io/ocp:4.19.1-x86_64", false),
        ] {
            assert_eq!(one.is_of(wanted), is, "{wanted}");
        }
    }
}
