//! Edits of pools of addresses, of claims of addresses and of leases made by hand, which are two
//! views of one row. No edit gives an address to a claim that waits: a pass does.

use crate::model::address::Addr;
use crate::model::ip_lease::{IpAddress, IpClaim, IpLease, Notes};
use crate::model::ip_pool::{IpPool, IpPoolStatus, Network};
use crate::model::kinds::Kind;
use crate::model::lease::ClusterHolder;
use crate::model::meta::{Key, Meta};
use crate::model::refusal::Refusal;
use crate::model::state::{IpLeaseId, State};
use crate::model::tick::Tick;

use super::documents::{EditedDocument, merge_metadata, put_and_finish_deletion};
use super::edited::Edited;
use super::verdict::Verdict;

impl EditedDocument for IpPool {
    fn carry_over(old: &Self, new: &mut Self, _: bool, _: &Tick) -> bool {
        old.spec != new.spec
    }

    fn put(state: &mut State, mut new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        // What is counted of a pool is not for a manifest to say.
        new.status = IpPoolStatus::default();
        put_and_finish_deletion(state, new, merge, tick)
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        let IpPoolStatus { last_updated, history, .. } = std::mem::take(&mut self.status);
        self.status = IpPoolStatus { last_updated, history, ..IpPoolStatus::default() };
        Ok(())
    }
}

impl Edited for IpClaim {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        match state.ip_leases.find(&new.metadata.key()) {
            Some(lease_id) => change_claim(state, lease_id, new, merge, tick),
            None => Ok(insert_claim(state, new, tick)),
        }
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let lease_id = state.ip_leases.find(key)?;
        Some(release(state, lease_id, tick))
    }

    fn import(state: &mut State, new: Self, tick: &Tick) -> Result<(), Refusal> {
        Edited::put(state, new, false, tick).map(drop)
    }
}

impl Edited for IpAddress {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_address(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let (lease_id, _) =
            state.ip_leases.iter().find(|(_, lease)| state.name_of(lease) == key.name)?;
        Some(release(state, lease_id, tick))
    }

    fn import(state: &mut State, new: Self, tick: &Tick) -> Result<(), Refusal> {
        Edited::put(state, new, false, tick).map(drop)
    }
}

/// An address goes with its claim, and the claim when nobody else holds it.
fn release(state: &mut State, lease_id: IpLeaseId, tick: &Tick) -> bool {
    state.ip_leases.update(lease_id, |lease| {
        lease.deleting.get_or_insert(tick.now);
    })
}

fn insert_claim(state: &mut State, new: IpClaim, tick: &Tick) -> Verdict {
    let Key { namespace, name } = new.metadata.key();
    let created = new.metadata.creation_timestamp.unwrap_or(tick.now);
    let deleting = new.metadata.deletion_timestamp;
    let mut claim = note_of(new.metadata, &[]);
    let holder = ClusterHolder::take_from(&mut claim);
    state.ip_leases.insert(IpLease {
        namespace,
        claim: name,
        pool: new.spec.pool.name,
        created,
        holder,
        claimed: true,
        deleting,
        error: new.status.error_message,
        notes: none_if_empty(Box::new(Notes { claim, ..Notes::default() })),
        ..IpLease::default()
    });
    Verdict::Created
}

/// Changes a claim, or makes one for a lease that had none.
fn change_claim(
    state: &mut State,
    lease_id: IpLeaseId,
    new: IpClaim,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let Some(old) = state.ip_leases.get(lease_id).cloned() else { return Ok(Verdict::Unchanged) };
    if old.pool != new.spec.pool.name {
        return Err(Refusal::conflict(format!(
            "IPClaim `{}`: spec.pool cannot be modified: it is of pool `{}`",
            new.metadata.name, old.pool
        )));
    }
    // A cluster that was left running has no row any more; its claims are let go of by hand.
    let cluster_exists = old.cluster().is_some_and(|name| state.cluster(name).is_some());
    let created = new.metadata.creation_timestamp.unwrap_or(tick.now);
    let deleting = new.metadata.deletion_timestamp;
    let note = note_of(new.metadata, &[]);
    let is_changed = state.ip_leases.update(lease_id, |lease| {
        lease.deleting = lease.deleting.or(deleting);
        let mut note = if merge { merge_notes(&lease.claim_metadata(), note) } else { note };
        if cluster_exists {
            // No edit takes a claim away from the living cluster that it goes with, or from the host.
            ClusterHolder::remove_from(&mut note);
        } else {
            lease.holder = ClusterHolder::take_from(&mut note);
        }
        let mut notes = lease.notes.take().unwrap_or_default();
        notes.claim = note;
        lease.notes = none_if_empty(notes);
        if !lease.claimed {
            // The lease was there before its claim.
            let leased = lease.leased.unwrap_or(lease.created);
            lease.created = created;
            lease.leased = (leased != created).then_some(leased);
            lease.claimed = true;
        }
    });
    Ok(if old.claimed { Verdict::of_update(is_changed) } else { Verdict::Created })
}

fn put_address(
    state: &mut State,
    new: IpAddress,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let name = new.metadata.name.clone();
    let spec = new.spec;
    let address: Addr = spec.address.parse().map_err(Refusal::invalid)?;
    let key = Key::new(&*new.metadata.namespace, &*spec.claim.name);
    let network = Network {
        prefix: spec.prefix.and_then(|prefix| u8::try_from(prefix).ok()).unwrap_or_default(),
        gateway: spec.gateway,
        dns_servers: spec.dns_servers,
    };
    let created = new.metadata.creation_timestamp.unwrap_or(tick.now);
    let mut note = note_of(new.metadata, &[Kind::IpPool.name(), Kind::IpClaim.name()]);
    let new_lease = IpLease {
        address: Some(address),
        pool: spec.pool.name,
        namespace: key.namespace.clone(),
        ..IpLease::default()
    };
    // The usual name of an IPAddress follows from its pool and its address.
    if state.name_of(&new_lease) != name {
        note.name.clone_from(&name);
    }
    let Some(lease_id) = state.ip_leases.find(&key) else {
        let notes = none_if_empty(Box::new(Notes { address: note, ..Notes::default() }));
        state.ip_leases.insert(IpLease { claim: key.name, network, created, notes, ..new_lease });
        return Ok(Verdict::Created);
    };
    let Some(old) = state.ip_leases.get(lease_id).cloned() else { return Ok(Verdict::Unchanged) };
    let refuse = |fixed: String| Err(Refusal::conflict(format!("IPAddress `{name}`: {fixed}")));
    if old.pool != new_lease.pool {
        return refuse(format!(
            "spec.pool cannot be modified: claim `{}` is of `{}`",
            key.name, old.pool
        ));
    }
    if let Some(old_address) = old.address.filter(|old_address| *old_address != address) {
        return refuse(format!(
            "spec.address cannot be modified: claim `{}` has {old_address}",
            key.name
        ));
    }
    let is_changed = state.ip_leases.update(lease_id, |lease| {
        let mut notes = lease.notes.take().unwrap_or_default();
        notes.address = if merge { merge_notes(&notes.address, note) } else { note };
        lease.notes = none_if_empty(notes);
        lease.network = network;
        if lease.address.is_none() {
            lease.address = Some(address);
            lease.leased = (created != lease.created).then_some(created);
            lease.error.clear();
        }
    });
    Ok(if old.address.is_some() { Verdict::of_update(is_changed) } else { Verdict::Created })
}

fn none_if_empty(notes: Box<Notes>) -> Option<Box<Notes>> {
    Some(notes).filter(|notes| **notes != Notes::default())
}

/// What of an object's metadata its row does not say, without the owners that follow from it.
fn note_of(meta: Meta, kinds_of_owners: &[&str]) -> Meta {
    let mut owner_references = meta.owner_references;
    owner_references.retain(|owner| !kinds_of_owners.contains(&owner.kind.as_str()));
    Meta {
        labels: meta.labels,
        annotations: meta.annotations,
        finalizers: meta.finalizers,
        owner_references,
        uid: meta.uid,
        ..Meta::default()
    }
}

fn merge_notes(old: &Meta, mut new: Meta) -> Meta {
    merge_metadata(old, &mut new);
    new.uid.clone_from(&old.uid);
    new
}
