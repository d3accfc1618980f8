//! `plan`: what a pass would do.

use anyhow::bail;
use clap::Args;

use crate::model::refusal::Exit;
use crate::model::state::Scope;
use crate::output::{self, Format};

use super::{Context, Quit, Verb};

#[derive(Args)]
pub struct Plan {
    /// Only this pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
}

impl Verb for Plan {
    const NAME: &'static str = "plan";
    const ABOUT: &'static str = "Show what a pass would change; exit 10 when there is anything";
    const EXAMPLE: &'static str = "poolctl plan";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let scope = match &self.pool {
            Some(name) => Scope::pool(
                context.find(&store, crate::model::kind::Kind::ClusterPool, name)?.key(),
            ),
            None => Scope::Whole,
        };
        let state = context.door(&store).preview(&scope)?;
        let lines = output::lines(&state);
        if context.globals.output.whole() {
            let document = serde_json::json!({"changes": lines});
            context.print(&output::document_text(&context.globals.output, &document)?)?;
        } else if context.globals.output != Format::Name {
            context.print(&output::joined(&lines))?;
        }
        if state.is_unchanged() {
            context.hint("nothing to do");
            return Ok(());
        }
        bail!(Quit(Exit::Changes as u8))
    }
}
