//! Parse, run, print, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(poolctl::commands::run(std::env::args_os().collect()))
}
