//! The rules about single values of an install-config, and about a few that go together. Each says
//! what is wrong with a value, in words that follow the path of the field.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::address::{Addr, Subnet};
use crate::model::refusal::nearest_name;

use super::{
    Finding, InstallConfig, InstallMethod, field, networks, platform_fields, platform_name, select,
};
use crate::rules::certificates::find_bundle_problem;
use crate::rules::infra_envs::{is_host, is_no_proxy_entry, is_ssh_key};

/// The platforms of the installer, those that it offers and those that it only accepts.
const PLATFORMS: [&str; 13] = [
    "alibabacloud",
    "aws",
    "azure",
    "baremetal",
    "external",
    "gcp",
    "ibmcloud",
    "none",
    "nutanix",
    "openstack",
    "ovirt",
    "powervs",
    "vsphere",
];
/// Keys that FIPS allows.
const FIPS_KEY_TYPES: [&str; 4] =
    ["ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"];
/// The number of machines of a machine pool that does not say it.
const DEFAULT_REPLICAS: u64 = 3;
/// Platforms on which a single node can be a cluster of hosts.
const SINGLE_NODE_PLATFORMS: [&str; 2] = ["none", "external"];

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn find_version_problem(value: &Value) -> Option<String> {
    (value != "v1").then(|| "is not a version of install-configs".to_owned())
}

/// A document that does not say its version.
pub(super) fn find_missing_version(config: &InstallConfig<'_>) -> Vec<Finding> {
    if !field(config.document, "apiVersion").is_null() {
        return Vec::new();
    }
    vec![Finding::new("apiVersion", "is missing", "write apiVersion: v1")]
}

/// A document without exactly one platform.
pub(super) fn find_platform_problem(config: &InstallConfig<'_>) -> Vec<Finding> {
    let document = config.document;
    let fields = field(document, "platform").as_object();
    let names: Vec<&str> = fields
        .into_iter()
        .flatten()
        .filter(|(_, fields)| !fields.is_null())
        .map(|(name, _)| name.as_str())
        .collect();
    let platforms = PLATFORMS.join(", ");
    match names.as_slice() {
        [] => {
            let keys = document.as_object().into_iter().flat_map(serde_json::Map::keys);
            let near = nearest_name("platform", keys.map(String::as_str));
            let advice = match near.filter(|near| *near != "platform") {
                Some(near) => format!("`{near}` is unknown, did you mean `platform`?"),
                None => format!("write one of {platforms}"),
            };
            vec![Finding::new("platform", "is missing", advice)]
        }
        [name] if PLATFORMS.iter().any(|platform| platform.eq_ignore_ascii_case(name)) => {
            Vec::new()
        }
        [name] => {
            let advice = match nearest_name(name, PLATFORMS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write one of {platforms}"),
            };
            vec![Finding::new(format!("platform.{name}"), "is not a platform", advice)]
        }
        names => {
            let why = format!("has several platforms: {}", names.join(", "));
            vec![Finding::new("platform", why, "keep one of them")]
        }
    }
}

/// A key of SSH that is none. The installer looks for the first line that is one.
pub(super) fn find_ssh_key_problem(value: &Value) -> Option<String> {
    let keys = text_of(value);
    let mut lines = keys.lines().filter(|line| !line.trim().is_empty());
    let is_key = keys.trim().is_empty() || lines.any(is_ssh_key);
    (!is_key).then(|| "is not a public key of SSH".to_owned())
}

/// A key of SSH of a type that FIPS does not allow.
pub(super) fn find_fips_key_problem(config: &InstallConfig<'_>) -> Vec<Finding> {
    let document = config.document;
    let key_type = text_of(field(document, "sshKey")).split_whitespace().next().unwrap_or_default();
    if field(document, "fips") != true || key_type.is_empty() || FIPS_KEY_TYPES.contains(&key_type)
    {
        return Vec::new();
    }
    let why = format!("is of type {key_type}, which FIPS does not allow");
    vec![Finding::new("sshKey", why, "write a key of type rsa or ecdsa")]
}

pub(super) fn find_trust_bundle_problem(value: &Value) -> Option<String> {
    let bundle = text_of(value);
    if bundle.is_empty() { None } else { find_bundle_problem(bundle) }
}

/// A pull secret that is not as registries expect it. An empty one is replaced by that of the pool.
pub(super) fn find_pull_secret_problem(value: &Value) -> Option<String> {
    let json = text_of(value);
    if json.trim().is_empty() {
        return None;
    }
    let Ok(pull_secret) = serde_json::from_str::<Value>(json) else {
        return Some("is not JSON".to_owned());
    };
    let Some(auths) = pull_secret["auths"].as_object().filter(|auths| !auths.is_empty()) else {
        return Some("has no auths".to_owned());
    };
    let (registry, _) = auths
        .iter()
        .find(|(_, login)| login.get("auth").is_none() && login.get("credsStore").is_none())?;
    Some(format!("has neither auth nor credsStore for {registry}"))
}

/// Why a text is no URL of a proxy with one of the schemes. The URL may have a password in it.
fn find_proxy_url_problem(url: &str, schemes: &[&str]) -> Option<String> {
    if url.is_empty() {
        return None;
    }
    let has_blank = url.chars().any(|letter| letter.is_control() || letter.is_whitespace());
    let parsed = url::Url::parse(url).ok().filter(|parsed| parsed.has_host() && !has_blank);
    let Some(parsed) = parsed else { return Some("is not a URL".to_owned()) };
    if schemes.contains(&parsed.scheme()) {
        return None;
    }
    Some(format!("begins with {}:, not {}:", parsed.scheme(), schemes.join(": or ")))
}

pub(super) fn find_http_proxy_problem(value: &Value) -> Option<String> {
    find_proxy_url_problem(text_of(value), &["http"])
}

pub(super) fn find_https_proxy_problem(value: &Value) -> Option<String> {
    find_proxy_url_problem(text_of(value), &["http", "https"])
}

pub(super) fn find_missing_proxy_url(config: &InstallConfig<'_>) -> Vec<Finding> {
    let proxy = field(config.document, "proxy");
    let has_url =
        ["httpProxy", "httpsProxy"].into_iter().any(|name| !text_of(field(proxy, name)).is_empty());
    if proxy.is_null() || has_url {
        return Vec::new();
    }
    vec![Finding::new("proxy", "has no URL", "write httpProxy, httpsProxy or both")]
}

pub(super) fn find_no_proxy_problem(value: &Value) -> Option<String> {
    let entries = text_of(value);
    if entries.is_empty() || entries == "*" {
        return None;
    }
    if entries.contains(' ') {
        return Some("has blanks".to_owned());
    }
    let wrong_entry =
        entries.split(',').find(|entry| *entry == "*" || !is_no_proxy_entry(entry))?;
    Some(format!("has `{wrong_entry}`, which is no name, address or network"))
}

/// A repository with its registry, without a scheme, a tag or a digest.
pub(super) fn find_repository_problem(value: &Value) -> Option<String> {
    let repository = text_of(value);
    if repository.contains("://") {
        return Some("has a scheme".to_owned());
    }
    let (registry, path) = repository.split_once('/').unwrap_or((repository, ""));
    let has_tag = path.contains([':', '@']) || registry.contains('@');
    if has_tag {
        return Some("has a tag or a digest".to_owned());
    }
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        Some(_) => "",
        None => registry,
    };
    let is_path = path.bytes().all(is_path_byte);
    let is_repository = is_host(host.trim_matches(['[', ']'])) && is_path;
    (!is_repository).then(|| "is not a repository".to_owned())
}

/// Names of repositories have no capitals.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/._-".contains(&byte)
}

pub(super) fn find_both_mirror_lists(config: &InstallConfig<'_>) -> Vec<Finding> {
    let has_both = ["imageContentSources", "imageDigestSources"].into_iter().all(|name| {
        field(config.document, name).as_array().is_some_and(|entries| !entries.is_empty())
    });
    if !has_both {
        return Vec::new();
    }
    let why = "stands beside imageDigestSources";
    vec![Finding::new("imageContentSources", why, "move its entries to imageDigestSources")]
}

/// A set of capabilities: None, vCurrent or v4.N.
pub(super) fn find_capability_set_problem(value: &Value) -> Option<String> {
    let set = text_of(value);
    let is_set = matches!(set, "" | "None" | "vCurrent")
        || set.strip_prefix("v4.").is_some_and(|minor| minor.parse::<u64>().is_ok());
    (!is_set).then(|| "is not a set of capabilities".to_owned())
}

/// A cluster on bare metal without the capability of that name.
pub(super) fn find_missing_baremetal_capability(config: &InstallConfig<'_>) -> Vec<Finding> {
    let capabilities = field(config.document, "capabilities");
    let enabled = field(capabilities, "additionalEnabledCapabilities").as_array();
    let has_baremetal = enabled.into_iter().flatten().any(|name| name == "baremetal");
    if field(capabilities, "baselineCapabilitySet") != "None" || has_baremetal {
        return Vec::new();
    }
    let path = "capabilities.additionalEnabledCapabilities";
    vec![Finding::new(path, "lacks baremetal, which this platform needs", "add baremetal")]
}

/// Feature gates that no feature set lets through.
pub(super) fn find_unset_feature_set(config: &InstallConfig<'_>) -> Vec<Finding> {
    let gates = field(config.document, "featureGates").as_array();
    if gates.is_none_or(Vec::is_empty) || field(config.document, "featureSet") == "CustomNoUpgrade"
    {
        return Vec::new();
    }
    let advice = "write featureSet: CustomNoUpgrade, or leave out featureGates";
    vec![Finding::new("featureGates", "needs the feature set CustomNoUpgrade", advice)]
}

/// Two pools of workers with one name.
pub(super) fn find_twin_compute_pools(config: &InstallConfig<'_>) -> Vec<Finding> {
    let mut names = HashSet::new();
    let mut findings = Vec::new();
    for (path, value) in select(config.document, "compute[].name") {
        if !names.insert(text_of(value)) {
            let advice = "keep one pool of this name";
            findings.push(Finding::new(path, "is there twice", advice).with_value(value));
        }
    }
    findings
}

fn replicas_of(machine_pool: &Value) -> u64 {
    field(machine_pool, "replicas").as_u64().unwrap_or(DEFAULT_REPLICAS)
}

/// A number of masters that cannot keep a cluster alive. Two need an arbiter, or fencing.
pub(super) fn find_master_count_problem(config: &InstallConfig<'_>) -> Vec<Finding> {
    let control_plane = field(config.document, "controlPlane");
    let has_help =
        !field(config.document, "arbiter").is_null() || !field(control_plane, "fencing").is_null();
    let is_supported = match replicas_of(control_plane) {
        1 | 3..=5 => true,
        2 => has_help,
        _ => false,
    };
    if is_supported {
        return Vec::new();
    }
    let advice = "write 3, 1, 4 or 5, or 2 with an arbiter or fencing";
    let value = field(control_plane, "replicas");
    let why = "is not a number of masters that is supported";
    vec![Finding::new("controlPlane.replicas", why, advice).with_value(value)]
}

/// Four or five masters.
pub(super) fn find_many_masters(config: &InstallConfig<'_>) -> Vec<Finding> {
    let control_plane = field(config.document, "controlPlane");
    if !matches!(replicas_of(control_plane), 4 | 5) {
        return Vec::new();
    }
    let why = "is a number of masters that this release does not support";
    let value = field(control_plane, "replicas");
    vec![Finding::new("controlPlane.replicas", why, "write 3 or 1").with_value(value)]
}

/// A single node of hosts that install themselves, with workers or on a platform that has none.
pub(super) fn find_single_node_problem(config: &InstallConfig<'_>) -> Vec<Finding> {
    let document = config.document;
    if config.method != InstallMethod::Agent || replicas_of(field(document, "controlPlane")) != 1 {
        return Vec::new();
    }
    let pools = field(document, "compute").as_array().map(Vec::as_slice).unwrap_or_default();
    let workers = if pools.is_empty() {
        DEFAULT_REPLICAS
    } else {
        pools.iter().fold(0_u64, |sum, pool| sum.saturating_add(replicas_of(pool)))
    };
    let platform = platform_name(document).unwrap_or_default();
    if workers > 0 {
        let why = format!("makes {workers} workers beside a single master");
        return vec![Finding::new("compute", why, "write replicas: 0, or 3 masters")];
    }
    if SINGLE_NODE_PLATFORMS.contains(&platform) {
        return Vec::new();
    }
    let why = "cannot have a single node";
    let advice = "write platform: {none: {}}, or 3 masters";
    vec![Finding::new(format!("platform.{platform}"), why, advice)]
}

/// A negative number of machines, or one that is no whole number.
pub(super) fn find_count_problem(value: &Value) -> Option<String> {
    (value.is_number() && !value.is_u64()).then(|| "is not a number of machines".to_owned())
}

pub(super) fn find_address_problem(value: &Value) -> Option<String> {
    let address = text_of(value);
    let is_address = address.is_empty() || address.parse::<Addr>().is_ok();
    (!is_address).then(|| "is not an address".to_owned())
}

pub(super) fn find_mac_address_problem(value: &Value) -> Option<String> {
    let mac_address = text_of(value);
    let mut parts = mac_address.split([':', '-']);
    let is_mac_address = mac_address.is_empty()
        || (mac_address.len() == 17
            && parts.all(|part| part.len() == 2 && u8::from_str_radix(part, 16).is_ok()));
    (!is_mac_address).then(|| "is not a MAC address".to_owned())
}

pub(super) fn find_uuid_problem(value: &Value) -> Option<String> {
    let uuid = text_of(value);
    let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
    let is_uuid = uuid.is_empty()
        || (lengths == [8, 4, 4, 4, 12]
            && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'));
    (!is_uuid).then(|| "is not a UUID".to_owned())
}

pub(super) fn find_port_problem(value: &Value) -> Option<String> {
    let is_port = value.as_u64().is_some_and(|port| (1..=65_535).contains(&port));
    (value.is_number() && !is_port).then(|| "is not a port".to_owned())
}

/// A folder of vSphere that is not the whole path in its datacenter.
pub(super) fn find_folder_problem(config: &InstallConfig<'_>) -> Vec<Finding> {
    let fields = platform_fields(config.document);
    let mut findings = Vec::new();
    let mut folders = vec![(
        "platform.vsphere.folder".to_owned(),
        field(fields, "folder"),
        field(fields, "datacenter"),
    )];
    for (path, topology) in select(config.document, "platform.vsphere.failureDomains[].topology") {
        folders.push((
            format!("{path}.folder"),
            field(topology, "folder"),
            field(topology, "datacenter"),
        ));
    }
    for (path, folder, datacenter) in folders {
        let prefix = format!("/{}/vm/", text_of(datacenter).trim_start_matches('/'));
        if !text_of(folder).is_empty() && !text_of(folder).starts_with(&prefix) {
            let why = "is not the whole path of a folder";
            let advice = format!("write a path that begins with {prefix}");
            findings.push(Finding::new(path, why, advice).with_value(folder));
        }
    }
    findings
}

/// Failure domains on a vCenter that the document does not list.
pub(super) fn find_unknown_vcenters(config: &InstallConfig<'_>) -> Vec<Finding> {
    let listed: Vec<&str> = select(config.document, "platform.vsphere.vcenters[].server")
        .into_iter()
        .map(|(_, server)| text_of(server))
        .collect();
    let mut findings = Vec::new();
    for (path, server) in select(config.document, "platform.vsphere.failureDomains[].server") {
        if !listed.is_empty() && !listed.contains(&text_of(server)) {
            let advice = format!("write one of {}", listed.join(", "));
            let why = "is not a server of platform.vsphere.vcenters";
            findings.push(Finding::new(path, why, advice).with_value(server));
        }
    }
    findings
}

/// Fields that a failure domain of vSphere needs.
pub(super) fn find_incomplete_failure_domains(config: &InstallConfig<'_>) -> Vec<Finding> {
    const NEEDED: [&str; 4] = ["name", "region", "zone", "server"];
    const NEEDED_OF_TOPOLOGY: [&str; 4] = ["computeCluster", "datacenter", "datastore", "networks"];
    let mut findings = Vec::new();
    for (path, domain) in select(config.document, "platform.vsphere.failureDomains[]") {
        let topology = field(domain, "topology");
        let own_fields = NEEDED.map(|name| (name.to_owned(), field(domain, name)));
        let fields_of_topology =
            NEEDED_OF_TOPOLOGY.map(|name| (format!("topology.{name}"), field(topology, name)));
        for (name, value) in own_fields.into_iter().chain(fields_of_topology) {
            if is_unset(value) {
                let advice = format!("write {name}");
                findings.push(Finding::new(format!("{path}.{name}"), "is missing", advice));
            }
        }
    }
    findings
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(string) => string.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// A Prism Element or a subnet of Nutanix too many or too few.
pub(super) fn find_prism_element_problem(config: &InstallConfig<'_>) -> Vec<Finding> {
    let elements = field(platform_fields(config.document), "prismElements");
    let count = elements.as_array().map_or(0, Vec::len);
    if elements.is_null() || count == 1 {
        return Vec::new();
    }
    let why = format!("has {count} entries");
    vec![Finding::new("platform.nutanix.prismElements", why, "list one Prism Element")]
}

/// Several subnets of Nutanix.
pub(super) fn find_extra_subnets(config: &InstallConfig<'_>) -> Vec<Finding> {
    let subnets = field(platform_fields(config.document), "subnetUUIDs");
    let count = subnets.as_array().map_or(0, Vec::len);
    if count < 2 {
        return Vec::new();
    }
    let why = format!("has {count} subnets");
    vec![Finding::new("platform.nutanix.subnetUUIDs", why, "name one subnet")]
}

/// Hosts of bare metal that share a name, a MAC address or a controller.
pub(super) fn find_twin_hosts(config: &InstallConfig<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in ["name", "bootMACAddress", "bmc.address"] {
        let mut seen = HashSet::new();
        let path = format!("platform.baremetal.hosts[].{name}");
        for (path, value) in select(config.document, &path) {
            let is_new = seen.insert(text_of(value).to_ascii_lowercase());
            if !is_new {
                let advice = "give each host its own";
                let why = "belongs to another host, too";
                findings.push(Finding::new(path, why, advice).with_value(value));
            }
        }
    }
    findings
}

/// The network on which machines are provisioned, as part of that of the machines.
pub(super) fn find_provisioning_overlap(config: &InstallConfig<'_>) -> Vec<Finding> {
    let path = "platform.baremetal.provisioningNetworkCIDR";
    let fields = platform_fields(config.document);
    let is_used = field(fields, "provisioningNetwork") != "Disabled";
    let value = field(fields, "provisioningNetworkCIDR");
    let Ok(subnet) = text_of(value).parse::<Subnet>() else {
        return Vec::new();
    };
    let machine_networks = networks::machine_networks(config.document);
    let overlaps = machine_networks.iter().any(|network| {
        network.written_address().family() == subnet.written_address().family()
            && network.to_range().overlaps(subnet.to_range())
    });
    if !is_used || !overlaps {
        return Vec::new();
    }
    let advice = "choose a network of its own";
    vec![Finding::new(path, "overlaps networking.machineNetwork", advice).with_value(value)]
}
