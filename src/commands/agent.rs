//! `agent bind|unbind`: whose a host is.

pub mod find;
pub mod fit;
pub mod host;
pub mod refused;
pub mod set;

use std::cell::RefCell;

use clap::Args;

use crate::model::agent::{Agent, ClusterReference, HostState};
use crate::model::annotations::BOUND_BY;
use crate::model::cluster::Cluster;
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
use crate::rules::access::Deed;
use crate::store::{Need, Store};

use crate::commands::agent::refused::{BIND_FAILED, Refused, UNBIND_FAILED, note};
use crate::commands::agent::set::{RoleWord, role_of};
use crate::commands::{Context, Verb, target};

#[derive(Args)]
pub struct Bind {
    /// Hosts, as `get agent` names them
    #[arg(value_name = "AGENT", required = true)]
    names: Vec<String>,
    /// Cluster that they are to be nodes of, or NAMESPACE/CLUSTER
    #[arg(long, value_name = "CLUSTER")]
    cluster: String,
    /// Keep the wish of hosts that are not ready yet
    #[arg(long)]
    when_ready: bool,
    /// What all of them are to be there
    #[arg(long, value_parser = RoleWord)]
    role: Option<String>,
}

impl Verb for Bind {
    const NAME: &'static str = "bind";
    const ABOUT: &'static str = "Bind hosts to a cluster, all or none";
    const EXAMPLE: &'static str = "poolctl agent bind node-1 node-2 --cluster edge --when-ready";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let cluster = self.find_cluster(context, &store)?;
        let wanted = cluster.key();
        let keys = keys(context, &store, &self.names)?;
        let mut needs = needs(&keys);
        needs.push(Need { kind: Kind::ClusterDeployment, key: wanted.clone() });
        let failed = RefCell::new(Vec::new());
        let fails = |key: &Key, why: &str| failed.borrow_mut().push(Refused::new(key, why));
        let edit = |state: &mut State, tick: &Tick| {
            store.load_references(&Scope::Pools(Vec::new()), state)?;
            for key in &keys {
                ask(state, key, &wanted, self.role.as_deref(), tick)
                    .inspect_err(|why| fails(key, &why.what))?;
            }
            Ok(())
        };
        let look = |state: &State, ()| {
            let wrong = keys.iter().filter_map(|key| Some((key, unmet(state, key, &wanted)?)));
            let wrong: Vec<(&Key, String)> = wrong.collect();
            if wrong.is_empty() || self.when_ready || context.globals.no_reconcile {
                return Ok(());
            }
            for (key, why) in &wrong {
                fails(key, why);
            }
            let wrong: Vec<String> = wrong.into_iter().map(|(_, why)| why).collect();
            let many = if keys.len() > 1 { "; none of them was bound" } else { "" };
            let what = format!("{}{many}", wrong.join("; "));
            Err(Refusal::conflict(what).next(format!("poolctl describe agent {}", keys[0].name)))
        };
        let door = context.door(&store);
        let done = door.change_if(&Scope::Pools(Vec::new()), &needs, edit, look);
        if done.is_err() {
            note(context, &store, (BIND_FAILED, Some(&wanted)), &failed.take())?;
        }
        let ((), passed) = done?;
        for key in &keys {
            let one = passed.state.agents.by_key(key);
            let bound = one.is_some_and(|one| one.bound_to().as_ref() == Some(&wanted));
            let how = one.map(|one| one.state().name()).unwrap_or_default();
            let name = &cluster.name;
            let done = if bound {
                format!("bound to cluster/{name} ({how})")
            } else {
                format!("is to be bound to cluster/{name} ({how})")
            };
            context.changed(Kind::Agent, key, &done)?;
        }
        Ok(context.finish(&passed)?)
    }
}

impl Bind {
    /// The cluster; of the namespace of the command, if it does not say which.
    fn find_cluster(&self, context: &Context, store: &Store) -> Result<Cluster, Refusal> {
        let kind = Kind::ClusterDeployment;
        let name = target::bare(kind, &self.cluster);
        let Some((namespace, name)) = name.split_once('/') else {
            let cluster = context.find::<Cluster>(store, &name);
            return cluster.map_err(|refusal| self.not_there(store, refusal));
        };
        let usage = |refusal: Refusal| Refusal { exit: Exit::Usage, ..refusal };
        rules::name_of(Kind::Namespace, namespace).map_err(usage)?;
        rules::name_of(kind, name).map_err(usage)?;
        let cluster = store.one::<Cluster>(&Key::new(namespace, name))?.ok_or_else(|| {
            let what = format!("there is no cluster `{}`", self.cluster);
            self.not_there(store, Refusal::not_found(what).advise("poolctl get cluster -A"))
        })?;
        context.permit(store, Deed::See, &Object::ClusterDeployment(Box::new(cluster.clone())))?;
        Ok(cluster)
    }

    /// assisted-service's words; ours say why.
    fn not_there(&self, store: &Store, mut refusal: Refusal) -> Refusal {
        if refusal.exit != Exit::NotFound {
            return refusal;
        }
        let name = &self.cluster;
        let known = match store.names(Kind::ClusterDeployment) {
            Ok(known) => known,
            Err(unreadable) => return unreadable,
        };
        let elsewhere = known.iter().find(|key| {
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

pub fn keys(context: &Context, store: &Store, names: &[String]) -> Result<Vec<Key>, Refusal> {
    let mut keys = Vec::new();
    for name in names {
        let key = context.find::<Agent>(store, name)?.key();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

pub fn needs(keys: &[Key]) -> Vec<Need> {
    keys.iter().map(|key| Need { kind: Kind::Agent, key: key.clone() }).collect()
}

/// Writes down the wish, unless another has the host.
fn ask(
    state: &mut State,
    key: &Key,
    wanted: &Key,
    role: Option<&str>,
    tick: &Tick,
) -> Result<(), Refusal> {
    let Some(at) = state.agents.find(key) else { return Ok(()) };
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    let has = agent.bound_to().or(agent.wanted()).filter(|has| has != wanted);
    if let Some(has) = has {
        let verb = if agent.bound_to().is_some() { "is already bound" } else { "is to be bound" };
        let by =
            agent.metadata.annotation(BOUND_BY).map(|by| format!(", by {by}")).unwrap_or_default();
        let name = agent.hostname();
        let refusal = Refusal::conflict(format!("Host {name} {verb} to cluster {}{by}", has.name));
        return Err(match stays(state, agent) {
            None => refusal.next(format!("poolctl agent unbind {}", key.name)),
            Some((why, next)) => refusal.because(why).next(next),
        });
    }
    if agent.bound_to().as_ref() == Some(wanted) && role.is_none() {
        let (name, cluster) = (agent.hostname(), &wanted.name);
        return Err(Refusal::conflict(format!(
            "Host {name} is already bound to cluster {cluster}"
        )));
    }
    let role = role.map(|word| role_of(word, agent)).transpose()?;
    let mut after = agent.clone();
    after.spec.cluster_deployment_name = Some(ClusterReference::to(wanted));
    after.spec.role = role.unwrap_or(after.spec.role);
    after.metadata.annotations.insert(BOUND_BY.into(), tick.actor.clone());
    after.metadata.generation += 1;
    rules::check(&Object::Agent(Box::new(after.clone())))?;
    let text = format!("Host {}: is to be bound to cluster {}", after.hostname(), wanted.name);
    let event =
        agents::about(&after, EventReason::HostBindRequested, false, text, &tick.actor, tick);
    state.agents.update(at, |one| *one = after);
    state.event(event);
    Ok(())
}

/// Why a host would not be unbound, and what helps.
fn stays(state: &State, agent: &Agent) -> Option<(String, NextStep)> {
    let bound = agent.bound_to()?;
    let (why, name) = (agents::unbind_refusal(state, agent)?, &agent.metadata.name);
    let of = agent.infra_env().and_then(|key| state.infra_envs.by_key(&key));
    let next = if of.is_some_and(|one| one.cluster().as_ref() == Some(&bound)) {
        let moves = "and boot it from the image of another InfraEnv";
        NextStep::Advice(format!("poolctl delete agent {name}, {moves}"))
    } else {
        NextStep::Command(format!("poolctl why agent/{name}"))
    };
    Some((why, next))
}

/// Why a host is not bound.
fn unmet(state: &State, key: &Key, wanted: &Key) -> Option<String> {
    let agent = state.agents.by_key(key)?;
    if agent.bound_to().as_ref() == Some(wanted) {
        return None;
    }
    let refusal = agents::bind_refusal(state, agent, wanted).map(|refusal| refusal.why);
    // What is being deleted is not bound any more: its condition is as it was before.
    refusal.or_else(|| Some(agent.condition(SPEC_SYNCED)?.message.clone()))
}

/// A host that was installed is asked for before it leaves its cluster, for another or for none.
pub fn ask_to_leave(
    context: &Context,
    agent: &Agent,
    wanted: Option<&Key>,
    command: &str,
) -> Result<(), Refusal> {
    let has = agent.bound_to().filter(|_| agent.state().is_over());
    let Some(cluster) = has.filter(|has| Some(has) != wanted) else { return Ok(()) };
    let name = &agent.metadata.name;
    context.confirm(&format!("agent `{name}` is a node of cluster `{}`", cluster.name), command)
}

#[derive(Args)]
pub struct Unbind {
    /// Hosts, as `get agent` names them
    #[arg(value_name = "AGENT", required = true)]
    names: Vec<String>,
}

impl Verb for Unbind {
    const NAME: &'static str = "unbind";
    const ABOUT: &'static str = "Take hosts out of their clusters, all or none";
    const EXAMPLE: &'static str = "poolctl agent unbind node-3";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let keys = keys(context, &store, &self.names)?;
        for key in &keys {
            let agent = context.find::<Agent>(&store, &key.name)?;
            ask_to_leave(context, &agent, None, &format!("poolctl agent unbind {}", key.name))?;
        }
        let mut failed = Vec::new();
        let edit = |state: &mut State, tick: &Tick| {
            store.load_references(&Scope::Pools(Vec::new()), state)?;
            for key in &keys {
                let Some(at) = state.agents.find(key) else { continue };
                let Some(agent) = state.agents.get(at) else { continue };
                let waits = agent.bound_to().is_none() && agent.wanted().is_some();
                if let Some(why) = agents::unbind_refusal(state, agent).filter(|_| !waits) {
                    // That it is in the middle of something is said all the time.
                    if !agent.state().is_installing() || agent.is_day2() {
                        failed.push(Refused::new(key, &why));
                    }
                    return Err(Refusal::conflict(why));
                }
                let text = format!("Host {}: is to be unbound", agent.hostname());
                let event = agents::about(
                    agent,
                    EventReason::HostUnbindRequested,
                    false,
                    text,
                    &tick.actor,
                    tick,
                );
                state.event(event);
                state.agents.update(at, |one| {
                    one.spec.cluster_deployment_name = None;
                    one.metadata.annotations.remove(BOUND_BY);
                    one.metadata.generation += 1;
                });
            }
            Ok(())
        };
        let scope = Scope::Pools(Vec::new());
        let done = context.door(&store).change(&scope, &needs(&keys), edit);
        if done.is_err() {
            note(context, &store, (UNBIND_FAILED, None), &failed)?;
        }
        let ((), passed) = done?;
        for key in &keys {
            let one = passed.state.agents.by_key(key);
            let how = one.map(Agent::state).unwrap_or_default();
            let mut done = format!("unbound ({how})");
            if let Some(one) = one.filter(|_| how == HostState::UnbindingPendingUserAction) {
                done = format!("{done}: {}", one.status.debug_info.state_info);
            }
            context.changed(Kind::Agent, key, &done)?;
        }
        Ok(context.finish(&passed)?)
    }
}
