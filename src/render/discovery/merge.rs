//! Ignition over Ignition, as Ignition itself merges: objects field by field, list items by what
//! they are known by.

use std::cmp::Ordering;

use serde_json::Value;

/// Of an item of a list, what tells it from the others.
const NAMES: [&str; 3] = ["path", "name", "device"];

/// Merges the text of an override, if there is any. The higher version counts.
pub fn over(made: &mut Value, text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let wrong = |why: &str| format!("ignitionConfigOverride {why}");
    let given: Value =
        serde_json::from_str(text).map_err(|why| wrong(&format!("is not JSON: {why}")))?;
    let header = &given["ignition"];
    if !given.is_object() || !(header.is_null() || header.is_object()) {
        return Err(wrong("is no Ignition"));
    }
    let ours = made["ignition"]["version"].clone();
    let theirs = header["version"].clone();
    if !theirs.is_null() && number(&theirs).is_none_or(|(major, _)| major != 3) {
        return Err(wrong(&format!("is of Ignition {theirs}, not of version 3")));
    }
    merge(made, given);
    if number(&theirs).cmp(&number(&ours)) != Ordering::Greater {
        made["ignition"]["version"] = ours;
    }
    Ok(())
}

/// The first two numbers of a version.
fn number(version: &Value) -> Option<(u32, u32)> {
    let mut parts = version.as_str()?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn merge(ours: &mut Value, theirs: Value) {
    match (ours, theirs) {
        // Not given.
        (_, Value::Null) => {}
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in theirs {
                merge(ours.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            for item in theirs {
                add(ours, item);
            }
        }
        (ours, theirs) => *ours = theirs,
    }
}

fn add(ours: &mut Vec<Value>, item: Value) {
    let known = name(&item);
    let same = |one: &Value| if known.is_some() { name(one) == known } else { *one == item };
    match ours.iter().position(same) {
        Some(at) => merge(&mut ours[at], item),
        None => ours.push(item),
    }
}

fn name(item: &Value) -> Option<(&str, &str)> {
    NAMES.iter().find_map(|key| Some((*key, item.get(*key)?.as_str()?)))
}
