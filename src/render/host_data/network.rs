//! Links, networks and services of one machine, as OpenStack's network_data.json has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::model::data_template::Network;
use crate::model::data_template::network::{
    Bond, Link, Links, MacAddress, Route, Services, Vlan, is_mac,
};

use super::{Facts, Leased};

const LEASELESS: &str = "fromPoolRef needs to contain a reference to an IPPool";

/// The document, or null without networkData in the template.
pub fn network_data(facts: &Facts<'_>) -> Result<Value, String> {
    let Some(data) = &facts.template.spec.network_data else { return Ok(Value::Null) };
    let links = links(facts, &data.links)?;
    let networks = data.networks.all();
    let networks: Result<Vec<Value>, String> =
        networks.iter().map(|one| network(facts, one)).collect();
    let services = services(facts, &data.services)?;
    Ok(json!({"links": links, "networks": networks?, "services": services}))
}

/// Bonds, ethernets, then vlans.
fn links(facts: &Facts<'_>, all: &Links) -> Result<Vec<Value>, String> {
    let mut made = Vec::new();
    for one in &all.bonds {
        made.push(bond(facts, one)?);
    }
    for one in &all.ethernets {
        let mut link = link(facts, one.link(), "ethernet_mac_address")?;
        link.insert("type".into(), json!(one.kind));
        made.push(link.into());
    }
    for one in &all.vlans {
        made.push(vlan(facts, one)?);
    }
    Ok(made)
}

/// What all links have.
fn link(facts: &Facts<'_>, one: Link<'_>, mac_key: &str) -> Result<Map<String, Value>, String> {
    let mut made = Map::new();
    made.insert("id".into(), one.id.into());
    made.insert("mtu".into(), one.mtu.into());
    if !one.name.is_empty() {
        made.insert("name".into(), one.name.into());
    }
    if let Some(given) = one.mac {
        made.insert(mac_key.into(), mac(facts, given)?.into());
    }
    Ok(made)
}

fn mac(facts: &Facts<'_>, given: &MacAddress) -> Result<String, String> {
    let text = if !given.string.is_empty() {
        given.string.as_str()
    } else if !given.from_host_interface.is_empty() {
        facts.nic(&given.from_host_interface)?
    } else if let Some(one) = &given.from_annotation {
        facts.annotation(&one.object, &one.annotation)?
    } else {
        ""
    };
    if is_mac(text) { Ok(text.to_owned()) } else { Err(format!("bad MAC address: {text}")) }
}

fn bond(facts: &Facts<'_>, one: &Bond) -> Result<Value, String> {
    if let Some(why) = one.illegal_parameters() {
        return Err(why);
    }
    let mut made = link(facts, one.link(), "ethernet_mac_address")?;
    made.insert("type".into(), "bond".into());
    made.insert("bond_mode".into(), json!(one.mode));
    let policy = one.xmit_hash_policy.map_or_else(|| json!(""), |policy| json!(policy));
    made.insert("bond_xmit_hash_policy".into(), policy);
    made.insert("bond_links".into(), json!(one.links));
    for (name, value) in &one.parameters {
        made.insert(format!("bond_{name}"), value.clone());
    }
    Ok(made.into())
}

fn vlan(facts: &Facts<'_>, one: &Vlan) -> Result<Value, String> {
    let Some(number) = one.number else {
        let id = &one.id;
        let why = format!("renderNetworkLinks: VLAN link \"{id}\" is missing required VlanID");
        return Err(why);
    };
    let mut made = link(facts, one.link(), "vlan_mac_address")?;
    made.insert("type".into(), "vlan".into());
    made.insert("vlan_id".into(), number.into());
    made.insert("vlan_link".into(), one.link.as_str().into());
    Ok(made.into())
}

fn network(facts: &Facts<'_>, one: &Network<'_>) -> Result<Value, String> {
    let kind = match one.list {
        "ipv4DHCP" => "ipv4_dhcp",
        "ipv6DHCP" => "ipv6_dhcp",
        "ipv6SLAAC" => "ipv6_slaac",
        list => list,
    };
    let routes: Result<Vec<Value>, String> =
        one.routes.iter().map(|route| render_route(facts, route, one.is_v4())).collect();
    let mut made = Map::new();
    made.insert("id".into(), one.id.into());
    made.insert("link".into(), one.link.into());
    made.insert("type".into(), kind.into());
    if let Some(leased) = one.leased {
        let lease = facts.lease(leased.source().ok_or(LEASELESS)?)?;
        fits(lease, one)?;
        made.insert("ip_address".into(), lease.address.as_str().into());
        made.insert("netmask".into(), netmask(lease.prefix, one.is_v4())?.into());
    }
    made.insert("routes".into(), routes?.into());
    Ok(made.into())
}

/// No machine could use an address of the other family.
fn fits(lease: &Leased, network: &Network<'_>) -> Result<(), String> {
    let (text, id) = (&lease.address, network.id);
    if network.is_v4() && text.parse::<Ipv4Addr>().is_err() {
        return Err(format!("network {id}: `{text}` is not an IPv4 address"));
    }
    if !network.is_v4() && text.parse::<Ipv6Addr>().is_err() {
        return Err(format!("network {id}: `{text}` is not an IPv6 address"));
    }
    Ok(())
}

fn render_route(facts: &Facts<'_>, one: &Route, v4: bool) -> Result<Value, String> {
    let gateway = match one.gateway.source() {
        Some(source) => facts.lease(source)?.gateway.as_str(),
        None => one.gateway.string.as_str(),
    };
    Ok(json!({
        "gateway": gateway,
        "netmask": netmask(one.prefix, v4)?,
        "network": one.network,
        "services": services(facts, &one.services)?,
    }))
}

/// Those of the template, then those of the pool.
fn services(facts: &Facts<'_>, given: &Services) -> Result<Vec<Value>, String> {
    let pool = given.source().map(|source| facts.lease(source)).transpose()?;
    let leased = pool.into_iter().flat_map(|lease| &lease.dns);
    let all = given.dns.iter().chain(leased);
    Ok(all.map(|address| json!({"address": address, "type": "dns"})).collect())
}

/// 24 is 255.255.255.0, 64 is ffff:ffff:ffff:ffff::
fn netmask(prefix: u8, v4: bool) -> Result<String, String> {
    let address: IpAddr =
        if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let network = IpNet::new(address, prefix).map_err(|_| {
        let bits = if v4 { 32 } else { 128 };
        format!("no network has a prefix of {prefix} bits; {bits} are the most")
    })?;
    Ok(network.netmask().to_string())
}
