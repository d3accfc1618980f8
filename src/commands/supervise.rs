//! `__supervise`: does one job, as a process of its own. Passes start it; nobody types it.

use std::path::PathBuf;

use clap::Args;

use crate::drivers;
use crate::reconcile::SUPERVISE_COMMAND;

use crate::commands::{Context, RunCommand};

/// Arguments of `__supervise`: the folder of a job. poolctl starts it itself.
#[derive(Args)]
pub struct Supervise {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl RunCommand for Supervise {
    const NAME: &'static str = SUPERVISE_COMMAND;
    const ABOUT: &'static str = "Run the job of this directory once";
    const EXAMPLE: &'static str = "poolctl __supervise DIR";

    fn run(self, _: &Context) -> anyhow::Result<()> {
        Ok(drivers::supervise::supervise_job(&self.folder)?)
    }
}
