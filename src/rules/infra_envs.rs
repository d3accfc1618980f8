//! What the types of InfraEnvs and NMStateConfigs do not say, and what of them is fixed.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::address::Subnet;
use crate::model::agent::ClusterReference;
use crate::model::hardware::mac;
use crate::model::infra_env::{InfraEnv, Proxy};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::annotations;
use super::names::{label_key, label_value};
use super::selectors;

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
    wrong.extend(annotations::check(Kind::InfraEnv, &one.metadata.annotations).err());
    wrong.extend(spec.cluster_ref.iter().flat_map(reference));
    wrong.extend(spec.proxy.iter().flat_map(proxies));
    let selector = &spec.nm_state_config_label_selector;
    wrong.extend(selectors::check("spec.nmStateConfigLabelSelector", selector));
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

/// No two of a namespace are for one interface: nobody could say which of them is followed.
pub fn are_different(state: &State) -> Result<(), Refusal> {
    let changed = state.nmstate_configs.difference().filter_map(|change| {
        let before = change.before.map(|one| &one.spec.interfaces);
        let after = change.after?;
        (before != Some(&after.spec.interfaces)).then(|| after.metadata.key())
    });
    let changed: HashSet<Key> = changed.collect();
    if changed.is_empty() {
        return Ok(());
    }
    let mut known: HashMap<(&str, String), Key> = HashMap::new();
    for one in state.nmstate_configs.rows() {
        let key = one.metadata.key();
        for interface in &one.spec.interfaces {
            let mac = interface.mac_address.to_lowercase();
            let other = known.insert((one.metadata.namespace.as_str(), mac.clone()), key.clone());
            let new = |other: &Key| changed.contains(other) || changed.contains(&key);
            let Some(other) = other.filter(|other| *other != key && new(other)) else { continue };
            let (first, second) = (&other.name, &key.name);
            let what = format!("NMStateConfigs `{first}` and `{second}` would both be for {mac}");
            return Err(Refusal::conflict(what)
                .because("nobody could say which of them its host is to follow")
                .advise(format!(
                    "poolctl get nmstateconfig {first} -n {} -o yaml",
                    other.namespace
                )));
        }
    }
    Ok(())
}

/// A reference is fixed: half of one would lead nowhere for ever.
fn reference(one: &ClusterReference) -> Vec<String> {
    let parts = [("name", &one.name), ("namespace", &one.namespace)];
    let missing = parts.into_iter().filter(|(_, text)| text.is_empty());
    let text = |(field, _): (&str, &String)| {
        format!(
            "spec.clusterRef.{field} is missing; leave out clusterRef for hosts without a cluster"
        )
    };
    missing.map(text).collect()
}

fn proxies(one: &Proxy) -> Vec<String> {
    let mut wrong = Vec::new();
    if one.http_proxy.is_empty() && one.https_proxy.is_empty() {
        wrong.push("spec.proxy needs httpProxy or httpsProxy".into());
    }
    for (field, text) in [("httpProxy", &one.http_proxy), ("httpsProxy", &one.https_proxy)] {
        if !text.is_empty() && !is_proxy(text) {
            // Not said again: there may be a password in it.
            let like = "http://proxy.example.com:3128";
            wrong.push(format!("spec.proxy.{field} is no address like {like}"));
        }
    }
    let exempt = one.no_proxy.split(',').map(str::trim).filter(|_| !one.no_proxy.is_empty());
    for part in exempt.filter(|part| !is_exempt(part)) {
        wrong.push(format!(
            "spec.proxy.noProxy: `{part}` is no name, .domain, address, network or *; commas are between them"
        ));
    }
    wrong
}

fn is_proxy(text: &str) -> bool {
    let plain = !text.chars().any(|one| one.is_control() || one.is_whitespace());
    let named = text.starts_with("http://") || text.starts_with("https://");
    plain && named && url::Url::parse(text).is_ok_and(|url| url.has_host())
}

/// What is reached without a proxy.
fn is_exempt(part: &str) -> bool {
    let name = part.strip_prefix('.').unwrap_or(part);
    part == "*" || part.parse::<Subnet>().is_ok() || is_host(name)
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
        for (text, good) in [
            ("http://proxy.lab:3128", true),
            ("https://me:secret@[2001:db8::1]/", true),
            ("proxy.lab:3128", false),
            ("http:proxy.lab", false),
            ("http://", false),
            ("socks5://proxy.lab", false),
            ("http://a b", false),
        ] {
            assert_eq!(is_proxy(text), good, "{text}");
        }
        for (text, good) in [("*", true), (".lab", true), ("10.0.0.0/8", true), ("", false)] {
            assert_eq!(is_exempt(text), good, "{text}");
        }
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2rPHp+8pqQ0i0MkmjIlz6l8uLSsLfGQVNTjbEVVSMi me";
        assert!(is_key(key) && !is_key("ssh-ed25519 AAAA me") && !is_key("nonsense"));
    }
}
