//! Finds the programs that drivers start, whatever PATH says, and checks that nobody else could
//! have replaced them. Starts one only to ask for its version.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::documents::SettingsSpec;
use crate::model::driver::is_driver_name;

use super::process::{self, BackgroundProgram, ProgramOutput, Stopwatch};

/// Folders in which programs are looked for that the Settings do not name. PATH is not used: that
/// of cron is shorter than that of a shell.
const FOLDERS: [&str; 4] = ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/bin"];

/// How long a program may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// The absolute path of a program: the one that the Settings name, or the first in the usual
/// folders. The error is for people.
pub fn find_program(settings: &SettingsSpec, name: &str) -> Result<PathBuf, String> {
    if let Some(path) = settings.programs.get(name) {
        check_listed_program(path)?;
        return Ok(path.clone());
    }
    let mut candidates = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    candidates.find(|path| check_program(path).is_ok()).ok_or_else(|| {
        format!("there is no {name} in {}; name it in programs of the Settings", FOLDERS.join(", "))
    })
}

/// Checks a program that the Settings list by its path. The error says for people why it cannot be
/// used.
pub fn check_listed_program(path: &Path) -> Result<(), String> {
    check_program(path)?;
    check_ownership(path)
}

/// The absolute path of `poolctl-driver-<name>` in the one folder that the Settings name. The error
/// is for people.
pub fn find_driver_program(settings: &SettingsSpec, name: &str) -> Result<PathBuf, String> {
    if !is_driver_name(name) {
        return Err(format!(
            "`{name}` is not a driver name: at most 32 characters of a-z, 0-9 and -"
        ));
    }
    let folder = settings
        .driver_directory
        .as_ref()
        .ok_or("driverDirectory of the Settings is not set; it says where drivers are")?;
    let path = folder.join(format!("poolctl-driver-{name}"));
    check_program(&path)?;
    check_ownership(&path)?;
    Ok(path)
}

/// The first line that a program prints when it is asked for its version with these arguments. None
/// if it cannot be started, or has not ended within five seconds.
pub fn read_version(path: &Path, arguments: &[&str]) -> Option<String> {
    let mut stdout = tempfile::tempfile().ok()?;
    let output = ProgramOutput {
        stdout: stdout.try_clone().ok()?.into(),
        stderr: File::create("/dev/null").ok()?.into(),
    };
    let environment = BTreeMap::from([("HOME".to_owned(), "/nonexistent".to_owned())]);
    let folder = Path::new("/");
    let program = BackgroundProgram { program: path, arguments, folder, environment: &environment };
    let mut child = program.start(output).ok()?;
    let stopwatch = Stopwatch::start();
    while process::exit_code_if_ended(&mut child).ok()?.is_none() {
        if stopwatch.elapsed() > VERSION_TIMEOUT {
            process::end_process_group(&mut child, process::pause_briefly);
            return None;
        }
        process::pause_briefly();
    }
    let mut output_text = String::new();
    stdout.seek(SeekFrom::Start(0)).ok()?;
    stdout.read_to_string(&mut output_text).ok()?;
    output_text.lines().next().map(str::to_owned)
}

/// Says why a path that the Settings name is not a program that can be started.
fn check_program(path: &Path) -> Result<(), String> {
    let name = path.display();
    if !path.is_absolute() {
        return Err(format!("`{name}` is not an absolute path"));
    }
    let metadata = fs::metadata(path).map_err(|error| format!("`{name}`: {error}"))?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(format!("`{name}` is not a program: chmod +x {name}"));
    }
    Ok(())
}

/// Checks that only root and we can change what is run: the program itself, where it really is if
/// the path leads through links, and every folder above it.
fn check_ownership(path: &Path) -> Result<(), String> {
    let real_path =
        fs::canonicalize(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let our_uid = rustix::process::geteuid().as_raw();
    for ancestor in real_path.ancestors().chain(path.ancestors()) {
        let name = ancestor.display();
        let metadata = fs::metadata(ancestor).map_err(|error| format!("`{name}`: {error}"))?;
        let owner = metadata.uid();
        if owner != 0 && owner != our_uid {
            return Err(format!(
                "`{name}` belongs to user {owner}, not to root or the user of poolctl"
            ));
        }
        // In a sticky folder like /tmp others cannot replace what is not theirs.
        let is_sticky_folder = metadata.is_dir() && metadata.mode() & 0o1000 != 0;
        if metadata.mode() & 0o022 != 0 && !is_sticky_folder {
            return Err(format!("`{name}` can be written by others: chmod go-w {name}"));
        }
    }
    Ok(())
}
