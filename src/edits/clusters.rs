//! Edits of clusters: what is fixed once they are there, and which claim may
//! have one.

use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Power};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{inherit_metadata, initialize_metadata};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for Cluster {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_cluster(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let id = state.cluster(&key.name)?;
        Some(state.clusters.update(id, |cluster| {
            cluster.deleting.get_or_insert(tick.now);
        }))
    }

    fn import(state: &mut State, new: Self, _: &Tick) -> Result<(), Refusal> {
        state.insert_cluster(new);
        Ok(())
    }
}

/// A cluster may be given to a claim by hand, if that waits for one of its pool; the pass writes
/// it into the claim.
fn may_be_given(state: &State, cluster: &Cluster, claim: Option<Key>) -> Result<(), Refusal> {
    let claim = claim.unwrap_or_default();
    let waits = |one: &&Claim| one.waits() && Some(&one.pool_key()) == cluster.pool.as_deref();
    let goes = cluster.deleting.is_some() || cluster.marked || cluster.stopped;
    if state.claims.by_key(&claim).as_ref().is_some_and(waits) && !goes {
        return Ok(());
    }
    let (claim, cluster) = (claim.name, &cluster.name);
    Err(Refusal::conflict(format!("cluster `{cluster}` cannot be given to claim `{claim}`"))
        .because("only one that stays is, to a claim that waits for one of its pool")
        .next("poolctl get claim"))
}

fn put_cluster(
    state: &mut State,
    mut new: Cluster,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let refuse = |why: &str| Err(Refusal::conflict(format!("cluster `{}`: {why}", new.name)));
    let Some(at) = state.cluster(&new.name) else {
        return put_new(state, new, tick);
    };
    let Some(old) = state.clusters.get(at).cloned() else {
        return Ok(Verdict::Unchanged);
    };
    if new.namespace != old.namespace {
        return refuse(&format!("the name is taken by a cluster in namespace {}", old.namespace));
    }
    let handed = old.claim.is_none() && new.claim.is_some();
    let links = |one: &Cluster| (one.pool.clone(), one.customization.clone());
    if links(&new) != links(&old) || (!handed && new.claim != old.claim) {
        return refuse("spec.clusterPoolRef is poolctl's and cannot be changed");
    }
    if handed {
        may_be_given(state, &old, new.claim_key())?;
    }
    if (&new.cluster_name, &new.base_domain) != (&old.cluster_name, &old.base_domain) {
        return refuse("spec.clusterName and spec.baseDomain cannot be changed");
    }
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
    let marked = new.marked || (merge && old.marked);
    let (meta, platform) = (after.metadata.clone(), before.spec.platform.name());
    let held = !meta.finalizers.is_empty();
    let changed = state.clusters.update(at, |cluster| {
        cluster.power_wanted = new.power_wanted;
        if handed {
            (cluster.claim, cluster.claimed_at) = (new.claim, Some(tick.now));
            cluster.power_wanted = Power::Running;
        }
        cluster.attempts_limit = new.attempts_limit;
        cluster.hibernate_after = new.hibernate_after;
        cluster.customization_ref = new.customization_ref;
        (cluster.marked, cluster.preserve, cluster.held) = (marked, new.preserve, held);
        cluster.take_steering(&meta, platform);
        cluster.body = new.body;
    });
    Ok(Verdict::of_update(changed))
}

fn put_new(state: &mut State, mut new: Cluster, tick: &Tick) -> Result<Verdict, Refusal> {
    let refuse = |why: &str| Err(Refusal::conflict(format!("cluster `{}`: {why}", new.name)));
    if new.pool.is_some() {
        return refuse("clusters of a pool are made by the pool; leave spec.clusterPoolRef out");
    }
    let dns = |one: &Cluster| (one.cluster_name.clone(), one.base_domain.clone());
    if let Some(other) = state.clusters.rows().find(|other| dns(other) == dns(&new)) {
        let (name, domain) = dns(&new);
        return refuse(&format!("{name}.{domain} is cluster `{}` already", other.name));
    }
    new.created = tick.now;
    if new.installed() {
        // It was installed elsewhere and is taken as running.
        (new.installed_at, new.started_at) = (Some(tick.now), Some(tick.now));
        (new.power, new.power_since) = (Power::Running, Some(tick.now));
        new.awake_since = Some(tick.now);
    }
    if let Some(body) = &mut new.body {
        initialize_metadata(&mut body.metadata, Kind::ClusterDeployment, tick);
        body.metadata.creation_timestamp = None;
    }
    state.insert_cluster(new);
    Ok(Verdict::Created)
}
