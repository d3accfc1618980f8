//! `__drain`: the process that reads what a driver prints once its supervisor is gone, so that the
//! driver does not wait for ever. Supervisors start it; it is not for people.

use std::path::PathBuf;

use clap::Args;

use crate::drivers::stream;

use crate::commands::{Context, RunCommand};

/// Arguments of `__drain`: the folder of a job. poolctl starts it itself.
#[derive(Args)]
pub struct Drain {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl RunCommand for Drain {
    const NAME: &'static str = stream::DRAIN_COMMAND;
    const ABOUT: &'static str = "Read the output of a job's driver if no other process reads it";
    const EXAMPLE: &'static str = "poolctl __drain DIR";

    fn run(self, _: &Context) -> anyhow::Result<()> {
        Ok(stream::drain_output(&self.folder)?)
    }
}
