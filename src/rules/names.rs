//! Decides what may be a name. Names become paths, DNS labels and arguments of programs, so only
//! what is safe as all of them is allowed. Never looks for other objects of a name.

use crate::model::kinds::{Kind, NameFormat};
use crate::model::refusal::Refusal;

/// Refuses what is no DNS label (RFC 1123): at most 63 lower-case letters, digits and dashes.
/// `purpose` is what the name was to be, for the message.
pub fn check_dns_label(purpose: &str, name: &str) -> Result<(), Refusal> {
    let why = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > 63 {
        format!("it has {} characters; the limit is 63", name.chars().count())
    } else if !name.bytes().all(is_label_byte) {
        "it may contain only lower-case letters, digits and dashes".to_owned()
    } else if name.starts_with('-') || name.ends_with('-') {
        "it begins or ends with a dash".to_owned()
    } else {
        return Ok(());
    };
    Err(refuse_name(name, purpose, why))
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

fn refuse_name(name: &str, purpose: &str, why: String) -> Refusal {
    Refusal::invalid(format!("`{name}` is not usable as {purpose}")).because(why)
}

/// A word after `a` or `an`, by how its first letter is read: an IPClaim, an NMStateConfig.
fn with_article(word: &str) -> String {
    let is_read_with_vowel = word.starts_with(['A', 'E', 'I', 'O']) || word.starts_with("NM");
    let article = if is_read_with_vowel { "an" } else { "a" };
    format!("{article} {word}")
}

/// Refuses a name that objects of a kind cannot have.
pub fn check_name(kind: Kind, name: &str) -> Result<(), Refusal> {
    let purpose = format!("the name of {}", with_article(kind.name()));
    match kind.name_format() {
        NameFormat::Label => check_dns_label(&purpose, name),
        NameFormat::Dotted => check_dotted_name(name, &purpose),
        NameFormat::DottedWithCapitals => check_dotted_name(&name.to_ascii_lowercase(), &purpose)
            .map_err(|refusal| refuse_name(name, &purpose, refusal.causes.join("; "))),
    }
}

/// Refuses what cannot be a name in DNS: labels with dots between them, without a wildcard.
pub fn check_dns_name(purpose: &str, name: &str) -> Result<(), Refusal> {
    check_dotted_name(name, purpose)
}

/// Refuses what is not a list of DNS labels with dots between them, 253 characters at most.
fn check_dotted_name(name: &str, purpose: &str) -> Result<(), Refusal> {
    if name.len() > 253 {
        let why = format!("it has {} characters; the limit is 253", name.len());
        return Err(refuse_name(name, purpose, why));
    }
    for part in name.split('.') {
        if part.is_empty() && !name.is_empty() {
            let why = "it begins or ends with a dot, or has two dots in a row";
            return Err(refuse_name(name, purpose, why.to_owned()));
        }
        // The message is about the whole name, not about the part.
        check_dns_label(purpose, part).map_err(|refusal| Refusal {
            what: format!("`{name}` is not usable as {purpose}"),
            ..refusal
        })?;
    }
    Ok(())
}

/// Whether a text can be the key of a label or an annotation: a name, perhaps behind a domain.
pub fn is_label_key(key: &str) -> bool {
    let Some((domain, name)) = key.split_once('/') else {
        return !key.is_empty() && is_label_value(key);
    };
    let is_domain = domain.split('.').all(|part| check_dns_label("a domain", part).is_ok());
    is_domain && !name.is_empty() && is_label_value(name)
}

/// Whether a text can be the value of a label: at most 63 letters, digits, dashes, dots and
/// underscores, a letter or digit first and last. It may be empty.
pub fn is_label_value(value: &str) -> bool {
    value.len() <= 63
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !value.starts_with(['-', '_', '.'])
        && !value.ends_with(['-', '_', '.'])
}

/// Whether a text can be the key of a value in a Secret or a ConfigMap, and so the name of a file.
pub fn is_data_key(key: &str) -> bool {
    let is_path = key == "." || key.starts_with("..");
    !key.is_empty()
        && !is_path
        && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

/// Whether a variable may be given to an installer: it is read as data, and starts nothing.
pub fn is_installer_variable(name: &str) -> bool {
    const CLOUDS: [&str; 8] =
        ["AWS_", "AZURE_", "GOOGLE_", "IBMCLOUD_", "NUTANIX_", "OS_", "OVIRT_", "VSPHERE_"];
    const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"];
    // The release of a cluster is checked before it is installed: a variable must not replace it.
    // Files are given by the driver alone.
    let is_dangerous = name == "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
        || ["_FILE", "_CONFIG", "_PATH", "_DIR", "_PROCESS"]
            .iter()
            .any(|suffix| name.ends_with(suffix));
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_known = name.starts_with("OPENSHIFT_")
        || name.starts_with("TF_VAR_")
        || PROXIES.contains(&name.to_ascii_uppercase().as_str())
        || CLOUDS.iter().any(|cloud| name.starts_with(cloud));
    is_plain && is_known && !is_dangerous
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        let long = "a".repeat(64);
        for name in ["../x", "a/b", "-rf", "a-", "", "Foo", "a b", "a\u{202e}b", "a.b", &long] {
            assert!(check_dns_label("a name", name).is_err(), "{name}");
        }
        check_dns_label("a name", &"a".repeat(63)).unwrap();
        check_name(Kind::ClusterImageSet, "ocp-release-4.18.30-x86-64-for-4.18.0-0-to-4.19.0-0")
            .unwrap();
        check_name(Kind::ClusterImageSet, "a..b").unwrap_err();
    }
}
