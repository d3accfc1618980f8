//! The networkData of a data template: links, the networks on them, and their services. It never
//! leases an address.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::model::address::IpFamily;
use crate::model::meta::is_zero;
use crate::model::typed::read_value;

const DEFAULT_MTU: u32 = 1500;
/// Options of a bond that have fields of their own, so they may not be among its parameters.
const BOND_FIELDS: [&str; 3] = ["mode", "xmit_hash_policy", "links"];

/// What the network data of a machine are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkData {
    /// Interfaces, bonds of them and VLANs on them.
    #[serde(skip_serializing_if = "is_zero")]
    pub links: Links,
    /// Addresses and routes of links.
    #[serde(skip_serializing_if = "is_zero")]
    pub networks: Networks,
    /// DNS servers.
    #[serde(deserialize_with = "deserialize_services", skip_serializing_if = "is_zero")]
    #[schemars(extend("type" = ["object", "array"]))]
    pub services: Services,
}

/// The interfaces of a machine, real ones and those on top of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ethernets: Vec<Ethernet>,
    /// Bonds: several links used as one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<Bond>,
    /// VLANs on other links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
}

/// A real interface, which is known by its MAC address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ethernet {
    /// Type of the interface; phy is a physical interface.
    #[serde(rename = "type")]
    pub kind: EthernetType,
    /// The id by which networks and other links refer to it.
    pub id: String,
    /// Name on the machine, up to 15 letters; its id, unless given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Largest packet, from 1280 to 9000; 1500, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The MAC address by which the interface is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<MacAddress>,
}

/// The types of interfaces that OpenStack's network data know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EthernetType {
    Bridge,
    Dvs,
    HwVeb,
    Hyperv,
    Ovs,
    Tap,
    Vhostuser,
    Vif,
    #[default]
    Phy,
}

/// Several interfaces that act as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bond {
    /// Bond mode: how the load is shared among the links.
    #[serde(rename = "bondMode")]
    pub mode: BondMode,
    /// Transmit hash policy: how the link for a packet is chosen.
    #[serde(default, rename = "bondXmitHashPolicy", skip_serializing_if = "Option::is_none")]
    pub xmit_hash_policy: Option<XmitHashPolicy>,
    /// The id by which networks and other links refer to it.
    pub id: String,
    /// Name on the machine, up to 15 letters; its id, unless given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Largest packet, from 1280 to 9000; 1500, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<MacAddress>,
    /// Other bond options, without the prefix `bond_`, such as miimon: 100.
    #[serde(
        default,
        deserialize_with = "deserialize_parameters",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(extend("type" = ["object", "array"]))]
    pub parameters: BTreeMap<String, Value>,
    /// Ids of the links of the bond.
    #[serde(default, rename = "bondLinks", skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
}

/// How a bond spreads its traffic, with the names of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    #[default]
    BalanceRr,
    ActiveBackup,
    BalanceXor,
    Broadcast,
    BalanceTlb,
    BalanceAlb,
    #[serde(rename = "802.3ad")]
    Lacp,
}

/// By what a bond chooses the interface of a packet, with the names of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum XmitHashPolicy {
    #[default]
    #[serde(rename = "layer2")]
    Macs,
    #[serde(rename = "layer3+4")]
    Ports,
    #[serde(rename = "layer2+3")]
    Addresses,
}

/// An interface that carries one VLAN of another interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vlan {
    /// VLAN id, from 0 to 4096.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The id by which networks and other links refer to it.
    pub id: String,
    /// Name on the machine, up to 15 letters; its id, unless given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Largest packet, from 1280 to 9000; 1500, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<MacAddress>,
    /// Id of the link that it is on.
    #[serde(rename = "vlanLink")]
    pub link: String,
}

/// The first that is given counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MacAddress {
    /// The address itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub string: String,
    /// The MAC address of the host's interface with this name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from_host_interface: String,
    /// An annotation that contains the MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_annotation: Option<ObjectAnnotation>,
}

/// Where a value is read: an annotation of an object of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectAnnotation {
    /// machine, metal3machine or baremetalhost.
    pub object: String,
    /// The annotation's key.
    pub annotation: String,
}

/// The networks of a machine, by how they get their addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Networks {
    /// IPv4 addresses leased from pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv4: Vec<StaticNetwork>,
    /// IPv6 addresses leased from pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<StaticNetwork>,
    /// IPv4 addresses by DHCP.
    #[serde(rename = "ipv4DHCP", skip_serializing_if = "Vec::is_empty")]
    pub ipv4_dhcp: Vec<DynamicNetwork>,
    /// IPv6 addresses by DHCP.
    #[serde(rename = "ipv6DHCP", skip_serializing_if = "Vec::is_empty")]
    pub ipv6_dhcp: Vec<DynamicNetwork>,
    /// IPv6 addresses by SLAAC (autoconfiguration).
    #[serde(rename = "ipv6SLAAC", skip_serializing_if = "Vec::is_empty")]
    pub ipv6_slaac: Vec<DynamicNetwork>,
}

/// A network whose address is leased from a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticNetwork {
    /// Name of the network.
    pub id: String,
    /// Id of the link that it is on.
    pub link: String,
    /// Name of the IPPool; an annotation or a reference takes precedence.
    #[serde(
        default,
        rename = "ipAddressFromIPPool",
        alias = "ipAddressfromIPPool",
        skip_serializing_if = "String::is_empty"
    )]
    pub ip_address_from_ip_pool: String,
    /// The IPPool, with its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_pool_ref: Option<PoolRef>,
    /// An annotation that names the IPPool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_pool_annotation: Option<ObjectAnnotation>,
    /// Routes over it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A network whose address comes from DHCP or from router advertisements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DynamicNetwork {
    /// Name of the network.
    pub id: String,
    /// Id of the link that it is on.
    pub link: String,
    /// Routes over it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A pool of addresses, by its kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolRef {
    /// Name of the pool.
    pub name: String,
    /// Kind of the pool; default IPPool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// API group of the pool; default `ipam.metal3.io`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
}

/// A route, and the name servers that belong to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Route {
    /// Destination network.
    pub network: String,
    /// Prefix length of the destination network.
    pub prefix: u8,
    /// Gateway of the route.
    #[serde(skip_serializing_if = "is_zero")]
    pub gateway: Gateway,
    /// DNS servers that are reached over it.
    #[serde(deserialize_with = "deserialize_services", skip_serializing_if = "is_zero")]
    #[schemars(extend("type" = ["object", "array"]))]
    pub services: Services,
}

/// The first one that is set is used: address, annotation, reference, name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Gateway {
    /// The address itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub string: String,
    /// The gateway of the lease from this IPPool.
    #[serde(rename = "fromIPPool", skip_serializing_if = "String::is_empty")]
    pub from_ip_pool: String,
    /// The IPPool, with its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_pool_ref: Option<PoolRef>,
    /// An annotation that names the IPPool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_pool_annotation: Option<ObjectAnnotation>,
}

/// The name servers of a machine or of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Services {
    /// Addresses of DNS servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
    /// The IPPool whose DNS servers are added after these.
    #[serde(rename = "dnsFromIPPool", skip_serializing_if = "String::is_empty")]
    pub dns_from_ip_pool: String,
}

/// Reads services by their types, or the first design's list of types and addresses.
fn deserialize_services<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Services, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Service {
        #[serde(rename = "type")]
        kind: String,
        address: String,
    }
    let value = Value::deserialize(deserializer)?;
    if !value.is_array() {
        return read_value(&value).map_err(D::Error::custom);
    }
    let services: Vec<Service> = read_value(&value).map_err(D::Error::custom)?;
    if let Some(service) = services.iter().find(|service| service.kind != "dns") {
        let message =
            format!("services: there is no type `{}`; the only type is dns", service.kind);
        return Err(D::Error::custom(message));
    }
    let dns = services.into_iter().map(|service| service.address).collect();
    Ok(Services { dns, ..Services::default() })
}

/// Reads values by their names, or v1beta2's list of names and values.
fn deserialize_parameters<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Parameter {
        name: String,
        #[serde(default)]
        value: Value,
    }
    let value = Value::deserialize(deserializer)?;
    if !value.is_array() {
        return read_value(&value).map_err(D::Error::custom);
    }
    let parameters: Vec<Parameter> = read_value(&value).map_err(D::Error::custom)?;
    Ok(parameters.into_iter().map(|parameter| (parameter.name, parameter.value)).collect())
}

impl Bond {
    /// Why the parameters are refused, in metal3's words; none if they are not.
    pub fn illegal_parameters(&self) -> Option<String> {
        let illegal = BOND_FIELDS.iter().filter(|name| self.parameters.contains_key(**name));
        let names: Vec<String> = illegal.map(|name| format!("\"{name}\"")).collect();
        if names.is_empty() {
            return None;
        }
        let names = names.join(", ");
        Some(format!("illegal params {names} into bond params blob into link id={}", self.id))
    }
}

/// What links of every type have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link<'a> {
    /// The field of `links` that has it: ethernets, bonds or vlans.
    pub list: &'static str,
    pub id: &'a str,
    pub name: &'a str,
    pub mtu: u32,
    pub mac: Option<&'a MacAddress>,
}

macro_rules! impl_link {
    ($type:ty, $list:literal) => {
        impl $type {
            /// What links of all types have in common. The MTU is in bytes.
            pub fn link(&self) -> Link<'_> {
                Link {
                    list: $list,
                    id: &self.id,
                    name: &self.name,
                    mtu: self.mtu.unwrap_or(DEFAULT_MTU),
                    mac: self.mac_address.as_ref(),
                }
            }
        }
    };
}
impl_link!(Ethernet, "ethernets");
impl_link!(Bond, "bonds");
impl_link!(Vlan, "vlans");

/// Whether a text is six pairs of hexadecimal digits with colons or dashes.
pub fn is_mac_address(address: &str) -> bool {
    address.len() == 17
        && address.bytes().enumerate().all(|(index, byte)| match index % 3 {
            2 => byte == b':' || byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

impl Links {
    /// Every link with its index in its own list: bonds, ethernets, then vlans.
    pub fn list_links(&self) -> Vec<(usize, Link<'_>)> {
        let bonds = self.bonds.iter().map(Bond::link).enumerate();
        let ethernets = self.ethernets.iter().map(Ethernet::link).enumerate();
        let vlans = self.vlans.iter().map(Vlan::link).enumerate();
        bonds.chain(ethernets).chain(vlans).collect()
    }
}

/// A field of `networks`: how the machines of a network get their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkList {
    Ipv4,
    Ipv6,
    Ipv4Dhcp,
    Ipv6Dhcp,
    Ipv6Slaac,
}

impl NetworkList {
    /// The name of the field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Ipv4Dhcp => "ipv4DHCP",
            Self::Ipv6Dhcp => "ipv6DHCP",
            Self::Ipv6Slaac => "ipv6SLAAC",
        }
    }

    /// The family of the addresses in the networks of this list.
    pub fn family(self) -> IpFamily {
        match self {
            Self::Ipv4 | Self::Ipv4Dhcp => IpFamily::V4,
            Self::Ipv6 | Self::Ipv6Dhcp | Self::Ipv6Slaac => IpFamily::V6,
        }
    }
}

/// What networks of every type have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnyNetwork<'a> {
    /// The field of `networks` that has it.
    pub list: NetworkList,
    /// Its index in that list.
    pub index: usize,
    pub id: &'a str,
    /// The id of the link that it is on.
    pub link: &'a str,
    pub routes: &'a [Route],
    /// The network as it is written, if its address is leased from a pool.
    pub leased: Option<&'a StaticNetwork>,
}

impl AnyNetwork<'_> {
    /// The family of the network's addresses.
    pub fn family(&self) -> IpFamily {
        self.list.family()
    }
}

impl StaticNetwork {
    fn in_list(&self, list: NetworkList, index: usize) -> AnyNetwork<'_> {
        AnyNetwork {
            list,
            index,
            id: &self.id,
            link: &self.link,
            routes: &self.routes,
            leased: Some(self),
        }
    }
}

impl DynamicNetwork {
    fn in_list(&self, list: NetworkList, index: usize) -> AnyNetwork<'_> {
        AnyNetwork {
            list,
            index,
            id: &self.id,
            link: &self.link,
            routes: &self.routes,
            leased: None,
        }
    }
}

impl Networks {
    /// Every network: ipv4, ipv6, ipv4DHCP, ipv6DHCP, then ipv6SLAAC.
    pub fn list_networks(&self) -> Vec<AnyNetwork<'_>> {
        let mut networks = Vec::new();
        for (list, static_networks) in
            [(NetworkList::Ipv4, &self.ipv4), (NetworkList::Ipv6, &self.ipv6)]
        {
            let listed = static_networks.iter().enumerate();
            networks.extend(listed.map(|(index, network)| network.in_list(list, index)));
        }
        for (list, dynamic_networks) in [
            (NetworkList::Ipv4Dhcp, &self.ipv4_dhcp),
            (NetworkList::Ipv6Dhcp, &self.ipv6_dhcp),
            (NetworkList::Ipv6Slaac, &self.ipv6_slaac),
        ] {
            let listed = dynamic_networks.iter().enumerate();
            networks.extend(listed.map(|(index, network)| network.in_list(list, index)));
        }
        networks
    }
}
