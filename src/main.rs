//! The program: hands its arguments to the library, which runs the command and prints, and exits
//! with the code that comes back.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(poolctl::commands::run(std::env::args_os().collect()))
}
