//! The JSON Schemas by which editors and other programs check manifests: those of the kinds, with
//! what `apply` accepts besides. It checks nothing itself.

use serde_json::{Map, Value, json};

use crate::model::kinds::Kind;
use crate::model::schemas::schema_of_kind;

use super::{OWN_FIELDS, SERVER_FIELDS};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// Durations as Go and poolctl write them. JSON Schema has a format of this name for others.
const DURATION_PATTERN: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d|w))+)$";

/// The schema of manifests of a kind.
pub fn schema_of_manifests(kind: Kind) -> Value {
    let mut schema = schema_of_kind(kind).clone();
    relax_schema(&mut schema);
    let Some(keywords) = schema.as_object_mut() else { return schema };
    keywords.insert("$schema".into(), DIALECT.into());
    keywords.insert("description".into(), kind.about().into());
    let mut required = vec![json!("apiVersion"), json!("kind")];
    if let Some(Value::Array(names)) = keywords.remove("required") {
        required.extend(names);
    }
    keywords.insert("required".into(), required.into());
    if let Some(fields) = keywords.get_mut("properties").and_then(Value::as_object_mut) {
        add_common_fields(kind, fields);
    }
    schema
}

/// Adds the fields that every manifest may have, and those that `apply` ignores.
fn add_common_fields(kind: Kind, fields: &mut Map<String, Value>) {
    let api_version = format!("Group and version, {}.", kind.api_version());
    fields.insert("apiVersion".into(), json!({"type": "string", "description": api_version}));
    let kind_name = json!({"const": kind.name(), "description": "The kind of the object."});
    fields.insert("kind".into(), kind_name);
    if !kind.is_record() {
        fields.insert("status".into(), json!({"description": "Ignored in manifests."}));
    }
    let metadata = fields.get_mut("metadata").and_then(|metadata| metadata.get_mut("properties"));
    if let Some(metadata_fields) = metadata.and_then(Value::as_object_mut) {
        for name in SERVER_FIELDS.into_iter().chain(OWN_FIELDS) {
            metadata_fields
                .insert(name.to_owned(), json!({"description": "Ignored in manifests."}));
        }
    }
}

/// One schema of the manifests of every kind, and of Lists of them. Objects of other kinds are
/// accepted, because `apply` skips them.
pub fn schema_of_all_manifests() -> Value {
    let mut definitions = Map::new();
    let mut choices = Vec::new();
    for kind in Kind::OBJECTS {
        let mut schema = schema_of_manifests(*kind);
        if let Some(keywords) = schema.as_object_mut() {
            keywords.remove("$schema");
        }
        definitions.insert(kind.name().to_owned(), schema);
        let reference = format!("#/$defs/{}", kind.name());
        choices.push(json!({"if": condition_of_kind(kind.name()), "then": {"$ref": reference}}));
    }
    let items = json!({"properties": {"items": {"type": "array", "items": {"$ref": "#"}}}});
    choices.push(json!({"if": condition_of_kind("List"), "then": items}));
    json!({
        "$schema": DIALECT,
        "title": "Manifests of poolctl",
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string"}},
        "allOf": choices,
        "$defs": definitions,
    })
}

fn condition_of_kind(name: &str) -> Value {
    json!({"properties": {"kind": {"const": name}}, "required": ["kind"]})
}

/// Lets every field be null, which counts as absent, and writes durations as a pattern.
fn relax_schema(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    if keywords.get("format").is_some_and(|format| format == "duration") {
        keywords.remove("format");
        keywords.insert("pattern".into(), DURATION_PATTERN.into());
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = keywords.get_mut(name) {
            relax_schema(inner);
        }
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        let inner_schemas = keywords.get_mut(name).and_then(Value::as_array_mut);
        inner_schemas.into_iter().flatten().for_each(relax_schema);
    }
    let fields = keywords.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flatten().map(|(_, field)| field) {
        relax_schema(field);
        accept_null(field);
    }
}

fn accept_null(schema: &mut Value) {
    let has_fixed_words = ["enum", "const", "oneOf"].iter().any(|name| schema.get(*name).is_some());
    if has_fixed_words {
        let description = schema.get("description").cloned().unwrap_or_default();
        let inner = schema.take();
        *schema = json!({"anyOf": [inner, {"type": "null"}], "description": description});
        return;
    }
    if let Some(type_name) = schema.get("type").filter(|name| name.is_string()).cloned() {
        schema["type"] = json!([type_name, "null"]);
    }
}
