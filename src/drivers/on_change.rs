//! Runs the program that is told of changed addresses, and says how it ended. Decides nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use super::process::{self, BackgroundProgram, ProgramOutput, Stopwatch};

/// The argument that the program is started with.
const VERB: &str = "on-change";
/// How long the program may take.
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of what it prints to standard error that are looked at.
const STDERR_BYTES: u64 = 64 << 10;

/// Runs a program with a document on its standard input, and waits for its end. The error says for
/// people how it failed.
pub fn run_on_change(program: &Path, document: &[u8]) -> Result<(), String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (code, last_words) =
        run_to_end(program, document).map_err(|error| format!("{name}: {error}"))?;
    if code == 0 {
        return Ok(());
    }
    let end = format!("{name} ended with exit code {code}");
    Err(match last_words.lines().next_back() {
        Some(line) => format!("{end}: {line}"),
        None => end,
    })
}

/// Returns the exit code, and what the program has printed to standard error.
fn run_to_end(path: &Path, document: &[u8]) -> io::Result<(i32, String)> {
    let mut input = tempfile::tempfile()?;
    input.write_all(document)?;
    input.seek(SeekFrom::Start(0))?;
    let mut stderr = tempfile::tempfile()?;
    let output = ProgramOutput {
        stdout: File::create("/dev/null")?.into(),
        stderr: stderr.try_clone()?.into(),
    };
    let environment = BTreeMap::from([
        ("PATH".to_owned(), process::PATH.to_owned()),
        ("POOLCTL_VERB".to_owned(), VERB.to_owned()),
    ]);
    let program = BackgroundProgram {
        program: path,
        arguments: &[VERB],
        folder: Path::new("/"),
        environment: &environment,
    };
    let mut child = program.start_with_input(input.into(), output)?;
    let stopwatch = Stopwatch::start();
    let code = loop {
        if let Some(code) = process::exit_code_if_ended(&mut child)? {
            break code;
        }
        if stopwatch.elapsed() > LIMIT {
            process::end_process_group(&mut child, process::pause_briefly);
            return Err(io::Error::other(format!("not finished after {} s", LIMIT.as_secs())));
        }
        process::pause_briefly();
    };
    let mut words = Vec::new();
    stderr.seek(SeekFrom::Start(0))?;
    stderr.take(STDERR_BYTES).read_to_end(&mut words)?;
    Ok((code, String::from_utf8_lossy(&words).trim_end().to_owned()))
}
