//! Edits of objects of any kind: the scope they need, their deletion, the event they leave.

use crate::model::event::Event;
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::table::{Row, Table};
use crate::model::tick::Tick;
use crate::store::{Need, Store};

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
    objects.iter().map(|(kind, key, _)| Need { kind: *kind, key: key.clone() }).collect()
}

pub fn say(state: &mut State, tick: &Tick, kind: Kind, object: Key, reason: &str, message: &str) {
    let (kind, reason, message) = (kind.name(), reason.to_owned(), message.to_owned());
    let (time, actor) = (tick.now, tick.actor.clone());
    state.event(Event { time, warning: false, reason, kind, object, actor, message });
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
            Some(at) if state.customizations.get(at).is_some_and(|one| one.holder.is_none()) => {
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
        say(state, tick, kind, key.clone(), "DeletionRequested", "Deletion was asked for");
    }
    found
}

fn mark<T: Row>(table: &mut Table<T>, key: &Key, put: impl FnOnce(&mut T)) -> bool {
    table.find(key).map(|at| table.update(at, put)).is_some()
}

fn take<T: Row>(table: &mut Table<T>, key: &Key) -> bool {
    table.find(key).map(|at| table.remove(at)).is_some()
}
