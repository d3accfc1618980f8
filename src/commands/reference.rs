//! The reference of the book, `docs/reference/`: pages in Markdown that are made of what the code
//! declares, so that they cannot contradict it. It reads no state, and writes no file: a test
//! compares the pages, and writes them when it is asked to.

mod command_page;
mod contract_page;
mod field_pages;
mod file_page;

use std::fmt::Write;

use crate::commands::explain::words::{Topic, Word};

/// What every page says after its heading.
const ORIGIN: &str = "This page is made from the code. A test checks that it is current.";

/// All pages: the name of the file in `docs/reference`, and its text.
pub fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("annotations.md", annotation_page()),
        ("commands.md", command_page::page()),
        ("conditions.md", condition_page()),
        ("driver-contract.md", contract_page::page()),
        ("events.md", event_page()),
        ("exit-codes.md", exit_code_page()),
        ("files.md", file_page::page()),
        ("kinds.md", field_pages::kind_page()),
        ("metrics.md", metric_page()),
        ("settings.md", field_pages::settings_page()),
    ]
}

/// The beginning of a page: its heading, what it is about, and where it comes from.
fn page_head(title: &str, introduction: &str) -> String {
    format!("# {title}\n\n{introduction} {ORIGIN}\n")
}

/// Prose as a cell of a table in Markdown: in one line, without bars, and without what browsers take
/// for tags. Code between backticks is left as it is.
fn table_cell(prose: &str) -> String {
    let mut cell = String::new();
    for (index, part) in prose.replace('\n', " ").replace('|', "\\|").split('`').enumerate() {
        if index > 0 {
            cell.push('`');
        }
        let is_code = index % 2 == 1;
        cell += &if is_code { part.to_owned() } else { part.replace('<', "&lt;") };
    }
    cell
}

fn annotation_page() -> String {
    let introduction = "Annotations that poolctl reads, in `metadata.annotations` of an object. Those \
                        of a ClusterDeployment also stand in `spec.annotations` of a ClusterPool, \
                        which gives them to its clusters. The last ones are of Hive, metal3, assisted \
                        installer and Cluster API. `poolctl explain annotation/NAME` prints the same.";
    let mut text = page_head("Annotations", introduction);
    for word in Topic::Annotation.words() {
        let _ = write!(text, "\n## {}\n\n{}\n\n", word.name, table_cell(word.meaning));
        for (label, value) in &word.facts {
            let _ = writeln!(text, "- {label}: `{value}`");
        }
    }
    text
}

fn condition_page() -> String {
    let introduction = "Conditions stand in `status.conditions` of an object. Each has a status, a \
                        reason and a message. `poolctl explain condition/NAME` prints the same.";
    let mut text = page_head("Conditions and reasons", introduction);
    let words = Topic::Condition.words();
    for (title, sort) in [("Conditions", "condition"), ("Reasons", "reason")] {
        let _ = writeln!(text, "\n## {title}\n");
        text += &word_table(sort, words.iter().filter(|word| word.sort == sort));
    }
    text
}

fn event_page() -> String {
    let introduction = "Reasons of events, as `poolctl events` shows them. `poolctl explain \
                        event/REASON` prints the same.";
    let mut text = page_head("Events", introduction);
    text.push('\n');
    text + &word_table("reason", &Topic::Event.words())
}

/// A table of words: what each means, who mends it and what to type.
fn word_table<'a>(heading: &str, words: impl IntoIterator<Item = &'a Word>) -> String {
    let mut table =
        format!("| {heading} | meaning | mended by | what to type |\n|---|---|---|---|\n");
    for word in words {
        let mender = fact_of(word, "mended by").unwrap_or_default();
        let command = fact_of(word, "next").map(|command| format!("`{command}`"));
        let _ = writeln!(
            table,
            "| `{}` | {} | {mender} | {} |",
            word.name,
            table_cell(word.meaning),
            command.unwrap_or_default()
        );
    }
    table
}

fn fact_of<'a>(word: &'a Word, label: &str) -> Option<&'a str> {
    let fact = word.facts.iter().find(|(name, _)| *name == label);
    fact.map(|(_, value)| value.as_str())
}

fn exit_code_page() -> String {
    let introduction =
        "The exit codes of every command. `poolctl explain exit-code/7` prints the same.";
    let mut text = page_head("Exit codes", introduction);
    text += "\n| code | meaning |\n|---|---|\n";
    for word in Topic::ExitCode.words() {
        let _ = writeln!(text, "| {} | {} |", word.name, table_cell(word.meaning));
    }
    text + "\n`run` exits with the code of its command in all other cases.\n"
}

fn metric_page() -> String {
    let introduction = "What `poolctl metrics` prints for each pool, as OpenMetrics text. A metric \
                        that Hive also has uses Hive's name. `poolctl explain metric/NAME` prints the \
                        same.";
    let mut text = page_head("Metrics", introduction);
    text += "\n| metric | type | meaning |\n|---|---|---|\n";
    for word in Topic::Metric.words() {
        let kind = fact_of(&word, "type").unwrap_or_default();
        let _ = writeln!(text, "| `{}` | {kind} | {}. |", word.name, table_cell(word.meaning));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_without_tags() {
        assert_eq!(table_cell("a <b>\nor `<c>` | d"), "a &lt;b> or `<c>` \\| d");
    }

    #[test]
    fn a_page_has_a_heading_and_says_where_it_comes_from() {
        for (name, text) in pages() {
            assert!(text.starts_with("# ") && text.contains(ORIGIN), "{name}");
        }
    }
}
