//! Edits of objects of any kind in a state: put one in, mark one for deletion. Used by apply,
//! patch, delete and the words for daily jobs.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::documents::{Secret, SecretValue, Stored};
use crate::model::event::Event;
use crate::model::kind::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::table::{Row, Table};
use crate::model::tick::Tick;
use crate::store::{Need, Store};

/// What putting an object in came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Created,
    /// What is worth saying of the change.
    Configured(String),
    Unchanged,
}

/// The scope in which objects are edited: pools and claims with their pools, the rest whole.
pub fn scope_of(store: &Store, objects: &[(Kind, Key, Option<String>)]) -> Result<Scope, Refusal> {
    let mut pools = Vec::new();
    for (kind, key, pool) in objects {
        match kind {
            Kind::ClusterPool => pools.push(key.clone()),
            Kind::ClusterClaim => {
                pools.extend(pool.as_ref().map(|pool| Key::new(&*key.namespace, &**pool)));
                pools.extend(store.pool_of(Kind::ClusterClaim, key)?);
            }
            Kind::ClusterDeployment => match store.pool_of(Kind::ClusterDeployment, key)? {
                Some(pool) => pools.push(pool),
                None => return Ok(Scope::Whole),
            },
            Kind::Namespace | Kind::RoleBinding | Kind::Settings => {}
            _ => return Ok(Scope::Whole),
        }
    }
    pools.sort();
    pools.dedup();
    Ok(Scope::Pools(pools))
}

pub fn needs_of(objects: &[(Kind, Key, Option<String>)]) -> Vec<Need> {
    objects
        .iter()
        .map(|(kind, key, _)| Need {
            kind: *kind,
            key: key.clone(),
        })
        .collect()
}

/// `merge`: labels and annotations that the new object does not name stay.
pub fn put(
    state: &mut State,
    object: Object,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let (kind, key) = (object.kind(), object.key());
    let verdict = match object {
        Object::Pool(new) => put_pool(state, *new, merge, tick),
        Object::Claim(new) => put_claim(state, *new, merge, tick),
        Object::Cluster(new) => put_cluster(state, *new, merge, tick),
        Object::Secret(new) => put_secret(state, new, merge, tick),
        Object::Customization(new) => {
            let keep =
                |old: &crate::model::customization::Customization,
                 new: &mut crate::model::customization::Customization| {
                    new.status.clone_from(&old.status);
                    new.holder.clone_from(&old.holder);
                    old.spec != new.spec
                };
            Ok(document(
                &mut state.customizations,
                *new,
                kind,
                merge,
                tick,
                keep,
            ))
        }
        Object::ImageSet(new) => Ok(document(
            &mut state.image_sets,
            new,
            kind,
            merge,
            tick,
            |old, new| old.spec != new.spec,
        )),
        Object::Namespace(new) => Ok(document(
            &mut state.namespaces,
            new,
            kind,
            merge,
            tick,
            |_, _| false,
        )),
        Object::RoleBinding(new) => Ok(document(
            &mut state.role_bindings,
            new,
            kind,
            merge,
            tick,
            |old, new| (&old.role_ref, &old.subjects) != (&new.role_ref, &new.subjects),
        )),
        Object::Settings(new) => Ok(document(
            &mut state.settings,
            new,
            kind,
            merge,
            tick,
            |old, new| old.spec != new.spec,
        )),
    }?;
    match &verdict {
        Verdict::Created => say(state, tick, kind, key, "Created", "Created"),
        Verdict::Configured(what) => {
            let text = if what.is_empty() {
                "Changed".into()
            } else {
                format!("Changed: {what}")
            };
            say(state, tick, kind, key, "Configured", &text);
        }
        Verdict::Unchanged => {}
    }
    Ok(verdict)
}

pub fn say(state: &mut State, tick: &Tick, kind: Kind, object: Key, reason: &str, message: &str) {
    let (kind, reason, message) = (kind.name(), reason.to_owned(), message.to_owned());
    let (time, actor) = (tick.now, tick.actor.clone());
    state.event(Event {
        time,
        warning: false,
        reason,
        kind,
        object,
        actor,
        message,
    });
}

trait HasMeta {
    fn meta_mut(&mut self) -> &mut Meta;
}

macro_rules! has_metadata {
    ($($kind:ty),*) => {
        $(impl HasMeta for $kind {
            fn meta_mut(&mut self) -> &mut Meta {
                &mut self.metadata
            }
        })*
    };
}
has_metadata!(
    ClusterPool,
    Secret,
    crate::model::customization::Customization,
    crate::model::documents::ClusterImageSet,
    crate::model::documents::Namespace,
    crate::model::documents::RoleBinding,
    crate::model::documents::Settings
);

/// `keep` carries over what is not the user's and says whether the spec is another one.
fn document<T: Row + HasMeta>(
    table: &mut Table<T>,
    mut new: T,
    kind: Kind,
    merge: bool,
    tick: &Tick,
    keep: impl FnOnce(&T, &mut T) -> bool,
) -> Verdict {
    let key = new.key();
    let Some(at) = table.find(&key) else {
        born(new.meta_mut(), kind, tick);
        table.insert(new);
        return Verdict::Created;
    };
    let Some(mut old) = table.get(at).cloned() else {
        return Verdict::Unchanged;
    };
    let other_spec = keep(&old, &mut new);
    inherit(old.meta_mut(), new.meta_mut(), merge, other_spec);
    if table.update(at, |row| *row = new) {
        Verdict::Configured(String::new())
    } else {
        Verdict::Unchanged
    }
}

fn born(meta: &mut Meta, kind: Kind, tick: &Tick) {
    let owner = format!("{}/{}/{}", kind.name(), meta.namespace, meta.name);
    meta.uid = tick.uid("uid", &owner, tick.revision).to_string();
    meta.creation_timestamp = Some(tick.now);
    meta.generation = 1;
}

fn inherit(old: &Meta, new: &mut Meta, merge: bool, other_spec: bool) {
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

fn merged(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    old.iter()
        .chain(new)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn put_pool(
    state: &mut State,
    new: ClusterPool,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let old = state
        .pools
        .by_key(&new.key())
        .map(|old| (old.spec.size, old.spec.running_count));
    if let Some(old) = state.pools.by_key(&new.key()) {
        if old.metadata.deletion_timestamp.is_some() {
            return Err(Refusal::conflict(format!(
                "pool `{}` is being deleted",
                new.metadata.name
            ))
            .next(format!("poolctl describe pool {}", new.metadata.name)));
        }
    }
    let (size, running) = (new.spec.size, new.spec.running_count);
    let verdict = document(
        &mut state.pools,
        new,
        Kind::ClusterPool,
        merge,
        tick,
        |old, new| {
            new.status.clone_from(&old.status);
            old.spec != new.spec
        },
    );
    let Verdict::Configured(_) = verdict else {
        return Ok(verdict);
    };
    let mut said = Vec::new();
    if let Some((old_size, old_running)) = old {
        if old_size != size {
            said.push(format!("size {old_size} -> {size}"));
        }
        if old_running != running {
            said.push(format!("runningCount {old_running} -> {running}"));
        }
    }
    Ok(Verdict::Configured(said.join(", ")))
}

fn put_claim(
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
        return refuse(format!(
            "it has cluster {} of pool {} already",
            old.name, old.pool
        ));
    }
    if let (Some(before), Some(after)) = (&old.body, &mut new.body) {
        let other_spec = (new.lifetime, &new.pool) != (old.lifetime, &old.pool)
            || before.spec.subjects != after.spec.subjects;
        inherit(&before.metadata, &mut after.metadata, merge, other_spec);
        after.metadata.creation_timestamp = None;
    }
    let mut changed = false;
    if new.pool != old.pool {
        state.move_claim(at, &new.pool);
        changed = true;
    }
    changed |= state.claims.update(at, |claim| {
        claim.lifetime = new.lifetime;
        claim.body = new.body;
    });
    Ok(if changed {
        Verdict::Configured(String::new())
    } else {
        Verdict::Unchanged
    })
}

fn put_cluster(
    state: &mut State,
    mut new: Cluster,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let refuse = |why: &str| Err(Refusal::conflict(format!("cluster `{}`: {why}", new.name)));
    let Some(at) = state.cluster(&new.name) else {
        if new.pool.is_some() {
            return refuse(
                "clusters of a pool are made by the pool; leave spec.clusterPoolRef out",
            );
        }
        new.created = tick.now;
        if let Some(body) = &mut new.body {
            born(&mut body.metadata, Kind::ClusterDeployment, tick);
            body.metadata.creation_timestamp = None;
        }
        state.insert_cluster(new);
        return Ok(Verdict::Created);
    };
    let Some(old) = state.clusters.get(at).cloned() else {
        return Ok(Verdict::Unchanged);
    };
    if new.namespace != old.namespace {
        return refuse(&format!(
            "the name is taken by a cluster in namespace {}",
            old.namespace
        ));
    }
    let links = |one: &Cluster| {
        (
            one.pool.clone(),
            one.claim.clone(),
            one.customization.clone(),
        )
    };
    if links(&new) != links(&old) {
        return refuse("spec.clusterPoolRef is poolctl's and cannot be changed");
    }
    if (&new.cluster_name, &new.base_domain) != (&old.cluster_name, &old.base_domain) {
        return refuse("spec.clusterName and spec.baseDomain cannot be changed");
    }
    if let (Some(before), Some(after)) = (&old.body, &mut new.body) {
        let other_spec = before.spec != after.spec;
        inherit(&before.metadata, &mut after.metadata, merge, other_spec);
        after.metadata.creation_timestamp = None;
    }
    let changed = state.clusters.update(at, |cluster| {
        cluster.driver = new.driver;
        cluster.power_wanted = new.power_wanted;
        cluster.attempts_limit = new.attempts_limit;
        (cluster.preserve, cluster.protected) = (new.preserve, new.protected);
        cluster.marked = new.marked;
        cluster.body = new.body;
    });
    Ok(if changed {
        Verdict::Configured(String::new())
    } else {
        Verdict::Unchanged
    })
}

/// A Secret without any values leaves those that are there; others replace them all.
fn put_secret(
    state: &mut State,
    mut new: Secret,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let known = state
        .secrets
        .by_key(&new.metadata.key())
        .map(|old| old.values.clone());
    let known = known.unwrap_or_default();
    new.values = if new.data.is_none() && new.string_data.is_none() {
        known
    } else {
        let values = values(&new)?;
        let keep = |(key, value): (String, SecretValue)| match known.get(&key) {
            Some(Stored::Loaded(old)) if *old == value => (key, Stored::Loaded(value)),
            _ => (key, Stored::New(value)),
        };
        values.into_iter().map(keep).collect()
    };
    (new.data, new.string_data) = (None, None);
    Ok(document(
        &mut state.secrets,
        new,
        Kind::Secret,
        merge,
        tick,
        |old, new| old.values != new.values,
    ))
}

fn values(secret: &Secret) -> Result<BTreeMap<String, SecretValue>, Refusal> {
    let mut all = BTreeMap::new();
    for (key, value) in secret.data.iter().flatten() {
        let wrong = |why: String| {
            Refusal::invalid(format!(
                "Secret `{}`: data.{key} is not base64",
                secret.metadata.name
            ))
            .because(why)
            .next("put plain text under stringData")
        };
        let compact: String = value.reveal().split_whitespace().collect();
        let bytes = STANDARD
            .decode(compact)
            .map_err(|error| wrong(error.to_string()))?;
        let text =
            String::from_utf8(bytes).map_err(|_| wrong("it decodes to binary data".into()))?;
        all.insert(key.clone(), SecretValue::new(text));
    }
    for (key, value) in secret.string_data.iter().flatten() {
        all.insert(key.clone(), value.clone());
    }
    Ok(all)
}

/// Asks for an object's deletion: it goes now, or when what hangs on it is gone.
pub fn delete(state: &mut State, kind: Kind, key: &Key, tick: &Tick) -> bool {
    let now = tick.now;
    let cluster = Key::new("", &*key.name);
    let found = match kind {
        Kind::ClusterPool => mark(&mut state.pools, key, |one| {
            one.metadata.deletion_timestamp.get_or_insert(now);
        }),
        Kind::ClusterClaim => mark(&mut state.claims, key, |one| {
            one.deleting.get_or_insert(now);
        }),
        Kind::ClusterDeployment => mark(&mut state.clusters, &cluster, |one| {
            one.deleting.get_or_insert(now);
        }),
        Kind::Customization => match state.customizations.find(key) {
            Some(at)
                if state
                    .customizations
                    .get(at)
                    .is_some_and(|one| one.holder.is_none()) =>
            {
                state.customizations.remove(at);
                true
            }
            _ => mark(&mut state.customizations, key, |one| {
                one.metadata.deletion_timestamp.get_or_insert(now);
            }),
        },
        Kind::ClusterImageSet => take(&mut state.image_sets, key),
        Kind::Secret => take(&mut state.secrets, key),
        Kind::Namespace => take(&mut state.namespaces, key),
        Kind::RoleBinding => take(&mut state.role_bindings, key),
        Kind::Settings => take(&mut state.settings, key),
        Kind::Job | Kind::Event => false,
    };
    if found {
        say(
            state,
            tick,
            kind,
            key.clone(),
            "DeletionRequested",
            "Deletion was asked for",
        );
    }
    found
}

fn mark<T: Row>(table: &mut Table<T>, key: &Key, put: impl FnOnce(&mut T)) -> bool {
    table.find(key).map(|at| table.update(at, put)).is_some()
}

fn take<T: Row>(table: &mut Table<T>, key: &Key) -> bool {
    table.find(key).map(|at| table.remove(at)).is_some()
}
