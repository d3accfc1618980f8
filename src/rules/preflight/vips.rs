//! The rules about the virtual addresses of API and ingress in an install-config.

use serde_json::Value;

use crate::model::address::{Addr, IpFamily};
use crate::model::annotations::VIPS_FROM;

use super::{
    Finding, InstallConfig, VipSource, field, join_path, networks, platform_fields, platform_name,
};

/// One for each family of addresses.
const MAX_VIPS: usize = 2;

/// The virtual addresses of the API or of the ingress.
struct Vips<'v> {
    /// What messages call them.
    name: &'static str,
    path: String,
    values: Vec<&'v Value>,
}

impl<'v> Vips<'v> {
    /// Reads a list, or else the field with a single address that there was before the lists.
    fn read(document: &'v Value, name: &'static str, list: &str, single: &str) -> Self {
        let platform = platform_name(document).unwrap_or_default();
        let path = join_path(&format!("platform.{platform}"), list);
        let fields = platform_fields(document);
        let listed: Vec<&Value> = field(fields, list).as_array().into_iter().flatten().collect();
        let single_value = field(fields, single);
        let has_single = single_value.as_str().is_some_and(|value| !value.is_empty());
        let values = if listed.is_empty() && has_single { vec![single_value] } else { listed };
        Self { name, path, values }
    }

    fn addresses(&self) -> Vec<Addr> {
        self.values.iter().filter_map(|value| value.as_str()?.parse().ok()).collect()
    }

    fn finding(&self, value: Option<&Value>, why: &str, advice: &str) -> Finding {
        let finding = Finding::new(&self.path, why, advice);
        match value {
            Some(value) => finding.with_value(value),
            None => finding,
        }
    }
}

fn read_vips(document: &Value) -> [Vips<'_>; 2] {
    [
        Vips::read(document, "the API", "apiVIPs", "apiVIP"),
        Vips::read(document, "the ingress", "ingressVIPs", "ingressVIP"),
    ]
}

/// Whether a load balancer of somebody else has the addresses, which may then be anywhere.
fn is_user_managed(document: &Value) -> bool {
    field(field(platform_fields(document), "loadBalancer"), "type") == "UserManaged"
}

/// Addresses that nobody has given and nobody will lease.
pub(super) fn find_missing(config: &InstallConfig<'_>) -> Vec<Finding> {
    if config.vips == VipSource::Leases {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for vips in read_vips(config.document) {
        if vips.values.is_empty() {
            let why = format!("is missing: {} needs an address", vips.name);
            let advice =
                format!("give one, or let the pool lease it by its annotation {VIPS_FROM}");
            findings.push(vips.finding(None, &why, &advice));
        }
    }
    findings
}

/// An address of the API without one of the ingress, or the other way round.
pub(super) fn find_unpaired(config: &InstallConfig<'_>) -> Vec<Finding> {
    let [api, ingress] = read_vips(config.document);
    let mut findings = Vec::new();
    for (vips, counterpart) in [(&api, &ingress), (&ingress, &api)] {
        if vips.values.is_empty() && !counterpart.values.is_empty() {
            let why = format!("is missing, but {} has an address", counterpart.name);
            findings.push(vips.finding(None, &why, "give both or none"));
        }
    }
    findings
}

/// Values that are no addresses, and more of them than families.
pub(super) fn find_unreadable(config: &InstallConfig<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for vips in read_vips(config.document) {
        if vips.values.len() > MAX_VIPS {
            let why = format!("has {} addresses", vips.values.len());
            findings.push(vips.finding(None, &why, "give one for each family of addresses"));
        }
        for value in vips.values.iter().copied() {
            if value.as_str().is_none_or(|address| address.parse::<Addr>().is_err()) {
                findings.push(vips.finding(Some(value), "is not an address", "write one"));
            }
        }
    }
    findings
}

/// Two addresses of one family.
pub(super) fn find_same_family(config: &InstallConfig<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for vips in read_vips(config.document) {
        let addresses = vips.addresses();
        if let [first, second] = addresses.as_slice()
            && first.family() == second.family()
        {
            let why = format!("has two addresses of {}", first.family().name());
            findings.push(vips.finding(None, &why, "give one of IPv4 and one of IPv6"));
        }
    }
    findings
}

/// One address for both purposes.
pub(super) fn find_shared(config: &InstallConfig<'_>) -> Vec<Finding> {
    if is_user_managed(config.document) {
        return Vec::new();
    }
    let [api, ingress] = read_vips(config.document);
    let ingress_addresses = ingress.addresses();
    let mut findings = Vec::new();
    for value in api.values.iter().copied() {
        let address = value.as_str().and_then(|address| address.parse::<Addr>().ok());
        if address.is_some_and(|address| ingress_addresses.contains(&address)) {
            let advice = "give the API and the ingress addresses of their own";
            findings.push(api.finding(Some(value), "is an address of the ingress, too", advice));
        }
    }
    findings
}

/// Addresses outside of the networks of the machines.
pub(super) fn find_outside(config: &InstallConfig<'_>) -> Vec<Finding> {
    if is_user_managed(config.document) {
        return Vec::new();
    }
    let machine_networks = networks::machine_networks(config.document);
    let mut findings = Vec::new();
    for vips in read_vips(config.document) {
        for value in vips.values.iter().copied() {
            let address = value.as_str().and_then(|address| address.parse::<Addr>().ok());
            let is_outside = address.is_some_and(|address| {
                !machine_networks.iter().any(|network| network.contains(address))
            });
            if is_outside {
                let why = "is in no network of networking.machineNetwork";
                let advice = "choose an address of that network, or correct the network";
                findings.push(vips.finding(Some(value), why, advice));
            }
        }
    }
    findings
}

/// In a dual-stack cluster, addresses that do not begin with the family that the networks of the
/// machines begin with.
pub(super) fn find_wrong_order(config: &InstallConfig<'_>) -> Vec<Finding> {
    let machine_networks = networks::machine_networks(config.document);
    let families: Vec<IpFamily> =
        machine_networks.iter().map(|network| network.written_address().family()).collect();
    let Some(primary) = families.first() else { return Vec::new() };
    let has_both = families.iter().any(|family| family != primary);
    if !has_both || !networks::is_dual_stack(config.document) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for vips in read_vips(config.document) {
        let first = vips.addresses().first().map(|address| address.family());
        if first.is_some_and(|first| first != *primary) {
            let name = primary.name();
            let why = format!("does not begin with {name}, as networking.machineNetwork does");
            let advice = format!("put the address of {name} first");
            findings.push(vips.finding(vips.values.first().copied(), &why, &advice));
        }
    }
    findings
}
