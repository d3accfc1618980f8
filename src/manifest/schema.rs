//! Checks a document against the schema of its kind: the names of fields, their types, and which of
//! them are required. Each mistake has its line and column. It knows no state and no rules.

use serde_json::Value;

use crate::model::agent::INFRA_ENV_LABEL;
use crate::model::kinds::Kind;
use crate::model::refusal::nearest_name;
use crate::model::schemas::{schema_of_kind, without_null};
use crate::model::time::{Span, Time};
use crate::rules::agents;
use crate::yaml::{Node, Tree};

/// A mistake and where it is.
#[derive(Debug)]
pub struct Problem {
    pub line: u64,
    pub column: u64,
    /// The field, as in `spec.role`; empty for the document.
    path: String,
    message: String,
    /// The value that stands there, where one of another type was expected.
    value: Option<Value>,
    /// Whether the schema has no such field. `--lenient` leaves these out.
    pub is_unknown: bool,
}

impl Problem {
    /// A problem with a field that the schema has.
    fn new(node: &Node, path: &str, message: String) -> Self {
        let Node { line, column, .. } = *node;
        Self { line, column, path: path.to_owned(), message, value: None, is_unknown: false }
    }

    /// What is wrong, and the value that stands there instead.
    pub fn message(&self) -> String {
        match &self.value {
            Some(value) => format!("{}: it holds {value}", self.message),
            None => self.message.clone(),
        }
    }

    /// Whether the field is below `status`, where programs report and people do not write.
    pub fn is_in_status(&self) -> bool {
        self.path.starts_with("status.")
    }
}

/// Names that other tools have for fields, each with the name of the field here.
const ALIASES: [(&str, &str); 4] = [
    ("replicas", "size"),
    ("maxReplicas", "maxSize"),
    ("cidr", "subnet"),
    ("nameservers", "dnsServers"),
];

/// Returns all that is wrong with a document. Fields that are null count as absent: they are taken
/// out of the document, and so are unknown ones.
pub fn check(kind: Kind, document: &mut Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    check_node(document, schema_of_kind(kind), "", &mut problems);
    if kind == Kind::Agent {
        for problem in &mut problems {
            if problem.path == "spec.role" && problem.value.is_none() {
                problem.message = format!("{}: {}", no_role(document), problem.message);
                break;
            }
        }
    }
    if kind == Kind::Secret {
        // Whatever stands where a string was expected may be a secret value.
        for problem in &mut problems {
            problem.value = None;
        }
    }
    problems
}

/// What assisted-service says of a role that is none.
fn no_role(document: &Node) -> String {
    let role = string_at(document, &["spec", "role"]);
    let name = string_at(document, &["metadata", "name"]);
    agents::invalid_role_message(
        role,
        name,
        string_at(document, &["metadata", "labels", INFRA_ENV_LABEL]),
    )
}

/// The string below these keys, the outermost first; empty if there is none.
fn string_at<'a>(document: &'a Node, keys: &[&str]) -> &'a str {
    let node = keys.iter().try_fold(document, |node, key| node.get(key));
    node.and_then(Node::as_str).unwrap_or_default()
}

/// Adds what is wrong with a value and all that is below it.
fn check_node(node: &mut Node, schema: &Value, path: &str, problems: &mut Vec<Problem>) {
    let schema = without_null(schema);
    let allowed_types = type_names(schema);
    let given_type = type_of(&node.tree);
    if !allowed_types.is_empty() && !allowed_types.iter().any(|allowed| fits(given_type, allowed)) {
        let message = describe_mismatch(path, &allowed_types, given_type);
        let value = if let Tree::Scalar(value) = &node.tree { Some(value.clone()) } else { None };
        problems.push(Problem { value, ..Problem::new(node, path, message) });
        return;
    }
    // Hubs print a role that nobody has set as an empty string.
    let is_unset_role =
        matches!(path, "spec.role" | "status.role") && node.as_str().is_some_and(str::is_empty);
    if !is_unset_role && let Some(mistake) = scalar_mistake(&node.tree, schema) {
        problems.push(Problem::new(node, path, format!("`{path}`: {mistake}")));
        return;
    }
    match &mut node.tree {
        Tree::Scalar(_) => {}
        Tree::List(items) => {
            let Some(item_schema) = schema.get("items") else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                check_node(item, item_schema, &format!("{path}[{index}]"), problems);
            }
        }
        Tree::Map(_) => check_map(node, schema, path, problems),
    }
}

/// Whether a value of one type may stand where another type is expected.
fn fits(given_type: &str, expected_type: &str) -> bool {
    given_type == expected_type || (given_type == "integer" && expected_type == "number")
}

/// Adds what is wrong with the fields of a mapping, and which are missing.
fn check_map(node: &mut Node, schema: &Value, path: &str, problems: &mut Vec<Problem>) {
    let Tree::Map(entries) = &mut node.tree else {
        return;
    };
    if schema.get("properties").is_none_or(|fields| !fields.is_object())
        && schema.get("additionalProperties").is_none_or(Value::is_boolean)
    {
        // Any field may be there.
        return;
    }
    entries.retain(|(key, value)| {
        !value.is_null() || field_schema(schema, &key.key_name()).is_some_and(accepts_all)
    });
    entries.retain_mut(|(key, value)| check_field(key, value, schema, path, problems));
    let given_names: Vec<String> = entries.iter().map(|(key, _)| key.key_name()).collect();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !given_names.iter().any(|given_name| given_name == name) {
            let path = field_path(path, name);
            problems.push(Problem::new(node, &path, format!("`{path}` is missing")));
        }
    }
}

/// Adds what is wrong with a field of a mapping. Returns whether its schema has such a field.
fn check_field(
    key: &Node,
    value: &mut Node,
    map_schema: &Value,
    map_path: &str,
    problems: &mut Vec<Problem>,
) -> bool {
    let name = key.key_name();
    let path = field_path(map_path, &name);
    let any_field = map_schema.get("additionalProperties").filter(|schema| schema.is_object());
    if let Some(schema) = field_schema(map_schema, &name).or(any_field) {
        check_node(value, schema, &path, problems);
        return true;
    }
    let fields = map_schema.get("properties").and_then(Value::as_object);
    let names = fields.into_iter().flat_map(|fields| fields.keys().map(String::as_str));
    let hint = nearest_field(&name, names).map(|near| format!(", did you mean `{near}`?"));
    let message = format!("unknown field `{path}`{}", hint.unwrap_or_default());
    problems.push(Problem { is_unknown: true, ..Problem::new(key, &path, message) });
    false
}

fn field_schema<'a>(map_schema: &'a Value, name: &str) -> Option<&'a Value> {
    map_schema.get("properties")?.get(name)
}

fn field_path(map_path: &str, name: &str) -> String {
    if map_path.is_empty() { name.to_owned() } else { format!("{map_path}.{name}") }
}

/// The field that a user means by a name that no field has: the one that another tool calls by this
/// name, or else the one with the nearest name.
pub fn nearest_field<'a>(
    misnamed: &str,
    fields: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let fields: Vec<&str> = fields.into_iter().collect();
    for (alias, field) in ALIASES {
        if alias.eq_ignore_ascii_case(misnamed) && fields.contains(&field) {
            return Some(field);
        }
    }
    nearest_name(misnamed, fields)
}

/// Whether a field may hold any value, null too.
fn accepts_all(schema: &Value) -> bool {
    schema == &Value::Bool(true)
        || schema.as_object().is_some_and(|keywords| {
            let limiting = ["type", "anyOf", "oneOf", "properties"];
            limiting.iter().all(|keyword| !keywords.contains_key(*keyword))
        })
}

/// The names of the types that a schema allows, null left out; none if it allows every type.
pub fn type_names(schema: &Value) -> Vec<&str> {
    let names = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter(|name| *name != "null").collect()
}

/// The name that JSON Schema has for the type of a value.
fn type_of(tree: &Tree) -> &'static str {
    match tree {
        Tree::List(_) => "array",
        Tree::Map(_) => "object",
        Tree::Scalar(Value::String(_)) => "string",
        Tree::Scalar(Value::Bool(_)) => "boolean",
        Tree::Scalar(Value::Number(number)) if number.is_f64() => "number",
        Tree::Scalar(Value::Number(_)) => "integer",
        Tree::Scalar(_) => "null",
    }
}

fn describe_mismatch(path: &str, allowed_types: &[&str], given_type: &str) -> String {
    let subject = if path.is_empty() { "the document" } else { path };
    let given = type_in_words(given_type);
    let expected = type_in_words(allowed_types[0]);
    let hint = if allowed_types == ["string"] { "; write it in quotes" } else { "" };
    format!("`{subject}` is {given}, not {expected}{hint}")
}

fn type_in_words(name: &str) -> &'static str {
    match name {
        "array" => "a list",
        "object" => "a mapping",
        "string" => "a string",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        _ => "nothing",
    }
}

/// What is wrong with a value that is neither a list nor a mapping, and is of the right type.
fn scalar_mistake(tree: &Tree, schema: &Value) -> Option<String> {
    match tree {
        Tree::Scalar(Value::Number(number)) => number_mistake(number.as_i64()?, schema),
        Tree::Scalar(Value::String(string)) => string_mistake(string, schema),
        _ => None,
    }
}

/// Numbers have a minimum, and 32 bits unless their schema says more.
fn number_mistake(number: i64, schema: &Value) -> Option<String> {
    let minimum = schema.get("minimum").and_then(Value::as_i64);
    if minimum.is_some_and(|minimum| number < minimum) {
        return Some(format!("{number} is less than {}", schema["minimum"]));
    }
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let has_64_bits = ["int64", "uint64"].contains(&format);
    if schema.get("type").is_some() && !has_64_bits && number > i64::from(i32::MAX) {
        return Some(format!("{number} is more than {}", i32::MAX));
    }
    None
}

/// Strings are durations, times, words of a list, or free.
fn string_mistake(string: &str, schema: &Value) -> Option<String> {
    match schema.get("format").and_then(Value::as_str) {
        Some("duration") => return string.parse::<Span>().err(),
        Some("date-time") => return string.parse::<Time>().err(),
        _ => {}
    }
    let words = allowed_words(schema);
    if words.is_empty() || words.contains(&string) {
        return None;
    }
    let near = nearest_name(string, words.iter().copied());
    let hint = near.map(|near| format!(", did you mean `{near}`?"));
    Some(format!("`{string}` is none of {}{}", words.join(", "), hint.unwrap_or_default()))
}

/// The words that a string may be; none if it may be any.
pub fn allowed_words(schema: &Value) -> Vec<&str> {
    let words = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    // Words that have a description of their own are each a schema.
    let word_schemas = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let described_words = word_schemas.filter_map(|word_schema| word_schema.get("const"));
    words.chain(described_words).filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field that is suggested for a misnamed one of a pool, below the field at a path.
    fn suggestion(path: &[&str], misnamed: &str) -> Option<&'static str> {
        let mut parent = schema_of_kind(Kind::ClusterPool);
        for name in path {
            parent = without_null(&parent["properties"][*name]);
        }
        let fields = parent["properties"].as_object().unwrap();
        nearest_field(misnamed, fields.keys().map(String::as_str))
    }

    #[test]
    fn fields_are_suggested_for_what_people_call_them() {
        assert_eq!(suggestion(&["spec"], "replicas"), Some("size"));
        assert_eq!(suggestion(&["spec"], "imageSet"), Some("imageSetRef"));
        assert_eq!(suggestion(&["spec", "claimLifetime"], "max"), Some("maximum"));
        let misnamed = "resumeTimeoutMinutes";
        assert_eq!(suggestion(&["spec", "hibernationConfig"], misnamed), Some("resumeTimeout"));
    }

    #[test]
    fn an_alias_is_not_suggested_where_the_field_is_not_known() {
        assert_eq!(suggestion(&["spec", "claimLifetime"], "replicas"), None);
    }
}
