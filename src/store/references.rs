//! What loaded objects refer to: image sets, secrets without values, templates, customizations, and
//! what belongs to Agents and to clusters of hosts. Loaded with the scope, and again after an edit,
//! which may have named others. Never loads again what is there or was removed.

use std::collections::{BTreeSet, HashSet};

use rusqlite::Connection;

use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::infra_env::InfraEnv;
use crate::model::job::Verb;
use crate::model::meta::{Key, LocalRef};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};

use super::agents::{
    load_agents_of_host_id, load_agents_of_namespace, load_agents_that_left, load_agents_with_mac,
    load_cluster_with_agents,
};
use super::clusters::load_cluster;
use super::customizations::{load_customization, load_customizations};
use super::documents::load_document;
use super::hosts::{load_host, load_hosts_with_mac, load_rivals_of_edited_hosts};
use super::infra_envs::{load_cluster_of_infra_env, load_infra_env};
use super::ip_leases::{load_lease, select_leases_of_cluster};
use super::ip_pools::{load_beside_edited_pools, load_ip_pool};
use super::secrets::load_secret;
use super::templates::load_template;

/// More names than this are not looked up one by one.
const MANY: usize = 20;

/// What the objects of a state name, by kind.
#[derive(Default)]
struct NamedObjects {
    image_sets: Vec<Key>,
    secrets: Vec<Key>,
    templates: Vec<Key>,
    customizations: Vec<Key>,
}

/// Loads what is not there yet. What an edit removed stays removed.
pub fn load_references(conn: &Connection, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
    load_agents_for_newly_picking_pools(conn, state)?;
    load_rivals_of_edited_hosts(conn, state)?;
    load_beside_edited_pools(conn, state)?;
    load_around_agents_and_clusters(conn, state)?;
    load_addresses_of_clusters(conn, state)?;
    let named = collect_named_objects(state);
    for key in &named.image_sets {
        load_document(conn, &mut state.image_sets, key)?;
    }
    for key in named.secrets.iter().chain(&named.templates) {
        load_secret(conn, state, key)?;
    }
    for key in named.templates {
        load_template(conn, state, key)?;
    }
    if *scope == Scope::Whole {
        // All of them were loaded; what is not there does not exist.
        return Ok(());
    }
    load_named_customizations(conn, state, named.customizations)
}

fn load_named_customizations(
    conn: &Connection,
    state: &mut State,
    mut keys: Vec<Key>,
) -> Result<(), Refusal> {
    keys.retain(|key| !state.customizations.knows(key));
    if keys.len() > MANY {
        for namespace in keys.iter().map(|key| key.namespace.as_str()).collect::<BTreeSet<_>>() {
            load_customizations(conn, state, Some(namespace))?;
        }
        return Ok(());
    }
    for key in keys {
        load_customization(conn, state, &key)?;
    }
    Ok(())
}

/// All Agents that a pool may pick that has just begun to pick any.
fn load_agents_for_newly_picking_pools(
    conn: &Connection,
    state: &mut State,
) -> Result<(), Refusal> {
    let picks = |pool: Option<&ClusterPool>| pool.is_some_and(ClusterPool::picks_hosts);
    let mut namespaces = BTreeSet::new();
    for change in state.pools.difference() {
        if picks(change.after) && !picks(change.before) {
            namespaces.extend(change.after.map(|pool| pool.metadata.namespace.clone()));
        }
    }
    for namespace in namespaces {
        load_agents_of_namespace(conn, state, &namespace)?;
    }
    Ok(())
}

/// What Agents that are here belong to, and what belongs to clusters of hosts: until nothing is
/// added.
fn load_around_agents_and_clusters(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let infra_envs: Vec<Key> = state.infra_envs.rows().map(InfraEnv::key).collect();
    for key in infra_envs {
        load_cluster_of_infra_env(conn, state, &key)?;
    }
    let mut agents_looked_at = 0;
    loop {
        let agents_before = state.agents.places();
        let clusters_before = state.clusters.places();
        let new_agents: Vec<Agent> =
            state.agents.iter_from(agents_looked_at).map(|(_, agent)| agent.clone()).collect();
        agents_looked_at = agents_before;
        if !state.whole {
            for agent in &new_agents {
                load_around_agent(conn, state, agent)?;
            }
        }
        let clusters: Vec<String> = state
            .clusters
            .rows()
            .filter(|cluster| cluster.takes_hosts() || is_joined(state, &cluster.name))
            .map(|cluster| cluster.name.clone())
            .collect();
        for name in clusters {
            load_cluster_with_agents(conn, state, &name)?;
        }
        if agents_before == state.agents.places() && clusters_before == state.clusters.places() {
            return Ok(());
        }
    }
}

/// Whether hosts join a cluster just now: what becomes of that becomes of them.
fn is_joined(state: &State, cluster: &str) -> bool {
    state.live_job(cluster).is_some_and(|(_, job)| job.verb == Verb::AddNodes)
}

/// Its InfraEnv, its clusters and their other hosts, its host, and whoever else says that it is
/// the same machine.
fn load_around_agent(conn: &Connection, state: &mut State, agent: &Agent) -> Result<(), Refusal> {
    if let Some(key) = agent.infra_env() {
        load_infra_env(conn, state, &key)?;
    }
    let left = agent.status.deprovision_info.as_ref().map(|info| info.cluster_name.clone());
    if let Some(cluster) = &left {
        load_agents_that_left(conn, state, cluster)?;
    }
    let clusters = [agent.wanted(), agent.bound_to()].into_iter().flatten().map(|key| key.name);
    for name in clusters.chain(left) {
        load_cluster(conn, state, &name)?;
        if state.cluster(&name).is_some() {
            load_cluster_with_agents(conn, state, &name)?;
        }
    }
    if let Some(key) = agent.bmh() {
        load_host(conn, state, &key)?;
    }
    load_agents_of_host_id(conn, state, &agent.status.host_id)?;
    for mac in agent.identities() {
        load_agents_with_mac(conn, state, &mac)?;
        load_hosts_with_mac(conn, state, &mac)?;
    }
    Ok(())
}

/// What clusters of the pools in scope have addresses from, and those that they have: of any pool
/// that may make or lose one.
fn load_addresses_of_clusters(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let mut pools = Vec::new();
    for pool in state.pools.rows() {
        let names = pool.vips_from().into_iter().chain(pool.nodes_from());
        pools.extend(names.map(|name| Key::new(&*pool.metadata.namespace, name)));
    }
    let clusters = collect_clusters_with_moving_addresses(state);
    for key in pools {
        load_ip_pool(conn, state, &key)?;
    }
    for cluster in clusters {
        for lease in select_leases_of_cluster(conn, &cluster.namespace, &cluster.name)? {
            load_lease(state, lease);
        }
    }
    Ok(())
}

/// The names of clusters, in the namespaces of their addresses.
fn collect_clusters_with_moving_addresses(state: &State) -> Vec<Key> {
    let mut clusters = Vec::new();
    let joined = state.agents.rows().filter(|agent| agent.is_day2()).filter_map(Agent::bound_to);
    let joined: HashSet<String> = joined.map(|key| key.name).collect();
    for cluster in state.clusters.rows() {
        // One that is left running may go in the pass in which that is asked for.
        let goes = cluster.deleting.is_some() || cluster.preserve;
        if let Some(pool) = &cluster.pool
            && (goes || !cluster.installed() || joined.contains(&cluster.name))
        {
            clusters.push(Key::new(&*pool.namespace, &*cluster.name));
        }
    }
    // Hosts that have left a cluster may have kept it its addresses.
    for agent in state.agents.rows() {
        let namespace = agent.metadata.namespace.as_str();
        if let Some(info) = &agent.status.deprovision_info {
            clusters.push(Key::new(namespace, &*info.cluster_name));
        }
        // A node that is deleted gives its own addresses back.
        if agent.metadata.deletion_timestamp.is_some()
            && let Some(cluster) = agent.bound_to()
        {
            clusters.push(Key::new(namespace, cluster.name));
        }
    }
    clusters
}

fn collect_named_objects(state: &State) -> NamedObjects {
    let mut named = NamedObjects::default();
    let unfinished = state.clusters.rows().filter(|cluster| !cluster.installed());
    named.customizations.extend(unfinished.filter_map(Cluster::required));
    for cluster in state.clusters.rows().filter(|cluster| cluster.takes_hosts()) {
        let body = cluster.body.as_ref();
        let provisioning = body.and_then(|body| body.spec.provisioning.as_ref());
        let image_set = provisioning.and_then(|spec| spec.image_set_ref.as_ref());
        named.image_sets.extend(image_set.map(|image_set| Key::new("", &*image_set.name)));
    }
    for pool in state.pools.rows() {
        let spec = &pool.spec;
        let namespace = pool.metadata.namespace.as_str();
        let key_of = |reference: &Option<LocalRef>| {
            reference.as_ref().map(|reference| Key::new(namespace, &*reference.name))
        };
        named.image_sets.push(Key::new("", &*spec.image_set_ref.name));
        named.secrets.extend(key_of(&spec.pull_secret_ref));
        named.secrets.extend(pool.credentials().map(|name| Key::new(namespace, name)));
        named.templates.extend(key_of(&spec.install_config_secret_template_ref));
        named.customizations.extend(key_of(&spec.customization_ref));
        let listed = spec.inventory.iter().flatten();
        named.customizations.extend(listed.map(|entry| Key::new(namespace, &*entry.name)));
    }
    named
}
