//! Warns of fields that are set and have no effect here. Which these are is declared where the fields
//! are: the schemas of the kinds have it. Refuses nothing.

use serde_json::Value;

use crate::model::object::Object;
use crate::model::schemas::{AGREEING_VALUE, NO_EFFECT, schema_of_kind, without_null};

/// A field that is set without any effect.
struct IdleField {
    /// The field, as in `spec.ingress[0].domain`.
    path: String,
    /// Why it has no effect, if that is declared.
    reason: Option<&'static str>,
}

/// Says which fields of the spec have no effect: those without a reason in one sentence. Metadata
/// are not looked at: programs fill them in, not people.
pub fn warnings(object: &Object) -> Vec<String> {
    let document = object.to_wire();
    let mut fields = Vec::new();
    let schema = &schema_of_kind(object.kind())["properties"]["spec"];
    collect_idle_fields(&document["spec"], schema, "spec", &mut fields);
    let subject = format!("{} `{}`", object.kind().word(), object.key().name);
    let mut warnings = Vec::new();
    let mut unexplained_paths = Vec::new();
    for IdleField { path, reason } in fields {
        match reason {
            Some(why) => warnings.push(format!("{subject}: `{path}` has no effect here: {why}")),
            None => unexplained_paths.push(format!("`{path}`")),
        }
    }
    let paths = unexplained_paths.join(", ");
    match unexplained_paths.len() {
        0 => {}
        1 => warnings.push(format!("{subject}: {paths} has no effect here")),
        _ => warnings.push(format!("{subject}: {paths} have no effect here")),
    }
    warnings
}

/// Adds the outermost fields at a path and below it that are declared to have no effect.
fn collect_idle_fields(
    value: &Value,
    schema: &'static Value,
    path: &str,
    idle_fields: &mut Vec<IdleField>,
) {
    if let Some(mark) = schema.get(NO_EFFECT) {
        if schema.get(AGREEING_VALUE) != Some(value) {
            idle_fields.push(IdleField { path: path.to_owned(), reason: mark.as_str() });
        }
        return;
    }
    let schema = without_null(schema);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let declared = schema.get("properties").and_then(|fields| fields.get(name));
                if let Some(field_schema) = declared.or_else(|| schema.get("additionalProperties"))
                {
                    let path = format!("{path}.{name}");
                    collect_idle_fields(field, field_schema, &path, idle_fields);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                collect_idle_fields(item, item_schema, &path, idle_fields);
            }
        }
        _ => {}
    }
}
