//! Parse, run, print, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The state and every copy made from it are for their owner alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    ExitCode::from(poolctl::commands::run(std::env::args_os().collect()))
}
