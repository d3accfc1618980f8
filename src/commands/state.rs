//! `state path`.

use clap::Args;

use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Path {}

impl Verb for Path {
    const NAME: &'static str = "path";
    const ABOUT: &'static str = "Print which state file is used";
    const EXAMPLE: &'static str = "poolctl state path";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        context.print(&format!("{}\n", context.path()?.display()))
    }
}
