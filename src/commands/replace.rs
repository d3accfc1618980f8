//! `replace`: changes objects that exist to what manifests say, all or none.

use clap::Args;

use crate::commands::apply::{Precondition, put_manifests};
use crate::commands::manifest_files::{DryRun, ManifestFiles};
use crate::commands::{Context, RunCommand};

/// Arguments of `replace`. An object that does not exist is refused.
#[derive(Args)]
pub struct Replace {
    #[command(flatten)]
    files: ManifestFiles,
}

impl RunCommand for Replace {
    const NAME: &'static str = "replace";
    const ABOUT: &'static str = "Change objects that exist, so that they match manifests";
    const EXAMPLE: &'static str = "poolctl replace -f examples/pool";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let manifests = self.files.read(context, false)?;
        put_manifests(context, manifests, Precondition::Present, DryRun::None)
    }
}
