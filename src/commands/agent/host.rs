//! `agent register|report|check-in`: what hosts say of themselves. It is recorded; no pass runs, and
//! no job begins.

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
use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{AgentId, Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::output::{Answer, Name};
use crate::plan::agents;
use crate::reconcile::Door;
use crate::rules;
use crate::store::{Need, Store};

use crate::commands::agent::host::ssh::{Proof, admit, hash};
use crate::commands::{Context, Verb};

/// The most that a host may say at once.
const LARGEST: u64 = 1 << 20;
/// And how long it may take to say it.
const PATIENCE: Duration = Duration::from_secs(30);
const REFUSED: EventReason = EventReason::HostRegistrationFailed;
/// The most refused hosts of an InfraEnv that are written down within an hour, and how far back
/// that is looked for.
const REFUSALS: usize = 20;
const LOOKED_AT: usize = 200;

#[derive(Args)]
pub struct Register {
    /// The InfraEnv whose image it was booted from
    #[arg(long, value_name = "INFRAENV")]
    infraenv: String,
    /// How the host calls itself: the UUID of its board
    #[arg(long, value_name = "ID")]
    id: String,
}

impl Verb for Register {
    const NAME: &'static str = "register";
    const ABOUT: &'static str = "Say that a host was booted from a discovery image";
    const EXAMPLE: &'static str =
        "poolctl agent register --infraenv rack --id 4c4c4544-0042-3510-8052-b4c04f4d4e32";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let infra_env = context.find::<InfraEnv>(&store, &self.infraenv)?.key();
        let (name, _) = registered(context, &store, &infra_env, &self.id, None)?;
        context.changed(Kind::Agent, &Key::new(infra_env.namespace, name), "registered")
    }
}

#[derive(Args)]
pub struct Report {
    /// A host, as `get agent` names it
    #[arg(value_name = "AGENT")]
    name: String,
    /// What is in the host, as its agent says it; - is stdin
    #[arg(long, value_name = "FILE")]
    inventory: Option<PathBuf>,
    /// It cannot read the image it was booted from
    #[arg(long)]
    media_lost: bool,
    /// How far its installation is, such as Rebooting
    #[arg(long, value_name = "STAGE")]
    stage: Option<String>,
}

impl Verb for Report {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "Say what is in a host";
    const EXAMPLE: &'static str =
        "poolctl agent report node-1 --inventory examples/agents/inventory.json";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let key = context.find::<Agent>(&store, &self.name)?.key();
        let mut said = report::Report::default();
        if let Some(path) = &self.inventory {
            let text = text_of(path)?;
            said = report::read(&text).map_err(Refusal::invalid)?;
        }
        if self.media_lost {
            said.media_disconnected = Some(true);
        }
        said.stage = self.stage.or(said.stage);
        if said == report::Report::default() {
            return Err(Refusal::usage("nothing is reported").next(Self::EXAMPLE).into());
        }
        record(context, &store, &key, |state, at, tick| reported(&store, state, at, said, tick))?;
        context.changed(Kind::Agent, &key, "reported")
    }
}

/// Takes down what a host says of itself; beside it are those that say the same.
pub fn reported(
    store: &Store,
    state: &mut State,
    at: AgentId,
    said: report::Report,
    tick: &Tick,
) -> Result<(), Refusal> {
    let macs = said.inventory.iter().flat_map(Inventory::macs).map(str::to_lowercase);
    store.load_machines(state, &macs.collect::<Vec<_>>())?;
    agents::report(state, at, said, tick).map_err(Refusal::conflict)
}

pub fn text_of(path: &PathBuf) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        return Ok(heard()?);
    }
    let mut text = String::new();
    let file = std::fs::File::open(path)
        .with_context(|| format!("`{}` cannot be read", path.display()))?;
    file.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(too_long().into());
    }
    Ok(text)
}

#[derive(Args)]
pub struct CheckIn {
    /// A host, as `get agent` names it
    #[arg(value_name = "AGENT")]
    name: String,
}

impl Verb for CheckIn {
    const NAME: &'static str = "check-in";
    const ABOUT: &'static str = "Say that a host is still there, and hear what it is to do";
    const EXAMPLE: &'static str = "poolctl agent check-in node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let key = context.find::<Agent>(&store, &self.name)?.key();
        let next = checked_in(context, &store, &key)?;
        let answer = Answer::text(format!("{next}\n")).with_document(next);
        context.answer(answer.with_name(Name::of(Kind::Agent, &key)))
    }
}

fn checked_in(context: &Context, store: &Store, key: &Key) -> Result<Value, Refusal> {
    record(context, store, key, |state, at, tick| {
        state.agents.update(at, |one| {
            one.status.last_contact_time = Some(tick.now);
            one.status.media_disconnected = false;
        });
        let agent = state.agents.get(at);
        Ok(agent.map(|one| agents::after_check_in(state, one)).unwrap_or_default())
    })
}

/// An edit of one host, and nothing else.
pub fn record<T>(
    context: &Context,
    store: &Store,
    key: &Key,
    how: impl FnOnce(&mut State, AgentId, &Tick) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let door = Door { store, world: &context.world, pass: false };
    let needs = [Need { kind: Kind::Agent, key: key.clone() }];
    let scope = Scope::Pools(Vec::new());
    let (done, _) = door.change(&scope, &needs, |state, tick| {
        store.load_references(&scope, state)?;
        let at = state.agents.find(key);
        let at =
            at.ok_or_else(|| Refusal::not_found(format!("there is no agent `{}`", key.name)))?;
        how(state, at, tick)
    })?;
    Ok(done)
}

/// A host says that it was booted; known or new. Its name, and what it proves itself with from
/// now on.
pub fn registered(
    context: &Context,
    store: &Store,
    infra_env: &Key,
    id: &str,
    proof: Option<&Proof>,
) -> Result<(String, String), Refusal> {
    let id = id.trim().to_lowercase();
    rules::name_of(Kind::Agent, &id).map_err(|refusal| {
        Refusal { exit: Exit::Usage, ..refusal }.advise("the UUID of its board")
    })?;
    let secret = context.world.secret()?;
    let scope = Scope::Pools(Vec::new());
    // Who has its name already, of whatever InfraEnv.
    let needs = [Need { kind: Kind::Agent, key: Key::new(&*infra_env.namespace, &*id) }];
    let door = Door { store, world: &context.world, pass: false };
    let done = door.change(&scope, &needs, |state, tick| {
        store.load_host(state, infra_env, &id)?;
        store.load_references(&scope, state)?;
        let known = store.agent_of(infra_env, &id)?.and_then(|key| state.agents.find(&key));
        let found = |at: &AgentId| state.agents.get(*at).is_some_and(|one| one.status.found);
        let (found, known) = (known.filter(found), known.filter(|at| !found(at)));
        if let Some(at) = found {
            // Whoever says that it is a host that we have found is looked at by itself.
            state.agents.update(at, |one| one.status.host_id.clear());
        }
        if let Some(proof) = proof {
            admit(state, infra_env, known, proof, tick)?;
        }
        let at = match known {
            Some(at) => at,
            None => add(state, infra_env, (&id, store.unapproved(infra_env)?), tick)?,
        };
        let refused = |why: String| Refusal::conflict(why);
        agents::register(state, at, tick).map_err(refused)?;
        state.agents.update(at, |one| one.secret = Some(hash(&secret)));
        Ok(state.agents.get(at).map(|one| one.metadata.name.clone()).unwrap_or_default())
    });
    if let Err(refusal) = &done {
        note_refused(&door, infra_env, &id, refusal)?;
    }
    Ok((done?.0, secret))
}

/// Writes down that a host was refused, for whoever looks after its InfraEnv. Whoever has an image
/// can try for ever: the same is written once a day, and little within an hour. What nobody has
/// proved to be of a host is of the InfraEnv, whose events go in time; those of hosts stay.
fn note_refused(
    door: &Door<'_>,
    infra_env: &Key,
    id: &str,
    refusal: &Refusal,
) -> Result<(), Refusal> {
    if !matches!(refusal.exit, Exit::Conflict | Exit::Denied) {
        return Ok(());
    }
    let text = format!("Host {id}: not registered: {}", refusal.what);
    door.change(&Scope::Pools(Vec::new()), &[], |state, tick| {
        door.store.load_host(state, infra_env, id)?;
        let known = door.store.events(Some((Kind::InfraEnv, infra_env)), LOOKED_AT)?;
        let lately = |within: Span| {
            let failures = known.iter().filter(|one| one.reason == REFUSED);
            failures.filter(move |one| tick.now.since(one.time) < within)
        };
        let again = lately(Span::hours(24)).any(|one| one.message == text);
        let enough = lately(Span::hours(1)).count() >= REFUSALS;
        if again || enough || state.infra_envs.find(infra_env).is_none() {
            return Ok(());
        }
        let host = door.store.agent_of(infra_env, id)?.filter(|_| refusal.exit != Exit::Denied);
        let event = match host.and_then(|key| state.agents.by_key(&key)) {
            Some(one) => agents::about(one, REFUSED, true, text, &tick.actor, tick),
            None => Event {
                time: tick.now,
                warning: true,
                reason: REFUSED.into(),
                kind: Kind::InfraEnv.name(),
                object: infra_env.clone(),
                actor: tick.actor.clone(),
                message: text,
                ..Event::default()
            },
        };
        state.event(event);
        Ok(())
    })?;
    Ok(())
}

fn add(
    state: &mut State,
    infra_env: &Key,
    (id, unapproved): (&str, usize),
    tick: &Tick,
) -> Result<AgentId, Refusal> {
    let missing = || Refusal::not_found(format!("there is no InfraEnv `{}`", infra_env.name));
    let environment = state.infra_envs.by_key(infra_env).ok_or_else(missing)?;
    let agent = agents::new(state, environment, id, unapproved);
    let mut agent = agent.map_err(Refusal::conflict)?;
    initialize_metadata(&mut agent.metadata, Kind::Agent, tick);
    Ok(state.agents.insert(agent))
}

fn too_long() -> Refusal {
    Refusal::invalid("more than 1 MiB was said at once")
}

/// All of stdin, if it is not too long and does not take too long.
pub fn heard() -> Result<String, Refusal> {
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().take(LARGEST + 1).read_to_string(&mut text);
        drop(tell.send(read.map(|_| text)));
    });
    let slow = |_| Refusal::new(Exit::Timeout, "nothing whole was said within 30 s");
    let text = hear.recv_timeout(PATIENCE).map_err(slow)?;
    let text =
        text.map_err(|error| Refusal::invalid("stdin cannot be read").because(error.to_string()))?;
    if text.len() as u64 > LARGEST { Err(too_long()) } else { Ok(text) }
}
