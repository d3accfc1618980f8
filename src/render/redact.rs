//! Hides the secrets in documents that are shown, and finds the secrets that must not appear in
//! what programs print. Knows a secret by the name that it stands under, and by its form.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::model::customization::{CustomizationSpec, Patch};
use crate::yaml;

use super::url_passwords::{HIDDEN, passwords_in, percent_decoded};

/// Replaces secret-looking values at any depth.
pub fn redact(document: &mut Value) {
    match document {
        Value::Object(map) => {
            let holds_secrets = map.get("kind").is_some_and(|kind| kind == "Secret");
            for (name, value) in map {
                let is_data = holds_secrets && matches!(name.as_str(), "data" | "stringData");
                let is_empty = value.is_null() || *value == "";
                if is_data || (is_secret_name(name) && !is_empty) {
                    *value = HIDDEN.into();
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(string) => *string = redact_text(string),
        _ => {}
    }
}

/// A text without the secrets in it: private keys, those of a JSON document, logins of URLs.
fn redact_text(text: &str) -> String {
    if text.contains("PRIVATE KEY-----") {
        return HIDDEN.into();
    }
    if text.starts_with('{')
        && let Ok(mut document @ Value::Object(_)) = serde_json::from_str(text)
    {
        let original = document.clone();
        redact(&mut document);
        return if document == original { text.to_owned() } else { document.to_string() };
    }
    let words = text.split_inclusive([' ', ',', '\n']);
    words.map(redact_login).collect()
}

/// Hides the login of `scheme://user:password@host`. Without a scheme it is a login only if there
/// is a colon in it, because `user@host` is more often an address of mail.
fn redact_login(word: &str) -> String {
    let (scheme, rest) = word.split_once("://").unwrap_or(("", word));
    let end = rest.find('/').unwrap_or(rest.len());
    let Some(at_sign) = rest[..end].rfind('@') else { return word.to_owned() };
    let host = &rest[at_sign..];
    if !scheme.is_empty() {
        return format!("{scheme}://{HIDDEN}{host}");
    }
    if rest[..at_sign].contains(':') { format!("{HIDDEN}{host}") } else { word.to_owned() }
}

/// The patches of a customization as JSON without secrets, for its
/// `status.lastAppliedConfiguration`.
pub fn redact_customization(spec: &CustomizationSpec) -> String {
    let mut spec = spec.clone();
    for patch in &mut spec.install_config_patches {
        let is_hidden = patch.path.split('/').any(is_secret_name);
        redact_patch(patch, is_hidden);
    }
    for patch in spec.installer_manifest_patches.iter_mut().flat_map(|patch| &mut patch.patches) {
        // The manifest may be a Secret, whose data has any names.
        let mut names = patch.path.split('/');
        let is_hidden =
            names.any(|name| matches!(name, "data" | "stringData") || is_secret_name(name));
        redact_patch(patch, is_hidden);
    }
    serde_json::to_string(&spec).unwrap_or_default()
}

/// The secrets in a document that is not secret itself, in YAML or JSON: what stands under
/// secret-looking names, and the passwords of its URLs. None in a text of another format.
pub fn find_secrets(text: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    if let Ok(document) = yaml::parse_value(text) {
        collect_secrets(&document, Surroundings::Open, &mut secrets);
    }
    secrets
}

/// The secrets in a file of credentials: the whole text, because a program may print all of it, and
/// each secret in it.
pub fn secrets_of_credentials(text: &str) -> Vec<String> {
    let mut secrets = vec![text.trim().to_owned()];
    // Some formats, that of AWS for one, have `name = value` in each line.
    let assignments = text.lines().filter_map(|line| line.split_once('='));
    secrets.extend(assignments.map(|(_, value)| value.trim().to_owned()));
    secrets.extend(find_secrets(text));
    secrets
}

/// The secrets in a variable of an installer: all of its value, or the passwords of its URLs.
pub fn secrets_of_variable(name: &str, value: &str) -> Vec<String> {
    if is_secret_name(name) {
        return vec![value.to_owned()];
    }
    // The name belongs to it: in a variable for a proxy, a login is found without a scheme.
    let variable = format!("{name}={value}");
    let passwords = passwords_in(variable.as_bytes()).into_iter();
    passwords.flat_map(|password| forms_of_login(&variable, password)).collect()
}

/// The forms in which programs print the login that a password in a URL belongs to: the password,
/// and the pair with its user, which `Proxy-Authorization` has in base64; both as they are written
/// and without percent-encoding.
fn forms_of_login(text: &str, password: Range<usize>) -> Vec<String> {
    let before = text.get(..password.start).unwrap_or_default();
    let start = before.rfind(['/', '=', '"', '\'', ' ']).map_or(0, |mark| mark + 1);
    let mut forms = Vec::new();
    for range in [password.clone(), start..password.end] {
        if let Some(written) = text.get(range) {
            forms.push(written.to_owned());
            forms.push(percent_decoded(written));
        }
    }
    forms
}

/// The login that the `auth` of a registry has in base64: the password, and the pair with its user.
fn login_of_registry(auth: &str) -> Vec<String> {
    let Some(pair) = STANDARD.decode(auth).ok().and_then(|pair| String::from_utf8(pair).ok())
    else {
        return Vec::new();
    };
    let password = pair.split_once(':').map(|(_, password)| password.to_owned());
    password.into_iter().chain([pair]).collect()
}

/// Where a part of a document stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Surroundings {
    Open,
    /// Below a secret-looking name, so that each string in it is a secret.
    Secret,
}

/// Adds the secrets in a part of a document to `secrets`, the same one perhaps several times.
fn collect_secrets(document: &Value, surroundings: Surroundings, secrets: &mut Vec<String>) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_login = name == "auth";
                let is_secret = is_secret_name(name) || is_login;
                let below = if is_secret { Surroundings::Secret } else { surroundings };
                collect_secrets(value, below, secrets);
                if is_login {
                    secrets.extend(value.as_str().into_iter().flat_map(login_of_registry));
                }
                let values = value.as_array().into_iter().flatten().chain([value]);
                for string in values.filter_map(Value::as_str) {
                    secrets.extend(secrets_of_variable(name, string));
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_secrets(item, surroundings, secrets);
            }
        }
        Value::String(string) if surroundings == Surroundings::Secret => {
            secrets.push(string.clone());
        }
        _ => {}
    }
}

/// Hides the secrets in the values of a patch, or the values themselves if `is_hidden`.
fn redact_patch(patch: &mut Patch, is_hidden: bool) {
    if let Some(value) = &mut patch.value {
        redact_value(value, is_hidden);
    }
    patch.value_json = match patch.value_json.take() {
        Some(json) if !json.is_empty() => Some(redact_json(&json, is_hidden)),
        _ => None,
    };
}

/// Hides the secrets in a value, or all of it if `is_hidden`.
fn redact_value(value: &mut Value, is_hidden: bool) {
    if is_hidden {
        *value = HIDDEN.into();
    } else {
        redact(value);
    }
}

/// What is no JSON cannot be searched for secrets, so all of it is hidden.
fn redact_json(json: &str, is_hidden: bool) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(json) else { return HIDDEN.into() };
    redact_value(&mut value, is_hidden);
    value.to_string()
}

/// Whether what stands under a name looks like a secret.
pub fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 11] = [
        "password",
        "passwd",
        "passphrase",
        "token",
        "privatekey",
        "credential",
        "secret",
        "accesskey",
        "apikey",
        "bearer",
        "keydata",
    ];
    let plain = name.to_lowercase().replace(['_', '-'], "");
    ["pullsecret", "auth", "auths"].contains(&plain.as_str())
        || WORDS.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_secret_in_every_form_that_programs_print() {
        let proxy = secrets_of_variable("HTTPS_PROXY", "http://user:p%40ss%2Fword@proxy:3128");
        for form in ["p%40ss%2Fword", "p@ss/word", "user:p%40ss%2Fword", "user:p@ss/word"] {
            assert!(proxy.iter().any(|secret| secret == form), "{form}: {proxy:?}");
        }
        let auth = STANDARD.encode("robot:of-the-registry");
        let pull_secret = format!(r#"{{"auths": {{"registry": {{"auth": "{auth}"}}}}}}"#);
        let secrets = find_secrets(&pull_secret);
        for form in [auth.as_str(), "robot:of-the-registry", "of-the-registry"] {
            assert!(secrets.iter().any(|secret| secret == form), "{form}: {secrets:?}");
        }
        assert!(secrets_of_variable("NO_PROXY", "localhost,example.com").is_empty());
    }
}
