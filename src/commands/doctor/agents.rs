//! What is wrong with hosts: what they belong to is not there, or a machine is bound twice.

use std::collections::HashMap;

use crate::commands::Context;
use crate::commands::doctor::Looked;
use crate::model::agent::{Agent, BMH};
use crate::model::cluster::Cluster;
use crate::model::meta::Key;
use crate::model::state::{Scope, State};
use crate::plan::agents::clusters;
use crate::reconcile::Door;
use crate::store::{Filter, Store};

pub fn look(context: &Context, door: &Door<'_>) -> Looked {
    let (state, _) = door.imagine(&Scope::Whole, &[])?;
    let mut found: Vec<String> =
        state.agents.rows().flat_map(|one| astray(context, &state, one)).collect();
    found.extend(twice(context, &state));
    found.extend(misread(door.store)?);
    Ok(found)
}

/// What a host names and is not there.
fn astray(context: &Context, state: &State, one: &Agent) -> Vec<String> {
    let (key, mut found) = (one.key(), Vec::new());
    let (name, at) = (&key.name, context.in_namespace(&key.namespace));
    if let Some(cluster) = one.bound_to().filter(|cluster| clusters::at(state, cluster).is_none()) {
        // In the middle of an installation only a pass lets go of it.
        let next = if one.state().is_installing() {
            "poolctl reconcile".to_owned()
        } else {
            format!("poolctl agent unbind {name}{at}")
        };
        found.push(format!(
            "agent `{key}` is bound to cluster `{}`, which is not there: {next}",
            cluster.name
        ));
    }
    match one.infra_env() {
        None => {
            found.push(format!("agent `{key}` is of no InfraEnv: poolctl delete agent {name}{at}"));
        }
        Some(of) if state.infra_envs.by_key(&of).is_none() => found.push(format!(
            "agent `{key}` is of InfraEnv `{0}`, which is not there: \
             poolctl infraenv create {0} --pull-secret SECRET{at}",
            of.name
        )),
        Some(_) => {}
    }
    if let Some(host) = one.bmh().filter(|host| state.hosts.by_key(host).is_none()) {
        let next = if one.status.found {
            format!("poolctl delete agent {name}{at}")
        } else {
            format!("poolctl label agent {name} {BMH}-{at}")
        };
        found.push(format!("agent `{key}` is host `{}`, which is not there: {next}", host.name));
    }
    found
}

/// Machines that are several bound Agents.
fn twice(context: &Context, state: &State) -> Vec<String> {
    let mut known: HashMap<String, Key> = HashMap::new();
    let mut found = Vec::new();
    for one in state.agents.rows().filter(|one| one.bound_to().is_some()) {
        let key = one.key();
        let mut others = Vec::new();
        for word in one.identities() {
            others.extend(known.insert(word, key.clone()).filter(|other| *other != key));
        }
        if let Some(other) = others.first() {
            let (name, at) = (&key.name, context.in_namespace(&key.namespace));
            found.push(format!(
                "agents `{other}` and `{key}` are one machine, and both are bound: \
                 poolctl agent unbind {name}{at}"
            ));
        }
    }
    found
}

/// Clusters of which it is written down wrongly whether they are installed on hosts.
fn misread(store: &Store) -> Looked {
    let mut problems = Vec::new();
    for mut cluster in store.list::<Cluster>(&Filter { whole: true, ..Filter::default() })? {
        let (Some(body), written) = (cluster.body.take(), cluster.by_agents) else { continue };
        let platform = body.spec.platform.name();
        cluster.take_steering(&body.metadata, platform);
        if cluster.by_agents != written {
            let (name, at) = (&cluster.name, &cluster.namespace);
            let what = if written { "is" } else { "is not" };
            problems.push(format!(
                "cluster `{name}` {what} taken for one that is installed on hosts, against its \
                 platform {platform}: poolctl get cluster {name} -n {at} -o yaml | poolctl apply -f -"
            ));
        }
    }
    Ok(problems)
}
