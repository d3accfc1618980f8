//! Validates InfraEnvs and NMStateConfigs: the fields whose types allow too much, and those that
//! may not change. Never looks at the hosts that use them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::address::Subnet;
use crate::model::agent::ClusterReference;
use crate::model::hardware::check_mac_address;
use crate::model::infra_env::{InfraEnv, KernelArgument, Proxy};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::annotations;
use super::certificates::find_bundle_problem;
use super::names::{is_label_key, is_label_value};
use super::nmstate::find_nmstate_problems;
use super::selectors;

const ARCHITECTURES: [&str; 5] = ["x86_64", "aarch64", "arm64", "ppc64le", "s390x"];
const IMAGE_TYPES: [&str; 2] = ["full-iso", "minimal-iso"];
const IPXE_SCRIPT_TYPES: [&str; 2] = ["DiscoveryImageAlways", "BootOrderControl"];
const KERNEL_ARGUMENT_OPERATIONS: [&str; 3] = ["append", "replace", "delete"];
const SSH_KEY_TYPES: [&str; 7] = [
    "ssh-rsa",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Says what is wrong with a field of the spec that is empty or one of these words.
fn find_wrong_word(field: &str, value: &str, allowed: &[&str]) -> Option<String> {
    if value.is_empty() || allowed.contains(&value) {
        return None;
    }
    Some(format!("spec.{field} `{value}` is none of {}", allowed.join(", ")))
}

/// Every problem of an InfraEnv.
pub fn check(infra_env: &InfraEnv) -> Vec<String> {
    let spec = &infra_env.spec;
    let mut problems = Vec::new();
    if spec.pull_secret_ref.name.is_empty() {
        problems.push(
            "spec.pullSecretRef.name is missing; it names a Secret of the same namespace".into(),
        );
    }
    problems.extend(find_wrong_word("cpuArchitecture", &spec.cpu_architecture, &ARCHITECTURES));
    problems.extend(find_wrong_word("imageType", &spec.image_type, &IMAGE_TYPES));
    problems.extend(find_wrong_word("ipxeScriptType", &spec.ipxe_script_type, &IPXE_SCRIPT_TYPES));
    problems.extend(annotations::check(Kind::InfraEnv, &infra_env.metadata.annotations).err());
    problems.extend(spec.cluster_ref.iter().flat_map(check_cluster_reference));
    problems.extend(spec.proxy.iter().flat_map(|proxy| check_proxy("spec.proxy", proxy)));
    let selector = &spec.nm_state_config_label_selector;
    problems.extend(selectors::check("spec.nmStateConfigLabelSelector", selector));
    if !spec.additional_ntp_sources.is_empty() && !spec.ntp_sources.is_empty() {
        problems.push("ntp_sources and additional_ntp_sources are mutually exclusive".into());
    }
    for source in spec.additional_ntp_sources.iter().chain(&spec.ntp_sources) {
        if !is_host(source) {
            problems.push(format!("Invalid NTP source: {source}"));
        }
    }
    if !spec.ssh_authorized_key.trim().is_empty()
        && !spec.ssh_authorized_key.lines().all(is_ssh_key)
    {
        problems.push("SSH key is not valid".into());
    }
    if !spec.additional_trust_bundle.is_empty()
        && let Some(why) = find_bundle_problem(&spec.additional_trust_bundle)
    {
        problems.push(format!("spec.additionalTrustBundle {why}"));
    }
    if !spec.ignition_config_override.is_empty() {
        problems.extend(find_json_object_problem(
            "spec.ignitionConfigOverride",
            &spec.ignition_config_override,
        ));
    }
    problems.extend(check_kernel_arguments(&spec.kernel_arguments));
    for (key, value) in &spec.agent_labels {
        if !is_label_value(value) || !is_label_key(key) {
            problems.push(format!("spec.agentLabels.{key}: `{value}` is not a label"));
        }
    }
    problems
}

fn check_kernel_arguments(arguments: &[KernelArgument]) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, KernelArgument { operation, value }) in arguments.iter().enumerate() {
        let path = format!("spec.kernelArguments[{index}]");
        if !KERNEL_ARGUMENT_OPERATIONS.contains(&operation.as_str()) {
            let allowed = KERNEL_ARGUMENT_OPERATIONS.join(", ");
            problems.push(format!("{path}.operation `{operation}` is none of {allowed}"));
        }
        if !is_kernel_argument(value) {
            problems.push(format!("{path}.value `{value}` is not a kernel argument"));
        }
    }
    problems
}

/// Checks a new InfraEnv: it names either a cluster or a version, not both.
pub fn check_new(infra_env: &InfraEnv) -> Result<(), String> {
    if infra_env.spec.cluster_ref.is_some() && !infra_env.spec.os_image_version.is_empty() {
        return Err(
            "Either Spec.ClusterRef or Spec.OSImageVersion should be specified (not both).".into(),
        );
    }
    Ok(())
}

/// Refuses changes of fields that are fixed once the InfraEnv is made. `is_installed` says whether
/// the cluster that it is for is installed.
pub fn check_change(before: &InfraEnv, after: &InfraEnv, is_installed: bool) -> Result<(), String> {
    let changed_field = if before.spec.cluster_ref != after.spec.cluster_ref {
        Some("ClusterRef")
    } else if before.architecture() != after.architecture() {
        Some("CpuArchitecture")
    } else {
        None
    };
    if let Some(field) = changed_field {
        return Err(format!(
            "Attempted to change Spec.{field} which is immutable after InfraEnv creation."
        ));
    }
    let version = &after.spec.os_image_version;
    let is_new_version = !version.is_empty() && *version != before.spec.os_image_version;
    if is_new_version && after.spec.cluster_ref.is_some() && !is_installed {
        return Err(
            "spec.OSImageVersion is not valid. It can't be added alongside with a clusterRef when \
                    the cluster is not installed yet."
                .into(),
        );
    }
    Ok(())
}

/// Every problem of an NMStateConfig.
pub fn check_network(config: &NMStateConfig) -> Vec<String> {
    let mut problems = Vec::new();
    if config.spec.interfaces.is_empty() {
        problems.push("spec.interfaces is empty, so it would match no host".into());
    }
    let mut seen = HashSet::new();
    for (index, interface) in config.spec.interfaces.iter().enumerate() {
        let path = format!("spec.interfaces[{index}]");
        if let Err(why) = check_mac_address(&interface.mac_address) {
            problems.push(format!("{path}.macAddress: {why}"));
        }
        let mac_address = interface.mac_address.to_lowercase();
        if !seen.insert(mac_address.clone()) {
            problems.push(format!("{path}.macAddress: {mac_address} is listed twice"));
        }
        if interface.name.is_empty() {
            problems.push(format!("{path}.name is missing"));
        }
    }
    problems.extend(find_nmstate_problems("spec.config", &config.spec.config));
    problems
}

/// Refuses a change that makes two NMStateConfigs of a namespace apply to one interface: nobody
/// could say which of them is followed. Twins that were there before are left alone.
pub fn check_networks_differ(state: &State) -> Result<(), Refusal> {
    let mut changed_keys = HashSet::new();
    for change in state.nmstate_configs.difference() {
        let Some(after) = change.after else { continue };
        if change.before.is_none_or(|before| before.spec.interfaces != after.spec.interfaces) {
            changed_keys.insert(after.metadata.key());
        }
    }
    if changed_keys.is_empty() {
        return Ok(());
    }
    let mut keys_by_mac: HashMap<(&str, String), Key> = HashMap::new();
    for config in state.nmstate_configs.rows() {
        let key = config.metadata.key();
        let namespace = config.metadata.namespace.as_str();
        for interface in &config.spec.interfaces {
            let mac = interface.mac_address.to_lowercase();
            let twin = keys_by_mac.insert((namespace, mac.clone()), key.clone());
            let Some(twin) = twin.filter(|twin| *twin != key) else { continue };
            if changed_keys.contains(&twin) || changed_keys.contains(&key) {
                return Err(refuse_networks(&twin, &key, &mac));
            }
        }
    }
    Ok(())
}

/// The refusal of a second NMStateConfig for one interface, by the address of the interface.
fn refuse_networks(first: &Key, second: &Key, mac: &str) -> Refusal {
    let Key { namespace, name } = first;
    let second_name = &second.name;
    let problem = format!("NMStateConfigs `{name}` and `{second_name}` would both be for {mac}");
    Refusal::conflict(problem)
        .because("only one of them can configure that host")
        .advise(format!("poolctl get nmstateconfig {name} -n {namespace} -o yaml"))
}

/// Both halves are needed: the reference is fixed, so half of one would lead nowhere for ever.
fn check_cluster_reference(reference: &ClusterReference) -> Vec<String> {
    let mut problems = Vec::new();
    for (field, value) in [("name", &reference.name), ("namespace", &reference.namespace)] {
        if value.is_empty() {
            problems.push(format!(
                "spec.clusterRef.{field} is missing; leave out clusterRef for hosts without a cluster"
            ));
        }
    }
    problems
}

/// Checks the URLs of a proxy, and the list of what is reached without it. `path` is the field that
/// holds them, for messages.
pub fn check_proxy(path: &str, proxy: &Proxy) -> Vec<String> {
    let mut problems = Vec::new();
    if proxy.http_proxy.is_empty() && proxy.https_proxy.is_empty() {
        problems.push(format!("{path} needs httpProxy or httpsProxy"));
    }
    for (field, url) in [("httpProxy", &proxy.http_proxy), ("httpsProxy", &proxy.https_proxy)] {
        if !url.is_empty() && !is_proxy_url(url) {
            // The message leaves the URL out: there may be a password in it.
            let example = "http://proxy.example.com:3128";
            problems.push(format!("{path}.{field} is not a URL like {example}"));
        }
    }
    if proxy.no_proxy.is_empty() {
        return problems;
    }
    for entry in proxy.no_proxy.split(',').map(str::trim) {
        if !is_no_proxy_entry(entry) {
            problems.push(format!(
                "{path}.noProxy: `{entry}` is not a name, .domain, address, network or *; \
                 separate entries with commas"
            ));
        }
    }
    problems
}

fn is_proxy_url(url: &str) -> bool {
    let is_one_word = !url.chars().any(|letter| letter.is_control() || letter.is_whitespace());
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    is_one_word && is_http && url::Url::parse(url).is_ok_and(|url| url.has_host())
}

/// Whether a text can say what is reached without a proxy.
pub fn is_no_proxy_entry(entry: &str) -> bool {
    let name = entry.strip_prefix('.').unwrap_or(entry);
    entry == "*" || entry.parse::<Subnet>().is_ok() || is_host(name)
}

/// Whether a text is a name in DNS, or an address.
pub fn is_host(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
        || (!host.is_empty() && host.len() <= 253 && host.split('.').all(is_dns_label))
}

/// Upper case and underscores are in use, if not in the standard.
fn is_dns_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether a line is one public key of SSH, or empty.
pub fn is_ssh_key(line: &str) -> bool {
    use base64::Engine;
    let mut words = line.split_whitespace();
    let Some(key_type) = words.next() else { return true };
    let encoded = words.next().unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
    // The key itself begins with four bytes of length and its type.
    let type_in_key = decoded.get(4..4 + key_type.len());
    SSH_KEY_TYPES.contains(&key_type) && type_in_key == Some(key_type.as_bytes())
}

/// Whether a text is one argument of a kernel: blanks are in quotes only.
fn is_kernel_argument(argument: &str) -> bool {
    let mut is_quoted = false;
    for letter in argument.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ' ' | '\t' | '\n' | '\r' if !is_quoted => return false,
            _ => {}
        }
    }
    !is_quoted && !argument.is_empty()
}

/// Why a text is no JSON object; none if it is.
pub fn find_json_object_problem(field: &str, json: &str) -> Option<String> {
    match serde_json::from_str::<Value>(json) {
        Ok(Value::Object(_)) => None,
        Ok(_) => Some(format!("{field} is not a JSON object")),
        Err(error) => Some(format!("{field} is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_keys_proxies_and_kernel_arguments_are_recognised() {
        for (host, expected) in
            [("ntp.lab", true), ("192.0.2.1", true), ("::1", true), ("a b", false), ("-x", false)]
        {
            assert_eq!(is_host(host), expected, "{host}");
        }
        for (argument, expected) in
            [("a=b", true), ("a=\"b c\"", true), ("a b", false), ("\"", false), ("", false)]
        {
            assert_eq!(is_kernel_argument(argument), expected, "{argument}");
        }
        for (url, expected) in [
            ("http://proxy.lab:3128", true),
            ("https://me:secret@[2001:db8::1]/", true),
            ("proxy.lab:3128", false),
            ("http:proxy.lab", false),
            ("http://", false),
            ("socks5://proxy.lab", false),
            ("http://a b", false),
        ] {
            assert_eq!(is_proxy_url(url), expected, "{url}");
        }
        for (entry, expected) in [("*", true), (".lab", true), ("10.0.0.0/8", true), ("", false)] {
            assert_eq!(is_no_proxy_entry(entry), expected, "{entry}");
        }
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2rPHp+8pqQ0i0MkmjIlz6l8uLSsLfGQVNTjbEVVSMi me";
        assert!(is_ssh_key(key) && !is_ssh_key("ssh-ed25519 AAAA me") && !is_ssh_key("nonsense"));
    }
}
