//! Describes an object for people, in the shape of `kubectl describe`: its metadata, then its other
//! fields by sections, in lines that fit a terminal. It knows no kind: which names are those of
//! fields, and which are data, the schema of the kind tells.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::model::kinds::Kind;
use crate::model::object::{schema_of_kind, without_null};

use super::clean::clean_line;
use super::wrap::{WIDTH, break_text, shorten};

/// How far the values of the metadata stand from the left, as with kubectl.
const HEAD_WIDTH: usize = 14;
/// How far a value may stand from the left. Behind a longer name it begins at once.
const LABEL_LIMIT: usize = 36;
/// Lines of one value that are shown.
const MAX_LINES: usize = 4;
/// Items of one list that are shown, if they are mappings.
const MAX_ITEMS: usize = 10;
/// Fields of the metadata that have a line of their own at the beginning.
const HEAD_FIELDS: [&str; 4] = ["name", "namespace", "labels", "annotations"];
/// Words of field names that are written in capitals.
const ACRONYMS: [&str; 15] = [
    "api", "bmc", "cidr", "cpu", "dns", "id", "ip", "iso", "mac", "ntp", "ssh", "uid", "uri",
    "url", "vip",
];

/// The lines of the fields of an object's document.
pub fn describe_document(kind: Kind, document: &Value) -> String {
    let mut out = String::new();
    let schema = schema_of_kind(kind);
    let metadata = &document["metadata"];
    push_value(&mut out, "Name:", HEAD_WIDTH, 0, &scalar_text(&metadata["name"]));
    if let Some(namespace) = metadata.get("namespace") {
        push_value(&mut out, "Namespace:", HEAD_WIDTH, 0, &scalar_text(namespace));
    }
    push_pairs(&mut out, "Labels:", &metadata["labels"], "=");
    push_pairs(&mut out, "Annotations:", &metadata["annotations"], ": ");
    push_value(&mut out, "Kind:", HEAD_WIDTH, 0, kind.name());
    if let Value::Object(fields) = metadata {
        let mut other_fields = fields.clone();
        other_fields.retain(|name, _| !HEAD_FIELDS.contains(&name.as_str()));
        let metadata_schema = schema_of_field(Some(schema), "metadata");
        push_fields(&mut out, &other_fields, metadata_schema, 0);
    }
    if let Value::Object(fields) = document {
        let mut sections = fields.clone();
        sections.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
        push_fields(&mut out, &sections, Some(schema), 0);
    }
    out
}

/// A line `Label:  value` of a description, with the value where those of the metadata stand.
pub fn describe_value(label: &str, value: &str) -> String {
    let mut out = String::new();
    push_value(&mut out, label, HEAD_WIDTH.max(label.len() + 1), 0, &clean_line(value));
    out
}

/// Rows whose last cell is a sentence. It stands in its column if all of the row fits a terminal,
/// and otherwise in lines of its own below the row.
pub fn draw_with_sentences(header: &[&str], rows: &[(Vec<String>, String)]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for (cells, _) in rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(clean_line(cell).chars().count());
        }
    }
    let mut out = String::new();
    let header_cells: Vec<String> = header.iter().map(|cell| cell.to_uppercase()).collect();
    push_row(&mut out, &header_cells, &widths, "MESSAGE");
    for (cells, sentence) in rows {
        push_row(&mut out, cells, &widths, &clean_line(sentence));
    }
    out
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
        let line = format!("{shown_label:HEAD_WIDTH$}{pair}");
        out.push_str(shorten(&line, WIDTH).trim_end());
        out.push('\n');
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
    let label_width = if depth == 0 { HEAD_WIDTH } else { label_width.min(LABEL_LIMIT) };
    for (name, value) in fields {
        let label = format!("{}:", label_of(name, schema));
        if let Some(line) = line_text(value) {
            push_value(out, &label, label_width, depth, &line);
            continue;
        }
        let field_schema = schema_of_field(schema, name);
        match value {
            Value::Object(nested_fields) => {
                push_line(out, depth, &label);
                push_fields(out, nested_fields, field_schema, depth + 1);
            }
            Value::Array(items) if !items.is_empty() => {
                push_line(out, depth, &label);
                push_items(out, items, field_schema.and_then(|schema| schema.get("items")), depth);
            }
            _ => {}
        }
    }
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
    let line = format!("{}{line}", "  ".repeat(depth));
    out.push_str(&shorten(&line, WIDTH));
    out.push('\n');
}

/// A value behind its label, broken into a few lines if it is long.
fn push_value(out: &mut String, label: &str, label_width: usize, depth: usize, value: &str) {
    let label = format!("{}{label:label_width$}", "  ".repeat(depth));
    let label = if label.ends_with(' ') { label } else { label + "  " };
    let start = label.chars().count().min(WIDTH / 2);
    let next_label = " ".repeat(start);
    let mut lines = if label.chars().count() + value.chars().count() <= WIDTH {
        vec![value.to_owned()]
    } else {
        break_text(value, WIDTH - label.chars().count().min(WIDTH - 10))
    };
    if lines.len() > MAX_LINES {
        lines.truncate(MAX_LINES);
        if let Some(last_line) = lines.last_mut() {
            *last_line = shorten(&format!("{last_line} ..."), WIDTH - start);
        }
    }
    let mut shown_label = label.as_str();
    for line in lines {
        out.push_str(shorten(&format!("{shown_label}{line}"), WIDTH).trim_end());
        out.push('\n');
        shown_label = &next_label;
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

    #[test]
    fn a_document_is_described_in_lines_that_fit() {
        let document = json!({
            "apiVersion": "hive.openshift.io/v1",
            "kind": "ClusterPool",
            "metadata": {"name": "lab", "namespace": "default", "labels": {"a": "b", "c": "d"}},
            "spec": {"baseDomain": "word ".repeat(40), "size": 2, "inventory": [{"name": "foo"}]},
            "status": {"inventory": {"fooBar": {"attempts": 3}}},
        });
        let description = describe_document(Kind::ClusterPool, &document);
        assert!(description.lines().all(|line| line.chars().count() <= WIDTH), "{description}");
        for part in [
            "Name:         lab\nNamespace:    default\nLabels:       a=b\n              c=d\n",
            "Annotations:  <none>\nKind:         ClusterPool\n",
            "\n  Base Domain:  word word",
            "\n  Size:         2\n",
            "\n  Inventory:\n    - Name:  foo\n",
            "\n    fooBar:\n      Attempts:  3\n",
        ] {
            assert!(description.contains(part), "{part}\n---\n{description}");
        }
    }

    #[test]
    fn a_sentence_stands_below_its_row_if_it_is_long() {
        let rows = [
            (vec!["Ready".to_owned(), "True".to_owned()], "It runs".to_owned()),
            (vec!["Available".to_owned(), String::new()], "word ".repeat(20)),
        ];
        let table = draw_with_sentences(&["type", "status"], &rows);
        let expected = "  TYPE       STATUS  MESSAGE\n  Ready      True    It runs\n  Available  -\n      word";
        assert!(table.starts_with(expected), "{table}");
    }
}
