//! The page of the reference with every command, its arguments, its options and its example: made of
//! what `--help` is made of.

use std::fmt::Write;

use clap::{Arg, Command};

use crate::commands::tree::man::{label, shown_subcommands, synopsis};
use crate::commands::tree::tree;

use super::{page_head, table_cell};

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
    text
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
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let example: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    if !example.is_empty() {
        let _ = write!(
            section,
            "\n```sh no_run: tests run the examples of help\n{}\n```\n",
            example.join("\n")
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
