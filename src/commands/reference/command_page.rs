//! The page of the reference with every command, its arguments, its options and its example: made of
//! what `--help` is made of.

use std::fmt::Write;

use clap::{Arg, Command};

use crate::commands::kubectl::aliases;
use crate::commands::tree::man::{label, shown_subcommands, synopsis};
use crate::commands::tree::{find_entry, names_from_kubectl, tree};

use super::{page_head, table_cell};

/// The page of all commands in Markdown, made of what clap prints as their help.
pub fn page() -> String {
    let introduction = "All commands, with their arguments and options. `poolctl COMMAND --help` \
                        prints the same.";
    let mut text = page_head("Commands", introduction);
    let mut root = tree();
    root.build();
    text += "\n## Options of every command\n\n";
    let options: Vec<&Arg> = root.get_arguments().filter(|option| is_shown(option)).collect();
    text += &argument_table(&options);
    add_commands(&["poolctl".to_owned()], &root, &mut text);
    text + &kubectl_sections(&root)
}

/// The commands and words that people type who know kubectl and oc. Help does not list them.
fn kubectl_sections(root: &Command) -> String {
    let mut sections = String::from(
        "\n## Words of kubectl and oc\n\nHelp does not list these words and the commands below. [From oc \
         to poolctl](../oc-to-poolctl.md) compares all words.\n\n| word | what it is here |\n|---|---|\n",
    );
    for (word, command) in aliases() {
        let _ = writeln!(sections, "| `poolctl {word}` | `poolctl {command}` |");
    }
    for name in names_from_kubectl() {
        if let Some(command) = root.find_subcommand(name) {
            let mut built_command = command.clone();
            built_command.build();
            sections += &command_section(&["poolctl".to_owned(), name.to_owned()], &built_command);
        }
    }
    sections
}

/// Adds a section for each command below a command; `words` are those of its command line.
fn add_commands(words: &[String], command: &Command, text: &mut String) {
    for subcommand in shown_subcommands(command) {
        let mut subcommand = subcommand.clone();
        subcommand.build();
        let mut subcommand_words = words.to_vec();
        subcommand_words.push(subcommand.get_name().to_owned());
        if !subcommand.has_subcommands() {
            *text += &command_section(&subcommand_words, &subcommand);
        }
        add_commands(&subcommand_words, &subcommand, text);
    }
}

fn command_section(words: &[String], command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut section = format!(
        "\n## {}\n\n{}.\n\n`{}`\n",
        words.join(" "),
        table_cell(&about),
        synopsis(words, command)
    );
    let own_arguments =
        command.get_arguments().filter(|argument| is_shown(argument) && !argument.is_global_set());
    let arguments: Vec<&Arg> = own_arguments.collect();
    if !arguments.is_empty() {
        section.push('\n');
        section += &argument_table(&arguments);
    }
    if let Some(entry) = find_entry(words.iter().skip(1).map(String::as_str)) {
        let _ = write!(
            section,
            "\n```sh no_run: tests run the examples of help\n{}\n```\n",
            entry.example
        );
    }
    section
}

/// Whether help lists an argument. Those that clap adds itself are the same everywhere.
fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

fn argument_table(arguments: &[&Arg]) -> String {
    let mut table = String::from("| argument | meaning |\n|---|---|\n");
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let mut meaning = format!("{}.", help.trim_end_matches('.'));
        if !argument.is_hide_possible_values_set() {
            let values = argument.get_possible_values();
            let names: Vec<String> =
                values.iter().map(|value| format!("`{}`", value.get_name())).collect();
            if !names.is_empty() {
                let _ = write!(meaning, " One of {}.", names.join(", "));
            }
        }
        let label = label(argument).replace('|', "\\|");
        let _ = writeln!(table, "| `{label}` | {} |", table_cell(&meaning));
    }
    table
}
