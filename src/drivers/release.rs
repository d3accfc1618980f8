//! Finds the openshift-install that belongs to a release: the one that is given, or one that oc
//! takes out of the release once. Never runs it but for its version.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::model::order::JobOrder;

use super::task::{Stopped, Task};
use super::{log, site};

const NAME: &str = "openshift-install";
/// Letters of an error of oc that are repeated.
const ERROR_LETTERS: usize = 300;

/// An installer that belongs to the release of an order.
pub struct ReleaseInstaller {
    pub program: PathBuf,
    version: Version,
}

impl ReleaseInstaller {
    /// The image that the installer has to be told to install, because it would pull its own from
    /// another repository, which may be out of reach.
    pub fn release_override<'a>(&self, release_image: &'a str) -> Option<&'a str> {
        let is_pulled_elsewhere = repository(&self.version.release) != repository(release_image);
        if is_pulled_elsewhere { Some(release_image) } else { None }
    }

    /// Whether it installs the release whose installer waits on a host. The host compares the names
    /// of the images letter by letter. `release_image` is the one of the order.
    pub fn installs(&self, release_image: &str, host_release: &str) -> bool {
        self.release_override(release_image).unwrap_or(&self.version.release) == host_release
    }

    /// Whether it knows mirrors only by their older name: `imageDigestSources` came with 4.14.
    pub fn has_content_sources(&self) -> bool {
        let mut parts = self.version.number.split('.');
        let major: Option<u32> = parts.next().and_then(|part| part.parse().ok());
        let minor: Option<u32> = parts.next().and_then(|part| part.parse().ok());
        matches!((major, minor), (Some(4), Some(minor)) if minor < 14)
    }
}

/// The installer of the order's release. The inner error says for people why there is none.
pub fn find_installer(task: &mut Task) -> Result<Result<ReleaseInstaller, String>, Stopped> {
    let release_image = task.order.release_image.clone();
    let mut reasons = reasons_of_listed_installers(&task.order, &release_image);
    let programs = candidate_programs(&task.order, &release_image);
    if programs.is_empty() {
        let reason = task.order.missing.get(NAME).cloned();
        reasons.push(reason.unwrap_or_else(|| format!("there is no {NAME}")));
    }
    for program in programs {
        match ask_version(task, &program)? {
            Ok(version) if version.is_of(&release_image) => {
                return Ok(Ok(ReleaseInstaller { program, version }));
            }
            Ok(version) => {
                reasons.push(format!("{} is of release {}", program.display(), version.release));
            }
            Err(error) => reasons.push(error),
        }
    }
    if release_image.is_empty() {
        reasons.push("there is no ClusterImageSet that names the release of the cluster".into());
        return Ok(Err(reasons.join("; ")));
    }
    let Some(oc) = task.program_path("oc") else {
        return Ok(Err(format!(
            "{}; the cluster needs the one of {release_image}: name it in programs of the \
             Settings, or install oc, which extracts it from the release",
            reasons.join("; ")
        )));
    };
    extract_installer(task, &oc, &release_image)
}

/// Why installers that the Settings list for a release cannot be used.
fn reasons_of_listed_installers(order: &JobOrder, release_image: &str) -> Vec<String> {
    let listed = order.missing.iter().filter(|(key, _)| is_key_of(key, release_image));
    listed.map(|(_, reason)| reason.clone()).collect()
}

/// The installers of the Settings, each once: first those that are listed for the release, then the
/// one of `programs`, then those that are listed for others. The digest of a release tells nothing
/// of its version, so one of these may be the right one, too.
fn candidate_programs(order: &JobOrder, release_image: &str) -> Vec<PathBuf> {
    let (listed, unlisted): (Vec<_>, Vec<_>) =
        order.site.installers.iter().partition(|(key, _)| is_key_of(key, release_image));
    let mut programs: Vec<PathBuf> = Vec::new();
    let listed_programs = listed.into_iter().map(|(_, program)| program);
    let unlisted_programs = unlisted.into_iter().map(|(_, program)| program);
    for program in listed_programs.chain(order.programs.get(NAME)).chain(unlisted_programs) {
        if !programs.contains(program) {
            programs.push(program.clone());
        }
    }
    programs
}

/// Whether a version or a digest is that of a release image.
fn is_key_of(key: &str, release_image: &str) -> bool {
    match digest(release_image) {
        Some(digest) => digest == key,
        None => has_tag_of(release_image, key),
    }
}

/// What follows the `@` of an image.
fn digest(image: &str) -> Option<&str> {
    image.rsplit_once('@').map(|(_, digest)| digest)
}

/// An image without its tag and its digest.
fn repository(image: &str) -> &str {
    let tagged_image = image.rsplit_once('@').map_or(image, |(tagged_image, _)| tagged_image);
    match tagged_image.rsplit_once(':') {
        // After a colon with a slash behind it comes the port of the registry.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => tagged_image,
    }
}

/// Whether the tag of an image begins with the number of a version. After the number comes the
/// architecture, as in `4.18.3-x86_64`.
fn has_tag_of(image: &str, number: &str) -> bool {
    let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
    !number.is_empty()
        && tag
            .strip_prefix(number)
            .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'))
}

/// What `openshift-install version` says.
#[derive(Default)]
struct Version {
    /// As `4.18.3`.
    number: String,
    /// The release image.
    release: String,
}

impl Version {
    /// Whether it belongs to a release image: it names that image, or one with the same digest in
    /// another registry, or the image's tag begins with its number. A digest tells nothing of a
    /// number.
    fn is_of(&self, release_image: &str) -> bool {
        if self.release == release_image {
            return true;
        }
        match digest(release_image) {
            Some(wanted_digest) => digest(&self.release) == Some(wanted_digest),
            None => has_tag_of(release_image, &self.number),
        }
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
/// after the release. Jobs that need the same one wait for the first of them.
fn extract_installer(
    task: &mut Task,
    oc: &Path,
    release_image: &str,
) -> Result<Result<ReleaseInstaller, String>, Stopped> {
    let state = task.job_folder.path().parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let tools = state.join("tools");
    fs::create_dir_all(&tools)?;
    // The same digest is the same release, whichever registry it is pulled from.
    let name = folder_name(digest(release_image).unwrap_or(release_image));
    let folder = tools.join(&name);
    let program = folder.join(NAME);
    if !program.is_file() {
        let _lock = wait_for_lock(task, &tools.join(format!(".lock-{name}")))?;
        if !program.is_file()
            && let Err(error) = extract_into(task, oc, release_image, &folder)?
        {
            return Ok(Err(error));
        }
    }
    // It was extracted from this very release, even if it does not say so.
    let version = ask_version(task, &program)?.unwrap_or_default();
    Ok(Ok(ReleaseInstaller { program, version }))
}

/// Waits until no other job has the lock. It is given back when the file is dropped.
fn wait_for_lock(task: &mut Task, path: &Path) -> Result<File, Stopped> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => task.wait_unless_stopped()?,
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// Runs oc, and moves what it has extracted into the folder, whole and at once. The inner error is
/// for people.
fn extract_into(
    task: &mut Task,
    oc: &Path,
    release_image: &str,
    folder: &Path,
) -> Result<Result<(), String>, Stopped> {
    // Authorities of the site come with SSL_CERT_FILE: oc has no option for those of registries.
    let environment = match site::program_environment(task) {
        Ok(environment) => environment,
        Err(error) => return Ok(Err(error)),
    };
    let tools = folder.parent().unwrap_or(folder);
    let new_folder = tempfile::Builder::new().prefix(".new-").tempdir_in(tools)?;
    let target = new_folder.path().display().to_string();
    let pull_secret = task.job_folder.input_path("pull-secret.json").display().to_string();
    let mut arguments = vec!["adm", "release", "extract", "--command", NAME, "--to", &target];
    arguments.extend(["-a", &pull_secret]);
    let mirror_file = task.job_folder.file_path("mirrors.yaml").display().to_string();
    if let Some(mirror_set) = site::mirror_set(&task.order.site.mirrors) {
        // JSON is YAML, too.
        task.job_folder.write_file("mirrors.yaml", mirror_set.to_string().as_bytes())?;
        arguments.extend(["--idms-file", &mirror_file]);
    }
    arguments.push(release_image);
    let log_start = log::logged_bytes(task.job_folder.path());
    let code = task.run_program(oc, &arguments, new_folder.path(), &environment)?;
    if code != 0 || !new_folder.path().join(NAME).is_file() {
        let mut message =
            format!("{NAME} cannot be extracted from {release_image} (oc: exit code {code})");
        if let Some(error) = first_error(task.job_folder.path(), log_start) {
            message += ": ";
            message += &error;
        }
        return Ok(Err(message));
    }
    fs::rename(new_folder.path(), folder)?;
    // It has another name now: there is no temporary folder left to remove.
    drop(new_folder.keep());
    Ok(Ok(()))
}

/// The first error that oc has printed since the log was so long.
fn first_error(job_folder: &Path, log_start: u64) -> Option<String> {
    let output: String = log::read_pieces(job_folder, log_start).map(|piece| piece.text).collect();
    let error = output.lines().find_map(|line| line.strip_prefix("error: "))?;
    Some(error.chars().take(ERROR_LETTERS).collect())
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
            ("mirror.example.com:5000/ocp@sha256:abc", true),
            ("quay.io/ocp@sha256:abd", false),
            ("quay.io/ocp:4.18.3-x86_64", true),
            ("quay.io/ocp:4.18.3", true),
            ("quay.io/ocp:4.18.30-x86_64", false),
            ("quay.io/ocp:4.19.1-x86_64", false),
        ] {
            assert_eq!(version.is_of(release_image), expected, "{release_image}");
        }
    }

    #[test]
    fn an_installer_is_told_of_a_release_that_it_would_pull_from_elsewhere() {
        let version = Version { number: "4.18.3".into(), release: "quay.io/ocp@sha256:abc".into() };
        let installer = ReleaseInstaller { program: PathBuf::new(), version };
        for (release_image, is_told) in [
            ("quay.io/ocp@sha256:abc", false),
            ("quay.io/ocp:4.18.3-x86_64", false),
            ("mirror.example.com:5000/ocp@sha256:abc", true),
            ("mirror.example.com:5000/ocp:4.18.3", true),
            ("mirror.example.com:5000", true),
        ] {
            assert_eq!(
                installer.release_override(release_image).is_some(),
                is_told,
                "{release_image}"
            );
        }
    }

    #[test]
    fn mirrors_have_their_older_name_before_4_14() {
        for (number, expected) in [
            ("4.12.60", true),
            ("4.13.0-rc.1", true),
            ("4.14.0", false),
            ("4.20.1", false),
            ("", false),
        ] {
            let version = Version { number: number.into(), release: String::new() };
            let installer = ReleaseInstaller { program: PathBuf::new(), version };
            assert_eq!(installer.has_content_sources(), expected, "{number}");
        }
    }
}
