//! Validates `spec.site` of the Settings. Looks for no file and asks no network.

use crate::model::site::{SecretReference, Site};

use super::infra_envs::check_proxy;

/// How a certificate in PEM begins.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// How the digest of a release begins.
const DIGEST: &str = "sha256:";

/// Every problem of a site.
pub fn check_site(site: &Site) -> Vec<String> {
    let mut problems = Vec::new();
    problems.extend(site.proxy.iter().flat_map(|proxy| check_proxy("spec.site.proxy", proxy)));
    if !site.trust_bundle.is_empty() && !site.trust_bundle.contains(CERTIFICATE) {
        problems.push("spec.site.trustBundle has no certificate in PEM".into());
    }
    for (source, mirrors) in &site.mirrors {
        if mirrors.is_empty() {
            problems.push(format!("spec.site.mirrors: `{source}` has no mirrors"));
        }
        for repository in mirrors.iter().chain([source]) {
            if !is_repository(repository) {
                problems.push(format!(
                    "spec.site.mirrors: `{repository}` is not a repository like \
                     mirror.example.com:5000/ocp"
                ));
            }
        }
    }
    if site.cache_directory.as_ref().is_some_and(|path| !path.is_absolute()) {
        problems.push("spec.site.cacheDirectory is not an absolute path".into());
    }
    for (key, path) in &site.installers {
        if !is_release_key(key) {
            problems.push(format!(
                "spec.site.installers: `{key}` is neither a version like 4.18.3 nor a digest \
                 like {DIGEST}0123..."
            ));
        }
        if !path.is_absolute() {
            problems.push(format!("spec.site.installers: the path of `{key}` is not absolute"));
        }
    }
    for reference in site.pull_secret_ref.iter().chain(&site.additional_certificate_authorities) {
        problems.extend(check_reference(reference));
    }
    problems
}

/// A registry, perhaps with a path, and without a tag or a digest.
fn is_repository(repository: &str) -> bool {
    let has_tag = repository.rsplit_once('/').is_some_and(|(_, name)| name.contains(':'));
    !repository.is_empty()
        && repository.chars().all(is_repository_letter)
        && !repository.contains("://")
        && !has_tag
}

fn is_repository_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ".-_/:[]*".contains(letter)
}

/// A version, as `openshift-install version` says it, or the digest of a release image.
fn is_release_key(key: &str) -> bool {
    match key.strip_prefix(DIGEST) {
        Some(digits) => digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => {
            key.starts_with(|letter: char| letter.is_ascii_digit())
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
        }
    }
}

fn check_reference(reference: &SecretReference) -> Option<String> {
    if reference.name.is_empty() || reference.namespace.is_empty() {
        return Some("spec.site refers to a Secret without a name or a namespace".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_site_names_is_what_programs_can_read() {
        for (repository, expected) in [
            ("quay.io/openshift-release-dev/ocp-release", true),
            ("mirror.example.com:5000", true),
            ("mirror.example.com:5000/ocp", true),
            ("mirror.example.com:5000/ocp:4.18", false),
            ("mirror.example.com/ocp@sha256:0", false),
            ("https://mirror.example.com", false),
            ("", false),
        ] {
            assert_eq!(is_repository(repository), expected, "{repository}");
        }
        let digest = format!("sha256:{}", "1".repeat(64));
        for (key, expected) in [
            ("4.18.3", true),
            ("4.19.0-rc.1", true),
            (digest.as_str(), true),
            ("sha256:0", false),
            ("latest", false),
            ("", false),
        ] {
            assert_eq!(is_release_key(key), expected, "{key}");
        }
    }
}
