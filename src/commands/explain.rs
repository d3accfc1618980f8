//! `explain`: the fields of a kind, from the same source that manifests are checked against.

use clap::Args;
use serde_json::Value;

use crate::model::annotations::Annotation;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::object::schema;
use crate::model::refusal::Refusal;
use crate::output::{Answer, Name, joined};

use crate::commands::{Context, Verb, target};
use crate::manifest::schema::{choices, nearest_field, not_null, types};

#[derive(Args)]
pub struct Explain {
    /// A kind, or a field of it: pool.spec.size
    #[arg(value_name = "KIND[.FIELD]")]
    what: String,
    /// All fields below, without their help
    #[arg(long)]
    recursive: bool,
}

impl Verb for Explain {
    const NAME: &'static str = "explain";
    const ABOUT: &'static str = "Explain the fields of a kind, with types and defaults";
    const EXAMPLE: &'static str = "poolctl explain pool.spec.inventory";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, path) = split(&self.what);
        let kind = target::kind_of(kind)?;
        let field = field(kind, path)?;
        let mut lines = vec![
            format!("KIND:     {}", kind.name()),
            format!("VERSION:  {}", kind.api_version()),
            String::new(),
        ];
        if !path.is_empty() {
            lines.push(format!("FIELD: {path} <{}>{}", type_of(field), default(field)));
            lines.push(String::new());
        }
        let about = if path.is_empty() { kind.about() } else { description(field) };
        lines.push("DESCRIPTION:".into());
        lines.push(format!("  {about}"));
        let mut words = choices(not_null(field));
        words.retain(|word| !word.is_empty());
        if !words.is_empty() {
            lines.push(format!("  One of {}.", words.join(", ")));
        }
        lines.extend(annotation_lines(kind, path));
        lines.extend(reason_lines(kind, path));
        if !fields(field).is_empty() {
            lines.extend([String::new(), "FIELDS:".into()]);
            list(field, 1, self.recursive, &mut lines);
        }
        let names = fields(field).into_iter().map(|(name, _)| Name::plain(name.as_str()));
        let answer = Answer::text(joined(&lines)).with_names(names);
        context.answer(answer.with_document(field.clone()))
    }
}

/// The kind, and the path below it.
fn split(what: &str) -> (&str, &str) {
    // A kind may carry its group: clusterpools.hive.openshift.io
    if Kind::from_word(what).is_some() {
        return (what, "");
    }
    what.split_once('.').unwrap_or((what, ""))
}

/// Names of the fields below a path.
pub fn field_names(kind: &str, path: &str) -> Vec<String> {
    let found = target::kind_of(kind).and_then(|kind| field(kind, path));
    found.map(fields).unwrap_or_default().into_iter().map(|(name, _)| name.clone()).collect()
}

/// The schema of a field, lists and mappings seen through.
fn field(kind: Kind, path: &str) -> Result<&'static Value, Refusal> {
    let mut here = schema(kind);
    let mut known = String::new();
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let name = name.split('[').next().unwrap_or(name);
        let below = fields(here);
        let Some((_, next)) = below.iter().find(|(known, _)| *known == name) else {
            let of = format!("{}{known}", kind.word());
            let refusal = Refusal::not_found(format!("there is no field `{name}` in {of}"));
            let names = below.iter().map(|(name, _)| name.as_str());
            return Err(match nearest_field(name, names) {
                Some(near) => refusal.because(format!("did you mean `{near}`?")),
                None => refusal.next(format!("poolctl explain {of}")),
            });
        };
        known = [&known, ".", name].concat();
        here = next;
    }
    Ok(here)
}

/// The fields below, those of the items where it is a list.
fn fields(schema: &'static Value) -> Vec<(&'static String, &'static Value)> {
    let mut here = not_null(schema);
    let values =
        |one: &'static Value| one.get("additionalProperties").filter(|one| one.is_object());
    while let Some(items) = here.get("items").or_else(|| values(here)) {
        here = not_null(items);
    }
    let properties = here.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().collect()
}

fn list(schema: &'static Value, depth: usize, recursive: bool, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    for (name, field) in fields(schema) {
        let needed = if required(schema, name) { " -required-" } else { "" };
        lines.push(format!("{indent}{name} <{}>{needed}{}", type_of(field), default(field)));
        if recursive {
            list(field, depth + 1, true, lines);
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
        let default = annotation.default.map(|value| format!(", default {value}"));
        let expected = annotation.value.expected();
        let default = default.unwrap_or_default();
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

fn required(schema: &Value, name: &str) -> bool {
    let mut here = not_null(schema);
    while let Some(items) = here.get("items") {
        here = not_null(items);
    }
    here["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
}

fn description(schema: &Value) -> &str {
    let text = schema.get("description").or_else(|| not_null(schema).get("description"));
    text.and_then(Value::as_str).unwrap_or_default()
}

/// As kubectl writes types: `string`, `[]Object`, `map[string]string`.
fn type_of(schema: &Value) -> String {
    let schema = not_null(schema);
    let format = schema.get("format").and_then(Value::as_str);
    if let Some(format @ ("duration" | "date-time")) = format {
        return format.into();
    }
    match types(schema).first() {
        Some(&"array") => format!("[]{}", schema.get("items").map_or("any".into(), type_of)),
        Some(&"object") if schema.get("properties").is_none() => {
            let values = schema.get("additionalProperties").filter(|one| one.is_object());
            format!("map[string]{}", values.map_or("any".into(), type_of))
        }
        Some(&"object") => "Object".into(),
        Some(name) => (*name).to_owned(),
        None if !choices(schema).is_empty() => "string".into(),
        None => "any".into(),
    }
}

/// A default worth a word: what nothing stands for is none.
fn default(schema: &Value) -> String {
    match schema.get("default") {
        Some(value @ (Value::Number(_) | Value::Bool(_))) => format!(", default {value}"),
        Some(Value::String(text)) if !text.is_empty() => format!(", default {text}"),
        _ => String::new(),
    }
}
