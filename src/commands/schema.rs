//! `schema`: prints the JSON Schema of manifests, for editors. It opens no state.

use clap::Args;
use serde_json::Value;

use crate::manifest::editor_schema;
use crate::model::text::escape_json;
use crate::output::Answer;

use crate::commands::{Audience, Context, RunCommand, target};

/// Arguments of `schema`. It opens no state.
#[derive(Args)]
pub struct Schema {
    /// Kind, such as pool; by default one schema of all kinds
    #[arg(value_name = "KIND")]
    kind: Option<String>,
}

impl RunCommand for Schema {
    const NAME: &'static str = "schema";
    const ABOUT: &'static str = "Print the JSON Schema of manifests, for editors";
    const EXAMPLE: &'static str = "poolctl schema > \"$HOME/poolctl.schema.json\"";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let schema = match &self.kind {
            Some(word) => editor_schema::schema_of_manifests(target::parse_kind(word)?),
            None => editor_schema::schema_of_all_manifests(),
        };
        context.answer(Answer::text(pretty_json(&schema)).with_document(schema))?;
        context.hint("next: write it to poolctl.schema.json; manifests begin with the line");
        context.hint("# yaml-language-server: $schema=poolctl.schema.json");
        Ok(())
    }
}

fn pretty_json(schema: &Value) -> String {
    escape_json(format!("{schema:#}\n"))
}
