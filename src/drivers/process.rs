//! Starts programs. Nothing else does.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process, umask};

/// How often a program is asked whether it has ended.
const BLINK: Duration = Duration::from_millis(20);

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
            pause();
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

#[expect(clippy::disallowed_methods, reason = "waits for a program, not for a time")]
fn pause() {
    std::thread::sleep(BLINK);
}
