//! Leases that were made after a backup: reads them, holds them in the restored state, and tells
//! people what is leased and to whom.

use crate::commands::Context;
use crate::edits::{self, Holding, RestoreLoss, Snapshot};
use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::ip_lease::IpLease;
use crate::model::kinds::Kind;
use crate::model::lease::{Holder, Lease, LeasedResource};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::plan;
use crate::reconcile::Door;
use crate::store::{Filter, NeededObject, Store};

/// Everything that a state leases, and to whom.
pub fn read_snapshot(store: &Store) -> Result<Snapshot, Refusal> {
    let state = store.load(&Scope::Whole, &[])?;
    let mut addresses: Vec<IpLease> = Vec::new();
    for pool in state.ip_pools.rows() {
        addresses.extend(store.list_leases_of_pool(pool)?);
    }
    let claims = store.list::<Claim>(&Filter { whole: true, ..Filter::default() })?;
    Ok(Snapshot::new(state, claims, addresses))
}

/// Holds in one transaction what would be lost. Returns a sentence for each lease: how it is held,
/// and what gives it back.
pub fn hold_losses(
    context: &Context,
    copy: &Store,
    losses: &[RestoreLoss],
    gone_clusters: &[&Cluster],
    now: &Snapshot,
) -> Result<Vec<String>, Refusal> {
    let door = Door { store: copy, world: &context.world, plans_changes: false };
    let namespace_option = |namespace: &str| context.namespace_option(namespace);
    let holding = Holding { now, namespace_option: &namespace_option };
    let objects = holding.objects_to_load(losses, gone_clusters).into_iter();
    let needs: Vec<NeededObject> = objects.map(|(kind, key)| NeededObject { kind, key }).collect();
    door.change_copy(&needs, |state, tick| {
        let sentences = holding.hold_losses(state, losses, gone_clusters, tick);
        plan::recount_clusters(state, tick);
        Ok(sentences)
    })
}

/// Holds in one transaction what is free in the copy, because nobody knows what was leased since.
/// Returns what is held.
pub fn hold_free_objects(context: &Context, copy: &Store) -> Result<Vec<(Kind, Key)>, Refusal> {
    let door = Door { store: copy, world: &context.world, plans_changes: false };
    let mut needs = Vec::new();
    for cluster in copy.list_all::<Cluster>()? {
        if edits::is_free_cluster(&cluster) {
            needs.push(NeededObject { kind: Kind::ClusterDeployment, key: cluster.key() });
        }
    }
    door.change_copy(&needs, |state, tick| {
        let held = edits::hold_free_objects(state, tick);
        plan::recount_clusters(state, tick);
        Ok(held)
    })
}

/// What is leased and to whom, as the cause of a refusal.
pub fn describe_loss(loss: &RestoreLoss, now: &Snapshot) -> String {
    match loss {
        RestoreLoss::Pause(cluster) => {
            format!("cluster `{cluster}` is paused; in the backup it is not")
        }
        RestoreLoss::Lease(lease, before) => {
            let sentence = describe_lease(lease, now);
            match before.as_ref().and_then(|holder| describe_former_holder(lease, holder)) {
                Some(holder) => format!("{sentence}; the backup leases it to {holder}"),
                None => sentence,
            }
        }
    }
}

/// A sentence about what is lost: the resource, and who has it now. Empty for an address of which
/// the snapshot has no lease.
fn describe_lease(lease: &Lease, now: &Snapshot) -> String {
    let holder = &lease.holder;
    match &lease.resource {
        LeasedResource::Cluster(name) => {
            format!("cluster `{name}` is claimed by {}", describe_claim(holder, now))
        }
        LeasedResource::DnsName(dns_name) => {
            let name = holder.cluster().unwrap_or_default();
            let sentence = format!("cluster `{name}`, {dns_name}, is not in the backup");
            match now.cluster(name).and_then(Cluster::lease) {
                Some(lease) => {
                    format!("{sentence}; it is claimed by {}", describe_claim(&lease.holder, now))
                }
                None => sentence,
            }
        }
        LeasedResource::Customization(key) => {
            format!("customization `{key}` is leased to {holder}")
        }
        LeasedResource::Address { namespace, address } => {
            let Some(lease) = now.address(namespace, *address) else { return String::new() };
            let pool = lease.pool_key();
            let claim = &lease.claim;
            format!("address {address} of IPPool `{pool}` is leased to IPClaim `{claim}`")
        }
        LeasedResource::Host(key) => format!("host `{key}` is used by {holder}"),
        LeasedResource::Agent(key) => match holder {
            Holder::Cluster(_) => format!("agent `{key}` is bound to {holder}"),
            _ => format!("agent `{key}` belongs to a cluster that was left running"),
        },
    }
}

/// To whom the backup leases a resource; of clusters and their names this is of no use.
fn describe_former_holder(lease: &Lease, holder: &Holder) -> Option<String> {
    match (&lease.resource, holder) {
        (LeasedResource::Cluster(_) | LeasedResource::DnsName(_), _) => None,
        (_, Holder::Claim(claim)) => Some(format!("IPClaim `{}`", claim.name)),
        (_, holder) => Some(holder.to_string()),
    }
}

/// A claim, and whose it is.
fn describe_claim(holder: &Holder, now: &Snapshot) -> String {
    let claim = match holder {
        Holder::Claim(key) => now.claim(key),
        _ => None,
    };
    match claim {
        Some(claim) if !claim.owner.is_empty() => format!("{holder} of {}", claim.owner),
        _ => holder.to_string(),
    }
}
