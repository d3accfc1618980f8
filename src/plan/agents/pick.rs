//! Hosts for a cluster of a pool: all that it needs, or exactly what is short.

use serde_json::Value;

use crate::model::agent::needs::Needs;
use crate::model::agent::{Agent, HostState, Role};
use crate::model::infra_env::{InfraEnv, LabelSelector};
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules::validations::fit;

use super::{binding, clusters, roles};

/// The most reasons that are said of hosts that do not do.
const SAID: usize = 3;

/// Places of the hosts that a new cluster gets; none for a pool that asks for none.
pub fn hosts(state: &State, pool: &ClusterPool, base: &Value) -> Result<Vec<usize>, String> {
    let Some(platform) = &pool.spec.platform.agent_bare_metal else { return Ok(Vec::new()) };
    let selector = platform.agent_selector.clone().unwrap_or_default();
    let selector: LabelSelector = serde_json::from_value(Value::Object(selector))
        .map_err(|error| format!("agentSelector: {error}"))?;
    let needs = clusters::of_document(base);
    let architecture = clusters::architecture_of(base);
    let unfit = |one: &Agent, role: Role| misfit(state, one, role, &needs, architecture.as_deref());
    let (masters, workers) = (needs.masters.unwrap_or(3), needs.workers.unwrap_or(0));
    let namespace = &pool.metadata.namespace;
    let listed = state.agents.iter().filter(|(_, one)| {
        one.metadata.namespace == *namespace && selector.matches(&one.metadata.labels)
    });
    let (mut left, busy): (Vec<_>, Vec<_>) =
        listed.partition(|(_, one)| not_free(state, one).is_none());
    left.sort_by_cached_key(|(_, one)| roles::rank(one));
    let mut picked = Vec::new();
    for (role, many, word) in [(Role::Master, masters, "master"), (Role::Worker, workers, "worker")]
    {
        let many = usize::try_from(many).unwrap_or(usize::MAX);
        let (good, bad): (Vec<_>, Vec<_>) =
            left.iter().copied().partition(|(_, one)| unfit(one, role).is_none());
        if good.len() < many {
            let labels = described(&selector);
            let text = format!("needs {many} {word}-capable agents{labels}; {} free", good.len());
            let wrong = bad
                .iter()
                .filter_map(|(_, one)| Some(format!("{}: {}", one.hostname(), unfit(one, role)?)));
            let taken = busy.iter().filter_map(|(_, one)| {
                Some(format!("{}: {}", one.hostname(), not_free(state, one)?))
            });
            let why: Vec<String> = wrong.chain(taken).collect();
            if !why.is_empty() {
                let more = why.len().saturating_sub(SAID);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let said = why[..why.len().min(SAID)].join("; ");
                return Err(format!("{text}, {} not ({said}{more})", why.len()));
            }
            return Err(text);
        }
        let chosen: Vec<usize> = good.iter().take(many).map(|(at, _)| *at).collect();
        left.retain(|(at, _)| !chosen.contains(at));
        picked.extend(chosen);
    }
    Ok(picked)
}

fn described(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.iter().map(|one| {
        format!("{} {} {}", one.key, one.operator, one.values.join("|")).trim().to_owned()
    });
    let all: Vec<String> = labels.chain(others).collect();
    if all.is_empty() { String::new() } else { format!(" matching {}", all.join(", ")) }
}

/// Why nobody can have a host now.
pub fn not_free(state: &State, one: &Agent) -> Option<String> {
    if let Some(cluster) = one.bound_to().or(one.wanted()) {
        return Some(format!("has cluster {}", cluster.name));
    }
    if one.metadata.deletion_timestamp.is_some() {
        return Some("is being deleted".into());
    }
    if one.state() != HostState::KnownUnbound {
        return Some(format!("is {}: {}", one.state(), binding::why_not(one)));
    }
    if !one.spec.approved {
        return Some("is not approved".into());
    }
    let environment = one.infra_env().and_then(|key| state.infra_envs.by_key(&key));
    if environment.and_then(InfraEnv::cluster).is_some() {
        return Some("is of an InfraEnv with a cluster".into());
    }
    binding::kept(state, one)
}

/// Why a free host is not good enough.
fn misfit(
    state: &State,
    one: &Agent,
    role: Role,
    needs: &Needs,
    architecture: Option<&str>,
) -> Option<String> {
    let environment = one.infra_env().and_then(|key| state.infra_envs.by_key(&key));
    if let Some(why) = environment.and_then(|its| binding::other_architecture(its, architecture)) {
        return Some(why);
    }
    if !matches!(one.spec.role, Role::AutoAssign) && one.spec.role != role {
        return Some(format!("is to be a {}", one.spec.role.name()));
    }
    let found = one.status.inventory.as_ref()?;
    fit(found, role, needs.is_sno()).into_iter().next()
}

/// Binds what was picked, with the cluster that it was picked for.
pub fn take(state: &mut State, hosts: &[usize], cluster: &Key, tick: &Tick) {
    for at in hosts {
        binding::give(state, *at, cluster, tick);
    }
}
