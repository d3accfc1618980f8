//! `version`: prints which program this is, which commit it was built from, and which schema it
//! gives to states. It never opens a state.

use std::sync::LazyLock;

use clap::Args;
use serde_json::json;

use crate::output::{Answer, Name};
use crate::store::SCHEMA;

use crate::commands::{Audience, Context, RunCommand};

const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// `unknown` for a program that was built outside of a repository.
const COMMIT: &str = env!("POOLCTL_COMMIT");

/// What `--version` prints after the program's name. Clap keeps it as long as the program runs.
pub static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{PROGRAM} (commit {COMMIT}, state schema {SCHEMA})"));

/// `version` needs no arguments.
#[derive(Args)]
pub struct Version {}

impl RunCommand for Version {
    const NAME: &'static str = "version";
    const ABOUT: &'static str = "Print the version, the commit and the schema version of the state";
    const EXAMPLE: &'static str = "poolctl version";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let document = json!({"version": PROGRAM, "commit": COMMIT, "schema": SCHEMA});
        let answer = Answer::text(format!("poolctl {}\n", *VERSION)).with_document(document);
        context.answer(answer.with_name(Name::plain(PROGRAM)))
    }
}
