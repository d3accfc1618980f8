//! Grants what is leased and gives it back: customizations, addresses, hosts and their Agents. This is
//! the one place where a lease changes hands. It never decides who gets what, nor when.

use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::host::ConsumerRef;
use crate::model::ip_lease::IpLease;
use crate::model::kinds::Kind;
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::state::{AgentId, CustomizationId, HostId, IpLeaseId, State};

use super::clusters_hosts::may_have_nodes_left;

pub fn grant_customization(
    state: &mut State,
    customization_id: CustomizationId,
    holder: ClusterHolder,
) {
    state.customizations.update(customization_id, |customization| {
        customization.holder = Some(holder);
    });
}

pub fn return_customization(state: &mut State, customization_id: CustomizationId) {
    state.customizations.update(customization_id, |customization| customization.holder = None);
}

/// A cluster whose object goes while it runs on keeps its customization, and with it its name in DNS:
/// nobody else may have them.
pub fn keep_customization(state: &mut State, customization_id: CustomizationId, dns_name: String) {
    state.customizations.update(customization_id, |customization| {
        if let Some(holder) = &mut customization.holder {
            holder.preserved = true;
            customization.status.preserved = true;
            customization.status.preserved_name = dns_name;
        }
    });
}

/// A claim of an address that goes with a cluster, with its address or without.
pub fn grant_address(state: &mut State, lease: IpLease) {
    state.ip_leases.insert(lease);
}

/// Gives back the addresses of a cluster that is gone, whatever its pool says by now; not while a
/// host that somebody has to boot may run with it.
pub fn return_addresses(state: &mut State, cluster: &Cluster) {
    let Some(pool) = cluster.pool.clone() else { return };
    if !may_have_nodes_left(state, &pool.namespace, &cluster.name) {
        remove_addresses(state, &pool.namespace, &cluster.name);
    }
}

/// The addresses of a cluster that is left running stay leased until somebody releases them.
pub fn keep_addresses(state: &mut State, cluster: &Cluster) {
    let Some(pool) = cluster.pool.clone() else { return };
    for lease_id in addresses_of_cluster(state, &pool.namespace, &cluster.name) {
        state.ip_leases.update(lease_id, IpLease::keep_without_cluster);
    }
}

/// Gives back the addresses of a host that is no part of a cluster any more, nor runs as one.
pub fn return_addresses_of_host(state: &mut State, agent: &Agent, cluster: &str) {
    let Key { namespace, name } = agent.metadata.key();
    let leases = state.ip_leases.iter();
    let leases = leases
        .filter(|(_, lease)| lease.namespace == namespace && lease.is_of_host(cluster, &name));
    let lease_ids: Vec<IpLeaseId> = leases.map(|(lease_id, _)| lease_id).collect();
    for lease_id in lease_ids {
        state.ip_leases.remove(lease_id);
    }
}

/// Gives back the addresses of a cluster if it is gone and none of the hosts that have left it may
/// run as its nodes.
pub fn return_addresses_of_gone_cluster(state: &mut State, namespace: &str, cluster: &str) {
    if state.cluster(cluster).is_none() && !may_have_nodes_left(state, namespace, cluster) {
        remove_addresses(state, namespace, cluster);
    }
}

fn remove_addresses(state: &mut State, namespace: &str, cluster: &str) {
    for lease_id in addresses_of_cluster(state, namespace, cluster) {
        state.ip_leases.remove(lease_id);
    }
}

fn addresses_of_cluster(state: &State, namespace: &str, cluster: &str) -> Vec<IpLeaseId> {
    let leases = state.ip_leases.iter();
    let leases = leases
        .filter(|(_, lease)| lease.namespace == namespace && lease.cluster() == Some(cluster));
    leases.map(|(lease_id, _)| lease_id).collect()
}

pub fn grant_host(state: &mut State, host_id: HostId, cluster: &Key) {
    let consumer = ConsumerRef {
        api_version: Kind::ClusterDeployment.api_version().into(),
        kind: Kind::ClusterDeployment.name().into(),
        name: cluster.name.clone(),
        namespace: cluster.namespace.clone(),
        ..ConsumerRef::default()
    };
    state.hosts.update(host_id, |host| host.spec.consumer_ref = Some(consumer));
}

/// What frees a host that a cluster keeps which was left running, as it is to be typed.
pub fn command_to_free_host(host: &str, namespace_option: &str) -> String {
    format!(
        "poolctl patch host {host} -p '{{\"spec\": {{\"consumerRef\": null}}}}'{namespace_option}"
    )
}

/// Nothing runs on the host on behalf of a cluster from here on.
pub fn return_host(state: &mut State, host_id: HostId) {
    state.hosts.update(host_id, |host| {
        host.spec.consumer_ref = None;
        host.status.switched_on_for = None;
    });
}

/// Binds an Agent, which has no other cluster.
pub fn grant_agent(state: &mut State, agent_id: AgentId, cluster: &Key) {
    state.agents.update(agent_id, |agent| {
        agent.bind(cluster);
        agent.status.deprovision_info = None;
    });
}

/// The cluster of an Agent goes on without poolctl: no cluster has the Agent, and none wants it.
pub fn retire_agent(state: &mut State, agent_id: AgentId) {
    state.agents.update(agent_id, |agent| {
        agent.spec.cluster_deployment_name = None;
        agent.status.bound_to = None;
    });
}
