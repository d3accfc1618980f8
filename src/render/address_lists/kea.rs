//! The configurations of Kea's servers for DHCPv4 and DHCPv6: a subnet for each network, a
//! reservation for each machine with a MAC.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::address::{Addr, IpFamily};
use crate::model::ip_pool::AddressNetwork;

use super::{AddressList, ListOptions, ListedAddress};

/// The addresses of a network, each with its machine's MAC.
type Members<'a> = Vec<(&'a str, &'a ListedAddress)>;

/// Writes the configuration of the server of one family, and says how many addresses have no
/// reservation in it, and why.
pub fn kea_config(
    addresses: &[ListedAddress],
    family: IpFamily,
    options: &ListOptions<'_>,
) -> AddressList {
    let mut subnets: BTreeMap<(Addr, u8), Members<'_>> = BTreeMap::new();
    let mut reserved: BTreeSet<(Addr, &str)> = BTreeSet::new();
    let mut omitted: BTreeMap<&str, usize> = BTreeMap::new();
    for listed in addresses {
        let reason = match (&listed.mac, listed.subnet()) {
            _ if listed.address.family() != family => describe_other_family(family),
            (None, _) => "has no MAC",
            (Some(_), None) => "has no prefix",
            (Some(mac), Some(subnet)) => {
                let network = subnet.first_address();
                // DHCPv4 gives a machine one address of a subnet, DHCPv6 as many as it has.
                if reserved.insert((network, mac.as_str())) || family == IpFamily::V6 {
                    let members = subnets.entry((network, subnet.prefix_length())).or_default();
                    members.push((mac.as_str(), listed));
                    continue;
                }
                "has a MAC that has another address of its network"
            }
        };
        *omitted.entry(reason).or_default() += 1;
    }
    let mut documents = Vec::new();
    let mut numbers: BTreeSet<u32> = BTreeSet::new();
    for ((first_address, length), members) in &subnets {
        let mut document = subnet_document(members, family, options);
        document["id"] = number_of_network(*first_address, &mut numbers).into();
        document["subnet"] = format!("{first_address}/{length}").into();
        documents.push(document);
    }
    let config = match family {
        IpFamily::V4 => json!({"Dhcp4": {"valid-lifetime": 4000, "subnet4": documents}}),
        IpFamily::V6 => json!({"Dhcp6": {"valid-lifetime": 4000, "preferred-lifetime": 3000,
            "subnet6": documents}}),
    };
    let omissions = omitted.iter().map(|(reason, count)| match count {
        1 => format!("1 address {reason}, and is left out"),
        count => format!("{count} addresses are left out; each {reason}"),
    });
    AddressList { text: format!("{config:#}\n"), omissions: omissions.collect() }
}

/// Why an address is left out whose family is not that of the server.
fn describe_other_family(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "is an IPv6 address (--as kea6)",
        IpFamily::V6 => "is an IPv4 address (--as kea)",
    }
}

/// The number of a network: it follows from its first address, so that it stays the same when other
/// networks come and go. The next one if another network has it.
fn number_of_network(first_address: Addr, numbers: &mut BTreeSet<u32>) -> u32 {
    let shifts: &[u32] = if first_address.is_v4() { &[0] } else { &[0, 32, 64, 96] };
    let mut number: u32 = 0;
    for shift in shifts {
        number ^= u32::try_from((first_address.0 >> shift) & 0xffff_ffff).unwrap_or_default();
    }
    // Kea keeps 0 and the last number for itself.
    number = number.clamp(1, u32::MAX - 1);
    while !numbers.insert(number) {
        number = if number < u32::MAX - 1 { number + 1 } else { 1 };
    }
    number
}

/// The reservations of a subnet, and the options that all of its machines get.
fn subnet_document(
    members: &[(&str, &ListedAddress)],
    family: IpFamily,
    options: &ListOptions<'_>,
) -> Value {
    let mut document = json!({});
    let first_network = members.first().map(|(_, listed)| &listed.network);
    let is_common = members.iter().all(|(_, listed)| Some(&listed.network) == first_network);
    if let Some(network) = first_network
        && is_common
    {
        document["option-data"] = option_data(network, family);
    }
    let mut reservations: BTreeMap<&str, Value> = BTreeMap::new();
    let mut macs: Vec<&str> = Vec::new();
    for (mac, listed) in members {
        if let Some(reservation) = reservations.get_mut(mac) {
            // A further address of the same machine.
            if let Some(addresses) = reservation["ip-addresses"].as_array_mut() {
                addresses.push(json!(listed.address));
            }
            continue;
        }
        let mut reservation = json!({
            "hw-address": mac,
            "user-context": {"claim": listed.claim, "comment": listed.comment},
        });
        match family {
            IpFamily::V4 => reservation["ip-address"] = json!(listed.address),
            IpFamily::V6 => reservation["ip-addresses"] = json!([listed.address]),
        }
        if let Some(name) = listed.plain_names(options).first() {
            reservation["hostname"] = name.as_str().into();
        }
        if !is_common {
            reservation["option-data"] = option_data(&listed.network, family);
        }
        macs.push(*mac);
        reservations.insert(*mac, reservation);
    }
    // In the order of their addresses, as all lists have it.
    let in_order = macs.iter().filter_map(|mac| reservations.remove(mac));
    document["reservations"] = Value::Array(in_order.collect());
    document
}

/// The gateway and the name servers of a network, as options of DHCP. DHCPv6 has no gateways: routers
/// advertise themselves.
fn option_data(network: &AddressNetwork, family: IpFamily) -> Value {
    let mut options = Vec::new();
    if let Some(gateway) = &network.gateway
        && family == IpFamily::V4
    {
        options.push(json!({"name": "routers", "data": gateway}));
    }
    if !network.dns_servers.is_empty() {
        let name = match family {
            IpFamily::V4 => "domain-name-servers",
            IpFamily::V6 => "dns-servers",
        };
        // A server of the other family cannot be told.
        let all_servers = network.dns_servers.iter();
        let servers: Vec<&str> = all_servers
            .filter(|server| server.parse::<Addr>().is_ok_and(|addr| addr.family() == family))
            .map(String::as_str)
            .collect();
        if !servers.is_empty() {
            options.push(json!({"name": name, "data": servers.join(", ")}));
        }
    }
    Value::Array(options)
}
