//! Names of leases: where two addresses would be called alike, the later one gets a name of its
//! own.

use std::collections::HashSet;

use crate::model::address::Addr;
use crate::model::ip_pool::IpPool;
use crate::model::state::{AddressBook, IpLeaseId, State};
use crate::model::table::Owner;

/// `10.0.0.1` and `10:0:0:1::` would be called alike, and so would addresses of pools whose
/// prefixes meet.
pub fn tell_apart(state: &mut State, book: &dyn AddressBook) {
    let mut alike: Vec<(IpLeaseId, String, Owner)> = Vec::new();
    for pool in state.ip_pools.rows() {
        let pools = meeting(state, pool);
        if pools.is_empty() {
            continue;
        }
        let key = pool.metadata.key();
        let all = state.ip_leases.rows().filter(|one| one.namespace == key.namespace);
        let here: HashSet<Addr> = all.filter_map(|one| one.address).collect();
        let leased =
            |other: Addr| here.contains(&other) || book.holder(&key.namespace, other).is_some();
        for change in state.ip_leases.difference() {
            let Some(one) = change.after.filter(|one| one.pool_key() == key) else { continue };
            let Some(address) = one.address else { continue };
            let name = pool.name_of(address);
            let had = change.before.and_then(|before| before.address);
            if had == Some(address) || state.name_of(one) != name {
                continue;
            }
            let mut others = pools.iter().flat_map(|other| other.addresses_named(&name));
            let taken = others.any(|other| other != address && leased(other));
            if let Some(at) = state.ip_leases.find(&one.key()).filter(|_| taken) {
                alike.push((at, format!("{name}-of-{}", one.claim), change.owner.clone()));
            }
        }
    }
    for (at, name, owner) in alike {
        state.ip_leases.act_for(&owner);
        state.ip_leases.update(at, |one| one.notes.get_or_insert_default().address.name = name);
    }
    state.ip_leases.act_for(&None);
}

/// Pools of which a lease may be called like one of this pool; itself if it has both families.
fn meeting<'a>(state: &'a State, pool: &IpPool) -> Vec<&'a IpPool> {
    let (meta, prefix) = (&pool.metadata, pool.name_prefix());
    let within = |one: &str, other: &str| {
        one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let meets = |other: &&IpPool| {
        if other.metadata.name == meta.name {
            let mut families = pool.ranges().map(|(_, range)| range.start.is_v4());
            let first = families.next();
            return families.any(|family| Some(family) != first);
        }
        let its = other.name_prefix();
        within(prefix, its) || within(its, prefix)
    };
    let all = state.ip_pools.rows().filter(|other| other.metadata.namespace == meta.namespace);
    all.filter(meets).collect()
}
