//! Names become paths, DNS labels and arguments: only what is safe as all of them is a name.

use crate::model::kinds::{Kind, Names};
use crate::model::refusal::Refusal;

/// A DNS label (RFC 1123): at most 63 lower-case letters, digits and dashes.
pub fn label(what: &str, name: &str) -> Result<(), Refusal> {
    let wrong =
        |why: &str| Err(Refusal::invalid(format!("`{name}` is not usable as {what}")).because(why));
    let end = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = name.as_bytes();
    if name.is_empty() {
        return wrong("it is empty");
    }
    if bytes.len() > 63 {
        return wrong(&format!("it has {} characters, and 63 are the most", name.chars().count()));
    }
    if !bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    {
        return wrong("only lower-case letters, digits and dashes may be in it");
    }
    if !end(bytes.first()) || !end(bytes.last()) {
        return wrong("it begins or ends with a dash");
    }
    Ok(())
}

/// Refuses a name that objects of a kind cannot have.
pub fn name_of(kind: Kind, name: &str) -> Result<(), Refusal> {
    let what = format!("the name of a {}", kind.name());
    let lowered = name.to_ascii_lowercase();
    let name = match kind.names() {
        Names::Label => return label(&what, name),
        Names::Dotted => name,
        Names::DottedWithCapitals => &lowered,
    };
    if name.len() > 253 {
        return Err(Refusal::invalid(format!("`{name}` is not usable as {what}"))
            .because(format!("it has {} characters, and 253 are the most", name.len())));
    }
    let part = |part: &str| match part {
        "" if !name.is_empty() => Err(Refusal::invalid("")
            .because("a dot is at its beginning or its end, or follows another")),
        part => label(&what, part),
    };
    name.split('.').try_for_each(part).map_err(|mut refusal| {
        refusal.what = format!("`{name}` is not usable as {what}");
        refusal
    })
}

/// Whether a text can be the key of a label or an annotation: a name, perhaps behind a domain.
pub fn label_key(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let part = |part: &str| label("", part).is_ok();
    !name.is_empty() && label_value(name) && domain.is_none_or(|domain| domain.split('.').all(part))
}

/// Whether a text can be the value of a label.
pub fn label_value(text: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().all(inner) && end(bytes.first()) && end(bytes.last())
}

/// Whether a variable may be given to an installer: it is read as data, and starts nothing.
pub fn installer_variable(name: &str) -> bool {
    const CLOUDS: [&str; 8] =
        ["AWS_", "AZURE_", "GOOGLE_", "IBMCLOUD_", "NUTANIX_", "OS_", "OVIRT_", "VSPHERE_"];
    const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"];
    // The release is checked, and files are the driver's to give.
    let leads_away = name == "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
        || ["_FILE", "_CONFIG", "_PATH", "_DIR", "_PROCESS"].iter().any(|end| name.ends_with(end));
    let plain = name.bytes().all(|one| one.is_ascii_alphanumeric() || one == b'_');
    let known = name.starts_with("OPENSHIFT_")
        || name.starts_with("TF_VAR_")
        || PROXIES.contains(&name.to_ascii_uppercase().as_str())
        || CLOUDS.iter().any(|cloud| name.starts_with(cloud));
    plain && known && !leads_away
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        let long = "a".repeat(64);
        for wrong in ["../x", "a/b", "-rf", "a-", "", "Foo", "a b", "a\u{202e}b", "a.b", &long] {
            assert!(label("a name", wrong).is_err(), "{wrong}");
        }
        label("a name", &"a".repeat(63)).unwrap();
        name_of(Kind::ClusterImageSet, "ocp-release-4.18.30-x86-64-for-4.18.0-0-to-4.19.0-0")
            .unwrap();
        name_of(Kind::ClusterImageSet, "a..b").unwrap_err();
    }
}
