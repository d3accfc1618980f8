//! What pools refer to by name: image sets, secrets without values, templates, customizations.
//! Loaded with the scope, and again after an edit, which may have named others.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::model::cluster::Cluster;
use crate::model::documents::Stored;
use crate::model::meta::{Key, LocalRef};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State, Template};

use super::addresses;
use super::agents;
use super::documents::need;
use super::hosts;
use super::load::{
    customization, customizations, newly_named_pools, pools_of_members, secret, secret_value,
};

/// More names than this are not looked up one by one.
const MANY: usize = 20;
const TEMPLATE: &str = "install-config.yaml";

/// Names in the order they are looked up.
#[derive(Default)]
struct Named {
    image_sets: Vec<Key>,
    secrets: Vec<Key>,
    templates: Vec<Key>,
    customizations: Vec<Key>,
}

/// Loads what is not there yet. What an edit removed stays removed.
pub fn references(conn: &Connection, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
    newly_named_pools(conn, state)?;
    newly_picking(conn, state)?;
    hosts::beside(conn, state)?;
    addresses::beside(conn, state)?;
    agents::beside(conn, state)?;
    addresses::of_clusters(conn, state)?;
    let named = named(state);
    for key in &named.image_sets {
        need(conn, &mut state.image_sets, key)?;
    }
    for key in named.secrets.iter().chain(&named.templates) {
        secret(conn, state, key)?;
    }
    for key in named.templates {
        template(conn, state, key)?;
    }
    let mut wanted = named.customizations;
    if *scope == Scope::Whole {
        // All of them were loaded; what is not there does not exist.
        return Ok(());
    }
    wanted.retain(|key| !state.customizations.knows(key));
    if wanted.len() > MANY {
        for namespace in wanted.iter().map(|key| key.namespace.as_str()).collect::<BTreeSet<_>>() {
            customizations(conn, Some(namespace), state)?;
        }
        return Ok(());
    }
    for key in &wanted {
        customization(conn, state, key)?;
    }
    Ok(())
}

/// All Agents that a pool may pick that has just begun to pick any.
fn newly_picking(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let picks = |one: Option<&ClusterPool>| one.is_some_and(ClusterPool::picks_hosts);
    let new = state.pools.difference().filter(|one| picks(one.after) && !picks(one.before));
    let new = new.filter_map(|one| Some(one.after?.metadata.namespace.clone()));
    for namespace in new.collect::<BTreeSet<_>>() {
        agents::of_namespace(conn, state, &namespace)?;
    }
    Ok(())
}

/// Before anything is decided: all that belongs to what came along with the scope.
pub fn complete(conn: &Connection, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
    loop {
        let known = state.pools.places();
        pools_of_members(conn, state)?;
        if known == state.pools.places() {
            return Ok(());
        }
        references(conn, scope, state)?;
    }
}

fn named(state: &State) -> Named {
    let mut named = Named::default();
    let unfinished = state.clusters.rows().filter(|one| !one.installed());
    named.customizations.extend(unfinished.filter_map(Cluster::required));
    for one in state.clusters.rows().filter(|one| one.takes_hosts()) {
        let body = one.body.as_ref().and_then(|body| body.spec.provisioning.as_ref());
        let set = body.and_then(|one| one.image_set_ref.as_ref());
        named.image_sets.extend(set.map(|set| Key::new("", &*set.name)));
    }
    for pool in state.pools.rows() {
        let (spec, namespace) = (&pool.spec, pool.metadata.namespace.as_str());
        let of = |one: &Option<LocalRef>| one.as_ref().map(|one| Key::new(namespace, &*one.name));
        named.image_sets.push(Key::new("", &*spec.image_set_ref.name));
        named.secrets.extend(of(&spec.pull_secret_ref));
        named.secrets.extend(pool.credentials().map(|name| Key::new(namespace, name)));
        named.templates.extend(of(&spec.install_config_secret_template_ref));
        named.customizations.extend(of(&spec.customization_ref));
        let listed = spec.inventory.iter().flatten();
        named.customizations.extend(listed.map(|entry| Key::new(namespace, &*entry.name)));
    }
    named
}

/// What a cluster that was applied by hand is installed from.
pub fn cluster_template(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    let cluster = state.cluster(name).and_then(|at| state.clusters.get(at));
    let Some(key) = cluster.and_then(Cluster::install_config) else { return Ok(()) };
    secret(conn, state, &key)?;
    template(conn, state, key)
}

/// The text of a template: as an edit has it, else as the state has it.
fn template(conn: &Connection, state: &mut State, key: Key) -> Result<(), Refusal> {
    let secret = state.secrets.by_key(&key);
    match secret.and_then(|secret| secret.values.get(TEMPLATE)) {
        Some(Stored::New(text) | Stored::Loaded(text)) => {
            let template = Template::new(text.clone());
            state.templates.insert(key, template);
        }
        Some(Stored::Kept) if !state.templates.contains_key(&key) => {
            if let Some(text) = secret_value(conn, &key, TEMPLATE)? {
                state.templates.insert(key, Template::new(text));
            }
        }
        Some(Stored::Kept) => {}
        Some(Stored::CopyOf(_)) | None => {
            state.templates.remove(&key);
        }
    }
    Ok(())
}
