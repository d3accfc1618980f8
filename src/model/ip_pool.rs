//! IPPool: ranges of addresses that are leased one by one, in metal3's wire format. It says which
//! addresses may be leased at all; it never knows which of them are leased now.

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::{Addr, IpRange, Subnet};
use super::annotations::{ALLOCATION, EXCLUDE, RESERVED, REUSE_DELAY, SHARE_WITH, WARN_BELOW};
use super::condition::Condition;
use super::meta::Meta;
use super::time::{Span, Time};

/// Annotation of an IPClaim that asks for one particular address.
pub const REQUESTED_ADDRESS: &str = "ipAddress";
/// Annotations that pause an IPPool, an IPClaim or a cluster by being there, whatever they say.
pub const PAUSE_ANNOTATIONS: [&str; 2] = [CAPI_PAUSED, "hive.openshift.io/reconcile-pause"];
/// What `poolctl.dev/share-with` says of a pool that all namespaces share.
pub const EVERY_NAMESPACE: &str = "*";
/// Cluster API's annotation that pauses an object.
pub const CAPI_PAUSED: &str = "cluster.x-k8s.io/paused";

/// Ranges of addresses for leases, in metal3's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IpPool {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The addresses of the pool, and how they are leased.
    pub spec: IpPoolSpec,
    /// The addresses of the claims, computed when the pool is read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: IpPoolStatus,
}

/// The ranges, and what applies to all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IpPoolSpec {
    /// Name of a cluster. While that cluster is paused, the pool is paused too.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Ranges, in the order in which they are used.
    #[serde(default)]
    pub pools: Vec<Range>,
    /// Which free address is leased: sequential or random. It cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_strategy: Option<String>,
    /// Reserved addresses by claim name: only the claim with the name gets the address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pre_allocations: BTreeMap<String, String>,
    /// Prefix length of the network, unless a range has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i64>,
    /// Gateway, unless a range has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// DNS servers, unless a range has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
    /// Prefix of the names of IPAddresses; by default the name of the pool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_prefix: String,
}

/// A range: its first and last address, or a subnet. Its own prefix, gateway and name servers come
/// before those of the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Range {
    /// First address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Last address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Network in CIDR notation; start and end follow from it if they are not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Length of the network prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i64>,
    /// Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// DNS servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
}

/// Which claim has which address, and what has become of the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IpPoolStatus {
    /// When an address was last leased or released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Leased addresses by claim name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocations: BTreeMap<String, String>,
    /// The same, under the name that metal3 gives it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, String>,
    /// IPAddresses by claim.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, String>,
    /// total, used, reserved, resting, free and outOfRange; text where no JSON number is large enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<Value>,
    /// Whether claims get addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Earlier and current claims of the addresses, in order. Written by export, for import.
    #[serde(skip_serializing)]
    pub history: Vec<Tenant>,
}

/// A claim that has or had an address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Namespace of the pool and the claim; never on the wire.
    #[serde(skip)]
    pub namespace: String,
    /// The address.
    pub address: Addr,
    /// The pool that it was leased from, which may be deleted.
    pub pool: String,
    /// The claim.
    pub claim: String,
    /// When the address was leased.
    pub since: Time,
    /// When the address was released; empty if the claim still has it.
    #[serde(default)]
    pub until: Option<Time>,
}

fn is_default(status: &IpPoolStatus) -> bool {
    *status == IpPoolStatus::default()
}

/// A reserved range as `poolctl.dev/reserved` spells it in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reservation {
    range: String,
    #[serde(default)]
    comment: String,
}

/// The network settings that a machine gets together with its address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressNetwork {
    /// Length of the network prefix; 0 if it is not known.
    #[serde(default)]
    pub prefix: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
}

/// Which of the free addresses is leased next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationStrategy {
    /// Any of them, each with the same probability.
    Random,
    /// The lowest free address of the first range that has one.
    Sequential,
    /// An address that was never leased; if there is none, the one that was released first.
    LeastRecent,
}

/// How few free addresses are too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupplyLimit {
    /// So many addresses.
    Count(u128),
    /// So many of a hundred addresses.
    Percent(u8),
}

impl SupplyLimit {
    /// The limit in addresses, for a pool with so many of them.
    pub fn in_addresses(self, total: u128) -> u128 {
        match self {
            Self::Count(count) => count,
            // Divided first where the product would not fit.
            Self::Percent(percent) => match total.checked_mul(u128::from(percent)) {
                Some(product) => product.div_ceil(100),
                None => (total / 100).saturating_mul(u128::from(percent)),
            },
        }
    }
}

impl FromStr for SupplyLimit {
    type Err = String;

    fn from_str(limit: &str) -> Result<Self, String> {
        let parsed = match limit.strip_suffix('%') {
            Some(number) => {
                number.parse::<u8>().ok().filter(|part| *part <= 100).map(Self::Percent)
            }
            None => limit.parse::<u128>().ok().map(Self::Count),
        };
        parsed.ok_or_else(|| format!("`{limit}` is neither a number nor a percentage like 10%"))
    }
}

impl AllocationStrategy {
    /// The strategy of a name, as the pool's annotation and its spec spell it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "random" => Some(Self::Random),
            "sequential" => Some(Self::Sequential),
            "least-recently-used" => Some(Self::LeastRecent),
            _ => None,
        }
    }
}

impl Range {
    /// `subnet` as a network; none if there is none or it cannot be read.
    pub fn subnet(&self) -> Option<Subnet> {
        self.subnet.as_ref()?.parse().ok()
    }

    /// The addresses from `start` to `end`, or those of `subnet` where one of these is left out.
    /// None if the range is empty or cannot be read.
    pub fn addresses(&self) -> Option<IpRange> {
        let start = parse_optional(self.start.as_deref()).ok()?;
        let end = parse_optional(self.end.as_deref()).ok()?;
        let subnet = self.subnet();
        let start = match (start, subnet) {
            (Some(start), _) => start,
            // Both addresses of a point-to-point link are usable.
            (None, Some(subnet)) if subnet.is_link() => subnet.first_address(),
            // metal3 begins after the address as it is written, even if its host bits are set.
            (None, Some(subnet)) => Addr(subnet.written_address().0.checked_add(1)?),
            (None, None) => return None,
        };
        let last = subnet.map_or(start.last_of_family(), |subnet| subnet.to_range().end);
        let end = end.unwrap_or(last).min(last);
        (start <= end).then_some(IpRange { start, end })
    }

    /// The network that the range lies in: its own subnet, else the one that its prefix, or that of
    /// its pool, makes around its first address.
    fn network(&self, pool_prefix: Option<i64>) -> Option<Subnet> {
        if let Some(subnet) = self.subnet() {
            return Some(subnet);
        }
        let prefix = self.prefix.filter(|prefix| *prefix > 0).or(pool_prefix)?;
        let length = u8::try_from(prefix).ok().filter(|length| *length > 0)?;
        Subnet::containing(self.addresses()?.start, length)
    }
}

fn parse_optional(address: Option<&str>) -> Result<Option<Addr>, String> {
    address.map(str::parse).transpose()
}

impl IpPool {
    /// Which free address is leased next: by the annotation, else by `spec.allocationStrategy`.
    pub fn strategy(&self) -> AllocationStrategy {
        let by_annotation =
            self.metadata.annotation(ALLOCATION).and_then(AllocationStrategy::named);
        let by_spec = self.spec.allocation_strategy.as_deref().and_then(AllocationStrategy::named);
        by_annotation.or(by_spec).unwrap_or_else(|| {
            // A range without an end is too large to draw from at random.
            if self.spec.pools.iter().any(|range| range.end.is_none() && range.subnet.is_none()) {
                AllocationStrategy::Sequential
            } else {
                AllocationStrategy::Random
            }
        })
    }

    /// How long an address is not leased again after it was released.
    pub fn reuse_delay(&self) -> Span {
        let annotation = self.metadata.annotation(REUSE_DELAY);
        annotation.and_then(|delay| delay.parse().ok()).unwrap_or_default()
    }

    /// Whether the time at which an address was released matters for who gets it next.
    pub fn remembers_releases(&self) -> bool {
        self.reuse_delay().0 > 0 || self.strategy() == AllocationStrategy::LeastRecent
    }

    /// The limit below which the pool's free addresses are too few; none without the annotation.
    pub fn supply_limit(&self) -> Option<SupplyLimit> {
        self.metadata.annotation(WARN_BELOW)?.parse().ok()
    }

    /// The other namespaces that the pool is shared with, or `EVERY_NAMESPACE`.
    fn sharing_namespaces(&self) -> impl Iterator<Item = &str> {
        let namespaces = self.trimmed_annotation(SHARE_WITH).split(',').map(str::trim);
        namespaces.filter(|namespace| !namespace.is_empty())
    }

    /// Whether claims of other namespaces may name the pool.
    pub fn is_shared(&self) -> bool {
        self.sharing_namespaces().next().is_some()
    }

    /// Whether claims of a namespace may have addresses of the pool: those of its own namespace
    /// always may.
    pub fn serves(&self, namespace: &str) -> bool {
        self.metadata.namespace == namespace
            || self.sharing_namespaces().any(|name| name == EVERY_NAMESPACE || name == namespace)
    }

    /// The namespace of the pool, as a lease of a claim notes it: none if the claim is in the same.
    pub fn namespace_for_claim(&self, claim_namespace: &str) -> Option<String> {
        let namespace = &self.metadata.namespace;
        if namespace == claim_namespace { None } else { Some(namespace.clone()) }
    }

    /// Whether there is a namespace whose claims may have addresses of both pools.
    pub fn serves_with(&self, other_pool: &Self) -> bool {
        self.serves(&other_pool.metadata.namespace)
            || other_pool.serves(&self.metadata.namespace)
            || self.sharing_namespaces().any(|namespace| other_pool.serves(namespace))
    }

    /// Whether somebody paused the pool by an annotation. A paused pool leases nothing.
    pub fn is_paused(&self) -> bool {
        self.pause_annotation().is_some()
    }

    /// The annotation that pauses the pool.
    pub fn pause_annotation(&self) -> Option<&'static str> {
        PAUSE_ANNOTATIONS.into_iter().find(|annotation| self.metadata.has_annotation(annotation))
    }

    /// The ranges that nobody leases, each with its comment.
    pub fn reserved_ranges(&self) -> Vec<(IpRange, String)> {
        self.parse_reservations().into_iter().filter_map(Result::ok).collect()
    }

    /// The ranges that the annotations `reserved` and `exclude` keep from everybody, each with its
    /// comment. An entry that cannot be read is an error for people.
    pub fn parse_reservations(&self) -> Vec<Result<(IpRange, String), String>> {
        let mut reservations = Vec::new();
        let reserved = self.trimmed_annotation(RESERVED);
        if reserved.starts_with('[') {
            match serde_json::from_str::<Vec<Reservation>>(reserved) {
                Ok(entries) => {
                    for Reservation { range, comment } in entries {
                        reservations.push(parse_reservation(RESERVED, &range, &comment));
                    }
                }
                Err(error) => reservations.push(Err(format!("annotation {RESERVED}: {error}"))),
            }
        } else {
            for line in reserved.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let (range, comment) = line.split_once(' ').unwrap_or((line, ""));
                reservations.push(parse_reservation(RESERVED, range, comment));
            }
        }
        let excluded = self.trimmed_annotation(EXCLUDE).split(',').map(str::trim);
        for range in excluded.filter(|range| !range.is_empty()) {
            reservations.push(parse_reservation(EXCLUDE, range, ""));
        }
        reservations
    }

    fn trimmed_annotation(&self, name: &str) -> &str {
        self.metadata.annotation(name).unwrap_or_default().trim()
    }

    /// The addresses of `spec.preAllocations`, each after the name of the one claim that gets it.
    pub fn pre_allocated_addresses(&self) -> impl Iterator<Item = (&str, Addr)> {
        let pre_allocations = self.spec.pre_allocations.iter();
        pre_allocations.filter_map(|(claim, address)| Some((claim.as_str(), address.parse().ok()?)))
    }

    /// The address that only a claim of this name gets.
    pub fn pre_allocated_address_of(&self, claim: &str) -> Option<Addr> {
        self.spec.pre_allocations.get(claim)?.parse().ok()
    }

    /// Addresses that no machine may have: gateways, and the network and broadcast addresses.
    pub fn unusable_addresses(&self) -> Vec<Addr> {
        let range_gateways = self.spec.pools.iter().map(|range| &range.gateway);
        let gateways = range_gateways.chain([&self.spec.gateway]).flatten();
        let mut addresses: Vec<Addr> =
            gateways.filter_map(|gateway| gateway.parse().ok()).collect();
        for range in &self.spec.pools {
            addresses.extend(
                range.network(self.spec.prefix).into_iter().flat_map(Subnet::unusable_addresses),
            );
        }
        addresses
    }

    /// Why no machine may have an address: it is a gateway, or that of a network or its broadcast.
    pub fn unusable_reason(&self, address: Addr) -> Option<&'static str> {
        let range_gateways = self.spec.pools.iter().map(|range| &range.gateway);
        let mut gateways = range_gateways.chain([&self.spec.gateway]).flatten();
        if gateways.any(|gateway| gateway.parse::<Addr>() == Ok(address)) {
            return Some("gateway");
        }
        for network in self.spec.pools.iter().filter_map(|range| range.network(self.spec.prefix)) {
            if network.unusable_addresses().contains(&address) {
                let is_first = address == network.first_address();
                return Some(if is_first { "network address" } else { "broadcast address" });
            }
        }
        None
    }

    /// The addresses that a machine may have, each range with its position in `spec.pools`.
    pub fn usable_ranges(&self) -> Vec<(usize, IpRange)> {
        let never: Vec<IpRange> =
            self.unusable_addresses().into_iter().map(IpRange::single).collect();
        subtract_from_ranges(self.ranges(), &never)
    }

    /// The addresses that any claim may get: usable, neither reserved nor pre-allocated. Each range
    /// comes with its position in `spec.pools`.
    pub fn leasable_ranges(&self) -> Vec<(usize, IpRange)> {
        let mut kept: Vec<IpRange> =
            self.reserved_ranges().into_iter().map(|(range, _)| range).collect();
        kept.extend(self.pre_allocated_addresses().map(|(_, address)| IpRange::single(address)));
        subtract_from_ranges(self.usable_ranges(), &kept)
    }

    /// The ranges that can be read, each with its position in `spec.pools`.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, IpRange)> {
        let entries = self.spec.pools.iter().enumerate();
        entries.filter_map(|(index, range)| Some((index, range.addresses()?)))
    }

    /// The position in `spec.pools` of the range that has an address, else of one whose subnet has
    /// it.
    pub fn range_index_of(&self, address: Addr) -> Option<usize> {
        for (index, range) in self.ranges() {
            if range.contains(address) {
                return Some(index);
            }
        }
        self.spec
            .pools
            .iter()
            .position(|range| range.subnet().is_some_and(|subnet| subnet.contains(address)))
    }

    /// The network settings of the addresses of a range, by its position in `spec.pools`. What the
    /// range leaves open, or any address outside of all ranges, follows from the pool.
    pub fn network_of_range(&self, entry: Option<usize>) -> AddressNetwork {
        let range = entry.and_then(|index| self.spec.pools.get(index));
        let range_prefix = range.and_then(|range| range.prefix).filter(|prefix| *prefix > 0);
        let prefix = range_prefix.or(self.spec.prefix);
        let range_gateway = range.and_then(|range| range.gateway.as_ref());
        let gateway = range_gateway.or(self.spec.gateway.as_ref());
        let configured_servers = match range {
            Some(range) if !range.dns_servers.is_empty() => &range.dns_servers,
            _ => &self.spec.dns_servers,
        };
        let mut dns_servers: Vec<String> = Vec::new();
        for server in configured_servers {
            if !dns_servers.contains(server) {
                dns_servers.push(server.clone());
            }
        }
        AddressNetwork {
            prefix: prefix.and_then(|prefix| u8::try_from(prefix).ok()).unwrap_or_default(),
            gateway: gateway.filter(|gateway| !gateway.is_empty()).cloned(),
            dns_servers,
        }
    }

    /// The addresses whose IPAddress would have this name.
    pub fn addresses_with_name(&self, name: &str) -> Vec<Addr> {
        // A name is the prefix and then the address with dashes, without dashes at its end. So one
        // name can be an IPv4 address, or an IPv6 address with or without colons at its ends.
        let Some(suffix) = name.strip_prefix(self.name_prefix().trim_end_matches('-')) else {
            return Vec::new();
        };
        let dashed = suffix.strip_prefix('-').unwrap_or(suffix);
        let v4 = dashed.replace('-', ".");
        let v6 = dashed.replace('-', ":");
        let spellings = [v4, v6.clone(), format!("{v6}::"), format!("{v6}:"), format!("::{v6}")];
        let addresses = spellings.iter().filter_map(|spelling| spelling.parse::<Addr>().ok());
        addresses.filter(|address| self.address_name(*address) == name).collect()
    }

    /// What the names of the pool's IPAddresses begin with.
    pub fn name_prefix(&self) -> &str {
        if self.spec.name_prefix.is_empty() { &self.metadata.name } else { &self.spec.name_prefix }
    }

    /// The name of the IPAddress of an address.
    pub fn address_name(&self, address: Addr) -> String {
        let prefix = self.name_prefix();
        format!("{prefix}-{}", address.to_dashed_text()).trim_end_matches('-').to_owned()
    }
}

fn parse_reservation(
    annotation: &str,
    range: &str,
    comment: &str,
) -> Result<(IpRange, String), String> {
    match range.parse::<IpRange>() {
        Ok(range) => Ok((range, comment.trim().replace('\n', " "))),
        Err(error) => Err(format!("annotation {annotation}: {error}")),
    }
}

/// What is left of ranges without some others. Each keeps the position that it came with.
fn subtract_from_ranges(
    ranges: impl IntoIterator<Item = (usize, IpRange)>,
    subtracted: &[IpRange],
) -> Vec<(usize, IpRange)> {
    let mut remaining = Vec::new();
    for (index, range) in ranges {
        for part in range.subtract(subtracted) {
            remaining.push((index, part));
        }
    }
    remaining
}
