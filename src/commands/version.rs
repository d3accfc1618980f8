//! `version`.

use clap::Args;

use crate::output;

use super::{Context, Verb};

#[derive(Args)]
pub struct Version {}

impl Verb for Version {
    const NAME: &'static str = "version";
    const ABOUT: &'static str = "Print the version";
    const EXAMPLE: &'static str = "poolctl version";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        if context.globals.output.whole() {
            let document = serde_json::json!({ "version": version });
            return context.print(&output::document_text(&context.globals.output, &document)?);
        }
        context.print(&format!("poolctl {version}\n"))
    }
}
