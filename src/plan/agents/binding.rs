//! Which cluster a host belongs to: what the spec of its Agent wishes for is done when the host is
//! ready for it, and otherwise the condition SpecSynced says why not. It never picks a host.

use crate::model::agent::needs::NodeRole;
use crate::model::agent::{Agent, ClusterReference, HostState, Progress, Role};
use crate::model::cluster::Cluster;
use crate::model::condition::{Condition, ConditionReason};
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::plan::cluster_hosts::cluster_that_may_run;
use crate::plan::leases;
use crate::rules;
use crate::rules::validations::eligible_disks;

use super::checks::unmet_gates;
use super::clusters::{
    self, ClusterStage, ONLY_OPEN_CLUSTERS, cluster_architecture, cluster_stage,
    normalize_architecture,
};
use super::conditions::SPEC_SYNCED;
use super::leaving::{leave_cluster, remove_deleted_agent, unbind_refusal};
use super::{
    WAITING_FOR_INVENTORY, enter_state, record_agent_event, returning, set_agent_condition,
};

const BINDING: &str = "Host is waiting to be bound to the cluster";
const MISSING_INFRA_ENV: &str =
    "Missing InfraEnv: the InfraEnv that its label names does not exist";

/// What keeps the spec of an Agent from being followed, in assisted-service's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecErrorKind {
    /// The spec itself is wrong.
    Input,
    /// Time may help.
    Backend,
}

/// Why the spec of an Agent is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    pub kind: SpecErrorKind,
    pub why: String,
}

fn input_error(why: impl Into<String>) -> SpecError {
    SpecError { kind: SpecErrorKind::Input, why: why.into() }
}

fn backend_error(why: impl Into<String>) -> SpecError {
    SpecError { kind: SpecErrorKind::Backend, why: why.into() }
}

/// Binds a host, unbinds it or removes it, as its spec says, and writes SpecSynced.
pub fn sync_spec(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    if agent.metadata.deletion_timestamp.is_some() {
        return remove_deleted_agent(state, agent_id, tick);
    }
    let binding = match (agent.bound_cluster(), agent.requested_cluster()) {
        (None, None) => match agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key)) {
            Some(_) => Ok(()),
            None => Err(backend_error(MISSING_INFRA_ENV)),
        },
        (Some(_), None) => unbind_agent(state, agent_id, tick),
        (Some(bound), Some(wanted)) if bound == wanted => Ok(()),
        (_, Some(wanted)) => send_to_cluster(state, agent_id, &wanted, tick),
    };
    let Some(agent) = state.agents.get(agent_id) else { return };
    let outcome = binding.and_then(|()| match find_spec_problem(agent) {
        Some(problem) => Err(input_error(problem)),
        None => Ok(()),
    });
    let condition = match outcome {
        // Only Agents whose spec was followed are settled, so the condition says so already.
        Ok(()) if state.agents.is_settled(agent_id) => return,
        Ok(()) => {
            let message = "The Spec has been successfully applied";
            Condition::new(SPEC_SYNCED, "True", ConditionReason::SyncOk, message)
        }
        Err(SpecError { kind, why }) => {
            let (reason, kind_name) = match kind {
                SpecErrorKind::Input => (ConditionReason::InputError, "an input"),
                SpecErrorKind::Backend => (ConditionReason::BackendError, "a backend"),
            };
            let message = format!("The Spec could not be synced due to {kind_name} error: {why}");
            Condition::new(SPEC_SYNCED, "False", reason, message)
        }
    };
    set_agent_condition(state, agent_id, condition, tick);
}

/// What the spec of a host asks for that is invalid, or that its machine cannot give.
fn find_spec_problem(agent: &Agent) -> Option<String> {
    let spec = &agent.spec;
    if !agent.state().can_change_settings() {
        return None;
    }
    if let Some(problem) = rules::agents::find_input_problem(agent) {
        return Some(problem);
    }
    if !spec.hostname.is_empty()
        && let Some(problem) = rules::validations::hostname_problem(&spec.hostname)
    {
        return Some(problem);
    }
    if let Some(refusal) = arbiter_refusal(agent) {
        return Some(refusal);
    }
    let disk_names = [&spec.installation_disk_id, &spec.installation_disk_path];
    let disk_name = disk_names.into_iter().find(|name| !name.is_empty())?;
    let inventory = agent.inventory()?;
    let bound_role = agent.bound_cluster().map(|_| NodeRole::multi_node(agent.role()));
    if eligible_disks(inventory, bound_role).into_iter().any(|disk| disk.is_named(disk_name)) {
        return None;
    }
    Some("Requested installation disk is not part of the host's valid disks".into())
}

/// No cluster that poolctl installs has arbiters.
fn arbiter_refusal(agent: &Agent) -> Option<String> {
    if agent.spec.role != Role::Arbiter {
        return None;
    }
    let hostname = agent.hostname();
    Some(format!(
        "Host {hostname} is assigned the arbiter role: clusters of poolctl have no arbiters"
    ))
}

/// Why a host cannot be bound to the cluster that is wanted, or cannot leave its own for it.
pub fn bind_refusal(state: &State, agent: &Agent, wanted: &Key) -> Option<SpecError> {
    let is_bound = agent.bound_cluster().is_some();
    if is_bound && let Some(refusal) = unbind_refusal(state, agent) {
        return Some(input_error(refusal));
    }
    if let Some(refusal) = cluster_refusal(state, agent, wanted) {
        return Some(refusal);
    }
    if !is_bound && agent.state() != HostState::KnownUnbound {
        return Some(backend_error(not_ready(agent)));
    }
    None
}

/// Why a cluster would not take a host although the host is ready. The order of the reasons is
/// assisted-service's.
fn cluster_refusal(state: &State, agent: &Agent, wanted: &Key) -> Option<SpecError> {
    let hostname = agent.hostname();
    let Some(cluster) = clusters::find_cluster(state, wanted) else {
        let Key { namespace, name } = wanted;
        return Some(backend_error(format!(
            "failed to get clusterDeployment with name {name} in namespace {namespace}: it does \
             not exist"
        )));
    };
    let Some(infra_env) = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key))
    else {
        return Some(backend_error(MISSING_INFRA_ENV));
    };
    if let Some(infra_env_cluster) = infra_env.cluster_key()
        && infra_env_cluster != *wanted
    {
        let infra_env = &infra_env.metadata.name;
        let cluster = infra_env_cluster.name;
        return Some(input_error(format!("InfraEnv {infra_env} is bound to Cluster {cluster}")));
    }
    let architecture = cluster_architecture(state, cluster);
    if let Some(mismatch) = architecture_mismatch(infra_env, architecture.as_deref()) {
        return Some(input_error(format!("InfraEnv's {mismatch}")));
    }
    if let Some(refusal) = arbiter_refusal(agent) {
        return Some(input_error(refusal));
    }
    if let Some(why) = why_kept_back(state, agent) {
        return Some(backend_error(format!("Host {hostname} {why}")));
    }
    let name = &cluster.name;
    if cluster.is_installed() && agent.spec.role == Role::Master {
        return Some(input_error(format!(
            "Host {hostname} has role master, but cluster {name} is installed and accepts only \
             workers"
        )));
    }
    let stage = cluster_stage(state, cluster);
    if matches!(stage, ClusterStage::Open | ClusterStage::Installed) {
        return None;
    }
    Some(input_error(format!("{ONLY_OPEN_CLUSTERS}; cluster {name} is {}", stage.name())))
}

/// Why the machines of an InfraEnv cannot run a cluster of an architecture; none: not known.
pub fn architecture_mismatch(infra_env: &InfraEnv, required: Option<&str>) -> Option<String> {
    let required = required?;
    let architecture = infra_env.architecture();
    if required == "multi" || required == normalize_architecture(architecture) {
        return None;
    }
    Some(format!("CPU architecture ({architecture}) doesn't match the cluster ({required})"))
}

/// Why no cluster gets a host, whichever it is: a clause that continues "Host NAME".
pub fn why_kept_back(state: &State, agent: &Agent) -> Option<String> {
    if agent.is_duplicate() {
        return Some(format!("is the same machine as Agent {}", agent.status.duplicate_of));
    }
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key))?;
    if let Some(why) = host.hold_reason() {
        return Some(format!("is held: {why}"));
    }
    if let Some(cluster) = cluster_that_may_run(state, agent) {
        return Some(format!("is held: {}", returning::not_seen_off(cluster)));
    }
    // A cluster that was left running keeps its machine, though the machine's Agent is another one
    // by now.
    let keeper = host.cluster()?;
    if agent.bound_cluster().is_some_and(|cluster| cluster.name == keeper) {
        return None;
    }
    Some(format!("is kept by cluster {keeper}"))
}

/// Binds a host that was picked for a cluster.
pub fn bind_picked_agent(state: &mut State, agent_id: AgentId, cluster: &Key, tick: &Tick) {
    state.agents.update(agent_id, |agent| {
        agent.spec.cluster_deployment_name = Some(ClusterReference::from_key(cluster));
    });
    // No refusal is lost: only hosts that can be bound are picked.
    drop(send_to_cluster(state, agent_id, cluster, tick));
}

/// Binds a host to a cluster, or takes it out of its own cluster first. A host that the cluster
/// would not take stays where it is.
fn send_to_cluster(
    state: &mut State,
    agent_id: AgentId,
    wanted: &Key,
    tick: &Tick,
) -> Result<(), SpecError> {
    let Some(agent) = state.agents.get(agent_id) else { return Ok(()) };
    if let Some(refusal) = bind_refusal(state, agent, wanted) {
        return Err(refusal);
    }
    if agent.bound_cluster().is_some() {
        // It is bound to the other cluster once it has come back.
        leave_cluster(state, agent_id, tick);
    } else {
        bind_agent(state, agent_id, wanted, tick);
    }
    Ok(())
}

/// Binds a free host to a cluster that takes it.
fn bind_agent(state: &mut State, agent_id: AgentId, wanted: &Key, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let is_installed = clusters::find_cluster(state, wanted).is_some_and(Cluster::is_installed);
    let is_found_by_controller = agent.status.found_by_controller;
    leases::grant_agent(state, agent_id, wanted);
    state.agents.update(agent_id, |agent| {
        agent.prepare_to_join(is_installed);
        let status = &mut agent.status;
        status.progress = Progress::default();
        status.bootstrap = false;
        status.images.clear();
        if !is_found_by_controller {
            status.inventory = None;
        }
    });
    let Some(agent) = state.agents.get(agent_id) else { return };
    let hostname = agent.hostname();
    let message = format!("Host {hostname}: Successfully bound to cluster {}", wanted.name);
    enter_state(state, agent_id, HostState::Binding, BINDING, tick);
    record_agent_event(
        state,
        agent_id,
        EventReason::HostBindSucceeded,
        EventType::Normal,
        message,
        tick,
    );
    if is_found_by_controller {
        // No agent runs on such a host that could register again. What its controller found is
        // still known.
        enter_state(state, agent_id, HostState::Discovering, WAITING_FOR_INVENTORY, tick);
    }
}

/// Why a host that is wanted cannot be bound yet, and what it waits for.
fn not_ready(agent: &Agent) -> String {
    let hostname = agent.hostname();
    let state = agent.state();
    let why = why_not_known(agent);
    format!("Host {hostname} is {state} and can be bound only when it is known-unbound: {why}")
}

/// What keeps a host from being known-unbound.
pub fn why_not_known(agent: &Agent) -> String {
    let state = agent.state();
    match state {
        HostState::InsufficientUnbound => unmet_gates(agent),
        HostState::DisconnectedUnbound => "it has not reported for three minutes".into(),
        HostState::DiscoveringUnbound if agent.status.inventory.is_some() => {
            "the next pass looks at its report".into()
        }
        HostState::DiscoveringUnbound => "it has not reported its hardware yet".into(),
        _ if state.is_returning() => "it has not returned from its last cluster yet".into(),
        _ => agent.status.debug_info.state_info.clone(),
    }
}

/// Takes a host out of its cluster, because its spec names none any more. Only a host that is in no
/// installation may leave.
fn unbind_agent(state: &mut State, agent_id: AgentId, tick: &Tick) -> Result<(), SpecError> {
    let Some(agent) = state.agents.get(agent_id) else { return Ok(()) };
    if let Some(refusal) = unbind_refusal(state, agent) {
        return Err(input_error(refusal));
    }
    leave_cluster(state, agent_id, tick);
    Ok(())
}
