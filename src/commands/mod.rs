//! Hears: one file per noun or verb, its arguments and the edit it makes. Decides nothing.

mod apply;
mod claim;
mod context;
mod credentials;
mod delete;
mod describe;
mod edit;
mod events;
mod get;
mod job;
mod manifest;
mod patch;
mod plan;
mod pool;
mod pool_create;
mod put;
mod put_secret;
mod reconcile;
mod release;
mod render;
mod scale;
mod schema;
mod state;
mod status;
mod target;
mod version;
mod wait;

use std::ffi::OsString;
use std::io::Write;

use anyhow::bail;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::model::refusal::{Refusal, nearest};
use context::{Context, Globals};

/// One command: what it is called, what it does, an example that works, and its arguments.
trait Verb: Args + FromArgMatches {
    const NAME: &'static str;
    const ABOUT: &'static str;
    /// After `Example:`; a test runs it.
    const EXAMPLE: &'static str;
    fn run(self, context: &Context) -> anyhow::Result<()>;
}

/// A command in the tree; its arguments are made only when it is named.
struct Entry {
    name: &'static str,
    about: &'static str,
    arguments: fn(Command) -> Command,
    run: fn(&ArgMatches, &Context) -> anyhow::Result<()>,
}

fn entry<V: Verb>() -> Entry {
    Entry {
        name: V::NAME,
        about: V::ABOUT,
        arguments: |command| {
            V::augment_args(command).after_help(format!("Example:\n  {}", V::EXAMPLE))
        },
        run: |matches, context| V::from_arg_matches(matches)?.run(context),
    }
}

/// A word with commands below it.
fn group(name: &str) -> Option<(&'static str, Vec<Entry>)> {
    match name {
        "pool" => Some((
            "Create, scale and render pools",
            vec![entry::<pool_create::Create>(), entry::<pool::Scale>(), entry::<render::Render>()],
        )),
        "job" => Some((
            "Look at the jobs that drivers do",
            vec![entry::<job::List>(), entry::<job::Show>()],
        )),
        "state" => Some(("Where the state is", vec![entry::<state::Path>()])),
        _ => None,
    }
}

const GROUPS: [&str; 3] = ["pool", "job", "state"];

fn single() -> Vec<Entry> {
    vec![
        entry::<claim::Claim>(),
        entry::<release::Release>(),
        entry::<credentials::Kubeconfig>(),
        entry::<credentials::Credentials>(),
        entry::<status::Status>(),
        entry::<get::Get>(),
        entry::<describe::Describe>(),
        entry::<apply::Apply>(),
        entry::<delete::Delete>(),
        entry::<patch::Patch>(),
        entry::<scale::Scale>(),
        entry::<events::Events>(),
        entry::<reconcile::Reconcile>(),
        entry::<plan::Plan>(),
        entry::<version::Version>(),
    ]
}

/// The whole tree of commands.
pub fn tree() -> Command {
    let command = |one: &Entry| Command::new(one.name).about(one.about).defer(one.arguments);
    let mut root = Globals::augment_args(Command::new("poolctl"))
        .about("Pools of ready OpenShift clusters: claim one, use it, release it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true);
    for one in single() {
        root = root.subcommand(command(&one));
    }
    for name in GROUPS {
        let Some((about, entries)) = group(name) else {
            continue;
        };
        let mut below =
            Command::new(name).about(about).subcommand_required(true).arg_required_else_help(true);
        below = below.disable_help_subcommand(true);
        for one in &entries {
            below = below.subcommand(command(one));
        }
        root = root.subcommand(below);
    }
    root
}

/// Runs a command line and returns the exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let matches = match tree().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // Help asked for goes to stdout, the rest to stderr; a closed pipe is no error.
            drop(error.print());
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match start(&matches) {
        Ok(()) => 0,
        Err(error) => fail(&error, matches.get_one::<String>("namespace")),
    }
}

fn start(matches: &ArgMatches) -> anyhow::Result<()> {
    dispatch(matches, &Context::new(Globals::from_arg_matches(matches)?)?)
}

/// Says what went wrong and returns the exit code: a refusal's own, else 1. What is to be typed
/// next is to be typed in the same namespace.
fn fail(error: &anyhow::Error, namespace: Option<&String>) -> u8 {
    let mut refusal = error.downcast_ref::<Refusal>().cloned();
    let next = refusal.as_mut().and_then(|refusal| refusal.next.as_mut());
    if let (Some(next), Some(namespace)) = (next, namespace)
        && next.starts_with("poolctl ")
        && !next.contains(" -n ")
        && !next.contains(" -A")
    {
        *next = format!("{next} -n {namespace}");
    }
    let text = refusal.as_ref().map_or_else(|| format!("{error:#}"), Refusal::to_string);
    let lines: Vec<_> = text.lines().map(crate::output::clean).collect();
    if !lines.is_empty() {
        drop(writeln!(std::io::stderr(), "error: {}", lines.join("\n")));
    }
    refusal.map_or(1, |refusal| refusal.exit as u8)
}

fn dispatch(matches: &ArgMatches, context: &Context) -> anyhow::Result<()> {
    let unknown = |name: &str| Refusal::usage(format!("there is no command `{name}`"));
    let Some((name, below)) = matches.subcommand() else {
        bail!(unknown(""));
    };
    let (entries, name, matches) = match (group(name), below.subcommand()) {
        (Some((_, entries)), Some((name, below))) => (entries, name, below),
        _ => (single(), name, below),
    };
    let found = entries.iter().find(|one| one.name == name).ok_or_else(|| unknown(name))?;
    (found.run)(matches, context)
}

/// "did you mean", as a next command.
fn suggest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(wrong, known).map(|name| format!("did you mean `{name}`?"))
}
