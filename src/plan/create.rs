//! Makes clusters for a pool: a name, a customization, an install-config, copies of its secrets.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use crate::model::cluster::Cluster;
use crate::model::condition::{Condition, ConditionReason, ConditionType, Shortage};
use crate::model::customization::{APPLY_SUCCEEDED, Customization};
use crate::model::deployment::{ClusterDeployment, DeploymentSpec, Provisioning};
use crate::model::documents::{Secret, SecretValue, Stored};
use crate::model::event_reason::EventReason;
use crate::model::inventory::{EntryStatus, InventoryStatus};
use crate::model::ip_lease::IpLease;
use crate::model::lease::ClusterHolder;
use crate::model::meta::{Key, LocalRef, Meta};
use crate::model::pool::ClusterPool;
use crate::model::state::{AgentId, Books, CustomizationId, PoolId, State, Template};
use crate::model::tick::Tick;
use crate::render::install_config::Rendered;
use crate::render::redact;

use super::agents;
use super::customizations::write_status;
use super::inventory::{entries_with_taken_names, free};
use super::recipe::{bounded, recipe, render};
use super::version::pool_version;
use super::vips;
use super::{CLUSTER, CUSTOMIZATION, POOL, dependencies, leases, say, warn};

/// Reasons of CapacityAvailable.
const ADDRESSES: ConditionReason = ConditionReason::AddressesExhausted;
const HOSTS: ConditionReason = ConditionReason::HostsExhausted;

/// What is the same for every cluster that is made in one go.
struct Batch<'a> {
    pool: ClusterPool,
    base: Value,
    version: Rc<str>,
    key: Rc<Key>,
    names: &'a dyn Books,
    /// Entries that turned out unusable, as the pool sees them from now on.
    unusable: BTreeMap<String, InventoryStatus>,
    /// Why there are no addresses or hosts for another one.
    short: Option<Shortage>,
}

/// What a cluster is made of, beside its customization: all of it is leased with it.
struct Parts {
    rendered: Rendered,
    leases: Vec<IpLease>,
    /// Places of its Agents.
    hosts: Vec<AgentId>,
}

/// Makes up to `number` clusters and says how many it made.
pub fn add(state: &mut State, at: PoolId, number: usize, tick: &Tick, names: &dyn Books) -> usize {
    let Some(pool) = state.pools.get(at) else {
        return 0;
    };
    if !dependencies::missing(state, pool).is_empty() {
        return 0;
    }
    let Ok(base) = recipe(state, pool) else {
        return 0;
    };
    let version = pool_version(pool).into();
    let (pool, key) = (pool.clone(), Rc::new(pool.key()));
    let unusable = BTreeMap::new();
    let mut batch = Batch { pool, base, version, key, names, unusable, short: None };
    let made = if batch.pool.spec.inventory.is_some() {
        let usable = free(&batch.pool).chain(entries_with_taken_names(&batch.pool));
        let candidates: Vec<String> = usable.map(str::to_owned).collect();
        let mut made = 0;
        for name in candidates {
            if made == number {
                break;
            }
            let key = Key::new(&*batch.key.namespace, &*name);
            if let Some(found) = state.customizations.find(&key) {
                made += usize::from(with_customization(state, &mut batch, found, tick));
            }
        }
        made
    } else {
        (0..number).filter(|_| plain(state, &mut batch, tick)).count()
    };
    if let Some(why) = batch.short.take() {
        state.short.insert((*batch.key).clone(), why);
    }
    write_back(state, at, batch);
    made
}

fn write_back(state: &mut State, at: PoolId, batch: Batch<'_>) {
    let ordinal = batch.pool.status.ordinal;
    let news = |pool: &ClusterPool| {
        let mut verdicts = batch.unusable.iter();
        let is_new = verdicts.any(|(name, entry)| pool.status.inventory.get(name) != Some(entry));
        pool.status.ordinal != ordinal || is_new
    };
    if state.pools.get(at).is_some_and(news) {
        state.pools.update(at, |pool| {
            pool.status.ordinal = ordinal;
            for (name, verdict) in batch.unusable {
                if let Some(entry) = pool.status.inventory.get_mut(&name) {
                    *entry = verdict;
                }
            }
        });
    }
}

fn plain(state: &mut State, batch: &mut Batch<'_>, tick: &Tick) -> bool {
    let drawn = batch.pool.status.ordinal;
    let name = draw_name(state, batch, tick);
    let made = addressed(state, batch, &name, tick).is_some_and(|(leases, base)| {
        let rendered = render(&base, &name, None, &batch.pool).ok();
        let rendered = rendered.filter(|one| taken(state, batch, one).is_none());
        let parts = rendered.and_then(|one| hosted(state, batch, &name, (one, leases), tick));
        parts.map(|parts| insert(state, batch, &name, None, parts, tick)).is_some()
    });
    if !made {
        // A name that was not used is not drawn: a second look changes nothing.
        batch.pool.status.ordinal = drawn;
    }
    made
}

/// Addresses of its API and ingress, and what it is made from with them; none if there are none.
fn addressed(
    state: &State,
    batch: &mut Batch<'_>,
    name: &str,
    tick: &Tick,
) -> Option<(Vec<IpLease>, Value)> {
    let found = vips::lease(state, &batch.pool, name, &batch.base, batch.names, tick);
    found.map_err(|why| batch.short = Some(Shortage::new(ADDRESSES, why))).ok()
}

/// The hosts that its install-config asks for, and their addresses; none if there are too few.
fn hosted(
    state: &State,
    batch: &mut Batch<'_>,
    name: &str,
    (rendered, mut leases): (Rendered, Vec<IpLease>),
    tick: &Tick,
) -> Option<Parts> {
    let found = agents::pick::hosts(state, &batch.pool, &rendered.document, tick);
    let hosts = found.map_err(|why| batch.short = Some(Shortage::new(HOSTS, why))).ok()?;
    let called = |at: &AgentId| Some(state.agents.get(*at)?.metadata.name.clone());
    let names: Vec<String> = hosts.iter().filter_map(called).collect();
    let all = vips::for_hosts(state, &batch.pool, (name, &names), &mut leases, batch.names, tick);
    all.map_err(|why| batch.short = Some(Shortage::new(ADDRESSES, why))).ok()?;
    Some(Parts { rendered, leases, hosts })
}

/// Makes a cluster with a customization, or notes why it cannot be used.
fn with_customization(
    state: &mut State,
    batch: &mut Batch<'_>,
    at: CustomizationId,
    tick: &Tick,
) -> bool {
    let Some(one) = state.customizations.get(at).filter(|one| one.holder.is_none()) else {
        return false;
    };
    let entry = one.metadata.name.clone();
    let drawn = batch.pool.status.ordinal;
    let name = draw_name(state, batch, tick);
    let Some((leases, base)) = addressed(state, batch, &name, tick) else {
        batch.pool.status.ordinal = drawn;
        return false;
    };
    let Some(one) = state.customizations.get(at) else { return false };
    let (status, message) = match render(&base, &name, Some(&one.spec), &batch.pool) {
        Err(message) => {
            note_broken(state, at, &message, tick);
            (EntryStatus::BrokenByConfiguration, message)
        }
        Ok(rendered) => {
            if let Some(message) = taken(state, batch, &rendered) {
                (EntryStatus::Unavailable, message)
            } else if let Some(parts) = hosted(state, batch, &name, (rendered, leases), tick) {
                insert(state, batch, &name, Some(at), parts, tick);
                return true;
            } else {
                batch.pool.status.ordinal = drawn;
                return false;
            }
        }
    };
    batch.pool.status.ordinal = drawn;
    let name_taken = status == EntryStatus::Unavailable;
    let known = batch.pool.status.inventory.get(&entry).cloned().unwrap_or_default();
    let verdict = InventoryStatus { status, name_taken, message, ..known.clone() };
    if verdict != known {
        let text = format!("Customization {entry}: {}", verdict.message);
        warn(state, tick, EventReason::CustomizationUnusable, (POOL, (*batch.key).clone()), text);
    }
    batch.unusable.insert(entry, verdict);
    false
}

/// Why the name that a cluster would have in DNS cannot be its.
fn taken(state: &State, batch: &Batch<'_>, rendered: &Rendered) -> Option<String> {
    let (name, domain) = (&rendered.cluster_name, &rendered.base_domain);
    let by = state.holder_of(batch.names, name, domain)?;
    Some(format!("The name is taken: {name}.{domain} is cluster {by}"))
}

fn note_broken(state: &mut State, at: CustomizationId, message: &str, tick: &Tick) {
    let new = Condition::new(
        ConditionType::ApplySucceeded,
        "False",
        ConditionReason::BrokenBySyntax,
        message,
    );
    let Some(one) = state.customizations.get(at) else {
        return;
    };
    // The words are those of the pool that tried first; each pool's own are in its inventory.
    if one.condition(APPLY_SUCCEEDED).is_some_and(|old| old.reason == new.reason) {
        return;
    }
    let mut status = one.status.clone();
    if status.set(new, tick.now) {
        state.customizations.update(at, |one| one.status = status);
    }
}

/// `<pool>-<5 random characters>`, never one that is in use.
fn draw_name(state: &State, batch: &mut Batch<'_>, tick: &Tick) -> String {
    let pool = &mut batch.pool;
    loop {
        pool.status.ordinal += 1;
        let suffix = tick.suffix("cluster", &pool.metadata.uid, pool.status.ordinal);
        let name = bounded(&pool.metadata.name, &suffix);
        if state.cluster(&name).is_none() && !batch.names.cluster_exists(&name) {
            return name;
        }
    }
}

fn insert(
    state: &mut State,
    batch: &mut Batch<'_>,
    name: &str,
    customization: Option<CustomizationId>,
    Parts { rendered, leases: addresses, hosts }: Parts,
    tick: &Tick,
) {
    for lease in addresses {
        leases::grant_address(state, lease);
    }
    let config = Key::new(name, format!("{name}-install-config"));
    let spec = &batch.pool.spec;
    let customization_name = customization
        .and_then(|at| state.customizations.get(at))
        .map(|one: &Customization| one.metadata.name.clone());
    let mut wire = document(batch, name, tick);
    let template = Template::new(rendered.text.clone());
    for secret in secrets(batch, name, rendered.text, &mut wire) {
        state.secrets.insert(secret);
    }
    let cluster = Cluster {
        created: tick.now,
        pool: Some(Rc::clone(&batch.key)),
        customization: customization_name,
        version: Some(Rc::clone(&batch.version)),
        // An annotation copied from the pool evicts nobody.
        marked: false,
        by_agents: batch.pool.picks_hosts(),
        cluster_name: rendered.cluster_name,
        base_domain: rendered.base_domain,
        attempts_limit: spec.install_attempts_limit.or_else(|| spec.inventory.as_ref().map(|_| 1)),
        ..Cluster::from_wire(wire)
    };
    let pool = &batch.key.name;
    let mut message = format!("Made for pool {pool}");
    if let Some(at) = customization {
        state.customizations.update(at, |customization| {
            let applied = redact::applied(&customization.spec);
            customization.status.last_applied_configuration = Some(applied);
        });
        let holder = ClusterHolder { pool: Some((*batch.key).clone()), ..ClusterHolder::new(name) };
        leases::grant_customization(state, at, holder);
        let used = cluster.customization.clone().unwrap_or_default();
        message = format!("Made for pool {pool} with customization {used}");
        let object = (CUSTOMIZATION, Key::new(&*batch.key.namespace, used));
        say(state, tick, EventReason::Reserved, object, format!("Leased to cluster {name}"));
    }
    state.insert_cluster(cluster);
    if !hosts.is_empty() {
        state.templates.insert(config, template);
        agents::pick::take(state, &hosts, &Key::new(name, name), tick);
    }
    if let Some(at) = customization {
        write_status(state, at, &batch.key, tick);
    }
    say(state, tick, EventReason::ClusterCreated, (CLUSTER, Key::new(name, name)), message);
}

fn document(batch: &Batch<'_>, name: &str, tick: &Tick) -> ClusterDeployment {
    let (pool, spec) = (&batch.pool, &batch.pool.spec);
    let mut labels = spec.labels.clone();
    for (label, value) in [
        ("hive.openshift.io/clusterpool-namespace", &pool.metadata.namespace),
        ("hive.openshift.io/clusterpool-name", &pool.metadata.name),
        ("hive.openshift.io/cluster-platform", &spec.platform.name().to_owned()),
    ] {
        labels.insert(label.into(), value.clone());
    }
    let metadata = Meta {
        name: name.into(),
        namespace: name.into(),
        uid: tick.uid("uid", &pool.metadata.uid, pool.status.ordinal).to_string(),
        generation: 1,
        labels,
        annotations: spec.annotations.clone(),
        ..Meta::default()
    };
    let provisioning = Provisioning {
        image_set_ref: Some(spec.image_set_ref.clone()),
        customization_ref: spec.customization_ref.clone(),
        installer_env: spec.installer_env.clone(),
        ..Provisioning::default()
    };
    let spec = DeploymentSpec {
        platform: spec.platform.clone(),
        hibernate_after: spec.hibernate_after,
        provisioning: Some(provisioning),
        ..DeploymentSpec::default()
    };
    ClusterDeployment { metadata, spec, ..ClusterDeployment::default() }
}

/// The install-config, and copies of the pool's secrets: destroying the cluster needs its own.
fn secrets(
    batch: &Batch<'_>,
    name: &str,
    install_config: SecretValue,
    wire: &mut ClusterDeployment,
) -> Vec<Secret> {
    let secret = |what: &str, values: BTreeMap<String, Stored>| Secret {
        metadata: Meta {
            name: format!("{name}-{what}"),
            namespace: name.to_owned(),
            generation: 1,
            creation_timestamp: wire.metadata.creation_timestamp,
            ..Meta::default()
        },
        values,
        ..Secret::default()
    };
    let config = BTreeMap::from([("install-config.yaml".into(), Stored::New(install_config))]);
    let mut all = vec![secret("install-config", config)];
    let copy = |from: &str| {
        let from = Key::new(&*batch.key.namespace, from);
        BTreeMap::from([(String::new(), Stored::CopyOf(from))])
    };
    if let Some(pull_secret) = &batch.pool.spec.pull_secret_ref {
        all.push(secret("pull-secret", copy(&pull_secret.name)));
        wire.spec.pull_secret_ref = Some(LocalRef::to(format!("{name}-pull-secret")));
    }
    if let Some(credentials) = batch.pool.credentials() {
        all.push(secret("creds", copy(credentials)));
        wire.spec.platform.set_credentials(&format!("{name}-creds"));
    }
    if let Some(provisioning) = &mut wire.spec.provisioning {
        let reference = LocalRef::to(format!("{name}-install-config"));
        provisioning.install_config_secret_ref = Some(reference);
    }
    all
}
