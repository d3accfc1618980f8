//! `__supervise`: the process that a job is; started by passes, for nobody to type.

use std::path::PathBuf;

use clap::Args;

use crate::drivers;
use crate::reconcile::SUPERVISE;

use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Supervise {
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Verb for Supervise {
    const NAME: &'static str = SUPERVISE;
    const ABOUT: &'static str = "Do the job in this folder, once";
    const EXAMPLE: &'static str = "poolctl __supervise DIR";

    fn run(self, _: &Context) -> anyhow::Result<()> {
        Ok(drivers::supervise::run(&self.folder)?)
    }
}
