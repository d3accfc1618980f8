//! Edits of pools of addresses, of claims of addresses and of leases made by hand, which are two
//! views of one row, and of templates of what hosts are told.

use crate::model::address::Addr;
use crate::model::data_template::Metal3DataTemplate;
use crate::model::ip_lease::{IpAddress, IpClaim, IpLease, Notes, WITH_CLUSTER, cluster_of};
use crate::model::ip_pool::{IpPool, IpPoolStatus, Network};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta, OwnerReference};
use crate::model::refusal::Refusal;
use crate::model::state::{IpLeaseId, State};
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{delete_document, merge_maps, put_document};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for IpPool {
    fn put(state: &mut State, mut new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        // What is counted is counted anew.
        new.status = IpPoolStatus::default();
        let table = &mut state.ip_pools;
        put_document(table, new, merge, tick, |old, new| old.spec != new.spec)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document(&mut state.ip_pools, key, tick.now)
    }

    fn import(state: &mut State, mut new: Self, _: &Tick) -> Result<(), Refusal> {
        let IpPoolStatus { last_updated, history, .. } = std::mem::take(&mut new.status);
        new.status = IpPoolStatus { last_updated, history, ..IpPoolStatus::default() };
        state.ip_pools.insert(new);
        Ok(())
    }
}

impl Edited for IpClaim {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_claim(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let lease_id = state.ip_leases.find(key)?;
        Some(release(state, lease_id, tick))
    }

    fn import(state: &mut State, new: Self, tick: &Tick) -> Result<(), Refusal> {
        put_claim(state, new, false, tick).map(drop)
    }
}

impl Edited for IpAddress {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_address(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let mut leases = state.ip_leases.iter();
        let (lease_id, _) = leases.find(|(_, lease)| state.name_of(lease) == key.name)?;
        drop(leases);
        Some(release(state, lease_id, tick))
    }

    fn import(state: &mut State, new: Self, tick: &Tick) -> Result<(), Refusal> {
        put_address(state, new, false, tick).map(drop)
    }
}

impl Edited for Metal3DataTemplate {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_template(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document(&mut state.data_templates, key, tick.now)
    }

    fn import(state: &mut State, new: Self, _: &Tick) -> Result<(), Refusal> {
        state.data_templates.insert(new);
        Ok(())
    }
}

/// An address goes with its claim, and the claim when nobody else holds it.
fn release(state: &mut State, lease_id: IpLeaseId, tick: &Tick) -> bool {
    state.ip_leases.update(lease_id, |lease| {
        lease.deleting.get_or_insert(tick.now);
    })
}

fn put_claim(
    state: &mut State,
    new: IpClaim,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let key = new.metadata.key();
    let created = new.metadata.creation_timestamp;
    let deleting = new.metadata.deletion_timestamp;
    let note = bare(new.metadata, &[]);
    let Some(at) = state.ip_leases.find(&key) else {
        let notes = Some(Box::new(Notes { claim: note, ..Notes::default() }));
        state.ip_leases.insert(IpLease {
            namespace: key.namespace,
            claim: key.name,
            pool: new.spec.pool.name,
            created: created.unwrap_or(tick.now),
            claimed: true,
            deleting,
            error: new.status.error_message,
            notes,
            ..IpLease::default()
        });
        return Ok(Verdict::Created);
    };
    let Some(known) = state.ip_leases.get(at).cloned() else { return Ok(Verdict::Unchanged) };
    if known.pool != new.spec.pool.name {
        return Err(Refusal::conflict(format!(
            "IPClaim `{}`: spec.pool cannot be modified: it is of pool `{}`",
            key.name, known.pool
        )));
    }
    // One that was left running without its row lets go of its addresses by hand.
    let lives = known.cluster().is_some_and(|name| state.cluster(name).is_some());
    let changed = state.ip_leases.update(at, |one| {
        one.deleting = one.deleting.or(deleting);
        let mut notes = one.notes.take().unwrap_or_default();
        let new = if merge { onto(&notes.claim, note) } else { note };
        notes.claim = if lives { tied(&notes.claim, new) } else { new };
        one.notes = Some(notes).filter(|notes| **notes != Notes::default());
        if !one.claimed {
            // The lease was there before.
            let since = one.leased.unwrap_or(one.created);
            one.created = created.unwrap_or(tick.now);
            (one.leased, one.claimed) = ((since != one.created).then_some(since), true);
        }
    });
    Ok(match (known.claimed, changed) {
        (false, _) => Verdict::Created,
        (true, true) => Verdict::Configured(String::new()),
        (true, false) => Verdict::Unchanged,
    })
}

fn put_address(
    state: &mut State,
    new: IpAddress,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let (name, spec) = (new.metadata.name.clone(), new.spec);
    let wrong = |path: &str, why: String| {
        Err(Refusal::conflict(format!("IPAddress `{name}`: spec.{path} {why}")))
    };
    let address: Addr = spec.address.parse().map_err(Refusal::invalid)?;
    let key = Key::new(&*new.metadata.namespace, &*spec.claim.name);
    let network = Network {
        prefix: spec.prefix.and_then(|prefix| u8::try_from(prefix).ok()).unwrap_or_default(),
        gateway: spec.gateway,
        dns_servers: spec.dns_servers,
    };
    let created = new.metadata.creation_timestamp.unwrap_or(tick.now);
    let usual = IpLease {
        address: Some(address),
        pool: spec.pool.name.clone(),
        namespace: key.namespace.clone(),
        ..IpLease::default()
    };
    let is_usual = state.name_of(&usual) == name;
    let mut note = bare(new.metadata, &["IPPool", "IPClaim"]);
    if !is_usual {
        note.name.clone_from(&name);
    }
    let Some(at) = state.ip_leases.find(&key) else {
        let notes = Notes { address: note, ..Notes::default() };
        state.ip_leases.insert(IpLease {
            claim: key.name,
            network,
            created,
            notes: Some(Box::new(notes)).filter(|notes| **notes != Notes::default()),
            ..usual
        });
        return Ok(Verdict::Created);
    };
    let Some(known) = state.ip_leases.get(at).cloned() else { return Ok(Verdict::Unchanged) };
    if known.pool != spec.pool.name {
        return wrong(
            "pool",
            format!("cannot be modified: claim `{}` is of `{}`", key.name, known.pool),
        );
    }
    if let Some(old) = known.address.filter(|old| *old != address) {
        return wrong("address", format!("cannot be modified: claim `{}` has {old}", key.name));
    }
    let changed = state.ip_leases.update(at, |one| {
        let mut notes = one.notes.take().unwrap_or_default();
        notes.address = if merge { onto(&notes.address, note) } else { note };
        one.notes = Some(notes).filter(|notes| **notes != Notes::default());
        one.network = network;
        if one.address.is_none() {
            one.address = Some(address);
            one.leased = (created != one.created).then_some(created);
            one.error.clear();
        }
    });
    Ok(match (known.address, changed) {
        (None, _) => Verdict::Created,
        (Some(_), true) => Verdict::Configured(String::new()),
        (Some(_), false) => Verdict::Unchanged,
    })
}

/// A template is fixed once it is made: hosts were told what it says.
fn put_template(
    state: &mut State,
    new: Metal3DataTemplate,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    if let Some(old) = state.data_templates.by_key(&new.metadata.key()) {
        rules::data_templates::check_change(old, &new).map_err(|wrong| {
            let what =
                format!("Metal3DataTemplate `{}` is fixed once it is made", new.metadata.name);
            let mut refusal = Refusal::conflict(what);
            refusal.causes = wrong;
            refusal.next("apply it under another name")
        })?;
    }
    put_document(&mut state.data_templates, new, merge, tick, |old, new| {
        new.status.clone_from(&old.status);
        old.spec != new.spec
    })
}

/// What of an object's metadata its row does not say, without owners that follow from it.
fn bare(meta: Meta, owners: &[&str]) -> Meta {
    Meta {
        labels: meta.labels,
        annotations: meta.annotations,
        finalizers: meta.finalizers,
        owner_references: meta
            .owner_references
            .into_iter()
            .filter(|one| !owners.contains(&&*one.kind))
            .collect(),
        uid: meta.uid,
        ..Meta::default()
    }
}

/// No edit takes a claim away from the living cluster that it goes with, or from the host.
fn tied(old: &Meta, mut new: Meta) -> Meta {
    if cluster_of(old).is_none() {
        return new;
    }
    if !new.finalizers.iter().any(|one| one == WITH_CLUSTER) {
        new.finalizers.push(WITH_CLUSTER.into());
    }
    let holders = [Kind::ClusterDeployment.name(), Kind::Agent.name()];
    let is_holder = |owner: &&OwnerReference| holders.contains(&owner.kind.as_str());
    let held_by = old.owner_references.iter().filter(is_holder).cloned();
    let others = new.owner_references.into_iter().filter(|owner| !is_holder(&owner));
    new.owner_references = held_by.chain(others).collect();
    new
}

fn onto(old: &Meta, new: Meta) -> Meta {
    Meta {
        labels: merge_maps(&old.labels, &new.labels),
        annotations: merge_maps(&old.annotations, &new.annotations),
        finalizers: if new.finalizers.is_empty() { old.finalizers.clone() } else { new.finalizers },
        owner_references: if new.owner_references.is_empty() {
            old.owner_references.clone()
        } else {
            new.owner_references
        },
        uid: old.uid.clone(),
        name: new.name,
        ..Meta::default()
    }
}
