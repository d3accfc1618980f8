//! Explains an Agent: a machine that was booted from a discovery image, or that its controller has
//! described.

use super::chain::Chain;
use super::checks::describe_failing_checks;
use super::cluster::explain_cluster;
use super::evidence::Evidence;
use super::infra_env::command_to_make_image;
use crate::model::agent::{Agent, HostState};
use crate::model::annotations::HOLD;
use crate::model::cluster::Cluster;
use crate::model::condition::ConditionReason;
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::state::State;
use crate::plan::agents::clusters;
use crate::plan::agents::conditions::SPEC_SYNCED;

/// Explains an Agent by all that keeps it from being bound or installed. If nothing does and it
/// waits for its cluster, the explanation goes on with the cluster.
pub fn explain_agent(evidence: &Evidence, agent: &Agent) -> Chain {
    let name = &agent.metadata.name;
    let state = agent.state();
    let first_cause = format!("agent {name} is {state}: {}", agent.status.debug_info.state_info);
    let mut causes = find_obstacles(&evidence.state, agent);
    causes.extend(describe_next_join(evidence, agent));
    match cluster_of(&evidence.state, agent) {
        // Nothing is wrong with the agent: it waits for its cluster, so the cause is there.
        Some(cluster) if causes.is_empty() && waits_for_cluster(agent) => {
            explain_cluster(evidence, cluster).preceded_by(first_cause)
        }
        _ => {
            let chain = Chain::new(first_cause, find_command(evidence, agent));
            chain.because_of_each(causes)
        }
    }
}

/// The cluster that an agent is bound to, if it is still there.
pub fn cluster_of<'a>(state: &'a State, agent: &Agent) -> Option<&'a Cluster> {
    clusters::find_cluster(state, &agent.bound_cluster()?)
}

/// When a machine that failed to join its cluster tries to join it again.
fn describe_next_join(evidence: &Evidence, agent: &Agent) -> Option<String> {
    if !failed_to_join(agent) {
        return None;
    }
    let failures = agent.status.join_failures;
    let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times") };
    Some(match agent.status.join_again_at {
        Some(again) => {
            format!("it failed to join {times}; {}", evidence.describe_next_attempt(Some(again)))
        }
        None => "poolctl does not try again: unbind it, then bind it again".to_owned(),
    })
}

/// What keeps a machine from being bound or installed. An obstacle comes after those that must be
/// removed first.
fn find_obstacles(state: &State, agent: &Agent) -> Vec<String> {
    let mut obstacles = Vec::new();
    if agent.metadata.deletion_timestamp.is_some() {
        obstacles.push("it is being deleted".to_owned());
    }
    if agent.is_duplicate() {
        let original = &agent.status.duplicate_of;
        obstacles.push(format!("it is the same machine as {original}, so it is never picked"));
    }
    if let Some(host) = host_of(state, agent)
        && let Some(why) = host.hold_reason()
    {
        let name = &host.metadata.name;
        obstacles.push(format!("host {name} is held, so no cluster gets it: {why}"));
    }
    if !agent.spec.approved {
        obstacles.push("it is not approved, so no cluster is installed on it".to_owned());
    }
    let bound_to = agent.bound_cluster();
    if let Some(wanted) = agent.requested_cluster()
        && bound_to.as_ref() != Some(&wanted)
    {
        obstacles.push(format!("it is to be bound to cluster {}", wanted.name));
    }
    if let Some(synced) = agent.condition(SPEC_SYNCED)
        && synced.status == "False"
    {
        obstacles.push(synced.message.clone());
    }
    obstacles.extend(describe_failing_checks(agent));
    // The machine has left its cluster, but the cluster still has its node.
    if let Some(deprovision_info) = &agent.status.deprovision_info
        && agent.state().is_free()
    {
        obstacles.push(deprovision_info.message.clone());
    }
    obstacles
}

/// The command that helps an agent, or a sentence that says what a person must do.
fn find_command(evidence: &Evidence, agent: &Agent) -> String {
    let name = &agent.metadata.name;
    let option = &evidence.namespace_option;
    if agent.is_duplicate() && agent.bound_cluster().is_none() {
        return command_to_describe_original(agent, option);
    }
    let is_rejected = agent
        .condition(SPEC_SYNCED)
        .is_some_and(|condition| condition.reason == ConditionReason::InputError);
    match (agent.state(), agent.bound_cluster(), agent.requested_cluster()) {
        (HostState::Error, Some(cluster), _) if failed_to_join(agent) => {
            match agent.status.join_again_at {
                Some(_) => format!("poolctl job logs {}", cluster.name),
                None => format!("poolctl agent unbind {name}{option}"),
            }
        }
        (HostState::DisconnectedUnbound | HostState::Disconnected, _, _)
            if agent.status.found_by_controller =>
        {
            command_to_explain_host(agent, option)
        }
        (
            HostState::UnbindingPendingUserAction
            | HostState::DisconnectedUnbound
            | HostState::Disconnected,
            _,
            _,
        ) => describe_boot(evidence, agent),
        (HostState::DisabledUnbound, _, _) => format!("poolctl delete agent {name}{option}"),
        (HostState::InstallingPendingUserAction, _, _) => {
            format!("boot it as its state says, then: poolctl get agent {name}{option}")
        }
        (HostState::Insufficient | HostState::InsufficientUnbound, _, _) => {
            format!("poolctl describe agent {name}{option}")
        }
        (HostState::KnownUnbound, _, _) if is_wiped_first(&evidence.state, agent) => {
            command_to_explain_host(agent, option)
        }
        _ if !agent.spec.approved => format!("poolctl agent approve {name}{option}"),
        _ if is_rejected => format!("poolctl edit agent {name}{option}"),
        (HostState::KnownUnbound, None, wanted) => command_for_free_agent(evidence, agent, wanted),
        (HostState::PendingForInput, Some(cluster), _) => {
            let cluster_option = namespace_option_of(evidence, agent, &cluster);
            format!("poolctl edit cluster {}{cluster_option}", cluster.name)
        }
        (HostState::Binding | HostState::Unbinding, _, _) => {
            format!("poolctl events agent/{name}{option}")
        }
        (_, Some(cluster), _) => {
            format!("poolctl why cluster/{} -n {}", cluster.name, cluster.namespace)
        }
        _ => format!("poolctl describe agent {name}{option}"),
    }
}

/// The command that helps an agent that is ready for a cluster.
fn command_for_free_agent(evidence: &Evidence, agent: &Agent, wanted: Option<Key>) -> String {
    let option = &evidence.namespace_option;
    if let Some(host) = host_of(&evidence.state, agent)
        && host.metadata.has_annotation(HOLD)
    {
        return format!("poolctl host unhold {}{option}", host.metadata.name);
    }
    let Some(cluster) = wanted else {
        let name = &agent.metadata.name;
        return format!("poolctl agent bind {name} --cluster NAME{option}");
    };
    let cluster_option = namespace_option_of(evidence, agent, &cluster);
    format!("poolctl why cluster/{}{cluster_option}", cluster.name)
}

fn command_to_explain_host(agent: &Agent, namespace_option: &str) -> String {
    let host = agent.host_key().map(|key| key.name).unwrap_or_default();
    format!("poolctl why host/{host}{namespace_option}")
}

/// The command that shows the Agent that was first for the same machine.
fn command_to_describe_original(duplicate: &Agent, namespace_option: &str) -> String {
    let original = &duplicate.status.duplicate_of;
    match original.split_once('/') {
        Some((namespace, name)) => format!("poolctl describe agent {name} -n {namespace}"),
        None => format!("poolctl describe agent {original}{namespace_option}"),
    }
}

/// The namespace option for commands on a cluster. Its namespace may not be that of its agent.
fn namespace_option_of(evidence: &Evidence, agent: &Agent, cluster: &Key) -> String {
    if cluster.namespace == agent.metadata.namespace {
        evidence.namespace_option.clone()
    } else {
        format!(" -n {}", cluster.namespace)
    }
}

/// The sentence that says how a machine that reports itself no more is booted again.
fn describe_boot(evidence: &Evidence, agent: &Agent) -> String {
    let key = agent.infra_env_key();
    let infra_env = key.as_ref().and_then(|key| evidence.state.infra_envs.by_key(key));
    if let Some(url) = infra_env.and_then(InfraEnv::image_url) {
        return format!("boot it from its discovery image, {url}");
    }
    let name = key.map(|key| key.name).unwrap_or_default();
    let make_image = command_to_make_image(&name, &evidence.namespace_option);
    format!("boot it from its discovery image: {make_image}")
}

fn host_of<'a>(state: &'a State, agent: &Agent) -> Option<&'a BareMetalHost> {
    state.hosts.by_key(&agent.host_key()?)
}

/// Whether the disks of an agent are wiped before a cluster gets it.
fn is_wiped_first(state: &State, agent: &Agent) -> bool {
    host_of(state, agent).is_some_and(BareMetalHost::is_to_be_wiped)
}

/// Whether an agent has failed to join a cluster that was installed before.
fn failed_to_join(agent: &Agent) -> bool {
    agent.is_day2() && agent.state() == HostState::Error
}

/// Whether only the cluster can bring an agent further. An agent that joins an installed cluster
/// does not wait for it.
fn waits_for_cluster(agent: &Agent) -> bool {
    let state = agent.state();
    let is_booted = state != HostState::InstallingPendingUserAction;
    let is_installing = state == HostState::Error || (state.is_installing() && is_booted);
    state == HostState::Known || (is_installing && !agent.is_day2())
}
