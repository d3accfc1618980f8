//! The agent-config: hosts that are hosts, as many as the cluster takes, in networks that it has.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::address::{Addr, Subnet};

use super::super::{is_device, network};
use super::{Cluster, Report, field, is_in, list, outside, text};

const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
const TOP: [&str; 8] = [
    "apiVersion",
    "kind",
    "metadata",
    "rendezvousIP",
    "additionalNTPSources",
    "bootArtifactsBaseURL",
    "minimalISO",
    "hosts",
];
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];
const HOST: [&str; 5] = ["hostname", "role", "rootDeviceHints", "interfaces", "networkConfig"];
const INTERFACE: [&str; 2] = ["name", "macAddress"];
/// The last two are known, and refused.
const HINTS: [&str; 10] = [
    "deviceName",
    "hctl",
    "model",
    "vendor",
    "serialNumber",
    "minSizeGigabytes",
    "wwn",
    "rotational",
    "wwnWithExtension",
    "wwnVendorExtension",
];
/// The longest hostname.
const LONGEST: usize = 63;

/// One of `hosts`.
struct Host<'v> {
    path: String,
    value: &'v Value,
    role: &'v str,
    network: &'v Value,
    /// Addresses that it has without asking anybody.
    fixed: Vec<Addr>,
}

pub(super) fn check(document: &Value, cluster: &Cluster, report: &mut Report) {
    report.unknown("", document, &TOP);
    report.one_of("apiVersion", field(document, "apiVersion"), &VERSIONS);
    report.one_of("kind", field(document, "kind"), &["AgentConfig"]);
    let metadata = field(document, "metadata");
    report.unknown("metadata.", metadata, &METADATA);
    if text(metadata, "name").is_empty() {
        report.required("metadata.name", "the cluster has no name");
    }
    let hosts: Vec<Host<'_>> =
        list(document, "hosts").iter().enumerate().map(|(at, one)| Host::of(at, one)).collect();
    let (mut names, mut macs) = (BTreeSet::new(), BTreeSet::new());
    for host in &hosts {
        report.unknown(&format!("{}.", host.path), host.value, &HOST);
        host.named(&mut names, report);
        host.hints(report);
        host.interfaces(&mut macs, report);
        host.connected(&cluster.networks, report);
    }
    rendezvous(document, &hosts, report);
    count(&hosts, cluster, report);
}

impl<'v> Host<'v> {
    fn of(at: usize, value: &'v Value) -> Self {
        let network = field(value, "networkConfig");
        Self {
            path: format!("hosts[{at}]"),
            value,
            role: text(value, "role"),
            network,
            fixed: network::addresses(network),
        }
    }

    fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    fn named(&self, names: &mut BTreeSet<&'v str>, report: &mut Report) {
        let (name, path) = (text(self.value, "hostname"), self.at("hostname"));
        if !name.is_empty() && !is_hostname(name) {
            report.invalid(&path, &json!(name), "is no hostname");
        }
        if !name.is_empty() && !names.insert(name) {
            report.say(&path, &format!("Duplicate value: \"{name}\""));
        }
        if !["", "master", "worker"].contains(&self.role) {
            let why = "host role has incorrect value. Role must either be 'master' or 'worker'";
            report.forbidden(&self.at("role"), why);
        }
    }

    fn hints(&self, report: &mut Report) {
        let (hints, path) = (field(self.value, "rootDeviceHints"), self.at("rootDeviceHints"));
        report.unknown(&format!("{path}."), hints, &HINTS);
        for (name, what) in [
            ("wwnWithExtension", "WWN extensions are"),
            ("wwnVendorExtension", "WWN vendor extensions are"),
        ] {
            if !text(hints, name).is_empty() {
                let why = format!("{what} not supported in root device hints");
                report.forbidden(&format!("{path}.{name}"), &why);
            }
        }
        let device = text(hints, "deviceName");
        if !device.is_empty() && !is_device(device) {
            let where_to = if device.starts_with("/dev/") {
                "path in /dev/ or /dev/disk/by-path/"
            } else {
                "a /dev/ path"
            };
            let why = format!("Device Name of root device hint must be {where_to}");
            report.invalid(&format!("{path}.deviceName"), &json!(device), &why);
        }
    }

    fn interfaces(&self, macs: &mut BTreeSet<String>, report: &mut Report) {
        let (all, path) = (list(self.value, "interfaces"), self.at("interfaces"));
        if all.is_empty() {
            report.required(&path, "at least one interface must be defined for each node");
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (at, one) in all.iter().enumerate() {
            report.unknown(&format!("{path}[{at}]."), one, &INTERFACE);
            let (name, mac) = (text(one, "name"), text(one, "macAddress"));
            let path_of = |field: &str| format!("{path}[{at}].{field}");
            if mac.is_empty() {
                let why = "each interface must have a MAC address defined";
                report.required(&path_of("macAddress"), why);
                continue;
            }
            if !is_mac(mac) {
                report.invalid(&path_of("macAddress"), &json!(mac), "is no MAC address");
            } else if !macs.insert(mac.to_ascii_lowercase()) {
                let why = "duplicate MAC address found";
                report.invalid(&path_of("macAddress"), &json!(mac), why);
            }
            if !names.insert(name) {
                report.say(&path_of("name"), &format!("Duplicate value: \"{name}\""));
            }
        }
        self.mapped(&names, report);
    }

    /// Every card that its network speaks of has to be one of its interfaces.
    fn mapped(&self, names: &BTreeSet<&str>, report: &mut Report) {
        for one in network::interfaces(self.network).iter().filter(|one| network::is_plain(one)) {
            let name = one["name"].as_str().unwrap_or_default();
            let by_mac = one["identifier"].as_str() == Some("mac-address");
            if by_mac || name.starts_with("en") || names.contains(name) {
                continue;
            }
            let why = format!(
                "mac-interface mapping for interface {name} is missing and not a physical \
                 interface"
            );
            report.invalid(&self.at("networkConfig.interfaces"), &one["name"], &why);
        }
    }

    /// Its fixed addresses are addresses, and it is on the cluster's networks.
    fn connected(&self, networks: &[Subnet], report: &mut Report) {
        let path = self.at("networkConfig");
        for text in network::written(self.network) {
            if text.parse::<Addr>().is_err() {
                report.invalid(&path, &json!(text), &format!("\"{text}\" is not a valid IP"));
            }
        }
        let at_home = |address: &Addr| is_in(networks, *address);
        let somewhere = self.fixed.iter().any(at_home) || self.asks(true) || self.asks(false);
        for v4 in [true, false] {
            let its: Vec<Addr> =
                self.fixed.iter().copied().filter(|one| one.is_v4() == v4).collect();
            let wanted = networks.iter().any(|network| network.written().is_v4() == v4);
            // A host may have networks of its own besides.
            let fine = its.is_empty() || its.iter().any(at_home) || self.asks(v4);
            if !fine && (wanted || !somewhere) && !networks.is_empty() {
                report.invalid(&path, &json!(its), &outside(networks));
            }
        }
    }

    fn asks(&self, v4: bool) -> bool {
        network::asks(self.network, v4)
    }

    /// Whether an address is its own, as far as anybody can know.
    fn may_have(&self, address: Addr) -> bool {
        self.fixed.is_empty() || self.fixed.contains(&address) || self.asks(address.is_v4())
    }
}

/// Where the masters meet: at one of them.
fn rendezvous(document: &Value, hosts: &[Host<'_>], report: &mut Report) {
    let (said, path) = (field(document, "rendezvousIP"), "rendezvousIP");
    let masters = || hosts.iter().filter(|host| host.role != "worker");
    if said.is_null() || said == "" {
        if masters().all(|host| host.fixed.is_empty()) {
            let why = "missing rendezvousIP in agent-config, at least one host networkConfig, or \
                       at least one NMStateConfig manifest";
            report.required(path, why);
        }
        return;
    }
    let Some(address) = said.as_str().and_then(|text| text.parse::<Addr>().ok()) else {
        report.invalid(path, said, "invalid rendezvous IP");
        return;
    };
    let mut workers = hosts.iter().filter(|host| host.role == "worker");
    if let Some(worker) = workers.find(|host| host.fixed.contains(&address)) {
        let why = format!(
            "Host {} has role 'worker' and has the rendezvousIP assigned to it. The rendezvousIP \
             must be assigned to a control plane host.",
            text(worker.value, "hostname")
        );
        report.forbidden(&worker.path, &why);
    } else if !masters().any(|host| host.may_have(address)) {
        report.invalid(path, said, "no control plane host has this address");
    }
}

/// As many hosts of a role as replicas; those without one may be either.
fn count(hosts: &[Host<'_>], cluster: &Cluster, report: &mut Report) {
    let of = |role: &str| hosts.iter().filter(|host| host.role == role).count() as u64;
    let open = of("");
    // Masters are filled up first.
    let first = cluster.masters.unwrap_or_default().saturating_sub(of("master")).min(open);
    for (role, pool, wanted, more) in [
        ("master", "ControlPlane", cluster.masters, first),
        ("worker", "Compute", cluster.workers, open - first),
    ] {
        let Some(wanted) = wanted else { continue };
        let have = of(role) + more;
        let replicas = format!("the configured {pool} replicas ({wanted})");
        match have.cmp(&wanted) {
            Ordering::Less => {
                let why = format!("not enough hosts found ({have}) to support all {replicas}");
                report.required("hosts", &why);
            }
            Ordering::Equal => {}
            Ordering::Greater => {
                let why = format!("the number of {role} hosts defined ({have}) exceeds {replicas}");
                report.forbidden("hosts", &why);
            }
        }
    }
}

/// Six bytes with colons.
fn is_mac(text: &str) -> bool {
    let byte = |part: &str| part.len() == 2 && part.bytes().all(|one| one.is_ascii_hexdigit());
    text.split(':').count() == 6 && text.split(':').all(byte)
}

/// As Kubernetes takes it for the name of a node.
fn is_hostname(name: &str) -> bool {
    let letter = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
    let part = |part: &str| !part.is_empty() && part.bytes().all(letter);
    name.len() <= LONGEST && !name.starts_with('-') && name.split('.').all(part)
}
