//! What the lab of the stand-ins does now: whether the platform answers, what it lacks, and what
//! lies between it and the installer. Read from the file `cloud` beside the programs, with one
//! `WORD: VALUE` a line; without the file all is well. Nothing here sends a packet.
//!
//! - `away: refused`, `timeout`, `unavailable` (503) or `unknown` (no such name): the platform does
//!   not answer; with `away at STEP` only at that step, such as `create-cluster`.
//! - `authority: TEXT`: the platform's certificate is signed by the authority with this text, which
//!   must be in the file that SSL_CERT_FILE names.
//! - `proxy: URL`: the platform is reached by this proxy alone.
//! - `network: NAME`: the only network for machines that there is.
//! - `quota: RESOURCE`: there is not enough of it for the machines of a cluster.
//! - `mirror: REPOSITORY`: release images can be pulled from here alone.
//! - `bootstrap: fails`: the bootstrap never completes.
//! - `operators: late` or `never`: they are not ready when the installer stops waiting.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The address of everything in the lab, in messages.
const ADDRESS: &str = "192.0.2.5";

pub struct Cloud(String);

impl Cloud {
    /// What the file in this folder says.
    pub fn read(home: &Path) -> Self {
        Self(fs::read_to_string(home.join("cloud")).unwrap_or_default())
    }

    fn value(&self, word: &str) -> Option<&str> {
        let prefix = format!("{word}: ");
        self.0.lines().find_map(|line| line.strip_prefix(&prefix))
    }

    pub fn is(&self, word: &str, value: &str) -> bool {
        self.value(word) == Some(value)
    }

    pub fn quota(&self) -> Option<&str> {
        self.value("quota")
    }

    /// Why a request to the platform fails at this step, in the words of Go's HTTP client; none if
    /// it is answered.
    pub fn refuse_request(&self, step: &str, url: &str) -> Option<String> {
        let host = url.split(['/', ':']).nth(3).unwrap_or_default();
        let post = format!("Post \"{url}\"");
        if let Some(proxy) = self.value("proxy")
            && std::env::var("HTTPS_PROXY").ok().as_deref() != Some(proxy)
        {
            return Some(format!("{post}: dial tcp {ADDRESS}:443: i/o timeout"));
        }
        match self.value(&format!("away at {step}")).or_else(|| self.value("away")) {
            Some("refused") => {
                return Some(format!(
                    "{post}: dial tcp {ADDRESS}:443: connect: connection refused"
                ));
            }
            Some("timeout") => {
                return Some(format!("{post}: dial tcp {ADDRESS}:443: i/o timeout"));
            }
            Some("unavailable") => {
                return Some(format!(
                    "Expected HTTP response code [200 201] when accessing [POST {url}], but got 503 \
                     instead: Service Unavailable"
                ));
            }
            Some("unknown") => {
                return Some(format!(
                    "{post}: dial tcp: lookup {host} on 192.0.2.1:53: no such host"
                ));
            }
            _ => {}
        }
        let authority = self.value("authority")?;
        if is_trusted(authority) {
            return None;
        }
        Some(format!(
            "{post}: tls: failed to verify certificate: x509: certificate signed by unknown authority"
        ))
    }

    /// Whether release images can be pulled by an installation with these image sources.
    pub fn can_pull_release(&self, image_sources: &Value) -> bool {
        let Some(mirror) = self.value("mirror") else { return true };
        let named_image = std::env::var("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE");
        named_image.is_ok_and(|image| image.starts_with(mirror))
            || image_sources.to_string().contains(mirror)
    }

    /// Why the machines of an install-config cannot be placed, as the platform's own check says it.
    pub fn find_misplacement(&self, platform: &str, settings: &Value) -> Option<String> {
        let network = self.value("network")?;
        let wanted_network = settings["network"].as_str()?;
        if wanted_network == network {
            return None;
        }
        Some(format!(
            "platform.{platform}.network: Invalid value: \"{wanted_network}\": unable to find \
             network provided"
        ))
    }
}

/// Whether an authority is among those that a Go program trusts.
fn is_trusted(authority: &str) -> bool {
    let Ok(path) = std::env::var("SSL_CERT_FILE") else { return false };
    fs::read_to_string(path).is_ok_and(|authorities| authorities.contains(authority))
}

/// The URL of the platform's API; none for a platform that has none.
pub fn api_url(platform: &str) -> Option<&'static str> {
    match platform {
        "openstack" => Some("https://keystone.example.com:5000/v3/auth/tokens"),
        "vsphere" => Some("https://vcenter.example.com/sdk"),
        "nutanix" => Some("https://prism.example.com:9440/api/nutanix/v3"),
        "ovirt" => Some("https://engine.example.com/ovirt-engine/sso/oauth/token"),
        _ => None,
    }
}

/// What is wrong with the platform of an install-config without asking the platform.
pub fn find_invalid_setting(platform: &str, settings: &Value) -> Option<String> {
    match platform {
        "vsphere" => find_invalid_vsphere_setting(settings),
        "nutanix" => {
            let prism_central = &settings["prismCentral"];
            for field in ["username", "password", "endpoint"] {
                if prism_central[field].is_null() {
                    return Some(format!(
                        "platform.nutanix.prismCentral.{field}: Required value: must specify the \
                         Prism Central {field}"
                    ));
                }
            }
            None
        }
        "ovirt" => {
            let path = std::env::var("OVIRT_CONFIG").unwrap_or_default();
            let config = fs::read_to_string(path).unwrap_or_default();
            if config.contains("ovirt_url") && config.contains("ovirt_password") {
                return None;
            }
            Some("failed to load the oVirt configuration: no ovirt-config.yaml was found".into())
        }
        _ => None,
    }
}

fn find_invalid_vsphere_setting(settings: &Value) -> Option<String> {
    if !settings["infrastructure"].is_null() {
        return Some("json: unknown field \"infrastructure\"".into());
    }
    if let Some(address) = settings["apiVIP"].as_str()
        && address.parse::<std::net::IpAddr>().is_err()
    {
        return Some(format!(
            "platform.vsphere.apiVIPs: Invalid value: \"{address}\": \"{address}\" is not a valid IP"
        ));
    }
    for (index, vcenter) in settings["vcenters"].as_array().into_iter().flatten().enumerate() {
        if vcenter["user"].is_null() || vcenter["password"].is_null() {
            return Some(format!(
                "platform.vsphere.vcenters[{index}].user: Required value: must specify the username"
            ));
        }
    }
    None
}
