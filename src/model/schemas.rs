//! The JSON Schemas of all kinds: their fields with their types and their help. They are generated
//! from the structs that serde reads. A release build embeds them as text, `schemas.jsonl`, which is
//! smaller than the code that generates them; `tests/schemas.rs` writes that file.

use std::sync::OnceLock;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use super::kinds::{Kind, every_kind};
use super::wire::Wire;

/// The keyword of a schema by which a field is declared to have no effect here: `true`, or why it
/// has none, in words that go on after a colon.
pub const NO_EFFECT: &str = "x-no-effect";
/// The keyword with the one value of a field without effect that agrees with what poolctl does, so
/// that nobody has to be told of it.
pub const AGREEING_VALUE: &str = "x-as-here";

/// A schema on each line: first those of the kinds, in their order, then what occurs in several
/// places of them. `{"$ref": 70}` stands for the line with that number, counted from 0.
const SCHEMA_LINES: &str = include_str!("schemas.jsonl");

macro_rules! declare_schemas {
    (
        {}
        objects { $($Kind:ident($Type:ty) { $($declared:tt)* })* }
        records { $($Record:ident($Document:ty) { $($ignored:tt)* })* }
    ) => {
        /// Makes the schema of a kind out of the struct of its documents.
        pub fn generate_schema(kind: Kind) -> Value {
            match kind {
                $(Kind::$Kind => schema_of::<<$Type as Wire>::Document>(),)*
                $(Kind::$Record => schema_of::<$Document>(),)*
            }
        }
    };
}
every_kind!(declare_schemas);

/// The JSON Schema of a kind. A debug build generates it, so that a field works before the file of
/// the schemas is written anew.
pub fn schema_of_kind(kind: Kind) -> &'static Value {
    static SCHEMAS: [OnceLock<Value>; Kind::ALL.len()] =
        [const { OnceLock::new() }; Kind::ALL.len()];
    SCHEMAS[kind as usize].get_or_init(|| {
        if cfg!(debug_assertions) { generate_schema(kind) } else { read_schema(kind) }
    })
}

/// Takes the schema of a kind out of the file.
pub fn read_schema(kind: Kind) -> Value {
    let lines: Vec<&str> = SCHEMA_LINES.lines().collect();
    read_line(&lines, kind as usize)
}

/// The schema on a line, with what stands there instead of each reference.
fn read_line(lines: &[&str], number: usize) -> Value {
    let line = lines.get(number).copied().unwrap_or_default();
    let mut schema = serde_json::from_str(line).unwrap_or_default();
    replace_references(&mut schema, lines);
    schema
}

fn replace_references(schema: &mut Value, lines: &[&str]) {
    match schema {
        Value::Array(parts) => parts.iter_mut().for_each(|part| replace_references(part, lines)),
        Value::Object(keywords) => match keywords.get("$ref").and_then(Value::as_u64) {
            Some(number) => *schema = read_line(lines, usize::try_from(number).unwrap_or_default()),
            None => keywords.values_mut().for_each(|part| replace_references(part, lines)),
        },
        _ => {}
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    describe_idle_fields(&mut schema);
    schema
}

/// Adds to the help of every field without effect that it has none.
fn describe_idle_fields(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(describe_idle_fields),
        Value::Object(keywords) => {
            keywords.values_mut().for_each(describe_idle_fields);
            let Some(mark) = keywords.get(NO_EFFECT) else { return };
            let reason = mark.as_str().map(|why| format!(": {why}")).unwrap_or_default();
            let stored = format!("Stored but not used by poolctl{reason}.");
            let help = match keywords.get("description").and_then(Value::as_str) {
                Some(help) => format!("{help} {stored}"),
                None => stored,
            };
            keywords.insert("description".to_owned(), help.into());
        }
        _ => {}
    }
}

/// The schema of a value that is there. That of an optional field is "this or null", and null is
/// taken out of documents before they are checked.
pub fn without_null(schema: &Value) -> &Value {
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let value_schema = choices.into_iter().flatten().find(|choice| choice["type"] != "null");
    value_schema.unwrap_or(schema)
}
