//! Which cluster a host belongs to: what its spec wishes for is followed when the host is ready
//! for it, and otherwise said why not.

use crate::model::agent::{Agent, ClusterReference, HostState, Role};
use crate::model::cluster::Cluster;
use crate::model::condition::{Condition, ConditionReason, set_unprobed};
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::plan::clusters_hosts::cluster_that_may_run;
use crate::plan::leases;
use crate::rules;
use crate::rules::validations::eligible_disks;

use super::checks::unmet_gates;
use super::clusters::{self, ONLY_OPEN_CLUSTERS, Stage, architecture, plain, stage, word};
use super::conditions::SPEC_SYNCED;
use super::leaving::{leave_cluster, remove_deleted_agent, unbind_refusal};
use super::{AWAITS_INVENTORY, enter, note, returning};

const BINDING: &str = "Host is waiting to be bound to the cluster";
const MISSING: &str = "Missing InfraEnv: the one that its label names is not there";

/// Why a wish is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Time may help; else the wish itself is wrong.
    pub waits: bool,
    pub why: String,
}

fn wrong(why: impl Into<String>) -> Blocked {
    Blocked { waits: false, why: why.into() }
}

fn waits(why: impl Into<String>) -> Blocked {
    Blocked { waits: true, why: why.into() }
}

/// Makes it so, or says why not.
pub fn follow(state: &mut State, at: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    if agent.metadata.deletion_timestamp.is_some() {
        return remove_deleted_agent(state, at, tick);
    }
    let done = match (agent.bound_to(), agent.wanted()) {
        (None, None) => match agent.infra_env().and_then(|key| state.infra_envs.by_key(&key)) {
            Some(_) => Ok(()),
            None => Err(waits(MISSING)),
        },
        (None, Some(cluster)) => bind(state, at, &cluster, tick),
        (Some(_), None) => unbind(state, at, tick),
        (Some(bound), Some(wanted)) if bound == wanted => Ok(()),
        (Some(_), Some(wanted)) => follow_to(state, at, &wanted, tick),
    };
    let Some(agent) = state.agents.get(at) else { return };
    let done = done.and_then(|()| match unusable(agent) {
        Some(why) => Err(wrong(why)),
        None => Ok(()),
    });
    let new = match done {
        Ok(()) => {
            let text = "The Spec has been successfully applied";
            Condition::new(SPEC_SYNCED, "True", ConditionReason::SyncOk, text)
        }
        Err(blocked) => {
            let (reason, kind) = if blocked.waits {
                (ConditionReason::BackendError, "a backend")
            } else {
                (ConditionReason::InputError, "an input")
            };
            let text = format!("The Spec could not be synced due to {kind} error: {}", blocked.why);
            Condition::new(SPEC_SYNCED, "False", reason, text)
        }
    };
    state.agents.update(at, |one| set_unprobed(&mut one.status.conditions, new, tick.now));
}

/// What of a host's wishes does not fit what was found in it.
fn unusable(agent: &Agent) -> Option<String> {
    let spec = &agent.spec;
    if !agent.state().takes_wishes() {
        return None;
    }
    if let Some(why) = rules::agents::input(agent) {
        return Some(why);
    }
    if !spec.hostname.is_empty()
        && let Some(why) = rules::validations::hostname_problem(&spec.hostname)
    {
        return Some(why);
    }
    if let Some(why) = arbiter(agent) {
        return Some(why);
    }
    let disk = [&spec.installation_disk_id, &spec.installation_disk_path];
    let asked = disk.into_iter().find(|one| !one.is_empty())?;
    let found = agent.status.inventory.as_ref()?;
    let bound = agent.bound_to().map(|_| (agent.role(), false));
    let known = eligible_disks(found, bound).into_iter().any(|one| one.is_called(asked));
    (!known).then(|| "Requested installation disk is not part of the host's valid disks".into())
}

/// Nobody needs one.
fn arbiter(agent: &Agent) -> Option<String> {
    let name = agent.hostname();
    (agent.spec.role == Role::Arbiter)
        .then(|| format!("Host {name} is assigned the arbiter role: no cluster here has arbiters"))
}

/// Why a host is not bound to a cluster, or does not leave its own for it.
pub fn bind_refusal(state: &State, agent: &Agent, wanted: &Key) -> Option<Blocked> {
    let is_bound = agent.bound_to().is_some();
    if is_bound && let Some(why) = unbind_refusal(state, agent) {
        return Some(wrong(why));
    }
    if let Some(blocked) = blocked(state, agent, wanted) {
        return Some(blocked);
    }
    (!is_bound && agent.state() != HostState::KnownUnbound).then(|| waits(not_ready(agent)))
}

/// Why a host that is ready would not be taken; in assisted-service's order.
pub fn blocked(state: &State, agent: &Agent, wanted: &Key) -> Option<Blocked> {
    let name = agent.hostname();
    let Some(cluster) = clusters::at(state, wanted) else {
        let Key { namespace, name } = wanted;
        return Some(waits(format!(
            "failed to get clusterDeployment with name {name} in namespace {namespace}: there is \
             none of that name"
        )));
    };
    let Some(environment) = agent.infra_env().and_then(|key| state.infra_envs.by_key(&key)) else {
        return Some(waits(MISSING));
    };
    if environment.cluster().is_some_and(|key| key != *wanted) {
        let of = environment.cluster().map(|key| key.name).unwrap_or_default();
        let its = &environment.metadata.name;
        return Some(wrong(format!("InfraEnv {its} is bound to Cluster {of}")));
    }
    if let Some(why) = other_architecture(environment, architecture(state, cluster).as_deref()) {
        return Some(wrong(format!("InfraEnv's {why}")));
    }
    if let Some(why) = arbiter(agent) {
        return Some(wrong(why));
    }
    if let Some(why) = kept(state, agent) {
        return Some(waits(format!("Host {name} {why}")));
    }
    if cluster.installed() && agent.spec.role == Role::Master {
        let cluster = &cluster.name;
        return Some(wrong(format!(
            "Host {name} is to be a master, and hosts join cluster {cluster}, which is installed, as workers"
        )));
    }
    let at = stage(state, cluster);
    (!matches!(at, Stage::Open | Stage::Installed))
        .then(|| wrong(format!("{ONLY_OPEN_CLUSTERS}; cluster {} is {}", cluster.name, word(at))))
}

/// Why an environment's machines run nothing of a cluster.
pub fn other_architecture(environment: &InfraEnv, cluster: Option<&str>) -> Option<String> {
    let its = environment.architecture();
    let cluster = cluster.filter(|one| *one != "multi" && *one != plain(its))?;
    Some(format!("CPU architecture ({its}) doesn't match the cluster ({cluster})"))
}

/// Why nobody gets a host, whoever it is.
pub fn kept(state: &State, agent: &Agent) -> Option<String> {
    if agent.is_duplicate() {
        return Some(format!("is the same machine as Agent {}", agent.status.duplicate_of));
    }
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key))?;
    if let Some(why) = host.held() {
        return Some(format!("is held: {why}"));
    }
    if let Some(cluster) = cluster_that_may_run(state, agent) {
        return Some(format!("is held: {}", returning::not_seen_off(cluster)));
    }
    // One that was left running, though its Agent is another by now.
    let of = agent.bound_to().map(|key| key.name);
    let other = host.cluster().filter(|cluster| of.as_deref() != Some(*cluster))?;
    Some(format!("is kept by cluster {other}"))
}

/// A host that was picked has the cluster from now on.
pub fn give(state: &mut State, at: AgentId, cluster: &Key, tick: &Tick) {
    state.agents.update(at, |one| {
        one.spec.cluster_deployment_name = Some(ClusterReference::to(cluster));
    });
    // Picked is what can be bound.
    drop(bind(state, at, cluster, tick));
}

fn bind(state: &mut State, at: AgentId, wanted: &Key, tick: &Tick) -> Result<(), Blocked> {
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    if let Some(refusal) = bind_refusal(state, agent, wanted) {
        return Err(refusal);
    }
    let day2 = clusters::at(state, wanted).is_some_and(Cluster::installed);
    let found = agent.status.found;
    leases::grant_agent(state, at, wanted);
    state.agents.update(at, |one| {
        one.prepare_to_join(day2);
        let status = &mut one.status;
        (status.progress, status.bootstrap) = Default::default();
        status.images.clear();
        if !found {
            status.inventory = None;
        }
    });
    let name = state.agents.get(at).map(|one| one.hostname().to_owned()).unwrap_or_default();
    enter(state, at, HostState::Binding, BINDING, tick);
    let text = format!("Host {name}: Successfully bound to cluster {}", wanted.name);
    note(state, at, EventReason::HostBindSucceeded, false, text, tick);
    if found {
        // Nobody has to come back: what was found of it is known.
        enter(state, at, HostState::Discovering, AWAITS_INVENTORY, tick);
    }
    Ok(())
}

/// A host that is wanted and not free for it: why, and what would help.
fn not_ready(agent: &Agent) -> String {
    let (name, state) = (agent.hostname(), agent.state());
    format!("Host {name} is {state}, it is bound once it is known-unbound: {}", why_not(agent))
}

/// What keeps a host from being known-unbound.
pub fn why_not(agent: &Agent) -> String {
    let state = agent.state();
    match state {
        HostState::InsufficientUnbound => unmet_gates(agent),
        HostState::DisconnectedUnbound => "it has not been heard of for three minutes".into(),
        HostState::DiscoveringUnbound => "it has not said yet what is in it".into(),
        _ if state.is_returning() => "it has not come back from its last cluster".into(),
        _ => agent.status.debug_info.state_info.clone(),
    }
}

fn unbind(state: &mut State, at: AgentId, tick: &Tick) -> Result<(), Blocked> {
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    if let Some(why) = unbind_refusal(state, agent) {
        return Err(wrong(why));
    }
    leave_cluster(state, at, tick);
    Ok(())
}

/// Out of one cluster, and then into another; whoever would not be taken there stays.
fn follow_to(state: &mut State, at: AgentId, wanted: &Key, tick: &Tick) -> Result<(), Blocked> {
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    if let Some(refusal) = bind_refusal(state, agent, wanted) {
        return Err(refusal);
    }
    leave_cluster(state, at, tick);
    // One that was found is back at once; one that reports comes back by itself.
    Ok(())
}
