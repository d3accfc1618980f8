//! The network configurations of hosts, for nmstate: which one is for a host, what it calls the
//! interfaces of that host, and which addresses it gives. Applies none of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::address::{Addr, IpFamily};
use crate::model::agent::Agent;
use crate::model::agent::inventory::Inventory;
use crate::model::ip_lease::IpLease;
use crate::model::nmstate_config::NMStateConfig;

/// Keys whose values are words of nmstate, never names of interfaces. The script of the discovery
/// image has the same list.
const KEYS_WITHOUT_NAMES: [&str; 5] = ["type", "state", "description", "mode", "protocol"];
/// The longest interface name that the kernel takes.
const MAX_NAME_LENGTH: usize = 15;

/// A physical interface of a host.
pub struct NetworkCard {
    pub name: String,
    /// Lower case with colons.
    pub mac: String,
}

/// The configuration that names a MAC address of a host, with the names that the host has for its
/// interfaces. Two configurations for one host are an error.
pub fn nmstate_for_agent(
    agent: &Agent,
    configs: &[NMStateConfig],
) -> Result<Option<Value>, String> {
    let Some(inventory) = agent.inventory() else { return Ok(None) };
    let mut matching = configs.iter().filter(|config| config.is_for(inventory.macs()));
    let Some(config) = matching.next() else { return Ok(None) };
    if let Some(second_config) = matching.next() {
        let first = config.metadata.key();
        let second = second_config.metadata.key();
        let host = agent.hostname();
        return Err(format!("NMStateConfigs `{first}` and `{second}` are both for host `{host}`"));
    }
    if config.spec.config.is_null() {
        return Ok(None);
    }
    let cards = cards(inventory);
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for interface in &config.spec.interfaces {
        let card = cards.iter().find(|card| card.mac.eq_ignore_ascii_case(&interface.mac_address));
        if let Some(card) = card {
            names.insert(interface.name.as_str(), card.name.as_str());
        }
    }
    let mut nmstate = config.spec.config.clone();
    rename_interfaces(&mut nmstate, &names);
    Ok(Some(nmstate))
}

/// Replaces names by other names, all at once, so that two interfaces may change names.
fn rename_interfaces(value: &mut Value, names: &BTreeMap<&str, &str>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if !KEYS_WITHOUT_NAMES.contains(&key.as_str()) {
                    rename_interfaces(value, names);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_interfaces(item, names)),
        Value::String(string) => {
            if let Some(name) = names.get(string.as_str()) {
                *string = String::from(*name);
            }
        }
        _ => {}
    }
}

/// The network of a host whose addresses were leased for it: all of them belong to its first card.
pub fn nmstate_of_leases(agent: &Agent, leases: &[IpLease]) -> Option<Value> {
    let card = cards(agent.inventory()?).into_iter().next()?;
    let mut nmstate = json!({"interfaces": [{
        "name": card.name, "type": "ethernet", "state": "up", "mac-address": card.mac,
        "ipv4": render_family(leases, IpFamily::V4),
        "ipv6": render_family(leases, IpFamily::V6)}]});
    let servers: BTreeSet<&String> =
        leases.iter().flat_map(|lease| &lease.network.dns_servers).collect();
    if !servers.is_empty() {
        nmstate["dns-resolver"] = json!({"config": {"server": servers}});
    }
    let mut routes = Vec::new();
    for (family, destination) in [(IpFamily::V4, "0.0.0.0/0"), (IpFamily::V6, "::/0")] {
        let gateway =
            leases_of_family(leases, family).find_map(|lease| lease.network.gateway.clone());
        if let Some(gateway) = gateway {
            routes.push(json!({"destination": destination, "next-hop-address": gateway,
                "next-hop-interface": card.name, "table-id": 254}));
        }
    }
    if !routes.is_empty() {
        nmstate["routes"] = json!({"config": routes});
    }
    Some(nmstate)
}

fn leases_of_family(leases: &[IpLease], family: IpFamily) -> impl Iterator<Item = &IpLease> {
    leases
        .iter()
        .filter(move |lease| lease.address.is_some_and(|address| address.family() == family))
}

/// The addresses of one family as nmstate has them. A family without addresses is disabled.
fn render_family(leases: &[IpLease], family: IpFamily) -> Value {
    let mut addresses = Vec::new();
    for lease in leases_of_family(leases, family) {
        let ip = lease.address.map(|address| address.to_string());
        addresses.push(json!({"ip": ip, "prefix-length": lease.network.prefix}));
    }
    json!({"enabled": !addresses.is_empty(), "dhcp": false, "address": addresses})
}

/// The physical interfaces of a host, each MAC address once.
pub fn cards(inventory: &Inventory) -> Vec<NetworkCard> {
    let mut cards: Vec<NetworkCard> = Vec::new();
    for interface in &inventory.interfaces {
        let mac = interface.mac_address.to_ascii_lowercase();
        let is_physical = ["", "physical"].contains(&interface.kind.as_str());
        if !is_physical || mac.is_empty() || cards.iter().any(|card| card.mac == mac) {
            continue;
        }
        // A management controller may call an interface something that is no name for the kernel.
        let is_usable = is_interface_name(&interface.name)
            && !cards.iter().any(|card| card.name == interface.name);
        let name = if is_usable { interface.name.clone() } else { format!("nic{}", cards.len()) };
        cards.push(NetworkCard { name, mac });
    }
    cards
}

fn is_interface_name(name: &str) -> bool {
    (1..=MAX_NAME_LENGTH).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/:".contains(&byte))
        && ![".", ".."].contains(&name)
}

/// The interfaces of a configuration, none if it has no such list.
pub fn interfaces_of(nmstate: &Value) -> &[Value] {
    nmstate["interfaces"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether an interface is a card, not one that is made of other interfaces.
pub fn is_ethernet(interface: &Value) -> bool {
    matches!(interface["type"].as_str(), None | Some("ethernet"))
}

/// What a configuration calls the interface with a MAC address.
pub fn find_interface_name<'n>(nmstate: &'n Value, mac: &str) -> Option<&'n str> {
    let interface = interfaces_of(nmstate).iter().find(|interface| {
        let interface_mac = interface["mac-address"].as_str();
        is_ethernet(interface)
            && interface_mac.is_some_and(|interface_mac| interface_mac.eq_ignore_ascii_case(mac))
    })?;
    interface["name"].as_str()
}

/// The static addresses of a configuration as they are written, even if they are no addresses.
pub fn written_static_addresses(nmstate: &Value) -> Vec<&str> {
    let mut written = Vec::new();
    for interface in interfaces_of(nmstate) {
        for family in [&interface["ipv4"], &interface["ipv6"]] {
            let is_disabled = family["enabled"].as_bool() == Some(false);
            if is_disabled || family["dhcp"].as_bool() == Some(true) {
                continue;
            }
            let addresses = family["address"].as_array().into_iter().flatten();
            written.extend(addresses.filter_map(|address| address["ip"].as_str()));
        }
    }
    written
}

/// The static addresses of a configuration, without those that are no addresses.
pub fn static_addresses(nmstate: &Value) -> Vec<Addr> {
    let written = written_static_addresses(nmstate).into_iter();
    written.filter_map(|address| address.parse().ok()).collect()
}

/// Whether a host gets addresses of a family from the network, by DHCP or from routers.
pub fn has_dynamic_addresses(nmstate: &Value, family: IpFamily) -> bool {
    let key = match family {
        IpFamily::V4 => "ipv4",
        IpFamily::V6 => "ipv6",
    };
    interfaces_of(nmstate).iter().any(|interface| {
        let settings = &interface[key];
        settings["dhcp"].as_bool() == Some(true) || settings["autoconf"].as_bool() == Some(true)
    })
}
