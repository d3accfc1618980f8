//! Starts programs, waits for them and ends them. Nothing else in poolctl starts a program; which
//! one to start is never decided here.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, Mode, access};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, umask};

/// How often a program is asked whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The same for `poll`.
const POLL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The PATH that programs are started with, for those that they start. We start ours by absolute
/// paths.
pub const PATH: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin";
/// Bytes of a script's first line that Linux reads.
const FIRST_LINE_BYTES: u64 = 256;
/// How long a program that was asked to end may take before it is killed.
pub const GRACE: Duration = Duration::from_secs(10);

/// Looks for a program as execvp(3) does, without starting it: a name with a slash is a path, any
/// other is looked for in these folders, in their order. The error is the one that execvp gives.
pub fn check_program_exists(program: &OsStr, folders: &[PathBuf]) -> io::Result<()> {
    if program.is_empty() || program.as_bytes().contains(&b'/') {
        return check_executable(Path::new(program));
    }
    let mut failure = io::Error::from(Errno::NOENT);
    for folder in folders {
        match check_executable(&folder.join(program)) {
            Ok(()) => return Ok(()),
            // It is there and may not be run. A later folder may have one that may be.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => failure = error,
            Err(_) => {}
        }
    }
    Err(failure)
}

fn check_executable(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(Errno::ACCESS.into());
    }
    access(path, Access::EXEC_OK)?;
    check_interpreter(path)
}

/// A script is started by the interpreter that its first line names, so that must exist. A text
/// that names none is an error: only a shell would start it. A file that may be executed but not
/// read passes, as it does with exec.
fn check_interpreter(path: &Path) -> io::Result<()> {
    let Ok(file) = fs::File::open(path) else { return Ok(()) };
    let mut beginning = Vec::new();
    file.take(FIRST_LINE_BYTES).read_to_end(&mut beginning)?;
    let Some(line) = beginning.strip_prefix(b"#!") else {
        let is_text =
            beginning.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        return if is_text { Err(Errno::NOEXEC.into()) } else { Ok(()) };
    };
    let words = line.trim_ascii_start().split(u8::is_ascii_whitespace);
    let interpreter = Path::new(OsStr::from_bytes(words.into_iter().next().unwrap_or_default()));
    fs::metadata(interpreter)?;
    Ok(access(interpreter, Access::EXEC_OK)?)
}

/// A program in the foreground, as an editor is: it has our terminal, our environment and, in
/// addition, these variables.
pub struct ForegroundProgram<'a> {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub variables: Vec<(&'a str, OsString)>,
    /// The file mode mask that it starts with.
    pub umask: Mode,
}

impl ForegroundProgram<'_> {
    /// Starts it and waits for its end. `interrupted` says which signal has come to us meanwhile;
    /// it is passed on. Returns the exit code as a shell gives it: 128 plus the signal for a
    /// program that a signal ended.
    pub fn run_to_end(&self, interrupted: impl Fn() -> Option<i32>) -> io::Result<u8> {
        let mut child = self.start_program()?;
        loop {
            if let Some(code) = exit_code_if_ended(&mut child)? {
                return Ok(u8::try_from(code).unwrap_or(1));
            }
            if let Some(signal) = interrupted().and_then(Signal::from_named_raw) {
                // It fails if the program has ended meanwhile: then there is nothing to end.
                let _ = kill_process(Pid::from_child(&child), signal);
            }
            pause_briefly();
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
    fn start_program(&self) -> io::Result<Child> {
        let our_umask = umask(self.umask);
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let child = Command::new(&self.program).args(&self.arguments).envs(variables).spawn();
        umask(our_umask);
        child
    }
}

/// Where a program writes.
pub struct ProgramOutput {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// A program of a driver. It gets a process group of its own, no terminal, no standard input, and
/// this environment alone.
pub struct BackgroundProgram<'a> {
    pub program: &'a Path,
    pub arguments: &'a [&'a str],
    pub folder: &'a Path,
    pub environment: &'a BTreeMap<String, String>,
}

impl BackgroundProgram<'_> {
    /// Starts it, and does not wait for it.
    pub fn start(&self, output: ProgramOutput) -> io::Result<Child> {
        self.spawn(Stdio::null(), output)
    }

    /// The same for a program that reads something on its standard input.
    pub fn start_with_input(&self, input: OwnedFd, output: ProgramOutput) -> io::Result<Child> {
        self.spawn(input.into(), output)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
    fn spawn(&self, input: Stdio, output: ProgramOutput) -> io::Result<Child> {
        let mut command = Command::new(self.program);
        command.args(self.arguments).env_clear().envs(self.environment).current_dir(self.folder);
        command.stdin(input).stdout(output.stdout).stderr(output.stderr).process_group(0).spawn()
    }
}

/// Starts poolctl itself, detached, with a hidden command (`word`) and a job's folder as arguments.
/// The new process makes a session of its own.
pub fn start_supervisor(word: &str, folder: &Path) -> io::Result<()> {
    start_ourselves(word, folder, Stdio::null())
}

/// The same for a process that reads a pipe, its standard input.
pub fn start_reader(word: &str, folder: &Path, pipe: PipeReader) -> io::Result<()> {
    start_ourselves(word, folder, pipe.into())
}

/// Starts this program by the file that runs now, even if another version has replaced it on disk.
/// It gets no environment and no open file but its standard input.
#[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
fn start_ourselves(word: &str, folder: &Path, stdin: Stdio) -> io::Result<()> {
    // Our caller may have left files open to us, a lock perhaps: the job must not hold them as long
    // as it takes.
    close_fds::set_fds_cloexec(3, &[]);
    let mut command = Command::new("/proc/self/exe");
    command.arg(word).arg(folder).env_clear().current_dir("/").stdin(stdin);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// The exit code of a program, 128 plus the signal for one that a signal ended; None while it runs.
/// Does not wait.
pub fn exit_code_if_ended(child: &mut Child) -> io::Result<Option<i32>> {
    Ok(child.try_wait()?.map(exit_code))
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// Asks a program and those that it started to end, and kills them after `GRACE`. Calls `meanwhile`
/// until then, again and again: it should take a moment each time.
pub fn end_process_group(child: &mut Child, mut meanwhile: impl FnMut()) {
    let group = Pid::from_child(child);
    let stopwatch = Stopwatch::start();
    let _ = kill_process_group(group, Signal::TERM);
    while stopwatch.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        meanwhile();
    }
    // The leader may have ended and left others of its group behind.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Measures how long something takes. It is no clock: it knows no time of day and is never compared
/// with one.
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins to measure now. The clock is monotonic, so that a change of the time does not matter.
    #[expect(clippy::disallowed_methods, reason = "measures a program, not the time of day")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since `start`.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits 20 ms: the time between two looks at a program that runs.
#[expect(clippy::disallowed_methods, reason = "waits for a program, not for a time")]
pub fn pause_briefly() {
    std::thread::sleep(POLL_INTERVAL);
}

/// Waits 20 ms, or shorter if there is something to read from one of these pipes.
pub fn pause_until_readable<'a>(pipes: impl Iterator<Item = BorrowedFd<'a>>) {
    let mut poll_fds: Vec<PollFd<'_>> =
        pipes.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)).collect();
    // A signal may end it early; the caller looks again in any case.
    let _ = poll(&mut poll_fds, Some(&POLL_TIMEOUT));
}
