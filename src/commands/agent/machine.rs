//! `agent register|report|check-in`: records what machines tell about themselves. No pass runs and
//! no job begins, so that any number of machines may report at any time.

pub mod configuration;
pub mod ssh;

use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use crate::edits::initialize_metadata;
use crate::model::agent::Agent;
use crate::model::agent::inventory::Inventory;
use crate::model::agent::report;
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{AgentId, Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Name};
use crate::plan::agents;
use crate::reconcile::Door;
use crate::rules;
use crate::store::{NeededObject, Store};

use crate::commands::agent::machine::configuration::{tell_to_install, waits_for_configuration};
use crate::commands::agent::machine::ssh::{Proof, check_proof, hash_secret};
use crate::commands::agent::refused::is_recorded_enough;
use crate::commands::target;
use crate::commands::{Context, RunCommand};

/// The most bytes that a machine may send at once.
const MAX_BYTES: u64 = 1 << 20;
/// How long a machine may take to send them.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const REFUSED: EventReason = EventReason::HostRegistrationFailed;

/// Arguments of `agent register`, the first message of a machine.
#[derive(Args)]
pub struct Register {
    /// InfraEnv whose image the host was booted from
    #[arg(long, value_name = "INFRAENV")]
    infraenv: String,
    /// Id of the host: the UUID of its mainboard
    #[arg(long, value_name = "ID")]
    id: String,
    /// MAC address of the host; a host that is expected by it is accepted beside any number of
    /// unapproved ones; may be repeated
    #[arg(long, value_name = "MAC")]
    mac: Vec<String>,
}

impl RunCommand for Register {
    const NAME: &'static str = "register";
    const ABOUT: &'static str = "Record that a host was booted from a discovery image";
    const EXAMPLE: &'static str = "\
poolctl agent register --infraenv rack \\
  --id 4c4c4544-0042-3510-8052-b4c04f4d4e32";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let infra_env_key = context.find::<InfraEnv>(&store, &self.infraenv)?.key();
        let machine = Machine { id: &self.id, macs: &self.mac };
        let (name, _) = register_machine(context, &store, &infra_env_key, &machine, None)?;
        context.report_change(Kind::Agent, &Key::new(infra_env_key.namespace, name), "registered")
    }
}

/// Arguments of `agent report`. The inventory is in the wire format of assisted-service.
#[derive(Args)]
pub struct Report {
    /// Agent that reports
    #[arg(value_name = "AGENT")]
    name: String,
    /// JSON file with the hardware of the host; - for stdin
    #[arg(long, value_name = "FILE")]
    inventory: Option<PathBuf>,
    /// Report that the host cannot read the image that it was booted from
    #[arg(long)]
    media_lost: bool,
    /// Installation stage of the host, such as Rebooting
    #[arg(long, value_name = "STAGE")]
    stage: Option<String>,
}

impl RunCommand for Report {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "Record what a host reports about itself";
    const EXAMPLE: &'static str =
        "poolctl agent report node-1 --inventory examples/agents/reports/node-1.json";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let key = find_agent_key(context, &store, &self.name)?;
        let mut report = report::AgentReport::default();
        if let Some(path) = &self.inventory {
            report = report::parse_report(&read_short_file(path)?).map_err(Refusal::invalid)?;
        }
        if self.media_lost {
            report.media = Some(report::BootMedia::Disconnected);
        }
        report.stage = self.stage.or(report.stage);
        if report == report::AgentReport::default() {
            return Err(Refusal::usage("nothing is reported").next(Self::EXAMPLE).into());
        }
        change_agent(context, &store, &key, Surroundings::All, |state, agent_id, tick| {
            take_report(&store, state, agent_id, report, tick)
        })?;
        context.report_change(Kind::Agent, &key, "reported")
    }
}

/// Writes what a machine reports into its agent. The agents of the same machine are loaded too,
/// because the pass compares them.
pub fn take_report(
    store: &Store,
    state: &mut State,
    agent_id: AgentId,
    report: report::AgentReport,
    tick: &Tick,
) -> Result<(), Refusal> {
    let macs = report.inventory.iter().flat_map(Inventory::macs).map(str::to_lowercase);
    store.load_agents_with_macs(state, &macs.collect::<Vec<_>>())?;
    agents::accept_report(state, agent_id, report, tick).map_err(Refusal::conflict)
}

/// The text of a file, or of stdin for `-`; refused above `MAX_BYTES`.
pub fn read_short_file(path: &PathBuf) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        return Ok(read_stdin()?);
    }
    let mut content = String::new();
    let file = std::fs::File::open(path)
        .with_context(|| format!("`{}` cannot be read", path.display()))?;
    file.take(MAX_BYTES + 1).read_to_string(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(refuse_long_text().into());
    }
    Ok(content)
}

/// Arguments of `agent check-in`. The answer is a task for the agent program of the machine.
#[derive(Args)]
pub struct CheckIn {
    /// Agent that checks in
    #[arg(value_name = "AGENT")]
    name: String,
}

impl RunCommand for CheckIn {
    const NAME: &'static str = "check-in";
    const ABOUT: &'static str = "Record that a host is alive, and print its next task";
    const EXAMPLE: &'static str = "poolctl agent check-in node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let key = find_agent_key(context, &store, &self.name)?;
        let instructions = check_in(context, &store, &key)?;
        let answer = Answer::text(format!("{instructions}\n")).with_document(instructions);
        context.answer(answer.with_name(Name::of(Kind::Agent, &key)))
    }
}

/// The key of an Agent that exists. Its document is not read: to decode its inventory would be a large
/// part of what a check-in costs.
fn find_agent_key(context: &Context, store: &Store, name: &str) -> Result<Key, Refusal> {
    let key = context.key(Kind::Agent, &target::without_kind(Kind::Agent, name))?;
    if store.has_agent(&key)? {
        return Ok(key);
    }
    Ok(context.find::<Agent>(store, name)?.key())
}

/// Records the contact, and returns what the agent on the machine is told to do, as JSON.
fn check_in(context: &Context, store: &Store, agent_key: &Key) -> Result<Value, Refusal> {
    let surroundings = Surroundings::OfAnswer;
    let (answer, is_waiting) =
        change_agent(context, store, agent_key, surroundings, |state, agent_id, tick| {
            state.agents.update(agent_id, |agent| {
                agent.status.last_contact_time = Some(tick.now);
                agent.status.media_disconnected = false;
            });
            let agent = state.agents.get(agent_id).ok_or_else(|| no_agent(agent_key))?;
            Ok((agents::check_in_answer(state, agent), waits_for_configuration(agent)))
        })?;
    // To find the configuration, the whole Agent is read again. Most hosts wait for none.
    if is_waiting { tell_to_install(context, store, agent_key, answer) } else { Ok(answer) }
}

/// What is loaded beside an agent before it is edited.
#[derive(Clone, Copy)]
pub enum Surroundings {
    /// What its answer depends on when it checks in.
    OfAnswer,
    /// All that it belongs to.
    All,
}

/// Edits one agent, without a pass.
pub fn change_agent<T>(
    context: &Context,
    store: &Store,
    agent_key: &Key,
    surroundings: Surroundings,
    edit: impl FnOnce(&mut State, AgentId, &Tick) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let door = Door { store, world: &context.world, plans_changes: false };
    let needs = [NeededObject { kind: Kind::Agent, key: agent_key.clone() }];
    let scope = Scope::Pools(Vec::new());
    let (value, _) = door.change(&scope, &needs, |state, tick| {
        match surroundings {
            Surroundings::OfAnswer => store.load_for_check_in(state, agent_key)?,
            Surroundings::All => store.load_references(&scope, state)?,
        }
        let agent_id = state.agents.find(agent_key).ok_or_else(|| no_agent(agent_key))?;
        edit(state, agent_id, tick)
    })?;
    Ok(value)
}

fn no_agent(key: &Key) -> Refusal {
    Refusal::not_found(format!("there is no agent `{}`", key.name))
}

/// What a machine says of itself when it registers.
pub struct Machine<'a> {
    /// The UUID of its board.
    pub id: &'a str,
    pub macs: &'a [String],
}

/// Records that a machine was booted, whether it is known or new. Returns the name of its agent,
/// and the secret with which it proves from now on who it is. `proof` is what it has sent; a person
/// at the command line needs none.
pub fn register_machine(
    context: &Context,
    store: &Store,
    infra_env_key: &Key,
    machine: &Machine<'_>,
    proof: Option<&Proof>,
) -> Result<(String, String), Refusal> {
    let host_id = machine.id.trim().to_lowercase();
    rules::check_name(Kind::Agent, &host_id).map_err(|refusal| {
        Refusal { exit: Exit::Usage, ..refusal }.advise("give the UUID of its board")
    })?;
    let secret = context.world.random_secret()?;
    let scope = Scope::Pools(Vec::new());
    // An agent of another InfraEnv may have this name already.
    let needs =
        [NeededObject { kind: Kind::Agent, key: Key::new(&*infra_env_key.namespace, &*host_id) }];
    let door = Door { store, world: &context.world, plans_changes: false };
    let registered = door.change(&scope, &needs, |state, tick| {
        store.load_infra_env_with_machine(state, infra_env_key, &host_id)?;
        store.load_references(&scope, state)?;
        let agent_key = store.find_agent_of_machine(infra_env_key, &host_id)?;
        let mut known_agent = agent_key.and_then(|key| state.agents.find(&key));
        if let Some(agent_id) = known_agent
            && state.agents.get(agent_id).is_some_and(|agent| agent.status.found_by_controller)
        {
            // A controller has described this machine. Whoever reports under its id may be another
            // one, and becomes an agent of its own.
            state.agents.update(agent_id, |agent| agent.status.host_id.clear());
            known_agent = None;
        }
        if let Some(proof) = proof {
            check_proof(state, infra_env_key, known_agent, proof, tick)?;
        }
        let agent_id = if let Some(agent_id) = known_agent {
            agent_id
        } else {
            check_capacity(store, infra_env_key, machine.macs)?;
            add_agent(state, infra_env_key, &host_id, tick)?
        };
        agents::register_agent(state, agent_id, tick).map_err(Refusal::conflict)?;
        state.agents.update(agent_id, |agent| agent.secret = Some(hash_secret(&secret)));
        let agent = state.agents.get(agent_id);
        Ok(agent.map(|agent| agent.metadata.name.clone()).unwrap_or_default())
    });
    if let Err(refusal) = &registered {
        record_refused_machine(&door, infra_env_key, &host_id, refusal)?;
    }
    Ok((registered?.0, secret))
}

/// Records that a machine was refused, for whoever looks after its InfraEnv. Whoever has an image
/// can try for ever: the same message is recorded once a day, and few within an hour. A refusal
/// without proof is an event of the InfraEnv, whose old events are deleted; events of machines are
/// kept.
fn record_refused_machine(
    door: &Door<'_>,
    infra_env_key: &Key,
    host_id: &str,
    refusal: &Refusal,
) -> Result<(), Refusal> {
    if !matches!(refusal.exit, Exit::Conflict | Exit::Denied) {
        return Ok(());
    }
    let message = format!("Host {host_id}: not registered: {}", refusal.what);
    door.change(&Scope::Pools(Vec::new()), &[], |state, tick| {
        door.store.load_infra_env_with_machine(state, infra_env_key, host_id)?;
        if state.infra_envs.find(infra_env_key).is_none()
            || is_recorded_enough(
                door.store,
                (Kind::InfraEnv, infra_env_key),
                REFUSED,
                &message,
                tick,
            )?
        {
            return Ok(());
        }
        let mut agent = None;
        if refusal.exit != Exit::Denied {
            let agent_key = door.store.find_agent_of_machine(infra_env_key, host_id)?;
            agent = agent_key.and_then(|key| state.agents.by_key(&key));
        }
        let event = match agent {
            Some(agent) => {
                let warning = EventType::Warning;
                agents::agent_event(agent, REFUSED, warning, message, &tick.actor, tick)
            }
            None => Event {
                time: tick.now,
                event_type: EventType::Warning,
                reason: REFUSED.into(),
                kind: Kind::InfraEnv.name(),
                object: infra_env_key.clone(),
                actor: tick.actor.clone(),
                message,
                ..Event::default()
            },
        };
        state.record_event(event);
        Ok(())
    })?;
    Ok(())
}

/// Refuses a machine if its InfraEnv has too many that nobody has approved. For each host that
/// somebody expects there is a place beside them.
fn check_capacity(store: &Store, infra_env_key: &Key, macs: &[String]) -> Result<(), Refusal> {
    let unapproved = store.count_unapproved_agents(infra_env_key)?;
    let reserved = if unapproved < agents::MAX_UNAPPROVED {
        0
    } else {
        store.count_expected_hosts(infra_env_key, macs)?
    };
    let name = &infra_env_key.name;
    agents::refuse_crowd(name, unapproved, reserved).map_err(|why| {
        Refusal::conflict(why).next(format!("poolctl agent delete --unapproved --infraenv {name}"))
    })
}

/// Adds an agent for a machine that registers for the first time, and returns its id in the state.
/// Refused if the InfraEnv is gone, or if its cluster takes no more machines.
fn add_agent(
    state: &mut State,
    infra_env_key: &Key,
    host_id: &str,
    tick: &Tick,
) -> Result<AgentId, Refusal> {
    let infra_env = state.infra_envs.by_key(infra_env_key).ok_or_else(|| {
        Refusal::not_found(format!("there is no InfraEnv `{}`", infra_env_key.name))
    })?;
    let mut agent = agents::new_agent(state, infra_env, host_id).map_err(Refusal::conflict)?;
    initialize_metadata(&mut agent.metadata, Kind::Agent, tick);
    Ok(state.agents.insert(agent))
}

fn refuse_long_text() -> Refusal {
    Refusal::invalid("the input has more than 1 MiB")
}

/// All of stdin; refused above `MAX_BYTES`, and after `READ_TIMEOUT`.
pub fn read_stdin() -> Result<String, Refusal> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut content = String::new();
        let read = std::io::stdin().take(MAX_BYTES + 1).read_to_string(&mut content);
        drop(sender.send(read.map(|_| content)));
    });
    let read = receiver
        .recv_timeout(READ_TIMEOUT)
        .map_err(|_| Refusal::new(Exit::Timeout, "the input was not complete within 30 s"))?;
    let content =
        read.map_err(|error| Refusal::invalid("stdin cannot be read").because(error.to_string()))?;
    if content.len() as u64 > MAX_BYTES { Err(refuse_long_text()) } else { Ok(content) }
}
