//! Ignition over Ignition, as Ignition itself merges: objects field by field, list items by what
//! they are known by.

use std::cmp::Ordering;

use serde_json::{Value, json};

/// Of an item of a list, what tells it from the others.
const NAMES: [&str; 3] = ["path", "name", "device"];

/// Reads the text of an Ignition; without any, it is an empty one. `what` is what an error calls it.
pub fn read(what: &str, text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    let wrong = |why: &str| format!("{what} {why}");
    let given: Value =
        serde_json::from_str(text).map_err(|why| wrong(&format!("is not JSON: {why}")))?;
    let header = &given["ignition"];
    if !given.is_object() || !(header.is_null() || header.is_object()) {
        return Err(wrong("is no Ignition"));
    }
    let version = &header["version"];
    if !version.is_null() && number(version).is_none_or(|(major, _)| major != 3) {
        return Err(wrong(&format!("is of Ignition {version}, not of version 3")));
    }
    Ok(given)
}

/// Merges the second over the first. The higher version counts.
pub fn over(made: &mut Value, given: Value) {
    let ours = made["ignition"]["version"].clone();
    let theirs = given["ignition"]["version"].clone();
    merge(made, given);
    if number(&theirs).cmp(&number(&ours)) != Ordering::Greater {
        made["ignition"]["version"] = ours;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_over_that_of_openshift_install_leaves_both() {
        let theirs = json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"]}]},
            "storage": {"files": [{"path": "/a", "mode": 420}, {"path": "/b", "user": {"name": "root"}}]},
            "systemd": {"units": [{"name": "agent.service", "enabled": true}]},
        });
        let mut made = read("theirs", &theirs.to_string()).unwrap();
        let ours = json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"]}]},
            "storage": {"files": [{"path": "/b", "mode": 384}]},
            "systemd": {"units": [{"name": "poolctl-agent.service", "enabled": true}]},
        });
        over(&mut made, ours);
        let files = json!([
            {"path": "/a", "mode": 420}, {"path": "/b", "mode": 384, "user": {"name": "root"}},
        ]);
        assert_eq!((&made["storage"]["files"], &made["passwd"]), (&files, &theirs["passwd"]));
        assert_eq!(made["systemd"]["units"].as_array().map(Vec::len), Some(2));
        let nothing = read("theirs", "").unwrap();
        over(&mut made, nothing);
        assert_eq!(made["ignition"], theirs["ignition"]);
    }
}
