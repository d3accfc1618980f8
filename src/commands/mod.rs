//! The command line: a file per verb, with its arguments, its help and the edit that it calls.
//! Commands hear what is asked, change the state and answer; they decide nothing about pools.

mod access;
mod agent;
mod api;
mod apply;
mod auth;
mod backup;
mod claim;
mod cluster;
mod completion;
mod config;
mod context;
mod create;
mod customization;
mod customization_warnings;
mod data_warnings;
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
mod field_selector;
mod get;
mod guard;
mod host;
mod import;
mod infraenv;
mod init;
mod ip;
mod job;
mod kubectl;
mod label;
mod list_printer;
mod logs;
mod manifest_files;
mod metrics;
mod next_step;
mod patch;
mod plan;
mod pool;
mod reconcile;
mod reference;
mod replace;
mod run;
mod schema;
mod scope;
mod secret;
mod selector;
mod state;
mod status;
mod supervise;
mod target;
mod tell;
mod template;
mod terminal;
mod tree;
mod version;
mod wait;
mod waiting;
mod why;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use clap::{ArgMatches, Args, FromArgMatches};

use crate::commands::context::{Context, Globals};
pub use crate::commands::kubectl::chapter as kubectl_chapter;
pub use crate::commands::reference::pages as reference_pages;
pub use crate::commands::tree::tree;
use crate::model::refusal::{Exit, NextStep, Refusal, nearest_name};
use crate::output::{clean_line, wrap_line};

/// A command of the command line: its arguments, what help says of it, and what runs it.
trait RunCommand: Args + FromArgMatches {
    const NAME: &'static str;
    const ABOUT: &'static str;
    /// Paragraphs of help, for a command that its line does not explain; in the manual page, too.
    const DESCRIPTION: &'static str = "";
    /// The command line that help prints after `Example:`. Tests run it.
    const EXAMPLE: &'static str;
    const AUDIENCE: Audience = Audience::Owner;
    /// Runs the command with its arguments parsed. Answers go through the context, not to stdout.
    fn run(self, context: &Context) -> anyhow::Result<()>;
}

/// Who may run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// The owner of the account that has the state, and the admins in its Settings.
    Owner,
    /// Also guests behind sudo, on their own claims and clusters. Such a command names no files: it
    /// would read and write them with the rights of the account.
    Guests,
}

/// Runs a command line and returns the exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let arguments = kubectl::translate(arguments);
    let parsed = tree::tree_for(&arguments).try_get_matches_from(&arguments).or_else(|_| {
        // Only the whole tree knows all that help shows, and what a wrong word may have meant.
        tree().color(help_colors(&arguments)).try_get_matches_from(&arguments)
    });
    let matches = match parsed {
        Ok(matches) => matches,
        Err(mut error) => {
            if let Some(mut refusal) = kubectl::refuse(&error, &arguments, &tree()) {
                let state = find_value(&arguments, "--state");
                refusal.next = refusal.next.map(|next| {
                    NextStep::Line(next_step::spell_commands(&next.to_string(), "", state))
                });
                return report_failure(&refusal.into());
            }
            kubectl::remove_suggestions(&mut error);
            // Help asked for goes to stdout, the rest to stderr; a closed pipe is no error.
            drop(error.print());
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match run_command(&matches) {
        Ok(()) => 0,
        // A message would appear in the middle of the line that somebody is typing.
        Err(_) if matches.subcommand_name() == Some(tree::complete::Complete::NAME) => 1,
        Err(error) => report_failure(&error),
    }
}

/// Whether help and what clap refuses are coloured, as `--color` says. They are printed before
/// there are any options to ask.
fn help_colors(arguments: &[OsString]) -> clap::ColorChoice {
    match find_value(arguments, "--color") {
        Some("never") => clap::ColorChoice::Never,
        Some("always") => clap::ColorChoice::Always,
        _ => clap::ColorChoice::Auto,
    }
}

/// The value of an option on a command line that is not parsed yet, or that clap refuses: the last
/// one if there are several.
fn find_value<'a>(arguments: &'a [OsString], option: &str) -> Option<&'a str> {
    let options = arguments.iter().take_while(|word| *word != "--");
    let words: Vec<&str> = options.map(|word| word.to_str().unwrap_or_default()).collect();
    let mut value = None;
    for (index, word) in words.iter().enumerate() {
        value = match word.strip_prefix(option) {
            Some("") => words.get(index + 1).copied(),
            Some(rest) => rest.strip_prefix('=').or(value),
            None => value,
        };
    }
    value
}

/// Runs the command that clap has found, and prints the documents that it answered, also if it
/// failed later.
fn run_command(matches: &ArgMatches) -> anyhow::Result<()> {
    let context = Context::new(Globals::from_arg_matches(matches)?)?;
    let outcome = tree::dispatch(matches, &context);
    let outcome = outcome.map_err(|error| context.doubt_absence(error));
    // A command may have changed objects before it failed; those changes are answered too.
    let concluded = context.print_documents();
    let refusal = outcome.as_ref().err().and_then(|error| error.downcast_ref::<Refusal>());
    // A refusal of the state itself says it already.
    if !refusal.is_some_and(Refusal::is_about_state_file) {
        context.print_late_warning();
    }
    outcome.and(concluded).map_err(|error| context.complete_next_step(error))
}

/// Ends the program with an exit code and without a message: the command has said everything.
#[derive(Debug)]
pub struct Quit(pub u8);

impl std::fmt::Display for Quit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "exit code {}", self.0)
    }
}

impl std::error::Error for Quit {}

/// Writes to stderr what went wrong, and returns the exit code: a refusal's own, else 1. On a
/// terminal all lines fit but the command that is suggested next, which people copy.
fn report_failure(error: &anyhow::Error) -> u8 {
    if let Some(Quit(code)) = error.downcast_ref() {
        return *code;
    }
    let mut refusal = error.downcast_ref::<Refusal>().cloned();
    let next = refusal.as_mut().and_then(|refusal| refusal.next.take());
    let message = refusal.as_ref().map_or_else(|| format!("{error:#}"), Refusal::to_string);
    let is_terminal = std::io::stderr().is_terminal();
    let mut lines = Vec::new();
    for line in format!("error: {message}").lines() {
        let line = clean_line(line);
        lines.push(if is_terminal { wrap_line(&line) } else { line.into_owned() });
    }
    if let Some(next) = next {
        lines.extend(format!("  next: {next}").lines().map(|line| clean_line(line).into_owned()));
    }
    drop(writeln!(std::io::stderr(), "{}", lines.join("\n")));
    refusal.map_or(Exit::Failed, |refusal| refusal.exit) as u8
}

/// A count with its noun, whose plural takes an s: `1 job`, `2 jobs`.
fn count_of(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// ``did you mean `pool`?``, if one of the valid words is spelled like the wrong one.
fn suggest<'a>(wrong_word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest_name(wrong_word, words).map(|word| format!("did you mean `{word}`?"))
}
