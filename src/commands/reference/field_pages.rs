//! The pages of the reference with kinds and their fields: made of the schema that manifests are
//! checked against.

use std::fmt::Write;

use serde_json::Value;

use crate::manifest::schema::allowed_words;
use crate::model::kinds::Kind;
use crate::model::schemas::{schema_of_kind, without_null};

use crate::commands::explain::{default_note, description, fields_below, is_required, type_name};

use super::{page_head, table_cell};

/// The field that is the same in every kind.
const METADATA: &str = "metadata";

/// The page of all kinds in Markdown, made of their schemas.
pub fn kind_page() -> String {
    let introduction = "All kinds of objects with their fields. `poolctl explain KIND` prints the \
                        same. A type that begins with `[]` is a list.";
    let mut text = page_head("Kinds and fields", introduction);
    text += "\n| kind | apiVersion | words | what it is |\n|---|---|---|---|\n";
    for kind in Kind::ALL {
        let words: Vec<String> = kind.words().iter().map(|word| format!("`{word}`")).collect();
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} |",
            kind.name(),
            kind.api_version(),
            words.join(", "),
            table_cell(kind.about())
        );
    }
    text += "\n## Metadata of every kind\n\n";
    if let Some((_, metadata)) = metadata_of(Kind::ClusterPool) {
        text += &field_table(metadata, METADATA);
    }
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Settings) {
        let _ = write!(text, "\n## {}\n\n{}\n", kind.name(), table_cell(kind.about()));
        if kind.is_record() {
            text += "Only poolctl writes such objects.\n";
        }
        text.push('\n');
        text += &field_table(schema_of_kind(*kind), "");
    }
    text += "\n## Settings\n\n[Settings](settings.md) have a page of their own.\n";
    text
}

/// The page of the kind Settings in Markdown, made of its schema.
pub fn settings_page() -> String {
    let introduction = "The fields of the object `default` of kind Settings. `poolctl explain \
                        settings.spec` prints the same.";
    page_head("Settings", introduction) + "\n" + &field_table(schema_of_kind(Kind::Settings), "")
}

fn metadata_of(kind: Kind) -> Option<(&'static String, &'static Value)> {
    fields_below(schema_of_kind(kind)).into_iter().find(|(name, _)| *name == METADATA)
}

/// A table of all fields below a schema, which is itself at a path.
fn field_table(schema: &'static Value, path: &str) -> String {
    let mut table = String::from("| field | type | meaning |\n|---|---|---|\n");
    add_rows(schema, path, &mut table);
    table
}

fn add_rows(schema: &'static Value, path: &str, table: &mut String) {
    for (name, field) in fields_below(schema) {
        if path.is_empty() && name == METADATA {
            continue;
        }
        let field_path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let required = if is_required(schema, name) { ", required" } else { "" };
        let mut meaning = description(field).to_owned();
        let mut words = allowed_words(without_null(field));
        words.retain(|word| !word.is_empty());
        if !words.is_empty() {
            let quoted_words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            let _ = write!(meaning, " One of {}.", quoted_words.join(", "));
        }
        let _ = writeln!(
            table,
            "| `{field_path}` | `{}`{required}{} | {} |",
            type_name(field),
            default_note(field),
            table_cell(&meaning)
        );
        add_rows(field, &field_path, table);
    }
}
