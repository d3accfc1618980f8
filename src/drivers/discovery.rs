//! Makes discovery images: coreos-installer puts an Ignition into a live image, openshift-install
//! makes one that ours is merged over. Decides nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::process::{self, BackgroundProgram, PATH, Stopwatch};
use super::scrub::Secrets;
use super::shelf;

/// The programs, as the settings may name them.
pub const COREOS_INSTALLER: &str = "coreos-installer";
pub const OPENSHIFT_INSTALL: &str = "openshift-install";
/// What openshift-install writes.
const UNCONFIGURED: &str = "unconfigured-agent.ign";
/// How long a program may take: an image has about a gigabyte.
const LONGEST: Duration = Duration::from_secs(900);
/// As much of what a program says as is read, and as is repeated.
const READ: u64 = 64 << 10;
const SAID: usize = 600;

/// An image to be made.
pub struct Build<'a> {
    /// See `programs::find`.
    pub program: &'a Path,
    /// As the release has it, not customized.
    pub base_iso: &'a Path,
    pub ignition: &'a Path,
    /// Of `render::discovery::kernel_arguments`.
    pub kargs: &'a [String],
    /// There at once and whole, or not at all; what was there before is replaced.
    pub out: &'a Path,
}

impl Build<'_> {
    /// Waits until the image is there, or says why it is not. Nothing is left behind, also when
    /// somebody interrupts it.
    pub fn run(&self, interrupted: impl Fn() -> bool) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", self.out.display());
        let folder = self.out.parent().unwrap_or(Path::new("/"));
        let made = private().tempdir_in(folder).map_err(failed)?;
        let image = made.path().join("image.iso");
        let [ignition, to, base] =
            [self.ignition, image.as_path(), self.base_iso].map(|path| path.display().to_string());
        let mut arguments = vec!["iso", "customize", "--live-ignition", &ignition];
        arguments.extend(self.kargs.iter().map(String::as_str));
        arguments.extend(["-o", &to, &base]);
        let tool = Tool { name: COREOS_INSTALLER, program: self.program, folder: &made };
        tool.work(&arguments, &[], interrupted)?;
        self.keep(&image).map_err(failed)
    }

    fn keep(&self, image: &Path) -> io::Result<()> {
        shelf::open_to_group(image)?;
        File::open(image)?.sync_all()?;
        fs::rename(image, self.out)
    }
}

/// The Ignition of hosts that wait for the configuration of their cluster, to be made.
pub struct Unconfigured<'a> {
    pub program: &'a Path,
    /// Of `render::discovery::manifests`: files of `cluster-manifests` by name.
    pub manifests: &'a [(&'static str, String)],
    /// What of them the program may say, and nobody else.
    pub secrets: &'a [String],
}

impl Unconfigured<'_> {
    /// Waits for it and returns its text. The installer keeps what it is given in its folder,
    /// which is made for this and goes.
    pub fn run(&self, interrupted: impl Fn() -> bool) -> Result<String, String> {
        let failed = |error: io::Error| format!("{OPENSHIFT_INSTALL}: {error}");
        let made = private().tempdir().map_err(failed)?;
        let inputs = made.path().join("cluster-manifests");
        fs::create_dir(&inputs).map_err(failed)?;
        for (name, text) in self.manifests {
            fs::write(inputs.join(name), text).map_err(failed)?;
        }
        let arguments = ["agent", "create", "unconfigured-ignition", "--dir", "."];
        let tool = Tool { name: OPENSHIFT_INSTALL, program: self.program, folder: &made };
        tool.work(&arguments, self.secrets, interrupted)?;
        fs::read_to_string(made.path().join(UNCONFIGURED))
            .map_err(|error| format!("{OPENSHIFT_INSTALL} left no {UNCONFIGURED}: {error}"))
    }
}

/// Folders that nobody else may enter, whatever the umask says.
fn private() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".new-").permissions(Permissions::from_mode(0o700));
    builder
}

/// A program, in a folder that is its home; of our environment it has nothing.
struct Tool<'a> {
    name: &'static str,
    program: &'a Path,
    folder: &'a TempDir,
}

impl Tool<'_> {
    /// Waits for its end. Why it has failed is what it said last, without these secrets.
    fn work(
        &self,
        arguments: &[&str],
        secrets: &[String],
        interrupted: impl Fn() -> bool,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", self.program.display());
        let mut said = tempfile::tempfile().map_err(failed)?;
        let code = self.attend(arguments, &said, interrupted)?;
        if code == 0 {
            return Ok(());
        }
        let said = last(&mut said, secrets).unwrap_or_default();
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Err(format!("{} failed (exit code {code}){said}", self.name))
    }

    fn attend(
        &self,
        arguments: &[&str],
        said: &File,
        interrupted: impl Fn() -> bool,
    ) -> Result<i32, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.program.display());
        let folder = self.folder.path();
        let home = folder.display().to_string();
        let environment =
            BTreeMap::from([("HOME".to_owned(), home), ("PATH".to_owned(), PATH.to_owned())]);
        let program = BackgroundProgram {
            program: self.program,
            arguments,
            folder,
            environment: &environment,
        };
        let output = (said.try_clone().map_err(failed)?, said.try_clone().map_err(failed)?);
        let mut child = program.start(output).map_err(failed)?;
        let watch = Stopwatch::start();
        loop {
            if let Some(code) = process::exit_code_if_ended(&mut child).map_err(failed)? {
                return Ok(code);
            }
            let late = watch.elapsed() > LONGEST;
            if late || interrupted() {
                process::end_process_group(&mut child, process::pause_briefly);
                let why = if late { "takes too long" } else { "was interrupted" };
                return Err(format!("{} {why}", self.name));
            }
            process::pause_briefly();
        }
    }
}

/// The last that a program said, in one line and without secrets.
fn last(said: &mut File, secrets: &[String]) -> io::Result<String> {
    let length = said.metadata()?.len();
    said.seek(SeekFrom::Start(length.saturating_sub(READ)))?;
    let mut bytes = Vec::new();
    said.read_to_end(&mut bytes)?;
    // Before anything is cut: half a secret is not known.
    let shown = Secrets::new(secrets.iter().map(String::as_str)).hide_in(&bytes);
    let text = String::from_utf8_lossy(&shown[shown.len().saturating_sub(SAID)..]);
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that says its arguments, and what it makes of them.
    fn built(script: &str, kargs: &[String]) -> (Result<(), String>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("program"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path("program"), Permissions::from_mode(0o755)).unwrap();
        fs::write(path("base.iso"), "base").unwrap();
        let result = Build {
            program: &path("program"),
            base_iso: &path("base.iso"),
            ignition: &path("config.ign"),
            kargs,
            out: &path("rack.iso"),
        }
        .run(|| false);
        (result, folder)
    }

    #[test]
    fn an_image_is_there_whole_and_for_its_group() {
        let script = "echo \"$1 $2 $3 $5 $6\"; cp \"$8\" \"$7\"";
        let (result, folder) = built(script, &["--live-karg-append=a=1".to_owned()]);
        assert_eq!(result, Ok(()));
        let image = folder.path().join("rack.iso");
        assert_eq!(fs::read_to_string(&image).unwrap(), "base");
        assert_eq!(fs::metadata(&image).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
    }

    #[test]
    fn what_a_program_says_last_is_why_there_is_no_image() {
        let (result, folder) = built("echo 'Error: parsing ISO9660 image' >&2; exit 1", &[]);
        let says = "coreos-installer failed (exit code 1): Error: parsing ISO9660 image";
        assert_eq!(result, Err(says.to_owned()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left");
    }
}
