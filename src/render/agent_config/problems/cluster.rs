//! Checks the install-config: what the cluster is called, where it runs and how many hosts it
//! takes. Never looks at the hosts.

use serde_json::{Value, json};

use crate::model::address::Subnet;

use super::{Report, field, list_field, text_field, vips};

/// Platforms that the agent method installs on.
const PLATFORMS: [&str; 5] = ["baremetal", "vsphere", "nutanix", "none", "external"];
/// Platforms on which a single node can be a cluster.
const SINGLE_NODE_PLATFORMS: [&str; 2] = ["none", "external"];
/// The number of hosts of a machine pool that does not say it.
const DEFAULT_REPLICAS: u64 = 3;
/// The network of the machines if the document names none.
const DEFAULT_MACHINE_NETWORK: &str = "10.0.0.0/16";
const OVN: &str = "OVNKubernetes";

/// Fields that support few values, by their paths.
const SUPPORTED_VALUES: [(&[&str], &[&str]); 4] = [
    (&["publish"], &["External", "Internal"]),
    (&["cpuPartitioningMode"], &["None", "AllNodes"]),
    (&["additionalTrustBundlePolicy"], &["Proxyonly", "Always"]),
    (&["platform", "baremetal", "provisioningNetwork"], &["Managed", "Unmanaged", "Disabled"]),
];

/// What the hosts have to fit. A number of hosts is none if the document does not say it readably.
pub(super) struct Cluster {
    pub(super) masters: Option<u64>,
    pub(super) workers: Option<u64>,
    pub(super) networks: Vec<Subnet>,
}

impl Cluster {
    /// Reads an install-config, and reports what is wrong with it.
    pub(super) fn read(document: &Value, report: &mut Report) -> Self {
        check_plain_fields(document, report);
        let networks = read_machine_networks(document, report);
        let masters = read_masters(document, report);
        let workers = read_workers(document, report);
        if let Some((name, platform)) = read_platform(document, report) {
            if masters == Some(1) {
                check_single_node(document, name, workers, report);
            }
            vips::check(name, platform, &networks, report);
        }
        Self { masters, workers, networks }
    }
}

/// Checks the fields that depend on no other one.
fn check_plain_fields(document: &Value, report: &mut Report) {
    let version = field(document, "apiVersion");
    if version.is_null() {
        report.add_required("apiVersion", "install-config version required");
    } else if version != "v1" {
        report.add_invalid("apiVersion", version, "install-config version must be \"v1\"");
    }
    if text_field(field(document, "metadata"), "name").is_empty() {
        report.add_required("metadata.name", "the cluster has no name");
    }
    // The message leaves the value out, because it is a secret.
    if let Some(why) = find_pull_secret_problem(text_field(document, "pullSecret")) {
        report.add("pullSecret", &format!("Invalid value: {why}"));
    }
    for (path, supported) in SUPPORTED_VALUES {
        let value = path.iter().fold(document, |value, name| field(value, name));
        if !value.is_null() && value != "" {
            report.check_supported(&path.join("."), value, supported);
        }
    }
}

/// Why openshift-install would refuse a pull secret, None if it would not. Only its form is
/// checked, never a login.
fn find_pull_secret_problem(json: &str) -> Option<String> {
    if json.is_empty() {
        return Some("empty pull secret".into());
    }
    let pull_secret: Value = match serde_json::from_str(json) {
        Ok(pull_secret) => pull_secret,
        Err(why) => return Some(format!("is not JSON: {why}")),
    };
    let Some(auths) = pull_secret["auths"].as_object().filter(|auths| !auths.is_empty()) else {
        return Some("auths required".into());
    };
    let (registry, _) = auths.iter().find(|(_, credentials)| {
        credentials.get("auth").is_none() && credentials.get("credsStore").is_none()
    })?;
    Some(format!("\"{registry}\" requires either auth or credsStore"))
}

/// The networks of the machines, or openshift-install's default if there are none. Unreadable ones
/// are reported and left out.
fn read_machine_networks(document: &Value, report: &mut Report) -> Vec<Subnet> {
    let entries = list_field(field(document, "networking"), "machineNetwork");
    let mut networks: Vec<Subnet> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let cidr = field(entry, "cidr");
        if let Ok(network) = cidr.as_str().unwrap_or_default().parse::<Subnet>() {
            networks.push(network);
        } else {
            let path = format!("networking.machineNetwork[{index}].cidr");
            report.add_invalid(&path, cidr, "invalid CIDR address");
        }
    }
    if entries.is_empty() {
        networks.extend(DEFAULT_MACHINE_NETWORK.parse::<Subnet>());
    }
    networks
}

/// The number of masters, which is reported if openshift-install does not support it. None if it is
/// not readable.
fn read_masters(document: &Value, report: &mut Report) -> Option<u64> {
    let pool = field(document, "controlPlane");
    let name = field(pool, "name");
    if !name.is_null() {
        report.check_supported("controlPlane.name", name, &["master"]);
    }
    let path = "controlPlane.replicas";
    let masters = read_replicas(pool, path, report)?;
    let is_supported = match masters {
        1 | 3..=5 => true,
        2 => !field(document, "arbiter").is_null() || !field(pool, "fencing").is_null(),
        _ => false,
    };
    if !is_supported {
        let supported = ["3", "1", "4", "5", "2 (with arbiter)", "2 (with fencing)"];
        report.check_supported(path, &json!(masters), &supported);
    }
    Some(masters)
}

/// The workers of all pools. None if one of the pools does not say it readably.
fn read_workers(document: &Value, report: &mut Report) -> Option<u64> {
    let pools = list_field(document, "compute");
    if pools.is_empty() {
        return Some(DEFAULT_REPLICAS);
    }
    let mut workers = Some(0_u64);
    for (index, pool) in pools.iter().enumerate() {
        let path = format!("compute[{index}]");
        report.check_supported(&format!("{path}.name"), field(pool, "name"), &["worker"]);
        let replicas = read_replicas(pool, &format!("{path}.replicas"), report);
        workers = workers.zip(replicas).map(|(sum, replicas)| sum.saturating_add(replicas));
    }
    workers
}

/// The replicas of a pool of machines, openshift-install's default if it has none. What is no
/// number is reported, and is None.
fn read_replicas(pool: &Value, path: &str, report: &mut Report) -> Option<u64> {
    let replicas = field(pool, "replicas");
    if replicas.is_null() {
        return Some(DEFAULT_REPLICAS);
    }
    if !replicas.is_u64() {
        report.add_invalid(path, replicas, "is not a number of hosts");
    }
    replicas.as_u64()
}

/// The name of the only platform of a document, and what stands under it.
fn read_platform<'v>(
    document: &'v Value,
    report: &mut Report,
) -> Option<(&'static str, &'v Value)> {
    let fields = field(document, "platform").as_object().into_iter().flatten();
    let platforms: Vec<(&String, &Value)> =
        fields.filter(|(_, platform)| !platform.is_null()).collect();
    match platforms.as_slice() {
        [] => {
            let why = format!("must specify one of the platforms ({})", PLATFORMS.join(", "));
            report.add_invalid("platform", &json!(""), &why);
            None
        }
        [(name, platform)] => {
            let supported = PLATFORMS.into_iter().find(|known| known.eq_ignore_ascii_case(name));
            if supported.is_none() {
                report.check_supported("platform", &json!(name), &PLATFORMS);
            }
            supported.map(|name| (name, *platform))
        }
        [(first, _), (second, _), ..] => {
            let why = format!(
                "must only specify a single type of platform; cannot use both \"{first}\" and \
                 \"{second}\""
            );
            report.add_invalid("platform", &json!(first), &why);
            None
        }
    }
}

/// A cluster of one master has no workers, and only some platforms and one network type.
fn check_single_node(document: &Value, platform: &str, workers: Option<u64>, report: &mut Report) {
    let [none, external] = SINGLE_NODE_PLATFORMS;
    match workers {
        Some(0) if !SINGLE_NODE_PLATFORMS.contains(&platform) => {
            let why = format!(
                "Only platform {none} and {external} supports 1 ControlPlane and 0 Compute nodes"
            );
            report.add_invalid("platform", &json!(platform), &why);
        }
        Some(0) => {
            let network_type = field(field(document, "networking"), "networkType");
            if !network_type.is_null() && network_type != OVN {
                let why = format!(
                    "Only {OVN} network type is allowed for Single Node OpenShift (SNO) cluster"
                );
                report.add_invalid("networking.networkType", network_type, &why);
            }
        }
        Some(workers) => {
            let why = format!(
                "Total number of compute replicas must be 0 when controlPlane.replicas is 1 for \
                 platform {none} or {external}. Found {workers}"
            );
            report.add_forbidden("compute.replicas", &why);
        }
        None => {}
    }
}
