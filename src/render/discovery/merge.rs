//! Merges an Ignition over another one as Ignition itself does: objects field by field, and items
//! of lists by their names. Validates no more than that both can be merged.

use serde_json::{Value, json};

/// The fields that an item of a list is known by, the first that it has.
const NAME_KEYS: [&str; 3] = ["path", "name", "device"];

/// Reads an Ignition; an empty text is an empty one. `subject` is what errors call it.
pub fn parse(subject: &str, json: &str) -> Result<Value, String> {
    if json.trim().is_empty() {
        return Ok(json!({}));
    }
    let ignition: Value =
        serde_json::from_str(json).map_err(|why| format!("{subject} is not JSON: {why}"))?;
    let header = &ignition["ignition"];
    if !ignition.is_object() || !(header.is_null() || header.is_object()) {
        return Err(format!("{subject} is not an Ignition config"));
    }
    let version = &header["version"];
    if !version.is_null() && parse_version(version).is_none_or(|(major, _)| major != 3) {
        return Err(format!(
            "{subject} has Ignition version {version}; poolctl supports version 3"
        ));
    }
    Ok(ignition)
}

/// Merges `overlay` over `base`. The higher of both versions counts.
pub fn merge_ignition(base: &mut Value, overlay: Value) {
    let base_version = base["ignition"]["version"].clone();
    let overlay_version = overlay["ignition"]["version"].clone();
    merge_values(base, overlay);
    if parse_version(&overlay_version) <= parse_version(&base_version) {
        base["ignition"]["version"] = base_version;
    }
}

/// The first two numbers of a version.
fn parse_version(version: &Value) -> Option<(u32, u32)> {
    let mut numbers = version.as_str()?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((major, minor))
}

/// Merges `overlay` into `base` as Ignition does: mappings by field, lists by item, and everything
/// else is replaced.
fn merge_values(base: &mut Value, overlay: Value) {
    match (base, overlay) {
        // A null means that the field is not given.
        (_, Value::Null) => {}
        (Value::Object(base), Value::Object(overlay)) => {
            for (key, value) in overlay {
                merge_values(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(overlay)) => {
            for item in overlay {
                merge_item(base, item);
            }
        }
        (base, overlay) => *base = overlay,
    }
}

/// Merges an item over the one of its name, or appends it. Items without a name are the same only
/// if they are equal.
fn merge_item(items: &mut Vec<Value>, overlay: Value) {
    let name = name_of(&overlay);
    let position = items.iter().position(|item| match name {
        Some(_) => name_of(item) == name,
        None => *item == overlay,
    });
    match position {
        Some(index) => merge_values(&mut items[index], overlay),
        None => items.push(overlay),
    }
}

/// What an item is known by: the key of the field, and its value.
fn name_of(item: &Value) -> Option<(&str, &str)> {
    NAME_KEYS.iter().find_map(|key| Some((*key, item.get(*key)?.as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_leaves_what_only_the_base_has() {
        let base = json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"]}]},
            "storage": {"files": [{"path": "/a", "mode": 420}, {"path": "/b", "user": {"name": "root"}}]},
            "systemd": {"units": [{"name": "agent.service", "enabled": true}]},
        });
        let mut merged = parse("base", &base.to_string()).unwrap();
        let overlay = json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"]}]},
            "storage": {"files": [{"path": "/b", "mode": 384}]},
            "systemd": {"units": [{"name": "poolctl-agent.service", "enabled": true}]},
        });
        merge_ignition(&mut merged, overlay);
        let files = json!([
            {"path": "/a", "mode": 420}, {"path": "/b", "mode": 384, "user": {"name": "root"}},
        ]);
        assert_eq!(merged["storage"]["files"], files);
        assert_eq!(merged["passwd"], base["passwd"]);
        assert_eq!(merged["systemd"]["units"].as_array().map(Vec::len), Some(2));
        let empty = parse("overlay", "").unwrap();
        merge_ignition(&mut merged, empty);
        assert_eq!(merged["ignition"], base["ignition"]);
    }
}
