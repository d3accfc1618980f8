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
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(redact),
        _ => {}
    }
}

fn secret(name: &str) -> bool {
    let name = name.to_lowercase();
    name == "pullsecret"
        || ["password", "token", "privatekey", "credential", "secretkey", "accesskey"]
            .iter()
            .any(|word| name.contains(word))
}
