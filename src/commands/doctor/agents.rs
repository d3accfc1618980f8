//! Checks agents: what they belong to does not exist, or a machine is bound twice. Repairs nothing:
//! each problem names the command that helps.

use std::collections::{HashMap, HashSet};

use crate::commands::Context;
use crate::commands::doctor::Problems;
use crate::model::agent::{Agent, HOST_LABEL};
use crate::model::cluster::Cluster;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::store::Store;

/// What agents may belong to. There may be many clusters: they are looked up one by one.
struct Owners<'a> {
    store: &'a Store,
    infra_envs: HashSet<Key>,
    hosts: HashSet<Key>,
}

/// Everything that is wrong with agents.
pub fn find_problems(context: &Context, store: &Store) -> Problems {
    let infra_envs = store.list_names(Kind::InfraEnv)?.into_iter().collect();
    let hosts = store.list_names(Kind::BareMetalHost)?.into_iter().collect();
    let owners = Owners { store, infra_envs, hosts };
    let mut problems = Vec::new();
    let mut machines_bound_twice = Vec::new();
    let mut agents_by_identity: HashMap<String, Key> = HashMap::new();
    store.visit_resources::<Agent>(None, &mut |agent| {
        find_missing_owners(context, &owners, &agent, &mut problems)?;
        if agent.bound_cluster().is_some() {
            let problem = find_machine_bound_twice(context, &agent, &mut agents_by_identity);
            machines_bound_twice.extend(problem);
        }
        Ok(())
    })?;
    problems.extend(machines_bound_twice);
    Ok(problems)
}

/// Cluster, InfraEnv and host that an agent names and that do not exist.
fn find_missing_owners(
    context: &Context,
    owners: &Owners<'_>,
    agent: &Agent,
    problems: &mut Vec<String>,
) -> Result<(), Refusal> {
    let key = agent.key();
    let name = &key.name;
    let namespace_option = context.namespace_option(&key.namespace);
    if let Some(cluster) = agent.bound_cluster()
        && owners.store.find::<Cluster>(&cluster)?.is_none()
    {
        // In the middle of an installation only a pass unbinds it.
        let next = if agent.state().is_installing() {
            "poolctl reconcile".to_owned()
        } else {
            format!("poolctl agent unbind {name}{namespace_option}")
        };
        problems.push(format!(
            "agent `{key}` is bound to cluster `{}`, which does not exist: {next}",
            cluster.name
        ));
    }
    match agent.infra_env_key() {
        None => problems.push(format!(
            "agent `{key}` belongs to no InfraEnv: poolctl delete agent {name}{namespace_option}"
        )),
        Some(infra_env) if !owners.infra_envs.contains(&infra_env) => problems.push(format!(
            "agent `{key}` belongs to InfraEnv `{0}`, which does not exist: \
             poolctl infraenv create {0} --pull-secret SECRET{namespace_option}",
            infra_env.name
        )),
        Some(_) => {}
    }
    if let Some(host) = agent.host_key()
        && !owners.hosts.contains(&host)
    {
        let next = if agent.status.found_by_controller {
            format!("poolctl delete agent {name}{namespace_option}")
        } else {
            format!("poolctl label agent {name} {HOST_LABEL}-{namespace_option}")
        };
        problems.push(format!(
            "agent `{key}` names host `{}`, which does not exist: {next}",
            host.name
        ));
    }
    Ok(())
}

/// Whether a bound agent is the same machine as one that was looked at before.
fn find_machine_bound_twice(
    context: &Context,
    agent: &Agent,
    agents_by_identity: &mut HashMap<String, Key>,
) -> Option<String> {
    let key = agent.key();
    let mut same_machine = None;
    for identity in agent.identities() {
        let earlier = agents_by_identity.insert(identity, key.clone());
        same_machine = same_machine.or(earlier.filter(|earlier| *earlier != key));
    }
    let earlier = same_machine?;
    let name = &key.name;
    let namespace_option = context.namespace_option(&key.namespace);
    Some(format!(
        "agents `{earlier}` and `{key}` are the same machine, and both are bound: \
         poolctl agent unbind {name}{namespace_option}"
    ))
}
