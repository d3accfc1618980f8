//! `agent discover|match`: hosts from their management controllers, and those that fit.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::causes::command_to_make_image;
use crate::edits::initialize_metadata;
use crate::model::agent::{Agent, BMH, INFRA_ENV, Role};
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, INSPECT};
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Name};
use crate::plan::agents;
use crate::plan::leases::command_to_free_host;
use crate::rules::validations::lacks;
use crate::store::{Filter, Need};

use crate::commands::host::hold as host_hold;
use crate::commands::selector::Selector;
use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Discover {
    /// BareMetalHosts; what is in them their controllers say
    #[arg(value_name = "HOST", required_unless_present = "all")]
    names: Vec<String>,
    /// Every host of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The InfraEnv that they are to belong to
    #[arg(long, value_name = "INFRAENV")]
    infraenv: String,
}

impl Verb for Discover {
    const NAME: &'static str = "discover";
    const ABOUT: &'static str = "Make agents of hosts by what their controllers say";
    const EXAMPLE: &'static str = "poolctl agent discover node-1 --infraenv rack --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let infra_env = context.find::<InfraEnv>(&store, &self.infraenv)?.key();
        let mut hosts = Vec::new();
        if self.all {
            let filter = Filter { namespace: Some(context.namespace()?), ..Filter::default() };
            let mut known_hosts = store.list::<BareMetalHost>(&filter)?;
            let keys: Vec<Key> = known_hosts.iter().map(BareMetalHost::key).collect();
            let agents = host_hold::agents_of(&store, filter.namespace, &keys)?;
            // What goes on in a cluster that is not ours any more is nobody's to take.
            known_hosts.retain(|host| {
                let is_host = |agent: &Agent| agent.bmh() == Some(host.key());
                host.cluster().is_none() || agents.iter().any(is_host)
            });
            hosts.extend(known_hosts.iter().map(BareMetalHost::key));
        }
        for name in &self.names {
            hosts.push(context.find::<BareMetalHost>(&store, name)?.key());
        }
        let mut needs: Vec<Need> = Vec::new();
        for key in &hosts {
            needs.push(Need { kind: Kind::BareMetalHost, key: key.clone() });
            needs.push(Need { kind: Kind::Agent, key: key.clone() });
        }
        needs.push(Need { kind: Kind::InfraEnv, key: infra_env.clone() });
        let edit = |state: &mut State, tick: &Tick| {
            store.load_references(&Scope::Pools(Vec::new()), state)?;
            hosts
                .iter()
                .map(|key| discover(state, key, &infra_env, tick))
                .collect::<Result<Vec<_>, _>>()
        };
        let (found, passed) =
            context.door(&store).change(&Scope::Pools(Vec::new()), &needs, edit)?;
        for (key, new) in hosts.iter().zip(found) {
            let done = if new { "discovered" } else { "looked at again" };
            context.changed(Kind::Agent, key, done)?;
        }
        Ok(context.finish(&passed)?)
    }
}

/// An Agent for a host, or another look at it. Whether it is new.
fn discover(state: &mut State, key: &Key, infra_env: &Key, tick: &Tick) -> Result<bool, Refusal> {
    let refuse = |why: String| Refusal::conflict(format!("host `{}`: {why}", key.name));
    let (Some(at), Some(environment)) = (state.hosts.find(key), state.infra_envs.by_key(infra_env))
    else {
        return Ok(false);
    };
    let host = state.hosts.get(at).cloned().unwrap_or_default();
    if host.spec.bmc.is_none() {
        return Err(refuse("has no management controller to ask".into())
            .next(command_to_make_image(&infra_env.name, "")));
    }
    if host.metadata.labels.get(INFRA_ENV).is_some_and(|other| *other != infra_env.name) {
        let other = &host.metadata.labels[INFRA_ENV];
        return Err(refuse(format!("belongs to InfraEnv {other}"))
            .next(format!("poolctl label host {} {INFRA_ENV}-", key.name)));
    }
    let known = state.agents.rows().any(|one| one.bmh().as_ref() == Some(key));
    if let Some(cluster) = host.cluster().filter(|_| !known) {
        return Err(refuse(format!("is kept by cluster {cluster}, and would be installed anew"))
            .next(command_to_free_host(&key.name, "")));
    }
    let its = state.agents.rows().filter(|one| one.infra_env().as_ref() == Some(infra_env));
    let unapproved = its.filter(|one| !one.spec.approved).count();
    let new = (!known).then(|| agents::new(state, environment, &key.name, unapproved));
    let new = new.transpose().map_err(refuse)?;
    state.hosts.update(at, |one| {
        one.metadata.labels.insert(INFRA_ENV.into(), infra_env.name.clone());
        if known || one.status.hardware.is_none() {
            one.metadata.annotations.insert(INSPECT.into(), String::new());
        }
    });
    let Some(mut agent) = new else { return Ok(false) };
    agent.metadata.labels.insert(BMH.into(), key.name.clone());
    // Its board says that.
    agent.status.host_id.clear();
    initialize_metadata(&mut agent.metadata, Kind::Agent, tick);
    agent.status.found = true;
    (agent.status.state_since, agent.status.registered_at) = (Some(tick.now), Some(tick.now));
    let text = format!("Host {}: found by its management controller", key.name);
    let reason = EventReason::HostRegistrationSucceeded;
    state.event(agents::about(&agent, reason, false, text, &tick.actor, tick));
    state.agents.insert(agent);
    Ok(true)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum As {
    Master,
    Worker,
    /// The only node of a cluster
    Single,
}

#[derive(Args)]
pub struct Match {
    /// What they are to be
    #[arg(long, value_enum, default_value = "worker")]
    role: As,
    /// How many are needed; with fewer the exit code is 6
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: usize,
    /// Those with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// At least so many processors
    #[arg(long, value_name = "N")]
    min_cpus: Option<u64>,
    /// At least so much memory, in GiB
    #[arg(long, value_name = "GIB")]
    min_memory: Option<u64>,
}

impl Verb for Match {
    const NAME: &'static str = "match";
    const ABOUT: &'static str =
        "Show which free hosts fit, the weakest first, and why others do not";
    const EXAMPLE: &'static str = "poolctl agent match --role master --count 0 -l rack=7";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let filter = Filter { namespace: context.namespaces()?, ..Filter::default() };
        let (state, _) = context.door(&store).imagine(&Scope::Whole, &[])?;
        let mut candidates = Vec::new();
        for agent in store.list::<Agent>(&filter)? {
            let labels = &agent.metadata.labels;
            if self.selector.as_ref().is_none_or(|selector| selector.matches(labels)) {
                let why = self.misfit(&state, &agent);
                candidates.push(Seen { agent, picked: false, why });
            }
        }
        let (mut fits, others): (Vec<Seen>, Vec<Seen>) =
            candidates.into_iter().partition(|seen| seen.why.is_empty());
        fits.sort_by_cached_key(|seen| agents::roles::rank(&seen.agent));
        for seen in fits.iter_mut().take(self.count.max(1)) {
            seen.picked = true;
        }
        let many = fits.len();
        // Names are for another command, which needs all of them or none.
        if many >= self.count || context.is_for_people() || context.wants_documents() {
            context.answer(list(context, &fits.into_iter().chain(others).collect::<Vec<_>>()))?;
        }
        if many < self.count {
            let what = format!("{many} of {} hosts that are needed fit", self.count);
            return Err(Refusal::new(Exit::Exhausted, what)
                .next("poolctl get agent -o wide")
                .into());
        }
        Ok(())
    }
}

/// A host that was looked at.
struct Seen {
    agent: Agent,
    picked: bool,
    /// What is in the way; nothing: it fits.
    why: Vec<String>,
}

/// All of them; by name, for another command, those that are picked.
fn list(context: &Context, seen: &[Seen]) -> Answer {
    let entry = |Seen { agent, picked, why }: &Seen| {
        let name = picked.then(|| Name::of(Kind::Agent, &agent.metadata.key()));
        let row = || {
            let fit = match (*picked, why.is_empty()) {
                (true, _) => "fits".to_owned(),
                (false, true) => "fits, not needed".to_owned(),
                _ => why.join("; "),
            };
            vec![
                ("name", agent.metadata.name.clone()),
                ("hostname", agent.hostname().to_owned()),
                ("state", agent.state().name().to_owned()),
                ("fit", fit),
            ]
        };
        let document = || {
            let Meta { name, namespace, .. } = &agent.metadata;
            json!({"name": name, "namespace": namespace, "hostname": agent.hostname(),
                   "state": agent.state(), "fits": why.is_empty(), "picked": picked, "why": why})
        };
        context.entry(name, row, document)
    };
    Answer::list(seen.iter().map(entry).collect())
}

impl Match {
    fn misfit(&self, state: &State, one: &Agent) -> Vec<String> {
        let mut why: Vec<String> = agents::pick::not_free(state, one).into_iter().collect();
        let Some(found) = &one.status.inventory else { return why };
        let (role, sno) = match self.role {
            As::Master => (Role::Master, false),
            As::Worker => (Role::Worker, false),
            As::Single => (Role::Master, true),
        };
        why.extend(lacks(found, role, sno).into_iter().map(|(_, why)| why));
        if let Some(least) = self.min_cpus.filter(|least| found.cpu.count < *least) {
            why.push(format!("{} processors, {least} are asked for", found.cpu.count));
        }
        let memory = found.memory.physical_bytes >> 30;
        if let Some(least) = self.min_memory.filter(|least| memory < *least) {
            why.push(format!("{memory} GiB of memory, {least} are asked for"));
        }
        why
    }
}
