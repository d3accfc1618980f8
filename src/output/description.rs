//! Describes an object for people, in the shape of `kubectl describe`: its metadata, then its other
//! fields by sections, in lines that fit a terminal. It knows no kind: which names are those of
//! fields, and which are data, the schema of the kind tells.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::model::kinds::Kind;
use crate::model::schemas::{schema_of_kind, without_null};

use super::clean::clean_line;
use super::style::{Style, Tone};
use super::wrap::{WIDTH, break_text, wrap_line};

/// How far the values of the metadata stand from the left, as with kubectl.
const HEAD_WIDTH: usize = 14;
/// How far a value may stand from the left. Behind a longer name it begins at once.
const LABEL_LIMIT: usize = 36;
/// Items of one list that are shown, if they are mappings.
const MAX_ITEMS: usize = 10;
/// Fields of the metadata that have a line of their own at the beginning.
const HEAD_FIELDS: [&str; 4] = ["name", "namespace", "labels", "annotations"];
/// Words of field names that are written in capitals.
const ACRONYMS: [&str; 15] = [
    "api", "bmc", "cidr", "cpu", "dns", "id", "ip", "iso", "mac", "ntp", "ssh", "uid", "uri",
    "url", "vip",
];

/// A description as it grows, and how its headings look.
pub struct Description {
    text: String,
    style: Style,
}

impl Description {
    /// An empty description, whose headings are painted as the style says.
    pub fn new(style: Style) -> Self {
        Self { text: String::new(), style }
    }

    /// Adds the fields of an object's document. The sentences of a summary stand before its spec and
    /// its status.
    pub fn add_document(&mut self, kind: Kind, document: &Value, summary: &[String]) {
        let schema = Some(schema_of_kind(kind));
        let metadata = &document["metadata"];
        self.add_value("Name:", &scalar_text(&metadata["name"]));
        if let Some(namespace) = metadata.get("namespace") {
            self.add_value("Namespace:", &scalar_text(namespace));
        }
        push_pairs(&mut self.text, "Labels:", &metadata["labels"], "=");
        push_pairs(&mut self.text, "Annotations:", &metadata["annotations"], ": ");
        self.add_value("Kind:", kind.name());
        let mut label = "Summary:";
        for sentence in summary {
            self.add_value(label, sentence);
            label = "";
        }
        if let Value::Object(fields) = metadata {
            let mut other_fields = fields.clone();
            other_fields.retain(|name, _| !HEAD_FIELDS.contains(&name.as_str()));
            if !other_fields.is_empty() {
                self.add_section("metadata", &Value::Object(other_fields), schema);
            }
        }
        for (name, value) in document.as_object().into_iter().flatten() {
            if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                self.add_section(name, value, schema);
            }
        }
    }

    /// Adds a field of a document with what is below it, under a heading.
    fn add_section(&mut self, name: &str, value: &Value, schema: Option<&Value>) {
        let label = format!("{}:", label_of(name, schema));
        let lines = nested_lines(value, schema_of_field(schema, name), 0);
        if !lines.is_empty() {
            self.text += &self.style.paint(Tone::Title, &label);
            self.text.push('\n');
            self.text += &lines;
        } else if let Some(line) = line_text(value) {
            self.add_value(&label, &line);
        }
    }

    /// Adds a line `Label:  value`, with the value where those of the metadata stand.
    pub fn add_value(&mut self, label: &str, value: &str) {
        let label_width = HEAD_WIDTH.max(label.len() + 1);
        push_value(&mut self.text, label, label_width, 0, &clean_line(value));
    }

    /// Adds a value below a gap.
    pub fn add_part(&mut self, label: &str, value: &str) {
        self.text.push('\n');
        self.add_value(label, value);
    }

    /// Adds a heading below a gap.
    pub fn add_heading(&mut self, heading: &str) {
        self.text.push('\n');
        self.text += &self.style.paint(Tone::Title, heading);
        self.text.push('\n');
    }

    /// Adds a line, which goes on in further lines if it is long.
    pub fn add_line(&mut self, line: &str) {
        self.text += &wrap_line(&clean_line(line));
        self.text.push('\n');
    }

    /// Adds lines that fit, with their ends.
    pub fn add_lines(&mut self, lines: &str) {
        self.text += lines;
    }

    /// Adds rows whose last cell is a sentence. It stands in its column if all of the row fits a
    /// terminal, and otherwise in lines of its own below the row.
    pub fn add_rows(&mut self, header: &[&str], rows: &[(Vec<String>, String)]) {
        let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
        for (cells, _) in rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(clean_line(cell).chars().count());
            }
        }
        let header_cells: Vec<String> = header.iter().map(|cell| cell.to_uppercase()).collect();
        push_row(&mut self.text, &header_cells, &widths, "MESSAGE");
        for (cells, sentence) in rows {
            push_row(&mut self.text, cells, &widths, &clean_line(sentence));
        }
    }

    /// Adds what to do next, the end of each description.
    pub fn add_next(&mut self, next: &str) {
        let label = "Next:";
        self.text.push('\n');
        self.text += &self.style.paint(Tone::Title, label);
        for (index, line) in break_text(next, WIDTH - label.len() - 1).iter().enumerate() {
            let indent = if index == 0 { 1 } else { label.len() + 1 };
            self.text += &" ".repeat(indent);
            self.text += &self.style.paint(Tone::Place, line);
            self.text.push('\n');
        }
    }

    /// All that was added, as lines.
    pub fn into_text(self) -> String {
        self.text
    }
}

fn push_row(out: &mut String, cells: &[String], widths: &[usize], sentence: &str) {
    let mut row = String::from("  ");
    for (cell, width) in cells.iter().zip(widths.iter().copied()) {
        let shown_cell = if cell.is_empty() { "-" } else { cell.as_str() };
        let _ = write!(row, "{:width$}  ", clean_line(shown_cell));
    }
    if row.chars().count() + sentence.chars().count() <= WIDTH {
        row += sentence;
        out.push_str(row.trim_end());
        out.push('\n');
        return;
    }
    out.push_str(row.trim_end());
    out.push('\n');
    for line in break_text(sentence, WIDTH - 6) {
        out.push_str("      ");
        out.push_str(&line);
        out.push('\n');
    }
}

/// Labels or annotations, a line each.
fn push_pairs(out: &mut String, label: &str, mapping: &Value, separator: &str) {
    let Some(pairs) = mapping.as_object().filter(|pairs| !pairs.is_empty()) else {
        return push_value(out, label, HEAD_WIDTH, 0, "<none>");
    };
    let mut shown_label = label;
    for (name, value) in pairs {
        let pair = format!("{}{separator}{}", clean_line(name), scalar_text(value));
        push_value(out, shown_label, HEAD_WIDTH, 0, &pair);
        shown_label = "";
    }
}

/// The fields of a mapping: values in a column beside their names, mappings and lists of them
/// below. What is empty is left out.
fn push_fields(
    out: &mut String,
    fields: &Map<String, Value>,
    schema: Option<&Value>,
    depth: usize,
) {
    let mut label_width = 0;
    for (name, value) in fields {
        if line_text(value).is_some() {
            label_width = label_width.max(label_of(name, schema).chars().count() + 3);
        }
    }
    let label_width = label_width.min(LABEL_LIMIT);
    for (name, value) in fields {
        let label = format!("{}:", label_of(name, schema));
        if let Some(line) = line_text(value) {
            push_value(out, &label, label_width, depth, &line);
            continue;
        }
        let lines = nested_lines(value, schema_of_field(schema, name), depth);
        if !lines.is_empty() {
            push_line(out, depth, &label);
            out.push_str(&lines);
        }
    }
}

/// What stands below the name of a mapping, or of a list of them; empty for other values.
fn nested_lines(value: &Value, schema: Option<&Value>, depth: usize) -> String {
    let mut lines = String::new();
    match value {
        Value::Object(fields) => push_fields(&mut lines, fields, schema, depth + 1),
        Value::Array(items) if line_text(value).is_none() => {
            let item_schema = schema.and_then(|schema| schema.get("items"));
            push_items(&mut lines, items, item_schema, depth);
        }
        _ => {}
    }
    lines
}

/// The items of a list, each with a dash before it.
fn push_items(out: &mut String, items: &[Value], schema: Option<&Value>, depth: usize) {
    for item in items.iter().take(MAX_ITEMS) {
        let Value::Object(fields) = item else {
            let line = format!("- {}", clean_line(&item.to_string()));
            push_line(out, depth + 1, &line);
            continue;
        };
        let mut item_lines = String::new();
        push_fields(&mut item_lines, fields, schema.map(without_null), depth + 2);
        let indent = "  ".repeat(depth + 1);
        // The dash stands where the indentation of the first field ends.
        if let Some(first_line) = item_lines.get(indent.len() + 2..) {
            out.push_str(&indent);
            out.push_str("- ");
            out.push_str(first_line);
        }
    }
    if items.len() > MAX_ITEMS {
        push_line(out, depth + 1, &format!("and {} more", items.len() - MAX_ITEMS));
    }
}

fn push_line(out: &mut String, depth: usize, line: &str) {
    out.push_str(&"  ".repeat(depth));
    out.push_str(line);
    out.push('\n');
}

/// A value behind its label, broken at spaces if it is long. What has no spaces, such as an address
/// or an id, is copied, so it is never cut: if it does not fit it stands below its label.
fn push_value(out: &mut String, label: &str, label_width: usize, depth: usize, value: &str) {
    let label = format!("{}{label:label_width$}", "  ".repeat(depth));
    let label = if label.ends_with(' ') { label } else { label + "  " };
    let start = label.chars().count();
    let longest_word = value.split_whitespace().map(|word| word.chars().count()).max();
    let room = WIDTH.saturating_sub(start);
    if longest_word.unwrap_or_default() <= room {
        push_lines(out, &label, &" ".repeat(start), value, room);
        return;
    }
    out.push_str(label.trim_end());
    out.push('\n');
    let indent = "  ".repeat(depth + 1);
    push_lines(out, &indent, &indent, value, WIDTH.saturating_sub(indent.len()));
}

/// A value in lines of at most so many letters, the first one behind one text and the others behind
/// another one.
fn push_lines(out: &mut String, first: &str, next: &str, value: &str, room: usize) {
    let lines = if value.chars().count() <= room {
        vec![value.to_owned()]
    } else {
        break_text(value, room)
    };
    let mut indent = first;
    for line in lines {
        out.push_str(format!("{indent}{line}").trim_end());
        out.push('\n');
        indent = next;
    }
}

/// A value that stands in a line beside its name: a scalar, a list of scalars, or a mapping without
/// fields. None for other values, and for what is empty.
fn line_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(string) if string.is_empty() => None,
        Value::Object(fields) => fields.is_empty().then(|| "{}".to_owned()),
        Value::Array(items) => {
            let has_mappings = items.iter().any(|item| item.is_object() || item.is_array());
            if items.is_empty() || has_mappings {
                return None;
            }
            let texts: Vec<String> = items.iter().map(scalar_text).collect();
            Some(texts.join(", "))
        }
        scalar => Some(scalar_text(scalar)),
    }
}

/// A scalar as people write it, without anything that moves the cursor of a terminal.
fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(string) => clean_line(string).into_owned(),
        other_scalar => other_scalar.to_string(),
    }
}

/// The schema of a field: by its name, or that of all values of a mapping.
fn schema_of_field<'a>(schema: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    let declared = schema?.get("properties").and_then(|fields| fields.get(name));
    declared.or_else(|| schema?.get("additionalProperties")).map(without_null)
}

/// A name as people read it. The name of a declared field becomes words; one that is data, such as
/// that of an entry of an inventory, stays as it is.
fn label_of(name: &str, schema: Option<&Value>) -> String {
    let declared = schema.and_then(|schema| schema.get("properties")?.get(name));
    if declared.is_some() { title_of(name) } else { clean_line(name).into_owned() }
}

/// `baseDomain` as `Base Domain`, and `apiVIP` as `API VIP`.
fn title_of(name: &str) -> String {
    let mut words: Vec<String> = vec![String::new()];
    let letters: Vec<char> = name.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        let follows_small = index > 0 && !letters[index - 1].is_uppercase();
        let next_letters = letters.get(index + 1..index + 3);
        let precedes_small =
            next_letters.is_some_and(|next| next.iter().all(|letter| letter.is_lowercase()));
        let begins_word = letter.is_uppercase() && index > 0 && (follows_small || precedes_small);
        if *letter == '_' || begins_word {
            words.push(String::new());
        }
        if *letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.push(*letter);
        }
    }
    let titled_words: Vec<String> = words.iter().map(|word| title_word(word)).collect();
    titled_words.join(" ")
}

fn title_word(word: &str) -> String {
    if ACRONYMS.contains(&word.to_lowercase().as_str()) {
        return word.to_uppercase();
    }
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::style::Colors;

    #[test]
    fn names_of_fields_become_words() {
        for (name, title) in [
            ("baseDomain", "Base Domain"),
            ("apiVIP", "API VIP"),
            ("webConsoleURL", "Web Console URL"),
            ("uid", "UID"),
            ("imageSetRef", "Image Set Ref"),
            ("deprovision_info", "Deprovision Info"),
            ("apiVIPs", "API VIPs"),
        ] {
            assert_eq!(title_of(name), title);
        }
    }

    fn describe(kind: Kind, document: &Value) -> String {
        let mut description = Description::new(Style::default());
        description.add_document(kind, document, &[]);
        description.into_text()
    }

    #[test]
    fn a_document_is_described_in_lines_that_fit() {
        let document = json!({
            "apiVersion": "hive.openshift.io/v1",
            "kind": "ClusterPool",
            "metadata": {
                "name": "lab", "namespace": "default", "labels": {"a": "b", "c": "d"},
                "creationTimestamp": "2026-03-02T12:00:00Z", "generation": 2,
            },
            "spec": {"baseDomain": "word ".repeat(40), "size": 2, "inventory": [{"name": "foo"}]},
            "status": {"inventory": {"fooBar": {"attempts": 3}}},
        });
        let description = describe(Kind::ClusterPool, &document);
        assert!(description.lines().all(|line| line.chars().count() <= WIDTH), "{description}");
        for part in [
            "Name:         lab\nNamespace:    default\nLabels:       a=b\n              c=d\n",
            "Annotations:  <none>\nKind:         ClusterPool\nMetadata:\n",
            "\n  Creation Timestamp:  2026-03-02T12:00:00Z\n  Generation:          2\nSpec:\n",
            "\n  Base Domain:  word word",
            "\n  Size:         2\n",
            "\n  Inventory:\n    - Name:  foo\n",
            "\n    fooBar:\n      Attempts:  3\n",
        ] {
            assert!(description.contains(part), "{part}\n---\n{description}");
        }
    }

    #[test]
    fn headings_alone_are_bold() {
        let style = Style { colors: Colors::Ansi, ..Style::default() };
        let mut description = Description::new(style);
        // A value that looks like a heading, in a line of its own because it is long.
        let summary = ["x".repeat(90) + ":"];
        let document = json!({"metadata": {"name": "lab"}, "spec": {"size": 2}});
        description.add_document(Kind::ClusterPool, &document, &summary);
        description.add_next("poolctl plan");
        let text = description.into_text();
        assert_eq!(text.matches("\u{1b}[1m").count(), 2, "{text:?}");
        assert!(text.contains("\u{1b}[1mSpec:\u{1b}[0m\n  Size:  2\n"), "{text:?}");
        let end = "\n\u{1b}[1mNext:\u{1b}[0m \u{1b}[36mpoolctl plan\u{1b}[0m\n";
        assert!(text.ends_with(end), "{text:?}");
    }

    #[test]
    fn what_is_copied_is_never_cut() {
        let url = format!("https://{}.example.com", "console.apps".repeat(5));
        let document = json!({"status": {"webConsoleURL": url}});
        let description = describe(Kind::ClusterDeployment, &document);
        assert!(
            description.contains(&format!("\n  Web Console URL:\n    {url}\n")),
            "{description}"
        );
    }

    #[test]
    fn a_sentence_stands_below_its_row_if_it_is_long() {
        let rows = [
            (vec!["Ready".to_owned(), "True".to_owned()], "It runs".to_owned()),
            (vec!["Available".to_owned(), String::new()], "word ".repeat(20)),
        ];
        let mut description = Description::new(Style::default());
        description.add_rows(&["type", "status"], &rows);
        let table = description.into_text();
        let expected = "  TYPE       STATUS  MESSAGE\n  Ready      True    It runs\n  Available  -\n      word";
        assert!(table.starts_with(expected), "{table}");
    }
}
