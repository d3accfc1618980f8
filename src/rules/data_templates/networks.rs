//! The networkData of a data template: names, ranges, addresses, and that links are there.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::model::data_template::Network;
use crate::model::data_template::network::{
    Links, MacAddress, NetworkData, ObjectAnnotation, Route, Services, is_mac,
};

use super::{few, needed, object};

const MTUS: RangeInclusive<u32> = 1280..=9000;
const VLANS: RangeInclusive<u32> = 0..=4096;
/// Linux has no longer names of interfaces.
const LONGEST_NAME: usize = 15;

pub fn check(data: &NetworkData, found: &mut Vec<String>) {
    links(&data.links, found);
    networks(data, found);
    dns("spec.networkData.services", &data.services, None, found);
}

fn links(links: &Links, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (list, length) in [
        ("bonds", links.bonds.len()),
        ("ethernets", links.ethernets.len()),
        ("vlans", links.vlans.len()),
    ] {
        few(&format!("spec.networkData.links.{list}"), length, found);
    }
    for (at, link) in links.all() {
        let path = format!("spec.networkData.links.{}[{at}]", link.list);
        needed(&format!("{path}.id"), link.id, found);
        if !seen.insert(link.id) {
            found.push(format!("{path}.id: `{}` is the id of another link too", link.id));
        }
        if !link.name.is_empty() && !is_name(link.name) {
            found.push(format!(
                "{path}.name: `{}` is no name of an interface: at most {LONGEST_NAME} letters, \
                 digits, dots, underscores and dashes, a letter first",
                link.name
            ));
        }
        if !MTUS.contains(&link.mtu) {
            let (least, most) = (*MTUS.start(), *MTUS.end());
            found.push(format!("{path}.mtu: {} is not from {least} to {most}", link.mtu));
        }
        if let Some(address) = link.mac {
            mac(&format!("{path}.macAddress"), address, found);
        }
    }
    for (at, bond) in links.bonds.iter().enumerate() {
        let path = format!("spec.networkData.links.bonds[{at}]");
        found.extend(bond.illegal_parameters().map(|why| format!("{path}.parameters: {why}")));
        for (number, id) in bond.links.iter().enumerate() {
            there(&format!("{path}.bondLinks[{number}]"), id, links, &bond.id, found);
        }
    }
    for (at, vlan) in links.vlans.iter().enumerate() {
        let path = format!("spec.networkData.links.vlans[{at}]");
        let (least, most) = (*VLANS.start(), *VLANS.end());
        match vlan.number {
            None => found.push(format!(
                "{path}.vlanID: VLAN link \"{}\" is missing required VlanID",
                vlan.id
            )),
            Some(number) if !VLANS.contains(&number) => {
                found.push(format!("{path}.vlanID: {number} is not from {least} to {most}"));
            }
            Some(_) => {}
        }
        there(&format!("{path}.vlanLink"), &vlan.link, links, &vlan.id, found);
    }
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= LONGEST_NAME
        && text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.bytes().all(inner)
}

/// A link is the id of another one. Without any links they are those of the machine.
fn there(path: &str, id: &str, links: &Links, own: &str, found: &mut Vec<String>) {
    let all = links.all();
    if id.is_empty() {
        found.push(format!("{path}: cannot be empty"));
    } else if id == own {
        found.push(format!("{path}: `{id}` is the link itself"));
    } else if !all.is_empty() && !all.iter().any(|(_, link)| link.id == id) {
        let known: Vec<&str> = all.iter().map(|(_, link)| link.id).collect();
        found.push(format!("{path}: there is no link `{id}`; there are {}", known.join(", ")));
    }
}

fn mac(path: &str, given: &MacAddress, found: &mut Vec<String>) {
    if !given.string.is_empty() {
        if !is_mac(&given.string) {
            found.push(format!("{path}.string: bad MAC address: {}", given.string));
        }
    } else if given.from_host_interface.is_empty() {
        match &given.from_annotation {
            Some(one) => annotation(&format!("{path}.fromAnnotation"), one, found),
            None => {
                found
                    .push(format!("{path}: string, fromHostInterface or fromAnnotation is needed"));
            }
        }
    }
}

fn annotation(path: &str, one: &ObjectAnnotation, found: &mut Vec<String>) {
    object(&format!("{path}.object"), &one.object, found);
    needed(&format!("{path}.annotation"), &one.annotation, found);
}

fn networks(data: &NetworkData, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for network in data.networks.all() {
        let path = format!("spec.networkData.networks.{}[{}]", network.list, network.at);
        needed(&format!("{path}.id"), network.id, found);
        if !seen.insert((network.list, network.id)) {
            found.push(format!("{path}.id: `{}` is the id of another one too", network.id));
        }
        there(&format!("{path}.link"), network.link, &data.links, "", found);
        if let Some(leased) = network.leased {
            if let Some(one) = &leased.from_pool_annotation {
                annotation(&format!("{path}.fromPoolAnnotation"), one, found);
            }
            if leased.source().is_none() {
                let why = "fromPoolRef needs to contain a reference to an IPPool";
                found.push(format!("{path}.fromPoolRef: {why}"));
            }
        }
        for (number, one) in network.routes.iter().enumerate() {
            route(&format!("{path}.routes[{number}]"), one, &network, found);
        }
    }
}

fn route(path: &str, one: &Route, network: &Network<'_>, found: &mut Vec<String>) {
    let v4 = network.is_v4();
    let most = if v4 { 32 } else { 128 };
    if one.prefix > most {
        found.push(format!("{path}.prefix: {} is not from 0 to {most}", one.prefix));
    }
    for (field, text) in [("network", &one.network), ("gateway.string", &one.gateway.string)] {
        if !text.is_empty() {
            address(&format!("{path}.{field}"), text, Some(v4), found);
        }
    }
    if let Some(note) = &one.gateway.from_pool_annotation {
        annotation(&format!("{path}.gateway.fromPoolAnnotation"), note, found);
    }
    dns(&format!("{path}.services"), &one.services, Some(v4), found);
}

/// Of one family, or of either.
fn dns(path: &str, services: &Services, v4: Option<bool>, found: &mut Vec<String>) {
    few(&format!("{path}.dns"), services.dns.len(), found);
    for (at, text) in services.dns.iter().enumerate() {
        address(&format!("{path}.dns[{at}]"), text, v4, found);
    }
}

fn address(path: &str, text: &str, v4: Option<bool>, found: &mut Vec<String>) {
    let is_v4 = text.parse::<Ipv4Addr>().is_ok();
    // Upstream takes no IPv4 address inside an IPv6 one.
    let is_v6 = text.parse::<Ipv6Addr>().is_ok() && !text.contains('.');
    let (fits, family) = match v4 {
        Some(true) => (is_v4, "IPv4"),
        Some(false) => (is_v6, "IPv6"),
        None => (is_v4 || is_v6, "IP"),
    };
    if !fits {
        found.push(format!("{path}: `{text}` is not a valid {family} address"));
    }
}
