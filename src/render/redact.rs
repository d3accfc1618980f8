//! Hides what must not be shown in a rendered document.

use serde_json::Value;

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

fn secret(name: &str) -> bool {
    let name = name.to_lowercase();
    name == "pullsecret"
        || ["password", "token", "privatekey", "credential", "secret", "accesskey"]
            .iter()
            .any(|word| name.contains(word))
}
