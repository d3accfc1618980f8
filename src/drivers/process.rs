//! Starts programs. Nothing else does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::BorrowedFd;
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
const BLINK: Duration = Duration::from_millis(20);
const BLINK_OF_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Where programs look for others; those that we start have absolute paths.
pub const PATH: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin";
/// As much of a script's first line as Linux reads.
const FIRST_LINE: u64 = 256;
/// How long a program that was asked to end may take.
pub const GRACE: Duration = Duration::from_secs(10);

/// Looks for a program as exec does, without starting it: a name with a slash is a path, any other
/// is in the first folder that has a file of this name which may be run. The error is exec's.
pub fn look_up(program: &OsStr, folders: &[PathBuf]) -> io::Result<()> {
    if program.is_empty() || program.as_bytes().contains(&b'/') {
        return check_executable(Path::new(program));
    }
    let mut failure = io::Error::from(Errno::NOENT);
    for folder in folders {
        match check_executable(&folder.join(program)) {
            Ok(()) => return Ok(()),
            // It is there and may not be run; a later folder may have a better one.
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

/// A script is started by the interpreter that its first line names. A text that names none is
/// started by shells alone. What may be executed but not read is not looked into.
fn check_interpreter(path: &Path) -> io::Result<()> {
    let mut beginning = Vec::new();
    let Ok(file) = fs::File::open(path) else { return Ok(()) };
    file.take(FIRST_LINE).read_to_end(&mut beginning)?;
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

/// A program in the foreground: it has our terminal, our environment and these variables.
pub struct Foreground<'a> {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub variables: Vec<(&'a str, OsString)>,
    /// File mode mask it starts with.
    pub umask: Mode,
}

impl Foreground<'_> {
    /// Starts it and waits for its end; signals that come meanwhile are passed on. Returns its
    /// exit code as a shell has it: 128 and the signal for one that a signal ended.
    pub fn attend(&self, interrupted: impl Fn() -> Option<i32>) -> io::Result<u8> {
        let mut child = self.start()?;
        loop {
            if let Some(status) = child.try_wait()? {
                let code = status.code().or(status.signal().map(|signal| 128 + signal));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            if let Some(signal) = interrupted().and_then(Signal::from_named_raw) {
                // One that has ended meanwhile needs no signal.
                let _ = kill_process(Pid::from_child(&child), signal);
            }
            pause_briefly();
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
    fn start(&self) -> io::Result<Child> {
        let ours = umask(self.umask);
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let child = Command::new(&self.program).args(&self.arguments).envs(variables).spawn();
        umask(ours);
        child
    }
}

/// A program of a driver: a process group of its own, no terminal, and only this environment.
pub struct BackgroundProgram<'a> {
    pub program: &'a Path,
    pub arguments: &'a [&'a str],
    pub folder: &'a Path,
    pub environment: &'a BTreeMap<String, String>,
}

impl BackgroundProgram<'_> {
    #[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
    pub fn start(
        &self,
        (stdout, stderr): (impl Into<Stdio>, impl Into<Stdio>),
    ) -> io::Result<Child> {
        let mut command = Command::new(self.program);
        command.args(self.arguments).env_clear().envs(self.environment).current_dir(self.folder);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0).spawn()
    }
}

/// Starts ourselves as the supervisor of a job, detached; it makes a session of its own.
pub fn detach(word: &str, folder: &Path) -> io::Result<()> {
    start_ourselves(word, folder, Stdio::null())
}

/// The same, with a pipe as standard input.
pub fn start_drain(word: &str, folder: &Path, pipe: PipeReader) -> io::Result<()> {
    start_ourselves(word, folder, pipe.into())
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
fn start_ourselves(word: &str, folder: &Path, stdin: Stdio) -> io::Result<()> {
    // What whoever started us has open, a lock perhaps, is not held as long as the job takes.
    close_fds::set_fds_cloexec(3, &[]);
    let mut command = Command::new("/proc/self/exe");
    command.arg(word).arg(folder).env_clear().current_dir("/").stdin(stdin);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// The exit code of a program that has ended, 128 and the signal for one that a signal ended.
pub fn exit_code_if_ended(child: &mut Child) -> io::Result<Option<i32>> {
    let code = |status: ExitStatus| status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(child.try_wait()?.map(|status| code(status).unwrap_or(1)))
}

/// Asks a program and those it started to end, and makes them. What is done meanwhile takes a
/// moment each time.
pub fn end_process_group(child: &mut Child, mut meanwhile: impl FnMut()) {
    let (group, begun) = (Pid::from_child(child), Stopwatch::start());
    let _ = kill_process_group(group, Signal::TERM);
    while begun.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        meanwhile();
    }
    // What is left of the group, also when its leader has gone.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// How long something takes; nobody's clock.
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "measures a program, not the time of day")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "waits for a program, not for a time")]
pub fn pause_briefly() {
    std::thread::sleep(BLINK);
}

/// The same, unless there is something to read from one of these pipes.
pub fn pause_until_readable<'a>(pipes: impl Iterator<Item = BorrowedFd<'a>>) {
    let mut pipes: Vec<PollFd<'_>> =
        pipes.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)).collect();
    // A signal that ends it early is nothing to wait longer for.
    let _ = poll(&mut pipes, Some(&BLINK_OF_POLL));
}
