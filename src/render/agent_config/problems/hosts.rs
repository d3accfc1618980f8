//! Checks the agent-config: that hosts can be installed, that there are as many as the cluster
//! takes, and that they are on its networks. Knows nothing but the two documents.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::address::{Addr, IpFamily, Subnet};

use super::super::{is_device_path, network};
use super::{Cluster, Report, field, is_in_any, list_field, outside_of, text_field};

const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
const DOCUMENT_FIELDS: [&str; 8] = [
    "apiVersion",
    "kind",
    "metadata",
    "rendezvousIP",
    "additionalNTPSources",
    "bootArtifactsBaseURL",
    "minimalISO",
    "hosts",
];
const METADATA_FIELDS: [&str; 4] = ["name", "namespace", "labels", "annotations"];
const HOST_FIELDS: [&str; 5] =
    ["hostname", "role", "rootDeviceHints", "interfaces", "networkConfig"];
const INTERFACE_FIELDS: [&str; 2] = ["name", "macAddress"];
/// The installer reads the last two, and refuses them.
const HINT_FIELDS: [&str; 10] = [
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
const MAX_HOSTNAME_LENGTH: usize = 63;

/// An entry of `hosts`.
struct Host<'v> {
    path: String,
    value: &'v Value,
    role: &'v str,
    /// Its network configuration for nmstate, or null.
    nmstate: &'v Value,
    static_addresses: Vec<Addr>,
}

/// Reports every problem of an agent-config.
pub(super) fn check(document: &Value, cluster: &Cluster, report: &mut Report) {
    report.check_fields("", document, &DOCUMENT_FIELDS);
    report.check_supported("apiVersion", field(document, "apiVersion"), &VERSIONS);
    report.check_supported("kind", field(document, "kind"), &["AgentConfig"]);
    let metadata = field(document, "metadata");
    report.check_fields("metadata.", metadata, &METADATA_FIELDS);
    if text_field(metadata, "name").is_empty() {
        report.add_required("metadata.name", "the cluster has no name");
    }
    let entries = list_field(document, "hosts").iter().enumerate();
    let hosts: Vec<Host<'_>> = entries.map(|(index, entry)| Host::read(index, entry)).collect();
    let mut names = BTreeSet::new();
    let mut macs = BTreeSet::new();
    for host in &hosts {
        report.check_fields(&format!("{}.", host.path), host.value, &HOST_FIELDS);
        host.check_name_and_role(&mut names, report);
        host.check_root_device_hints(report);
        host.check_interfaces(&mut macs, report);
        host.check_addresses(&cluster.networks, report);
    }
    check_rendezvous(document, &hosts, report);
    check_count(&hosts, cluster, report);
}

impl<'v> Host<'v> {
    fn read(index: usize, value: &'v Value) -> Self {
        let nmstate = field(value, "networkConfig");
        Self {
            path: format!("hosts[{index}]"),
            value,
            role: text_field(value, "role"),
            nmstate,
            static_addresses: network::static_addresses(nmstate),
        }
    }

    fn path_of(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    /// Checks the name and the role. `names` are those of the hosts before this one; its own is
    /// added.
    fn check_name_and_role(&self, names: &mut BTreeSet<&'v str>, report: &mut Report) {
        let name = text_field(self.value, "hostname");
        let path = self.path_of("hostname");
        if !name.is_empty() && !is_hostname(name) {
            report.add_invalid(&path, &json!(name), "is not a host name");
        }
        if !name.is_empty() && !names.insert(name) {
            report.add(&path, &format!("Duplicate value: \"{name}\""));
        }
        if !["", "master", "worker"].contains(&self.role) {
            let why = "host role has incorrect value. Role must either be 'master' or 'worker'";
            report.add_forbidden(&self.path_of("role"), why);
        }
    }

    /// Checks the hints by which the installer finds the disk: it supports fewer than Metal3 does.
    fn check_root_device_hints(&self, report: &mut Report) {
        let hints = field(self.value, "rootDeviceHints");
        let path = self.path_of("rootDeviceHints");
        report.check_fields(&format!("{path}."), hints, &HINT_FIELDS);
        for (name, subject) in [
            ("wwnWithExtension", "WWN extensions are"),
            ("wwnVendorExtension", "WWN vendor extensions are"),
        ] {
            if !text_field(hints, name).is_empty() {
                let why = format!("{subject} not supported in root device hints");
                report.add_forbidden(&format!("{path}.{name}"), &why);
            }
        }
        let device = text_field(hints, "deviceName");
        if !device.is_empty() && !is_device_path(device) {
            let expected = if device.starts_with("/dev/") {
                "path in /dev/ or /dev/disk/by-path/"
            } else {
                "a /dev/ path"
            };
            let why = format!("Device Name of root device hint must be {expected}");
            report.add_invalid(&format!("{path}.deviceName"), &json!(device), &why);
        }
    }

    /// Checks the interfaces and their MAC addresses. `macs` are those of the hosts before this
    /// one; its own are added.
    fn check_interfaces(&self, macs: &mut BTreeSet<String>, report: &mut Report) {
        let interfaces = list_field(self.value, "interfaces");
        let path = self.path_of("interfaces");
        if interfaces.is_empty() {
            report.add_required(&path, "at least one interface must be defined for each node");
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (index, interface) in interfaces.iter().enumerate() {
            let path = format!("{path}[{index}]");
            report.check_fields(&format!("{path}."), interface, &INTERFACE_FIELDS);
            let name = text_field(interface, "name");
            let mac = text_field(interface, "macAddress");
            let mac_path = format!("{path}.macAddress");
            if mac.is_empty() {
                let why = "each interface must have a MAC address defined";
                report.add_required(&mac_path, why);
                continue;
            }
            if !is_mac_address(mac) {
                report.add_invalid(&mac_path, &json!(mac), "is not a MAC address");
            } else if !macs.insert(mac.to_ascii_lowercase()) {
                report.add_invalid(&mac_path, &json!(mac), "duplicate MAC address found");
            }
            if !names.insert(name) {
                report.add(&format!("{path}.name"), &format!("Duplicate value: \"{name}\""));
            }
        }
        self.check_configured_interfaces(&names, report);
    }

    /// Every card that the network configuration names has to be one of the host's interfaces.
    fn check_configured_interfaces(&self, names: &BTreeSet<&str>, report: &mut Report) {
        for interface in network::interfaces_of(self.nmstate) {
            let name = interface["name"].as_str().unwrap_or_default();
            let is_found_by_mac = interface["identifier"].as_str() == Some("mac-address");
            let is_mapped = is_found_by_mac || name.starts_with("en") || names.contains(name);
            if is_mapped || !network::is_ethernet(interface) {
                continue;
            }
            let why = format!(
                "mac-interface mapping for interface {name} is missing and not a physical \
                 interface"
            );
            let path = self.path_of("networkConfig.interfaces");
            report.add_invalid(&path, &interface["name"], &why);
        }
    }

    /// Checks that the static addresses are addresses, and that the host is on the cluster's
    /// networks.
    fn check_addresses(&self, networks: &[Subnet], report: &mut Report) {
        let path = self.path_of("networkConfig");
        for written in network::written_static_addresses(self.nmstate) {
            if written.parse::<Addr>().is_err() {
                let why = format!("\"{written}\" is not a valid IP");
                report.add_invalid(&path, &json!(written), &why);
            }
        }
        if networks.is_empty() {
            return;
        }
        let is_in_cluster_network = self.is_in_cluster_network(networks);
        for family in [IpFamily::V4, IpFamily::V6] {
            let addresses: Vec<Addr> =
                self.static_addresses.iter().copied().filter(|ip| ip.family() == family).collect();
            let is_family_used =
                networks.iter().any(|network| network.written_address().family() == family);
            let is_fine = addresses.is_empty()
                || addresses.iter().any(|address| is_in_any(networks, *address))
                || self.has_dynamic_addresses(family);
            // A host may have other networks besides: addresses of a family that the cluster does
            // not use are fine, if the host is on a network of the cluster at all.
            if !is_fine && (is_family_used || !is_in_cluster_network) {
                report.add_invalid(&path, &json!(addresses), &outside_of(networks));
            }
        }
    }

    /// Whether the host has an address of the cluster's networks, or may get one.
    fn is_in_cluster_network(&self, networks: &[Subnet]) -> bool {
        self.static_addresses.iter().any(|address| is_in_any(networks, *address))
            || self.has_dynamic_addresses(IpFamily::V4)
            || self.has_dynamic_addresses(IpFamily::V6)
    }

    fn has_dynamic_addresses(&self, family: IpFamily) -> bool {
        network::has_dynamic_addresses(self.nmstate, family)
    }

    /// Whether the host has an address, or may get it.
    fn may_have(&self, address: Addr) -> bool {
        self.static_addresses.is_empty()
            || self.static_addresses.contains(&address)
            || self.has_dynamic_addresses(address.family())
    }
}

/// Checks the address at which the masters meet: it has to be that of a master.
fn check_rendezvous(document: &Value, hosts: &[Host<'_>], report: &mut Report) {
    let path = "rendezvousIP";
    let rendezvous = field(document, path);
    let (workers, masters): (Vec<&Host<'_>>, Vec<&Host<'_>>) =
        hosts.iter().partition(|host| host.role == "worker");
    if rendezvous.is_null() || rendezvous == "" {
        if masters.iter().all(|host| host.static_addresses.is_empty()) {
            let why = "missing rendezvousIP in agent-config, at least one host networkConfig, or \
                       at least one NMStateConfig manifest";
            report.add_required(path, why);
        }
        return;
    }
    let Some(address) = rendezvous.as_str().and_then(|written| written.parse::<Addr>().ok()) else {
        report.add_invalid(path, rendezvous, "invalid rendezvous IP");
        return;
    };
    if let Some(worker) = workers.iter().find(|host| host.static_addresses.contains(&address)) {
        let why = format!(
            "Host {} has role 'worker' and has the rendezvousIP assigned to it. The rendezvousIP \
             must be assigned to a control plane host.",
            text_field(worker.value, "hostname")
        );
        report.add_forbidden(&worker.path, &why);
    } else if !masters.iter().any(|host| host.may_have(address)) {
        report.add_invalid(path, rendezvous, "no control plane host has this address");
    }
}

/// Checks that there are as many hosts of a role as replicas. Hosts without a role may be either;
/// masters are filled up first.
fn check_count(hosts: &[Host<'_>], cluster: &Cluster, report: &mut Report) {
    let masters = count_hosts(hosts, "master");
    let without_role = count_hosts(hosts, "");
    let more_masters =
        cluster.masters.unwrap_or_default().saturating_sub(masters).min(without_role);
    let more_workers = without_role - more_masters;
    for (role, pool, wanted, count) in [
        ("master", "ControlPlane", cluster.masters, masters + more_masters),
        ("worker", "Compute", cluster.workers, count_hosts(hosts, "worker") + more_workers),
    ] {
        let Some(wanted) = wanted else { continue };
        let replicas = format!("the configured {pool} replicas ({wanted})");
        match count.cmp(&wanted) {
            Ordering::Less => {
                let why = format!("not enough hosts found ({count}) to support all {replicas}");
                report.add_required("hosts", &why);
            }
            Ordering::Equal => {}
            Ordering::Greater => {
                let why =
                    format!("the number of {role} hosts defined ({count}) exceeds {replicas}");
                report.add_forbidden("hosts", &why);
            }
        }
    }
}

fn count_hosts(hosts: &[Host<'_>], role: &str) -> u64 {
    hosts.iter().filter(|host| host.role == role).count() as u64
}

/// Whether a text is six bytes in hexadecimal digits, with colons between them.
fn is_mac_address(mac: &str) -> bool {
    mac.split(':').count() == 6
        && mac
            .split(':')
            .all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether Kubernetes accepts a name as that of a node.
fn is_hostname(name: &str) -> bool {
    name.len() <= MAX_HOSTNAME_LENGTH
        && !name.starts_with('-')
        && name.split('.').all(|part| !part.is_empty() && part.bytes().all(is_hostname_byte))
}

fn is_hostname_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}
