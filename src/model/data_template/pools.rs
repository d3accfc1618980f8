//! Which pools of addresses a data template refers to, and where. It never looks up a pool.

use std::collections::BTreeMap;

use super::Metal3DataTemplate;
use super::network::{Gateway, ObjectAnnotation, PoolRef, Services, StaticNetwork};
use crate::model::annotations::SEPARATE_ADDRESSES;

const KIND: &str = "IPPool";
const GROUP: &str = "ipam.metal3.io";

/// What names a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSource<'a> {
    /// An annotation of an object, which is known only once there is a machine.
    Annotation(&'a ObjectAnnotation),
    /// The template itself.
    Named { name: &'a str, kind: &'a str, group: &'a str },
}

impl<'a> PoolSource<'a> {
    /// An IPPool by its name; none if that is empty.
    pub fn from_ip_pool_name(name: &'a str) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        Some(Self::Named { name, kind: KIND, group: GROUP })
    }

    fn from_reference(reference: &'a PoolRef) -> Option<Self> {
        if reference.name.is_empty() {
            return None;
        }
        let kind = if reference.kind.is_empty() { KIND } else { &reference.kind };
        let group = if reference.api_group.is_empty() { GROUP } else { &reference.api_group };
        Some(Self::Named { name: &reference.name, kind, group })
    }

    /// As in metal3, an annotation counts before a reference, and a reference before a name.
    fn first_given(
        annotation: Option<&'a ObjectAnnotation>,
        reference: Option<&'a PoolRef>,
        name: &'a str,
    ) -> Option<Self> {
        let annotated = annotation.map(Self::Annotation);
        annotated
            .or_else(|| reference.and_then(Self::from_reference))
            .or_else(|| Self::from_ip_pool_name(name))
    }

    /// The name of the pool. None if an annotation names it and is not among these.
    pub fn name(self, annotations: &'a BTreeMap<String, String>) -> Option<&'a str> {
        let name = match self {
            Self::Annotation(source) => annotations.get(&source.annotation).map(String::as_str),
            Self::Named { name, .. } => Some(name),
        };
        name.filter(|name| !name.is_empty())
    }
}

impl StaticNetwork {
    /// The pool that the network's address is leased from.
    pub fn source(&self) -> Option<PoolSource<'_>> {
        PoolSource::first_given(
            self.from_pool_annotation.as_ref(),
            self.from_pool_ref.as_ref(),
            &self.ip_address_from_ip_pool,
        )
    }
}

impl Gateway {
    /// The pool whose gateway it is; none if the address itself is given.
    pub fn source(&self) -> Option<PoolSource<'_>> {
        if !self.string.is_empty() {
            return None;
        }
        PoolSource::first_given(
            self.from_pool_annotation.as_ref(),
            self.from_pool_ref.as_ref(),
            &self.from_ip_pool,
        )
    }
}

impl Services {
    /// The pool whose DNS servers are added.
    pub fn source(&self) -> Option<PoolSource<'_>> {
        PoolSource::from_ip_pool_name(&self.dns_from_ip_pool)
    }
}

impl Metal3DataTemplate {
    /// Every mention of a pool: in metaData, then in networks with their routes, then in services.
    pub fn pool_sources(&self) -> Vec<PoolSource<'_>> {
        let mut sources = Vec::new();
        if let Some(meta_data) = &self.spec.meta_data {
            for (_, entries) in meta_data.pool_entries() {
                sources.extend(
                    entries.iter().filter_map(|entry| PoolSource::from_ip_pool_name(&entry.name)),
                );
            }
        }
        if let Some(network_data) = &self.spec.network_data {
            for network in network_data.networks.list_networks() {
                sources.extend(network.leased.and_then(StaticNetwork::source));
                for route in network.routes {
                    sources.extend(route.gateway.source());
                    sources.extend(route.services.source());
                }
            }
            sources.extend(network_data.services.source());
        }
        sources
    }

    /// The names of the pools that the template refers to, each once, in the order in which they
    /// are first mentioned. A pool that an annotation should name is left out if these annotations
    /// do not name it.
    pub fn pool_names<'a>(&'a self, annotations: &'a BTreeMap<String, String>) -> Vec<&'a str> {
        let mut pools: Vec<&str> = Vec::new();
        for source in self.pool_sources() {
            if let Some(name) = source.name(annotations)
                && !pools.contains(&name)
            {
                pools.push(name);
            }
        }
        pools
    }
    /// The networks that have an address of their own, because another network has the host's
    /// address of their pool already: the name of the pool, and the id of the network. There are
    /// some only if the template asks for that.
    pub fn further_networks<'a>(
        &'a self,
        annotations: &'a BTreeMap<String, String>,
    ) -> Vec<(&'a str, &'a str)> {
        let mut further = Vec::new();
        let Some(network_data) = &self.spec.network_data else { return further };
        if !self.metadata.has_true_annotation(SEPARATE_ADDRESSES) {
            return further;
        }
        let mut pools: Vec<&str> = Vec::new();
        for network in network_data.networks.list_networks() {
            let source = network.leased.and_then(StaticNetwork::source);
            let Some(pool) = source.and_then(|source| source.name(annotations)) else { continue };
            if pools.contains(&pool) {
                further.push((pool, network.id));
            } else {
                pools.push(pool);
            }
        }
        further
    }
}
