//! Hides what must not be shown in a rendered document.

use serde_json::Value;

use crate::model::customization::{CustomizationSpec, Patch};
use crate::yaml;

const HIDDEN: &str = "(hidden)";

/// Replaces secret-looking values at any depth.
pub fn redact(document: &mut Value) {
    match document {
        Value::Object(map) => {
            for (name, value) in map {
                if secret(name) && !value.is_null() && *value != "" {
                    *value = HIDDEN.into();
                } else if let Value::String(text) = value {
                    *text = without_login(text);
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(redact),
        Value::String(text) => *text = without_login(text),
        _ => {}
    }
}

/// `scheme://user:password@host` without what is before the `@`.
fn without_login(text: &str) -> String {
    let parts = text.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find('/').unwrap_or(rest.len());
        let at = rest[..end].rfind('@')?;
        Some(format!("{scheme}://{HIDDEN}{}", &rest[at..]))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

/// The patches of a customization as JSON, for its `status.lastAppliedConfiguration`.
pub fn applied(spec: &CustomizationSpec) -> String {
    let mut spec = spec.clone();
    for one in &mut spec.install_config_patches {
        hide(one, secret);
    }
    // What a manifest holds as data may be a Secret's.
    let data = |name: &str| matches!(name, "data" | "stringData") || secret(name);
    for one in spec.installer_manifest_patches.iter_mut().flat_map(|one| &mut one.patches) {
        hide(one, data);
    }
    serde_json::to_string(&spec).unwrap_or_default()
}

/// The secrets in a document: what stands under secret-looking names, or all of it.
pub fn secrets_in(text: &str, all: bool) -> Vec<String> {
    let mut found = Vec::new();
    if all {
        found.push(text.trim().to_owned());
    }
    if let Ok(document) = yaml::value(text) {
        collect(&document, false, &mut found);
    }
    found
}

fn collect(document: &Value, secretly: bool, found: &mut Vec<String>) {
    match document {
        Value::Object(map) => {
            for (name, value) in map {
                collect(value, secretly || secret(name) || name == "auth", found);
            }
        }
        Value::Array(list) => list.iter().for_each(|one| collect(one, secretly, found)),
        Value::String(text) if secretly => found.push(text.clone()),
        _ => {}
    }
}

fn hide(patch: &mut Patch, hidden: impl Fn(&str) -> bool) {
    let hidden = patch.path.split('/').any(hidden);
    let shown = |mut value: Value| {
        redact(&mut value);
        if hidden { HIDDEN.into() } else { value }
    };
    patch.value = patch.value.take().map(shown);
    let json = patch.value_json.take().filter(|text| !text.is_empty());
    patch.value_json = json.map(|text| {
        serde_json::from_str(&text).map_or_else(|_| HIDDEN.into(), |value| shown(value).to_string())
    });
}

fn secret(name: &str) -> bool {
    let name = name.to_lowercase();
    name == "pullsecret"
        || ["password", "token", "privatekey", "credential", "secret", "accesskey"]
            .iter()
            .any(|word| name.contains(word))
}
