//! Keeps the names of IPAddresses unique: where two addresses would be called alike, the later one
//! gets a name of its own. It never renames an address that was leased before.

use std::collections::HashSet;

use crate::model::address::Addr;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::IpPool;
use crate::model::state::{AddressBook, IpLeaseId, State};
use crate::model::table::{Change, Owner};

/// A lease whose address would be called like another one, and the name that it gets instead.
struct Renaming {
    lease_id: IpLeaseId,
    name: String,
    /// On whose behalf the lease was changed.
    owner: Owner,
}

/// Gives names of their own to addresses that were leased in this pass and would be called like
/// another one: `10.0.0.1` and `10:0:0:1::` would, and so would addresses of pools whose prefixes
/// meet.
pub fn give_unique_names(state: &mut State, book: &dyn AddressBook) {
    for renaming in find_renamings(state, book) {
        state.ip_leases.act_for(&renaming.owner);
        state.ip_leases.update(renaming.lease_id, |lease| {
            lease.notes.get_or_insert_default().address.name = renaming.name;
        });
    }
    state.ip_leases.act_for(&None);
}

/// Finds the leases whose IPAddress would get the name of another one in this pass: of an address of
/// a similar pool, or of one that was given this name.
fn find_renamings(state: &State, book: &dyn AddressBook) -> Vec<Renaming> {
    let mut renamings = Vec::new();
    for pool in state.ip_pools.rows() {
        let similar_pools = find_similar_pools(state, pool);
        let leased = if similar_pools.is_empty() { HashSet::new() } else { leased_in(state, pool) };
        let names = PoolNames { state, book, pool, similar_pools, leased };
        for change in state.ip_leases.difference() {
            renamings.extend(names.rename(&change));
        }
    }
    renamings
}

/// What decides whether the name of an address of a pool is unique.
struct PoolNames<'a> {
    state: &'a State,
    book: &'a dyn AddressBook,
    pool: &'a IpPool,
    similar_pools: Vec<&'a IpPool>,
    /// Addresses of the namespace that are leased, as far as they are in the state. Only those of
    /// similar pools matter.
    leased: HashSet<Addr>,
}

impl PoolNames<'_> {
    /// The new name of an address of the pool that was just leased, if it needs one.
    fn rename(&self, change: &Change<'_, IpLease>) -> Option<Renaming> {
        let lease = change.after?;
        if lease.pool_key() != self.pool.metadata.key() {
            return None;
        }
        let address = lease.address?;
        let name = self.pool.address_name(address);
        let address_before = change.before.and_then(|before| before.address);
        if address_before == Some(address) || lease.given_address_name().is_some() {
            return None;
        }
        let mut alike =
            self.similar_pools.iter().flat_map(|similar| similar.addresses_with_name(&name));
        let is_name_taken = self.is_given(&name)
            || alike.any(|similar| similar != address && self.is_leased(similar));
        if !is_name_taken {
            return None;
        }
        let lease_id = self.state.ip_leases.find(&lease.key())?;
        let name = format!("{name}-of-{}", lease.claim);
        Some(Renaming { lease_id, name, owner: change.owner.clone() })
    }

    /// Whether an IPAddress of the namespace has this name, although it is not that of its address.
    fn is_given(&self, name: &str) -> bool {
        let namespace = &self.pool.metadata.namespace;
        let mut lease_ids = self.state.ip_leases.linked_to(name);
        lease_ids.any(|lease_id| {
            let lease = self.state.ip_leases.get(lease_id);
            lease.is_some_and(|lease| lease.address_namespace() == namespace)
        }) || self.book.is_address_name_given(namespace, name)
    }

    fn is_leased(&self, address: Addr) -> bool {
        let namespace = &self.pool.metadata.namespace;
        self.leased.contains(&address) || self.book.holder(namespace, address).is_some()
    }
}

/// The addresses of a pool's namespace that are leased, as far as they are in the state.
fn leased_in(state: &State, pool: &IpPool) -> HashSet<Addr> {
    let namespace = &pool.metadata.namespace;
    let leases = state.ip_leases.rows().filter(|lease| lease.address_namespace() == namespace);
    leases.filter_map(|lease| lease.address).collect()
}

/// Pools of which a lease may be called like one of this pool; itself if it has both families.
fn find_similar_pools<'a>(state: &'a State, pool: &IpPool) -> Vec<&'a IpPool> {
    let namespace = &pool.metadata.namespace;
    let neighbours =
        state.ip_pools.rows().filter(|neighbour| neighbour.metadata.namespace == *namespace);
    neighbours.filter(|neighbour| may_share_names(pool, neighbour)).collect()
}

/// Whether addresses of two pools could have the same name. Names are made of a prefix and the
/// address, so this needs two families, or prefixes of which one begins like the other.
fn may_share_names(pool: &IpPool, neighbour: &IpPool) -> bool {
    if neighbour.metadata.name == pool.metadata.name {
        return has_both_families(pool);
    }
    let prefix = pool.name_prefix();
    let neighbour_prefix = neighbour.name_prefix();
    begins_with_words(prefix, neighbour_prefix) || begins_with_words(neighbour_prefix, prefix)
}

fn has_both_families(pool: &IpPool) -> bool {
    let has_v4 = pool.ranges().any(|(_, range)| range.start.is_v4());
    let has_v6 = pool.ranges().any(|(_, range)| !range.start.is_v4());
    has_v4 && has_v6
}

/// Whether a name is `words`, or begins with it and a dash.
fn begins_with_words(name: &str, words: &str) -> bool {
    name.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
