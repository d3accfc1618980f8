//! How hosts leave their cluster: unbound, together with the cluster, or because their Agent is
//! deleted. It does nothing to their machines: `returning` brings those back.

use crate::model::agent::{
    Agent, ClusterReference, DAY2_POOL, DeprovisionInfo, HostState, SKIP_CLEANUP,
};
use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::infra_env::InfraEnv;
use crate::model::state::{AgentId, ClusterId, State};
use crate::model::tick::Tick;
use crate::plan::leases;

use super::clusters::{self, agents_of_cluster};
use super::{PASS_ACTOR, agent_event, joining, record_agent_event, returning, set_agent_condition};

/// Why a host may not leave its cluster.
pub fn unbind_refusal(state: &State, agent: &Agent) -> Option<String> {
    let name = agent.hostname();
    let Some(cluster_key) = agent.bound_cluster() else {
        return Some(format!("Host {name} is already unbound"));
    };
    if matches!(agent.state(), HostState::Resetting | HostState::ResettingPendingUserAction) {
        return Some(format!("Cannot unbind Host {name} while it is {}", agent.state()));
    }
    if agent.state().is_installing() && !agent.is_day2() {
        return Some(format!("Cannot unbind Host {name} while it is in the middle of installing."));
    }
    let infra_env = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key))?;
    if infra_env.cluster_key().as_ref() != Some(&cluster_key) {
        return None;
    }
    let infra_env = &infra_env.metadata.name;
    let cluster = cluster_key.name;
    Some(format!("Cannot unbind Host {name}. InfraEnv {infra_env} is bound to Cluster {cluster}"))
}

/// Takes a host out of its cluster and sends it on its way back.
pub fn leave_cluster(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id).cloned() else { return };
    let Some(cluster) = agent.bound_cluster() else { return };
    let hostname = agent.hostname().to_owned();
    let message = format!("Host {hostname}: Successfully unbound from cluster");
    // The host is in no cluster from here on, so the event is not shown for the one that it left.
    let event = agent_event(
        &agent,
        EventReason::HostUnbindSucceeded,
        EventType::Normal,
        message,
        PASS_ACTOR,
        tick,
    );
    state.record_event(Event { cluster: None, ..event });
    joining::cancel_join(state, &agent, tick);
    let was_used = returning::was_used(state, &agent);
    let deprovision_info = DeprovisionInfo {
        cluster_name: cluster.name.clone(),
        cluster_namespace: cluster.namespace.clone(),
        node_name: hostname,
        message: "Waiting for host to unbind to do spoke cleanup".into(),
    };
    let other_wanted = agent.requested_cluster().filter(|wanted| *wanted != cluster);
    state.agents.update(agent_id, |agent| {
        agent.spec.cluster_deployment_name = other_wanted.as_ref().map(ClusterReference::from_key);
        if agent.is_day2() && agent.spec.machine_config_pool == DAY2_POOL {
            agent.spec.machine_config_pool.clear();
        }
        agent.forget_cluster();
        agent.status.deprovision_info = was_used.then_some(deprovision_info);
    });
    // A host that is still wanted in the cluster keeps its addresses until it is bound again.
    if !was_used && agent.requested_cluster().as_ref() != Some(&cluster) {
        leases::return_addresses_of_agent(state, &agent, &cluster.name);
    }
    returning::begin_return(state, agent_id, &agent, was_used, tick);
}

/// Frees the hosts of a cluster that is destroyed or forgotten. Agents of an `InfraEnv` that
/// belongs to the cluster are deleted with it; Agents of a cluster that is left running retire.
pub fn release_agents_of_cluster(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id).cloned() else { return };
    for agent_id in agents_of_cluster(state, &cluster) {
        let Some(agent) = state.agents.get(agent_id).cloned() else { continue };
        let infra_env = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key));
        let infra_env_cluster = infra_env.and_then(InfraEnv::cluster_key);
        if infra_env_cluster.is_some_and(|key| key.name == cluster.name) {
            let message = format!(
                "Host {}: deregistered, because its InfraEnv belonged to cluster {}",
                agent.hostname(),
                cluster.name
            );
            record_agent_event(
                state,
                agent_id,
                EventReason::HostDeregistered,
                EventType::Normal,
                message,
                tick,
            );
            returning::release_machine(state, &agent, None, tick);
            state.agents.remove(agent_id);
        } else if cluster.preserve && cluster.started_at.is_some() {
            returning::retire_agent(state, agent_id, &cluster.name, tick);
        } else {
            leave_cluster(state, agent_id, tick);
        }
    }
    // Hosts that are wanted in the cluster and not bound to it yet are wanted nowhere any more.
    let wanted_agent_ids: Vec<AgentId> = state
        .agents
        .iter()
        .filter(|(_, agent)| agent.requested_cluster().is_some_and(|key| key.name == cluster.name))
        .map(|(agent_id, _)| agent_id)
        .collect();
    for agent_id in wanted_agent_ids {
        state.agents.update(agent_id, |agent| agent.spec.cluster_deployment_name = None);
    }
}

/// Removes an Agent whose deletion was asked for. It waits while the host is being installed, while
/// the Agent has finalizers of another program, and while the host's node is left in its cluster.
pub fn remove_deleted_agent(state: &mut State, agent_id: AgentId, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    if agent.state().is_installing() || !agent.metadata.finalizers.is_empty() {
        return;
    }
    if let Some(message) = node_left_behind(state, agent) {
        let reason = ConditionReason::CleanupFailed;
        let condition = Condition::new(ConditionType::Cleanup, "False", reason, message);
        return set_agent_condition(state, agent_id, condition, tick);
    }
    let agent = agent.clone();
    if agent.state() == HostState::DisabledUnbound || agent.bound_cluster().is_some() {
        returning::release_machine(state, &agent, None, tick);
    }
    if let Some(cluster) = agent.bound_cluster() {
        leases::return_addresses_of_agent(state, &agent, &cluster.name);
    }
    let message = format!("Host {}: deregistered", agent.hostname());
    record_agent_event(
        state,
        agent_id,
        EventReason::HostDeregistered,
        EventType::Normal,
        message,
        tick,
    );
    state.agents.remove(agent_id);
    // Without the Agent nobody will report that the host has stopped running as a node of the
    // cluster that it left. Deleting the Agent says that it has.
    if let Some(deprovision_info) = &agent.status.deprovision_info {
        let namespace = &agent.metadata.namespace;
        let cluster = &deprovision_info.cluster_name;
        leases::return_addresses_of_agent(state, &agent, cluster);
        leases::return_addresses_of_gone_cluster(state, namespace, cluster);
    }
}

/// Why the node of a host, which the deletion of its Agent would leave behind in the cluster, has
/// to be removed first.
fn node_left_behind(state: &State, agent: &Agent) -> Option<String> {
    if !agent.state().is_installed() {
        return None;
    }
    let cluster_key = agent.bound_cluster()?;
    let cluster = clusters::find_cluster(state, &cluster_key)?;
    if cluster.deleting.is_some() || agent.metadata.has_annotation(SKIP_CLEANUP) {
        return None;
    }
    let name = &agent.metadata.name;
    let node = agent.hostname();
    let cluster = &cluster_key.name;
    Some(format!(
        "Host {node} is still a node of cluster {cluster}: oc delete node {node}, then poolctl \
         annotate agent {name} {SKIP_CLEANUP}=done"
    ))
}
