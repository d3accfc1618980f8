//! `why`: explains why an object is as it is, by a chain of causes, and names the command that
//! helps.

pub mod evidence;

use clap::Args;
use serde_json::json;

use crate::causes;
use crate::output::{self, Answer, Layout, Name, Tone, clean_line, join_lines};

use crate::commands::{Audience, Context, RunCommand, target};

/// Arguments of `why`, which only reads the state.
#[derive(Args)]
pub struct Why {
    /// Object, such as pool/lab; or its kind, such as pool, with its name after it
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    /// Name of the object, if only its kind is given before it
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl RunCommand for Why {
    const NAME: &'static str = "why";
    const ABOUT: &'static str = "Explain the state of an object, and what helps";
    const EXAMPLE: &'static str = "poolctl why claim/ci-17";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = target::parse_object(&self.kind, self.name.as_deref(), Self::EXAMPLE)?;
        let store = context.open_existing_state()?;
        let object = context.find_object(&store, kind, &name)?;
        let chain = causes::explain(&evidence::gather_evidence(context, &store, &object)?, &object);
        let next = context.next_for_person(&chain.next);
        let style = context.style();
        let mut lines = Vec::new();
        for (index, cause) in chain.causes.iter().enumerate() {
            let depth = chain.depth_of(index);
            let line = format!("{}{}", "  ".repeat(depth.min(4)), clean_line(cause));
            // Elsewhere a cause is one line, which scripts search.
            let fitted_line = match context.table_layout() {
                Layout::Terminal(_) => output::wrap_line(&line),
                Layout::Pipe => line,
            };
            let tone = if depth == 0 { Tone::Title } else { Tone::Waiting };
            lines.extend(fitted_line.lines().map(|part| style.paint(tone, part)));
        }
        lines.push(format!("Next: {}", style.paint(Tone::Place, &next)));
        let name = Name::of(kind, &object.key());
        let answer = Answer::text(join_lines(&lines)).with_name(name);
        context.answer(answer.with_document(json!({"causes": chain.causes, "next": next})))
    }
}
