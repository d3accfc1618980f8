//! The site that a lab stands in, `spec.site` of the Settings: how its programs reach the world,
//! and what they find here in its place. Here it is only data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::infra_env::Proxy;
use super::meta::Key;

/// What is shown in the place of a password.
const HIDDEN_PASSWORD: &str = "(hidden)";

/// What all clusters of a site have in common: proxy, certificates, mirrors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Site {
    /// Proxies for installers, oc, new clusters and discovery images. An install-config or an
    /// `InfraEnv` with its own proxies keeps them. Passwords of these URLs are never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// CA certificates in PEM that programs, new clusters and hosts trust in addition to those of
    /// the system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trust_bundle: String,
    /// Where images are pulled from instead: each repository with its mirrors.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Directory where installers keep images that they download: an absolute path. By default
    /// the directory cache beside the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_directory: Option<PathBuf>,
    /// openshift-install programs by the version or the digest (sha256:...) of their release, with
    /// absolute paths.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub installers: BTreeMap<String, PathBuf>,
    /// A Secret with a pull secret (.dockerconfigjson) for all clusters. For the same registry, the
    /// pull secret of a cluster is preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<SecretReference>,
    /// Secrets with CA certificates that programs trust, too, but clusters do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_certificate_authorities: Vec<SecretReference>,
    /// Reasons of failed installations that Hive tries again.
    #[schemars(extend(
        "x-no-effect" = "poolctl tries again by the class of a failure; limit the attempts of a \
                         pool by installAttemptsLimit"
    ))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_reasons: Option<Vec<String>>,
}

/// A Secret of any namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretReference {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret.
    pub namespace: String,
}

impl SecretReference {
    /// The key of the Secret.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }
}

impl Site {
    /// Puts the passwords of the existing site in the place of those that were hidden when it was
    /// shown. False if a password stays hidden, because the existing site has no such URL.
    pub fn restore_passwords(&mut self, existing: Option<&Self>) -> bool {
        let Some(proxy) = &mut self.proxy else { return true };
        let existing_proxy = existing.and_then(|site| site.proxy.as_ref());
        let mut are_restored = true;
        for (url, existing_url) in [
            (&mut proxy.http_proxy, existing_proxy.map(|existing| &existing.http_proxy)),
            (&mut proxy.https_proxy, existing_proxy.map(|existing| &existing.https_proxy)),
        ] {
            if !has_hidden_password(url) {
                continue;
            }
            match existing_url {
                Some(existing_url) if hide_password(existing_url) == *url => {
                    url.clone_from(existing_url);
                }
                _ => are_restored = false,
            }
        }
        are_restored
    }
}

/// Hides the passwords of proxies in the document of the Settings.
pub fn hide_passwords(settings: &mut Value) {
    for field in ["httpProxy", "httpsProxy"] {
        if let Some(Value::String(url)) = settings.pointer_mut(&format!("/spec/site/proxy/{field}"))
        {
            *url = hide_password(url);
        }
    }
}

/// The URL with its password hidden. A valid URL has no slash before the end of its login.
fn hide_password(url: &str) -> String {
    let Some((before, after)) = split_at_password(url) else { return url.to_owned() };
    format!("{before}{HIDDEN_PASSWORD}{after}")
}

fn has_hidden_password(url: &str) -> bool {
    split_at_password(url).is_some_and(|(before, after)| {
        url[before.len()..].strip_suffix(after) == Some(HIDDEN_PASSWORD)
    })
}

/// What stands before and after the password of a URL; none if it has no password.
fn split_at_password(url: &str) -> Option<(&str, &str)> {
    let authority_start = url.find("://")? + "://".len();
    let authority = &url[authority_start..];
    let authority = &authority[..authority.find(['/', '?', '#']).unwrap_or(authority.len())];
    let login = &authority[..authority.rfind('@')?];
    let password_start = authority_start + login.find(':')? + 1;
    let password_end = authority_start + login.len();
    (password_start < password_end).then(|| (&url[..password_start], &url[password_end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site_with_proxy(url: &str) -> Site {
        let proxy = Proxy { https_proxy: url.into(), ..Proxy::default() };
        Site { proxy: Some(proxy), ..Site::default() }
    }

    #[test]
    fn a_password_of_a_proxy_is_hidden_and_restored() {
        for (url, shown) in [
            ("http://user:pass@proxy:3128", "http://user:(hidden)@proxy:3128"),
            ("http://user:p@ss@proxy/x", "http://user:(hidden)@proxy/x"),
            ("http://user@proxy:3128", "http://user@proxy:3128"),
            ("http://proxy:3128", "http://proxy:3128"),
            ("http://proxy:3128/a:b@c", "http://proxy:3128/a:b@c"),
        ] {
            assert_eq!(hide_password(url), shown);
            let mut site = site_with_proxy(shown);
            assert!(site.restore_passwords(Some(&site_with_proxy(url))), "{url}");
            assert_eq!(site, site_with_proxy(url));
        }
        let mut moved = site_with_proxy("http://user:(hidden)@elsewhere:3128");
        assert!(!moved.restore_passwords(Some(&site_with_proxy("http://user:pass@proxy:3128"))));
        assert!(!moved.restore_passwords(None));
    }
}
