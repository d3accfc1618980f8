//! `pool rotate-credentials`: what the pool's Secret holds now goes to all of its clusters.

use std::collections::HashMap;

use clap::Args;

use crate::edits::record_event;
use crate::model::cluster::Cluster;
use crate::model::documents::{Secret, SecretValue, Stored};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::store::{Filter, Need, Store};

use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct RotateCredentials {
    #[arg(value_name = "POOL")]
    name: String,
}

impl Verb for RotateCredentials {
    const NAME: &'static str = "rotate-credentials";
    const ABOUT: &'static str = "Give all clusters of a pool the credentials its Secret holds now";
    const EXAMPLE: &'static str = "poolctl pool rotate-credentials cloud";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let pool = context.find::<ClusterPool>(&store, &self.name)?;
        let from = source(&pool)?;
        let copies = copies(&store, &pool)?;
        let secrets = copies.iter().map(|(_, copy)| copy).chain([&from]);
        let needs: Vec<Need> =
            secrets.map(|key| Need { kind: Kind::Secret, key: key.clone() }).collect();
        let (rotated, passed) =
            context.door(&store).change(&Scope::pool(pool.key()), &needs, |state, tick| {
                let Some(new) = values(state, &from) else {
                    let name = &from.name;
                    let what = format!("pool `{}` has no Secret `{name}`", self.name);
                    let at = context.in_namespace(&from.namespace);
                    let next = format!("poolctl secret create {name} --from-file=KEY=FILE{at}");
                    return Err(Refusal::not_found(what).advise(next));
                };
                let mut rotated = Vec::new();
                for (cluster, copy) in &copies {
                    let differs = values(state, copy).is_none_or(|old| old != new);
                    if differs {
                        put(state, copy, &new);
                        let text = format!("Has the credentials of Secret {} now", from.name);
                        let key = cluster.key();
                        record_event(
                            state,
                            tick,
                            Kind::ClusterDeployment,
                            key,
                            EventReason::CredentialsRotated,
                            &text,
                        );
                    }
                    rotated.push(differs);
                }
                Ok(rotated)
            })?;
        for ((cluster, _), rotated) in copies.iter().zip(&rotated) {
            let of = cluster.claim.as_ref().map(|claim| format!(" (claim {claim})"));
            let what = if *rotated { "rotated" } else { "has them already" };
            let what = format!("{what}{}", of.unwrap_or_default());
            context.changed(Kind::ClusterDeployment, &cluster.key(), &what)?;
        }
        if copies.is_empty() {
            context.hint(&format!("pool `{}` has no clusters", self.name));
        }
        Ok(context.finish(&passed)?)
    }
}

/// The Secret that a pool takes its credentials from.
fn source(pool: &ClusterPool) -> Result<Key, Refusal> {
    let name = pool.credentials().ok_or_else(|| {
        let (name, platform) = (&pool.metadata.name, pool.spec.platform.name());
        Refusal::invalid(format!("pool `{name}` has no credentials"))
            .because(format!("its platform {platform} names no credentialsSecretRef"))
    })?;
    Ok(Key::new(&*pool.metadata.namespace, name))
}

/// The pool's clusters that have credentials, and where each has its own.
fn copies(store: &Store, pool: &ClusterPool) -> Result<Vec<(Cluster, Key)>, Refusal> {
    let namespace = Some(pool.metadata.namespace.clone());
    let filter = Filter { namespace, name: None, whole: true };
    let mut clusters = store.list::<Cluster>(&filter)?;
    clusters.retain(|cluster| cluster.pool.as_deref() == Some(&pool.key()));
    let with_copy = |cluster: Cluster| own(&cluster).map(|copy| (cluster, copy));
    Ok(clusters.into_iter().filter_map(with_copy).collect())
}

/// Where a cluster has its credentials, if its platform has any.
fn own(cluster: &Cluster) -> Option<Key> {
    let name = cluster.body.as_ref()?.spec.platform.credentials()?;
    Some(Key::new(&*cluster.namespace, name))
}

/// Whether clusters have the credentials of their pools: `current` or `old`, by name.
pub fn states(
    store: &Store,
    clusters: &[Object],
) -> Result<HashMap<String, &'static str>, Refusal> {
    let mut sources = HashMap::new();
    for pool in store.all::<ClusterPool>()? {
        sources.extend(source(&pool).ok().map(|from| (pool.key(), from)));
    }
    let mut states = HashMap::new();
    for object in clusters {
        let Object::ClusterDeployment(cluster) = object else { continue };
        let from = cluster.pool.as_deref().and_then(|pool| sources.get(pool));
        if let Some((copy, from)) = own(cluster).zip(from) {
            let current = store.same_values(&copy, from)?;
            states.insert(cluster.name.clone(), if current { "current" } else { "old" });
        }
    }
    Ok(states)
}

type Values = HashMap<String, SecretValue>;

fn values(state: &State, secret: &Key) -> Option<Values> {
    let values = state.secrets.by_key(secret)?.values.iter();
    let loaded = values.filter_map(|(key, value)| match value {
        Stored::Loaded(value) | Stored::New(value) => Some((key.clone(), value.clone())),
        Stored::Kept | Stored::CopyOf(_) => None,
    });
    Some(loaded.collect())
}

fn put(state: &mut State, copy: &Key, new: &Values) {
    let new = new.iter().map(|(key, value)| (key.clone(), Stored::New(value.clone())));
    if let Some(at) = state.secrets.find(copy) {
        state.secrets.update(at, |secret| secret.values = new.collect());
        return;
    }
    let (name, namespace) = (copy.name.clone(), copy.namespace.clone());
    let metadata = Meta { name, namespace, generation: 1, ..Meta::default() };
    state.secrets.insert(Secret { metadata, values: new.collect(), ..Secret::default() });
}
