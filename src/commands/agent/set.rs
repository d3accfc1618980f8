//! `agent approve|set`: whether a host is installed, and what it is to be in its cluster.

use std::ffi::OsStr;

use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};

use crate::edits;
use crate::model::agent::{Agent, AgentSpec, Role};
use crate::model::condition::ConditionReason;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::plan::agents;
use crate::plan::agents::conditions::SPEC_SYNCED;
use crate::rules;

use crate::commands::agent::{keys, needs};
use crate::commands::{Context, Verb};

/// What can be asked of a host.
const ROLES: [Role; 3] = [Role::Master, Role::Worker, Role::AutoAssign];

/// Any word: what is no role is refused by the name of the host.
#[derive(Clone, Copy)]
pub struct RoleWord;

impl TypedValueParser for RoleWord {
    type Value = String;

    fn parse_ref(
        &self,
        _: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        Ok(value.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(ROLES.into_iter().map(|one| PossibleValue::new(one.name()))))
    }
}

/// The role that a word means, for a host.
pub fn role_of(word: &str, agent: &Agent) -> Result<Role, Refusal> {
    let known = ROLES.into_iter().find(|one| one.name() == word);
    known.ok_or_else(|| {
        let all = ROLES.map(Role::name).join(", ");
        let infra_env = agent.infra_env().map(|key| key.name).unwrap_or_default();
        let why = rules::agents::no_role(word, &agent.metadata.name, &infra_env);
        Refusal::invalid(why).because(format!("there are {all}"))
    })
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
    #[arg(long, value_parser = RoleWord)]
    role: Option<String>,
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
        let neither = |text: &&String| !text.contains('=') && !text.ends_with('-');
        if let Some(text) = self.node_label.iter().find(neither) {
            let what = format!("--node-label `{text}` is neither KEY=VALUE nor KEY-");
            let next = format!("poolctl agent set {} --node-label KEY=VALUE", self.name);
            return Err(Refusal::usage(what).next(next).into());
        }
        let agent = context.find::<Agent>(&context.look()?, &self.name)?;
        let role = self.role.as_deref().map(|word| role_of(word, &agent)).transpose()?;
        let mut spec = agent.spec.clone();
        self.write(role, &mut spec);
        rules::agents::check_set(agent.state(), &agent.spec, &spec).map_err(|why| {
            Refusal::conflict(why).next(format!("poolctl describe agent {}", self.name))
        })?;
        let names = std::slice::from_ref(&self.name);
        change(context, names, "set", |one| self.write(role, &mut one.spec))
    }
}

impl Set {
    fn write(&self, role: Option<Role>, spec: &mut AgentSpec) {
        spec.role = role.unwrap_or(spec.role);
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
                None => drop(spec.node_labels.remove(text.strip_suffix('-').unwrap_or(text))),
            }
        }
    }
}

/// What of a host's wishes does not fit it.
fn input_error(state: &State, key: &Key) -> Option<String> {
    let found = state.agents.by_key(key)?.condition(SPEC_SYNCED)?;
    (found.reason == ConditionReason::InputError).then(|| found.message.clone())
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
            let event = if after.spec.approved == agent.spec.approved {
                let text = format!("Host {}: changed", after.hostname());
                agents::about(&after, EventReason::HostConfigured, false, text, &tick.actor, tick)
            } else {
                edits::agents::approval_event(&after, tick)
            };
            state.event(event);
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
        context.changed(Kind::Agent, key, done)?;
    }
    Ok(context.finish(&passed)?)
}
