//! Applies patches of RFC 6902 to a document, all or none, with errors that say what is there
//! instead of what was looked for. Knows nothing of what the documents mean.

use std::borrow::Cow;

use json_patch::jsonptr::Pointer;
use serde_json::{Value, json};

use crate::model::annotations::{ALLOWED_PATHS, STRICT_PATCHES};
use crate::model::customization::{Patch, PatchOperation};
use crate::model::pool::{ClusterPool, split_pointers};

use super::redact::is_secret_name;

/// The bytes that a patched document may have, so that patches which copy cannot fill the memory.
const MAX_SIZE: usize = 1 << 20;

/// What a pool demands of patches.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatchRules<'a> {
    /// RFC 6902 to the letter, without Hive's leniency.
    pub strict: bool,
    /// Pointers at and below which patches may change the document.
    pub allowed: Option<&'a str>,
}

impl<'a> PatchRules<'a> {
    /// The rules that the annotations of a pool set.
    pub fn of_pool(pool: &'a ClusterPool) -> Self {
        let strict = pool.metadata.has_true_annotation(STRICT_PATCHES);
        Self { strict, allowed: pool.metadata.annotation(ALLOWED_PATHS) }
    }

    /// Refuses a pointer that the pool does not let patches change.
    fn check_allowed(self, pointer: &str) -> Result<(), String> {
        let Some(allowed) = self.allowed else { return Ok(()) };
        if split_pointers(allowed).any(|prefix| is_at_or_below(pointer, prefix)) {
            return Ok(());
        }
        Err(format!("the pool allows only patches below {allowed} ({ALLOWED_PATHS})"))
    }
}

fn is_at_or_below(pointer: &str, prefix: &str) -> bool {
    pointer.strip_prefix(prefix).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Applies all patches, or none and says which one failed and why. Returns a note about each patch
/// that was read leniently: production customizations depend on it that replacing a missing last
/// segment adds it.
pub fn apply_patches(
    document: &mut Value,
    patches: &[Patch],
    rules: PatchRules<'_>,
) -> Result<Vec<String>, String> {
    let mut result = document.clone();
    let mut notes = Vec::new();
    for (number, patch) in patches.iter().enumerate() {
        let subject = format!("patch {number} ({} {})", op_name(patch.op), patch.path);
        match apply_patch(&mut result, patch, rules) {
            Ok(None) => {}
            Ok(Some(note)) => notes.push(format!("{subject}: {note}")),
            Err(why) => return Err(format!("{subject}: {why}")),
        }
    }
    *document = result;
    Ok(notes)
}

fn op_name(op: PatchOperation) -> &'static str {
    match op {
        PatchOperation::Add => "add",
        PatchOperation::Remove => "remove",
        PatchOperation::Replace => "replace",
        PatchOperation::Move => "move",
        PatchOperation::Copy => "copy",
        PatchOperation::Test => "test",
    }
}

/// Applies one patch, and returns how it was read leniently, if it was.
fn apply_patch(
    document: &mut Value,
    patch: &Patch,
    rules: PatchRules<'_>,
) -> Result<Option<String>, String> {
    let strict = rules.strict;
    let target = parse_pointer(&patch.path, strict)?;
    let from = patch.from.as_deref().map(|from| parse_pointer(from, strict)).transpose()?;
    rules.check_allowed(&target)?;
    if let Some(from) = &from {
        rules.check_allowed(from).map_err(|why| format!("from: {why}"))?;
        if is_secret_place(from) && !is_secret_place(&target) {
            return Err("from: a secret cannot be copied to a place that is shown".into());
        }
    }
    let value = value_of(patch, strict)?;
    let mut op = patch.op;
    let mut note = None;
    let is_lenient = op == PatchOperation::Replace && !strict;
    if is_lenient && document.pointer(&target).is_none() && is_parent_mapping(document, &target) {
        op = PatchOperation::Add;
        note = Some("there is nothing to replace, so the value is added".to_owned());
    }
    let operation = json!({"op": op_name(op), "path": target, "from": from, "value": value});
    let operation: json_patch::PatchOperation =
        serde_json::from_value(operation).map_err(|error| error.to_string())?;
    if json_patch::patch(document, std::slice::from_ref(&operation)).is_err() {
        return Err(explain_failure(document, op, &target, from.as_deref()));
    }
    if subtract_size(MAX_SIZE, document).is_none() {
        return Err(format!("the result is larger than {MAX_SIZE} bytes"));
    }
    Ok(note)
}

/// Why an operation fails on a document, which it has not changed.
fn explain_failure(document: &Value, op: PatchOperation, path: &str, from: Option<&str>) -> String {
    if let Some(why) = from.and_then(|from| explain_missing(document, from, LastSegment::MustExist))
    {
        return format!("from: {why}");
    }
    let last_segment = match op {
        PatchOperation::Remove | PatchOperation::Replace | PatchOperation::Test => {
            LastSegment::MustExist
        }
        PatchOperation::Add | PatchOperation::Move | PatchOperation::Copy => LastSegment::MayBeNew,
    };
    if let Some(why) = explain_missing(document, path, last_segment) {
        return why;
    }
    let why = match op {
        PatchOperation::Test => "the value is different",
        PatchOperation::Remove if path.is_empty() => "the whole document cannot be removed",
        PatchOperation::Move => "nothing can be moved into itself",
        _ => "the path does not exist",
    };
    why.to_owned()
}

/// What is left of a number of bytes after a document, roughly; none if the document is larger.
/// Stops as soon as nothing is left.
fn subtract_size(bytes: usize, document: &Value) -> Option<usize> {
    let mut left = bytes.checked_sub(8)?;
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                left = subtract_size(left.checked_sub(name.len())?, value)?;
            }
        }
        Value::Array(items) => {
            for item in items {
                left = subtract_size(left, item)?;
            }
        }
        Value::String(string) => left = left.checked_sub(string.len())?,
        _ => {}
    }
    Some(left)
}

/// Whether what stands at a pointer is hidden where documents are shown.
fn is_secret_place(pointer: &str) -> bool {
    pointer.rsplit('/').next().is_some_and(is_secret_name)
}

/// A path as a JSON pointer. Under strict rules one without its leading slash is refused.
fn parse_pointer(path: &str, strict: bool) -> Result<Cow<'_, str>, String> {
    let pointer = with_leading_slash(path);
    if strict && *pointer != *path {
        return Err(format!(
            "`{path}` does not begin with a slash; write `{pointer}` ({STRICT_PATCHES})"
        ));
    }
    Ok(pointer)
}

/// A pointer with its leading slash, which existing customizations leave out.
fn with_leading_slash(path: &str) -> Cow<'_, str> {
    if path.is_empty() || path.starts_with('/') { path.into() } else { format!("/{path}").into() }
}

/// The value of a patch. `valueJSON` wins over `value`; without both it is the empty string, as in
/// Hive.
fn value_of(patch: &Patch, strict: bool) -> Result<Value, String> {
    if let Some(json) = patch.value_json.as_deref()
        && !json.is_empty()
    {
        return serde_json::from_str(json).map_err(|error| format!("valueJSON: {error}"));
    }
    let needs_value =
        matches!(patch.op, PatchOperation::Add | PatchOperation::Replace | PatchOperation::Test);
    match &patch.value {
        Some(value) => Ok(value.clone()),
        None if strict && needs_value => Err("value is missing".into()),
        None => Ok(json!("")),
    }
}

/// Whether what is above the last segment of a pointer is a mapping.
fn is_parent_mapping(document: &Value, pointer: &str) -> bool {
    let Some((parent, _)) = pointer.rsplit_once('/') else { return false };
    document.pointer(parent).is_some_and(Value::is_object)
}

/// Whether an operation needs what its pointer names, or may add it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastSegment {
    MustExist,
    /// It may be missing from a mapping, which gets a new field.
    MayBeNew,
}

/// Names the first segment of a pointer that is not there, and what is there instead. None if
/// nothing that the operation needs is missing.
fn explain_missing(document: &Value, pointer: &str, last_segment: LastSegment) -> Option<String> {
    let pointer = Pointer::parse(pointer).ok()?;
    let segment_count = pointer.count();
    let mut parent = document;
    for (depth, token) in pointer.tokens().enumerate() {
        let segment = token.decoded();
        let child = match parent {
            Value::Object(fields) => fields.get(&*segment),
            Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        let is_last = depth + 1 == segment_count;
        let may_be_missing = is_last && last_segment == LastSegment::MayBeNew && parent.is_object();
        match child {
            Some(child) => parent = child,
            None if may_be_missing => return None,
            None => {
                let contents = describe_contents(parent);
                return Some(format!("`{segment}` does not exist; {contents}"));
            }
        }
    }
    None
}

fn describe_contents(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "the mapping is empty".into(),
        Value::Object(fields) => {
            let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
            format!("the mapping has `{}`", keys.join("`, `"))
        }
        Value::Array(items) => {
            format!("the length of the list is {}, and indexes begin at 0", items.len())
        }
        _ => "its parent is a plain value".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_to_document(patch: &Value, rules: PatchRules<'_>) -> Result<Value, String> {
        let mut document = json!({"metadata": {"name": "x"}, "compute": [{"replicas": 3}]});
        let patch: Patch = serde_json::from_value(patch.clone()).unwrap();
        apply_patches(&mut document, &[patch], rules)?;
        Ok(document)
    }

    const LENIENT: PatchRules<'static> = PatchRules { strict: false, allowed: None };
    const STRICT: PatchRules<'static> = PatchRules { strict: true, allowed: None };

    #[test]
    fn a_path_may_lack_its_leading_slash_unless_strict() {
        let patch = json!({"op": "replace", "path": "metadata/name", "value": "foo"});
        assert_eq!(apply_to_document(&patch, LENIENT).unwrap()["metadata"]["name"], "foo");
        assert!(apply_to_document(&patch, STRICT).unwrap_err().contains("`/metadata/name`"));
    }

    #[test]
    fn replacing_a_missing_leaf_adds_it_unless_strict() {
        let patch = json!({"op": "replace", "path": "/metadata/zone", "value": "a"});
        assert_eq!(apply_to_document(&patch, LENIENT).unwrap()["metadata"]["zone"], "a");
        let error = apply_to_document(&patch, STRICT).unwrap_err();
        assert!(error.contains("`zone` does not exist; the mapping has `name`"), "{error}");
    }

    #[test]
    fn a_failure_names_the_first_missing_segment_and_what_exists() {
        for (patch, expected) in [
            (
                json!({"op": "add", "path": "/metadat/name", "value": "a"}),
                "`metadat` does not exist; the mapping has `compute`, `metadata`",
            ),
            (json!({"op": "remove", "path": "/compute/1"}), "the length of the list is 1"),
            (
                json!({"op": "test", "path": "/metadata/name", "value": "y"}),
                "the value is different",
            ),
            (
                json!({"op": "move", "from": "/nope", "path": "/metadata/name"}),
                "`nope` does not exist",
            ),
            (json!({"op": "add", "path": "/a", "valueJSON": "{"}), "valueJSON: "),
        ] {
            let error = apply_to_document(&patch, LENIENT).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_patch_outside_of_the_allowed_paths_is_refused() {
        let rules = PatchRules { strict: false, allowed: Some("/metadata/name, /compute") };
        for (path, is_allowed) in [
            ("/metadata/name", true),
            ("metadata/name", true),
            ("/compute/0/replicas", true),
            ("/metadata/names", false),
            ("/metadata", false),
            ("", false),
        ] {
            let patch = json!({"op": "replace", "path": path, "value": 1});
            assert_eq!(apply_to_document(&patch, rules).is_ok(), is_allowed, "{path}");
        }
    }

    #[test]
    fn values_keep_their_type_and_value_json_wins() {
        let patch =
            json!({"op": "replace", "path": "/compute/0/replicas", "value": "2", "valueJSON": "0"});
        assert_eq!(apply_to_document(&patch, LENIENT).unwrap()["compute"][0]["replicas"], 0);
    }
}
