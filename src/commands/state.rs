//! `state path`: prints where the state file is, or would be. It opens no state.

use clap::Args;
use serde_json::json;

use crate::output::{Answer, Name};

use crate::commands::{Context, RunCommand};

/// `state path` needs no arguments.
#[derive(Args)]
pub struct Path {}

impl RunCommand for Path {
    const NAME: &'static str = "path";
    const ABOUT: &'static str = "Print the path of the state file";
    const EXAMPLE: &'static str = "poolctl state path";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let path = context.state_path()?.display().to_string();
        let answer = Answer::text(format!("{path}\n")).with_document(json!({"path": path}));
        context.answer(answer.with_name(Name::plain(path)))
    }
}
