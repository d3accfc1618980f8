//! Asks driver programs what they say of themselves, and keeps it in a file for each program until
//! the program changes. Never lets one work on a cluster.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::driver::Driver;
use crate::model::driver_description::{DESCRIBE, DriverDescription};
use crate::model::order::JobOrder;

use super::driver_program::run_verb;
use super::files::read_regular_file;
use super::job_folder::JobFolder;
use super::trial;

/// Seconds that a program may take to describe itself.
const DESCRIBE_SECONDS: u64 = 10;

/// What a program said of itself, and which program it was.
#[derive(Serialize, Deserialize)]
struct KeptDescription {
    program: ProgramVersion,
    description: DriverDescription,
}

/// A program file as it was at some time.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct ProgramVersion {
    path: PathBuf,
    length: u64,
    /// When it was written, in seconds since 1970, and nanoseconds of the second.
    seconds: i64,
    nanoseconds: i64,
}

/// What a program said of itself when it was asked last. None if it has changed since, or was never
/// asked. `folder` has the descriptions of all programs.
pub fn read_description(folder: &Path, program: &Path) -> Option<DriverDescription> {
    let bytes = read_regular_file(&folder.join(file_name(program))).ok()?;
    let kept: KeptDescription = serde_json::from_slice(&bytes).ok()?;
    if kept.program == version_of(program).ok()? { Some(kept.description) } else { None }
}

/// Asks a program what it says of itself, and keeps the answer in `folder`. A program without the
/// verb `describe` follows the first contract. The error is for people.
pub fn ask_description(folder: &Path, program: &Path) -> Result<DriverDescription, String> {
    let version = version_of(program).map_err(|error| error.to_string())?;
    let order = JobOrder { driver: Driver::Exec, limit: DESCRIBE_SECONDS, ..JobOrder::default() };
    let description = trial::run_as_trial(folder, order, &[], |task| {
        let code = run_verb(task, program, DESCRIBE)?.code;
        let Ok(bytes) = read_regular_file(&task.job_folder.file_path("result")) else {
            return Ok(Ok(DriverDescription::default()));
        };
        if code != 0 {
            return Ok(Ok(DriverDescription::default()));
        }
        Ok(serde_json::from_slice::<DriverDescription>(&bytes)
            .map_err(|error| format!("what it says of itself cannot be read: {error}")))
    })??;
    let kept = KeptDescription { program: version, description: description.clone() };
    let written = serde_json::to_vec(&kept)
        .map_err(io::Error::from)
        .and_then(|json| JobFolder::from_path(folder).write_file(&file_name(program), &json));
    // What cannot be kept is asked again.
    drop(written);
    Ok(description)
}

fn file_name(program: &Path) -> String {
    format!("{}.json", program.file_name().unwrap_or_default().to_string_lossy())
}

fn version_of(program: &Path) -> io::Result<ProgramVersion> {
    let metadata = fs::metadata(program)?;
    Ok(ProgramVersion {
        path: program.to_owned(),
        length: metadata.len(),
        seconds: metadata.mtime(),
        nanoseconds: metadata.mtime_nsec(),
    })
}
