//! Makes discovery images: coreos-installer puts an Ignition into a live image. Decides nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::process::{self, Background, Stopwatch};

/// The program, as the settings may name it.
pub const PROGRAM: &str = "coreos-installer";
/// How long the image may take: it has about a gigabyte.
const LONGEST: Duration = Duration::from_secs(900);
/// As much of what the program says as is repeated.
const SAID: u64 = 600;
/// The image has secrets in it; a group may serve it.
const MODE: u32 = 0o640;

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
        let made = tempfile::Builder::new().prefix(".new-").tempdir_in(folder).map_err(failed)?;
        let image = made.path().join("image.iso");
        let mut said = tempfile::tempfile().map_err(failed)?;
        let code = self.customize(&image, made.path(), &said, interrupted)?;
        if code != 0 {
            let said = last(&mut said).unwrap_or_default();
            return Err(format!("{PROGRAM} failed (exit code {code}): {said}"));
        }
        self.keep(&image).map_err(failed)
    }

    fn customize(
        &self,
        image: &Path,
        folder: &Path,
        said: &File,
        interrupted: impl Fn() -> bool,
    ) -> Result<i32, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.program.display());
        let [ignition, image, base] =
            [self.ignition, image, self.base_iso].map(|path| path.display().to_string());
        let mut arguments = vec!["iso", "customize", "--live-ignition", &ignition];
        arguments.extend(self.kargs.iter().map(String::as_str));
        arguments.extend(["-o", &image, &base]);
        let home = folder.display().to_string();
        let path = "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin".to_owned();
        let environment = BTreeMap::from([("HOME".to_owned(), home), ("PATH".to_owned(), path)]);
        let program = Background {
            program: self.program,
            arguments: &arguments,
            folder,
            environment: &environment,
        };
        let output = (said.try_clone().map_err(failed)?, said.try_clone().map_err(failed)?);
        let mut child = program.start(output).map_err(failed)?;
        let watch = Stopwatch::start();
        loop {
            if let Some(code) = process::ended(&mut child).map_err(failed)? {
                return Ok(code);
            }
            let late = watch.elapsed() > LONGEST;
            if late || interrupted() {
                process::end_group(&mut child);
                let why = if late { "takes too long" } else { "was interrupted" };
                return Err(format!("{PROGRAM} {why}"));
            }
            process::pause();
        }
    }

    fn keep(&self, image: &Path) -> io::Result<()> {
        fs::set_permissions(image, Permissions::from_mode(MODE))?;
        File::open(image)?.sync_all()?;
        fs::rename(image, self.out)
    }
}

/// The last that a program said, in one line.
fn last(said: &mut File) -> io::Result<String> {
    let length = said.metadata()?.len();
    said.seek(SeekFrom::Start(length.saturating_sub(SAID)))?;
    let mut text = Vec::new();
    said.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
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
