//! `agent discover`: makes agents of hosts that a management controller can describe.
//! `agent match`: shows which free machines fit a role. Neither installs anything.

use std::collections::HashSet;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::causes::command_to_make_image;
use crate::edits::initialize_metadata;
use crate::model::agent::needs::NodeRole;
use crate::model::agent::{Agent, HOST_LABEL, INFRA_ENV_LABEL, Role};
use crate::model::bmc::BmcAddress;
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, INSPECT};
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::output::{Answer, Name};
use crate::plan::agents;
use crate::plan::leases::command_to_free_host;
use crate::rules::validations::missing_requirements;
use crate::store::{Filter, NeededObject, Store};

use crate::commands::host::hold as host_hold;
use crate::commands::selector::Selector;
use crate::commands::waiting::{Observation, WaitOutcome, WaitProgress, Waiting};
use crate::commands::{Context, RunCommand, count_of};

/// Arguments of `agent discover`. It reads controllers over the network, and then writes agents in
/// one transaction.
#[derive(Args)]
pub struct Discover {
    /// BareMetalHosts whose hardware is read from their management controllers
    #[arg(value_name = "HOST", required_unless_present = "all")]
    names: Vec<String>,
    /// All hosts of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// InfraEnv of the new agents
    #[arg(long, value_name = "INFRAENV")]
    infraenv: String,
    /// How long to wait for the controllers; 0s asks them without waiting
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: Span,
}

impl RunCommand for Discover {
    const NAME: &'static str = "discover";
    const ABOUT: &'static str =
        "Create agents from the hardware that management controllers report";
    const EXAMPLE: &'static str = "poolctl agent discover node-1 --infraenv rack --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let infra_env_key = context.find::<InfraEnv>(&store, &self.infraenv)?.key();
        let host_keys = self.find_host_keys(context, &store)?;
        let mut needs: Vec<NeededObject> = Vec::new();
        for host_key in &host_keys {
            needs.push(NeededObject { kind: Kind::BareMetalHost, key: host_key.clone() });
            // The new agent is called like its host.
            needs.push(NeededObject { kind: Kind::Agent, key: host_key.clone() });
        }
        needs.push(NeededObject { kind: Kind::InfraEnv, key: infra_env_key.clone() });
        let scope = Scope::Pools(Vec::new());
        let (are_new, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            store.load_references(&scope, state)?;
            let mut known_hosts: HashSet<Key> =
                state.agents.rows().filter_map(Agent::host_key).collect();
            let mut are_new = Vec::new();
            for host_key in &host_keys {
                let is_new = known_hosts.insert(host_key.clone());
                are_new.push(discover_host(state, host_key, &infra_env_key, is_new, tick)?);
            }
            Ok(are_new)
        })?;
        context.report_pass(&passed)?;
        let is_waiting = !context.globals.no_reconcile
            && self.timeout > Span::default()
            && !context.world.is_clock_standing();
        if is_waiting {
            self.wait_for_controllers(context, &store, &host_keys)?;
        }
        let mut failures = Vec::new();
        for (host_key, is_new) in host_keys.iter().zip(are_new) {
            let error = read_inspection_error(&store, host_key)?;
            let result = match (&error, is_new, is_waiting) {
                (Some(error), ..) => format!("its hardware cannot be read: {error}"),
                (None, true, _) => "discovered".to_owned(),
                (None, false, true) => "inspected again".to_owned(),
                (None, false, false) => "will be inspected again".to_owned(),
            };
            context.report_change(Kind::Agent, host_key, &result)?;
            failures.extend(error.map(|error| (host_key, error)));
        }
        Ok(refuse_failures(&failures, host_keys.len())?)
    }
}

/// Refuses if controllers did not describe their machines. The agents stay, and the pass asks these
/// controllers again.
fn refuse_failures(failures: &[(&Key, String)], host_count: usize) -> Result<(), Refusal> {
    let Some((host_key, error)) = failures.first() else { return Ok(()) };
    let name = &host_key.name;
    let what = match failures.len() {
        1 => format!("host `{name}`: its hardware cannot be read: {error}"),
        count => format!("the hardware of {count} of {host_count} hosts cannot be read"),
    };
    let mut refusal = Refusal::new(Exit::Failed, what).next(format!("poolctl why host/{name}"));
    if failures.len() > 1 {
        for (host_key, error) in failures {
            refusal = refusal.because(format!("host {}: {error}", host_key.name));
        }
    }
    Err(refusal)
}

/// Why the controller of a host has not told what hardware the host has; none if it has, or if it
/// was not asked yet.
fn read_inspection_error(store: &Store, host_key: &Key) -> Result<Option<String>, Refusal> {
    let Some(host) = store.find::<BareMetalHost>(host_key)? else { return Ok(None) };
    let status = &host.status;
    if !status.error_message.is_empty() {
        return Ok(Some(status.error_message.clone()));
    }
    if status.error_count > 0 {
        return Ok(Some("the job that asked its controller was interrupted".to_owned()));
    }
    let is_asked = status.good_credentials.is_some() && !host.metadata.has_annotation(INSPECT);
    if is_asked && status.hardware.is_none() {
        return Ok(Some("its controller does not describe hardware".to_owned()));
    }
    Ok(None)
}

/// Whether nothing more is to be waited for: the hardware of a host was read, or that has failed.
fn is_inspection_over(host: &BareMetalHost) -> bool {
    let status = &host.status;
    let is_read = status.good_credentials.is_some() && !host.metadata.has_annotation(INSPECT);
    is_read || status.error_count > 0 || !status.error_message.is_empty() || host.is_left_alone()
}

impl Discover {
    /// Waits until the controllers have described their hosts or have failed to.
    fn wait_for_controllers(
        &self,
        context: &Context,
        store: &Store,
        host_keys: &[Key],
    ) -> Result<(), Refusal> {
        let door = context.door(store);
        let waiting = Waiting { context, door: &door, pool: None, limit: self.timeout };
        let mut late = 0;
        let ended = waiting.wait_until(|_| {
            late = 0;
            for host_key in host_keys {
                let host = store.find::<BareMetalHost>(host_key)?;
                late += usize::from(host.is_some_and(|host| !is_inspection_over(&host)));
            }
            if late == 0 {
                return Ok(Observation::Met(()));
            }
            let total = host_keys.len();
            let met = total.saturating_sub(late);
            Ok(Observation::NotYet(WaitProgress {
                done: met as u64,
                total: total as u64,
                description: format!("{met} of {total} hosts"),
                ..WaitProgress::default()
            }))
        })?;
        match ended {
            WaitOutcome::Met(()) => Ok(()),
            WaitOutcome::Interrupted(exit) => Err(Refusal::new(exit, "interrupted")),
            WaitOutcome::Late => {
                let waited = self.timeout.to_short_text();
                let problem = format!("hosts that were not inspected within {waited}: {late}");
                Err(Refusal::new(Exit::Timeout, problem).next("poolctl job list"))
            }
        }
    }

    /// The hosts that are named, or with `--all` those of the namespace that may become agents.
    fn find_host_keys(&self, context: &Context, store: &Store) -> Result<Vec<Key>, Refusal> {
        let mut host_keys = Vec::new();
        if self.all {
            let filter = Filter { namespace: Some(context.namespace()?), ..Filter::default() };
            let mut hosts = store.list::<BareMetalHost>(&filter)?;
            let keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
            let agents = host_hold::list_agents_of_hosts(store, &keys)?;
            // A host that runs on in a cluster which has left the state is for nobody to take.
            hosts.retain(|host| {
                host.cluster().is_none()
                    || agents.iter().any(|agent| agent.host_key() == Some(host.key()))
            });
            let host_count = hosts.len();
            hosts.retain(|host| host.status.hardware.is_some() || !speaks_ipmi(host));
            let left_out = host_count - hosts.len();
            if hosts.is_empty() && left_out > 0 {
                let problem = "all hosts are left out: IPMI cannot describe hardware";
                return Err(Refusal::new(Exit::Failed, problem)
                    .next(command_to_make_image(&self.infraenv, "")));
            }
            if left_out > 0 {
                let hosts = count_of(left_out, "host");
                context.warn(&format!("{hosts} left out: IPMI cannot describe hardware"));
            }
            host_keys.extend(hosts.iter().map(BareMetalHost::key));
        }
        for name in &self.names {
            host_keys.push(context.find::<BareMetalHost>(store, name)?.key());
        }
        Ok(host_keys)
    }
}

/// Makes an agent of a host (`is_new`), or has a host that is an agent already inspected again.
/// Returns whether there is a new agent.
fn discover_host(
    state: &mut State,
    host_key: &Key,
    infra_env_key: &Key,
    is_new: bool,
    tick: &Tick,
) -> Result<bool, Refusal> {
    let Some(host_id) = state.hosts.find(host_key) else { return Ok(false) };
    let Some(infra_env) = state.infra_envs.by_key(infra_env_key) else { return Ok(false) };
    let host = state.hosts.get(host_id).cloned().unwrap_or_default();
    let is_known = !is_new;
    refuse_undiscoverable(&host, infra_env_key, is_known)?;
    let mut new_agent = None;
    if !is_known {
        // It is approved because it is managed: no number of strangers keeps it out.
        let agent = agents::new_agent(state, infra_env, &host_key.name);
        new_agent = Some(agent.map_err(|why| refuse_host(host_key, &why))?);
    }
    state.hosts.update(host_id, |host| {
        host.metadata.labels.insert(INFRA_ENV_LABEL.into(), infra_env_key.name.clone());
        // Its controller is asked at once, whatever it answered before.
        host.status.error_count = 0;
        host.status.clear_error();
        if is_known || host.status.hardware.is_none() {
            host.metadata.annotations.insert(INSPECT.into(), String::new());
        }
    });
    let Some(mut agent) = new_agent else { return Ok(false) };
    agent.metadata.labels.insert(HOST_LABEL.into(), host_key.name.clone());
    // It is the UUID of the board, which only the inspection of the host tells.
    agent.status.host_id.clear();
    initialize_metadata(&mut agent.metadata, Kind::Agent, tick);
    agent.status.found_by_controller = true;
    agent.status.state_since = Some(tick.now);
    agent.status.registered_at = Some(tick.now);
    let message = format!("Host {}: found by its management controller", host_key.name);
    let reason = EventReason::HostRegistrationSucceeded;
    state.record_event(agents::agent_event(
        &agent,
        reason,
        EventType::Normal,
        message,
        &tick.actor,
        tick,
    ));
    state.agents.insert(agent);
    Ok(true)
}

fn speaks_ipmi(host: &BareMetalHost) -> bool {
    matches!(host.bmc_address(), Some(BmcAddress::Ipmi { .. }))
}

fn refuse_host(host_key: &Key, why: &str) -> Refusal {
    Refusal::conflict(format!("host `{}`: {why}", host_key.name))
}

/// Refuses a host that no controller describes, that is of another InfraEnv, or that a cluster
/// keeps without an agent of ours.
fn refuse_undiscoverable(
    host: &BareMetalHost,
    infra_env_key: &Key,
    is_known: bool,
) -> Result<(), Refusal> {
    let host_key = host.key();
    let name = &host_key.name;
    if host.spec.bmc.is_none() {
        return Err(refuse_host(&host_key, "it has no management controller")
            .next(command_to_make_image(&infra_env_key.name, "")));
    }
    if host.status.hardware.is_none() && speaks_ipmi(host) {
        let refusal = refuse_host(&host_key, "IPMI cannot describe its hardware")
            .because("a host that boots the discovery image describes itself")
            .next(command_to_make_image(&infra_env_key.name, ""));
        return Err(Refusal { exit: Exit::Failed, ..refusal });
    }
    if let Some(infra_env) = host.metadata.labels.get(INFRA_ENV_LABEL)
        && *infra_env != infra_env_key.name
    {
        return Err(refuse_host(&host_key, &format!("it belongs to InfraEnv {infra_env}"))
            .next(format!("poolctl label host {name} {INFRA_ENV_LABEL}-")));
    }
    if let Some(cluster) = host.cluster()
        && !is_known
    {
        let why = format!("it is kept by cluster {cluster} and would be reinstalled");
        return Err(refuse_host(&host_key, &why).next(command_to_free_host(name, "")));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum As {
    Master,
    Worker,
    /// The only node of a cluster
    Single,
}

/// Arguments of `agent match`, which only reads the state.
#[derive(Args)]
pub struct Match {
    /// Role that the hosts must be suitable for
    #[arg(long, value_enum, default_value = "worker")]
    role: As,
    /// Number of hosts to find; exit code 6 if fewer fit
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: usize,
    /// Only hosts with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Only hosts with at least this many CPU threads
    #[arg(long, value_name = "N")]
    min_cpus: Option<u64>,
    /// Only hosts with at least this much memory, in GiB
    #[arg(long, value_name = "GIB")]
    min_memory: Option<u64>,
}

impl RunCommand for Match {
    const NAME: &'static str = "match";
    const ABOUT: &'static str = "Show which free hosts fit a role, and why others do not";
    const EXAMPLE: &'static str = "poolctl agent match --role master --count 3";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let filter = Filter { namespace: context.namespace_filter()?, ..Filter::default() };
        let (state, _) = context.door(&store).load_for_dry_run(&Scope::Whole, &[])?;
        let mut candidates = Vec::new();
        for agent in store.list::<Agent>(&filter)? {
            let labels = &agent.metadata.labels;
            if self.selector.as_ref().is_none_or(|selector| selector.matches(labels)) {
                let why = self.find_obstacles(&state, &agent);
                candidates.push(Candidate { agent, picked: false, why });
            }
        }
        let (mut fitting, unfit): (Vec<Candidate>, Vec<Candidate>) =
            candidates.into_iter().partition(|candidate| candidate.why.is_empty());
        fitting.sort_by_cached_key(|candidate| agents::roles::usage_rank(&candidate.agent));
        for candidate in fitting.iter_mut().take(self.count.max(1)) {
            candidate.picked = true;
        }
        let fitting_count = fitting.len();
        // Names are for another command, which needs all of them or none.
        if fitting_count >= self.count || context.wants_rows() || context.wants_documents() {
            fitting.extend(unfit);
            context.answer(list_candidates(context, &fitting))?;
        }
        if fitting_count < self.count {
            let problem = format!("too few hosts fit: {fitting_count} of {}", self.count);
            return Err(Refusal::new(Exit::Exhausted, problem)
                .next("poolctl get agent -o wide")
                .into());
        }
        Ok(())
    }
}

/// A machine that was looked at, and whether it fits.
struct Candidate {
    agent: Agent,
    picked: bool,
    /// Why it does not fit; empty if it does.
    why: Vec<String>,
}

/// A list of all candidates; its names, which are for another command, are those of the picked.
fn list_candidates(context: &Context, candidates: &[Candidate]) -> Answer {
    let mut entries = Vec::new();
    for Candidate { agent, picked, why } in candidates {
        let name = picked.then(|| Name::of(Kind::Agent, &agent.metadata.key()));
        let fit = match (*picked, why.is_empty()) {
            (true, _) => "fits".to_owned(),
            (false, true) => "fits, not needed".to_owned(),
            _ => why.join("; "),
        };
        entries.push(context.entry(
            name,
            || {
                vec![
                    ("name", agent.metadata.name.clone()),
                    ("hostname", agent.hostname().to_owned()),
                    ("state", agent.state().name().to_owned()),
                    ("fit", fit),
                ]
            },
            || {
                let Meta { name, namespace, .. } = &agent.metadata;
                json!({"name": name, "namespace": namespace, "hostname": agent.hostname(),
                       "state": agent.state(), "fits": why.is_empty(), "picked": picked,
                       "why": why})
            },
        ));
    }
    Answer::list(entries)
}

impl Match {
    /// Everything in the way of a machine; empty if it fits.
    fn find_obstacles(&self, state: &State, agent: &Agent) -> Vec<String> {
        let mut obstacles: Vec<String> =
            agents::pick::why_not_free(state, agent).into_iter().collect();
        let Some(inventory) = agent.inventory() else { return obstacles };
        let node = match self.role {
            As::Master => NodeRole::multi_node(Role::Master),
            As::Worker => NodeRole::multi_node(Role::Worker),
            As::Single => NodeRole::SINGLE_NODE,
        };
        obstacles.extend(missing_requirements(inventory, node).into_iter().map(|(_, why)| why));
        let cpus = inventory.cpu.count;
        if let Some(min_cpus) = self.min_cpus
            && cpus < min_cpus
        {
            obstacles.push(format!("has {cpus} processors, needs {min_cpus}"));
        }
        let memory = inventory.memory.physical_bytes >> 30;
        if let Some(min_memory) = self.min_memory
            && memory < min_memory
        {
            obstacles.push(format!("has {memory} GiB of memory, needs {min_memory}"));
        }
        obstacles
    }
}
