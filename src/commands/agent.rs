//! `agent bind|unbind|approve|set`: whose a host is, and what it is to be there.

use clap::{Args, ValueEnum};

use crate::model::agent::{Agent, AgentSpec, ClusterReference, HostState, Role};
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::plan::agents;
use crate::plan::agents::conditions::SPEC_SYNCED;
use crate::rules;
use crate::store::Need;

use super::{Context, Verb};

/// Who asked for the cluster that a host has or waits for.
const BY: &str = "poolctl.dev/bound-by";

#[derive(Args)]
pub struct Bind {
    /// Hosts, as `get agent` names them
    #[arg(value_name = "AGENT", required = true)]
    names: Vec<String>,
    /// Cluster that they are to be nodes of
    #[arg(long, value_name = "CLUSTER")]
    cluster: String,
    /// Keep the wish of hosts that are not ready yet
    #[arg(long)]
    when_ready: bool,
    /// What all of them are to be there
    #[arg(long, value_enum)]
    role: Option<RoleWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleWord {
    Master,
    Worker,
    AutoAssign,
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Master => Self::Master,
            RoleWord::Worker => Self::Worker,
            RoleWord::AutoAssign => Self::AutoAssign,
        }
    }
}

impl Verb for Bind {
    const NAME: &'static str = "bind";
    const ABOUT: &'static str = "Bind hosts to a cluster, all or none";
    const EXAMPLE: &'static str = "poolctl agent bind node-1 node-2 --cluster edge --when-ready";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let Object::Cluster(cluster) =
            context.find(&store, Kind::ClusterDeployment, &self.cluster)?
        else {
            return Ok(());
        };
        let wanted = cluster.key();
        let keys = keys(context, &store, &self.names)?;
        let mut needs = needs(&keys);
        needs.push(Need { kind: Kind::ClusterDeployment, key: wanted.clone() });
        let edit = |state: &mut State, tick: &Tick| {
            store.load_references(&Scope::Pools(Vec::new()), state)?;
            for key in &keys {
                ask(state, key, &wanted, self.role, tick)?;
            }
            Ok(())
        };
        let look = |state: &State, ()| {
            let wrong: Vec<String> =
                keys.iter().filter_map(|key| unmet(state, key, &wanted)).collect();
            if wrong.is_empty() || self.when_ready || context.globals.no_reconcile {
                return Ok(());
            }
            let many = if keys.len() > 1 { "; none of them was bound" } else { "" };
            let what = format!("{}{many}", wrong.join("; "));
            Err(Refusal::conflict(what).next(format!("poolctl describe agent {}", keys[0].name)))
        };
        let door = context.door(&store);
        let ((), passed) = door.change_if(&Scope::Pools(Vec::new()), &needs, edit, look)?;
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
            context.changed(Kind::Agent, &key.name, &done)?;
        }
        Ok(context.finish(&passed)?)
    }
}

fn keys(
    context: &Context,
    store: &crate::store::Store,
    names: &[String],
) -> Result<Vec<Key>, Refusal> {
    let mut keys = Vec::new();
    for name in names {
        let key = context.find(store, Kind::Agent, name)?.key();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

fn needs(keys: &[Key]) -> Vec<Need> {
    keys.iter().map(|key| Need { kind: Kind::Agent, key: key.clone() }).collect()
}

/// Writes down the wish, unless another has the host.
fn ask(
    state: &mut State,
    key: &Key,
    wanted: &Key,
    role: Option<RoleWord>,
    tick: &Tick,
) -> Result<(), Refusal> {
    let Some(at) = state.agents.find(key) else { return Ok(()) };
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    let has = agent.bound_to().or(agent.wanted()).filter(|has| has != wanted);
    if let Some(has) = has {
        let verb = if agent.bound_to().is_some() { "is already bound" } else { "is to be bound" };
        let by = agent.metadata.annotation(BY).map(|by| format!(", by {by}")).unwrap_or_default();
        let name = agent.hostname();
        let what = format!("Host {name} {verb} to cluster {}{by}", has.name);
        return Err(Refusal::conflict(what).next(format!("poolctl agent unbind {}", key.name)));
    }
    if agent.bound_to().as_ref() == Some(wanted) && role.is_none() {
        let (name, cluster) = (agent.hostname(), &wanted.name);
        return Err(Refusal::conflict(format!(
            "Host {name} is already bound to cluster {cluster}"
        )));
    }
    let mut after = agent.clone();
    after.spec.cluster_deployment_name = Some(ClusterReference::to(wanted));
    after.spec.role = role.map_or(after.spec.role, Role::from);
    after.metadata.annotations.insert(BY.into(), tick.actor.clone());
    after.metadata.generation += 1;
    rules::check(&Object::Agent(Box::new(after.clone())))?;
    let text = format!("Host {}: is to be bound to cluster {}", after.hostname(), wanted.name);
    let event = agents::about(&after, "host_bind_requested", false, text, &tick.actor, tick);
    state.agents.update(at, |one| *one = after);
    state.event(event);
    Ok(())
}

/// Why a host is not bound.
fn unmet(state: &State, key: &Key, wanted: &Key) -> Option<String> {
    let agent = state.agents.by_key(key)?;
    if agent.bound_to().as_ref() == Some(wanted) {
        return None;
    }
    let said = agent.condition(SPEC_SYNCED)?.message.clone();
    let why = said.split_once("error: ").map_or(said.as_str(), |(_, why)| why);
    Some(why.to_owned())
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
            let Object::Agent(agent) = context.find(&store, Kind::Agent, &key.name)? else {
                continue;
            };
            if let Some(cluster) = agent.bound_to().filter(|_| agent.state().is_over()) {
                let loss = format!("agent `{}` is a node of cluster `{}`", key.name, cluster.name);
                context.confirm(&loss, &format!("poolctl agent unbind {}", key.name))?;
            }
        }
        let edit = |state: &mut State, tick: &Tick| {
            store.load_references(&Scope::Pools(Vec::new()), state)?;
            for key in &keys {
                let Some(at) = state.agents.find(key) else { continue };
                let Some(agent) = state.agents.get(at) else { continue };
                let waits = agent.bound_to().is_none() && agent.wanted().is_some();
                if let Some(why) = agents::refused(state, agent).filter(|_| !waits) {
                    return Err(Refusal::conflict(why));
                }
                let text = format!("Host {}: is to be unbound", agent.hostname());
                let event =
                    agents::about(agent, "host_unbind_requested", false, text, &tick.actor, tick);
                state.event(event);
                state.agents.update(at, |one| {
                    one.spec.cluster_deployment_name = None;
                    one.metadata.annotations.remove(BY);
                    one.metadata.generation += 1;
                });
            }
            Ok(())
        };
        let scope = Scope::Pools(Vec::new());
        let ((), passed) = context.door(&store).change(&scope, &needs(&keys), edit)?;
        for key in &keys {
            let one = passed.state.agents.by_key(key);
            let how = one.map(Agent::state).unwrap_or_default();
            let mut done = format!("unbound ({how})");
            if let Some(one) = one.filter(|_| how == HostState::UnbindingPendingUserAction) {
                done = format!("{done}: {}", one.status.debug_info.state_info);
            }
            context.changed(Kind::Agent, &key.name, &done)?;
        }
        Ok(context.finish(&passed)?)
    }
}

#[derive(Args)]
pub struct Approve {
    /// Hosts, as `get agent` names them
    #[arg(value_name = "AGENT", required = true)]
    names: Vec<String>,
    /// Take the approval back
    #[arg(long)]
    revoke: bool,
}

impl Verb for Approve {
    const NAME: &'static str = "approve";
    const ABOUT: &'static str = "Let hosts be installed";
    const EXAMPLE: &'static str = "poolctl agent approve node-1 node-2";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let approved = !self.revoke;
        let done = if approved { "approved" } else { "not approved any more" };
        change(context, &self.names, done, |one| one.spec.approved = approved)
    }
}

#[derive(Args)]
pub struct Set {
    /// A host, as `get agent` names it
    #[arg(value_name = "AGENT")]
    name: String,
    /// What it is to be in its cluster
    #[arg(long, value_enum)]
    role: Option<RoleWord>,
    /// Its name in its cluster
    #[arg(long)]
    hostname: Option<String>,
    /// The disk to install on, by its id or path
    #[arg(long, value_name = "ID")]
    disk: Option<String>,
    /// Machine config pool of a worker
    #[arg(long, value_name = "MCP")]
    machine_config_pool: Option<String>,
    /// Label of its node; KEY- removes one
    #[arg(long, value_name = "KEY=VALUE")]
    node_label: Vec<String>,
    /// Arguments of coreos-installer, a JSON list
    #[arg(long, value_name = "JSON")]
    installer_args: Option<String>,
    /// Ignition merged over its own, JSON
    #[arg(long, value_name = "JSON")]
    ignition: Option<String>,
}

impl Verb for Set {
    const NAME: &'static str = "set";
    const ABOUT: &'static str = "Say what a host is to be in its cluster";
    const EXAMPLE: &'static str = "poolctl agent set node-1 --role worker --hostname edge-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        if let Object::Agent(one) = context.find(&context.look()?, Kind::Agent, &self.name)? {
            let mut spec = one.spec.clone();
            self.write(&mut spec);
            rules::agents::check_set(one.state(), &one.spec, &spec).map_err(|why| {
                Refusal::conflict(why).next(format!("poolctl describe agent {}", self.name))
            })?;
        }
        let names = std::slice::from_ref(&self.name);
        change(context, names, "set", |one| self.write(&mut one.spec))
    }
}

impl Set {
    fn write(&self, spec: &mut AgentSpec) {
        spec.role = self.role.map_or(spec.role, Role::from);
        let texts = [
            (&self.hostname, &mut spec.hostname),
            (&self.machine_config_pool, &mut spec.machine_config_pool),
            (&self.installer_args, &mut spec.installer_args),
            (&self.ignition, &mut spec.ignition_config_overrides),
        ];
        for (new, field) in texts {
            if let Some(new) = new {
                new.clone_into(field);
            }
        }
        if let Some(disk) = &self.disk {
            spec.installation_disk_id.clone_from(disk);
            spec.installation_disk_path.clear();
        }
        for text in &self.node_label {
            match text.split_once('=') {
                Some((key, value)) => drop(spec.node_labels.insert(key.into(), value.into())),
                None => drop(spec.node_labels.remove(text.trim_end_matches('-'))),
            }
        }
    }
}

/// What of a host's wishes does not fit it.
fn input_error(state: &State, key: &Key) -> Option<String> {
    let found = state.agents.by_key(key)?.condition(SPEC_SYNCED)?;
    (found.reason == "InputError").then(|| found.message.clone())
}

/// Changes hosts; a wish that does not fit them is refused, and nothing is changed.
fn change(
    context: &Context,
    names: &[String],
    done: &str,
    how: impl Fn(&mut Agent),
) -> anyhow::Result<()> {
    let store = context.look()?;
    let keys = keys(context, &store, names)?;
    let edit = |state: &mut State, tick: &Tick| {
        for key in &keys {
            let Some(at) = state.agents.find(key) else { continue };
            let Some(agent) = state.agents.get(at) else { continue };
            let mut after = agent.clone();
            how(&mut after);
            if after.spec == agent.spec {
                continue;
            }
            let revoked = agent.spec.approved && !after.spec.approved;
            if let Some(why) = agents::approved_by(state, agent).filter(|_| revoked) {
                let what = format!("Host {}: {why}", agent.hostname());
                return Err(Refusal::conflict(what));
            }
            after.metadata.generation += 1;
            rules::check(&Object::Agent(Box::new(after.clone())))?;
            let (reason, text) = if after.spec.approved == agent.spec.approved {
                ("host_configured", format!("Host {}: changed", after.hostname()))
            } else {
                let (name, approved) = (after.hostname(), after.spec.approved);
                ("host_approved_updated", format!("Host {name}: updated approved to {approved}"))
            };
            state.event(agents::about(&after, reason, false, text, &tick.actor, tick));
            state.agents.update(at, |one| *one = after);
        }
        Ok(keys.iter().map(|key| input_error(state, key)).collect::<Vec<_>>())
    };
    // What was wrong before is not this command's.
    let look = |state: &State, before: Vec<Option<String>>| {
        let all = keys.iter().map(|key| input_error(state, key)).zip(before);
        match all.filter(|(now, before)| now != before).find_map(|(now, _)| now) {
            Some(why) => {
                Err(Refusal::invalid(why).next(format!("poolctl describe agent {}", keys[0].name)))
            }
            None => Ok(()),
        }
    };
    let scope = Scope::Pools(Vec::new());
    let ((), passed) = context.door(&store).change_if(&scope, &needs(&keys), edit, look)?;
    for key in &keys {
        context.changed(Kind::Agent, &key.name, done)?;
    }
    Ok(context.finish(&passed)?)
}
