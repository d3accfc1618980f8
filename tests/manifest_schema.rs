//! The JSON Schemas of manifests: what production has passes them, and what `apply` refuses does
//! not.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// What is wrong with a value by a schema, with the paths; empty if nothing is. It knows the
/// keywords that the schemas have.
fn problems(schema: &Value, value: &Value, path: &str, root: &Value) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return problems(target, value, path, root);
    }
    let mut found = Vec::new();
    if let Some(choices) = schema["anyOf"].as_array() {
        let is_any = choices.iter().any(|choice| problems(choice, value, path, root).is_empty());
        if !is_any {
            found.push(format!("{path}: none of the choices"));
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        if problems(&part["if"], value, path, root).is_empty() {
            found.extend(problems(&part["then"], value, path, root));
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let value_type = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.is_empty() && !types.contains(&value_type) {
        return vec![format!("{path}: {value_type}, not {types:?}")];
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        found.push(format!("{path}: not {}", schema["const"]));
    }
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        found.push(format!("{path}: none of {words:?}"));
    }
    for (position, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(problems(&schema["items"], item, &format!("{path}[{position}]"), root));
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let field_path = format!("{path}.{name}");
        match schema["properties"].get(name) {
            Some(field_schema) => found.extend(problems(field_schema, field, &field_path, root)),
            None if schema["additionalProperties"] == false => found.push(field_path),
            None => {
                found.extend(problems(&schema["additionalProperties"], field, &field_path, root));
            }
        }
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            found.push(format!("{path}.{name} is missing"));
        }
    }
    found
}

/// All documents of the manifests of production.
fn production_documents() -> Vec<(String, Value)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/production");
    let mut documents = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let content = std::fs::read_to_string(&path).unwrap();
        for node in poolctl::yaml::parse_documents_within(&content, 1 << 20).unwrap() {
            documents.push((path.display().to_string(), node.to_value()));
        }
    }
    documents
}

#[test]
fn production_manifests_pass_the_schema_of_their_kind_and_that_of_all() {
    let sandbox = Sandbox::new();
    let schema: Value = serde_json::from_str(&sandbox.ok("schema")).unwrap();
    let mut checked = 0;
    for (path, document) in production_documents() {
        let wrong = problems(&schema, &document, "", &schema);
        assert!(wrong.is_empty(), "{path}: {wrong:?}");
        let kind = document["kind"].as_str().unwrap_or_default();
        let explained = sandbox.run(&format!("explain {kind} -o json"));
        if explained.code == 0 {
            let kind_schema: Value = serde_json::from_str(&explained.out).unwrap();
            let wrong = problems(&kind_schema, &document, "", &kind_schema);
            assert!(wrong.is_empty(), "{path}: {wrong:?}");
            checked += 1;
        }
    }
    assert!(checked > 5, "{checked}");
}

#[test]
fn what_apply_refuses_fails_the_schema() {
    let sandbox = Sandbox::new();
    let schema: Value = serde_json::from_str(&sandbox.ok("schema")).unwrap();
    let pool = "apiVersion: hive.openshift.io/v1
kind: ClusterPool
metadata: {name: lab}
spec: {size: 1, baseDomain: example.com, imageSetRef: {name: ocp}, platform: {none: {}}, hibernateAfter: 8h}
";
    for (wrong, right, place) in [
        ("size: 1", "size: 1", ""),
        ("size: one", "size: 1", ".spec.size"),
        ("replicas: 1, size: 1", "size: 1", ".spec.replicas"),
        ("runningCount: null, size: 1", "size: 1", ""),
        ("kind: ClusterPoool", "kind: ClusterPool", ""),
        ("name: lab, uid: x, resourceVersion: '7'", "name: lab", ""),
    ] {
        let document = poolctl::yaml::parse_value(&pool.replacen(right, wrong, 1)).unwrap();
        let wrong_places = problems(&schema, &document, "", &schema);
        assert_eq!(wrong_places.is_empty(), place.is_empty(), "{wrong}: {wrong_places:?}");
        let is_there = place.is_empty() || wrong_places[0].starts_with(place);
        assert!(is_there, "{wrong}: {wrong_places:?}");
    }
}

#[test]
fn the_schema_says_how_editors_find_it() {
    let ran = Sandbox::new().run("schema pool");
    assert!(ran.err.contains("# yaml-language-server: $schema=poolctl.schema.json"), "{}", ran.err);
    let schema: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(schema["properties"]["kind"]["const"], "ClusterPool");
}
