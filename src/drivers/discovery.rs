//! Makes discovery images: coreos-installer puts an Ignition into a live image, and
//! openshift-install makes an Ignition that ours is merged over. Never decides what is in them, and
//! leaves nothing behind but the result.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use tempfile::TempDir;

use crate::render::discovery::ManifestFile;

use super::image_folder;
use super::process::{self, BackgroundProgram, PATH, ProgramOutput, Stopwatch};
use super::scrub::Secrets;

/// The programs by the names that the Settings may have for them.
pub const COREOS_INSTALLER: &str = "coreos-installer";
/// The installer, as PATH and Settings name it.
pub const OPENSHIFT_INSTALL: &str = "openshift-install";
/// The file that openshift-install writes.
const UNCONFIGURED_IGNITION: &str = "unconfigured-agent.ign";
/// How long a program may take: an image has about a gigabyte.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(900);
/// Bytes at the end of a program's output that are read when it has failed.
const OUTPUT_TAIL_BYTES: u64 = 64 << 10;
/// Bytes of that which are shown to people.
const SHOWN_BYTES: usize = 600;

/// A discovery image to be made by coreos-installer.
pub struct DiscoveryImage<'a> {
    /// The path of coreos-installer, as `programs::find_program` returns it.
    pub program: &'a Path,
    /// The live image as the release has it, not customized.
    pub base_iso: &'a Path,
    pub ignition: &'a Path,
    /// The options of `render::discovery::kernel_arguments`.
    pub kernel_arguments: &'a [String],
    /// Where the image is put, whole and at once; what was there before is replaced.
    pub output_path: &'a Path,
}

impl DiscoveryImage<'_> {
    /// Waits until the image is there. The error says for people why it is not. Nothing is left
    /// behind then, also if somebody interrupts it.
    pub fn make(&self, interrupted: impl Fn() -> bool) -> Result<(), String> {
        let parent = self.output_path.parent().unwrap_or(Path::new("/"));
        let folder = private_folder().tempdir_in(parent).map_err(|error| self.describe(&error))?;
        let image = folder.path().join("image.iso");
        let [ignition, output, base_iso] =
            [self.ignition, image.as_path(), self.base_iso].map(|path| path.display().to_string());
        let mut arguments = vec!["iso", "customize", "--live-ignition", &ignition];
        arguments.extend(self.kernel_arguments.iter().map(String::as_str));
        arguments.extend(["-o", &output, &base_iso]);
        let environment = BTreeMap::new();
        let tool = Tool {
            name: COREOS_INSTALLER,
            program: self.program,
            folder: &folder,
            environment: &environment,
        };
        tool.run(&arguments, &[], interrupted)?;
        self.move_into_place(&image).map_err(|error| self.describe(&error))
    }

    fn describe(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.output_path.display())
    }

    fn move_into_place(&self, image: &Path) -> io::Result<()> {
        image_folder::open_to_group(image)?;
        File::open(image)?.sync_all()?;
        fs::rename(image, self.output_path)
    }
}

/// The Ignition of hosts that wait for the configuration of their cluster, to be made by
/// openshift-install.
pub struct UnconfiguredIgnition<'a> {
    /// The path of openshift-install, as `programs::find_program` returns it.
    pub program: &'a Path,
    /// The files that it reads, as `render::discovery::render_manifests` returns them.
    pub manifests: &'a [ManifestFile],
    /// Secrets in the manifests, which must not be shown if the program prints them.
    pub secrets: &'a [String],
    /// How the program reaches the world, for a site that is not connected.
    pub environment: &'a BTreeMap<String, String>,
}

impl UnconfiguredIgnition<'_> {
    /// Waits for the Ignition and returns its text. The installer leaves what it was given in its
    /// folder, so it gets a folder of its own, which is removed. The error is for people.
    pub fn make(&self, interrupted: impl Fn() -> bool) -> Result<String, String> {
        let folder =
            self.prepare_folder().map_err(|error| format!("{OPENSHIFT_INSTALL}: {error}"))?;
        let arguments = ["agent", "create", "unconfigured-ignition", "--dir", "."];
        let tool = Tool {
            name: OPENSHIFT_INSTALL,
            program: self.program,
            folder: &folder,
            environment: self.environment,
        };
        tool.run(&arguments, self.secrets, interrupted)?;
        fs::read_to_string(folder.path().join(UNCONFIGURED_IGNITION)).map_err(|error| {
            format!("{OPENSHIFT_INSTALL} left no {UNCONFIGURED_IGNITION}: {error}")
        })
    }

    /// Makes the private folder with the manifests that the program reads. It is removed when the
    /// value is dropped.
    fn prepare_folder(&self) -> io::Result<TempDir> {
        let folder = private_folder().tempdir()?;
        for file in self.manifests {
            let path = folder.path().join(file.path);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(path, &file.content)?;
        }
        Ok(folder)
    }
}

/// Folders that nobody else may enter, whatever the umask says.
fn private_folder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".new-").permissions(Permissions::from_mode(0o700));
    builder
}

/// A program in a folder that is also its home. It gets nothing of our environment.
struct Tool<'a> {
    name: &'static str,
    program: &'a Path,
    folder: &'a TempDir,
    environment: &'a BTreeMap<String, String>,
}

impl Tool<'_> {
    /// Runs it to its end. If it fails, the error repeats what it printed last, with these secrets
    /// hidden.
    fn run(
        &self,
        arguments: &[&str],
        secrets: &[String],
        interrupted: impl Fn() -> bool,
    ) -> Result<(), String> {
        let mut output = tempfile::tempfile().map_err(|error| self.describe(&error))?;
        let mut child = self.start(arguments, &output).map_err(|error| self.describe(&error))?;
        let code = self.wait_for_end(&mut child, interrupted)?;
        if code == 0 {
            return Ok(());
        }
        let mut message = format!("{} failed (exit code {code})", self.name);
        let last_words = read_last_words(&mut output, secrets).unwrap_or_default();
        if !last_words.is_empty() {
            message += ": ";
            message += &last_words;
        }
        Err(message)
    }

    fn describe(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.program.display())
    }

    /// Standard output and standard error go to one file.
    fn start(&self, arguments: &[&str], output: &File) -> io::Result<Child> {
        let folder = self.folder.path();
        let mut environment = self.environment.clone();
        environment.insert("HOME".to_owned(), folder.display().to_string());
        environment.insert("PATH".to_owned(), PATH.to_owned());
        let program = BackgroundProgram {
            program: self.program,
            arguments,
            folder,
            environment: &environment,
        };
        program.start(ProgramOutput {
            stdout: output.try_clone()?.into(),
            stderr: output.try_clone()?.into(),
        })
    }

    /// Returns the exit code, or an error if the program was ended before.
    fn wait_for_end(
        &self,
        child: &mut Child,
        interrupted: impl Fn() -> bool,
    ) -> Result<i32, String> {
        let stopwatch = Stopwatch::start();
        loop {
            let code = process::exit_code_if_ended(child).map_err(|error| self.describe(&error))?;
            if let Some(code) = code {
                return Ok(code);
            }
            let is_late = stopwatch.elapsed() > PROGRAM_TIMEOUT;
            if is_late || interrupted() {
                process::end_process_group(child, process::pause_briefly);
                let reason = if is_late { "takes too long" } else { "was interrupted" };
                return Err(format!("{} {reason}", self.name));
            }
            process::pause_briefly();
        }
    }
}

/// The end of what a program has printed, in one line and with these secrets hidden.
fn read_last_words(output: &mut File, secrets: &[String]) -> io::Result<String> {
    let length = output.metadata()?.len();
    output.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    // Secrets are hidden before anything is cut off: half a secret is not recognized.
    let scrubbed = Secrets::new(secrets.iter().map(String::as_str)).hide_in(&bytes);
    let shown = String::from_utf8_lossy(&scrubbed[scrubbed.len().saturating_sub(SHOWN_BYTES)..]);
    Ok(shown.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an image with a script in place of coreos-installer. Returns the folder with the
    /// image, too.
    fn build_with(script: &str, kargs: &[String]) -> (Result<(), String>, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("program"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path("program"), Permissions::from_mode(0o755)).unwrap();
        fs::write(path("base.iso"), "base").unwrap();
        let result = DiscoveryImage {
            program: &path("program"),
            base_iso: &path("base.iso"),
            ignition: &path("config.ign"),
            kernel_arguments: kargs,
            output_path: &path("rack.iso"),
        }
        .make(|| false);
        (result, folder)
    }

    #[test]
    fn an_image_is_there_whole_and_for_its_group() {
        let script = "echo \"$1 $2 $3 $5 $6\"; cp \"$8\" \"$7\"";
        let (result, folder) = build_with(script, &["--live-karg-append=a=1".to_owned()]);
        assert_eq!(result, Ok(()));
        let image = folder.path().join("rack.iso");
        assert_eq!(fs::read_to_string(&image).unwrap(), "base");
        assert_eq!(fs::metadata(&image).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
    }

    #[test]
    fn what_a_program_says_last_is_why_there_is_no_image() {
        let (result, folder) = build_with("echo 'Error: parsing ISO9660 image' >&2; exit 1", &[]);
        let message = "coreos-installer failed (exit code 1): Error: parsing ISO9660 image";
        assert_eq!(result, Err(message.to_owned()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left");
    }
}
