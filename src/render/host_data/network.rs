//! Renders links, networks and services of one machine, as OpenStack's network_data.json has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::model::address::IpFamily;
use crate::model::data_template::network::{
    Bond, Link, Links, MacAddress, Route, Services, Vlan, is_mac_address,
};
use crate::model::data_template::{AnyNetwork, NetworkList, PoolSource};

use super::{LeasedAddress, TemplateContext};

const NO_POOL: &str = "fromPoolRef needs to contain a reference to an IPPool";

/// Renders the networkData of a machine. It is null if the template has none.
pub fn render_network_data(facts: &TemplateContext<'_>) -> Result<Value, String> {
    let Some(data) = &facts.template.spec.network_data else { return Ok(Value::Null) };
    let links = render_links(facts, &data.links)?;
    let services = render_services(facts, &data.services)?;
    let mut networks = Vec::new();
    for network in data.networks.list_networks() {
        networks.push(render_network(facts, &network)?);
    }
    Ok(json!({"links": links, "networks": networks, "services": services}))
}

/// Bonds, then ethernets, then VLANs.
fn render_links(facts: &TemplateContext<'_>, links: &Links) -> Result<Vec<Value>, String> {
    let mut rendered = Vec::new();
    for bond in &links.bonds {
        rendered.push(render_bond(facts, bond)?);
    }
    for ethernet in &links.ethernets {
        let mut fields = render_link(facts, ethernet.link(), "ethernet_mac_address")?;
        fields.insert("type".into(), json!(ethernet.kind));
        rendered.push(fields.into());
    }
    for vlan in &links.vlans {
        rendered.push(render_vlan(facts, vlan)?);
    }
    Ok(rendered)
}

/// The fields that all kinds of links have.
fn render_link(
    facts: &TemplateContext<'_>,
    link: Link<'_>,
    mac_key: &str,
) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    fields.insert("id".into(), link.id.into());
    fields.insert("mtu".into(), link.mtu.into());
    if !link.name.is_empty() {
        fields.insert("name".into(), link.name.into());
    }
    if let Some(mac_address) = link.mac {
        fields.insert(mac_key.into(), resolve_mac_address(facts, mac_address)?.into());
    }
    Ok(fields)
}

/// An address is written out, or taken from an interface or an annotation, in this order.
fn resolve_mac_address(
    facts: &TemplateContext<'_>,
    mac_address: &MacAddress,
) -> Result<String, String> {
    let resolved = if !mac_address.string.is_empty() {
        mac_address.string.as_str()
    } else if !mac_address.from_host_interface.is_empty() {
        facts.mac_of_interface(&mac_address.from_host_interface)?
    } else if let Some(source) = &mac_address.from_annotation {
        facts.annotation(&source.object, &source.annotation)?
    } else {
        ""
    };
    if !is_mac_address(resolved) {
        return Err(format!("bad MAC address: {resolved}"));
    }
    Ok(resolved.to_owned())
}

/// A bond of several links. Parameters that the kernel would not take are refused.
fn render_bond(facts: &TemplateContext<'_>, bond: &Bond) -> Result<Value, String> {
    if let Some(why) = bond.illegal_parameters() {
        return Err(why);
    }
    let mut fields = render_link(facts, bond.link(), "ethernet_mac_address")?;
    fields.insert("type".into(), "bond".into());
    fields.insert("bond_mode".into(), json!(bond.mode));
    let policy = bond.xmit_hash_policy.map_or_else(|| json!(""), |policy| json!(policy));
    fields.insert("bond_xmit_hash_policy".into(), policy);
    fields.insert("bond_links".into(), json!(bond.links));
    for (name, value) in &bond.parameters {
        fields.insert(format!("bond_{name}"), value.clone());
    }
    Ok(fields.into())
}

/// A VLAN on another link; it must have its number.
fn render_vlan(facts: &TemplateContext<'_>, vlan: &Vlan) -> Result<Value, String> {
    let Some(number) = vlan.number else {
        let id = &vlan.id;
        let why = format!("renderNetworkLinks: VLAN link \"{id}\" is missing required VlanID");
        return Err(why);
    };
    let mut fields = render_link(facts, vlan.link(), "vlan_mac_address")?;
    fields.insert("type".into(), "vlan".into());
    fields.insert("vlan_id".into(), number.into());
    fields.insert("vlan_link".into(), vlan.link.as_str().into());
    Ok(fields.into())
}

/// A network of a link: its leased address, if the template has it leased, and its routes.
fn render_network(facts: &TemplateContext<'_>, network: &AnyNetwork<'_>) -> Result<Value, String> {
    let network_type = match network.list {
        NetworkList::Ipv4 => "ipv4",
        NetworkList::Ipv6 => "ipv6",
        NetworkList::Ipv4Dhcp => "ipv4_dhcp",
        NetworkList::Ipv6Dhcp => "ipv6_dhcp",
        NetworkList::Ipv6Slaac => "ipv6_slaac",
    };
    let mut fields = Map::new();
    fields.insert("id".into(), network.id.into());
    fields.insert("link".into(), network.link.into());
    fields.insert("type".into(), network_type.into());
    let mut own_address = None;
    if let Some(leased) = network.leased {
        let source = leased.source().ok_or(NO_POOL)?;
        let lease = match facts.network_leases.get(network.id) {
            Some(lease) => lease,
            None => facts.lease(source)?,
        };
        own_address = Some(OwnAddress { source, lease });
        check_family(lease, network)?;
        fields.insert("ip_address".into(), lease.address.as_str().into());
        fields.insert("netmask".into(), netmask(lease.prefix, network.family())?.into());
    }
    let mut routes = Vec::new();
    for route in network.routes {
        routes.push(render_route(facts, route, network.family(), own_address)?);
    }
    fields.insert("routes".into(), routes.into());
    Ok(fields.into())
}

/// Refuses an address of the other family: no machine could use it.
fn check_family(lease: &LeasedAddress, network: &AnyNetwork<'_>) -> Result<(), String> {
    let address = &lease.address;
    let family = network.family();
    let is_valid = match family {
        IpFamily::V4 => address.parse::<Ipv4Addr>().is_ok(),
        IpFamily::V6 => address.parse::<Ipv6Addr>().is_ok(),
    };
    if !is_valid {
        let id = network.id;
        return Err(format!("network {id}: `{address}` is not an {} address", family.name()));
    }
    Ok(())
}

/// The address of a network, and the pool that it is of.
#[derive(Clone, Copy)]
struct OwnAddress<'a> {
    source: PoolSource<'a>,
    lease: &'a LeasedAddress,
}

/// Renders a route. A gateway of the pool that its network is of is that of the network's address.
fn render_route(
    facts: &TemplateContext<'_>,
    route: &Route,
    family: IpFamily,
    own_address: Option<OwnAddress<'_>>,
) -> Result<Value, String> {
    let gateway_source = route.gateway.source();
    let gateway = match (gateway_source, own_address) {
        (Some(source), Some(address)) if source == address.source => &address.lease.gateway,
        (Some(source), _) => &facts.lease(source)?.gateway,
        (None, _) => &route.gateway.string,
    };
    let mut rendered = json!({
        "netmask": netmask(route.prefix, family)?,
        "network": route.network,
        "services": render_services(facts, &route.services)?,
    });
    // cloud-init takes an empty gateway for an address, and refuses it.
    if !gateway.is_empty() {
        rendered["gateway"] = gateway.as_str().into();
    }
    Ok(rendered)
}

/// The DNS servers of the template, then those of the pool that it refers to.
fn render_services(facts: &TemplateContext<'_>, services: &Services) -> Result<Vec<Value>, String> {
    let lease = services.source().map(|source| facts.lease(source)).transpose()?;
    let leased_servers = lease.into_iter().flat_map(|lease| &lease.dns);
    let servers = services.dns.iter().chain(leased_servers);
    Ok(servers.map(|address| json!({"address": address, "type": "dns"})).collect())
}

/// 24 is 255.255.255.0, 64 is ffff:ffff:ffff:ffff::
fn netmask(prefix: u8, family: IpFamily) -> Result<String, String> {
    let address: IpAddr = match family {
        IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
        IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    let network = IpNet::new(address, prefix).map_err(|_| {
        format!("a prefix of {prefix} bits is too long; the limit is {}", family.bits())
    })?;
    Ok(network.netmask().to_string())
}
