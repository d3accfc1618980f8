//! Validates the networkData of a data template: names, ranges and addresses, and that every link
//! that is referred to exists. Never looks at the interfaces of a machine.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::model::address::IpFamily;
use crate::model::data_template::AnyNetwork;
use crate::model::data_template::network::{
    Links, MacAddress, NetworkData, ObjectAnnotation, Route, Services, is_mac_address,
};

use super::{check_list_length, check_object_type, check_required_text};

const MTUS: RangeInclusive<u32> = 1280..=9000;
const VLANS: RangeInclusive<u32> = 0..=4096;
/// The longest interface name that Linux takes.
const MAX_NAME_LENGTH: usize = 15;

/// Adds every problem of a networkData.
pub fn check(data: &NetworkData, problems: &mut Vec<String>) {
    check_links(&data.links, problems);
    check_bonds(&data.links, problems);
    check_vlans(&data.links, problems);
    check_networks(data, problems);
    check_dns_servers("spec.networkData.services", &data.services, None, problems);
}

/// Checks what all kinds of links have.
fn check_links(links: &Links, problems: &mut Vec<String>) {
    for (list, length) in [
        ("bonds", links.bonds.len()),
        ("ethernets", links.ethernets.len()),
        ("vlans", links.vlans.len()),
    ] {
        check_list_length(&format!("spec.networkData.links.{list}"), length, problems);
    }
    let mut seen = BTreeSet::new();
    for (index, link) in links.list_links() {
        let path = format!("spec.networkData.links.{}[{index}]", link.list);
        check_required_text(&format!("{path}.id"), link.id, problems);
        if !seen.insert(link.id) {
            problems.push(format!("{path}.id: another link has the id `{}` too", link.id));
        }
        if !link.name.is_empty() && !is_interface_name(link.name) {
            problems.push(format!(
                "{path}.name: `{}` is not an interface name: at most {MAX_NAME_LENGTH} letters, \
                 digits, dots, underscores and dashes, a letter first",
                link.name
            ));
        }
        if !MTUS.contains(&link.mtu) {
            let least = *MTUS.start();
            let most = *MTUS.end();
            problems.push(format!("{path}.mtu: {} is not between {least} and {most}", link.mtu));
        }
        if let Some(mac_address) = link.mac {
            check_mac_address(&format!("{path}.macAddress"), mac_address, problems);
        }
    }
}

/// Checks the parameters of bonds, and that each of their links is one of the template.
fn check_bonds(links: &Links, problems: &mut Vec<String>) {
    for (index, bond) in links.bonds.iter().enumerate() {
        let path = format!("spec.networkData.links.bonds[{index}]");
        problems.extend(bond.illegal_parameters().map(|why| format!("{path}.parameters: {why}")));
        for (link_index, id) in bond.links.iter().enumerate() {
            let link_path = format!("{path}.bondLinks[{link_index}]");
            check_reference(&link_path, id, links, &bond.id, problems);
        }
    }
}

/// Checks the numbers of VLANs, and that each is on another link of the template.
fn check_vlans(links: &Links, problems: &mut Vec<String>) {
    for (index, vlan) in links.vlans.iter().enumerate() {
        let path = format!("spec.networkData.links.vlans[{index}]");
        match vlan.number {
            None => problems.push(format!(
                "{path}.vlanID: VLAN link \"{}\" is missing required VlanID",
                vlan.id
            )),
            Some(number) if !VLANS.contains(&number) => {
                let least = *VLANS.start();
                let most = *VLANS.end();
                problems.push(format!("{path}.vlanID: {number} is not between {least} and {most}"));
            }
            Some(_) => {}
        }
        check_reference(&format!("{path}.vlanLink"), &vlan.link, links, &vlan.id, problems);
    }
}

fn is_interface_name(name: &str) -> bool {
    name.len() <= MAX_NAME_LENGTH
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Checks that `id` is the id of another link than `own_id`. A template without any links refers to
/// the links of the machine, which nobody knows here.
fn check_reference(path: &str, id: &str, links: &Links, own_id: &str, problems: &mut Vec<String>) {
    let link_ids: Vec<&str> = links.list_links().iter().map(|(_, link)| link.id).collect();
    if id.is_empty() {
        problems.push(format!("{path}: cannot be empty"));
    } else if id == own_id {
        problems.push(format!("{path}: `{id}` is the link itself"));
    } else if !link_ids.is_empty() && !link_ids.contains(&id) {
        let link_ids = link_ids.join(", ");
        problems.push(format!("{path}: there is no link `{id}`; the links are {link_ids}"));
    }
}

/// An address is written out, or taken from an interface or an annotation, in this order.
fn check_mac_address(path: &str, mac_address: &MacAddress, problems: &mut Vec<String>) {
    if !mac_address.string.is_empty() {
        if !is_mac_address(&mac_address.string) {
            problems.push(format!("{path}.string: bad MAC address: {}", mac_address.string));
        }
    } else if mac_address.from_host_interface.is_empty() {
        match &mac_address.from_annotation {
            Some(annotation) => {
                check_annotation(&format!("{path}.fromAnnotation"), annotation, problems);
            }
            None => {
                problems
                    .push(format!("{path}: string, fromHostInterface or fromAnnotation is needed"));
            }
        }
    }
}

fn check_annotation(path: &str, annotation: &ObjectAnnotation, problems: &mut Vec<String>) {
    check_object_type(&format!("{path}.object"), &annotation.object, problems);
    check_required_text(&format!("{path}.annotation"), &annotation.annotation, problems);
}

/// Checks networks and their routes. An id has to be unique in its list only.
fn check_networks(data: &NetworkData, problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for network in data.networks.list_networks() {
        let path = format!("spec.networkData.networks.{}[{}]", network.list.name(), network.index);
        check_required_text(&format!("{path}.id"), network.id, problems);
        if !seen.insert((network.list, network.id)) {
            problems.push(format!("{path}.id: another network has the id `{}` too", network.id));
        }
        check_reference(&format!("{path}.link"), network.link, &data.links, "", problems);
        if let Some(leased) = network.leased {
            if let Some(annotation) = &leased.from_pool_annotation {
                check_annotation(&format!("{path}.fromPoolAnnotation"), annotation, problems);
            }
            if leased.source().is_none() {
                let why = "fromPoolRef needs to contain a reference to an IPPool";
                problems.push(format!("{path}.fromPoolRef: {why}"));
            }
        }
        for (index, route) in network.routes.iter().enumerate() {
            check_route(&format!("{path}.routes[{index}]"), route, &network, problems);
        }
    }
}

/// Checks that a route is of the family of its network.
fn check_route(path: &str, route: &Route, network: &AnyNetwork<'_>, problems: &mut Vec<String>) {
    let family = network.family();
    let longest_prefix = family.bits();
    if route.prefix > longest_prefix {
        problems
            .push(format!("{path}.prefix: {} is not between 0 and {longest_prefix}", route.prefix));
    }
    for (field, address) in [("network", &route.network), ("gateway.string", &route.gateway.string)]
    {
        if !address.is_empty() {
            check_address(&format!("{path}.{field}"), address, Some(family), problems);
        }
    }
    if let Some(annotation) = &route.gateway.from_pool_annotation {
        check_annotation(&format!("{path}.gateway.fromPoolAnnotation"), annotation, problems);
    }
    check_dns_servers(&format!("{path}.services"), &route.services, Some(family), problems);
}

/// Checks DNS servers: those of a route are of its family, others may be of either.
fn check_dns_servers(
    path: &str,
    services: &Services,
    family: Option<IpFamily>,
    problems: &mut Vec<String>,
) {
    check_list_length(&format!("{path}.dns"), services.dns.len(), problems);
    for (index, server) in services.dns.iter().enumerate() {
        check_address(&format!("{path}.dns[{index}]"), server, family, problems);
    }
}

/// Checks that an address is one of a family, or of either if none is given.
fn check_address(path: &str, address: &str, family: Option<IpFamily>, problems: &mut Vec<String>) {
    let is_v4 = address.parse::<Ipv4Addr>().is_ok();
    // Upstream takes no IPv4 address inside an IPv6 one.
    let is_v6 = address.parse::<Ipv6Addr>().is_ok() && !address.contains('.');
    let is_valid = match family {
        Some(IpFamily::V4) => is_v4,
        Some(IpFamily::V6) => is_v6,
        None => is_v4 || is_v6,
    };
    if !is_valid {
        let family_name = family.map_or("IP", IpFamily::name);
        problems.push(format!("{path}: `{address}` is not a valid {family_name} address"));
    }
}
