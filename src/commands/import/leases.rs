//! Leases of a file that an import cannot keep: those of kinds that are not modelled, and metal3's
//! own without the pool or the address that they are of. Each of them stops the import unless its
//! kind is skipped, because what it holds would be leased again.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::manifest::{ForeignLease, Manifests, RefusedPool};
use crate::model::address::Addr;
use crate::model::annotations::OVERLAP;
use crate::model::cluster_api::ClusterApiOrigin;
use crate::model::foreign_kind::ForeignKind;
use crate::model::ip_lease::{IpAddress, IpClaim};
use crate::model::ip_pool::IpPool;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::{Refusal, nearest_name};
use crate::model::text::quote_word;
use crate::rules::check_pools_apart;

use crate::commands::count_of;

/// A lease that the state would not know of.
struct LostLease {
    kind: ForeignKind,
    key: Key,
    /// The kind of the object of the file that is left out with it, if there is one.
    kept_as: Option<Kind>,
    /// What it is, what it holds, and why that cannot be kept.
    description: String,
}

/// Leaves out the leases of skipped kinds, each with a warning. Any other lease that cannot be kept
/// is refused.
pub fn leave_out_skipped(
    manifests: &mut Manifests,
    skipped_words: &[String],
    file: &Path,
) -> Result<(), Refusal> {
    for word in skipped_words {
        if !ForeignKind::ALL.into_iter().any(|kind| kind.is_named(word)) {
            return Err(unknown_kind(word));
        }
    }
    refuse_overlapping_pools(manifests);
    leave_out_refused_pools(manifests, skipped_words, file)?;
    check_single_claims(manifests)?;
    let (skipped_leases, refused_leases): (Vec<LostLease>, Vec<LostLease>) = lost_leases(manifests)
        .into_iter()
        .partition(|lease| skipped_words.iter().any(|word| lease.kind.is_named(word)));
    if !refused_leases.is_empty() {
        return Err(refuse_leases(&refused_leases, skipped_words, file));
    }
    let mut skipped_objects: HashSet<(Kind, Key)> = HashSet::new();
    for lease in &skipped_leases {
        skipped_objects.extend(lease.kept_as.map(|kind| (kind, lease.key.clone())));
    }
    manifests.objects.retain(|object| !skipped_objects.contains(&(object.kind(), object.key())));
    for lease in &skipped_leases {
        let warning =
            format!("{}; it is skipped, and poolctl will not know of it", lease.description);
        manifests.warnings.push(warning);
    }
    Ok(())
}

/// Refuses the pools that have addresses in common with an earlier pool of the file, as metal3
/// allows it.
fn refuse_overlapping_pools(manifests: &mut Manifests) {
    let mut apart_pools: Vec<&IpPool> = Vec::new();
    let mut refused_pools: Vec<RefusedPool> = Vec::new();
    for object in &manifests.objects {
        let Object::IpPool(pool) = object else { continue };
        let mut overlaps = apart_pools.iter().map(|earlier| check_pools_apart(pool, earlier));
        match overlaps.find_map(Result::err) {
            None => apart_pools.push(pool),
            Some(refusal) => {
                let key = pool.metadata.key();
                // What helps a state of its own is no command for a file.
                let refusal = Refusal::conflict(refusal.what).because(format!(
                    "it is taken if both pools have the annotation {OVERLAP}=true in the file"
                ));
                refused_pools.push(RefusedPool { key, refusals: vec![refusal] });
            }
        }
    }
    let refused_keys: HashSet<Key> = refused_pools.iter().map(|pool| pool.key.clone()).collect();
    manifests.objects.retain(|object| match object {
        Object::IpPool(pool) => !refused_keys.contains(&pool.metadata.key()),
        _ => true,
    });
    manifests.refused_pools.extend(refused_pools);
}

/// Refuses two addresses of the file that are one address and of different claims. Those of metal3
/// and of Cluster API may have one name.
fn check_single_claims(manifests: &Manifests) -> Result<(), Refusal> {
    let mut holders: HashMap<(String, Addr), &IpAddress> = HashMap::new();
    for object in &manifests.objects {
        let Object::IpAddress(ip_address) = object else { continue };
        let Ok(address) = ip_address.spec.address.parse::<Addr>() else { continue };
        let resource = (pool_key(ip_address).namespace, address);
        let Some(earlier) = holders.insert(resource, ip_address) else { continue };
        if claim_key(earlier) != claim_key(ip_address) {
            let problem = format!("the file has two claims of {address}");
            return Err(Refusal::conflict(problem)
                .because(describe_claim_of(earlier))
                .because(describe_claim_of(ip_address))
                .advise("delete one of them where the file comes from"));
        }
    }
    Ok(())
}

/// An address and its claim, as they are called where the file comes from.
fn describe_claim_of(ip_address: &IpAddress) -> String {
    let metadata = &ip_address.metadata;
    let kind = foreign_kind_of(metadata, ForeignKind::IP_ADDRESS, ForeignKind::CLUSTER_API_ADDRESS);
    let claim_kind =
        foreign_kind_of(metadata, ForeignKind::IP_CLAIM, ForeignKind::CLUSTER_API_CLAIM);
    let origin = ClusterApiOrigin::of(metadata);
    let claim = origin.map_or_else(|| ip_address.spec.claim.name.clone(), |origin| origin.claim);
    let key = metadata.key();
    format!("{} `{key}` is of {} `{claim}`", kind.full_name(), claim_kind.full_name())
}

/// Leaves out the pools that cannot be taken, each with its claims and addresses and with a warning,
/// if their kind is skipped. Otherwise they are refused.
fn leave_out_refused_pools(
    manifests: &mut Manifests,
    skipped_words: &[String],
    file: &Path,
) -> Result<(), Refusal> {
    let refused_pools = std::mem::take(&mut manifests.refused_pools);
    let kind = ForeignKind::IP_POOL;
    if !skipped_words.iter().any(|word| kind.is_named(word)) {
        let refusals = refused_pools.into_iter().flat_map(|pool| pool.refusals).collect();
        let mut words = skipped_words.to_vec();
        words.push(kind.full_name());
        let path = quote_word(&file.display().to_string());
        let next = format!("poolctl import {path} --skip {}", words.join(" --skip "));
        return Refusal::refuse_all(refusals).map_err(|refusal| refusal.next(next));
    }
    for pool in refused_pools {
        leave_out_pool(manifests, &pool);
    }
    Ok(())
}

/// Leaves out the claims and addresses of a pool that was not taken.
fn leave_out_pool(manifests: &mut Manifests, pool: &RefusedPool) {
    let count_before = manifests.objects.len();
    manifests.objects.retain(|object| match object {
        Object::IpClaim(claim) => claim.spec.pool.key_from(&claim.metadata.namespace) != pool.key,
        Object::IpAddress(address) => pool_key(address) != pool.key,
        _ => true,
    });
    let count = count_of(count_before - manifests.objects.len(), "object");
    for refusal in &pool.refusals {
        let mut problem = refusal.what.clone();
        if !refusal.causes.is_empty() {
            problem = format!("{problem}: {}", refusal.causes.join("; "));
        }
        manifests.warnings.push(problem);
    }
    manifests.warnings.push(format!(
        "IPPool `{}` is skipped with its claims and addresses ({count}), and poolctl will not know \
         of them",
        pool.key
    ));
}

/// The kind that an object had where the file comes from: one of Cluster API, if it stands for
/// that.
fn foreign_kind_of(metadata: &Meta, own: ForeignKind, in_cluster_api: ForeignKind) -> ForeignKind {
    if ClusterApiOrigin::of(metadata).is_some() { in_cluster_api } else { own }
}

fn unknown_kind(word: &str) -> Refusal {
    let refusal = Refusal::usage(format!("leases of kind `{word}` cannot be skipped"));
    if let Some(near) = nearest_name(word, ForeignKind::ALL.into_iter().map(|kind| kind.kind)) {
        return refusal.because(format!("did you mean `{near}`?"));
    }
    let names: Vec<String> = ForeignKind::ALL.into_iter().map(ForeignKind::full_name).collect();
    refusal.because(format!("the kinds that can be skipped are {}", names.join(", ")))
}

/// Names all leases, and the command that skips their kinds beside those that are skipped already.
fn refuse_leases(leases: &[LostLease], skipped_words: &[String], file: &Path) -> Refusal {
    let mut refusal = Refusal::conflict("the file has leases that poolctl cannot keep");
    refusal.causes = leases.iter().map(|lease| lease.description.clone()).collect();
    let mut kinds = skipped_words.to_vec();
    for lease in leases {
        let name = lease.kind.full_name();
        if !kinds.contains(&name) {
            kinds.push(name);
        }
    }
    let skips = kinds.join(" --skip ");
    let path = quote_word(&file.display().to_string());
    refusal.next(format!("poolctl import {path} --skip {skips}"))
}

/// All leases of a file that cannot be kept, those of kinds that are not modelled first.
fn lost_leases(manifests: &Manifests) -> Vec<LostLease> {
    let mut pools = HashSet::new();
    let mut claims_with_address = HashSet::new();
    for object in &manifests.objects {
        match object {
            Object::IpPool(pool) => {
                pools.insert(pool.metadata.key());
            }
            Object::IpAddress(address) => {
                let claim = claim_key(address);
                let pool = pool_key(address);
                if pool.namespace != claim.namespace {
                    // A pool that is shared knows the claim with its namespace.
                    claims_with_address.insert(Key::new(pool.namespace, claim.to_string()));
                }
                claims_with_address.insert(claim);
            }
            _ => {}
        }
    }
    let mut lost: Vec<LostLease> = manifests.foreign_leases.iter().map(foreign_lease).collect();
    for object in &manifests.objects {
        match object {
            Object::IpAddress(address) if !pools.contains(&pool_key(address)) => {
                lost.push(address_without_pool(address));
            }
            Object::IpPool(pool) => {
                lost.extend(allocation_without_address(pool, &claims_with_address));
            }
            Object::IpClaim(claim) if !claims_with_address.contains(&claim.metadata.key()) => {
                lost.extend(claim_without_address(claim));
            }
            _ => {}
        }
    }
    lost
}

fn pool_key(address: &IpAddress) -> Key {
    address.spec.pool.key_from(&address.metadata.namespace)
}

fn claim_key(address: &IpAddress) -> Key {
    Key::new(&*address.metadata.namespace, &*address.spec.claim.name)
}

/// The lease of an object that another program keeps and that poolctl has no kind for, in words.
fn foreign_lease(lease: &ForeignLease) -> LostLease {
    let ForeignLease { kind, key, place, address } = lease;
    let mut description = format!("{place}: {} `{key}` holds {}", kind.full_name(), kind.holds);
    if let Some(address) = address {
        description = format!("{description}, {address}");
    }
    LostLease { kind: *kind, key: key.clone(), kept_as: None, description }
}

/// An address of a pool that the file does not have: nothing would keep it from being leased again.
fn address_without_pool(ip_address: &IpAddress) -> LostLease {
    let kind = foreign_kind_of(
        &ip_address.metadata,
        ForeignKind::IP_ADDRESS,
        ForeignKind::CLUSTER_API_ADDRESS,
    );
    let key = ip_address.metadata.key();
    let address = &ip_address.spec.address;
    let pool = &ip_address.spec.pool.name;
    let description = format!(
        "{} `{key}` holds {address} of IPPool `{pool}`, which is not in the file",
        kind.full_name()
    );
    LostLease { kind, key, kept_as: Some(Kind::IpAddress), description }
}

/// An address that a pool says it has given to a claim, without the object of that address. One of
/// a pool is enough to stop the import.
fn allocation_without_address(
    pool: &IpPool,
    claims_with_address: &HashSet<Key>,
) -> Option<LostLease> {
    let kind = ForeignKind::IP_ADDRESS;
    let key = pool.metadata.key();
    for (claim, address) in pool.status.allocations.iter().chain(&pool.status.indexes) {
        if let Some(pre_allocated) = pool.pre_allocated_address_of(claim)
            && address.parse::<Addr>() == Ok(pre_allocated)
        {
            // Nobody but this claim ever gets it.
            continue;
        }
        // The name does not tell of which of the two kinds the claim is.
        let origin = ClusterApiOrigin { claim: claim.clone(), ..ClusterApiOrigin::default() };
        let names = [claim.clone(), origin.name_here()];
        let has_address = names
            .into_iter()
            .any(|name| claims_with_address.contains(&Key::new(&*key.namespace, name)));
        if !has_address {
            let description = format!(
                "IPPool `{key}` has given {address} to IPClaim `{claim}`, but the {} is not in \
                 the file",
                kind.full_name()
            );
            return Some(LostLease { kind, key, kept_as: None, description });
        }
    }
    None
}

/// A claim that names its address, without the object of that address.
fn claim_without_address(claim: &IpClaim) -> Option<LostLease> {
    let status = &claim.status;
    let reference = status.address.as_ref().or(status.ip_address.as_ref())?;
    if reference.name.is_empty() {
        return None;
    }
    let kind =
        foreign_kind_of(&claim.metadata, ForeignKind::IP_CLAIM, ForeignKind::CLUSTER_API_CLAIM);
    let key = claim.metadata.key();
    let description = format!(
        "{} `{key}` holds IPAddress `{}`, which is not in the file",
        kind.full_name(),
        reference.name
    );
    Some(LostLease { kind, key, kept_as: Some(Kind::IpClaim), description })
}
