//! RFC 6902 patches on a document, all or none, with errors that show the way.

use std::borrow::Cow;

use json_patch::jsonptr::Pointer;
use serde_json::{Value, json};

use crate::model::customization::{Op, Patch};

/// Applies all of them, or none and says which one failed and why. Unless `strict`, replacing a
/// missing last segment adds it: production customizations depend on that.
pub fn apply(document: &mut Value, patches: &[Patch], strict: bool) -> Result<(), String> {
    let mut result = document.clone();
    for (number, one) in patches.iter().enumerate() {
        step(&mut result, one, strict)
            .map_err(|why| format!("patch {number} ({} {}): {why}", name(one.op), one.path))?;
    }
    *document = result;
    Ok(())
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Add => "add",
        Op::Remove => "remove",
        Op::Replace => "replace",
        Op::Move => "move",
        Op::Copy => "copy",
        Op::Test => "test",
    }
}

fn step(document: &mut Value, one: &Patch, strict: bool) -> Result<(), String> {
    let path = rooted(&one.path);
    let from = one.from.as_deref().map(rooted);
    let value = value(one)?;
    let mut op = one.op;
    if op == Op::Replace && !strict && document.pointer(&path).is_none() && parent(document, &path)
    {
        op = Op::Add;
    }
    let operation = json!({"op": name(op), "path": path, "from": from, "value": value});
    let operation: json_patch::PatchOperation =
        serde_json::from_value(operation).map_err(|error| error.to_string())?;
    let Err(error) = json_patch::patch(document, std::slice::from_ref(&operation)) else {
        return Ok(());
    };
    if let Some(explained) = from.and_then(|from| missing(document, &from, true)) {
        return Err(format!("from: {explained}"));
    }
    let needs_leaf = matches!(op, Op::Remove | Op::Replace | Op::Test);
    match missing(document, &path, needs_leaf) {
        Some(explained) => Err(explained),
        None if op == Op::Test => Err("the value there is another one".into()),
        None => Err(error.to_string()),
    }
}

/// The seeds write pointers without their leading slash.
pub fn rooted(path: &str) -> Cow<'_, str> {
    if path.is_empty() || path.starts_with('/') { path.into() } else { format!("/{path}").into() }
}

/// `valueJSON` wins; neither means the empty string, as in Hive.
fn value(one: &Patch) -> Result<Value, String> {
    match one.value_json.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => serde_json::from_str(text).map_err(|error| format!("valueJSON: {error}")),
        None => Ok(one.value.clone().unwrap_or_else(|| json!(""))),
    }
}

/// Whether the parent of the last segment is a mapping.
fn parent(document: &Value, path: &str) -> bool {
    let above = path.rsplit_once('/').map(|(above, _)| above);
    above.and_then(|above| document.pointer(above)).is_some_and(Value::is_object)
}

/// The first segment that is not there, and what is there instead.
fn missing(document: &Value, path: &str, needs_leaf: bool) -> Option<String> {
    let pointer = Pointer::parse(path).ok()?;
    let count = pointer.count();
    let mut here = document;
    for (depth, token) in pointer.tokens().enumerate() {
        let token = token.decoded();
        let next = match here {
            Value::Object(map) => map.get(&*token),
            Value::Array(list) => token.parse::<usize>().ok().and_then(|at| list.get(at)),
            _ => None,
        };
        match next {
            Some(value) => here = value,
            None if depth + 1 == count && !needs_leaf && here.is_object() => return None,
            None => return Some(format!("`{token}` is not there; {}", contents(here))),
        }
    }
    None
}

fn contents(here: &Value) -> String {
    match here {
        Value::Object(map) if map.is_empty() => "the mapping is empty".into(),
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("there are {}", keys.join(", "))
        }
        Value::Array(list) => format!("the list has {} entries, counted from 0", list.len()),
        _ => "above it is a plain value".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patch: Value, strict: bool) -> Result<Value, String> {
        let mut document = json!({"metadata": {"name": "x"}, "compute": [{"replicas": 3}]});
        let patch: Patch = serde_json::from_value(patch).unwrap();
        apply(&mut document, &[patch], strict).map(|()| document)
    }

    #[test]
    fn the_seeds_form_of_a_path_works() {
        let patched =
            check(json!({"op": "replace", "path": "metadata/name", "value": "foo"}), true);
        assert_eq!(patched.unwrap()["metadata"]["name"], "foo");
    }

    #[test]
    fn replacing_a_missing_leaf_adds_it_unless_strict() {
        let patch = json!({"op": "replace", "path": "/metadata/zone", "value": "a"});
        assert_eq!(check(patch.clone(), false).unwrap()["metadata"]["zone"], "a");
        assert!(check(patch, true).unwrap_err().contains("`zone` is not there; there are name"));
    }

    #[test]
    fn a_failure_names_the_first_missing_segment_and_what_is_there() {
        for (patch, says) in [
            (
                json!({"op": "add", "path": "/metadat/name", "value": "a"}),
                "`metadat` is not there; there are compute, metadata",
            ),
            (json!({"op": "remove", "path": "/compute/1"}), "the list has 1 entries"),
            (json!({"op": "test", "path": "/metadata/name", "value": "y"}), "another one"),
            (
                json!({"op": "move", "from": "/nope", "path": "/metadata/name"}),
                "`nope` is not there",
            ),
            (json!({"op": "add", "path": "/a", "valueJSON": "{"}), "valueJSON: "),
        ] {
            let error = check(patch, false).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn values_keep_their_type_and_value_json_wins() {
        let patch =
            json!({"op": "replace", "path": "/compute/0/replicas", "value": "2", "valueJSON": "0"});
        assert_eq!(check(patch, false).unwrap()["compute"][0]["replicas"], 0);
    }
}
