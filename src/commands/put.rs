//! Puts an object of any kind into a state: makes it, or makes the one that is there like it,
//! without what is not the user's. Used by apply, patch and the words for daily jobs.

use std::collections::BTreeMap;

use crate::model::claim::Claim;
use crate::model::customization::Customization;
use crate::model::documents::{ClusterImageSet, RoleBinding, Settings};
use crate::model::host::BareMetalHost;
use crate::model::ip_pool::{IpPool, IpPoolStatus};
use crate::model::kind::Kind;
use crate::model::meta::{HasMeta, Key, Meta};
use crate::model::nmstate_config::NMStateConfig;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Row, Table};
use crate::model::tick::Tick;

use super::edit::{say, tell, whose};
use super::pool::sizes;
use super::put_address::{put_address, put_claim, put_template};
use super::put_agent::{put_agent, put_infra_env};
use super::put_cluster::put_cluster;
use super::put_host;
use super::put_secret::put_secret;

/// What putting an object in came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Created,
    /// What is worth saying of the change.
    Configured(String),
    Unchanged,
}

/// `merge`: labels and annotations that the new object does not name stay.
pub fn put(
    state: &mut State,
    object: Object,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let (kind, key) = (object.kind(), object.key());
    let created = match &object {
        Object::Claim(claim) => Claim::asks(&claim.pool),
        _ => "Created".into(),
    };
    let verdict = put_one(state, object, merge, tick)?;
    match kind {
        Kind::ClusterImageSet => finish(&mut state.image_sets, &key),
        Kind::Secret => finish(&mut state.secrets, &key),
        Kind::BareMetalHost => finish(&mut state.hosts, &key),
        Kind::NMStateConfig => finish(&mut state.nmstate_configs, &key),
        Kind::Namespace => finish(&mut state.namespaces, &key),
        Kind::RoleBinding => finish(&mut state.role_bindings, &key),
        Kind::Settings => finish(&mut state.settings, &key),
        Kind::Customization => {
            let one = state.customizations.by_key(&key);
            if one.is_some_and(|one| one.holder.is_none()) {
                finish(&mut state.customizations, &key);
            }
        }
        // What hangs on these the pass looks at.
        _ => {}
    }
    match &verdict {
        Verdict::Created => say(state, tick, kind, key, "Created", &created),
        Verdict::Configured(what) => {
            let mut text = String::from("Changed");
            if let Some((_, owner)) = whose(state, kind, &key, tick) {
                text = format!("What {owner} claimed was changed by {}", tick.actor);
            }
            let text = if what.is_empty() { text } else { format!("{text}: {what}") };
            tell(state, tick, kind, &key, "Configured", &text);
        }
        Verdict::Unchanged => {}
    }
    Ok(verdict)
}

fn put_one(
    state: &mut State,
    object: Object,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let kind = object.kind();
    match object {
        Object::Pool(new) => put_pool(state, *new, merge, tick),
        Object::Claim(new) => put_cluster_claim(state, *new, merge, tick),
        Object::Cluster(new) => put_cluster(state, *new, merge, tick),
        Object::Secret(new) => put_secret(state, new, merge, tick),
        Object::Customization(new) => {
            let keep = |old: &Customization, new: &mut Customization| {
                new.status.clone_from(&old.status);
                new.holder.clone_from(&old.holder);
                old.spec != new.spec
            };
            document(&mut state.customizations, *new, kind, merge, tick, keep)
        }
        Object::Host(new) => {
            let keep =
                |old: &BareMetalHost, new: &mut BareMetalHost| put_host::keep(old, new, merge);
            document(&mut state.hosts, *new, kind, merge, tick, keep)
        }
        Object::DataTemplate(new) => put_template(state, *new, merge, tick),
        Object::InfraEnv(new) => put_infra_env(state, *new, merge, tick),
        Object::Agent(new) => put_agent(state, *new, merge, tick),
        Object::NMStateConfig(new) => {
            let keep = |old: &NMStateConfig, new: &mut NMStateConfig| old.spec != new.spec;
            document(&mut state.nmstate_configs, *new, kind, merge, tick, keep)
        }
        Object::IpPool(new) => {
            let keep = |old: &IpPool, new: &mut IpPool| {
                new.status = IpPoolStatus::default();
                old.spec != new.spec
            };
            document(&mut state.ip_pools, without_status(*new), kind, merge, tick, keep)
        }
        Object::IpClaim(new) => put_claim(state, *new, merge, tick),
        Object::IpAddress(new) => put_address(state, *new, merge, tick),
        Object::ImageSet(new) => {
            let keep = |old: &ClusterImageSet, new: &mut ClusterImageSet| old.spec != new.spec;
            document(&mut state.image_sets, new, kind, merge, tick, keep)
        }
        Object::Namespace(new) => {
            document(&mut state.namespaces, new, kind, merge, tick, |_, _| false)
        }
        Object::RoleBinding(new) => {
            let keep = |old: &RoleBinding, new: &mut RoleBinding| {
                (&old.role_ref, &old.subjects) != (&new.role_ref, &new.subjects)
            };
            document(&mut state.role_bindings, new, kind, merge, tick, keep)
        }
        Object::Settings(new) => {
            let keep = |old: &Settings, new: &mut Settings| old.spec != new.spec;
            document(&mut state.settings, new, kind, merge, tick, keep)
        }
    }
}

/// `keep` carries over what is not the user's and says whether the spec is another one.
pub fn document<T: Row + HasMeta>(
    table: &mut Table<T>,
    mut new: T,
    kind: Kind,
    merge: bool,
    tick: &Tick,
    keep: impl FnOnce(&T, &mut T) -> bool,
) -> Result<Verdict, Refusal> {
    let key = new.key();
    let Some((at, old)) = table.find(&key).and_then(|at| Some((at, table.get(at)?.clone()))) else {
        born(new.meta_mut(), kind, tick);
        table.insert(new);
        return Ok(Verdict::Created);
    };
    let other_spec = keep(&old, &mut new);
    // A pool on its way out can still be changed: its maxConcurrent says how fast it goes.
    let goes = old.meta().deletion_timestamp.is_some() && kind != Kind::ClusterPool;
    if goes && other_spec {
        let word = kind.word();
        return Err(Refusal::conflict(format!("{word} `{}` is being deleted", key.name))
            .next(format!("poolctl describe {word} {}", key.name)));
    }
    inherit(old.meta(), new.meta_mut(), merge, other_spec);
    let changed = table.update(at, |row| *row = new);
    Ok(if changed { Verdict::Configured(String::new()) } else { Verdict::Unchanged })
}

/// An object whose deletion was asked for goes when its last finalizer is taken away.
fn finish<T: Row + HasMeta>(table: &mut Table<T>, key: &Key) {
    let goes =
        |one: &T| one.meta().deletion_timestamp.is_some() && one.meta().finalizers.is_empty();
    if let Some(at) = table.find(key).filter(|at| table.get(*at).is_some_and(goes)) {
        table.remove(at);
    }
}

/// Identity and age of a new object.
pub fn born(meta: &mut Meta, kind: Kind, tick: &Tick) {
    let owner = format!("{}/{}/{}", kind.name(), meta.namespace, meta.name);
    meta.uid = tick.uid("uid", &owner, tick.revision).to_string();
    meta.creation_timestamp = Some(tick.now);
    meta.generation = 1;
}

pub fn inherit(old: &Meta, new: &mut Meta, merge: bool, other_spec: bool) {
    new.id = old.id;
    new.uid.clone_from(&old.uid);
    new.creation_timestamp = old.creation_timestamp;
    new.deletion_timestamp = old.deletion_timestamp;
    new.generation = old.generation + i64::from(other_spec);
    if merge {
        new.labels = merged(&old.labels, &new.labels);
        new.annotations = merged(&old.annotations, &new.annotations);
        if new.finalizers.is_empty() {
            new.finalizers.clone_from(&old.finalizers);
        }
        if new.owner_references.is_empty() {
            new.owner_references.clone_from(&old.owner_references);
        }
    }
}

pub fn merged(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    old.iter().chain(new).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn put_pool(
    state: &mut State,
    new: ClusterPool,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let old = state.pools.by_key(&new.key()).map(|old| (old.spec.size, old.spec.running_count));
    let (size, running) = (new.spec.size, new.spec.running_count);
    let verdict = document(&mut state.pools, new, Kind::ClusterPool, merge, tick, |old, new| {
        new.status.clone_from(&old.status);
        if (old.spec.size, old.spec.running_count) != (size, running) {
            new.scaled_by_hand(tick.now);
        }
        old.spec != new.spec
    })?;
    Ok(match verdict {
        Verdict::Configured(_) => {
            Verdict::Configured(old.map(|old| sizes(old, (size, running))).unwrap_or_default())
        }
        other => other,
    })
}

/// What is counted is counted anew.
fn without_status(pool: IpPool) -> IpPool {
    IpPool { status: IpPoolStatus::default(), ..pool }
}

fn put_cluster_claim(
    state: &mut State,
    mut new: Claim,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let refuse = |why: String| Err(Refusal::conflict(format!("claim `{}`: {why}", new.name)));
    let Some(at) = state.claims.find(&new.key()) else {
        if let Some(cluster) = &new.cluster {
            return refuse(format!(
                "spec.namespace `{cluster}` is filled in by poolctl and cannot be asked for"
            ));
        }
        let left = state.clusters.rows().find(|one| one.claim_key().as_ref() == Some(&new.key()));
        if let Some(left) = left {
            let cluster = &left.name;
            let what =
                format!("a claim of this name, which is gone, still holds cluster {cluster}");
            return refuse(what)
                .map_err(|refusal| refusal.next(format!("poolctl delete cluster {cluster}")));
        }
        new.created = tick.now;
        new.owner.clone_from(&tick.actor);
        if let Some(body) = &mut new.body {
            born(&mut body.metadata, Kind::ClusterClaim, tick);
            body.metadata.creation_timestamp = None;
        }
        state.insert_claim(new);
        return Ok(Verdict::Created);
    };
    let Some(old) = state.claims.get(at).cloned() else {
        return Ok(Verdict::Unchanged);
    };
    if new.cluster.is_some() && new.cluster != old.cluster {
        return refuse("spec.namespace is filled in by poolctl and cannot be changed".into());
    }
    if new.pool != old.pool && old.cluster.is_some() {
        return refuse({
            let cluster = old.cluster.as_deref().unwrap_or_default();
            format!("it has cluster {cluster} of pool {} already", old.pool)
        });
    }
    if let (Some(before), Some(after)) = (&old.body, &mut new.body) {
        let other_spec = (new.lifetime, &new.pool) != (old.lifetime, &old.pool)
            || before.spec.subjects != after.spec.subjects;
        if old.deleting.is_some() && other_spec {
            return refuse("it is being released".into());
        }
        inherit(&before.metadata, &mut after.metadata, merge, other_spec);
        after.metadata.creation_timestamp = None;
        new.held = !after.metadata.finalizers.is_empty();
    }
    let subjects = |one: &Claim| one.body.as_ref().map(|body| body.spec.subjects.clone());
    let named = subjects(&new).filter(|named| Some(named) != subjects(&old).as_ref());
    let named =
        named.unwrap_or_default().into_iter().map(|one| format!("{} {}", one.kind, one.name));
    let named: Vec<String> = named.collect();
    let what = if named.is_empty() { String::new() } else { format!("for {}", named.join(", ")) };
    let mut changed = false;
    if new.pool != old.pool {
        state.move_claim(at, &new.pool);
        changed = true;
    }
    changed |= state.claims.update(at, |claim| {
        (claim.lifetime, claim.held) = (new.lifetime, new.held);
        claim.body = new.body;
    });
    Ok(if changed { Verdict::Configured(what) } else { Verdict::Unchanged })
}
