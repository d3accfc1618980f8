//! What the types of InfraEnvs and NMStateConfigs do not say, and what of them is fixed.

use serde_json::Value;

use crate::model::infra_env::{InfraEnv, Proxy};
use crate::model::nmstate_config::NMStateConfig;

use super::hosts::mac;
use super::names::{label_key, label_value};

const ARCHITECTURES: [&str; 5] = ["x86_64", "aarch64", "arm64", "ppc64le", "s390x"];
const IMAGE_TYPES: [&str; 2] = ["full-iso", "minimal-iso"];
const IPXE: [&str; 2] = ["DiscoveryImageAlways", "BootOrderControl"];
const OPERATIONS: [&str; 3] = ["append", "replace", "delete"];
const KEYS: [&str; 7] = [
    "ssh-rsa",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Every problem of one.
pub fn check(one: &InfraEnv) -> Vec<String> {
    let spec = &one.spec;
    let mut wrong = Vec::new();
    if spec.pull_secret_ref.name.is_empty() {
        wrong.push("spec.pullSecretRef.name is missing: a Secret of its namespace".into());
    }
    if !spec.cpu_architecture.is_empty() && !ARCHITECTURES.contains(&&*spec.cpu_architecture) {
        let all = ARCHITECTURES.join(", ");
        wrong.push(format!("spec.cpuArchitecture `{}` is none of {all}", spec.cpu_architecture));
    }
    for (field, value, all) in [
        ("imageType", &spec.image_type, IMAGE_TYPES),
        ("ipxeScriptType", &spec.ipxe_script_type, IPXE),
    ] {
        if !value.is_empty() && !all.contains(&value.as_str()) {
            wrong.push(format!("spec.{field} `{value}` is none of {}", all.join(", ")));
        }
    }
    if spec.proxy.as_ref().is_some_and(is_empty) {
        wrong.push("spec.proxy needs httpProxy or httpsProxy".into());
    }
    if !spec.additional_ntp_sources.is_empty() && !spec.ntp_sources.is_empty() {
        wrong.push("ntp_sources and additional_ntp_sources are mutually exclusive".into());
    }
    for source in spec.additional_ntp_sources.iter().chain(&spec.ntp_sources) {
        if !is_host(source) {
            wrong.push(format!("Invalid NTP source: {source}"));
        }
    }
    if !spec.ssh_authorized_key.trim().is_empty() && !spec.ssh_authorized_key.lines().all(is_key) {
        wrong.push("SSH key is not valid".into());
    }
    if !spec.ignition_config_override.is_empty() {
        wrong.extend(object("spec.ignitionConfigOverride", &spec.ignition_config_override));
    }
    for (at, one) in spec.kernel_arguments.iter().enumerate() {
        if !OPERATIONS.contains(&one.operation.as_str()) {
            let all = OPERATIONS.join(", ");
            let what = &one.operation;
            wrong.push(format!("spec.kernelArguments[{at}].operation `{what}` is none of {all}"));
        }
        if !is_argument(&one.value) {
            let what = &one.value;
            wrong.push(format!("spec.kernelArguments[{at}].value `{what}` is no kernel argument"));
        }
    }
    for (key, value) in &spec.agent_labels {
        if !label_value(value) || !label_key(key) {
            wrong.push(format!("spec.agentLabels.{key}: `{value}` is no label"));
        }
    }
    wrong
}

/// What has an effect elsewhere, and none here.
pub fn warnings(one: &InfraEnv) -> Vec<String> {
    let spec = &one.spec;
    let all = [
        (
            spec.image_type == "minimal-iso",
            "imageType minimal-iso",
            "the image is whole, as --base is",
        ),
        (
            !spec.os_image_version.is_empty(),
            "osImageVersion",
            "`poolctl infraenv iso --base` says what is booted",
        ),
        (
            spec.ipxe_script_type == "BootOrderControl",
            "ipxeScriptType BootOrderControl",
            "no iPXE script is made, hosts boot from an image",
        ),
        (
            spec.mirror_registry_ref.is_some(),
            "mirrorRegistryRef",
            "ignitionConfigOverride can bring a registries.conf",
        ),
    ];
    let name = &one.metadata.name;
    let said = all.into_iter().filter(|(set, ..)| *set);
    said.map(|(_, field, why)| format!("`{name}`: spec.{field} has no effect here: {why}"))
        .collect()
}

/// A new one says either which cluster it is for, or which version.
pub fn check_new(one: &InfraEnv) -> Result<(), String> {
    if one.spec.cluster_ref.is_some() && !one.spec.os_image_version.is_empty() {
        return Err(
            "Either Spec.ClusterRef or Spec.OSImageVersion should be specified (not both).".into(),
        );
    }
    Ok(())
}

/// What is fixed once it is made.
pub fn check_change(old: &InfraEnv, new: &InfraEnv, installed: bool) -> Result<(), String> {
    let fixed = |what: &str| {
        Err(format!("Attempted to change Spec.{what} which is immutable after InfraEnv creation."))
    };
    if old.spec.cluster_ref != new.spec.cluster_ref {
        return fixed("ClusterRef");
    }
    if old.architecture() != new.architecture() {
        return fixed("CpuArchitecture");
    }
    let version = |one: &InfraEnv| one.spec.os_image_version.clone();
    if version(old) != version(new)
        && !version(new).is_empty()
        && new.spec.cluster_ref.is_some()
        && !installed
    {
        return Err(
            "spec.OSImageVersion is not valid. It can't be added alongside with a clusterRef when \
                    the cluster is not installed yet."
                .into(),
        );
    }
    Ok(())
}

/// Every problem of one.
pub fn check_network(one: &NMStateConfig) -> Vec<String> {
    let mut wrong = Vec::new();
    if one.spec.interfaces.is_empty() {
        wrong.push("spec.interfaces is empty: no host would have it".into());
    }
    let mut known: Vec<String> = Vec::new();
    for (at, one) in one.spec.interfaces.iter().enumerate() {
        if let Err(why) = mac(&one.mac_address) {
            wrong.push(format!("spec.interfaces[{at}].macAddress: {why}"));
        }
        let lower = one.mac_address.to_lowercase();
        if known.contains(&lower) {
            wrong.push(format!("spec.interfaces[{at}].macAddress: {lower} is there twice"));
        }
        known.push(lower);
        if one.name.is_empty() {
            wrong.push(format!("spec.interfaces[{at}].name is missing"));
        }
    }
    if !one.spec.config.is_object() {
        wrong.push("spec.config is no nmstate: a mapping with interfaces, routes, ...".into());
    }
    wrong
}

fn is_empty(one: &Proxy) -> bool {
    one.http_proxy.is_empty() && one.https_proxy.is_empty()
}

/// A name in DNS, or an address.
fn is_host(text: &str) -> bool {
    let part = |part: &str| {
        let letter = |one: u8| one.is_ascii_alphanumeric() || one == b'-' || one == b'_';
        (1..=63).contains(&part.len())
            && part.bytes().all(letter)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.parse::<std::net::IpAddr>().is_ok()
        || (!text.is_empty() && text.len() <= 253 && text.split('.').all(part))
}

/// Whether a line is one public key of SSH, or nothing.
pub fn is_key(line: &str) -> bool {
    use base64::Engine;
    let mut words = line.split_whitespace();
    let Some(kind) = words.next() else { return true };
    let body = words.next().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(body).unwrap_or_default();
    // The key says its kind again.
    let again = bytes.get(4..4 + kind.len()).is_some_and(|said| said == kind.as_bytes());
    KEYS.contains(&kind) && again
}

/// Words without blanks, or in quotes.
fn is_argument(text: &str) -> bool {
    let mut quoted = false;
    for one in text.chars() {
        match one {
            '"' => quoted = !quoted,
            ' ' | '\t' | '\n' | '\r' if !quoted => return false,
            _ => {}
        }
    }
    !quoted && !text.is_empty()
}

/// Why a text is no JSON object.
pub fn object(field: &str, text: &str) -> Option<String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => None,
        Ok(_) => Some(format!("{field} is no JSON object")),
        Err(error) => Some(format!("{field} is no JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_host_key_or_argument_is_told_apart() {
        for (text, good) in
            [("ntp.lab", true), ("192.0.2.1", true), ("::1", true), ("a b", false), ("-x", false)]
        {
            assert_eq!(is_host(text), good, "{text}");
        }
        for (text, good) in
            [("a=b", true), ("a=\"b c\"", true), ("a b", false), ("\"", false), ("", false)]
        {
            assert_eq!(is_argument(text), good, "{text}");
        }
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2rPHp+8pqQ0i0MkmjIlz6l8uLSsLfGQVNTjbEVVSMi me";
        assert!(is_key(key) && !is_key("ssh-ed25519 AAAA me") && !is_key("nonsense"));
    }
}
