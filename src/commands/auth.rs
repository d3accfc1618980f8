//! `auth can-i` and `auth whoami`: who asks, and whether that account may run a command.

use clap::Args;
use serde_json::json;

use crate::model::refusal::Refusal;
use crate::output::{Answer, Name};

use crate::commands::{Audience, Context, Quit, RunCommand, kubectl, target};

/// Arguments of `auth`: `whoami`, or `can-i` with a command.
#[derive(Args)]
pub struct Auth {
    /// can-i VERB KIND, or whoami
    #[arg(required = true, value_name = "can-i|whoami")]
    words: Vec<String>,
}

impl RunCommand for Auth {
    const NAME: &'static str = "auth";
    const ABOUT: &'static str = "Print who you are, and whether you may run a command";
    const EXAMPLE: &'static str = "poolctl auth can-i create claim";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words[..] {
            ["whoami"] => {
                let name = context.world.actor_name();
                let document = json!({"user": name, "groups": context.world.group_names()});
                let answer = Answer::text(format!("{name}\n")).with_name(Name::plain(name));
                context.answer(answer.with_document(document))
            }
            ["can-i", verb, kind, ..] => {
                refuse_unknown_verb(verb)?;
                let kind = target::parse_kind(kind.split('/').next().unwrap_or(kind))?;
                let (command, argument) = command_for(verb, kind.word());
                // Guests may do to their own claims and clusters what commands for guests do.
                let is_allowed = context.may_run(command, argument);
                let line = ["poolctl", command, argument].join(" ");
                let answer = if is_allowed { "yes" } else { "no" };
                let document = json!({"command": line.trim_end(), "allowed": is_allowed});
                let shown = Answer::text(format!("{answer}\n")).with_document(document);
                context.answer(shown.with_name(Name::plain(answer)))?;
                if is_allowed { Ok(()) } else { Err(Quit(1).into()) }
            }
            ["can-i", ..] => {
                Err(Refusal::usage("a verb and a kind are needed").next(Self::EXAMPLE).into())
            }
            [word, ..] => Err(kubectl::refuse_second_word(Self::NAME, word).into()),
            [] => Err(Refusal::usage("a word is needed").next(Self::EXAMPLE).into()),
        }
    }
}

/// The verbs of the API of Kubernetes, for which poolctl has commands with other names.
const API_VERBS: [&str; 4] = ["list", "watch", "update", "deletecollection"];

/// Refuses a verb that is neither a command nor a verb of Kubernetes: of that nobody can say whether
/// it is allowed.
fn refuse_unknown_verb(verb: &str) -> Result<(), Refusal> {
    if API_VERBS.contains(&verb) || Context::has_command(verb) {
        return Ok(());
    }
    Err(Refusal::usage(format!("poolctl does not know the verb `{verb}`"))
        .next("poolctl auth can-i get pool"))
}

/// The command of poolctl that does what a verb of kubectl does to a kind, and its first argument;
/// empty if the command is of no kind.
fn command_for<'a>(verb: &'a str, kind: &'a str) -> (&'a str, &'a str) {
    match (verb, kind) {
        ("create", "claim") => ("claim", ""),
        ("delete", "claim") => ("release", ""),
        ("list" | "watch", _) => ("get", kind),
        ("create" | "update", _) => ("apply", ""),
        ("deletecollection", _) => ("delete", ""),
        _ => (verb, kind),
    }
}
