//! Whether leases that are read one by one go together: no claim, address or name comes twice, and a
//! claim and its address name the same pool. Of a lease only hashes are remembered. If two leases
//! have one hash by accident, they seem not to go together, and then they are looked at themselves.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::model::address::Addr;
use crate::model::cluster_api::ClusterApiOrigin;
use crate::model::ip_lease::{IpAddress, IpClaim};
use crate::model::ip_pool::IpPool;
use crate::model::meta::Key;

/// The leases that were read so far, by the hashes of their claims.
#[derive(Default)]
pub struct SpooledLeases {
    claims: HashMap<u64, ClaimFacts>,
    addresses: HashMap<u64, AddressFacts>,
    names_of_addresses: HashSet<u64>,
    leased_addresses: LeasedAddresses,
    /// The pools that addresses are of, each with the namespaces of their claims.
    pools: BTreeSet<(Key, String)>,
}

/// Addresses that are leased, each as a hash of it and of the namespace of its pool.
#[derive(Default)]
pub struct LeasedAddresses(HashSet<u64>);

impl LeasedAddresses {
    /// Adds an address. False if it was leased already.
    fn insert(&mut self, namespace: &str, address: Addr) -> bool {
        self.0.insert(hash_of(&(namespace, address)))
    }

    /// Whether an address is leased from a pool of a namespace.
    pub fn contains(&self, namespace: &str, address: Addr) -> bool {
        self.0.contains(&hash_of(&(namespace, address)))
    }
}

/// What is remembered of a claim.
struct ClaimFacts {
    pool_name: u64,
    /// None if the claim does not say of which namespace the pool is.
    pool_namespace: Option<u64>,
    names_address: bool,
}

/// What is remembered of an address.
struct AddressFacts {
    pool_name: u64,
    pool_namespace: u64,
}

impl SpooledLeases {
    /// Remembers a claim. None if there was one of its name.
    pub fn add_claim(&mut self, claim: &IpClaim) -> Option<()> {
        let Key { namespace, name } = claim.metadata.key();
        let pool = &claim.spec.pool;
        let pool_namespace =
            if pool.namespace.is_empty() { None } else { Some(hash_of(&pool.namespace)) };
        let names_address =
            claim.status.address.as_ref().is_some_and(|address| !address.name.is_empty());
        let facts = ClaimFacts { pool_name: hash_of(&pool.name), pool_namespace, names_address };
        let earlier_claim = self.claims.insert(hash_of(&(namespace, name)), facts);
        if earlier_claim.is_some() { None } else { Some(()) }
    }

    /// Remembers an address. None if it cannot be read, or if there was one of its name, of its
    /// claim, or of its value.
    pub fn add_address(&mut self, ip_address: &IpAddress) -> Option<()> {
        let Key { namespace, name } = ip_address.metadata.key();
        let spec = &ip_address.spec;
        let address: Addr = spec.address.parse().ok()?;
        let pool = spec.pool.key_from(&namespace);
        let facts = AddressFacts {
            pool_name: hash_of(&pool.name),
            pool_namespace: hash_of(&pool.namespace),
        };
        let claim = hash_of(&(&namespace, &spec.claim.name));
        let is_new = self.names_of_addresses.insert(hash_of(&(&namespace, name)))
            && self.leased_addresses.insert(&pool.namespace, address)
            && self.addresses.insert(claim, facts).is_none();
        self.pools.insert((pool, namespace));
        if is_new { Some(()) } else { None }
    }

    /// Whether the leases go together, and with the pools of the text.
    pub fn agree_with(&self, pools: &[&IpPool]) -> bool {
        let have_pools = self.pools.iter().all(|(pool_key, namespace)| {
            pools.iter().any(|pool| pool.metadata.key() == *pool_key && pool.serves(namespace))
        });
        have_pools
            && pools.iter().all(|pool| self.has_all_allocations_of(pool))
            && self.claims.iter().all(|(claim, facts)| match self.addresses.get(claim) {
                Some(address) => facts.is_of_pool_of(address),
                None => !facts.names_address,
            })
    }

    /// The addresses that are leased.
    pub fn into_leased_addresses(self) -> LeasedAddresses {
        self.leased_addresses
    }

    /// Whether all claims have an address of which a pool says that they have one. What a pool calls
    /// a claim of another namespace is not understood.
    fn has_all_allocations_of(&self, pool: &IpPool) -> bool {
        let namespace = &pool.metadata.namespace;
        let mut allocations = pool.status.allocations.iter().chain(&pool.status.indexes);
        allocations.all(|(claim, address)| {
            let is_pre_allocated = pool
                .pre_allocated_address_of(claim)
                .is_some_and(|pre_allocated| address.parse::<Addr>() == Ok(pre_allocated));
            // The name does not tell whether the claim is one of Cluster API.
            let origin = ClusterApiOrigin { claim: claim.clone(), ..ClusterApiOrigin::default() };
            is_pre_allocated
                || self.addresses.contains_key(&hash_of(&(namespace, claim)))
                || self.addresses.contains_key(&hash_of(&(namespace, origin.name_here())))
        })
    }
}

impl ClaimFacts {
    fn is_of_pool_of(&self, address: &AddressFacts) -> bool {
        self.pool_name == address.pool_name
            && self.pool_namespace.is_none_or(|namespace| namespace == address.pool_namespace)
    }
}

/// The hash by which a value is remembered. Two values with the same one seem to be the same; then the
/// state is read whole.
pub fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
