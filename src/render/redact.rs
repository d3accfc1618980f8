//! Hides what must not be shown in a rendered document.

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
                let data = holds_secrets && matches!(name.as_str(), "data" | "stringData");
                if data || (secret(name) && !value.is_null() && *value != "") {
                    *value = HIDDEN.into();
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(redact),
        Value::String(text) => *text = shown(text),
        _ => {}
    }
}

/// A text without what is secret in it: keys, documents, logins of URLs.
fn shown(text: &str) -> String {
    if text.contains("PRIVATE KEY-----") {
        return HIDDEN.into();
    }
    if text.starts_with('{')
        && let Ok(mut document @ Value::Object(_)) = serde_json::from_str(text)
    {
        let before = document.clone();
        redact(&mut document);
        return if document == before { text.to_owned() } else { document.to_string() };
    }
    let words = text.split_inclusive([' ', ',', '\n']);
    words.map(without_login).collect()
}

/// `scheme://user:password@host`, also without its scheme, without what is before the `@`.
fn without_login(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let end = rest.find('/').unwrap_or(rest.len());
    let at = rest[..end].rfind('@').filter(|at| !scheme.is_empty() || rest[..*at].contains(':'));
    match at {
        Some(at) if scheme.is_empty() => format!("{HIDDEN}{}", &rest[at..]),
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => text.to_owned(),
    }
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

/// The secrets in a document: what stands under secret-looking names, or all of it, and the
/// passwords of its URLs.
pub fn secrets_in(text: &str, all: bool) -> Vec<String> {
    let mut found = Vec::new();
    if all {
        found.push(text.trim().to_owned());
        // As in AWS's files.
        let values = text.lines().filter_map(|line| line.split_once('='));
        found.extend(values.map(|(_, value)| value.trim().to_owned()));
    }
    if let Ok(document) = yaml::value(text) {
        collect(&document, false, &mut found);
    }
    found
}

/// What of a variable of an installer is secret: all of it, or the passwords of its URLs.
pub fn secrets_of_variable(name: &str, value: &str) -> Vec<String> {
    if secret(name) {
        return vec![value.to_owned()];
    }
    // With its name: the address of a proxy needs no scheme.
    let variable = format!("{name}={value}");
    let passwords = passwords_in(variable.as_bytes()).into_iter();
    passwords.flat_map(|password| forms_of_login(&variable, password)).collect()
}

/// The login that a password in a URL belongs to: the password, and the pair with its user, which
/// `Proxy-Authorization` has in base64; both as they are written and without percent-encoding.
fn forms_of_login(text: &str, password: Range<usize>) -> Vec<String> {
    let before = text.get(..password.start).unwrap_or_default();
    let begin = before.rfind(['/', '=', '"', '\'', ' ']).map_or(0, |mark| mark + 1);
    let written = [text.get(password.clone()), text.get(begin..password.end)];
    let written = written.into_iter().flatten();
    written.flat_map(|text| [text.to_owned(), percent_decoded(text)]).collect()
}

/// The login that the `auth` of a registry has in base64: the pair and its password.
fn login_of_registry(auth: &str) -> Vec<String> {
    let Some(pair) = STANDARD.decode(auth).ok().and_then(|pair| String::from_utf8(pair).ok())
    else {
        return Vec::new();
    };
    let password = pair.split_once(':').map(|(_, password)| password.to_owned());
    password.into_iter().chain([pair]).collect()
}

fn collect(document: &Value, secretly: bool, found: &mut Vec<String>) {
    match document {
        Value::Object(map) => {
            for (name, value) in map {
                collect(value, secretly || secret(name) || name == "auth", found);
                let texts = value.as_array().into_iter().flatten().chain([value]);
                let texts = texts.filter_map(Value::as_str);
                if name == "auth" {
                    found.extend(value.as_str().into_iter().flat_map(login_of_registry));
                }
                found.extend(texts.flat_map(|text| secrets_of_variable(name, text)));
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

/// Whether what stands under a name looks like a secret.
pub fn secret(name: &str) -> bool {
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
        let known = secrets_in(&pull_secret, false);
        for form in [auth.as_str(), "robot:of-the-registry", "of-the-registry"] {
            assert!(known.iter().any(|secret| secret == form), "{form}: {known:?}");
        }
        assert!(secrets_of_variable("NO_PROXY", "localhost,example.com").is_empty());
    }
}
