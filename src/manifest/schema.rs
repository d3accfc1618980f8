//! Holds a document against the fields its kind has: names, types and required ones, each
//! mistake with its line and column.

use serde_json::Value;

use crate::model::agent::INFRA_ENV;
use crate::model::kinds::Kind;
use crate::model::object::schema;
use crate::model::refusal::nearest;
use crate::rules::agents;
use crate::yaml::{Node, Tree};

/// A mistake and where it is.
#[derive(Debug)]
pub struct Problem {
    pub line: u64,
    pub column: u64,
    /// The field, `spec.role`; empty for the document.
    path: String,
    message: String,
    /// The value that stands there, where one of another type was expected.
    value: Option<Value>,
    /// A field that is not known; `--lenient` drops it.
    pub unknown: bool,
    /// Whether it is poolctl's to write: something below `status`.
    pub status: bool,
}

impl Problem {
    /// What is wrong, and the value that stands there instead.
    pub fn message(&self) -> String {
        match &self.value {
            Some(value) => format!("{}: it holds {value}", self.message),
            None => self.message.clone(),
        }
    }
}

/// What other tools call a field, and its name here.
const ALIASES: [(&str, &str); 4] = [
    ("replicas", "size"),
    ("maxReplicas", "maxSize"),
    ("cidr", "subnet"),
    ("nameservers", "dnsServers"),
];

/// Takes absent fields out (null means absent) and unknown ones too, and says what is wrong.
pub fn check(kind: Kind, document: &mut Node) -> Vec<Problem> {
    let mut found = Vec::new();
    walk(document, schema(kind), "", &mut found);
    if kind == Kind::Agent
        && let Some(problem) =
            found.iter_mut().find(|problem| problem.path == "spec.role" && problem.value.is_none())
    {
        problem.message = format!("{}: {}", no_role(document), problem.message);
    }
    if kind == Kind::Secret {
        // What stands where a value was expected may be one.
        for problem in &mut found {
            problem.value = None;
        }
    }
    found
}

/// What assisted-service says of it.
fn no_role(document: &Node) -> String {
    let text = |path: &[&str]| {
        let found = path.iter().try_fold(document, |node, name| node.get(name));
        found.and_then(Node::text).unwrap_or_default()
    };
    let infra_env = text(&["metadata", "labels", INFRA_ENV]);
    agents::no_role(text(&["spec", "role"]), text(&["metadata", "name"]), infra_env)
}

fn walk(node: &mut Node, schema: &Value, path: &str, found: &mut Vec<Problem>) {
    let schema = not_null(schema);
    let problem = |node: &Node, message: String| Problem {
        line: node.line,
        column: node.column,
        path: path.to_owned(),
        message,
        value: None,
        unknown: false,
        status: path.starts_with("status"),
    };
    let wanted = types(schema);
    let given = type_of(&node.tree);
    let fits = |wanted: &str| wanted == given || (wanted == "number" && given == "integer");
    if !wanted.is_empty() && !wanted.iter().any(|wanted| fits(wanted)) {
        let value = Some(node.value()).filter(|value| !value.is_object() && !value.is_array());
        let message = mismatch(path, &wanted, given);
        found.push(Problem { value, ..problem(node, message) });
        return;
    }
    // As hubs print a role that nobody has set.
    let unset = matches!(path, "spec.role" | "status.role") && node.text() == Some("");
    if let Some(why) = scalar(&node.tree, schema).filter(|_| !unset) {
        found.push(problem(node, format!("`{path}`: {why}")));
        return;
    }
    match &mut node.tree {
        Tree::Scalar(_) => {}
        Tree::List(items) => {
            let Some(item) = schema.get("items") else {
                return;
            };
            for (at, one) in items.iter_mut().enumerate() {
                walk(one, item, &format!("{path}[{at}]"), found);
            }
        }
        Tree::Map(_) => walk_map(node, schema, path, found),
    }
}

fn walk_map(node: &mut Node, schema: &Value, path: &str, found: &mut Vec<Problem>) {
    let (line, column) = (node.line, node.column);
    let Tree::Map(entries) = &mut node.tree else {
        return;
    };
    let fields = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    if fields.is_none() && others.is_none_or(Value::is_boolean) {
        return;
    }
    let any = |name: &str| fields.and_then(|fields| fields.get(name)).is_some_and(accepts_all);
    entries.retain(|(key, value)| !value.is_null() || any(&key.name()));
    entries.retain_mut(|(key, value)| {
        let name = key.name();
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(field) = fields.and_then(|fields| fields.get(&name)) {
            walk(value, field, &below, found);
            return true;
        }
        if let Some(any) = others.filter(|others| others.is_object()) {
            walk(value, any, &below, found);
            return true;
        }
        let known = fields.into_iter().flat_map(|fields| fields.keys().map(String::as_str));
        let hint = nearest_field(&name, known).map(|near| format!(", did you mean `{near}`?"));
        let message = format!("unknown field `{below}`{}", hint.unwrap_or_default());
        found.push(Problem {
            line: key.line,
            column: key.column,
            status: below.starts_with("status."),
            path: below,
            message,
            value: None,
            unknown: true,
        });
        false
    });
    let given: Vec<String> = entries.iter().map(|(key, _)| key.name()).collect();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !given.iter().any(|one| one == name) {
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let message = format!("`{below}` is missing");
            let status = path.starts_with("status");
            let (path, value) = (below, None);
            found.push(Problem { line, column, path, message, value, unknown: false, status });
        }
    }
}

/// The field that was meant by a name that no field has: what another tool means by this name, else
/// the nearest name.
pub fn nearest_field<'a>(
    wrong: &str,
    fields: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let fields: Vec<&str> = fields.into_iter().collect();
    let alias = ALIASES
        .iter()
        .find(|(alias, field)| alias.eq_ignore_ascii_case(wrong) && fields.contains(field));
    alias.map(|(_, field)| *field).or_else(|| nearest(wrong, fields))
}

/// An optional field's schema is "this or null"; null was taken out before.
pub fn not_null(schema: &Value) -> &Value {
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let real = choices.and_then(|all| all.iter().find(|one| one["type"] != "null"));
    real.unwrap_or(schema)
}

/// Whether a field may hold any value, null too.
fn accepts_all(schema: &Value) -> bool {
    schema == &Value::Bool(true)
        || schema.as_object().is_some_and(|all| {
            ["type", "anyOf", "oneOf", "properties"].iter().all(|word| !all.contains_key(*word))
        })
}

pub fn types(schema: &Value) -> Vec<&str> {
    let named = match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    named.into_iter().filter(|name| *name != "null").collect()
}

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

fn mismatch(path: &str, wanted: &[&str], given: &str) -> String {
    let words = |name: &str| match name {
        "array" => "a list",
        "object" => "a mapping",
        "string" => "a string",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        _ => "nothing",
    };
    let path = if path.is_empty() { "the document" } else { path };
    let quote = if wanted == ["string"] { "; write it in quotes" } else { "" };
    format!("`{path}` is {}, not {}{quote}", words(given), words(wanted[0]))
}

/// Ranges, durations, times, and lists of allowed words.
fn scalar(tree: &Tree, schema: &Value) -> Option<String> {
    let Tree::Scalar(value) = tree else {
        return None;
    };
    if let Some(number) = value.as_i64() {
        let least = schema.get("minimum").and_then(Value::as_i64);
        let below = least.is_some_and(|least| number < least);
        if below {
            return Some(format!("{number} is less than {}", schema["minimum"]));
        }
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        let wide = ["int64", "uint64"].contains(&format);
        if schema.get("type").is_some() && !wide && number > i64::from(i32::MAX) {
            return Some(format!("{number} is more than {}", i32::MAX));
        }
    }
    let text = value.as_str()?;
    match schema.get("format").and_then(Value::as_str) {
        Some("duration") => return text.parse::<crate::model::time::Span>().err(),
        Some("date-time") => return text.parse::<crate::model::time::Time>().err(),
        _ => {}
    }
    let words: Vec<&str> = choices(schema);
    if words.is_empty() || words.contains(&text) {
        return None;
    }
    let hint = nearest(text, words.iter().copied()).map(|near| format!(", did you mean `{near}`?"));
    Some(format!("`{text}` is none of {}{}", words.join(", "), hint.unwrap_or_default()))
}

pub fn choices(schema: &Value) -> Vec<&str> {
    let single = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let several = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    single.chain(several.filter_map(|one| one.get("const"))).filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hint for a field of a pool that is misnamed.
    fn hint(path: &[&str], wrong: &str) -> Option<&'static str> {
        let mut here = schema(Kind::ClusterPool);
        for name in path {
            here = not_null(&here["properties"][*name]);
        }
        nearest_field(wrong, here["properties"].as_object().unwrap().keys().map(String::as_str))
    }

    #[test]
    fn fields_are_suggested_for_what_people_call_them() {
        assert_eq!(hint(&["spec"], "replicas"), Some("size"));
        assert_eq!(hint(&["spec"], "imageSet"), Some("imageSetRef"));
        assert_eq!(hint(&["spec", "claimLifetime"], "max"), Some("maximum"));
        let wrong = "resumeTimeoutMinutes";
        assert_eq!(hint(&["spec", "hibernationConfig"], wrong), Some("resumeTimeout"));
    }

    #[test]
    fn an_alias_is_not_suggested_where_the_field_is_not_known() {
        assert_eq!(hint(&["spec", "claimLifetime"], "replicas"), None);
    }
}
