//! Loads what objects in the state refer to: image sets, secrets without values, ConfigMaps,
//! templates, customizations, and what belongs to Agents and to clusters of hosts. It runs when a
//! scope is loaded, and again after an edit, which may have named other objects. It never loads an
//! object that is there or was removed.

use std::collections::{BTreeSet, HashSet};

use rusqlite::Connection;

use crate::model::agent::Agent;
use crate::model::agent_classification::AgentClassification;
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::job::Verb;
use crate::model::meta::{Key, LocalRef};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};

use super::agents::{
    load_agents_of_host, load_agents_of_machine, load_agents_of_namespace, load_agents_that_left,
    load_agents_with_mac, load_cluster_with_agents, load_free_agents_of_namespace,
};
use super::clusters::load_cluster;
use super::customizations::{load_customization, load_customizations};
use super::documents::{load_document, select_documents};
use super::hosts::{
    load_host, load_hosts_of_cluster, load_hosts_with_mac, load_rivals_of_edited_hosts,
};
use super::infra_envs::{load_cluster_of_infra_env, load_infra_env};
use super::ip_leases::{load_lease, select_leases_of_cluster};
use super::ip_pools::{load_beside_edited_pools, load_ip_pool};
use super::secrets::load_secret;
use super::templates::load_template;

/// If more customizations than this are named, all of their namespaces are read at once.
const MOST_SINGLE_LOOKUPS: usize = 20;

/// The names that objects in the state refer to, by kind.
#[derive(Default)]
struct NamedObjects {
    image_sets: Vec<Key>,
    secrets: Vec<Key>,
    config_maps: Vec<Key>,
    templates: Vec<Key>,
    customizations: Vec<Key>,
}

/// Loads what the objects in the state refer to and is not there yet. What an edit removed stays
/// removed. The order matters: what is loaded first may refer to what is loaded after it.
pub fn load_references(conn: &Connection, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
    load_agents_for_newly_picking_pools(conn, state)?;
    load_around_classifications(conn, state)?;
    load_rivals_of_edited_hosts(conn, state)?;
    load_beside_edited_pools(conn, state)?;
    load_around_agents_and_clusters(conn, state)?;
    // What was loaded since may have brought further Agents.
    load_classifications_of_agents(conn, state)?;
    load_addresses_of_clusters(conn, state)?;
    let named = collect_named_objects(state);
    for key in &named.image_sets {
        load_document(conn, &mut state.image_sets, key)?;
    }
    for key in &named.config_maps {
        load_document(conn, &mut state.config_maps, key)?;
    }
    for key in named.secrets.iter().chain(&named.templates) {
        load_secret(conn, state, key)?;
    }
    for key in named.templates {
        load_template(conn, state, key)?;
    }
    if *scope == Scope::Whole {
        // All customizations are loaded: one that is not there does not exist.
        return Ok(());
    }
    load_named_customizations(conn, state, named.customizations)
}

/// Loads the Agents that a changed AgentClassification may be about, and all classifications that
/// may be about an Agent in the state: without one of them, the Agent would lose its label.
fn load_around_classifications(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let mut changed_namespaces = BTreeSet::new();
    for change in state.agent_classifications.difference() {
        let row = change.after.or(change.before);
        changed_namespaces.extend(row.map(|row| row.metadata.namespace.clone()));
    }
    for namespace in changed_namespaces {
        load_agents_of_namespace(conn, state, &namespace)?;
    }
    load_classifications_of_agents(conn, state)
}

/// Loads the AgentClassifications of the namespaces of the Agents in the state.
fn load_classifications_of_agents(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let namespaces: BTreeSet<String> =
        state.agents.rows().map(|agent| agent.metadata.namespace.clone()).collect();
    for namespace in namespaces {
        for row in select_documents::<AgentClassification>(conn, Some(&namespace))? {
            if !state.agent_classifications.has_or_had(&row.metadata.key()) {
                state.agent_classifications.load(row);
            }
        }
    }
    Ok(())
}

/// Loads customizations by their names. From some number on it is faster to read whole namespaces.
fn load_named_customizations(
    conn: &Connection,
    state: &mut State,
    mut keys: Vec<Key>,
) -> Result<(), Refusal> {
    keys.retain(|key| !state.customizations.has_or_had(key));
    if keys.len() > MOST_SINGLE_LOOKUPS {
        let namespaces: BTreeSet<&str> = keys.iter().map(|key| key.namespace.as_str()).collect();
        for namespace in namespaces {
            load_customizations(conn, state, Some(namespace))?;
        }
        return Ok(());
    }
    for key in keys {
        load_customization(conn, state, &key)?;
    }
    Ok(())
}

/// Loads the free Agents of namespaces in which an edit has made a pool pick hosts: the pool may
/// pick any of them.
fn load_agents_for_newly_picking_pools(
    conn: &Connection,
    state: &mut State,
) -> Result<(), Refusal> {
    let mut namespaces = BTreeSet::new();
    for change in state.pools.difference() {
        let Some(pool) = change.after.filter(|pool| pool.picks_hosts()) else { continue };
        if !change.before.is_some_and(ClusterPool::picks_hosts) {
            namespaces.insert(pool.metadata.namespace.clone());
        }
    }
    for namespace in namespaces {
        load_free_agents_of_namespace(conn, state, &namespace)?;
    }
    Ok(())
}

/// Loads what Agents and hosts in the state belong to, and what belongs to clusters of hosts. An
/// Agent that is loaded may lead to a cluster, and a cluster to further Agents, so this goes on until
/// nothing is added.
fn load_around_agents_and_clusters(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let infra_envs: Vec<Key> = state.infra_envs.rows().map(InfraEnv::key).collect();
    for key in infra_envs {
        load_cluster_of_infra_env(conn, state, &key)?;
    }
    let mut first_new_agent = 0;
    let mut first_new_host = 0;
    let mut clusters_whose_hosts_are_loaded = BTreeSet::new();
    let mut clusters_whose_agents_are_loaded = BTreeSet::new();
    loop {
        let agents_before = state.agents.row_count();
        let hosts_before = state.hosts.row_count();
        let clusters_before = state.clusters.row_count();
        if !state.is_whole {
            let new_agents: Vec<Agent> =
                state.agents.iter_from(first_new_agent).map(|(_, agent)| agent.clone()).collect();
            first_new_agent = agents_before;
            for agent in &new_agents {
                load_around_agent(conn, state, agent, &mut clusters_whose_agents_are_loaded)?;
            }
            let new_hosts: Vec<BareMetalHost> =
                state.hosts.iter_from(first_new_host).map(|(_, host)| host.clone()).collect();
            first_new_host = state.hosts.row_count();
            for host in &new_hosts {
                load_agents_around_host(conn, state, host)?;
                let switched_on_for = host.status.switched_on_for.as_deref();
                for cluster in host.cluster().into_iter().chain(switched_on_for) {
                    if clusters_whose_hosts_are_loaded.insert(cluster.to_owned()) {
                        load_cluster_of_host(conn, state, cluster)?;
                    }
                }
            }
        }
        let clusters_of_hosts: Vec<String> = state
            .clusters
            .rows()
            .filter(|cluster| {
                cluster.is_made_of_agents()
                    || has_joining_agents(state, &cluster.name)
                    || state.agents.linked_to(&cluster.name).next().is_some()
            })
            .map(|cluster| cluster.name.clone())
            .collect();
        for name in clusters_of_hosts {
            if clusters_whose_agents_are_loaded.insert(name.clone()) {
                load_cluster_with_agents(conn, state, &name)?;
            }
        }
        if agents_before == state.agents.row_count()
            && hosts_before == state.hosts.row_count()
            && clusters_before == state.clusters.row_count()
        {
            return Ok(());
        }
    }
}

/// Whether a live job adds hosts to a cluster. Its outcome changes the Agents of those hosts.
fn has_joining_agents(state: &State, cluster: &str) -> bool {
    state.live_job(cluster).is_some_and(|(_, job)| job.verb == Verb::AddNodes)
}

/// Loads the InfraEnv of an Agent, its clusters with their other hosts, each cluster once, its host,
/// and all Agents and hosts that are the same machine.
fn load_around_agent(
    conn: &Connection,
    state: &mut State,
    agent: &Agent,
    clusters_whose_agents_are_loaded: &mut BTreeSet<String>,
) -> Result<(), Refusal> {
    if let Some(key) = agent.infra_env_key() {
        load_infra_env(conn, state, &key)?;
    }
    let mut clusters = Vec::new();
    clusters.extend(agent.requested_cluster().map(|cluster| cluster.name));
    clusters.extend(agent.bound_cluster().map(|cluster| cluster.name));
    if let Some(info) = &agent.status.deprovision_info {
        load_agents_that_left(conn, state, &info.cluster_name)?;
        clusters.push(info.cluster_name.clone());
    }
    for name in clusters {
        if !clusters_whose_agents_are_loaded.insert(name.clone()) {
            continue;
        }
        load_cluster(conn, state, &name)?;
        if state.find_cluster(&name).is_some() {
            load_cluster_with_agents(conn, state, &name)?;
        }
    }
    if let Some(key) = agent.host_key() {
        load_host(conn, state, &key)?;
    }
    load_agents_of_machine(conn, state, &agent.status.host_id)?;
    for mac in agent.identities() {
        load_agents_with_mac(conn, state, &mac)?;
        load_hosts_with_mac(conn, state, &mac)?;
    }
    Ok(())
}

/// Loads the Agents of a host, and those of the machine that boots from its MAC address.
fn load_agents_around_host(
    conn: &Connection,
    state: &mut State,
    host: &BareMetalHost,
) -> Result<(), Refusal> {
    load_agents_of_host(conn, state, &host.key())?;
    if host.spec.boot_mac_address.is_empty() {
        return Ok(());
    }
    load_agents_with_mac(conn, state, &host.spec.boot_mac_address.to_lowercase())
}

/// Loads a cluster that has a host, or for which the host was switched on, with its other hosts: they
/// are started and stopped together. Its Agents follow if it is made of them.
fn load_cluster_of_host(
    conn: &Connection,
    state: &mut State,
    cluster: &str,
) -> Result<(), Refusal> {
    load_cluster(conn, state, cluster)?;
    if state.find_cluster(cluster).is_none() {
        return Ok(());
    }
    load_hosts_of_cluster(conn, state, cluster)
}

/// Loads the IPPools that clusters of pools in the state take their addresses from, and the leases
/// of clusters that may take or give back an address in this pass.
fn load_addresses_of_clusters(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let mut ip_pools = Vec::new();
    for pool in state.pools.rows() {
        let names = pool.vip_pools().into_iter().chain(pool.node_address_pools());
        ip_pools.extend(names.map(|name| Key::new(&*pool.metadata.namespace, name)));
    }
    let clusters = collect_clusters_with_moving_addresses(state);
    for key in ip_pools {
        load_ip_pool(conn, state, &key)?;
    }
    for cluster in clusters {
        for lease in select_leases_of_cluster(conn, &cluster.namespace, &cluster.name)? {
            load_lease(state, lease);
        }
    }
    Ok(())
}

/// The clusters that may take or give back an address in this pass. The keys have their names, and
/// the namespaces of their addresses, which are those of their pools.
fn collect_clusters_with_moving_addresses(state: &State) -> Vec<Key> {
    let mut clusters = Vec::new();
    let added_hosts = state.agents.rows().filter(|agent| agent.is_day2());
    let clusters_with_added_hosts: HashSet<String> =
        added_hosts.filter_map(Agent::bound_cluster).map(|cluster| cluster.name).collect();
    for cluster in state.clusters.rows() {
        // A cluster that is to be left running may be removed in the pass in which that is asked
        // for.
        let is_going = cluster.deleting.is_some() || cluster.preserve;
        let has_added_hosts = clusters_with_added_hosts.contains(&cluster.name);
        if let Some(pool) = &cluster.pool
            && (is_going || !cluster.is_installed() || has_added_hosts)
        {
            clusters.push(Key::new(&*pool.namespace, &*cluster.name));
        }
    }
    for agent in state.agents.rows() {
        let namespace = agent.metadata.namespace.as_str();
        // A host that has left a cluster may be the last one that keeps its addresses from being
        // free.
        if let Some(info) = &agent.status.deprovision_info {
            clusters.push(Key::new(namespace, &*info.cluster_name));
        }
        // A node that is deleted gives its own addresses back.
        if agent.metadata.deletion_timestamp.is_some()
            && let Some(cluster) = agent.bound_cluster()
        {
            clusters.push(Key::new(namespace, cluster.name));
        }
    }
    clusters
}

/// Collects the names that pools and clusters in the state refer to.
fn collect_named_objects(state: &State) -> NamedObjects {
    let mut named = NamedObjects::default();
    for cluster in state.clusters.rows().filter(|cluster| !cluster.is_installed()) {
        named.customizations.extend(cluster.required_customization());
        named.image_sets.extend(cluster.required_image_set());
    }
    for cluster in state.clusters.rows().filter(|cluster| cluster.is_made_of_agents()) {
        named.image_sets.extend(cluster.named_image_set());
    }
    for pool in state.pools.rows() {
        let spec = &pool.spec;
        let namespace = pool.metadata.namespace.as_str();
        let template = spec.install_config_secret_template_ref.as_ref();
        named.image_sets.push(Key::new("", &*spec.image_set_ref.name));
        named.secrets.extend(key_of(namespace, spec.pull_secret_ref.as_ref()));
        named.secrets.extend(pool.credentials_secret().map(|name| Key::new(namespace, name)));
        named.secrets.extend(spec.platform.certificates().map(|name| Key::new(namespace, name)));
        named.secrets.extend(pool.ssh_key_secret().map(|name| Key::new(namespace, name)));
        let variable_secrets = pool.variable_secrets();
        named.secrets.extend(variable_secrets.into_iter().map(|name| Key::new(namespace, name)));
        let config_maps = pool.config_maps();
        named.config_maps.extend(config_maps.into_iter().map(|name| Key::new(namespace, name)));
        named.templates.extend(key_of(namespace, template));
        named.customizations.extend(key_of(namespace, spec.customization_ref.as_ref()));
        let listed = spec.inventory.iter().flatten();
        named.customizations.extend(listed.map(|entry| Key::new(namespace, &*entry.name)));
    }
    named
}

fn key_of(namespace: &str, reference: Option<&LocalRef>) -> Option<Key> {
    reference.map(|reference| Key::new(namespace, &*reference.name))
}
