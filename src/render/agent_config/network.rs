//! The networks of hosts, for nmstate: which configuration is for a host, how interfaces are
//! called in it, and the addresses that it gives.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::address::Addr;
use crate::model::agent::Agent;
use crate::model::agent::inventory::Inventory;
use crate::model::ip_lease::IpLease;
use crate::model::nmstate_config::NMStateConfig;

/// Keys whose texts are words of nmstate, not names of interfaces; as the discovery image has it.
const WORDS: [&str; 5] = ["type", "state", "description", "mode", "protocol"];
/// The longest name of an interface that the kernel takes.
const LONGEST: usize = 15;

/// An interface that a host has its MAC address of.
pub struct Card {
    pub name: String,
    /// Lower case with colons.
    pub mac: String,
}

/// The configuration that is for a host by a MAC address, its interfaces called as the host calls
/// them. More than one is refused.
pub fn network_of(agent: &Agent, configs: &[NMStateConfig]) -> Result<Option<Value>, String> {
    let Some(inventory) = &agent.status.inventory else { return Ok(None) };
    let mut its = configs.iter().filter(|one| one.is_for(inventory.macs()));
    let Some(config) = its.next() else { return Ok(None) };
    if let Some(other) = its.next() {
        let (first, second) = (config.metadata.key(), other.metadata.key());
        let host = agent.hostname();
        return Err(format!("NMStateConfigs `{first}` and `{second}` are both for host `{host}`"));
    }
    if config.spec.config.is_null() {
        return Ok(None);
    }
    let cards = cards(inventory);
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for one in &config.spec.interfaces {
        let card = cards.iter().find(|card| card.mac.eq_ignore_ascii_case(&one.mac_address));
        if let Some(card) = card {
            names.insert(one.name.as_str(), card.name.as_str());
        }
    }
    let mut made = config.spec.config.clone();
    rename(&mut made, &names);
    Ok(Some(made))
}

/// All at once, so that two interfaces may change names.
fn rename(value: &mut Value, names: &BTreeMap<&str, &str>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if !WORDS.contains(&key.as_str()) {
                    rename(value, names);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|one| rename(one, names)),
        Value::String(text) => {
            if let Some(name) = names.get(text.as_str()) {
                *text = String::from(*name);
            }
        }
        _ => {}
    }
}

/// The network of a host whose addresses were leased for it: they are its first card's.
pub fn of_leases(agent: &Agent, leases: &[IpLease]) -> Option<Value> {
    let card = cards(agent.status.inventory.as_ref()?).into_iter().next()?;
    let of =
        |v4: bool| leases.iter().filter(move |one| one.address.is_some_and(|at| at.is_v4() == v4));
    let family = |v4: bool| {
        let all: Vec<Value> = of(v4)
            .filter_map(|one| {
                let ip = one.address?.to_string();
                Some(json!({"ip": ip, "prefix-length": one.network.prefix}))
            })
            .collect();
        json!({"enabled": !all.is_empty(), "dhcp": false, "address": all})
    };
    let mut made = json!({"interfaces": [{
        "name": card.name, "type": "ethernet", "state": "up", "mac-address": card.mac,
        "ipv4": family(true), "ipv6": family(false)}]});
    let servers: BTreeSet<&String> =
        leases.iter().flat_map(|one| &one.network.dns_servers).collect();
    if !servers.is_empty() {
        made["dns-resolver"] = json!({"config": {"server": servers}});
    }
    let routes: Vec<Value> = [(true, "0.0.0.0/0"), (false, "::/0")]
        .into_iter()
        .filter_map(|(v4, all)| {
            let gateway = of(v4).find_map(|one| one.network.gateway.clone())?;
            Some(json!({"destination": all, "next-hop-address": gateway,
                "next-hop-interface": card.name, "table-id": 254}))
        })
        .collect();
    if !routes.is_empty() {
        made["routes"] = json!({"config": routes});
    }
    Some(made)
}

/// The physical interfaces of a host, each MAC address once.
pub fn cards(inventory: &Inventory) -> Vec<Card> {
    let mut made: Vec<Card> = Vec::new();
    for one in &inventory.interfaces {
        let mac = one.mac_address.to_ascii_lowercase();
        let physical = ["", "physical"].contains(&one.kind.as_str());
        if !physical || mac.is_empty() || made.iter().any(|card| card.mac == mac) {
            continue;
        }
        // What a management controller calls an interface may be no name of one.
        let usable = is_name(&one.name) && !made.iter().any(|card| card.name == one.name);
        let name = if usable { one.name.clone() } else { format!("nic{}", made.len()) };
        made.push(Card { name, mac });
    }
    made
}

fn is_name(text: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_graphic() && !b"/:".contains(&letter);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(fits) && ![".", ".."].contains(&text)
}

pub fn interfaces(nmstate: &Value) -> &[Value] {
    nmstate["interfaces"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether it is an interface of its own, not one that is made of others.
pub fn is_plain(interface: &Value) -> bool {
    matches!(interface["type"].as_str(), None | Some("ethernet"))
}

/// What a configuration calls the interface with a MAC address.
pub fn name_of<'n>(nmstate: &'n Value, mac: &str) -> Option<&'n str> {
    let mut plain = interfaces(nmstate).iter().filter(|one| is_plain(one));
    let its = plain
        .find(|one| one["mac-address"].as_str().is_some_and(|text| text.eq_ignore_ascii_case(mac)));
    its?["name"].as_str()
}

/// Addresses that are given without asking anybody, as they are written.
pub fn written(nmstate: &Value) -> Vec<&str> {
    let mut made = Vec::new();
    for one in interfaces(nmstate) {
        for family in [&one["ipv4"], &one["ipv6"]] {
            let off = family["enabled"].as_bool() == Some(false);
            if off || family["dhcp"].as_bool() == Some(true) {
                continue;
            }
            let all = family["address"].as_array().into_iter().flatten();
            made.extend(all.filter_map(|address| address["ip"].as_str()));
        }
    }
    made
}

/// The same, read.
pub fn addresses(nmstate: &Value) -> Vec<Addr> {
    written(nmstate).into_iter().filter_map(|text| text.parse().ok()).collect()
}

/// Whether a host gets addresses of a family from others.
pub fn asks(nmstate: &Value, v4: bool) -> bool {
    let family = if v4 { "ipv4" } else { "ipv6" };
    let yes = |one: &Value, field: &str| one[family][field].as_bool() == Some(true);
    interfaces(nmstate).iter().any(|one| yes(one, "dhcp") || yes(one, "autoconf"))
}
