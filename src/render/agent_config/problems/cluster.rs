//! The install-config: what the cluster is called, where it runs and how many hosts it takes.

use serde_json::{Value, json};

use crate::model::address::Subnet;

use super::{Report, field, list, text, vips};

/// Platforms that the agent method installs on.
const PLATFORMS: [&str; 5] = ["baremetal", "vsphere", "nutanix", "none", "external"];
/// Those on which a single node may be.
const SINGLE: [&str; 2] = ["none", "external"];
/// What a pool has that does not say, and how large the network of the machines is.
const REPLICAS: u64 = 3;
const MACHINES: &str = "10.0.0.0/16";
const OVN: &str = "OVNKubernetes";

/// Fields that have few values, by their paths.
const WORDS: [(&[&str], &[&str]); 4] = [
    (&["publish"], &["External", "Internal"]),
    (&["cpuPartitioningMode"], &["None", "AllNodes"]),
    (&["additionalTrustBundlePolicy"], &["Proxyonly", "Always"]),
    (&["platform", "baremetal", "provisioningNetwork"], &["Managed", "Unmanaged", "Disabled"]),
];

/// What the hosts have to fit; none: nobody can tell.
pub(super) struct Cluster {
    pub(super) masters: Option<u64>,
    pub(super) workers: Option<u64>,
    pub(super) networks: Vec<Subnet>,
}

impl Cluster {
    pub(super) fn read(document: &Value, report: &mut Report) -> Self {
        head(document, report);
        let networks = networks(document, report);
        let (masters, workers) = (masters(document, report), workers(document, report));
        let platform = platform(document, report);
        if let Some((name, its)) = platform {
            if masters == Some(1) {
                single(document, name, workers, report);
            }
            vips::check(name, its, &networks, report);
        }
        Self { masters, workers, networks }
    }
}

fn head(document: &Value, report: &mut Report) {
    let version = field(document, "apiVersion");
    if version.is_null() {
        report.required("apiVersion", "install-config version required");
    } else if version != "v1" {
        report.invalid("apiVersion", version, "install-config version must be \"v1\"");
    }
    if text(field(document, "metadata"), "name").is_empty() {
        report.required("metadata.name", "the cluster has no name");
    }
    // What it says is not said again: it is a secret.
    if let Some(why) = pull_secret(text(document, "pullSecret")) {
        report.say("pullSecret", &format!("Invalid value: {why}"));
    }
    for (path, known) in WORDS {
        let value = path.iter().fold(document, |value, name| field(value, name));
        if !value.is_null() && value != "" {
            report.one_of(&path.join("."), value, known);
        }
    }
}

fn pull_secret(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("empty pull secret".into());
    }
    let read: Value = match serde_json::from_str(text) {
        Ok(read) => read,
        Err(why) => return Some(format!("is no JSON: {why}")),
    };
    let Some(auths) = read["auths"].as_object().filter(|all| !all.is_empty()) else {
        return Some("auths required".into());
    };
    let lacks = |one: &Value| one.get("auth").is_none() && one.get("credsStore").is_none();
    let wrong = auths.iter().find(|(_, one)| lacks(one));
    wrong.map(|(name, _)| format!("\"{name}\" requires either auth or credsStore"))
}

fn networks(document: &Value, report: &mut Report) -> Vec<Subnet> {
    let all = list(field(document, "networking"), "machineNetwork");
    let mut made: Vec<Subnet> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let cidr = field(one, "cidr");
        if let Ok(network) = cidr.as_str().unwrap_or_default().parse::<Subnet>() {
            made.push(network);
        } else {
            let path = format!("networking.machineNetwork[{at}].cidr");
            report.invalid(&path, cidr, "invalid CIDR address");
        }
    }
    if all.is_empty() {
        made.extend(MACHINES.parse::<Subnet>());
    }
    made
}

fn masters(document: &Value, report: &mut Report) -> Option<u64> {
    let pool = field(document, "controlPlane");
    let (name, path) = (field(pool, "name"), "controlPlane.replicas");
    if !name.is_null() {
        report.one_of("controlPlane.name", name, &["master"]);
    }
    let masters = replicas(pool, path, report)?;
    let fine = match masters {
        1 | 3..=5 => true,
        2 => !field(document, "arbiter").is_null() || !field(pool, "fencing").is_null(),
        _ => false,
    };
    if !fine {
        let known = ["3", "1", "4", "5", "2 (with arbiter)", "2 (with fencing)"];
        report.one_of(path, &json!(masters), &known);
    }
    Some(masters)
}

fn workers(document: &Value, report: &mut Report) -> Option<u64> {
    let pools = list(document, "compute");
    if pools.is_empty() {
        return Some(REPLICAS);
    }
    let mut sum = Some(0_u64);
    for (at, pool) in pools.iter().enumerate() {
        report.one_of(&format!("compute[{at}].name"), field(pool, "name"), &["worker"]);
        let more = replicas(pool, &format!("compute[{at}].replicas"), report);
        sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
    }
    sum
}

fn replicas(pool: &Value, path: &str, report: &mut Report) -> Option<u64> {
    let said = field(pool, "replicas");
    if said.is_null() {
        return Some(REPLICAS);
    }
    if !said.is_u64() {
        report.invalid(path, said, "is no number of hosts");
    }
    said.as_u64()
}

/// The only platform that there is, and what it says.
fn platform<'v>(document: &'v Value, report: &mut Report) -> Option<(&'static str, &'v Value)> {
    let all = field(document, "platform").as_object().into_iter().flatten();
    let given: Vec<(&String, &Value)> = all.filter(|(_, its)| !its.is_null()).collect();
    match given.as_slice() {
        [] => {
            let why = format!("must specify one of the platforms ({})", PLATFORMS.join(", "));
            report.invalid("platform", &json!(""), &why);
            None
        }
        [(name, its)] => {
            let known = PLATFORMS.into_iter().find(|one| one.eq_ignore_ascii_case(name));
            if known.is_none() {
                report.one_of("platform", &json!(name), &PLATFORMS);
            }
            known.map(|name| (name, *its))
        }
        [(one, _), (two, _), ..] => {
            let why = format!(
                "must only specify a single type of platform; cannot use both \"{one}\" and \
                 \"{two}\""
            );
            report.invalid("platform", &json!(one), &why);
            None
        }
    }
}

fn single(document: &Value, platform: &str, workers: Option<u64>, report: &mut Report) {
    let [none, external] = SINGLE;
    match workers {
        Some(0) if !SINGLE.contains(&platform) => {
            let why = format!(
                "Only platform {none} and {external} supports 1 ControlPlane and 0 Compute nodes"
            );
            report.invalid("platform", &json!(platform), &why);
        }
        Some(0) => {
            let kind = field(field(document, "networking"), "networkType");
            if !kind.is_null() && kind != OVN {
                let why = format!(
                    "Only {OVN} network type is allowed for Single Node OpenShift (SNO) cluster"
                );
                report.invalid("networking.networkType", kind, &why);
            }
        }
        Some(workers) => {
            let why = format!(
                "Total number of compute replicas must be 0 when controlPlane.replicas is 1 for \
                 platform {none} or {external}. Found {workers}"
            );
            report.forbidden("compute.replicas", &why);
        }
        None => {}
    }
}
