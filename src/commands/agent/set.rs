//! `agent approve|set`: lets machines be installed, and sets role, name, disk and labels of a node.
//! Never decides whether a machine fits: the pass does, and what it refuses is undone.

use std::ffi::OsStr;

use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};

use crate::edits;
use crate::model::agent::{Agent, AgentSpec, Role};
use crate::model::condition::ConditionReason;
use crate::model::event::EventType;
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

use crate::commands::agent::{agent_needs, find_agent_keys};
use crate::commands::{Context, RunCommand};

/// Roles that people may give a machine.
const ROLES: [Role; 3] = [Role::Master, Role::Worker, Role::AutoAssign];

/// Parses the value of `--role`. It takes any word, because the refusal of a wrong one names the
/// machine, which is not known yet; `parse_role` refuses it.
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
        Some(Box::new(ROLES.into_iter().map(|role| PossibleValue::new(role.name()))))
    }
}

/// The role that a word names; the refusal of another word names the machine.
pub fn parse_role(word: &str, agent: &Agent) -> Result<Role, Refusal> {
    let role = ROLES.into_iter().find(|role| role.name() == word);
    role.ok_or_else(|| {
        let role_names = ROLES.map(Role::name).join(", ");
        let infra_env_key = agent.infra_env_key().map(|key| key.name).unwrap_or_default();
        let why = rules::agents::invalid_role_message(word, &agent.metadata.name, &infra_env_key);
        Refusal::invalid(why).because(format!("the roles are {role_names}"))
    })
}

/// Arguments of `agent approve`.
#[derive(Args)]
pub struct Approve {
    /// Agents to approve
    #[arg(value_name = "AGENT", required = true)]
    names: Vec<String>,
    /// Revoke the approval instead
    #[arg(long)]
    revoke: bool,
}

impl RunCommand for Approve {
    const NAME: &'static str = "approve";
    const ABOUT: &'static str = "Approve agents for installation";
    const EXAMPLE: &'static str = "poolctl agent approve node-1 node-2";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let approved = !self.revoke;
        let result = if approved { "approved" } else { "no longer approved" };
        change_agents(context, &self.names, result, |agent| agent.spec.approved = approved)
    }
}

/// Arguments of `agent set`. A field that is not given stays as it is.
#[derive(Args)]
pub struct Set {
    /// Agent to change
    #[arg(value_name = "AGENT")]
    name: String,
    /// Role in the cluster
    #[arg(long, value_parser = RoleWord)]
    role: Option<String>,
    /// Hostname in the cluster
    #[arg(long)]
    hostname: Option<String>,
    /// Disk to install on: its id or path
    #[arg(long, value_name = "ID")]
    disk: Option<String>,
    /// MachineConfigPool of a worker
    #[arg(long, value_name = "MCP")]
    machine_config_pool: Option<String>,
    /// Label of the node; KEY- removes it; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    node_label: Vec<String>,
    /// Arguments for coreos-installer, as a JSON list
    #[arg(long, value_name = "JSON")]
    installer_args: Option<String>,
    /// Ignition config that is merged into that of the host
    #[arg(long, value_name = "JSON")]
    ignition: Option<String>,
}

impl RunCommand for Set {
    const NAME: &'static str = "set";
    const ABOUT: &'static str = "Set role, hostname, disk and node labels of an agent";
    const EXAMPLE: &'static str = "poolctl agent set node-1 --role worker --hostname edge-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        for label in &self.node_label {
            if !label.contains('=') && !label.ends_with('-') {
                let problem = format!("--node-label `{label}` is neither KEY=VALUE nor KEY-");
                let next = format!("poolctl agent set {} --node-label KEY=VALUE", self.name);
                return Err(Refusal::usage(problem).next(next).into());
            }
        }
        let agent = context.find::<Agent>(&context.open_existing_state()?, &self.name)?;
        let role = self.role.as_deref().map(|word| parse_role(word, &agent)).transpose()?;
        let mut spec = agent.spec.clone();
        self.write_into(role, &mut spec);
        rules::agents::check_late_change(agent.state(), &agent.spec, &spec).map_err(|why| {
            Refusal::conflict(why).next(format!("poolctl describe agent {}", self.name))
        })?;
        let names = std::slice::from_ref(&self.name);
        change_agents(context, names, "set", |agent| self.write_into(role, &mut agent.spec))
    }
}

impl Set {
    /// Writes what was given on the command line into a spec; the rest of it stays.
    fn write_into(&self, role: Option<Role>, spec: &mut AgentSpec) {
        spec.role = role.unwrap_or(spec.role);
        let fields = [
            (&self.hostname, &mut spec.hostname),
            (&self.machine_config_pool, &mut spec.machine_config_pool),
            (&self.installer_args, &mut spec.installer_args),
            (&self.ignition, &mut spec.ignition_config_overrides),
        ];
        for (given, field) in fields {
            if let Some(given) = given {
                given.clone_into(field);
            }
        }
        if let Some(disk) = &self.disk {
            spec.installation_disk_id.clone_from(disk);
            spec.installation_disk_path.clear();
        }
        for label in &self.node_label {
            if let Some((key, value)) = label.split_once('=') {
                spec.node_labels.insert(key.into(), value.into());
            } else {
                spec.node_labels.remove(label.strip_suffix('-').unwrap_or(label));
            }
        }
    }
}

/// Why the spec of an agent cannot be used, if the pass has found that.
fn input_error(state: &State, agent_key: &Key) -> Option<String> {
    let condition = state.agents.by_key(agent_key)?.condition(SPEC_SYNCED)?;
    (condition.reason == ConditionReason::InputError).then(|| condition.message.clone())
}

/// Changes agents, all or none: a change that the rules or the pass refuse undoes those of all.
fn change_agents(
    context: &Context,
    names: &[String],
    result: &str,
    edit: impl Fn(&mut Agent),
) -> anyhow::Result<()> {
    let store = context.open_existing_state()?;
    let agent_keys = find_agent_keys(context, &store, names)?;
    let ((), passed) = context.door(&store).change_if_accepted(
        &Scope::Pools(Vec::new()),
        &agent_needs(&agent_keys),
        |state, tick| {
            for agent_key in &agent_keys {
                change_agent(state, agent_key, &edit, tick)?;
            }
            Ok(agent_keys.iter().map(|key| input_error(state, key)).collect::<Vec<_>>())
        },
        |state, errors_before| {
            // An error that was there before is not this command's.
            for (agent_key, error_before) in agent_keys.iter().zip(errors_before) {
                let error = input_error(state, agent_key);
                if error == error_before {
                    continue;
                }
                if let Some(error) = error {
                    return Err(Refusal::invalid(error)
                        .next(format!("poolctl describe agent {}", agent_keys[0].name)));
                }
            }
            Ok(())
        },
    )?;
    for agent_key in &agent_keys {
        context.report_change(Kind::Agent, agent_key, result)?;
    }
    Ok(context.report_pass(&passed)?)
}

/// Changes the spec of one agent and records that as an event; does nothing if the spec is so
/// already.
fn change_agent(
    state: &mut State,
    agent_key: &Key,
    edit: impl Fn(&mut Agent),
    tick: &Tick,
) -> Result<(), Refusal> {
    let Some(agent_id) = state.agents.find(agent_key) else { return Ok(()) };
    let Some(agent) = state.agents.get(agent_id) else { return Ok(()) };
    let mut after = agent.clone();
    edit(&mut after);
    if after.spec == agent.spec {
        return Ok(());
    }
    if agent.metadata.deletion_timestamp.is_some() {
        return Err(edits::refuse_deleted(Kind::Agent, agent_key));
    }
    let is_revoked = agent.spec.approved && !after.spec.approved;
    if is_revoked && let Some(why) = agents::why_approved(state, agent) {
        return Err(Refusal::conflict(format!("Host {}: {why}", agent.hostname())));
    }
    after.metadata.generation += 1;
    rules::check_object(&Object::Agent(Box::new(after.clone())))?;
    let event = if after.spec.approved == agent.spec.approved {
        let message = format!("Host {}: changed", after.hostname());
        agents::agent_event(
            &after,
            EventReason::HostConfigured,
            EventType::Normal,
            message,
            &tick.actor,
            tick,
        )
    } else {
        edits::agents::approval_event(&after, tick)
    };
    state.record_event(event);
    state.agents.update(agent_id, |agent| *agent = after);
    Ok(())
}
