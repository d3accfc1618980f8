//! Hears: one file per noun or verb, its arguments and the edit it makes. Decides nothing.

mod access;
mod agent;
mod apply;
mod backup;
mod claim;
mod cluster;
mod completion;
mod context;
mod customization;
mod delete;
mod describe;
mod diff;
mod doctor;
mod drain;
mod driver;
mod editor;
mod events;
mod explain;
mod export;
mod get;
mod host;
mod import;
mod infraenv;
mod ip;
mod job;
mod label;
mod metrics;
mod misfits;
mod patch;
mod plan;
mod pool;
mod reconcile;
mod run;
mod scope;
mod secret;
mod selector;
mod state;
mod status;
mod supervise;
mod target;
mod template;
mod tree;
mod version;
mod wait;
mod waiting;
mod why;

use std::ffi::OsString;
use std::io::Write;

use clap::{ArgMatches, Args, FromArgMatches};

use crate::commands::context::{Context, Globals};
pub use crate::commands::tree::tree;
use crate::model::refusal::{Exit, NextStep, Refusal, nearest};

/// One command: what it is called, what it does, an example that works, and its arguments.
trait Verb: Args + FromArgMatches {
    const NAME: &'static str;
    const ABOUT: &'static str;
    /// After `Example:`; a test runs it.
    const EXAMPLE: &'static str;
    /// Whether a guest may use it, on what is his. It then names no files.
    const FOR_GUESTS: bool = false;
    fn run(self, context: &Context) -> anyhow::Result<()>;
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
        // A shell that completes is not to be disturbed.
        Err(_) if matches.subcommand_name() == Some(tree::complete::Complete::NAME) => 1,
        Err(error) => fail(&error, matches.get_one::<String>("namespace")),
    }
}

fn start(matches: &ArgMatches) -> anyhow::Result<()> {
    let context = Context::new(Globals::from_arg_matches(matches)?)?;
    let ran = tree::dispatch(matches, &context);
    // What was done before a refusal is said all the same.
    let concluded = context.conclude();
    ran.and(concluded)
}

/// Ends with an exit code, everything having been said.
#[derive(Debug)]
pub struct Quit(pub u8);

impl std::fmt::Display for Quit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "exit code {}", self.0)
    }
}

impl std::error::Error for Quit {}

/// Says what went wrong and returns the exit code: a refusal's own, else 1. What is to be typed
/// next is to be typed in the same namespace.
fn fail(error: &anyhow::Error, namespace: Option<&String>) -> u8 {
    if let Some(Quit(code)) = error.downcast_ref() {
        return *code;
    }
    let mut refusal = error.downcast_ref::<Refusal>().cloned();
    let next = refusal.as_mut().and_then(|refusal| refusal.next.as_mut());
    if let (Some(NextStep::Command(command)), Some(namespace)) = (next, namespace) {
        *command = format!("{command} -n {namespace}");
    }
    let text = refusal.as_ref().map_or_else(|| format!("{error:#}"), Refusal::to_string);
    let lines: Vec<_> = text.lines().map(crate::output::clean).collect();
    drop(writeln!(std::io::stderr(), "error: {}", lines.join("\n")));
    refusal.map_or(Exit::Failed, |refusal| refusal.exit) as u8
}

/// "did you mean", as a next command.
fn suggest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(wrong, known).map(|name| format!("did you mean `{name}`?"))
}
