//! The configuration of Kea's DHCPv4 server: a subnet for each network, a reservation for each
//! address with a MAC.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::address::Addr;
use crate::model::ip_pool::AddressNetwork;

use super::{AddressList, ListOptions, ListedAddress};

/// Writes the configuration, and says how many addresses have no reservation in it, and why.
pub fn kea_config(addresses: &[ListedAddress], options: &ListOptions<'_>) -> AddressList {
    let mut subnets: BTreeMap<(Addr, u8), Vec<&ListedAddress>> = BTreeMap::new();
    let mut reserved: BTreeSet<(Addr, &str)> = BTreeSet::new();
    let mut omitted: BTreeMap<&str, usize> = BTreeMap::new();
    for listed in addresses {
        let reason = match (&listed.mac, listed.subnet()) {
            _ if !listed.address.is_v4() => "is an IPv6 address",
            (None, _) => "has no MAC",
            (Some(_), None) => "has no prefix",
            (Some(mac), Some(subnet)) => {
                let network = subnet.first_address();
                // Kea takes a machine once in a subnet.
                if reserved.insert((network, mac.as_str())) {
                    subnets.entry((network, subnet.prefix_length())).or_default().push(listed);
                    continue;
                }
                "has a MAC that has another address of its network"
            }
        };
        *omitted.entry(reason).or_default() += 1;
    }
    let documents: Vec<Value> = subnets
        .iter()
        .map(|((first_address, length), members)| {
            subnet_document(*first_address, *length, members, options)
        })
        .collect();
    let config = json!({"Dhcp4": {"valid-lifetime": 4000, "subnet4": documents}});
    let omissions = omitted.iter().map(|(reason, count)| match count {
        1 => format!("1 address {reason}, and is left out"),
        count => format!("{count} addresses are left out; each {reason}"),
    });
    AddressList { text: format!("{config:#}\n"), omissions: omissions.collect() }
}

/// A subnet with the options that all of its machines get, and its reservations.
fn subnet_document(
    first_address: Addr,
    length: u8,
    members: &[&ListedAddress],
    options: &ListOptions<'_>,
) -> Value {
    let first_network = members.first().map(|listed| &listed.network);
    let is_common = members.iter().all(|listed| Some(&listed.network) == first_network);
    let mut document = json!({
        // The number of the network: it stays the same when other networks come and go.
        "id": u32::try_from(first_address.0 & 0xffff_ffff).unwrap_or_default().max(1),
        "subnet": format!("{first_address}/{length}"),
    });
    if let Some(network) = first_network
        && is_common
    {
        document["option-data"] = option_data(network);
    }
    let mut reservations = Vec::new();
    for listed in members {
        let mut reservation = json!({
            "hw-address": listed.mac,
            "ip-address": listed.address,
            "user-context": {"claim": listed.claim, "comment": listed.comment},
        });
        if let Some(name) = listed.plain_names(options).first() {
            reservation["hostname"] = name.as_str().into();
        }
        if !is_common {
            reservation["option-data"] = option_data(&listed.network);
        }
        reservations.push(reservation);
    }
    document["reservations"] = Value::Array(reservations);
    document
}

/// The gateway and the name servers of a network, as options of DHCP.
fn option_data(network: &AddressNetwork) -> Value {
    let mut options = Vec::new();
    if let Some(gateway) = &network.gateway {
        options.push(json!({"name": "routers", "data": gateway}));
    }
    if !network.dns_servers.is_empty() {
        let servers = network.dns_servers.join(", ");
        options.push(json!({"name": "domain-name-servers", "data": servers}));
    }
    Value::Array(options)
}
