//! Edits of objects of any kind: the scope they need, their deletion, the event they leave.

use crate::model::event::Event;
use crate::model::ip_lease::IpLease;
use crate::model::kind::Kind;
use crate::model::meta::{HasMeta, Key, LocalRef};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::table::{Row, Table};
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::store::{Filter, Need, Store};

/// The scope in which objects are edited: the pools that they are, belong to, or are named by.
pub fn scope_of(store: &Store, objects: &[(Kind, Key, Option<String>)]) -> Result<Scope, Refusal> {
    let mut pools = Vec::new();
    let mut all = None;
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
            Kind::BareMetalHost => {
                let Some(cluster) = store.consumer_of(key)? else { continue };
                match store.pool_of(Kind::ClusterDeployment, &cluster)? {
                    Some(pool) => pools.push(pool),
                    None => return Ok(Scope::Whole),
                }
            }
            Kind::Secret | Kind::Customization | Kind::ClusterImageSet => {
                let known = match all.take() {
                    Some(known) => known,
                    None => store.objects(Kind::ClusterPool, &Filter::default())?,
                };
                pools.extend(known.iter().filter(|pool| names(pool, *kind, key)).map(Object::key));
                all = Some(known);
            }
            _ => {}
        }
    }
    pools.sort();
    pools.dedup();
    Ok(Scope::Pools(pools))
}

/// Whether a pool refers to an object.
fn names(pool: &Object, kind: Kind, key: &Key) -> bool {
    let Object::Pool(pool) = pool else { return false };
    let (spec, name) = (&pool.spec, Some(key.name.as_str()));
    let of = |one: &Option<LocalRef>| one.as_ref().map(|one| one.name.clone());
    if kind == Kind::ClusterImageSet {
        return Some(spec.image_set_ref.name.as_str()) == name;
    }
    let secrets = [of(&spec.pull_secret_ref), of(&spec.install_config_secret_template_ref)];
    let listed = spec.inventory.iter().flatten().any(|entry| Some(entry.name.as_str()) == name);
    pool.metadata.namespace == key.namespace
        && match kind {
            Kind::Secret => {
                secrets.iter().any(|one| one.as_deref() == name) || pool.credentials() == name
            }
            _ => listed || of(&spec.customization_ref).as_deref() == name,
        }
}

pub fn needs_of(objects: &[(Kind, Key, Option<String>)]) -> Vec<Need> {
    objects.iter().map(|(kind, key, _)| Need { kind: *kind, key: key.clone() }).collect()
}

pub fn say(state: &mut State, tick: &Tick, kind: Kind, object: Key, reason: &str, message: &str) {
    event(state, tick, false, (kind, object), reason, message);
}

/// The same for what went wrong.
pub fn warn(state: &mut State, tick: &Tick, kind: Kind, object: Key, reason: &str, message: &str) {
    event(state, tick, true, (kind, object), reason, message);
}

fn event(
    state: &mut State,
    tick: &Tick,
    warning: bool,
    (kind, object): (Kind, Key),
    reason: &str,
    message: &str,
) {
    let (kind, reason, message) = (kind.name(), reason.to_owned(), message.to_owned());
    let (time, actor) = (tick.now, tick.actor.clone());
    state.event(Event { time, warning, reason, kind, object, actor, message, ..Event::default() });
}

/// Asks for an object's deletion: it goes now, or when what hangs on it is gone. Says whether
/// there is such an object.
pub fn delete(state: &mut State, kind: Kind, key: &Key, tick: &Tick) -> bool {
    let now = tick.now;
    let cluster = Key::new("", &*key.name);
    let done = match kind {
        Kind::ClusterPool => mark(&mut state.pools, key, now),
        Kind::ClusterClaim => state.claims.find(key).map(|at| {
            state.claims.update(at, |one| {
                one.deleting.get_or_insert(now);
            })
        }),
        Kind::ClusterDeployment => state.clusters.find(&cluster).map(|at| {
            state.clusters.update(at, |one| {
                one.deleting.get_or_insert(now);
            })
        }),
        Kind::Customization => {
            let holder = state.customizations.by_key(key).and_then(|one| one.holder.as_ref());
            if holder.is_some() {
                mark(&mut state.customizations, key, now)
            } else {
                take(&mut state.customizations, key, now)
            }
        }
        Kind::ClusterImageSet => take(&mut state.image_sets, key, now),
        Kind::BareMetalHost => take(&mut state.hosts, key, now),
        Kind::Secret => take(&mut state.secrets, key, now),
        Kind::Namespace => take(&mut state.namespaces, key, now),
        Kind::RoleBinding => take(&mut state.role_bindings, key, now),
        Kind::Settings => take(&mut state.settings, key, now),
        Kind::DataTemplate => take(&mut state.data_templates, key, now),
        Kind::NMStateConfig => take(&mut state.nmstate_configs, key, now),
        Kind::InfraEnv => take(&mut state.infra_envs, key, now),
        Kind::Agent => mark(&mut state.agents, key, now),
        Kind::IpPool => take(&mut state.ip_pools, key, now),
        Kind::IpClaim => state.ip_leases.find(key).map(|at| let_go(state, at, now)),
        Kind::IpAddress => {
            let named = |(_, one): &(usize, &IpLease)| state.name_of(one) == key.name;
            let at = state.ip_leases.iter().find(named).map(|(at, _)| at);
            at.map(|at| let_go(state, at, now))
        }
        Kind::Job | Kind::Event => None,
    };
    if done == Some(true) {
        let text = match whose(state, kind, key, tick) {
            Some((_, owner)) => {
                format!("Deletion of what {owner} claimed was asked for by {}", tick.actor)
            }
            None => "Deletion was asked for".into(),
        };
        tell(state, tick, kind, key, "DeletionRequested", &text);
    }
    if kind == Kind::InfraEnv && done == Some(true) && state.infra_envs.find(key).is_none() {
        say(state, tick, kind, key.clone(), "infra_env_deregistered", "Deregistered infra env");
    }
    done.is_some()
}

/// The claim behind an object, and its owner, if that is somebody else.
pub fn whose(state: &State, kind: Kind, key: &Key, tick: &Tick) -> Option<(Key, String)> {
    let claim = match kind {
        Kind::ClusterClaim => key.clone(),
        Kind::ClusterDeployment => state.clusters.get(state.cluster(&key.name)?)?.claim_key()?,
        _ => return None,
    };
    let owner = &state.claims.by_key(&claim)?.owner;
    (!owner.is_empty() && *owner != tick.actor).then(|| (claim, owner.clone()))
}

/// Says what somebody did with an object; with another's cluster, at the claim too.
pub fn tell(state: &mut State, tick: &Tick, kind: Kind, key: &Key, reason: &str, text: &str) {
    let behind = whose(state, kind, key, tick).filter(|_| kind == Kind::ClusterDeployment);
    say(state, tick, kind, key.clone(), reason, text);
    if let Some((claim, _)) = behind {
        let text = format!("Its cluster {}: {text}", key.name);
        say(state, tick, Kind::ClusterClaim, claim, reason, &text);
    }
}

/// Whether anything changed, if there is such an object.
fn mark<T: Row + HasMeta>(table: &mut Table<T>, key: &Key, now: Time) -> Option<bool> {
    let at = table.find(key)?;
    Some(table.update(at, |one| {
        one.meta_mut().deletion_timestamp.get_or_insert(now);
    }))
}

/// An address goes with its claim, and the claim when nobody else holds it.
fn let_go(state: &mut State, at: usize, now: Time) -> bool {
    state.ip_leases.update(at, |one| {
        one.deleting.get_or_insert(now);
    })
}

/// Removes an object, unless a foreign finalizer holds it.
fn take<T: Row + HasMeta>(table: &mut Table<T>, key: &Key, now: Time) -> Option<bool> {
    let at = table.find(key)?;
    if table.get(at).is_some_and(|one| !one.meta().finalizers.is_empty()) {
        return mark(table, key, now);
    }
    table.remove(at);
    Some(true)
}
