//! RFC 6902 patches on a document, all or none, with errors that show the way.

use std::borrow::Cow;

use json_patch::jsonptr::Pointer;
use serde_json::{Value, json};

use crate::model::customization::{Op, Patch};
use crate::model::pool::{ALLOWED_PATHS, ClusterPool, STRICT_PATCHES, pointers};

use super::redact::secret;

/// A document that is patched is smaller than this.
const MOST: usize = 1 << 20;

/// What a pool demands of patches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules<'a> {
    /// RFC 6902 to the letter, without Hive's leniency.
    pub strict: bool,
    /// Pointers at and below which patches may change the document.
    pub allowed: Option<&'a str>,
}

impl<'a> Rules<'a> {
    pub fn of(pool: &'a ClusterPool) -> Self {
        let strict = pool.metadata.annotated(STRICT_PATCHES);
        Self { strict, allowed: pool.metadata.annotation(ALLOWED_PATHS) }
    }

    fn allow(self, path: &str) -> Result<(), String> {
        let Some(allowed) = self.allowed else { return Ok(()) };
        let below = |above: &str| {
            path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if pointers(allowed).any(below) {
            return Ok(());
        }
        Err(format!("the pool allows patches below {allowed} only ({ALLOWED_PATHS})"))
    }
}

/// Applies all of them, or none and says which one failed and why. Returns what was read with
/// leniency: production customizations depend on it that replacing a missing last segment adds it.
pub fn apply(
    document: &mut Value,
    patches: &[Patch],
    rules: Rules<'_>,
) -> Result<Vec<String>, String> {
    let mut result = document.clone();
    let mut notes = Vec::new();
    for (number, one) in patches.iter().enumerate() {
        let about = |text| format!("patch {number} ({} {}): {text}", name(one.op), one.path);
        notes.extend(step(&mut result, one, rules).map_err(about)?.map(about));
    }
    *document = result;
    Ok(notes)
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

/// Returns what was read with leniency.
fn step(document: &mut Value, one: &Patch, rules: Rules<'_>) -> Result<Option<String>, String> {
    let strict = rules.strict;
    let path = pointer(&one.path, strict)?;
    let from = one.from.as_deref().map(|from| pointer(from, strict)).transpose()?;
    for (word, changed) in [("", Some(&path)), ("from: ", from.as_ref())] {
        changed.map_or(Ok(()), |at| rules.allow(at)).map_err(|why| format!("{word}{why}"))?;
    }
    if let Some(from) = &from
        && ends_secretly(from)
        && !ends_secretly(&path)
    {
        return Err("from: a secret is not copied to where it would be shown".into());
    }
    let value = value(one, strict)?;
    let mut op = one.op;
    let mut note = None;
    if op == Op::Replace && !strict && document.pointer(&path).is_none() && parent(document, &path)
    {
        op = Op::Add;
        note = Some("it is not there to be replaced, and is added".to_owned());
    }
    let operation = json!({"op": name(op), "path": path, "from": from, "value": value});
    let operation: json_patch::PatchOperation =
        serde_json::from_value(operation).map_err(|error| error.to_string())?;
    if json_patch::patch(document, std::slice::from_ref(&operation)).is_ok() {
        return if room(document, MOST).is_some() {
            Ok(note)
        } else {
            Err(format!("the result is larger than {MOST} bytes"))
        };
    }
    if let Some(explained) = from.and_then(|from| missing(document, &from, true)) {
        return Err(format!("from: {explained}"));
    }
    let needs_leaf = matches!(op, Op::Remove | Op::Replace | Op::Test);
    match missing(document, &path, needs_leaf) {
        Some(explained) => Err(explained),
        None if op == Op::Test => Err("the value there is another one".into()),
        None => Err(match op {
            Op::Remove if path.is_empty() => "the whole document cannot be removed".into(),
            Op::Move => "nothing can be moved into itself".into(),
            _ => "there is no such place".into(),
        }),
    }
}

/// What of this size is left after a document.
fn room(document: &Value, most: usize) -> Option<usize> {
    let left = most.checked_sub(8)?;
    match document {
        Value::Object(map) => map
            .iter()
            .try_fold(left, |left, (name, value)| room(value, left.checked_sub(name.len())?)),
        Value::Array(list) => list.iter().try_fold(left, |left, value| room(value, left)),
        Value::String(text) => left.checked_sub(text.len()),
        _ => Some(left),
    }
}

fn ends_secretly(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(secret)
}

fn pointer(path: &str, strict: bool) -> Result<Cow<'_, str>, String> {
    let rooted = rooted(path);
    if strict && *rooted != *path {
        return Err(format!("`{path}` begins with no slash; write `{rooted}` ({STRICT_PATCHES})"));
    }
    Ok(rooted)
}

/// The seeds write pointers without their leading slash.
pub fn rooted(path: &str) -> Cow<'_, str> {
    if path.is_empty() || path.starts_with('/') { path.into() } else { format!("/{path}").into() }
}

/// `valueJSON` wins; neither means the empty string, as in Hive.
fn value(one: &Patch, strict: bool) -> Result<Value, String> {
    let needed = matches!(one.op, Op::Add | Op::Replace | Op::Test);
    match one.value_json.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => serde_json::from_str(text).map_err(|error| format!("valueJSON: {error}")),
        None if strict && needed && one.value.is_none() => Err("value is missing".into()),
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
        apply(&mut document, &[patch], Rules { strict, allowed: None }).map(|_| document)
    }

    #[test]
    fn the_seeds_form_of_a_path_works() {
        let patch = json!({"op": "replace", "path": "metadata/name", "value": "foo"});
        assert_eq!(check(patch.clone(), false).unwrap()["metadata"]["name"], "foo");
        assert!(check(patch, true).unwrap_err().contains("`/metadata/name`"));
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
    fn what_a_pool_does_not_allow_is_refused() {
        let rules = Rules { strict: false, allowed: Some("/metadata/name, /compute") };
        for (path, fine) in [
            ("/metadata/name", true),
            ("metadata/name", true),
            ("/compute/0/replicas", true),
            ("/metadata/names", false),
            ("/metadata", false),
            ("", false),
        ] {
            let mut document = json!({"metadata": {"name": "x"}, "compute": [{"replicas": 3}]});
            let patch = json!({"op": "replace", "path": path, "value": 1});
            let patch: Patch = serde_json::from_value(patch).unwrap();
            assert_eq!(apply(&mut document, &[patch], rules).is_ok(), fine, "{path}");
        }
    }

    #[test]
    fn values_keep_their_type_and_value_json_wins() {
        let patch =
            json!({"op": "replace", "path": "/compute/0/replicas", "value": "2", "valueJSON": "0"});
        assert_eq!(check(patch, false).unwrap()["compute"][0]["replicas"], 0);
    }
}
