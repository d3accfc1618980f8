//! `pool rotate-credentials`: copies the credentials that the Secret of a pool holds now to all of
//! its clusters, each of which has a Secret of its own. It never changes the pool's Secret.

use std::collections::{BTreeMap, HashMap};

use clap::Args;

use crate::edits::record_event;
use crate::model::cluster::Cluster;
use crate::model::documents::{Secret, SecretValue, StoredValue};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::store::{Filter, NeededObject, Store};

use crate::commands::{Context, RunCommand};

/// Arguments of `pool rotate-credentials`. A cluster destroys itself with its own copy of the
/// credentials, so each copy is replaced.
#[derive(Args)]
pub struct RotateCredentials {
    /// Pool whose clusters get the credentials
    #[arg(value_name = "POOL")]
    name: String,
}

impl RunCommand for RotateCredentials {
    const NAME: &'static str = "rotate-credentials";
    const ABOUT: &'static str = "Copy the platform credentials of a pool to all its clusters";
    const EXAMPLE: &'static str = "poolctl pool rotate-credentials cloud";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let pool = context.find::<ClusterPool>(&store, &self.name)?;
        let credentials = secret_of_pool(&pool)?;
        let clusters = find_copies(&store, &pool, &credentials)?;
        let copies = clusters.iter().flat_map(|(_, copies)| copies);
        let secrets = copies.flat_map(|copy| [&copy.original, &copy.copy]).chain([&credentials]);
        let needs: Vec<NeededObject> =
            secrets.map(|key| NeededObject { kind: Kind::Secret, key: key.clone() }).collect();
        let scope = Scope::pool(pool.key());
        let (rotated, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            if read_values(state, &credentials).is_none() {
                return Err(self.refuse_missing_secret(context, &credentials));
            }
            let mut rotated = Vec::new();
            for (cluster, copies) in &clusters {
                rotated.push(rotate_copies(state, cluster, copies, tick));
            }
            Ok(rotated)
        })?;
        for ((cluster, _), rotated) in clusters.iter().zip(&rotated) {
            let verb = if *rotated { "rotated" } else { "has these credentials already" };
            let result = match &cluster.claim {
                Some(claim) => format!("{verb} (claim {claim})"),
                None => verb.to_owned(),
            };
            context.report_change(Kind::ClusterDeployment, &cluster.key(), &result)?;
        }
        if clusters.is_empty() {
            context.hint(&format!("pool `{}` has no clusters", self.name));
        }
        Ok(context.report_pass(&passed)?)
    }
}

impl RotateCredentials {
    fn refuse_missing_secret(&self, context: &Context, secret: &Key) -> Refusal {
        let name = &secret.name;
        let namespace_option = context.namespace_option(&secret.namespace);
        Refusal::not_found(format!("pool `{}` has no Secret `{name}`", self.name))
            .advise(format!("poolctl secret create {name} --from-file=KEY=FILE{namespace_option}"))
    }
}

/// The Secret that has the credentials of a pool.
fn secret_of_pool(pool: &ClusterPool) -> Result<Key, Refusal> {
    let name = pool.credentials_secret().ok_or_else(|| {
        let platform = pool.spec.platform.name();
        Refusal::invalid(format!("pool `{}` has no credentials", pool.metadata.name))
            .because(format!("its platform {platform} has no credentialsSecretRef"))
    })?;
    Ok(Key::new(&*pool.metadata.namespace, name))
}

/// A Secret of a pool, and the copy of it that a cluster has.
struct SecretCopy {
    original: Key,
    copy: Key,
}

/// The clusters of a pool that have credentials, each with its copies of the Secrets of the pool:
/// of the credentials and, if the pool names any, of the certificates.
fn find_copies(
    store: &Store,
    pool: &ClusterPool,
    credentials: &Key,
) -> Result<Vec<(Cluster, Vec<SecretCopy>)>, Refusal> {
    let namespace = Some(pool.metadata.namespace.clone());
    let filter = Filter { namespace, name: None, whole: true };
    let mut clusters = Vec::new();
    for cluster in store.list::<Cluster>(&filter)? {
        if cluster.pool.as_deref() == Some(&pool.key())
            && let Some(copy) = secret_of_cluster(&cluster)
        {
            let mut copies = vec![SecretCopy { original: credentials.clone(), copy }];
            copies.extend(copy_of_certificates(pool, &cluster));
            clusters.push((cluster, copies));
        }
    }
    Ok(clusters)
}

fn copy_of_certificates(pool: &ClusterPool, cluster: &Cluster) -> Option<SecretCopy> {
    let original = pool.spec.platform.certificates()?;
    let copy = cluster.body.as_ref()?.spec.platform.certificates()?;
    Some(SecretCopy {
        original: Key::new(&*pool.metadata.namespace, original),
        copy: Key::new(&*cluster.namespace, copy),
    })
}

/// Copies the Secrets of a pool to a cluster, and returns whether any copy was outdated. One that
/// is equal is left alone, so that running the command again changes nothing and records nothing.
fn rotate_copies(state: &mut State, cluster: &Cluster, copies: &[SecretCopy], tick: &Tick) -> bool {
    let mut rotated_secrets: Vec<&str> = Vec::new();
    for SecretCopy { original, copy } in copies {
        // Certificates that the pool has no more stay with the cluster.
        let Some(values) = read_values(state, original) else { continue };
        if read_values(state, copy).is_none_or(|held| held != values) {
            write_values(state, copy, &values);
            if !rotated_secrets.contains(&original.name.as_str()) {
                rotated_secrets.push(&original.name);
            }
        }
    }
    if rotated_secrets.is_empty() {
        return false;
    }
    let message = format!("Got the credentials of Secret {}", rotated_secrets.join(" and "));
    record_event(
        state,
        tick,
        Kind::ClusterDeployment,
        cluster.key(),
        EventReason::CredentialsRotated,
        &message,
    );
    true
}

/// The Secret that has the credentials of a cluster, if its platform needs any.
fn secret_of_cluster(cluster: &Cluster) -> Option<Key> {
    let name = cluster.body.as_ref()?.spec.platform.credentials()?;
    Some(Key::new(&*cluster.namespace, name))
}

/// Whether clusters have the credentials that their pools have now: `current` or `old`, by the name
/// of the cluster. Clusters without credentials are left out.
pub fn credential_states(
    store: &Store,
    clusters: &[Object],
) -> Result<HashMap<String, &'static str>, Refusal> {
    let mut pool_secrets = HashMap::new();
    for pool in store.list_all::<ClusterPool>()? {
        if let Ok(secret) = secret_of_pool(&pool) {
            pool_secrets.insert(pool.key(), secret);
        }
    }
    let mut states = HashMap::new();
    for object in clusters {
        let Object::ClusterDeployment(cluster) = object else { continue };
        let pool_secret = cluster.pool.as_deref().and_then(|pool| pool_secrets.get(pool));
        if let (Some(copy), Some(pool_secret)) = (secret_of_cluster(cluster), pool_secret) {
            let is_current = store.have_same_values(&copy, pool_secret)?;
            states.insert(cluster.name.clone(), if is_current { "current" } else { "old" });
        }
    }
    Ok(states)
}

/// The values of a Secret by their keys.
type SecretValues = HashMap<String, SecretValue>;

/// The values of a Secret that are loaded; none if there is no such Secret.
fn read_values(state: &State, secret: &Key) -> Option<SecretValues> {
    let mut values = SecretValues::new();
    for (key, stored) in &state.secrets.by_key(secret)?.values {
        if let StoredValue::Loaded(value) | StoredValue::New(value) = stored {
            values.insert(key.clone(), value.clone());
        }
    }
    Some(values)
}

/// Replaces the values of a Secret, which is made if there is none.
fn write_values(state: &mut State, secret: &Key, values: &SecretValues) {
    let mut stored = BTreeMap::new();
    for (key, value) in values {
        stored.insert(key.clone(), StoredValue::New(value.clone()));
    }
    if let Some(secret_id) = state.secrets.find(secret) {
        state.secrets.update(secret_id, |secret| secret.values = stored);
        return;
    }
    let Key { name, namespace } = secret.clone();
    let metadata = Meta { name, namespace, generation: 1, ..Meta::default() };
    state.secrets.insert(Secret { metadata, values: stored, ..Secret::default() });
}
