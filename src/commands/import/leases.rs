//! Leases of a file that an import cannot keep: those of kinds that are not modelled, and metal3's
//! own without the pool or the address that they are of. Each stops the import, unless its kind is
//! skipped: what it holds would be leased again.

use std::collections::HashSet;
use std::path::Path;

use crate::manifest::{ForeignLease, Manifests};
use crate::model::foreign_kind::ForeignKind;
use crate::model::ip_lease::{IpAddress, IpClaim};
use crate::model::ip_pool::IpPool;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Refusal, nearest};

/// A lease that would not be known in the state.
struct LostLease {
    kind: ForeignKind,
    key: Key,
    /// What it is, what it holds and why that cannot be kept.
    text: String,
}

/// Takes leases of skipped kinds out of what was read, and warns of each. Others are refused.
pub fn leave_out(read: &mut Manifests, skip: &[String], file: &Path) -> Result<(), Refusal> {
    for word in skip {
        if !ForeignKind::ALL.into_iter().any(|kind| kind.is_called(word)) {
            return Err(unknown_kind(word));
        }
    }
    let is_skipped = |lease: &LostLease| skip.iter().any(|word| lease.kind.is_called(word));
    let (skipped, kept): (Vec<LostLease>, Vec<LostLease>) =
        lost_leases(read).into_iter().partition(is_skipped);
    if !kept.is_empty() {
        return Err(refusal(&kept, skip, file));
    }
    let left_out: HashSet<(&str, &Key)> = skipped
        .iter()
        .filter(|lease| [ForeignKind::IP_ADDRESS, ForeignKind::IP_CLAIM].contains(&lease.kind))
        .map(|lease| (lease.kind.kind, &lease.key))
        .collect();
    read.objects.retain(|object| !left_out.contains(&(object.kind().name(), &object.key())));
    for lease in &skipped {
        read.warnings.push(format!("{}; it is left out and not known here", lease.text));
    }
    Ok(())
}

fn unknown_kind(word: &str) -> Refusal {
    let refusal = Refusal::usage(format!("`{word}` is no kind whose leases can be skipped"));
    if let Some(near) = nearest(word, ForeignKind::ALL.into_iter().map(|kind| kind.kind)) {
        return refusal.because(format!("did you mean `{near}`?"));
    }
    let names: Vec<String> = ForeignKind::ALL.into_iter().map(ForeignKind::full_name).collect();
    refusal.because(format!("those are {}", names.join(", ")))
}

fn refusal(leases: &[LostLease], skip: &[String], file: &Path) -> Refusal {
    let mut refusal = Refusal::conflict("the file has leases that cannot be kept here");
    refusal.causes = leases.iter().map(|lease| lease.text.clone()).collect();
    let mut kinds = skip.to_vec();
    for lease in leases {
        let name = lease.kind.full_name();
        if !kinds.contains(&name) {
            kinds.push(name);
        }
    }
    let skips = kinds.join(" --skip ");
    refusal.next(format!("poolctl import {} --skip {skips}", file.display()))
}

fn lost_leases(read: &Manifests) -> Vec<LostLease> {
    let mut pools = HashSet::new();
    let mut leased = HashSet::new();
    for object in &read.objects {
        match object {
            Object::IpPool(pool) => drop(pools.insert(pool.metadata.key())),
            Object::IpAddress(address) => drop(leased.insert(claim_of(address))),
            _ => {}
        }
    }
    let foreign = read.foreign_leases.iter().map(of_another_program);
    let own = read.objects.iter().filter_map(|object| match object {
        Object::IpAddress(address) if !pools.contains(&pool_of(address)) => {
            Some(without_pool(address))
        }
        Object::IpPool(pool) => allocated(pool, &leased),
        Object::IpClaim(claim) if !leased.contains(&claim.metadata.key()) => without_address(claim),
        _ => None,
    });
    foreign.chain(own).collect()
}

fn pool_of(address: &IpAddress) -> Key {
    Key::new(&*address.metadata.namespace, &*address.spec.pool.name)
}

fn claim_of(address: &IpAddress) -> Key {
    Key::new(&*address.metadata.namespace, &*address.spec.claim.name)
}

fn of_another_program(lease: &ForeignLease) -> LostLease {
    let ForeignLease { kind, key, place, address } = lease;
    let mut text = format!("{place}: {} `{key}` holds {}", kind.full_name(), kind.holds);
    if let Some(address) = address {
        text = format!("{text}, {address}");
    }
    LostLease { kind: *kind, key: key.clone(), text }
}

fn without_pool(address: &IpAddress) -> LostLease {
    let (kind, key) = (ForeignKind::IP_ADDRESS, address.metadata.key());
    let (name, held, pool) = (kind.full_name(), &address.spec.address, &address.spec.pool.name);
    let text = format!("{name} `{key}` holds {held} of IPPool `{pool}`, which is not in the file");
    LostLease { kind, key, text }
}

/// An address that a pool says it has given, while the object of that address is missing.
fn allocated(pool: &IpPool, leased: &HashSet<Key>) -> Option<LostLease> {
    let namespace = &*pool.metadata.namespace;
    let is_lost = |claim: &str| !leased.contains(&Key::new(namespace, claim));
    let (claim, address) = pool.status.allocations.iter().find(|(claim, _)| is_lost(claim))?;
    let (kind, key) = (ForeignKind::IP_ADDRESS, pool.metadata.key());
    let name = kind.full_name();
    let text = format!(
        "IPPool `{key}` has given {address} to IPClaim `{claim}`, and its {name} is not in the file"
    );
    Some(LostLease { kind, key, text })
}

/// A claim that has an address, while the object that says which is missing.
fn without_address(claim: &IpClaim) -> Option<LostLease> {
    let status = &claim.status;
    let address = status.address.as_ref().or(status.ip_address.as_ref())?;
    if address.name.is_empty() {
        return None;
    }
    let (kind, key) = (ForeignKind::IP_CLAIM, claim.metadata.key());
    let (name, address) = (kind.full_name(), &address.name);
    let text = format!("{name} `{key}` holds IPAddress `{address}`, which is not in the file");
    Some(LostLease { kind, key, text })
}
