//! Makes clusters for a pool. Each gets a name, addresses, hosts, an install-config and copies of
//! the pool's secrets, and a customization if the pool has an inventory. How many are made is
//! decided elsewhere; nothing is installed here.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use crate::model::address::Addr;
use crate::model::cluster::Cluster;
use crate::model::condition::{Condition, ConditionReason, ConditionType, Shortage};
use crate::model::customization::Customization;
use crate::model::deployment::{ClusterDeployment, DeploymentSpec, Provisioning};
use crate::model::documents::{Secret, SecretValue, StoredValue};
use crate::model::event_reason::EventReason;
use crate::model::inventory::{EntryStatus, InventoryStatus};
use crate::model::ip_lease::IpLease;
use crate::model::kinds::Kind;
use crate::model::lease::ClusterHolder;
use crate::model::meta::{Key, LocalRef, Meta};
use crate::model::pool::ClusterPool;
use crate::model::state::{AgentId, Books, CustomizationId, PoolId, State};
use crate::model::template::Template;
use crate::model::tick::Tick;
use crate::render::cluster_dns::patched_addresses;
use crate::render::install_config::Rendered;
use crate::render::redact;

use super::agents;
use super::cluster_addresses;
use super::customizations::write_customization_status;
use super::dependencies::missing_dependencies;
use super::fixed_addresses::addresses_in_use;
use super::inventory::{entries_with_taken_names, free_entries};
use super::preflight::{InputProblem, render_checked};
use super::recipe::{cluster_name, unpatched_install_config};
use super::version::recipe_of;
use super::{leases, record_event, record_warning};

/// What is the same for every cluster that is made in one go.
struct Batch<'a> {
    /// A copy of the pool, whose ordinal counts the names that were drawn.
    pool: ClusterPool,
    /// The install-config before any patch.
    base: Value,
    version: Rc<str>,
    recipe: Option<String>,
    key: Rc<Key>,
    names: &'a dyn Books,
    /// Entries that turned out unusable, as the pool sees them from now on.
    unusable: BTreeMap<String, InventoryStatus>,
    /// The clusters that have addresses of customizations, by address.
    addresses_in_use: BTreeMap<Addr, String>,
    /// Why there are no addresses or hosts for another one.
    shortage: Option<Shortage>,
}

/// What a cluster is made of, beside its customization: all of it is leased with it.
struct Parts {
    rendered: Rendered,
    leases: Vec<IpLease>,
    hosts: Vec<AgentId>,
}

/// Why a cluster cannot be made.
enum Obstacle {
    /// There are no addresses or hosts for it.
    Shortage(Shortage),
    /// Its install-config cannot be rendered.
    BrokenConfiguration(String),
    /// Another cluster has its name in DNS, or an address that its customization gives it.
    Taken(String),
}

impl Obstacle {
    /// A template or a customization is to be corrected by its own; addresses that do not fit are a
    /// matter of the pool.
    fn of_input(problem: InputProblem) -> Self {
        match problem {
            InputProblem::Document(message) => Self::BrokenConfiguration(message),
            InputProblem::LeasedVips(message) => {
                Self::Shortage(Shortage::new(ConditionReason::InputWrong, message))
            }
        }
    }

    fn no_addresses(message: String) -> Self {
        Self::Shortage(Shortage::new(ConditionReason::AddressesExhausted, message))
    }

    fn no_hosts(message: String) -> Self {
        Self::Shortage(Shortage::new(ConditionReason::HostsExhausted, message))
    }
}

/// Makes up to `number` clusters and says how many it made. It makes none while the pool lacks
/// something that it refers to.
pub fn create_clusters(
    state: &mut State,
    pool_id: PoolId,
    number: usize,
    tick: &Tick,
    names: &dyn Books,
) -> usize {
    let Some(pool) = state.pools.get(pool_id) else { return 0 };
    if !missing_dependencies(state, pool).is_empty() {
        return 0;
    }
    let Ok(base) = unpatched_install_config(state, pool) else { return 0 };
    let mut batch = Batch {
        pool: pool.clone(),
        base,
        version: state.pool_versions.get(pool),
        recipe: recipe_of(state, pool),
        key: Rc::new(pool.key()),
        names,
        unusable: BTreeMap::new(),
        addresses_in_use: addresses_in_use(state, pool),
        shortage: None,
    };
    let created = if batch.pool.spec.inventory.is_some() {
        create_from_inventory(state, &mut batch, number, tick)
    } else {
        create_without_inventory(state, &mut batch, number, tick)
    };
    if let Some(shortage) = batch.shortage.take() {
        state.shortages.insert((*batch.key).clone(), shortage);
    }
    write_back(state, pool_id, batch);
    created
}

/// Tries one entry of the inventory after the other.
fn create_from_inventory(
    state: &mut State,
    batch: &mut Batch<'_>,
    number: usize,
    tick: &Tick,
) -> usize {
    let usable = free_entries(&batch.pool).chain(entries_with_taken_names(&batch.pool));
    let candidates: Vec<String> = usable.map(str::to_owned).collect();
    let mut created = 0;
    for candidate in candidates {
        if created == number {
            break;
        }
        let key = Key::new(&*batch.key.namespace, candidate);
        let Some(customization_id) = state.customizations.find(&key) else { continue };
        let customization = state.customizations.get(customization_id);
        if customization.is_some_and(|customization| customization.holder.is_none()) {
            created += usize::from(create_cluster(state, batch, Some(customization_id), tick));
        }
    }
    created
}

/// Creates so many clusters, and returns how many were created. One that cannot be created is the last
/// that is tried: the next would have the same name and meet the same obstacle.
fn create_without_inventory(
    state: &mut State,
    batch: &mut Batch<'_>,
    number: usize,
    tick: &Tick,
) -> usize {
    let mut created = 0;
    while created < number && create_cluster(state, batch, None, tick) {
        created += 1;
    }
    created
}

/// Writes back to the pool how many names were drawn, and which entries turned out unusable.
fn write_back(state: &mut State, pool_id: PoolId, batch: Batch<'_>) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let ordinal = batch.pool.status.ordinal;
    let entries = &pool.status.inventory;
    let mut verdicts = batch.unusable.iter();
    let has_new_verdict = verdicts.any(|(name, verdict)| entries.get(name) != Some(verdict));
    if pool.status.ordinal == ordinal && !has_new_verdict {
        return;
    }
    state.pools.update(pool_id, |pool| {
        pool.status.ordinal = ordinal;
        for (name, verdict) in batch.unusable {
            if let Some(entry) = pool.status.inventory.get_mut(&name) {
                *entry = verdict;
            }
        }
    });
}

/// Makes a cluster, with a customization or without, or notes why it cannot be made.
fn create_cluster(
    state: &mut State,
    batch: &mut Batch<'_>,
    customization_id: Option<CustomizationId>,
    tick: &Tick,
) -> bool {
    let ordinal_before = batch.pool.status.ordinal;
    let name = draw_name(state, batch, tick);
    let customization = customization_id.and_then(|id| state.customizations.get(id));
    match prepare_parts(state, batch, &name, customization, tick) {
        Ok(parts) => {
            for address in customization.map(fixed_addresses).unwrap_or_default() {
                batch.addresses_in_use.insert(address, name.clone());
            }
            insert_cluster(state, batch, &name, customization_id, parts, tick);
            true
        }
        Err(obstacle) => {
            // A name that was not used is not drawn, so that a second pass changes nothing.
            batch.pool.status.ordinal = ordinal_before;
            note_obstacle(state, batch, customization_id, obstacle, tick);
            false
        }
    }
}

/// Chooses what a cluster is made of. Addresses of its API and ingress come first, because they are
/// part of its install-config; hosts last, because the install-config says how many there have to
/// be.
fn prepare_parts(
    state: &State,
    batch: &Batch<'_>,
    name: &str,
    customization: Option<&Customization>,
    tick: &Tick,
) -> Result<Parts, Obstacle> {
    let Batch { pool, base, names, .. } = batch;
    if let Some(message) = cluster_addresses::describe_unplaceable_vips(pool, base) {
        return Err(Obstacle::of_input(InputProblem::LeasedVips(message)));
    }
    let (mut leases, base) =
        cluster_addresses::choose_cluster_addresses(state, pool, name, base, *names, tick)
            .map_err(Obstacle::no_addresses)?;
    let patches = customization.map(|customization| &customization.spec);
    let rendered = render_checked(state, &base, name, patches, pool).map_err(Obstacle::of_input)?;
    if let Some(message) = describe_taken_name(state, batch, &rendered) {
        return Err(Obstacle::Taken(message));
    }
    if let Some(message) = customization.and_then(|row| describe_taken_address(batch, row)) {
        return Err(Obstacle::Taken(message));
    }
    let hosts = agents::pick::pick_agents(state, pool, &rendered.document, *names, tick)
        .map_err(Obstacle::no_hosts)?;
    let picked = hosts.iter().filter_map(|agent_id| state.agents.get(*agent_id));
    let host_names: Vec<String> = picked.map(|agent| agent.metadata.name.clone()).collect();
    cluster_addresses::choose_node_addresses(
        state,
        pool,
        name,
        &host_names,
        &mut leases,
        *names,
        tick,
    )
    .map_err(Obstacle::no_addresses)?;
    Ok(Parts { rendered, leases, hosts })
}

/// Says who has the name that a cluster would have in DNS; none if the name is free.
fn describe_taken_name(state: &State, batch: &Batch<'_>, rendered: &Rendered) -> Option<String> {
    let name = &rendered.cluster_name;
    let domain = &rendered.base_domain;
    let holder = state.dns_name_holder(batch.names, name, domain)?;
    Some(format!("The name is taken: {name}.{domain} belongs to cluster {holder}"))
}

/// The addresses of API and ingress that a customization gives to its cluster.
fn fixed_addresses(customization: &Customization) -> Vec<Addr> {
    patched_addresses(&customization.spec.install_config_patches)
}

/// Says which cluster has an address that a customization would give to another one; none if all of
/// its addresses are free.
fn describe_taken_address(batch: &Batch<'_>, customization: &Customization) -> Option<String> {
    let mut addresses = fixed_addresses(customization).into_iter();
    addresses.find_map(|address| {
        let holder = batch.addresses_in_use.get(&address)?;
        Some(format!("The address is taken: {address} belongs to cluster {holder}"))
    })
}

/// Notes with the pool and with the customization why no cluster was made.
fn note_obstacle(
    state: &mut State,
    batch: &mut Batch<'_>,
    customization_id: Option<CustomizationId>,
    obstacle: Obstacle,
    tick: &Tick,
) {
    let (status, message) = match obstacle {
        Obstacle::Shortage(shortage) => {
            // The next customization would meet the same shortage, so it is the pool's.
            batch.shortage = Some(shortage);
            return;
        }
        Obstacle::BrokenConfiguration(message) => (EntryStatus::BrokenByConfiguration, message),
        Obstacle::Taken(message) => (EntryStatus::Unavailable, message),
    };
    let Some(customization_id) = customization_id else {
        if status == EntryStatus::BrokenByConfiguration {
            batch.shortage = Some(Shortage::new(ConditionReason::InputWrong, message));
        }
        return;
    };
    let Some(customization) = state.customizations.get(customization_id) else { return };
    let entry = customization.metadata.name.clone();
    if status == EntryStatus::BrokenByConfiguration {
        note_broken_customization(state, customization_id, &message, tick);
    }
    let name_taken = status == EntryStatus::Unavailable;
    let before = batch.pool.status.inventory.get(&entry).cloned().unwrap_or_default();
    let verdict = InventoryStatus { status, name_taken, message, ..before.clone() };
    if verdict != before {
        let message = format!("Customization {entry}: {}", verdict.message);
        let key = (*batch.key).clone();
        record_warning(
            state,
            tick,
            Kind::ClusterPool,
            key,
            EventReason::CustomizationUnusable,
            message,
        );
    }
    batch.unusable.insert(entry, verdict);
}

/// Writes in the status of a customization that its patches cannot be applied. The words are those
/// of the pool that tried first; each pool's own are in its inventory.
fn note_broken_customization(
    state: &mut State,
    customization_id: CustomizationId,
    message: &str,
    tick: &Tick,
) {
    let Some(customization) = state.customizations.get(customization_id) else { return };
    let broken = Condition::new(
        ConditionType::ApplySucceeded,
        "False",
        ConditionReason::BrokenBySyntax,
        message,
    );
    let before = customization.condition(ConditionType::ApplySucceeded);
    if before.is_some_and(|before| before.reason == broken.reason) {
        return;
    }
    let mut status = customization.status.clone();
    if status.set_condition(broken, tick.now) {
        state.customizations.update(customization_id, |customization| {
            customization.status = status;
        });
    }
}

/// `POOL-XXXXX`, where X are random characters; never a name that is in use.
fn draw_name(state: &State, batch: &mut Batch<'_>, tick: &Tick) -> String {
    let pool = &mut batch.pool;
    loop {
        pool.status.ordinal += 1;
        let suffix = tick.random_suffix("cluster", &pool.metadata.uid, pool.status.ordinal);
        let name = cluster_name(&pool.metadata.name, &suffix);
        if state.find_cluster(&name).is_none() && !batch.names.cluster_exists(&name) {
            return name;
        }
    }
}

/// Adds a new cluster to the state with all that belongs to it: its addresses, its Secrets, its
/// customization and its hosts.
fn insert_cluster(
    state: &mut State,
    batch: &Batch<'_>,
    name: &str,
    customization_id: Option<CustomizationId>,
    parts: Parts,
    tick: &Tick,
) {
    let Parts { rendered, leases: address_leases, hosts } = parts;
    for lease in address_leases {
        leases::grant_address(state, lease);
    }
    let key = Key::new(name, name);
    let spec = &batch.pool.spec;
    let customization = customization_id.and_then(|id| state.customizations.get(id));
    let customization_name = customization.map(|customization| customization.metadata.name.clone());
    let mut document = new_deployment(batch, name, tick);
    let template = Template::new(rendered.text.clone());
    for secret in new_secrets(batch, name, rendered.text, &mut document) {
        state.secrets.insert(secret);
    }
    let cluster = Cluster {
        created: tick.now,
        pool: Some(Rc::clone(&batch.key)),
        customization: customization_name.clone(),
        version: Some(Rc::clone(&batch.version)),
        recipe: batch.recipe.clone(),
        // An annotation copied from the pool evicts nobody.
        marked: false,
        by_agents: batch.pool.picks_hosts(),
        cluster_name: rendered.cluster_name,
        base_domain: rendered.base_domain,
        attempts_limit: spec.install_attempts_limit.or_else(|| spec.inventory.as_ref().map(|_| 1)),
        ..Cluster::from_wire(document)
    };
    if let Some(customization_id) = customization_id {
        lease_customization(state, batch, name, customization_id, tick);
    }
    state.insert_cluster(cluster);
    if !hosts.is_empty() {
        let install_config = Key::new(name, format!("{name}-install-config"));
        state.templates.insert(install_config, template);
        agents::pick::bind_picked_agents(state, &hosts, &key, tick);
    }
    if let Some(customization_id) = customization_id {
        write_customization_status(state, customization_id, &batch.key, tick);
    }
    let pool = &batch.key.name;
    let message = match customization_name {
        Some(customization) => format!("Made for pool {pool} with customization {customization}"),
        None => format!("Made for pool {pool}"),
    };
    record_event(state, tick, Kind::ClusterDeployment, key, EventReason::ClusterCreated, message);
}

/// Leases a customization to a cluster, and keeps what it said when the cluster was made.
fn lease_customization(
    state: &mut State,
    batch: &Batch<'_>,
    cluster: &str,
    customization_id: CustomizationId,
    tick: &Tick,
) {
    state.customizations.update(customization_id, |customization| {
        let applied = redact::redact_customization(&customization.spec);
        customization.status.last_applied_configuration = Some(applied);
    });
    let holder = ClusterHolder { pool: Some((*batch.key).clone()), ..ClusterHolder::new(cluster) };
    leases::grant_customization(state, customization_id, holder);
    if let Some(key) = state.customizations.get(customization_id).map(Customization::key) {
        let message = format!("Leased to cluster {cluster}");
        record_event(state, tick, Kind::Customization, key, EventReason::Reserved, message);
    }
}

/// The ClusterDeployment of a new cluster, as its pool wants it.
fn new_deployment(batch: &Batch<'_>, name: &str, tick: &Tick) -> ClusterDeployment {
    let pool = &batch.pool;
    let pool_spec = &pool.spec;
    let mut labels = pool_spec.labels.clone();
    for (label, value) in [
        ("hive.openshift.io/clusterpool-namespace", pool.metadata.namespace.as_str()),
        ("hive.openshift.io/clusterpool-name", pool.metadata.name.as_str()),
    ]
    .into_iter()
    .chain(pool_spec.platform.labels())
    {
        labels.insert(label.into(), value.into());
    }
    let metadata = Meta {
        name: name.into(),
        namespace: name.into(),
        uid: tick.random_uid("uid", &pool.metadata.uid, pool.status.ordinal).to_string(),
        generation: 1,
        labels,
        annotations: pool_spec.annotations.clone(),
        ..Meta::default()
    };
    let provisioning = Provisioning {
        image_set_ref: Some(pool_spec.image_set_ref.clone()),
        customization_ref: pool_spec.customization_ref.clone(),
        installer_env: pool_spec.installer_env.clone(),
        ..Provisioning::default()
    };
    let spec = DeploymentSpec {
        platform: pool_spec.platform.clone(),
        hibernate_after: pool_spec.hibernate_after,
        provisioning: Some(provisioning),
        ..DeploymentSpec::default()
    };
    ClusterDeployment { metadata, spec, ..ClusterDeployment::default() }
}

/// The Secrets of a new cluster, to which its ClusterDeployment then refers: the install-config,
/// and copies of the pool's secrets. A cluster has its own because destroying it needs them, even
/// if those of the pool are gone by then.
fn new_secrets(
    batch: &Batch<'_>,
    name: &str,
    install_config: SecretValue,
    document: &mut ClusterDeployment,
) -> Vec<Secret> {
    let values = BTreeMap::from([("install-config.yaml".into(), StoredValue::New(install_config))]);
    let mut secrets = vec![new_secret(document, "install-config", values)];
    if let Some(pull_secret) = &batch.pool.spec.pull_secret_ref {
        let values = copied_values(batch, &pull_secret.name);
        secrets.push(new_secret(document, "pull-secret", values));
        document.spec.pull_secret_ref = Some(LocalRef::to_name(format!("{name}-pull-secret")));
    }
    if let Some(credentials) = batch.pool.credentials_secret() {
        let values = copied_values(batch, credentials);
        secrets.push(new_secret(document, "creds", values));
        document.spec.platform.set_credentials(&format!("{name}-creds"));
    }
    if let Some(certificates) = batch.pool.spec.platform.certificates() {
        let values = copied_values(batch, certificates);
        secrets.push(new_secret(document, "certs", values));
        document.spec.platform.set_certificates(&format!("{name}-certs"));
    }
    if let Some(ssh_key) = batch.pool.ssh_key_secret() {
        let values = copied_values(batch, ssh_key);
        secrets.push(new_secret(document, "ssh-key", values));
        if let Some(provisioning) = &mut document.spec.provisioning {
            let reference = LocalRef::to_name(format!("{name}-ssh-key"));
            provisioning.ssh_private_key_secret_ref = Some(reference);
        }
    }
    if let Some(provisioning) = &mut document.spec.provisioning {
        let reference = LocalRef::to_name(format!("{name}-install-config"));
        provisioning.install_config_secret_ref = Some(reference);
    }
    secrets
}

/// A Secret of a cluster, `CLUSTER-SUFFIX`.
fn new_secret(
    document: &ClusterDeployment,
    suffix: &str,
    values: BTreeMap<String, StoredValue>,
) -> Secret {
    let cluster = &document.metadata;
    let metadata = Meta {
        name: format!("{}-{suffix}", cluster.name),
        namespace: cluster.name.clone(),
        generation: 1,
        creation_timestamp: cluster.creation_timestamp,
        ..Meta::default()
    };
    Secret { metadata, values, ..Secret::default() }
}

/// The values of a Secret that is to be a copy of one in the pool's namespace.
fn copied_values(batch: &Batch<'_>, secret: &str) -> BTreeMap<String, StoredValue> {
    let original = Key::new(&*batch.key.namespace, secret);
    BTreeMap::from([(String::new(), StoredValue::CopyOf(original))])
}
