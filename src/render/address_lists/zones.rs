//! Zones of BIND (RFC 1035): names with their addresses, and addresses with their names.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

use crate::model::address::{Addr, Subnet};

use super::{AddressList, ListOptions, ListProblem, ListedAddress};

/// How long resolvers keep a record, in seconds. Leases come and go.
const TTL: u32 = 60;
/// The network of a reverse zone that nobody has named.
const DEFAULT_PREFIX_V4: u8 = 24;
const DEFAULT_PREFIX_V6: u8 = 64;

/// The zone of the domain. Names in other domains are comments. It is also said if named would
/// refuse the zone, because the name server is in it without an address.
pub fn forward_zone(
    addresses: &[ListedAddress],
    options: &ListOptions<'_>,
) -> Result<AddressList, ListProblem> {
    let domain = options.domain.ok_or(ListProblem::NoDomain)?;
    let mut zone = zone_head(domain, options);
    let server = options.server_name();
    let mut has_server_address = false;
    for listed in addresses {
        let record_type = if listed.address.is_v4() { "A" } else { "AAAA" };
        let address = listed.address;
        let note = listed.note();
        let wildcards = listed.wildcards().map(str::to_owned);
        for name in listed.plain_names(options).into_iter().chain(wildcards) {
            has_server_address |= name == server;
            match relative_name(&name, domain) {
                Some(owner) => {
                    let _ = writeln!(zone, "{owner} IN {record_type} {address} ; {note}");
                }
                None => {
                    let _ = writeln!(zone, "; not in {domain}: {name} {address} ; {note}");
                }
            }
        }
    }
    let mut omissions = Vec::new();
    if !has_server_address && relative_name(&server, domain).is_some() {
        omissions.push(format!(
            "name server {server} has no address in the zone, and named refuses such a zone; \
             lease one: poolctl ip claim IPPOOL NAME --dns-name {server}"
        ));
    }
    Ok(AddressList { text: zone, omissions })
}

/// The reverse zone of the network. An address without a name in a domain is a comment.
pub fn reverse_zone(
    addresses: &[ListedAddress],
    options: &ListOptions<'_>,
) -> Result<String, ListProblem> {
    let network = match options.network {
        Some(network) => network,
        None => only_network(addresses)?,
    };
    let place = ReverseZone::of_network(network);
    let mut zone = zone_head(&place.origin(), options);
    for listed in addresses.iter().filter(|listed| network.contains(listed.address)) {
        let name = listed.plain_names(options).into_iter().find(|name| name.contains('.'));
        let owner = place.owner_of(listed.address);
        let note = listed.note();
        let _ = match name {
            Some(name) => writeln!(zone, "{owner} IN PTR {name}. ; {note}"),
            None => writeln!(zone, "; no name in a domain: {} ; {note}", listed.address),
        };
    }
    Ok(zone)
}

/// The records that every zone begins with.
fn zone_head(origin: &str, options: &ListOptions<'_>) -> String {
    let server = options.server_name();
    // A serial number has 32 bits, and goes around when they are used up (RFC 1982).
    let serial = options.serial.rem_euclid(1 << 32);
    format!(
        "$ORIGIN {origin}.\n$TTL {TTL}\n\
         @ IN SOA {server}. hostmaster.{server}. {serial} 3600 600 604800 {TTL}\n\
         @ IN NS {server}.\n"
    )
}

/// A name as it stands in the zone of a domain; none if it is not in that domain.
fn relative_name(name: &str, domain: &str) -> Option<String> {
    if name == domain {
        return Some("@".to_owned());
    }
    let owner = name.strip_suffix(domain)?.strip_suffix('.')?;
    Some(owner.to_owned())
}

/// The network of the one reverse zone that all addresses are in.
fn only_network(addresses: &[ListedAddress]) -> Result<Subnet, ListProblem> {
    let mut networks: BTreeSet<(Addr, u8)> = BTreeSet::new();
    let mut only = None;
    for listed in addresses {
        let length = if listed.address.is_v4() { DEFAULT_PREFIX_V4 } else { DEFAULT_PREFIX_V6 };
        let network = Subnet::containing(listed.address, length);
        networks.extend(network.map(|network| (network.first_address(), length)));
        only = network;
    }
    if networks.len() > 1 {
        let texts = networks.iter().map(|(address, length)| format!("{address}/{length}"));
        return Err(ListProblem::SeveralZones(texts.collect()));
    }
    only.ok_or(ListProblem::NoNetwork)
}

/// The labels of addresses under `in-addr.arpa` or `ip6.arpa`, and how many of them name the zone.
struct ReverseZone {
    first_address: Addr,
    zone_labels: usize,
}

impl ReverseZone {
    /// The smallest zone that has the whole network. Zones end between octets in IPv4, and between
    /// hexadecimal digits in IPv6.
    fn of_network(network: Subnet) -> Self {
        let first_address = network.first_address();
        let length = usize::from(network.prefix_length());
        let zone_labels = if first_address.is_v4() {
            (length / 8).clamp(1, 3)
        } else {
            (length / 4).clamp(1, 31)
        };
        Self { first_address, zone_labels }
    }

    /// The name of the zone, without the dot at its end.
    fn origin(&self) -> String {
        let mut labels = labels_of(self.first_address);
        labels.truncate(self.zone_labels);
        labels.reverse();
        let suffix = if self.first_address.is_v4() { "in-addr.arpa" } else { "ip6.arpa" };
        format!("{}.{suffix}", labels.join("."))
    }

    /// The name of an address in the zone.
    fn owner_of(&self, address: Addr) -> String {
        let mut labels = labels_of(address).split_off(self.zone_labels);
        labels.reverse();
        labels.join(".")
    }
}

/// The labels of an address from the most general to the most special one: octets in decimal, or
/// hexadecimal digits.
fn labels_of(address: Addr) -> Vec<String> {
    match IpAddr::from(address) {
        IpAddr::V4(v4) => v4.octets().iter().map(u8::to_string).collect(),
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 0xf]);
            digits.map(|digit| format!("{digit:x}")).collect()
        }
    }
}
