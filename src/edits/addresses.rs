//! Edits pools of addresses, claims of addresses and addresses leased by hand. An IPClaim and an
//! IPAddress are two views of one lease. Never gives an address to a claim that waits: a pass does.

use crate::model::address::Addr;
use crate::model::cluster_api;
use crate::model::ip_lease::{IpAddress, IpClaim, IpLease, LeaseMetadata, Reference};
use crate::model::ip_pool::{AddressNetwork, IpPool, IpPoolStatus};
use crate::model::kinds::Kind;
use crate::model::lease::ClusterHolder;
use crate::model::meta::{Key, Meta};
use crate::model::refusal::Refusal;
use crate::model::state::{FindInState, IpLeaseId, State};
use crate::model::tick::Tick;

use super::documents::{
    EditedDocument, has_new_finalizer, merge_metadata, put_and_finish_deletion, refuse_deleted,
};
use super::edited::Edited;
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

impl EditedDocument for IpPool {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, _: &Tick) -> bool {
        existing.spec != desired.spec
    }

    fn put(
        state: &mut State,
        mut pool: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        // The status is counted from the leases; a manifest cannot set it.
        pool.status = IpPoolStatus::default();
        put_and_finish_deletion(state, pool, mode, tick)
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        let IpPoolStatus { last_updated, history, .. } = std::mem::take(&mut self.status);
        self.status = IpPoolStatus { last_updated, history, ..IpPoolStatus::default() };
        Ok(())
    }
}

impl Edited for IpClaim {
    fn put(
        state: &mut State,
        claim: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        match state.ip_leases.find(&claim.metadata.key()) {
            Some(lease_id) => change_claim(state, lease_id, claim, mode, tick),
            None => Ok(insert_claim(state, claim, tick)),
        }
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        let Some(lease_id) = state.ip_leases.find(key) else { return DeleteOutcome::NotFound };
        request_release(state, lease_id, tick)
    }

    fn import(state: &mut State, claim: Self, tick: &Tick) -> Result<(), Refusal> {
        Edited::put(state, claim, PutMode::Replace, tick).map(drop)
    }
}

impl Edited for IpAddress {
    fn put(
        state: &mut State,
        address: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        put_address(state, address, mode, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        let lease = state.ip_leases.iter().find(|(_, lease)| {
            lease.namespace == key.namespace && state.address_name_of(lease) == key.name
        });
        let Some((lease_id, _)) = lease else { return DeleteOutcome::NotFound };
        request_release(state, lease_id, tick)
    }

    fn import(state: &mut State, address: Self, tick: &Tick) -> Result<(), Refusal> {
        Edited::put(state, address, PutMode::Replace, tick).map(drop)
    }
}

/// Marks a lease as to be deleted, the claim together with its address. A pass removes it, but not
/// before every other holder has let go of it.
fn request_release(state: &mut State, lease_id: IpLeaseId, tick: &Tick) -> DeleteOutcome {
    DeleteOutcome::of_mark(state.ip_leases.update(lease_id, |lease| {
        lease.deleting.get_or_insert(tick.now);
    }))
}

/// Adds a lease without an address for a new claim. A pass gives it one.
fn insert_claim(state: &mut State, claim: IpClaim, tick: &Tick) -> PutOutcome {
    let Key { namespace, name } = claim.metadata.key();
    let created = claim.metadata.creation_timestamp.unwrap_or(tick.now);
    let deleting = claim.metadata.deletion_timestamp;
    let pool_namespace = find_other_namespace(&claim.spec.pool, &namespace);
    let mut metadata = metadata_to_keep(claim.metadata, &[]);
    let holder = ClusterHolder::take_from(&mut metadata);
    state.ip_leases.insert(IpLease {
        namespace,
        pool_namespace,
        claim: name,
        pool: claim.spec.pool.name,
        created,
        holder,
        claimed: true,
        deleting,
        error: claim.status.error_message,
        notes: none_if_empty(Box::new(LeaseMetadata {
            claim: metadata,
            ..LeaseMetadata::default()
        })),
        ..IpLease::default()
    });
    PutOutcome::Created
}

/// The namespace that a reference to a pool names, if it is not that of the claim.
fn find_other_namespace(pool: &Reference, claim_namespace: &str) -> Option<String> {
    let namespace = &pool.namespace;
    if namespace.is_empty() || namespace == claim_namespace {
        return None;
    }
    Some(namespace.clone())
}

/// Whether a reference to a pool names another one than that of a lease. One without a namespace
/// names only the pool.
fn is_other_pool(lease: &IpLease, pool: &Reference) -> bool {
    let names_namespace = !pool.namespace.is_empty();
    lease.pool != pool.name || (names_namespace && lease.address_namespace() != pool.namespace)
}

/// Changes a claim, or adds one to a lease that was made by hand without a claim.
fn change_claim(
    state: &mut State,
    lease_id: IpLeaseId,
    claim: IpClaim,
    mode: PutMode,
    tick: &Tick,
) -> Result<PutOutcome, Refusal> {
    let Some(existing) = state.ip_leases.get(lease_id).cloned() else {
        return Ok(PutOutcome::Unchanged);
    };
    if is_other_pool(&existing, &claim.spec.pool) {
        let pool = match &existing.pool_namespace {
            Some(namespace) => format!("{namespace}/{}", existing.pool),
            None => existing.pool.clone(),
        };
        return Err(Refusal::conflict(format!(
            "IPClaim `{}`: spec.pool cannot be modified: it belongs to pool `{pool}`",
            claim.metadata.name
        )));
    }
    // A cluster that was left running is no longer in the state. A user may take its claims away.
    let cluster_exists = existing.cluster().is_some_and(|name| state.find_cluster(name).is_some());
    let created = claim.metadata.creation_timestamp.unwrap_or(tick.now);
    let deleting = claim.metadata.deletion_timestamp;
    let desired = metadata_to_keep(claim.metadata, &[]);
    if existing.deleting.is_some() && has_new_finalizer(&existing.claim_metadata(), &desired) {
        let key = Key::new(&*existing.namespace, &*existing.claim);
        return Err(refuse_deleted(Kind::IpClaim, &key));
    }
    let is_changed = state.ip_leases.update(lease_id, |lease| {
        lease.deleting = lease.deleting.or(deleting);
        let mut metadata = keep_omitted_metadata(&lease.claim_metadata(), desired, mode);
        if cluster_exists {
            // No edit takes a claim away from an existing cluster or from its host.
            ClusterHolder::remove_from(&mut metadata);
        } else {
            lease.holder = ClusterHolder::take_from(&mut metadata);
        }
        let mut notes = lease.notes.take().unwrap_or_default();
        notes.claim = metadata;
        lease.notes = none_if_empty(notes);
        if !lease.claimed {
            // The address was leased before this claim was made.
            let leased = lease.leased.unwrap_or(lease.created);
            lease.created = created;
            lease.leased = (leased != created).then_some(leased);
            lease.claimed = true;
        }
    });
    Ok(if existing.claimed { PutOutcome::of_update(is_changed) } else { PutOutcome::Created })
}

/// Leases an address by hand, or changes the metadata and the network of one that is leased.
fn put_address(
    state: &mut State,
    address: IpAddress,
    mode: PutMode,
    tick: &Tick,
) -> Result<PutOutcome, Refusal> {
    let name = address.metadata.name.clone();
    let claim_key = Key::new(&*address.metadata.namespace, &*address.spec.claim.name);
    let created = address.metadata.creation_timestamp.unwrap_or(tick.now);
    let derived_owner_kinds = [Kind::IpPool.name(), Kind::IpClaim.name(), cluster_api::CLAIM_KIND];
    let mut metadata = metadata_to_keep(address.metadata, &derived_owner_kinds);
    let spec = address.spec;
    let network = AddressNetwork {
        prefix: spec.prefix.and_then(|prefix| u8::try_from(prefix).ok()).unwrap_or_default(),
        gateway: spec.gateway,
        dns_servers: spec.dns_servers,
    };
    let address: Addr = spec.address.parse().map_err(Refusal::invalid)?;
    let desired = IpLease {
        address: Some(address),
        pool_namespace: find_other_namespace(&spec.pool, &claim_key.namespace),
        pool: spec.pool.name.clone(),
        namespace: claim_key.namespace.clone(),
        ..IpLease::default()
    };
    // The usual name of an IPAddress follows from its pool and its address, so only another name is
    // kept.
    if state.address_name_of(&desired) != name {
        metadata.name.clone_from(&name);
    }
    check_claim_is_kept(state, &Key::new(&*claim_key.namespace, &*name), &claim_key.name)?;
    let Some(lease_id) = state.ip_leases.find(&claim_key) else {
        let notes = none_if_empty(Box::new(LeaseMetadata {
            address: metadata,
            ..LeaseMetadata::default()
        }));
        let claim = claim_key.name;
        state.ip_leases.insert(IpLease { claim, network, created, notes, ..desired });
        return Ok(PutOutcome::Created);
    };
    let Some(existing) = state.ip_leases.get(lease_id).cloned() else {
        return Ok(PutOutcome::Unchanged);
    };
    if let Some(why) = find_fixed_field(&existing, &desired, &spec.pool) {
        return Err(Refusal::conflict(format!("IPAddress `{name}`: {why}")));
    }
    let is_changed = state.ip_leases.update(lease_id, |lease| {
        let mut notes = lease.notes.take().unwrap_or_default();
        notes.address = keep_omitted_metadata(&notes.address, metadata, mode);
        lease.notes = none_if_empty(notes);
        lease.network = network;
        if lease.address.is_none() {
            lease.address = Some(address);
            lease.pool_namespace = desired.pool_namespace;
            lease.leased = (created != lease.created).then_some(created);
            lease.error.clear();
        }
    });
    Ok(if existing.address.is_some() {
        PutOutcome::of_update(is_changed)
    } else {
        PutOutcome::Created
    })
}

/// Refuses an IPAddress for a claim if there is one of its name for another claim: the claim of an
/// IPAddress is fixed, and two of one name could not be told apart.
fn check_claim_is_kept(state: &State, address_key: &Key, claim: &str) -> Result<(), Refusal> {
    let Some(existing) = IpAddress::find_in(state, address_key) else { return Ok(()) };
    let holder = existing.spec.claim.name;
    if holder == claim {
        return Ok(());
    }
    let name = &address_key.name;
    let problem = format!(
        "IPAddress `{name}`: spec.claim cannot be modified: it belongs to claim `{holder}`"
    );
    Err(Refusal::conflict(problem).next(format!("poolctl describe ipaddress {name}")))
}

/// Why a lease cannot be changed into the desired one: its pool and its address are fixed.
fn find_fixed_field(
    existing: &IpLease,
    desired: &IpLease,
    desired_pool: &Reference,
) -> Option<String> {
    let IpLease { claim, pool, .. } = existing;
    if is_other_pool(existing, desired_pool) {
        return Some(format!(
            "spec.pool cannot be modified: claim `{claim}` belongs to pool `{pool}`"
        ));
    }
    if let Some(address) = existing.address
        && existing.address != desired.address
    {
        return Some(format!("spec.address cannot be modified: claim `{claim}` has {address}"));
    }
    None
}

fn none_if_empty(notes: Box<LeaseMetadata>) -> Option<Box<LeaseMetadata>> {
    if *notes == LeaseMetadata::default() { None } else { Some(notes) }
}

/// The metadata of a claim or an address that its lease does not tell by itself. Owners of
/// `derived_owner_kinds` are left out: they follow from the lease.
fn metadata_to_keep(metadata: Meta, derived_owner_kinds: &[&str]) -> Meta {
    let mut owner_references = metadata.owner_references;
    owner_references.retain(|owner| !derived_owner_kinds.contains(&owner.kind.as_str()));
    Meta {
        labels: metadata.labels,
        annotations: metadata.annotations,
        finalizers: metadata.finalizers,
        owner_references,
        uid: metadata.uid,
        ..Meta::default()
    }
}

/// The metadata to keep after an edit. With `PutMode::Apply`, the uid stays, and all that `desired`
/// leaves out.
fn keep_omitted_metadata(existing: &Meta, mut desired: Meta, mode: PutMode) -> Meta {
    if mode == PutMode::Apply {
        merge_metadata(existing, &mut desired);
        desired.uid.clone_from(&existing.uid);
    }
    desired
}
