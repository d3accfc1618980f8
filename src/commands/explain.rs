//! `explain`: prints the fields of a kind with types and help, from the schema that manifests are
//! checked against, and the meaning of annotations, conditions, events, exit codes and metrics.

pub mod words;

use clap::Args;
use serde_json::Value;

use crate::model::annotations::Annotation;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::model::schemas::{schema_of_kind, without_null};
use crate::output::{Answer, Name, join_lines};

use crate::commands::{Audience, Context, RunCommand, target};
use crate::manifest::editor_schema;
use crate::manifest::schema::{allowed_words, nearest_field, type_names};

/// Arguments of `explain`. It opens no state.
#[derive(Args)]
pub struct Explain {
    /// Kind, such as pool; a field of it, such as pool.spec.size; or a word, such as
    /// annotation/wipe, condition/Degraded, event/JobFailed, exit-code/7 or metric/NAME
    #[arg(value_name = "KIND[.FIELD]")]
    kind_and_field: String,
    /// Print all nested fields, without descriptions
    #[arg(long)]
    recursive: bool,
}

impl RunCommand for Explain {
    const NAME: &'static str = "explain";
    const ABOUT: &'static str = "Explain the fields of a kind, with types and defaults";
    const EXAMPLE: &'static str = "poolctl explain pool.spec.inventory";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        if let Some(answer) = words::answer_question(&self.kind_and_field) {
            return context.answer(answer?);
        }
        let (word, path) = split_kind_and_path(&self.kind_and_field);
        let kind = target::parse_kind(word)?;
        let field = find_field(kind, path)?;
        let mut lines = vec![
            format!("KIND:     {}", kind.name()),
            format!("VERSION:  {}", kind.api_version()),
            String::new(),
        ];
        if !path.is_empty() {
            lines.push(format!("FIELD: {path} <{}>{}", type_name(field), default_note(field)));
            lines.push(String::new());
        }
        let about = if path.is_empty() { kind.about() } else { description(field) };
        lines.push("DESCRIPTION:".into());
        lines.push(format!("  {about}"));
        let mut words = allowed_words(without_null(field));
        words.retain(|word| !word.is_empty());
        if !words.is_empty() {
            lines.push(format!("  One of {}.", words.join(", ")));
        }
        lines.extend(annotation_lines(kind, path));
        lines.extend(reason_lines(kind, path));
        let fields = fields_below(field);
        if !fields.is_empty() {
            lines.extend([String::new(), "FIELDS:".into()]);
            list_fields(field, 1, self.recursive, &mut lines);
        }
        let names = fields.into_iter().map(|(name, _)| Name::plain(name.as_str()));
        let answer = Answer::text(join_lines(&lines)).with_names(names);
        let document =
            if path.is_empty() { editor_schema::schema_of_manifests(kind) } else { field.clone() };
        context.answer(answer.with_document(document))
    }
}

/// The word for a kind, and the path of the field below it; the path is empty if there is none.
fn split_kind_and_path(kind_and_field: &str) -> (&str, &str) {
    // A kind may be given with its group, which has dots: clusterpools.hive.openshift.io
    if Kind::from_word(kind_and_field).is_some() {
        return (kind_and_field, "");
    }
    kind_and_field.split_once('.').unwrap_or((kind_and_field, ""))
}

/// Names of the fields below a path, for completion; empty if there is no such kind or field.
pub fn names_of_fields_below(kind: &str, path: &str) -> Vec<String> {
    let Ok(field) = target::parse_kind(kind).and_then(|kind| find_field(kind, path)) else {
        return Vec::new();
    };
    fields_below(field).into_iter().map(|(name, _)| name.clone()).collect()
}

/// The schema of the field at a path. Lists and mappings on the way count as their items.
fn find_field(kind: Kind, path: &str) -> Result<&'static Value, Refusal> {
    let mut field = schema_of_kind(kind);
    let mut parent = kind.word().to_owned();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        // `conditions[0]` is an item of `conditions`.
        let name = part.split('[').next().unwrap_or(part);
        let siblings = fields_below(field);
        let Some((_, next_field)) = siblings.iter().find(|(sibling, _)| *sibling == name) else {
            let refusal = Refusal::not_found(format!("there is no field `{name}` in {parent}"));
            let sibling_names = siblings.iter().map(|(sibling, _)| sibling.as_str());
            return Err(match nearest_field(name, sibling_names) {
                Some(nearest) => refusal.because(format!("did you mean `{nearest}`?")),
                None => refusal.next(format!("poolctl explain {parent}")),
            });
        };
        parent = [&parent, ".", name].concat();
        field = next_field;
    }
    Ok(field)
}

/// The fields of an object; of a list or a mapping those of its items.
pub fn fields_below(schema: &'static Value) -> Vec<(&'static String, &'static Value)> {
    let mut object = without_null(schema);
    while let Some(items) = object.get("items").or_else(|| mapping_values(object)) {
        object = without_null(items);
    }
    let properties = object.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().collect()
}

/// The schema of the values of a mapping with any keys.
fn mapping_values(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|values| values.is_object())
}

/// Adds lines for the fields below a field, indented by `depth` times two spaces. If
/// `is_recursive`, the fields below them follow without their descriptions.
fn list_fields(schema: &'static Value, depth: usize, is_recursive: bool, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    for (name, field) in fields_below(schema) {
        let required = if is_required(schema, name) { " -required-" } else { "" };
        let type_name = type_name(field);
        lines.push(format!("{indent}{name} <{type_name}>{required}{}", default_note(field)));
        if is_recursive {
            list_fields(field, depth + 1, is_recursive, lines);
        } else {
            lines.push(format!("{indent}  {}", description(field)));
        }
    }
}

/// The annotations of poolctl's own that a field may have, if it has annotations.
fn annotation_lines(kind: Kind, path: &str) -> Vec<String> {
    let carrier = match (kind, path) {
        (_, "metadata.annotations") => kind,
        // A pool gives these to its clusters.
        (Kind::ClusterPool, "spec.annotations") => Kind::ClusterDeployment,
        _ => return Vec::new(),
    };
    if Annotation::of_kind(carrier).next().is_none() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "ANNOTATIONS:".to_owned()];
    for annotation in Annotation::of_kind(carrier) {
        let expected = annotation.value.describe();
        let default = match annotation.default {
            Some(value) => format!(", default {value}"),
            None => String::new(),
        };
        lines.push(format!("  {} <{expected}>{default}", annotation.name));
        lines.push(format!("    {}", annotation.about));
    }
    lines
}

/// The reasons of events that poolctl records; imported ones may have others.
fn reason_lines(kind: Kind, path: &str) -> Vec<String> {
    if (kind, path) != (Kind::Event, "reason") {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "REASONS:".to_owned()];
    for reason in EventReason::all() {
        lines.push(format!("  {}", reason.as_str()));
        lines.push(format!("    {}", reason.meaning()));
        lines.extend(reason.next_step().map(|command| format!("    next: {command}")));
    }
    lines
}

/// Whether a field of this name must be given. Of a list it is asked about the objects in it.
pub fn is_required(schema: &Value, name: &str) -> bool {
    let mut object = without_null(schema);
    while let Some(items) = object.get("items") {
        object = without_null(items);
    }
    object["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// The help of a field; empty if it has none.
pub fn description(schema: &Value) -> &str {
    let description = schema.get("description").or_else(|| without_null(schema).get("description"));
    description.and_then(Value::as_str).unwrap_or_default()
}

/// As kubectl writes types: `string`, `[]Object`, `map[string]string`.
pub fn type_name(schema: &Value) -> String {
    let schema = without_null(schema);
    let format = schema.get("format").and_then(Value::as_str);
    if let Some(format @ ("duration" | "date-time")) = format {
        return format.into();
    }
    match type_names(schema).first() {
        Some(&"array") => {
            let items = schema.get("items");
            format!("[]{}", items.map_or("any".into(), type_name))
        }
        Some(&"object") if schema.get("properties").is_none() => {
            let values = mapping_values(schema);
            format!("map[string]{}", values.map_or("any".into(), type_name))
        }
        Some(&"object") => "Object".into(),
        Some(name) => (*name).to_owned(),
        None if !allowed_words(schema).is_empty() => "string".into(),
        None => "any".into(),
    }
}

/// `, default VALUE`; empty for a field without a default, or with one that is empty itself.
pub fn default_note(schema: &Value) -> String {
    match schema.get("default") {
        Some(value @ (Value::Number(_) | Value::Bool(_))) => format!(", default {value}"),
        Some(Value::String(string)) if !string.is_empty() => format!(", default {string}"),
        _ => String::new(),
    }
}
