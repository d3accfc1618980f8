//! Picks the hosts for a new cluster of a pool: all that it needs, or none and what is short. It
//! changes nothing before the cluster is made.

use serde_json::Value;

use crate::model::agent::facts::HostBook;
use crate::model::agent::needs::HostNeeds;
use crate::model::agent::{Agent, HostState, Role, Validation};
use crate::model::host::CLUSTER_REFERENCE;
use crate::model::infra_env::LabelSelector;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::typed::read_value;
use crate::rules::validations::{
    ClusterContext, blocks_installation, ignored_validations, missing_requirements, validate_agent,
};

use super::clusters::{architecture_of_install_config, needs_of_install_config};
use super::spread::{QueuedHost, SpreadQueue};
use super::{binding, roles};

/// How many of the hosts that are not good enough are named.
const MAX_NAMED: usize = 3;

/// The Agents that a new cluster gets, masters first; none for a pool that asks for none. `base` is
/// the install-config of the cluster. The error says what is short and why other hosts do not do.
pub fn pick_agents(
    state: &State,
    pool: &ClusterPool,
    base: &Value,
    book: &dyn HostBook,
    tick: &Tick,
) -> Result<Vec<AgentId>, String> {
    let Some(platform) = &pool.spec.platform.agent_bare_metal else { return Ok(Vec::new()) };
    let selector = platform.agent_selector.clone().unwrap_or_default();
    let selector: LabelSelector = read_value(&Value::Object(selector))
        .map_err(|message| format!("agentSelector: {message}"))?;
    let mut needs = needs_of_install_config(base);
    needs.ignored = ignored_validations(&pool.spec.annotations);
    needs.spread_by = pool.spread_label().map(str::to_owned);
    let architecture = architecture_of_install_config(base);
    let free = list_free_agents(state, pool, &selector);
    let mut picker = Picker { state, needs: &needs, architecture, tick, free, picked: Vec::new() };
    let masters = needs.masters.unwrap_or(3);
    let workers = needs.workers.unwrap_or(0);
    for (role, needed) in [(Role::Master, masters), (Role::Worker, workers)] {
        if let Err(shortage) = picker.pick_role(role, needed) {
            let taken = describe_taken_agents(state, pool, &selector, book);
            return Err(shortage.describe(&selector, taken));
        }
    }
    Ok(picker.picked.into_iter().map(|(agent_id, _)| agent_id).collect())
}

/// The Agents in the state that a pool selects, in the order of their rows, whatever was loaded first.
/// New ones have no row yet and come last.
fn list_selected_agents<'a>(
    state: &'a State,
    pool: &ClusterPool,
    selector: &LabelSelector,
) -> Vec<(AgentId, &'a Agent)> {
    let mut agents: Vec<(AgentId, &Agent)> = state.agents.iter().collect();
    agents.retain(|(_, agent)| {
        let metadata = &agent.metadata;
        metadata.namespace == pool.metadata.namespace && selector.matches(&metadata.labels)
    });
    agents.sort_by_key(|(_, agent)| row_order(agent.metadata.id));
    agents
}

/// Rows come in the order of their ids; a new Agent has the id 0 until it is written.
fn row_order(id: i64) -> (bool, i64) {
    (id == 0, id)
}

/// The free Agents that a pool selects, in the order in which they are tried.
fn list_free_agents<'a>(
    state: &'a State,
    pool: &ClusterPool,
    selector: &LabelSelector,
) -> Vec<(AgentId, &'a Agent)> {
    let mut free = list_selected_agents(state, pool, selector);
    free.retain(|(_, agent)| why_not_free(state, agent).is_none());
    // Hosts that can have one role only come first, so that the others are left for either role.
    free.sort_by_cached_key(|(_, agent)| {
        (agent.spec.role == Role::AutoAssign, roles::usage_rank(agent))
    });
    free
}

/// Why each other Agent that a pool selects is not free, in the order of their rows. A pool that is
/// planned alone has no Agents of clusters in its state: they are looked up.
fn describe_taken_agents(
    state: &State,
    pool: &ClusterPool,
    selector: &LabelSelector,
    book: &dyn HostBook,
) -> Vec<String> {
    let mut taken = Vec::new();
    for (_, agent) in list_selected_agents(state, pool, selector) {
        if let Some(why) = why_not_free(state, agent) {
            taken.push((row_order(agent.metadata.id), format!("{}: {why}", agent.hostname())));
        }
    }
    if !state.has_all_hosts {
        for agent in book.agents_with_cluster(&pool.metadata.namespace) {
            if !state.agents.has_or_had_stored(agent.id) && selector.matches(&agent.labels()) {
                let why =
                    describe_cluster_of_host(&agent.bound.or(agent.wanted).unwrap_or_default());
                taken.push((row_order(agent.id), format!("{}: {why}", agent.hostname)));
            }
        }
    }
    taken.sort_by_key(|(order, _)| *order);
    taken.into_iter().map(|(_, why)| why).collect()
}

/// `4 unusable (a: ...; b: ...; c: ... and 1 more)`
fn describe_problems(problems: &[String]) -> String {
    let count = problems.len();
    let named = &problems[..count.min(MAX_NAMED)];
    let unnamed = count - named.len();
    let rest = if unnamed > 0 { format!(" and {unnamed} more") } else { String::new() };
    format!("{count} unusable ({}{rest})", named.join("; "))
}

/// ` matching rack=7, zone In a|b`, or nothing for a selector that selects all.
fn describe_selector(selector: &LabelSelector) -> String {
    let mut requirements: Vec<String> =
        selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    for requirement in &selector.match_expressions {
        let values = requirement.values.join("|");
        let expression = format!("{} {} {values}", requirement.key, requirement.operator);
        requirements.push(expression.trim().to_owned());
    }
    if requirements.is_empty() {
        return String::new();
    }
    format!(" matching {}", requirements.join(", "))
}

/// Why a host that has a cluster or asks for one is not free. By this alone a pool knows the hosts that
/// are not in its state: see `load_free_agents_of_namespace`.
fn describe_cluster_of_host(cluster: &str) -> String {
    format!("has cluster {cluster}")
}

/// Why no cluster can have a host now; none: it is free.
pub fn why_not_free(state: &State, agent: &Agent) -> Option<String> {
    if let Some(cluster) = agent.bound_cluster().or(agent.requested_cluster()) {
        return Some(describe_cluster_of_host(&cluster.name));
    }
    if agent.metadata.deletion_timestamp.is_some() {
        return Some("is being deleted".into());
    }
    if agent.state() != HostState::KnownUnbound {
        return Some(format!("is {}: {}", agent.state(), binding::why_not_known(agent)));
    }
    if !agent.spec.approved {
        return Some("is not approved".into());
    }
    let Some(infra_env) = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key))
    else {
        return Some("has no InfraEnv: the InfraEnv that its label names does not exist".into());
    };
    if let Some(host) = agent.host_key().and_then(|key| state.hosts.by_key(&key)) {
        if host.status.error_count > 0 {
            return Some(format!("has an error: {}", host.status.error_message));
        }
        if host.metadata.has_annotation(CLUSTER_REFERENCE) {
            return Some("gets its cluster from an annotation of its BareMetalHost".into());
        }
    }
    if infra_env.cluster_key().is_some() {
        return Some("belongs to an InfraEnv that has a cluster".into());
    }
    binding::why_kept_back(state, agent)
}

/// Too few hosts for a role.
struct RoleShortage {
    role: Role,
    needed: u64,
    picked: u64,
    /// The name of each host that was not good enough, and why: `NAME: REASON`.
    problems: Vec<String>,
}

impl RoleShortage {
    /// What is short, and why other hosts that the pool selects do not do. `taken` says it of hosts
    /// that are not free.
    fn describe(self, selector: &LabelSelector, taken: Vec<String>) -> String {
        let Self { role, needed, picked, mut problems } = self;
        let role_name = role.name();
        let labels = describe_selector(selector);
        let agents = if needed == 1 { "agent" } else { "agents" };
        let summary = format!("needs {needed} {role_name}-capable {agents}{labels}; {picked} free");
        problems.extend(taken);
        if problems.is_empty() {
            return summary;
        }
        format!("{summary}, {}", describe_problems(&problems))
    }
}

/// Picks hosts for one cluster.
struct Picker<'a> {
    state: &'a State,
    needs: &'a HostNeeds,
    architecture: Option<String>,
    tick: &'a Tick,
    /// The hosts that may still be picked, in the order in which they are tried.
    free: Vec<(AgentId, &'a Agent)>,
    picked: Vec<(AgentId, &'a Agent)>,
}

impl Picker<'_> {
    /// Picks so many hosts for a role.
    fn pick_role(&mut self, role: Role, needed: u64) -> Result<(), RoleShortage> {
        let mut picked = 0;
        let mut problems = Vec::new();
        let label = if role == Role::Master { self.needs.spread_by.as_deref() } else { None };
        let mut queue = SpreadQueue::new(label, std::mem::take(&mut self.free));
        let mut left_over = Vec::new();
        while let Some(QueuedHost { order, place, key, agent }) = queue.pop() {
            if picked == needed {
                left_over.push((order, key, agent));
            } else if let Some(problem) = self.find_problem(agent, role) {
                problems.push(format!("{}: {problem}", agent.hostname()));
                left_over.push((order, key, agent));
            } else {
                picked += 1;
                queue.choose(place);
                self.picked.push((key, agent));
            }
        }
        left_over.sort_unstable_by_key(|(order, ..)| *order);
        self.free = left_over.into_iter().map(|(_, key, agent)| (key, agent)).collect();
        if picked < needed {
            return Err(RoleShortage { role, needed, picked, problems });
        }
        Ok(())
    }

    /// Why a free host is not good enough beside those that are picked already: it fails a check
    /// that would keep it from being installed, once it is bound.
    fn find_problem(&self, agent: &Agent, role: Role) -> Option<String> {
        let infra_env = agent.infra_env_key().and_then(|key| self.state.infra_envs.by_key(&key))?;
        let mismatch = binding::architecture_mismatch(infra_env, self.architecture.as_deref());
        if mismatch.is_some() {
            return mismatch;
        }
        if agent.spec.role != Role::AutoAssign && agent.spec.role != role {
            return Some(format!("has role {}", agent.spec.role.name()));
        }
        let inventory = agent.inventory()?;
        let other_agents: Vec<&Agent> = self.picked.iter().map(|(_, agent)| *agent).collect();
        let context = ClusterContext { needs: self.needs, other_agents: &other_agents };
        let results = validate_agent(agent, role, Some(&context), self.tick.now);
        let failures: Vec<&Validation> = results
            .values()
            .flatten()
            .filter(|result| result.status == "failure" && blocks_installation(result))
            .collect();
        // What the machine lacks is said in fewer words than the checks have.
        let mut problems = missing_requirements(inventory, self.needs.node_role(role));
        problems.retain(|(id, _)| failures.iter().any(|failure| failure.id == *id));
        if problems.is_empty() {
            return failures.first().map(|failure| failure.message.clone());
        }
        let problems: Vec<String> = problems.into_iter().map(|(_, problem)| problem).collect();
        Some(problems.join(", "))
    }
}

/// Binds the hosts that were picked to the cluster that they were picked for.
pub fn bind_picked_agents(state: &mut State, agent_ids: &[AgentId], cluster: &Key, tick: &Tick) {
    for agent_id in agent_ids {
        binding::bind_picked_agent(state, *agent_id, cluster, tick);
    }
}
