//! `agent bind|unbind`: asks that machines become nodes of a cluster, or leave it. The pass binds
//! and unbinds them; a machine that it refuses fails the whole command.

pub mod find;
pub mod fit;
pub mod machine;
pub mod refused;
pub mod remove;
pub mod set;

use std::cell::RefCell;

use clap::Args;

use crate::model::agent::{Agent, ClusterReference, HostState};
use crate::model::annotations::BOUND_BY;
use crate::model::cluster::Cluster;
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, NextStep, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::plan::agents;
use crate::plan::agents::conditions::SPEC_SYNCED;
use crate::rules;
use crate::rules::access::AccessAction;
use crate::store::{NeededObject, Store};

use crate::commands::agent::refused::{Refused, RefusedChange, record_refusals};
use crate::commands::agent::set::{RoleWord, parse_role};
use crate::commands::{Context, RunCommand, target};

/// Arguments of `agent bind`. All agents are bound in one transaction, or none is.
#[derive(Args)]
pub struct Bind {
    /// Agents to bind
    #[arg(value_name = "AGENT", required = true)]
    names: Vec<String>,
    /// Cluster that they join: CLUSTER or NAMESPACE/CLUSTER
    #[arg(long, value_name = "CLUSTER")]
    cluster: String,
    /// Also bind agents that are not ready yet, as soon as they are ready
    #[arg(long)]
    when_ready: bool,
    /// Role of these agents in the cluster
    #[arg(long, value_parser = RoleWord)]
    role: Option<String>,
}

impl RunCommand for Bind {
    const NAME: &'static str = "bind";
    const ABOUT: &'static str = "Bind agents to a cluster, all or none";
    const EXAMPLE: &'static str = "poolctl agent bind node-1 node-2 --cluster edge --when-ready";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let cluster_key = self.find_cluster(context, &store)?.key();
        let agent_keys = find_agent_keys(context, &store, &self.names)?;
        let mut needs = agent_needs(&agent_keys);
        needs.push(NeededObject { kind: Kind::ClusterDeployment, key: cluster_key.clone() });
        // The edit adds to it, and so does the check of what the pass has made of the edit.
        let refused_agents = RefCell::new(Vec::new());
        let bound = context.door(&store).change_if_accepted(
            &Scope::Pools(Vec::new()),
            &needs,
            |state, tick| {
                store.load_references(&Scope::Pools(Vec::new()), state)?;
                for agent_key in &agent_keys {
                    request_binding(state, agent_key, &cluster_key, self.role.as_deref(), tick)
                        .inspect_err(|refusal| {
                            let refused = Refused::new(agent_key, &refusal.what);
                            refused_agents.borrow_mut().push(refused);
                        })?;
                }
                Ok(())
            },
            |state, ()| {
                if self.when_ready || context.globals.no_reconcile {
                    return Ok(());
                }
                let unbound_agents = find_unbound(state, &agent_keys, &cluster_key);
                let refused = refuse_unbound(&unbound_agents, &agent_keys);
                refused_agents.borrow_mut().extend(unbound_agents);
                refused
            },
        );
        if bound.is_err() {
            let change = RefusedChange::Bind { cluster: &cluster_key };
            record_refusals(context, &store, change, &refused_agents.take())?;
        }
        let ((), passed) = bound?;
        for agent_key in &agent_keys {
            let agent = passed.state.agents.by_key(agent_key);
            let is_bound =
                agent.is_some_and(|agent| agent.bound_cluster().as_ref() == Some(&cluster_key));
            let verb = if is_bound { "bound" } else { "will be bound" };
            let agent_state = agent.map(|agent| agent.state().name()).unwrap_or_default();
            let result = format!("{verb} to cluster/{} ({agent_state})", cluster_key.name);
            context.report_change(Kind::Agent, agent_key, &result)?;
        }
        Ok(context.report_pass(&passed)?)
    }
}

impl Bind {
    /// The cluster that `--cluster` names, in the namespace of the command unless it names one.
    fn find_cluster(&self, context: &Context, store: &Store) -> Result<Cluster, Refusal> {
        let kind = Kind::ClusterDeployment;
        let name = target::without_kind(kind, &self.cluster);
        let Some((namespace, name)) = name.split_once('/') else {
            let cluster = context.find::<Cluster>(store, &name);
            return cluster.map_err(|refusal| self.explain_missing_cluster(store, refusal));
        };
        for (kind, name) in [(Kind::Namespace, namespace), (kind, name)] {
            rules::check_name(kind, name)
                .map_err(|refusal| Refusal { exit: Exit::Usage, ..refusal })?;
        }
        let cluster = store.find::<Cluster>(&Key::new(namespace, name))?.ok_or_else(|| {
            let problem = format!("there is no cluster `{}`", self.cluster);
            let refusal = Refusal::not_found(problem).advise("poolctl get cluster -A");
            self.explain_missing_cluster(store, refusal)
        })?;
        context.check_permission(
            store,
            AccessAction::See,
            &Object::ClusterDeployment(Box::new(cluster.clone())),
        )?;
        Ok(cluster)
    }

    /// Says that there is no such cluster in the words of assisted-service, which its users know;
    /// our own words become the cause. A cluster of this name in another namespace is proposed.
    fn explain_missing_cluster(&self, store: &Store, mut refusal: Refusal) -> Refusal {
        if refusal.exit != Exit::NotFound {
            return refusal;
        }
        let name = &self.cluster;
        let cluster_keys = match store.list_names(Kind::ClusterDeployment) {
            Ok(cluster_keys) => cluster_keys,
            Err(unreadable) => return unreadable,
        };
        let elsewhere = cluster_keys.iter().find(|key| {
            name.rsplit('/').next() == Some(key.name.as_str()) && key.to_string() != *name
        });
        if let Some(key) = elsewhere {
            let names = self.names.join(" ");
            refusal = refusal.next(format!("poolctl agent bind {names} --cluster {key}"));
        }
        refusal.causes.insert(0, refusal.what);
        refusal.what = format!("Failed to find cluster {name}");
        refusal
    }
}

/// The keys of agents that must be there, each once, in the order in which they are named.
pub fn find_agent_keys(
    context: &Context,
    store: &Store,
    names: &[String],
) -> Result<Vec<Key>, Refusal> {
    let mut agent_keys = Vec::new();
    for name in names {
        let agent_key = context.find::<Agent>(store, name)?.key();
        if !agent_keys.contains(&agent_key) {
            agent_keys.push(agent_key);
        }
    }
    Ok(agent_keys)
}

/// What a change of these agents loads.
pub fn agent_needs(agent_keys: &[Key]) -> Vec<NeededObject> {
    agent_keys.iter().map(|key| NeededObject { kind: Kind::Agent, key: key.clone() }).collect()
}

/// Writes into an agent the cluster and the role that are asked for; refuses if it has, or waits
/// for, another cluster.
fn request_binding(
    state: &mut State,
    agent_key: &Key,
    cluster_key: &Key,
    role_word: Option<&str>,
    tick: &Tick,
) -> Result<(), Refusal> {
    let Some(agent_id) = state.agents.find(agent_key) else { return Ok(()) };
    let Some(agent) = state.agents.get(agent_id) else { return Ok(()) };
    refuse_other_cluster(state, agent, cluster_key)?;
    if agent.bound_cluster().as_ref() == Some(cluster_key) && role_word.is_none() {
        return Err(Refusal::conflict(format!(
            "Host {} is already bound to cluster {}",
            agent.hostname(),
            cluster_key.name
        )));
    }
    let role = role_word.map(|word| parse_role(word, agent)).transpose()?;
    let mut after = agent.clone();
    after.spec.cluster_deployment_name = Some(ClusterReference::from_key(cluster_key));
    after.spec.role = role.unwrap_or(after.spec.role);
    // Whoever wants the same machine for another cluster is told whom to talk to.
    after.metadata.annotations.insert(BOUND_BY.into(), tick.actor.clone());
    after.metadata.generation += 1;
    rules::check_object(&Object::Agent(Box::new(after.clone())))?;
    let message =
        format!("Host {}: binding to cluster {} requested", after.hostname(), cluster_key.name);
    let event = agents::agent_event(
        &after,
        EventReason::HostBindRequested,
        EventType::Normal,
        message,
        &tick.actor,
        tick,
    );
    state.agents.update(agent_id, |agent| *agent = after);
    state.record_event(event);
    Ok(())
}

/// Refuses an agent that is a node of another cluster, or is to be one.
fn refuse_other_cluster(state: &State, agent: &Agent, cluster_key: &Key) -> Result<(), Refusal> {
    let Some(other_cluster) = agent.bound_cluster().or(agent.requested_cluster()) else {
        return Ok(());
    };
    if other_cluster == *cluster_key {
        return Ok(());
    }
    let verb = if agent.bound_cluster().is_some() { "is already bound" } else { "will be bound" };
    let actor = agent.metadata.annotation(BOUND_BY);
    let by_actor = actor.map(|actor| format!(", by {actor}")).unwrap_or_default();
    let refusal = Refusal::conflict(format!(
        "Host {} {verb} to cluster {}{by_actor}",
        agent.hostname(),
        other_cluster.name
    ));
    Err(match unbind_obstacle(state, agent) {
        None => refusal.next(format!("poolctl agent unbind {}", agent.metadata.name)),
        Some((why, next)) => refusal.because(why).next(next),
    })
}

/// Why the pass would not unbind a machine, and what helps.
fn unbind_obstacle(state: &State, agent: &Agent) -> Option<(String, NextStep)> {
    let cluster_key = agent.bound_cluster()?;
    let why = agents::unbind_refusal(state, agent)?;
    let name = &agent.metadata.name;
    let infra_env = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key));
    // Every machine of such an InfraEnv belongs to its cluster.
    let next = if infra_env
        .is_some_and(|infra_env| infra_env.cluster_key().as_ref() == Some(&cluster_key))
    {
        let advice = "then boot it from the image of another InfraEnv";
        NextStep::Advice(format!("poolctl delete agent {name}, {advice}"))
    } else {
        NextStep::Command(format!("poolctl why agent/{name}"))
    };
    Some((why, next))
}

/// The agents that the pass has not bound, each with the reason.
fn find_unbound(state: &State, agent_keys: &[Key], cluster_key: &Key) -> Vec<Refused> {
    let mut unbound_agents = Vec::new();
    for agent_key in agent_keys {
        if let Some(why) = bind_obstacle(state, agent_key, cluster_key) {
            unbound_agents.push(Refused::new(agent_key, &why));
        }
    }
    unbound_agents
}

/// Refuses the whole command if an agent is not bound.
fn refuse_unbound(unbound_agents: &[Refused], agent_keys: &[Key]) -> Result<(), Refusal> {
    if unbound_agents.is_empty() {
        return Ok(());
    }
    let reasons: Vec<&str> = unbound_agents.iter().map(|refused| refused.why.as_str()).collect();
    let suffix = if agent_keys.len() > 1 { "; none of them was bound" } else { "" };
    let refused_agent = &unbound_agents[0].key.name;
    Err(Refusal::conflict(format!("{}{suffix}", reasons.join("; ")))
        .next(format!("poolctl describe agent {refused_agent}")))
}

/// Why a machine is not bound to the cluster; none if it is.
fn bind_obstacle(state: &State, agent_key: &Key, cluster_key: &Key) -> Option<String> {
    let agent = state.agents.by_key(agent_key)?;
    if agent.bound_cluster().as_ref() == Some(cluster_key) {
        return None;
    }
    let refusal = agents::bind_refusal(state, agent, cluster_key).map(|refusal| refusal.why);
    // An agent that is being deleted is not bound any more: its condition is as it was before.
    refusal.or_else(|| Some(agent.condition(SPEC_SYNCED)?.message.clone()))
}

/// Asks before an installed machine leaves its cluster for another one (`wanted`) or for none.
pub fn confirm_leaving_cluster(
    context: &Context,
    agent: &Agent,
    wanted: Option<&Key>,
    command: &str,
) -> Result<(), Refusal> {
    let Some(cluster_key) = agent.bound_cluster() else { return Ok(()) };
    if !agent.state().has_ended_installation() || Some(&cluster_key) == wanted {
        return Ok(());
    }
    let name = &agent.metadata.name;
    let loss = format!("agent `{name}` is a node of cluster `{}`", cluster_key.name);
    context.confirm(&loss, command)
}

/// Arguments of `agent unbind`. All agents leave in one transaction, or none does.
#[derive(Args)]
pub struct Unbind {
    /// Agents to unbind
    #[arg(value_name = "AGENT", required = true)]
    names: Vec<String>,
}

impl RunCommand for Unbind {
    const NAME: &'static str = "unbind";
    const ABOUT: &'static str = "Take agents out of their clusters, all or none";
    const EXAMPLE: &'static str = "poolctl agent unbind node-3";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let agent_keys = find_agent_keys(context, &store, &self.names)?;
        for agent_key in &agent_keys {
            let name = &agent_key.name;
            let agent = context.find::<Agent>(&store, name)?;
            confirm_leaving_cluster(
                context,
                &agent,
                None,
                &format!("poolctl agent unbind {name}"),
            )?;
        }
        let mut refused_agents = Vec::new();
        let scope = Scope::Pools(Vec::new());
        let needs = agent_needs(&agent_keys);
        let unbound = context.door(&store).change(&scope, &needs, |state, tick| {
            store.load_references(&scope, state)?;
            for agent_key in &agent_keys {
                request_unbinding(state, agent_key, &mut refused_agents, tick)?;
            }
            Ok(())
        });
        if unbound.is_err() {
            record_refusals(context, &store, RefusedChange::Unbind, &refused_agents)?;
        }
        let ((), passed) = unbound?;
        for agent_key in &agent_keys {
            let agent = passed.state.agents.by_key(agent_key);
            let agent_state = agent.map(Agent::state).unwrap_or_default();
            let mut result = format!("unbound ({agent_state})");
            if agent_state == HostState::UnbindingPendingUserAction
                && let Some(agent) = agent
            {
                result = format!("{result}: {}", agent.status.debug_info.state_info);
            }
            context.report_change(Kind::Agent, agent_key, &result)?;
        }
        Ok(context.report_pass(&passed)?)
    }
}

/// Takes the cluster out of an agent's spec. A refusal that is worth an event is added to
/// `refused_agents`.
fn request_unbinding(
    state: &mut State,
    agent_key: &Key,
    refused_agents: &mut Vec<Refused>,
    tick: &Tick,
) -> Result<(), Refusal> {
    let Some(agent_id) = state.agents.find(agent_key) else { return Ok(()) };
    let Some(agent) = state.agents.get(agent_id) else { return Ok(()) };
    let only_waits = agent.bound_cluster().is_none() && agent.requested_cluster().is_some();
    if !only_waits && let Some(why) = agents::unbind_refusal(state, agent) {
        // A machine in the middle of its installation is refused every time: no event about that.
        if !agent.state().is_installing() || agent.is_day2() {
            refused_agents.push(Refused::new(agent_key, &why));
        }
        return Err(Refusal::conflict(why));
    }
    let message = format!("Host {}: unbinding requested", agent.hostname());
    let record_event = agents::agent_event(
        agent,
        EventReason::HostUnbindRequested,
        EventType::Normal,
        message,
        &tick.actor,
        tick,
    );
    state.record_event(record_event);
    state.agents.update(agent_id, |agent| {
        agent.spec.cluster_deployment_name = None;
        agent.metadata.annotations.remove(BOUND_BY);
        agent.metadata.generation += 1;
    });
    Ok(())
}
