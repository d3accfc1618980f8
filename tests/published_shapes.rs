//! Everything that `export --for` writes, for every state of the transcripts, has only fields that
//! the programs declare for which it is, and all that they require.
//! `fixtures/published_fields.txt` has these declarations.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sandbox::Sandbox;

const DECLARATIONS: &str = include_str!("fixtures/published_fields.txt");
/// Kinds of Kubernetes itself.
const KINDS_OF_KUBERNETES: [&str; 3] = ["Namespace", "Secret", "RoleBinding"];

/// What is declared of a field.
struct Field {
    kind: &'static str,
    is_required: bool,
    /// The only values; empty if all are allowed.
    values: Vec<&'static str>,
}

impl Field {
    /// Parses `type`, `type!` or `type(a|b)!`.
    fn parse(declaration: &'static str) -> Self {
        let plain = declaration.trim_end_matches('!');
        let (kind, values) = match plain.split_once('(') {
            Some((kind, values)) => (kind, values.trim_end_matches(')').split('|').collect()),
            None => (plain, Vec::new()),
        };
        Self { kind, is_required: plain.len() < declaration.len(), values }
    }

    fn takes(&self, value: &Value) -> bool {
        let is_of_kind = match self.kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            _ => true,
        };
        let is_listed = match value.as_str() {
            Some(word) => self.values.is_empty() || self.values.contains(&word),
            None => true,
        };
        is_of_kind && is_listed
    }
}

/// The fields of an object.
#[derive(Default)]
pub struct Shape {
    fields: BTreeMap<&'static str, Field>,
    allows_others: bool,
}

/// The shapes of a kind, by path: `.` is the whole, `spec.pools[]` an item of a list.
pub type Shapes = BTreeMap<&'static str, Shape>;

/// The shapes of all kinds, by group and kind.
pub fn declared_kinds() -> BTreeMap<&'static str, Shapes> {
    let mut kinds: BTreeMap<&'static str, Shapes> = BTreeMap::new();
    let mut kind = "";
    let mut path = "";
    for line in DECLARATIONS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("= ") {
            kind = name;
            continue;
        }
        let mut declarations = line;
        if !line.starts_with(' ') {
            (path, declarations) = line.split_once(':').unwrap();
        }
        let shape = kinds.entry(kind).or_default().entry(path).or_default();
        for word in declarations.split_whitespace() {
            match word.split_once('=') {
                Some((name, declaration)) => {
                    shape.fields.insert(name, Field::parse(declaration));
                }
                None => shape.allows_others = true,
            }
        }
    }
    kinds
}

/// Notes what of a value is not as it is declared.
fn find_problems(shapes: &Shapes, path: &str, value: &Value, problems: &mut Vec<String>) {
    if let Value::Array(items) = value {
        for item in items {
            find_problems(shapes, &format!("{path}[]"), item, problems);
        }
        return;
    }
    let shape_path = if path.is_empty() { "." } else { path };
    let Some(fields) = value.as_object() else { return };
    let Some(shape) = shapes.get(shape_path) else { return };
    for (name, field) in &shape.fields {
        if field.is_required && !fields.contains_key(*name) {
            problems.push(format!("{path}: {name} is missing"));
        }
    }
    for (name, value) in fields {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match shape.fields.get(name.as_str()) {
            Some(field) if !field.takes(value) => problems.push(format!("{below}: {value}")),
            Some(_) => find_problems(shapes, &below, value, problems),
            None if shape.allows_others => {}
            None => problems.push(format!("{below} is unknown")),
        }
    }
}

/// What is wrong with a document, each with its kind and name. Fields of metadata are those of
/// Kubernetes.
fn problems_of(kinds: &BTreeMap<&'static str, Shapes>, document: &Value) -> Vec<String> {
    let kind = document["kind"].as_str().unwrap_or_default();
    let group = document["apiVersion"].as_str().unwrap_or_default().split('/').next();
    let name = format!("{} {kind}", group.unwrap_or_default());
    let mut problems = Vec::new();
    match kinds.get(name.as_str()) {
        Some(shapes) => find_problems(shapes, "", document, &mut problems),
        None if KINDS_OF_KUBERNETES.contains(&kind) => {}
        None => problems.push("its kind is unknown".to_owned()),
    }
    let object = format!("{kind} {}", document["metadata"]["name"]);
    problems.into_iter().map(|problem| format!("{object}: {problem}")).collect()
}

/// The objects in the files of a folder, not those of folders below.
fn objects_in(folder: &std::path::Path) -> Vec<Value> {
    let mut objects = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let list = std::fs::read_to_string(&path).unwrap();
            let list = poolctl::yaml::parse_value(&list).unwrap();
            objects.extend(list["items"].as_array().unwrap().iter().cloned());
        }
    }
    objects
}

#[test]
fn a_wrong_document_is_found() {
    let kinds = declared_kinds();
    assert_eq!(kinds.len(), 17);
    for (document, problem) in [
        (
            r#"{"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": "a"}, "spec": {}}"#,
            "spec: pool is missing",
        ),
        (
            r#"{"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": "a"}, "spec": {"pool": {}, "wide": 1}}"#,
            "spec.wide is unknown",
        ),
        (
            r#"{"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": "a"}, "spec": {"pool": {"name": 7}}}"#,
            "spec.pool.name: 7",
        ),
    ] {
        let document: Value = serde_json::from_str(document).unwrap();
        let problems = problems_of(&kinds, &document);
        assert!(problems.iter().any(|found| found.contains(problem)), "{problem}: {problems:?}");
    }
}

/// Exports a state for each program that publishes its kinds. Returns how many documents were looked at.
pub fn assert_published_shapes(
    transcript: &str,
    sandbox: &Sandbox,
    kinds: &BTreeMap<&'static str, Shapes>,
) -> usize {
    let mut count = 0;
    for program in ["hive", "metal3", "assisted"] {
        let folder = sandbox.path().join(format!("shapes-for-{program}"));
        let _ = std::fs::remove_dir_all(&folder);
        sandbox.ok(&format!("export {} --for {program}", folder.display()));
        for object in objects_in(&folder) {
            count += 1;
            let problems = problems_of(kinds, &object);
            assert!(problems.is_empty(), "{transcript}: {program}: {problems:#?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
    count
}
