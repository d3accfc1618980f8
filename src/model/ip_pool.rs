//! IPPool: ranges of addresses that are leased one by one, as metal3 has it on the wire.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::{Addr, Stretch, Subnet};
use super::meta::Meta;
use super::time::{Span, Time};

pub use super::annotations::{
    ALLOCATION, EXCLUDE, NODES_FROM, OUT_OF_RANGE, OVERLAP, RESERVED, REUSE_DELAY, VIPS_FROM,
};

/// Annotation of a claim: the address it wants.
pub const WANTED: &str = "ipAddress";
/// Annotations that pause a pool, a claim or a cluster.
pub const PAUSES: [&str; 2] = [CAPI_PAUSED, "hive.openshift.io/reconcile-pause"];
pub const CAPI_PAUSED: &str = "cluster.x-k8s.io/paused";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IpPool {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// Which addresses, and how they are leased.
    pub spec: IpPoolSpec,
    /// Who has which, made when it is read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: IpPoolStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IpPoolSpec {
    /// The cluster whose pause pauses the pool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Ranges, in the order in which they are used.
    #[serde(default)]
    pub pools: Vec<Range>,
    /// sequential or random; kept for the pool's life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_strategy: Option<String>,
    /// Addresses for claims of these names only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pre_allocations: BTreeMap<String, String>,
    /// Length of the network prefix, unless a range has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i64>,
    /// Gateway, unless a range has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// DNS servers, unless a range has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
    /// What names of IPAddresses begin with; the pool's name, unless given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_prefix: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Range {
    /// First address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Last address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Network; first and last follow from it.
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IpPoolStatus {
    /// When a lease last came or went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Addresses by claim.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocations: BTreeMap<String, String>,
    /// The same, as metal3 calls it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, String>,
    /// IPAddresses by claim.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, String>,
    /// total, used, reserved, free and outOfRange; text where no JSON number is large enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<Value>,
    /// Who had its addresses, in order: written by export, for import.
    #[serde(skip_serializing)]
    pub history: Vec<Tenant>,
}

/// Who has or had an address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Of the pool and the claim; never on the wire.
    #[serde(skip)]
    pub namespace: String,
    /// The address.
    pub address: Addr,
    /// The pool it was leased from, which may be gone.
    pub pool: String,
    /// The claim.
    pub claim: String,
    /// When it was leased.
    pub since: Time,
    /// When it was released; without it the claim has it still.
    #[serde(default)]
    pub until: Option<Time>,
}

fn is_default(status: &IpPoolStatus) -> bool {
    *status == IpPoolStatus::default()
}

/// A range that is kept from everybody, in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reservation {
    range: String,
    #[serde(default)]
    comment: String,
}

/// What a machine needs to know beside its address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    #[serde(default)]
    pub prefix: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
}

/// Which free address is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Any, each as likely as the others.
    Random,
    /// The lowest of the first range that has one.
    Sequential,
    /// One that was never leased, then the one that was released first.
    LeastRecent,
}

impl Strategy {
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
    pub fn subnet(&self) -> Option<Subnet> {
        self.subnet.as_ref()?.parse().ok()
    }

    /// From its first to its last address; none of one that cannot be read.
    pub fn stretch(&self) -> Option<Stretch> {
        let read = |text: &Option<String>| text.as_ref().map(|text| text.parse::<Addr>());
        let (start, end) = (read(&self.start).transpose().ok()?, read(&self.end).transpose().ok()?);
        let subnet = self.subnet();
        let last = |from: Addr| match subnet {
            Some(subnet) => subnet.whole().end,
            None => from.last(),
        };
        let start = match (start, subnet) {
            (Some(start), _) => start,
            // After the address as it is written, like metal3; a link's two are both used.
            (None, Some(subnet)) if subnet.is_link() => subnet.first(),
            (None, Some(subnet)) => Addr(subnet.written().0.checked_add(1)?),
            (None, None) => return None,
        };
        let end = end.unwrap_or_else(|| last(start)).min(last(start));
        (start <= end).then_some(Stretch { start, end })
    }

    /// The network it lies in: its own, else that of the prefix around its first address.
    fn network(&self, prefix: Option<i64>) -> Option<Subnet> {
        if let Some(subnet) = self.subnet() {
            return Some(subnet);
        }
        let prefix = self.prefix.filter(|prefix| *prefix > 0).or(prefix)?;
        let length = u8::try_from(prefix).ok().filter(|length| *length > 0)?;
        Subnet::around(self.stretch()?.start, length)
    }
}

impl IpPool {
    pub fn strategy(&self) -> Strategy {
        let given = self.metadata.annotation(ALLOCATION).and_then(Strategy::named);
        let written = || self.spec.allocation_strategy.as_deref().and_then(Strategy::named);
        // Without an end there is nothing to draw from.
        let endless = self.spec.pools.iter().any(|one| one.end.is_none() && one.subnet.is_none());
        let usual = if endless { Strategy::Sequential } else { Strategy::Random };
        given.or_else(written).unwrap_or(usual)
    }

    pub fn reuse_delay(&self) -> Span {
        let given = self.metadata.annotation(REUSE_DELAY).and_then(|text| text.parse().ok());
        given.unwrap_or_default()
    }

    /// Whether it matters when an address was released.
    pub fn remembers(&self) -> bool {
        self.reuse_delay().0 > 0 || self.strategy() == Strategy::LeastRecent
    }

    pub fn is_paused(&self) -> bool {
        PAUSES.iter().any(|note| self.metadata.annotated_at_all(note))
    }

    /// Ranges that are kept from everybody, with why.
    pub fn reserved(&self) -> Vec<(Stretch, String)> {
        self.reservations().into_iter().filter_map(Result::ok).collect()
    }

    /// The same, with what of it cannot be read.
    pub fn reservations(&self) -> Vec<Result<(Stretch, String), String>> {
        let note = |name: &str| self.metadata.annotation(name).unwrap_or_default().trim();
        let read = |name: &str, range: &str, comment: &str| match range.parse::<Stretch>() {
            Ok(range) => Ok((range, comment.trim().replace('\n', " "))),
            Err(why) => Err(format!("annotation {name}: {why}")),
        };
        let (text, mut all) = (note(RESERVED), Vec::new());
        if text.starts_with('[') {
            match serde_json::from_str::<Vec<Reservation>>(text) {
                Ok(list) => {
                    all.extend(list.iter().map(|one| read(RESERVED, &one.range, &one.comment)));
                }
                Err(why) => all.push(Err(format!("annotation {RESERVED}: {why}"))),
            }
        } else {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let parts = lines.map(|line| line.split_once(' ').unwrap_or((line, "")));
            all.extend(parts.map(|(range, comment)| read(RESERVED, range, comment)));
        }
        let excluded = note(EXCLUDE).split(',').map(str::trim).filter(|range| !range.is_empty());
        all.extend(excluded.map(|range| read(EXCLUDE, range, "")));
        all
    }

    pub fn pre_allocated(&self) -> impl Iterator<Item = (&str, Addr)> {
        let all = self.spec.pre_allocations.iter();
        all.filter_map(|(claim, text)| Some((claim.as_str(), text.parse().ok()?)))
    }

    /// Addresses that no machine gets: gateways, networks, broadcasts.
    pub fn never(&self) -> Vec<Addr> {
        let gateways = self.spec.pools.iter().map(|one| &one.gateway);
        let gateways = gateways.chain([&self.spec.gateway]).flatten();
        let networks = self.spec.pools.iter().filter_map(|one| one.network(self.spec.prefix));
        let mut all: Vec<Addr> = gateways.filter_map(|text| text.parse().ok()).collect();
        all.extend(networks.flat_map(Subnet::reserved));
        all
    }

    /// The ranges without those that no machine gets, by the number of their entry.
    pub fn usable(&self) -> Vec<(usize, Stretch)> {
        let never: Vec<Stretch> = self.never().into_iter().map(Stretch::one).collect();
        self.ranges()
            .flat_map(|(at, all)| all.without(&never).into_iter().map(move |one| (at, one)))
            .collect()
    }

    /// What anybody may be given: usable, neither reserved nor pre-allocated.
    pub fn open(&self) -> Vec<(usize, Stretch)> {
        let kept = self.reserved().into_iter().map(|(stretch, _)| stretch);
        let kept: Vec<Stretch> =
            kept.chain(self.pre_allocated().map(|(_, one)| Stretch::one(one))).collect();
        let all = self.usable().into_iter();
        all.flat_map(|(at, one)| one.without(&kept).into_iter().map(move |left| (at, left)))
            .collect()
    }

    pub fn ranges(&self) -> impl Iterator<Item = (usize, Stretch)> {
        let all = self.spec.pools.iter().enumerate();
        all.filter_map(|(at, one)| Some((at, one.stretch()?)))
    }

    /// The entry that an address belongs to: by its range, else by its subnet.
    pub fn entry_of(&self, address: Addr) -> Option<usize> {
        let by_range = self.ranges().find(|(_, one)| one.has(address)).map(|(at, _)| at);
        let in_subnet = |one: &Range| one.subnet().is_some_and(|net| net.contains(address));
        by_range.or_else(|| self.spec.pools.iter().position(in_subnet))
    }

    /// What goes with an address of an entry.
    pub fn network_of(&self, entry: Option<usize>) -> Network {
        let own = entry.and_then(|at| self.spec.pools.get(at));
        let prefix = own.and_then(|one| one.prefix).filter(|prefix| *prefix > 0);
        let prefix = prefix.or(self.spec.prefix).and_then(|prefix| u8::try_from(prefix).ok());
        let gateway = own.and_then(|one| one.gateway.clone()).or_else(|| self.spec.gateway.clone());
        let dns = own.map(|one| &one.dns_servers).filter(|all| !all.is_empty());
        let dns = dns.unwrap_or(&self.spec.dns_servers);
        let mut dns_servers: Vec<String> = Vec::new();
        for one in dns {
            if !dns_servers.contains(one) {
                dns_servers.push(one.clone());
            }
        }
        Network {
            prefix: prefix.unwrap_or_default(),
            gateway: gateway.filter(|text| !text.is_empty()),
            dns_servers,
        }
    }

    /// The addresses whose IPAddress would be called so.
    pub fn addresses_named(&self, name: &str) -> Vec<Addr> {
        // The name has the address in it, with dashes; those at its end were left out.
        let Some(rest) = name.strip_prefix(self.name_prefix().trim_end_matches('-')) else {
            return Vec::new();
        };
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        let v6 = rest.replace('-', ":");
        let texts = [
            rest.replace('-', "."),
            v6.clone(),
            format!("{v6}::"),
            format!("{v6}:"),
            format!("::{v6}"),
        ];
        let found = texts.into_iter().filter_map(|text| text.parse::<Addr>().ok());
        found.filter(|one| self.name_of(*one) == name).collect()
    }

    /// What the names of its IPAddresses begin with.
    pub fn name_prefix(&self) -> &str {
        let given = Some(self.spec.name_prefix.as_str()).filter(|prefix| !prefix.is_empty());
        given.unwrap_or(&self.metadata.name)
    }

    /// The name of the IPAddress of an address.
    pub fn name_of(&self, address: Addr) -> String {
        let prefix = self.name_prefix();
        format!("{prefix}-{}", address.dashed()).trim_end_matches('-').to_owned()
    }
}
