//! Which IP pools a data template refers to, and from where.

use std::collections::BTreeMap;

use super::Metal3DataTemplate;
use super::network::{
    Bond, Ethernet, Gateway, Link, Links, Networks, ObjectAnnotation, PoolRef, Route, Services,
    StaticNetwork, Vlan,
};

const KIND: &str = "IPPool";
const GROUP: &str = "ipam.metal3.io";

/// Where the name of a pool stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    Annotation(&'a ObjectAnnotation),
    Named { name: &'a str, kind: &'a str, group: &'a str },
}

impl<'a> Source<'a> {
    /// An IPPool; none if the name is empty.
    pub fn native(name: &'a str) -> Option<Self> {
        (!name.is_empty()).then_some(Self::Named { name, kind: KIND, group: GROUP })
    }

    fn of(reference: &'a PoolRef) -> Option<Self> {
        let or = |given: &'a str, usual| if given.is_empty() { usual } else { given };
        let (kind, group) = (or(&reference.kind, KIND), or(&reference.api_group, GROUP));
        let name = reference.name.as_str();
        (!name.is_empty()).then_some(Self::Named { name, kind, group })
    }

    fn first(
        annotation: Option<&'a ObjectAnnotation>,
        reference: Option<&'a PoolRef>,
        name: &'a str,
    ) -> Option<Self> {
        let annotated = annotation.map(Self::Annotation);
        annotated.or_else(|| reference.and_then(Self::of)).or_else(|| Self::native(name))
    }

    /// The pool's name, if these annotations have it.
    pub fn name(self, annotations: &'a BTreeMap<String, String>) -> Option<&'a str> {
        let name = match self {
            Self::Annotation(one) => annotations.get(&one.annotation).map(String::as_str),
            Self::Named { name, .. } => Some(name),
        };
        name.filter(|name| !name.is_empty())
    }
}

impl StaticNetwork {
    /// The pool that its address is leased from.
    pub fn source(&self) -> Option<Source<'_>> {
        let (annotation, reference) = (&self.from_pool_annotation, &self.from_pool_ref);
        Source::first(annotation.as_ref(), reference.as_ref(), &self.ip_address_from_ip_pool)
    }
}

impl Gateway {
    /// The pool whose gateway it is; none if the address itself is given.
    pub fn source(&self) -> Option<Source<'_>> {
        let (annotation, reference) = (&self.from_pool_annotation, &self.from_pool_ref);
        let source = Source::first(annotation.as_ref(), reference.as_ref(), &self.from_ip_pool);
        source.filter(|_| self.string.is_empty())
    }
}

impl Services {
    /// The pool whose DNS servers are added.
    pub fn source(&self) -> Option<Source<'_>> {
        Source::native(&self.dns_from_ip_pool)
    }
}

impl Links {
    /// All of them with their places: bonds, ethernets, then vlans.
    pub fn all(&self) -> Vec<(usize, Link<'_>)> {
        let mut all: Vec<(usize, Link<'_>)> =
            self.bonds.iter().map(Bond::link).enumerate().collect();
        all.extend(self.ethernets.iter().map(Ethernet::link).enumerate());
        all.extend(self.vlans.iter().map(Vlan::link).enumerate());
        all
    }
}

/// What all networks have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network<'a> {
    /// The list it is in: ipv4, ipv6, ipv4DHCP, ipv6DHCP or ipv6SLAAC.
    pub list: &'static str,
    is_v4: bool,
    /// Its place there.
    pub at: usize,
    pub id: &'a str,
    pub link: &'a str,
    pub routes: &'a [Route],
    /// The whole of it, if its address is leased.
    pub leased: Option<&'a StaticNetwork>,
}

impl Network<'_> {
    pub fn is_v4(&self) -> bool {
        self.is_v4
    }
}

impl Networks {
    /// All of them: ipv4, ipv6, ipv4DHCP, ipv6DHCP, then ipv6SLAAC.
    pub fn all(&self) -> Vec<Network<'_>> {
        let mut all = Vec::new();
        for (list, is_v4, networks) in [("ipv4", true, &self.ipv4), ("ipv6", false, &self.ipv6)] {
            all.extend(networks.iter().enumerate().map(|(at, one)| {
                let (id, link, routes) = (one.id.as_str(), one.link.as_str(), &*one.routes);
                Network { list, is_v4, at, id, link, routes, leased: Some(one) }
            }));
        }
        let lists = [
            ("ipv4DHCP", true, &self.ipv4_dhcp),
            ("ipv6DHCP", false, &self.ipv6_dhcp),
            ("ipv6SLAAC", false, &self.ipv6_slaac),
        ];
        for (list, is_v4, networks) in lists {
            all.extend(networks.iter().enumerate().map(|(at, one)| {
                let (id, link, routes) = (one.id.as_str(), one.link.as_str(), &*one.routes);
                Network { list, is_v4, at, id, link, routes, leased: None }
            }));
        }
        all
    }
}

impl Metal3DataTemplate {
    /// Every mention of a pool: metaData, then networks with their routes, then services.
    pub fn sources(&self) -> Vec<Source<'_>> {
        let mut all = Vec::new();
        if let Some(data) = &self.spec.meta_data {
            let lists = data.from_pools().into_iter().flat_map(|(_, list)| list);
            all.extend(lists.filter_map(|one| Source::native(&one.name)));
        }
        if let Some(data) = &self.spec.network_data {
            for network in data.networks.all() {
                all.extend(network.leased.and_then(StaticNetwork::source));
                for route in network.routes {
                    all.extend(route.gateway.source());
                    all.extend(route.services.source());
                }
            }
            all.extend(data.services.source());
        }
        all
    }

    /// The pools it refers to, each once, in the order in which they are first mentioned. One that
    /// an annotation should name, but does not, is left out.
    pub fn pools<'a>(&'a self, annotations: &'a BTreeMap<String, String>) -> Vec<&'a str> {
        let mut all: Vec<&str> = Vec::new();
        for name in self.sources().into_iter().filter_map(|one| one.name(annotations)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }
}
