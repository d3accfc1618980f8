//! Checks agents: what they belong to does not exist, or a machine is bound twice. Repairs nothing:
//! each problem names the command that helps.

use std::collections::HashMap;

use crate::commands::Context;
use crate::commands::doctor::Problems;
use crate::model::agent::{Agent, HOST_LABEL};
use crate::model::cluster::Cluster;
use crate::model::meta::Key;
use crate::model::state::{Scope, State};
use crate::plan::agents::clusters;
use crate::reconcile::Door;
use crate::store::{Filter, Store};

/// Everything that is wrong with agents.
pub fn find_problems(context: &Context, door: &Door<'_>) -> Problems {
    let (state, _) = door.load_for_dry_run(&Scope::Whole, &[])?;
    let mut problems = Vec::new();
    for agent in state.agents.rows() {
        find_missing_owners(context, &state, agent, &mut problems);
    }
    problems.extend(find_machines_bound_twice(context, &state));
    problems.extend(find_wrong_platforms(door.store)?);
    Ok(problems)
}

/// Cluster, InfraEnv and host that an agent names and that do not exist.
fn find_missing_owners(
    context: &Context,
    state: &State,
    agent: &Agent,
    problems: &mut Vec<String>,
) {
    let key = agent.key();
    let name = &key.name;
    let namespace_option = context.namespace_option(&key.namespace);
    if let Some(cluster) = agent.bound_cluster()
        && clusters::find_cluster(state, &cluster).is_none()
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
        Some(infra_env) if state.infra_envs.by_key(&infra_env).is_none() => problems.push(format!(
            "agent `{key}` belongs to InfraEnv `{0}`, which does not exist: \
             poolctl infraenv create {0} --pull-secret SECRET{namespace_option}",
            infra_env.name
        )),
        Some(_) => {}
    }
    if let Some(host) = agent.host_key()
        && state.hosts.by_key(&host).is_none()
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
}

/// Machines that are several bound agents.
fn find_machines_bound_twice(context: &Context, state: &State) -> Vec<String> {
    let mut agents_by_identity: HashMap<String, Key> = HashMap::new();
    let mut problems = Vec::new();
    for agent in state.agents.rows().filter(|agent| agent.bound_cluster().is_some()) {
        let key = agent.key();
        let mut same_machine = None;
        for identity in agent.identities() {
            let earlier = agents_by_identity.insert(identity, key.clone());
            same_machine = same_machine.or(earlier.filter(|earlier| *earlier != key));
        }
        if let Some(earlier) = same_machine {
            let name = &key.name;
            let namespace_option = context.namespace_option(&key.namespace);
            problems.push(format!(
                "agents `{earlier}` and `{key}` are the same machine, and both are bound: \
                 poolctl agent unbind {name}{namespace_option}"
            ));
        }
    }
    problems
}

/// Clusters that are marked as installed on hosts, or as not, against their platform. The mark is a
/// fact that follows from the document; a pass trusts it and does not read the document.
fn find_wrong_platforms(store: &Store) -> Problems {
    let mut problems = Vec::new();
    for mut cluster in store.list::<Cluster>(&Filter { whole: true, ..Filter::default() })? {
        let Some(body) = cluster.body.take() else { continue };
        let stored = cluster.by_agents;
        let platform = body.spec.platform.name();
        cluster.take_steering(&body.metadata, platform);
        if cluster.by_agents != stored {
            let Cluster { name, namespace, .. } = &cluster;
            let verb = if stored { "is" } else { "is not" };
            problems.push(format!(
                "cluster `{name}` {verb} recorded as installed on hosts, which contradicts its \
                 platform {platform}: poolctl get cluster {name} -n {namespace} -o yaml \
                 | poolctl apply -f -"
            ));
        }
    }
    Ok(problems)
}
