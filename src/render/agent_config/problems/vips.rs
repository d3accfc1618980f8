//! The addresses of a cluster's API and ingress in its install-config.

use serde_json::{Value, json};

use crate::model::address::{Addr, Subnet};

use super::{Report, field, is_in, outside, text};

/// Platforms whose clusters look after these addresses themselves.
const TAKE: [&str; 3] = ["baremetal", "vsphere", "nutanix"];
/// One for each family of addresses.
const MOST: usize = 2;

/// What one of both says.
struct Vips<'v> {
    /// As messages call it.
    name: &'static str,
    path: String,
    all: &'v [Value],
}

pub(super) fn check(platform: &str, its: &Value, networks: &[Subnet], report: &mut Report) {
    let api = Vips::read(platform, its, ["API", "apiVIPs", "apiVIP"], report);
    let ingress = Vips::read(platform, its, ["Ingress", "ingressVIPs", "ingressVIP"], report);
    if !TAKE.contains(&platform) {
        for one in [&api, &ingress].into_iter().filter(|one| !one.all.is_empty()) {
            report.forbidden(&one.path, &format!("platform {platform} has no VIPs"));
        }
        return;
    }
    // Then they are somebody else's, and may be anywhere.
    let foreign = text(field(its, "loadBalancer"), "type") == "UserManaged";
    for (one, other) in [(&api, &ingress), (&ingress, &api)] {
        one.count(other, report);
        if one.all.len() <= MOST {
            one.addresses(networks, foreign, report);
        }
    }
    if foreign {
        return;
    }
    let taken: Vec<Addr> = ingress.all.iter().filter_map(address).collect();
    for one in api.all {
        if address(one).is_some_and(|address| taken.contains(&address)) {
            report.invalid(&api.path, one, "VIP for API must not be one of the Ingress VIPs");
        }
    }
}

fn address(value: &Value) -> Option<Addr> {
    value.as_str()?.parse().ok()
}

impl<'v> Vips<'v> {
    /// The list, or the only one in the field that was there before the list.
    fn read(
        platform: &str,
        its: &'v Value,
        [name, many, one]: [&'static str; 3],
        report: &mut Report,
    ) -> Self {
        let path = format!("platform.{platform}.{many}");
        let (said, old) = (field(its, many), field(its, one));
        let is_old = !old.is_null() && old != "";
        let all: &'v [Value] = match said {
            Value::Array(all) if !all.is_empty() => all.as_slice(),
            Value::Array(_) | Value::Null if is_old => std::slice::from_ref(old),
            Value::Array(_) | Value::Null => &[],
            _ => {
                report.invalid(&path, said, "is no list");
                &[]
            }
        };
        Self { name, path, all }
    }

    fn count(&self, other: &Vips<'_>, report: &mut Report) {
        let Self { name, path, all } = self;
        if all.len() > MOST {
            let many = all.len();
            report.say(path, &format!("Too many: {many}: must have at most {MOST} items"));
        }
        if all.is_empty() {
            report.required(path, &format!("must specify at least one VIP for the {name}"));
            if !other.all.is_empty() {
                let (own, others) = (as_said(name), as_said(other.name));
                let why = format!("must specify VIP for {own}, when VIP for {others} is set");
                report.required(path, &why);
            }
        }
    }

    fn addresses(&self, networks: &[Subnet], foreign: bool, report: &mut Report) {
        let Self { name, path, all } = self;
        for one in *all {
            let Some(address) = address(one) else {
                report.invalid(path, one, &format!("{one} is not a valid IP"));
                continue;
            };
            if !foreign && !networks.is_empty() && !is_in(networks, address) {
                report.invalid(path, one, &outside(networks));
            }
        }
        let families: Vec<bool> = all.iter().filter_map(address).map(Addr::is_v4).collect();
        let dual = networks.iter().any(|network| network.written().is_v4())
            && networks.iter().any(|network| !network.written().is_v4());
        let first = networks.first().map(|network| network.written().is_v4());
        match (families.as_slice(), *all) {
            ([only], [one]) if dual && Some(*only) != first => {
                let why = format!(
                    "VIP for the {name} must be of the same IP family with machine network's \
                     primary IP Family for dual-stack IPv4/IPv6"
                );
                report.invalid(path, one, &why);
            }
            ([one, two], _) if one == two => {
                let why = format!(
                    "If two {name} VIPs are given, one must be an IPv4 address, the other an IPv6"
                );
                report.invalid(path, &json!(all), &why);
            }
            _ => {}
        }
    }
}

/// In the middle of a sentence.
fn as_said(name: &str) -> &str {
    if name == "Ingress" { "ingress" } else { name }
}
