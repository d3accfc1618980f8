//! `__guard`: the process that ends what a trial has started, if the trial itself is killed. Trials
//! start it; it is not for people.

use std::path::PathBuf;

use clap::Args;

use crate::drivers::trial;

use crate::commands::{Context, RunCommand};

/// Arguments of `__guard`: the folder of a trial. poolctl starts it itself.
#[derive(Args)]
pub struct Guard {
    /// Folder of the trial
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl RunCommand for Guard {
    const NAME: &'static str = trial::GUARD_COMMAND;
    const ABOUT: &'static str = "End the programs of a trial if its process is killed";
    const EXAMPLE: &'static str = "poolctl __guard DIR";

    fn run(self, _: &Context) -> anyhow::Result<()> {
        Ok(trial::guard_trial(&self.folder)?)
    }
}
