//! Programs that drivers start: where they are, whatever PATH says, and whether they may be.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::documents::SettingsSpec;
use crate::model::driver::is_driver_name;

use super::process::{self, BackgroundProgram, Stopwatch};

/// Where programs are looked for that the settings do not name; cron's PATH is shorter.
const PLACES: [&str; 4] = ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/bin"];

/// How long a program may take to say its version.
const LONGEST: Duration = Duration::from_secs(5);

/// The absolute path of a program.
pub fn find(settings: &SettingsSpec, name: &str) -> Result<PathBuf, String> {
    if let Some(path) = settings.programs.get(name) {
        executable(path)?;
        private(path)?;
        return Ok(path.clone());
    }
    let all = PLACES.iter().map(|folder| Path::new(folder).join(name));
    let found = all.into_iter().find(|path| executable(path).is_ok());
    found.ok_or_else(|| {
        format!("there is no {name} in {}; name it in programs of the Settings", PLACES.join(", "))
    })
}

/// `poolctl-driver-<name>`, in the one folder that the settings name.
pub fn find_driver(settings: &SettingsSpec, name: &str) -> Result<PathBuf, String> {
    if !is_driver_name(name) {
        return Err(format!("`{name}` is no name of a driver: a-z, 0-9 and -, at most 32"));
    }
    let folder = settings
        .driver_directory
        .as_ref()
        .ok_or("driverDirectory of the Settings says where drivers are, and is not set")?;
    let path = folder.join(format!("poolctl-driver-{name}"));
    executable(&path)?;
    private(&path)?;
    Ok(path)
}

/// What a program says of its version: the first line, within five seconds.
pub fn version(path: &Path, arguments: &[&str]) -> Option<String> {
    let mut said = tempfile::tempfile().ok()?;
    let output = (said.try_clone().ok()?, File::create("/dev/null").ok()?);
    let environment = BTreeMap::from([("HOME".to_owned(), "/nonexistent".to_owned())]);
    let folder = Path::new("/");
    let mut child =
        BackgroundProgram { program: path, arguments, folder, environment: &environment }
            .start(output)
            .ok()?;
    let watch = Stopwatch::start();
    while process::exit_code_if_ended(&mut child).ok()?.is_none() {
        if watch.elapsed() > LONGEST {
            process::end_process_group(&mut child, process::pause_briefly);
            return None;
        }
        process::pause_briefly();
    }
    let mut text = String::new();
    said.seek(SeekFrom::Start(0)).ok()?;
    said.read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

fn executable(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("`{shown}` is no absolute path"));
    }
    let found = fs::metadata(path).map_err(|error| format!("`{shown}`: {error}"))?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err(format!("`{shown}` is not a program: chmod +x {shown}"));
    }
    Ok(())
}

/// What others can change, others run: the program itself, where it really is, and every folder
/// above it.
fn private(path: &Path) -> Result<(), String> {
    let real = fs::canonicalize(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let us = rustix::process::geteuid().as_raw();
    for place in real.ancestors().chain(path.ancestors()) {
        let shown = place.display();
        let found = fs::metadata(place).map_err(|error| format!("`{shown}`: {error}"))?;
        if found.uid() != 0 && found.uid() != us {
            return Err(format!("`{shown}` belongs to user {}, not to root or us", found.uid()));
        }
        // In a folder like /tmp others cannot replace what is not theirs.
        let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
        if found.mode() & 0o022 != 0 && !sticky {
            return Err(format!("`{shown}` can be written by others: chmod go-w {shown}"));
        }
    }
    Ok(())
}
