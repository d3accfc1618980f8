//! Answers to people who type what they know from kubectl, oc and Hive: spellings that poolctl has
//! under another name, options without effect here, and refusals that say what to type instead. It
//! runs nothing, and reads no state.

mod table;

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

use crate::commands::kubectl::table::{KINDS, Meaning, OptionValue, ROWS, Row, VERBS_AFTER_NOUNS};
use crate::commands::suggest;

/// Options of every command whose value may be the next word.
const OPTIONS_WITH_VALUE: [&str; 6] = ["-n", "--namespace", "-o", "--output", "--state", "--color"];

/// Commands and options that are never suggested for a slip of the keyboard: they take something
/// away.
const NEVER_SUGGESTED: [&str; 14] = [
    "delete",
    "release",
    "restore",
    "forget",
    "kill",
    "eject",
    "unbind",
    "reset",
    "unhold",
    "rotate-credentials",
    "--force",
    "--all",
    "--yes",
    "--overwrite",
];

impl Row {
    /// Whether the row is about an option in one of its spellings; an empty one asks for the row of
    /// the verb itself.
    fn has_option(&self, option: &str) -> bool {
        if option.is_empty() {
            return self.option.is_empty();
        }
        self.option.split(", ").any(|spelling| spelling == option)
    }
}

/// Writes a command line of kubectl or oc as poolctl spells it: without options that have no effect
/// here, and with its own name of a command that has another one.
pub fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    leave_out_ignored_options(replace_alias(arguments))
}

/// Where the words of a command line stand that are no options and not the values of options of
/// every command; up to `--`.
fn word_indexes(arguments: &[OsString]) -> Vec<usize> {
    let mut indexes = Vec::new();
    let mut is_value = false;
    for (index, argument) in arguments.iter().enumerate().skip(1) {
        let word = argument.to_str().unwrap_or_default();
        if word == "--" {
            break;
        }
        if is_value {
            is_value = false;
        } else if word.starts_with('-') && word.len() > 1 {
            is_value = OPTIONS_WITH_VALUE.contains(&word);
        } else {
            indexes.push(index);
        }
    }
    indexes
}

/// The first two words that are no options; empty where there are none.
fn verb_words(arguments: &[OsString]) -> (String, String) {
    let indexes = word_indexes(arguments);
    let mut words = indexes.into_iter().filter_map(|index| arguments.get(index)?.to_str());
    let verb = words.next().unwrap_or_default().to_owned();
    let second_word = words.next().unwrap_or_default().to_owned();
    (verb, second_word)
}

/// What an option of a verb means, or the verb itself if the option is empty. The verb with its
/// second word comes first, and options of every command last.
fn find_row(verb: &str, second_word: &str, option: &str) -> Option<&'static Row> {
    let both_words = format!("{verb} {second_word}");
    let verbs = [both_words.as_str(), verb, ""];
    verbs.iter().find_map(|wanted_verb| {
        ROWS.iter().find(|row| row.verb == *wanted_verb && row.has_option(option))
    })
}

/// Puts the name that a command has here in the place of its name in kubectl or oc.
fn replace_alias(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(index) = word_indexes(&arguments).first().copied() else { return arguments };
    let (verb, _) = verb_words(&arguments);
    if verb == "help" {
        // `help get` is `get --help`.
        arguments.remove(index);
        arguments.push("--help".into());
        return arguments;
    }
    if let Some(Row { meaning: Meaning::Alias(command), .. }) = find_row(&verb, "", "") {
        drop(arguments.splice(index..=index, command.split(' ').map(OsString::from)));
    }
    arguments
}

/// The words of kubectl and oc that are another spelling of a command: each with that command.
pub fn aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().filter_map(|row| match row.meaning {
        Meaning::Alias(command) => Some((row.verb, command)),
        _ => None,
    })
}

fn leave_out_ignored_options(arguments: Vec<OsString>) -> Vec<OsString> {
    let (verb, second_word) = verb_words(&arguments);
    let mut kept = Vec::with_capacity(arguments.len());
    let mut remaining = arguments.into_iter().peekable();
    while let Some(argument) = remaining.next() {
        if argument == *"--" {
            // What follows is the command of another program.
            kept.push(argument);
            kept.extend(remaining);
            break;
        }
        match ignored_option(&verb, &second_word, &argument) {
            Some(value) => drop(remaining.next_if(|next| value.is_next_word(next))),
            None => kept.push(argument),
        }
    }
    kept
}

/// What follows an option, if it is one without effect here.
fn ignored_option(verb: &str, second_word: &str, argument: &OsStr) -> Option<OptionValue> {
    let word = argument.to_str()?;
    if !word.starts_with('-') {
        return None;
    }
    let (option, has_value) = match word.split_once('=') {
        Some((option, _)) => (option, true),
        None => (word, false),
    };
    match find_row(verb, second_word, option)?.meaning {
        Meaning::Ignored(..) if has_value => Some(OptionValue::Attached),
        Meaning::Ignored(value, _) => Some(value),
        _ => None,
    }
}

impl OptionValue {
    /// Whether the word after the option is its value.
    fn is_next_word(self, next: &OsStr) -> bool {
        let word = next.to_str().unwrap_or_default();
        match self {
            Self::Attached => false,
            Self::Number => !word.is_empty() && word.chars().all(|letter| letter.is_ascii_digit()),
            Self::Word => !word.starts_with('-'),
        }
    }
}

/// The refusal for a command line that clap does not understand; none where clap's own message is
/// the better one. `root` is the whole tree of commands.
pub fn refuse(error: &clap::Error, arguments: &[OsString], root: &Command) -> Option<Refusal> {
    let (verb, second_word) = verb_words(arguments);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = context_text(error, ContextKind::InvalidSubcommand)?;
            if word == verb {
                return Some(refuse_verb(&verb, &second_word, root));
            }
            Some(refuse_verb_after_noun(&verb, word, root))
        }
        ErrorKind::UnknownArgument => {
            let option = context_text(error, ContextKind::InvalidArg)?;
            if !option.starts_with('-') {
                let problem = format!("`{option}` is one argument too many");
                return Some(Refusal::usage(problem).next(help_line(&verb, &second_word, root)));
            }
            let name = option.split('=').next().unwrap_or(option);
            Some(refuse_option(&verb, &second_word, name, root))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            refuse_value(error, &verb, &second_word)
                .or_else(|| explain_value(error, &help_line(&verb, &second_word, root)))
        }
        ErrorKind::MissingRequiredArgument => {
            let Some(ContextValue::Strings(arguments)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            let problem = format!("{} must be given", arguments.join(" and "));
            Some(Refusal::usage(problem).next(help_line(&verb, &second_word, root)))
        }
        _ => None,
    }
}

/// The command that prints the help of the command that a line names.
fn help_line(verb: &str, second_word: &str, root: &Command) -> String {
    match find_command(verb, second_word, root) {
        Some((path, _)) => format!("poolctl {path} --help"),
        None => "poolctl --help".to_owned(),
    }
}

/// The refusal of a value that the table does not name.
fn explain_value(error: &clap::Error, help: &str) -> Option<Refusal> {
    let argument = context_text(error, ContextKind::InvalidArg)?;
    let value = context_text(error, ContextKind::InvalidValue)?;
    if value.is_empty() {
        return Some(Refusal::usage(format!("`{argument}` needs a value")).next(help));
    }
    let refusal = Refusal::usage(format!("invalid value '{value}' for `{argument}`")).next(help);
    Some(match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => {
            refusal.because(format!("possible values: {}", values.join(", ")))
        }
        _ => match error.source() {
            Some(source) => refusal.because(source.to_string()),
            None => refusal,
        },
    })
}

/// A word that an error of clap carries.
fn context_text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    }
}

/// The refusal of a second word that a command such as `config` does not know.
pub fn refuse_second_word(verb: &str, second_word: &str) -> Refusal {
    refuse_by_table(verb, second_word).unwrap_or_else(|| {
        Refusal::usage(format!("`poolctl {verb}` does not know `{second_word}`"))
            .next(format!("poolctl {verb} --help"))
    })
}

/// The refusal of a command that the table refuses.
fn refuse_by_table(verb: &str, second_word: &str) -> Option<Refusal> {
    let row = find_row(verb, second_word, "")?;
    let Meaning::Refused { cause, next } = row.meaning else { return None };
    let refusal = Refusal::usage(format!("poolctl has no command `{}`", row.verb));
    Some(add_next(refusal.because(cause), next))
}

/// The refusal of a command that poolctl does not have.
fn refuse_verb(verb: &str, second_word: &str, root: &Command) -> Refusal {
    if let Some(refusal) = refuse_by_table(verb, second_word) {
        return refusal;
    }
    let suggestion = suggest(verb, command_names(root));
    let refusal = Refusal::usage(format!("poolctl has no command `{verb}`")).next("poolctl --help");
    match suggestion {
        Some(hint) => refusal.because(hint),
        None => refusal,
    }
}

/// The refusal of a verb that a noun such as `pool` does not have.
fn refuse_verb_after_noun(noun: &str, verb: &str, root: &Command) -> Refusal {
    let refusal = Refusal::usage(format!("`poolctl {noun}` has no command `{verb}`"));
    let general = VERBS_AFTER_NOUNS.iter().find(|(verbs, _)| verbs.contains(&verb));
    if let (Some((_, command)), Some(_)) = (general, Kind::from_word(noun)) {
        return refusal.next(command.replace("KIND", noun));
    }
    let group = root.find_subcommand(noun);
    let hint = group.and_then(|group| suggest(verb, command_names(group)));
    let next = format!("poolctl {noun} --help");
    match hint {
        Some(hint) => refusal.because(hint).next(next),
        None => refusal.next(next),
    }
}

/// The names of commands below a command that may be suggested.
fn command_names(command: &Command) -> Vec<&str> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(Command::get_name).filter(|name| !NEVER_SUGGESTED.contains(name)).collect()
}

/// The refusal of an option that a command does not have.
fn refuse_option(verb: &str, second_word: &str, option: &str, root: &Command) -> Refusal {
    let Some((path, command)) = find_command(verb, second_word, root) else {
        return explain_option(
            Refusal::usage(format!("poolctl has no option `{option}`")),
            find_row(verb, second_word, option),
            "poolctl --help",
        );
    };
    let what = format!("`poolctl {path}` has no option `{option}`");
    let row = find_row(verb, second_word, option);
    let next = format!("poolctl {path} --help");
    if row.is_some() {
        return explain_option(Refusal::usage(what), row, &next);
    }
    let names: Vec<String> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() || argument.is_global_set())
        .filter_map(Arg::get_long)
        .map(|name| format!("--{name}"))
        .filter(|name| !NEVER_SUGGESTED.contains(&name.as_str()))
        .collect();
    let refusal = Refusal::usage(what);
    match suggest(option, names.iter().map(String::as_str)) {
        Some(hint) => refusal.because(hint).next(next),
        None => refusal.next(next),
    }
}

/// Adds what the table says of an option.
fn explain_option(refusal: Refusal, row: Option<&Row>, help: &str) -> Refusal {
    match row.map(|row| row.meaning) {
        Some(Meaning::Refused { cause, next }) => add_next(refusal.because(cause), next),
        Some(Meaning::Ignored(_, reason)) => {
            refusal.because(format!("it has no effect here: {reason}")).next(help.to_owned())
        }
        _ => refusal.next(help.to_owned()),
    }
}

/// The path of the command that a line names, and the command itself with its arguments.
fn find_command(verb: &str, second_word: &str, root: &Command) -> Option<(String, Command)> {
    let mut command = root.find_subcommand(verb)?.clone();
    // The arguments of a command are made only when it is built.
    command.build();
    let subcommand = command.find_subcommand(second_word).cloned();
    match subcommand {
        Some(mut subcommand) => {
            subcommand.build();
            Some((format!("{verb} {second_word}"), subcommand))
        }
        None => Some((verb.to_owned(), command)),
    }
}

/// The refusal of a value of an option that the table names, such as `-o go-template=`.
fn refuse_value(error: &clap::Error, verb: &str, second_word: &str) -> Option<Refusal> {
    let argument = context_text(error, ContextKind::InvalidArg)?;
    let value = context_text(error, ContextKind::InvalidValue)?;
    let option = argument.split(' ').next()?;
    let value_name = value.split('=').next()?;
    let row = find_row(verb, second_word, &format!("{option} {value_name}"))?;
    let Meaning::Refused { cause, next } = row.meaning else { return None };
    let refusal = Refusal::usage(format!("`{option} {value_name}` is not supported"));
    Some(add_next(refusal.because(cause), next))
}

/// The refusal of a kind that Kubernetes, OpenShift or Hive has and poolctl does not keep.
pub fn refuse_kind(word: &str) -> Option<Refusal> {
    let lower_word = word.to_lowercase();
    let name = lower_word.split('.').next().unwrap_or_default();
    let singular = name.strip_suffix('s').unwrap_or(name);
    let row =
        KINDS.iter().find(|row| row.words.contains(&name) || row.words.contains(&singular))?;
    let refusal = Refusal::usage(format!("poolctl keeps no kind `{word}`"));
    Some(add_next(refusal.because(row.cause), row.next))
}

fn add_next(refusal: Refusal, next: &str) -> Refusal {
    if next.starts_with("poolctl ") { refusal.next(next) } else { refusal.advise(next) }
}

/// What clap suggests from anywhere in the tree, also commands that take something away.
pub fn remove_suggestions(error: &mut clap::Error) {
    for kind in [
        ContextKind::SuggestedCommand,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::Suggested,
    ] {
        error.remove(kind);
    }
}

/// The chapter of the documentation for people who know kubectl and oc, printed from the table.
pub fn chapter() -> String {
    let mut text = String::from(CHAPTER_HEAD);
    for row in ROWS {
        let word = [row.verb, row.option].join(" ");
        let _ = writeln!(text, "| `{}` | {} |", table_cell(word.trim()), row.meaning.describe());
    }
    text += "\n## Kinds that are not kept\n\n| kind | here |\n|---|---|\n";
    for row in KINDS {
        let words: Vec<String> = row.words.iter().map(|word| format!("`{word}`")).collect();
        let _ =
            writeln!(text, "| {} | {}: `{}` |", words.join(", "), row.cause, table_cell(row.next));
    }
    text
}

const CHAPTER_HEAD: &str = "# From oc to poolctl

Verbs and options of kubectl and oc, and what they mean here. This page is printed from the table
that the program answers with. A link called `oc` to poolctl runs scripts that were written for `oc`.

## Verbs and options

| word | here |
|---|---|
";

/// A cell of a table in Markdown, whose columns end at bars.
fn table_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

impl Meaning {
    /// The meaning as a cell of the chapter.
    fn describe(self) -> String {
        match self {
            Self::Same => "the same".into(),
            Self::Differs(how) => table_cell(how),
            Self::Alias(command) => format!("`poolctl {command}`"),
            Self::Ignored(_, reason) => format!("no effect: {}", table_cell(reason)),
            Self::Refused { cause, next } => {
                format!("no: {}; instead `{}`", table_cell(cause), table_cell(next))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::tree;

    use super::*;

    /// Whether the command of a row has the option, in its arguments or among those of all.
    fn has_argument(row: &Row) -> bool {
        let (verb, second_word) = row.verb.split_once(' ').unwrap_or((row.verb, ""));
        let root = tree();
        let command = find_command(verb, second_word, &root).map(|(_, command)| command);
        let arguments = command.as_ref().into_iter().chain([&root]);
        arguments.flat_map(Command::get_arguments).any(|argument| {
            let spellings = argument.get_long_and_visible_aliases().unwrap_or_default();
            spellings.iter().any(|spelling| row.has_option(&format!("--{spelling}")))
        })
    }

    #[test]
    fn what_the_table_calls_the_same_exists_and_what_it_refuses_does_not() {
        for row in ROWS {
            let verb = row.verb.split(' ').next().unwrap_or_default();
            let is_command = verb.is_empty() || tree().find_subcommand(verb).is_some();
            let words = format!("{} {}", row.verb, row.option);
            match row.meaning {
                Meaning::Same | Meaning::Differs(_) => {
                    assert!(is_command, "{words}");
                    assert!(row.option.is_empty() || has_argument(row), "{words}");
                }
                Meaning::Alias(_) => assert!(!is_command, "{words}"),
                Meaning::Ignored(..) | Meaning::Refused { .. } if row.option.is_empty() => {
                    assert!(row.verb.contains(' ') || !is_command, "{words}");
                }
                Meaning::Ignored(..) | Meaning::Refused { .. } => {
                    assert!(!has_argument(row), "{words}");
                }
            }
        }
    }

    fn check_translation(line: &str, expected: &str) {
        let arguments = line.split(' ').map(OsString::from).collect();
        let translated: Vec<String> =
            translate(arguments).into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(translated.join(" "), expected, "{line}");
    }

    #[test]
    fn options_without_effect_and_other_names_are_translated() {
        check_translation("oc get cp lab -v=6", "oc get cp lab");
        check_translation("oc get cp -v 6 lab", "oc get cp lab");
        check_translation("oc get cp --chunk-size 5 -A", "oc get cp -A");
        check_translation("oc apply --validate=false -f x", "oc apply -f x");
        check_translation("oc run lab -- x -v 6", "oc run lab -- x -v 6");
        check_translation("oc -n team new-project x", "oc -n team create namespace x");
        check_translation("oc help get", "oc get --help");
    }

    #[test]
    fn no_suggestion_takes_something_away() {
        for word in ["delet", "relase", "restor"] {
            assert!(!refuse_verb(word, "", &tree()).to_string().contains("did you mean"), "{word}");
        }
        assert!(refuse_verb("descibe", "", &tree()).to_string().contains("`describe`"));
    }
}
