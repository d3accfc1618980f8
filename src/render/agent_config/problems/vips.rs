//! Checks the virtual addresses of a cluster's API and ingress in its install-config. Never looks
//! at the hosts that will have them.

use serde_json::{Value, json};

use crate::model::address::{Addr, IpFamily, Subnet};

use super::{Report, field, is_in_any, outside_of, text_field};

/// Platforms whose clusters look after these addresses themselves.
const PLATFORMS_WITH_VIPS: [&str; 3] = ["baremetal", "vsphere", "nutanix"];
/// One for each family of addresses.
const MAX_VIPS: usize = 2;

/// The virtual addresses of the API or of the ingress.
struct Vips<'v> {
    /// What messages call them: `API` or `Ingress`.
    name: &'static str,
    path: String,
    values: &'v [Value],
}

/// Checks the addresses in `fields`, which is what stands under the name of the platform.
pub(super) fn check(platform: &str, fields: &Value, networks: &[Subnet], report: &mut Report) {
    let api = Vips::read(platform, fields, ["API", "apiVIPs", "apiVIP"], report);
    let ingress = Vips::read(platform, fields, ["Ingress", "ingressVIPs", "ingressVIP"], report);
    if !PLATFORMS_WITH_VIPS.contains(&platform) {
        for vips in [&api, &ingress] {
            if !vips.values.is_empty() {
                report.add_forbidden(&vips.path, &format!("platform {platform} has no VIPs"));
            }
        }
        return;
    }
    // Then the addresses are those of a load balancer, which may be anywhere.
    let is_user_managed = text_field(field(fields, "loadBalancer"), "type") == "UserManaged";
    for (vips, counterpart) in [(&api, &ingress), (&ingress, &api)] {
        vips.check_count(counterpart, report);
        if vips.values.len() <= MAX_VIPS {
            vips.check_addresses(networks, is_user_managed, report);
        }
    }
    if is_user_managed {
        return;
    }
    let ingress_addresses: Vec<Addr> = ingress.values.iter().filter_map(parse_address).collect();
    for value in api.values {
        if parse_address(value).is_some_and(|address| ingress_addresses.contains(&address)) {
            let why = "VIP for API must not be one of the Ingress VIPs";
            report.add_invalid(&api.path, value, why);
        }
    }
}

fn parse_address(value: &Value) -> Option<Addr> {
    value.as_str()?.parse().ok()
}

impl<'v> Vips<'v> {
    /// Reads the list of addresses, or else the field with a single address that was there before
    /// the list.
    fn read(
        platform: &str,
        fields: &'v Value,
        [name, list_name, single_name]: [&'static str; 3],
        report: &mut Report,
    ) -> Self {
        let path = format!("platform.{platform}.{list_name}");
        let list = field(fields, list_name);
        let single = field(fields, single_name);
        let has_single = !single.is_null() && single != "";
        let values: &'v [Value] = match list {
            Value::Array(values) if !values.is_empty() => values.as_slice(),
            Value::Array(_) | Value::Null if has_single => std::slice::from_ref(single),
            Value::Array(_) | Value::Null => &[],
            _ => {
                report.add_invalid(&path, list, "is not a list");
                &[]
            }
        };
        Self { name, path, values }
    }

    /// `counterpart` are those of the ingress for the API, and the other way round.
    fn check_count(&self, counterpart: &Vips<'_>, report: &mut Report) {
        let Self { name, path, values } = self;
        if values.len() > MAX_VIPS {
            let count = values.len();
            report.add(path, &format!("Too many: {count}: must have at most {MAX_VIPS} items"));
        }
        if values.is_empty() {
            report.add_required(path, &format!("must specify at least one VIP for the {name}"));
            if !counterpart.values.is_empty() {
                let own_name = name_in_sentence(name);
                let other_name = name_in_sentence(counterpart.name);
                let why =
                    format!("must specify VIP for {own_name}, when VIP for {other_name} is set");
                report.add_required(path, &why);
            }
        }
    }

    /// Checks that the addresses can be read, that they are in a network of the machines unless a
    /// user's load balancer has them, and that their families suit those networks.
    fn check_addresses(&self, networks: &[Subnet], is_user_managed: bool, report: &mut Report) {
        let Self { name, path, values } = self;
        for value in *values {
            let Some(address) = parse_address(value) else {
                report.add_invalid(path, value, &format!("{value} is not a valid IP"));
                continue;
            };
            if !is_user_managed && !networks.is_empty() && !is_in_any(networks, address) {
                report.add_invalid(path, value, &outside_of(networks));
            }
        }
        let families: Vec<IpFamily> =
            values.iter().filter_map(parse_address).map(Addr::family).collect();
        let is_dual_stack = networks.iter().any(|network| network.written_address().is_v4())
            && networks.iter().any(|network| !network.written_address().is_v4());
        let primary_family = networks.first().map(|network| network.written_address().family());
        match (families.as_slice(), *values) {
            ([family], [value]) if is_dual_stack && Some(*family) != primary_family => {
                let why = format!(
                    "VIP for the {name} must be of the same IP family with machine network's \
                     primary IP Family for dual-stack IPv4/IPv6"
                );
                report.add_invalid(path, value, &why);
            }
            ([first, second], _) if first == second => {
                let why = format!(
                    "If two {name} VIPs are given, one must be an IPv4 address, the other an IPv6"
                );
                report.add_invalid(path, &json!(values), &why);
            }
            _ => {}
        }
    }
}

/// Upstream writes the API with capitals only, also in the middle of a sentence.
fn name_in_sentence(name: &str) -> &str {
    if name == "Ingress" { "ingress" } else { name }
}
