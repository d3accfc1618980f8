//! Edits of clusters: what is fixed once they are there, and which claim may be given one. No edit
//! starts or stops a cluster: a pass does.

use crate::model::cluster::{Cluster, Power};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{ClusterId, State};
use crate::model::tick::Tick;

use super::documents::{inherit_metadata, initialize_metadata};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for Cluster {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        match state.cluster(&new.name) {
            Some(cluster_id) => change_cluster(state, cluster_id, new, merge, tick),
            None => insert_cluster(state, new, tick),
        }
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let cluster_id = state.cluster(&key.name)?;
        Some(state.clusters.update(cluster_id, |cluster| {
            cluster.deleting.get_or_insert(tick.now);
        }))
    }

    fn import(state: &mut State, new: Self, _: &Tick) -> Result<(), Refusal> {
        state.insert_cluster(new);
        Ok(())
    }
}

fn refuse<T>(cluster: &Cluster, why: &str) -> Result<T, Refusal> {
    Err(Refusal::conflict(format!("cluster `{}`: {why}", cluster.name)))
}

fn insert_cluster(state: &mut State, mut new: Cluster, tick: &Tick) -> Result<Verdict, Refusal> {
    if new.pool.is_some() {
        let why = "clusters of a pool are made by the pool; leave spec.clusterPoolRef out";
        return refuse(&new, why);
    }
    if let Some(other) = state.clusters.rows().find(|other| dns_name(other) == dns_name(&new)) {
        let (name, domain) = dns_name(&new);
        return refuse(&new, &format!("{name}.{domain} is cluster `{}` already", other.name));
    }
    new.created = tick.now;
    if new.installed() {
        // It was installed elsewhere and is taken as running.
        new.installed_at = Some(tick.now);
        new.started_at = Some(tick.now);
        new.power = Power::Running;
        new.power_since = Some(tick.now);
        new.awake_since = Some(tick.now);
    }
    if let Some(body) = &mut new.body {
        initialize_metadata(&mut body.metadata, Kind::ClusterDeployment, tick);
        body.metadata.creation_timestamp = None;
    }
    state.insert_cluster(new);
    Ok(Verdict::Created)
}

fn change_cluster(
    state: &mut State,
    cluster_id: ClusterId,
    mut new: Cluster,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let Some(old) = state.clusters.get(cluster_id).cloned() else {
        return Ok(Verdict::Unchanged);
    };
    check_change(state, &old, &new)?;
    let is_given = old.claim.is_none() && new.claim.is_some();
    let Some((before, after)) = old.body.as_ref().zip(new.body.as_mut()) else {
        return Ok(Verdict::Unchanged);
    };
    if merge && after.spec.cluster_metadata.is_none() {
        // What the installation filled in stays.
        after.spec.cluster_metadata.clone_from(&before.spec.cluster_metadata);
    }
    let other_spec = before.spec != after.spec;
    inherit_metadata(&before.metadata, &mut after.metadata, merge, other_spec);
    after.metadata.creation_timestamp = None;
    let metadata = after.metadata.clone();
    let platform = before.spec.platform.name();
    let is_changed = state.clusters.update(cluster_id, |cluster| {
        cluster.power_wanted = new.power_wanted;
        if is_given {
            cluster.claim = new.claim;
            cluster.claimed_at = Some(tick.now);
            cluster.power_wanted = Power::Running;
        }
        cluster.attempts_limit = new.attempts_limit;
        cluster.hibernate_after = new.hibernate_after;
        cluster.customization_ref = new.customization_ref;
        cluster.marked = new.marked || (merge && old.marked);
        cluster.preserve = new.preserve;
        cluster.held = !metadata.finalizers.is_empty();
        cluster.take_steering(&metadata, platform);
        cluster.body = new.body;
    });
    Ok(Verdict::of_update(is_changed))
}

/// Refuses to change what is fixed once a cluster is there.
fn check_change(state: &State, old: &Cluster, new: &Cluster) -> Result<(), Refusal> {
    if new.namespace != old.namespace {
        let why = format!("the name is taken by a cluster in namespace {}", old.namespace);
        return refuse(new, &why);
    }
    let is_given = old.claim.is_none() && new.claim.is_some();
    let is_linked_otherwise = (&new.pool, &new.customization) != (&old.pool, &old.customization);
    if is_linked_otherwise || (!is_given && new.claim != old.claim) {
        return refuse(new, "spec.clusterPoolRef is poolctl's and cannot be changed");
    }
    if is_given {
        check_claim_can_have(state, old, &new.claim_key().unwrap_or_default())?;
    }
    if dns_name(new) != dns_name(old) {
        return refuse(new, "spec.clusterName and spec.baseDomain cannot be changed");
    }
    Ok(())
}

/// A cluster may be given to a claim by hand, if that waits for one of its pool; the pass writes
/// it into the claim.
fn check_claim_can_have(state: &State, cluster: &Cluster, claim: &Key) -> Result<(), Refusal> {
    let is_awaited = state
        .claims
        .by_key(claim)
        .is_some_and(|claim| claim.waits() && Some(&claim.pool_key()) == cluster.pool.as_deref());
    let is_going = cluster.deleting.is_some() || cluster.marked || cluster.stopped;
    if is_awaited && !is_going {
        return Ok(());
    }
    let what = format!("cluster `{}` cannot be given to claim `{}`", cluster.name, claim.name);
    Err(Refusal::conflict(what)
        .because("only one that stays is, to a claim that waits for one of its pool")
        .next("poolctl get claim"))
}

/// The name of a cluster in DNS, and the domain that it is in.
fn dns_name(cluster: &Cluster) -> (&str, &str) {
    (&cluster.cluster_name, &cluster.base_domain)
}
