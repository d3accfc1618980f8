//! `__man`: writes a manual page for each command, made from what help says. Packages run it when
//! they are built. It opens no state.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Arg, Args, Command};

use crate::model::refusal::Refusal;

use crate::commands::tree::find_entry;
use crate::commands::{Context, RunCommand, tree};

/// Arguments of `__man`: the folder to write to. Builds of packages run it.
#[derive(Args)]
pub struct Man {
    /// Folder to write the pages to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl RunCommand for Man {
    const NAME: &'static str = "__man";
    const ABOUT: &'static str = "Write a manual page for each command";
    const EXAMPLE: &'static str = "poolctl __man \"$HOME/man\"";

    fn run(self, _: &Context) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| Refusal::unwritable(&self.folder, &error))?;
        let mut waiting = vec![(vec!["poolctl".to_owned()], tree())];
        while let Some((words, mut command)) = waiting.pop() {
            command.build();
            let path = self.folder.join(format!("{}.1", words.join("-")));
            std::fs::write(&path, manual_page(&words, &command))
                .map_err(|error| Refusal::unwritable(&path, &error))?;
            for subcommand in shown_subcommands(&command) {
                let mut subcommand_words = words.clone();
                subcommand_words.push(subcommand.get_name().to_owned());
                waiting.push((subcommand_words, subcommand.clone()));
            }
        }
        Ok(())
    }
}

/// The commands below a command that help lists.
pub fn shown_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

/// The page of a command in roff, as man(7) has it. `words` are those of its command line.
fn manual_page(words: &[String], command: &Command) -> String {
    let name = words.join("-");
    let is_root = words.len() == 1;
    let version = env!("CARGO_PKG_VERSION");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = String::from(".\\\" Made by poolctl of what its help says.\n");
    let title = name.to_uppercase();
    let _ = writeln!(page, ".TH \"{}\" 1 \"\" \"poolctl {version}\"", escape(&title));
    let _ = writeln!(page, ".SH NAME\n{} \\- {}", escape(&name), escape(&about));
    let _ = writeln!(page, ".SH SYNOPSIS\n{}", escape(&synopsis(words, command)));
    let entry = find_entry(words.iter().skip(1).map(String::as_str));
    if let Some(entry) = &entry {
        page += &description_section(entry.description);
    }
    let mut positionals = Vec::new();
    let mut options = Vec::new();
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        // Options of every command are described once, on the page of the program.
        if argument.is_positional() {
            positionals.push(argument);
        } else if is_root || !argument.is_global_set() {
            options.push(argument);
        }
    }
    page += &argument_section("ARGUMENTS", &positionals);
    page += &argument_section("OPTIONS", &options);
    page += &command_section(&name, command);
    if let Some(entry) = &entry {
        let _ = writeln!(page, ".SH EXAMPLE\n.nf\n{}\n.fi", escape(entry.example));
    }
    page += if is_root {
        ".SH EXIT STATUS\n0 is success. The reference in docs/ lists the other codes.\n"
    } else {
        ".SH SEE ALSO\n.BR poolctl (1)\ndescribes the options of every command.\n"
    };
    page
}

/// How the command is called, in a line.
pub fn synopsis(words: &[String], command: &Command) -> String {
    let mut line = words.join(" ");
    if command.has_subcommands() {
        return line + " [OPTIONS] COMMAND";
    }
    line += " [OPTIONS]";
    for argument in command.get_positionals().filter(|argument| !argument.is_hide_set()) {
        line.push(' ');
        line += &argument.to_string();
    }
    line
}

/// A section with a paragraph for each argument; empty if there is none.
fn argument_section(heading: &str, arguments: &[&Arg]) -> String {
    let mut section = String::new();
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(section, ".TP\n\\fB{}\\fR\n{}", escape(&label(argument)), escape(&help));
        if argument.is_hide_possible_values_set() {
            continue;
        }
        for value in argument.get_possible_values() {
            let meaning = value.get_help().map(ToString::to_string).unwrap_or_default();
            let separator = if meaning.is_empty() { "" } else { ": " };
            let name = value.get_name();
            let _ = writeln!(section, ".br\n{}", escape(&format!("{name}{separator}{meaning}")));
        }
    }
    if section.is_empty() { section } else { format!(".SH {heading}\n{section}") }
}

/// What is typed for an argument: `-n, --namespace <NAMESPACE>`, or `<POOL>`.
pub fn label(argument: &Arg) -> String {
    match argument.get_short() {
        Some(short) if !argument.is_positional() => format!("-{short}, {argument}"),
        _ => argument.to_string(),
    }
}

/// The commands below a command, each with the name of its page.
fn command_section(name: &str, command: &Command) -> String {
    let mut section = String::new();
    for subcommand in shown_subcommands(command) {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        let page = format!("{name}-{}", subcommand.get_name());
        let _ = writeln!(section, ".TP\n.BR {} (1)\n{}", escape(&page), escape(&about));
    }
    if section.is_empty() { section } else { format!(".SH COMMANDS\n{section}") }
}

/// The paragraphs that describe a command; empty if there are none.
fn description_section(description: &str) -> String {
    if description.is_empty() {
        return String::new();
    }
    let paragraphs: Vec<String> = description.split("\n\n").map(escape).collect();
    format!(".SH DESCRIPTION\n{}\n", paragraphs.join("\n.PP\n"))
}

/// Text that roff prints as it is: dashes stay dashes, and no line is a request.
fn escape(sentence: &str) -> String {
    let escaped = sentence.replace('\\', "\\e").replace('-', "\\-");
    let mut lines = Vec::new();
    for line in escaped.lines() {
        let is_request = line.starts_with(['.', '\'']);
        lines.push(if is_request { format!("\\&{line}") } else { line.to_owned() });
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_page_is_a_request_by_accident() {
        assert_eq!(escape("--size"), "\\-\\-size");
        assert_eq!(escape("a\\b"), "a\\eb");
        assert_eq!(escape(".so file\n'br"), "\\&.so file\n\\&'br");
    }
}
