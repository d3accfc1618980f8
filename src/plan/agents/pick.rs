//! Hosts for a cluster of a pool: all that it needs, or exactly what is short.

use serde_json::Value;

use crate::model::agent::needs::Needs;
use crate::model::agent::{Agent, HostState, Role, Validation};
use crate::model::host::CLUSTER_REFERENCE;
use crate::model::infra_env::LabelSelector;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::rules::validations::{Around, holds_up, ignored, lacks, validate};

use super::{binding, clusters, roles};

/// The most reasons that are said of hosts that do not do.
const SAID: usize = 3;

/// Places of the hosts that a new cluster gets; none for a pool that asks for none.
pub fn hosts(
    state: &State,
    pool: &ClusterPool,
    base: &Value,
    tick: &Tick,
) -> Result<Vec<AgentId>, String> {
    let Some(platform) = &pool.spec.platform.agent_bare_metal else { return Ok(Vec::new()) };
    let selector = platform.agent_selector.clone().unwrap_or_default();
    let selector: LabelSelector = serde_json::from_value(Value::Object(selector))
        .map_err(|error| format!("agentSelector: {error}"))?;
    let mut needs = clusters::of_document(base);
    needs.ignored = ignored(&pool.spec.annotations);
    let desk = Desk { state, needs: &needs, architecture: clusters::architecture_of(base), tick };
    let (masters, workers) = (needs.masters.unwrap_or(3), needs.workers.unwrap_or(0));
    let namespace = &pool.metadata.namespace;
    let listed = state.agents.iter().filter(|(_, one)| {
        one.metadata.namespace == *namespace && selector.matches(&one.metadata.labels)
    });
    let (mut left, busy): (Vec<_>, Vec<_>) =
        listed.partition(|(_, one)| not_free(state, one).is_none());
    // Those that can be one thing only come first.
    left.sort_by_cached_key(|(_, one)| (one.spec.role == Role::AutoAssign, roles::rank(one)));
    let mut picked: Vec<(AgentId, &Agent)> = Vec::new();
    for (role, many, word) in [(Role::Master, masters, "master"), (Role::Worker, workers, "worker")]
    {
        let many = usize::try_from(many).unwrap_or(usize::MAX);
        let (mut rest, mut why, mut found) = (Vec::new(), Vec::new(), 0);
        for (at, one) in left {
            if found == many {
                rest.push((at, one));
                continue;
            }
            let others: Vec<&Agent> = picked.iter().map(|(_, one)| *one).collect();
            if let Some(wrong) = desk.misfit(one, role, &others) {
                why.push(format!("{}: {wrong}", one.hostname()));
                rest.push((at, one));
            } else {
                found += 1;
                picked.push((at, one));
            }
        }
        if found < many {
            let labels = described(&selector);
            let text = format!("needs {many} {word}-capable agents{labels}; {found} free");
            why.extend(busy.iter().filter_map(|(_, one)| {
                Some(format!("{}: {}", one.hostname(), not_free(state, one)?))
            }));
            return Err(if why.is_empty() { text } else { format!("{text}, {}", others(&why)) });
        }
        left = rest;
    }
    Ok(picked.into_iter().map(|(at, _)| at).collect())
}

/// `4 not (a: ...; b: ...; c: ... and 1 more)`
fn others(why: &[String]) -> String {
    let more = why.len().saturating_sub(SAID);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} not ({}{more})", why.len(), why[..why.len().min(SAID)].join("; "))
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
    let Some(environment) = one.infra_env().and_then(|key| state.infra_envs.by_key(&key)) else {
        return Some("has no InfraEnv: the one that its label names is not there".into());
    };
    let host = one.bmh().and_then(|key| state.hosts.by_key(&key));
    if let Some(host) = host.filter(|host| host.status.error_count > 0) {
        return Some(format!("does not answer: {}", host.status.error_message));
    }
    if host.is_some_and(|host| host.metadata.annotated_at_all(CLUSTER_REFERENCE)) {
        return Some("has its cluster by what its BareMetalHost is annotated with".into());
    }
    if environment.cluster().is_some() {
        return Some("is of an InfraEnv with a cluster".into());
    }
    binding::kept(state, one)
}

/// What the hosts of a cluster are picked by.
struct Desk<'a> {
    state: &'a State,
    needs: &'a Needs,
    architecture: Option<String>,
    tick: &'a Tick,
}

impl Desk<'_> {
    /// Why a free host is not good enough beside those that are picked already: all that it would be
    /// held up by, once it is bound.
    fn misfit(&self, one: &Agent, role: Role, others: &[&Agent]) -> Option<String> {
        let environment = one.infra_env().and_then(|key| self.state.infra_envs.by_key(&key))?;
        if let Some(why) = binding::other_architecture(environment, self.architecture.as_deref()) {
            return Some(why);
        }
        if one.spec.role != Role::AutoAssign && one.spec.role != role {
            return Some(format!("is to be a {}", one.spec.role.name()));
        }
        let found = one.status.inventory.as_ref()?;
        let around = Around { needs: self.needs, others };
        let all = validate(one, role, Some(&around), self.tick.now);
        let wrong = all.values().flatten().filter(|one| one.status == "failure" && holds_up(one));
        let wrong: Vec<&Validation> = wrong.collect();
        // What it lacks is said in fewer words than the checks have.
        let lacks = lacks(found, role, self.needs.is_sno());
        let lacks = lacks.iter().filter(|(id, _)| wrong.iter().any(|one| one.id == *id));
        let lacks: Vec<&str> = lacks.map(|(_, why)| why.as_str()).collect();
        let first = wrong.first().map(|one| one.message.clone());
        if lacks.is_empty() { first } else { Some(lacks.join(", ")) }
    }
}

/// Binds what was picked, with the cluster that it was picked for.
pub fn take(state: &mut State, hosts: &[AgentId], cluster: &Key, tick: &Tick) {
    for at in hosts {
        binding::give(state, *at, cluster, tick);
    }
}
