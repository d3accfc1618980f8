//! Grants and returns leases of customizations, addresses, hosts and Agents. A lease changes hands
//! only here. Who gets a lease, and when, is never decided here.

use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::host::ConsumerRef;
use crate::model::ip_lease::IpLease;
use crate::model::kinds::Kind;
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::state::{AgentId, CustomizationId, HostId, IpLeaseId, State};
use crate::model::time::Time;

use super::cluster_hosts::may_run_on_hosts_it_left;

/// Leases a customization to a cluster.
pub fn grant_customization(
    state: &mut State,
    customization_id: CustomizationId,
    holder: ClusterHolder,
) {
    state.customizations.update(customization_id, |customization| {
        customization.holder = Some(holder);
    });
}

/// Gives back a customization: any cluster may take it from now on.
pub fn return_customization(state: &mut State, customization_id: CustomizationId) {
    state.customizations.update(customization_id, |customization| customization.holder = None);
}

/// Leaves a customization to a cluster that runs on after its object is gone. The lease keeps the
/// name of the cluster in DNS, too, so that no other cluster gets either of them.
pub fn keep_customization(state: &mut State, customization_id: CustomizationId, dns_name: String) {
    state.customizations.update(customization_id, |customization| {
        if let Some(holder) = &mut customization.holder {
            holder.preserved = true;
            customization.status.preserved = true;
            customization.status.preserved_name = dns_name;
        }
    });
}

/// Adds a lease of an address for a cluster. Without an address it is a claim that waits for one.
pub fn grant_address(state: &mut State, lease: IpLease) {
    state.ip_leases.insert(lease);
}

/// Gives back the addresses of a cluster that is gone, whatever its pool wants by now. They stay
/// leased while a host that only a person can reboot may still run as a node with one of them.
pub fn return_addresses(state: &mut State, cluster: &Cluster) {
    let Some(pool) = cluster.pool.clone() else { return };
    if !may_run_on_hosts_it_left(state, &pool.namespace, &cluster.name) {
        remove_addresses(state, &pool.namespace, &cluster.name);
    }
}

/// Leaves the addresses to a cluster that runs on after its object is gone. They stay leased until
/// a person releases them.
pub fn keep_addresses(state: &mut State, cluster: &Cluster) {
    let Some(pool) = cluster.pool.clone() else { return };
    for lease_id in lease_ids_of_cluster(state, &pool.namespace, &cluster.name) {
        state.ip_leases.update(lease_id, IpLease::keep_without_cluster);
    }
}

/// Gives back the addresses of a host that has left a cluster and does not run as its node any
/// more.
pub fn return_addresses_of_agent(state: &mut State, agent: &Agent, cluster: &str) {
    let Key { namespace, name } = agent.metadata.key();
    let leases_of_agent = state
        .ip_leases
        .iter()
        .filter(|(_, lease)| lease.namespace == namespace && lease.is_of_agent(cluster, &name));
    let lease_ids: Vec<IpLeaseId> = leases_of_agent.map(|(lease_id, _)| lease_id).collect();
    for lease_id in lease_ids {
        state.ip_leases.remove(lease_id);
    }
}

/// Gives back what a host had that is no object any more: its numbers of templates, and the
/// addresses that were claimed for it. What another program holds goes when that lets go of it.
pub fn return_leases_of_removed_host(state: &mut State, host: &Key, now: Time) {
    let mut numbers = Vec::new();
    for (template_id, template) in state.data_templates.iter() {
        if template.metadata.namespace == host.namespace
            && let Some(index) = template.index_of(&host.name)
        {
            numbers.push((template_id, template.data_key(index)));
        }
    }
    for (template_id, data_key) in numbers {
        if let Some(data_id) = state.metal3_data.find(&data_key)
            && state.metal3_data.get(data_id).is_some_and(|data| data.machine() == host.name)
        {
            state.metal3_data.remove(data_id);
        }
        state.data_templates.update(template_id, |template| {
            template.release_index(&host.name);
            template.status.last_updated = Some(now);
        });
    }
    let leases_of_host = state
        .ip_leases
        .iter()
        .filter(|(_, lease)| lease.namespace == host.namespace && lease.goes_with_host(&host.name));
    let lease_ids: Vec<IpLeaseId> = leases_of_host.map(|(lease_id, _)| lease_id).collect();
    for lease_id in lease_ids {
        state.ip_leases.update(lease_id, |lease| {
            lease.deleting.get_or_insert(now);
        });
    }
}

/// Gives back the addresses of a cluster if it is gone and no host that has left it may still run
/// as its node.
pub fn return_addresses_of_gone_cluster(state: &mut State, namespace: &str, cluster: &str) {
    if state.find_cluster(cluster).is_none() && !may_run_on_hosts_it_left(state, namespace, cluster)
    {
        remove_addresses(state, namespace, cluster);
    }
}

fn remove_addresses(state: &mut State, namespace: &str, cluster: &str) {
    for lease_id in lease_ids_of_cluster(state, namespace, cluster) {
        state.ip_leases.remove(lease_id);
    }
}

fn lease_ids_of_cluster(state: &State, namespace: &str, cluster: &str) -> Vec<IpLeaseId> {
    let leases_of_cluster = state
        .ip_leases
        .iter()
        .filter(|(_, lease)| lease.namespace == namespace && lease.cluster() == Some(cluster));
    leases_of_cluster.map(|(lease_id, _)| lease_id).collect()
}

/// Leases a host to a cluster.
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

/// The command that frees a host of a cluster that was left running.
pub fn command_to_free_host(host: &str, namespace_option: &str) -> String {
    format!(
        "poolctl patch host {host} -p '{{\"spec\": {{\"consumerRef\": null}}}}'{namespace_option}"
    )
}

/// Gives back a host. If it was switched on for its cluster it may run on until its controller says
/// otherwise, and that is written down.
pub fn return_host(state: &mut State, host_id: HostId) {
    state.hosts.update(host_id, |host| {
        host.spec.consumer_ref = None;
        if let Some(cluster) = host.status.switched_on_for.take() {
            host.status.may_run_for = Some(cluster);
        }
    });
}

/// Gives back a host whose cluster is gone. If a person has given it to another cluster meanwhile,
/// that one keeps it.
pub fn return_host_of_gone_cluster(state: &mut State, host_id: HostId, cluster: &str) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let is_given_on = host.cluster() != Some(cluster);
    let next_consumer = if is_given_on { host.spec.consumer_ref.clone() } else { None };
    return_host(state, host_id);
    state.hosts.update(host_id, |host| host.spec.consumer_ref = next_consumer);
}

/// Leaves a host to its cluster, which runs on after its object is gone: from here on poolctl does
/// not switch the host off for having switched it on.
pub fn leave_host(state: &mut State, host_id: HostId) {
    state.hosts.update(host_id, |host| host.status.switched_on_for = None);
}

/// Leases an Agent to a cluster by binding it. The Agent must not have another cluster.
pub fn grant_agent(state: &mut State, agent_id: AgentId, cluster: &Key) {
    state.agents.update(agent_id, |agent| {
        agent.bind(cluster);
        agent.status.deprovision_info = None;
    });
}

/// Takes an Agent out of use, because its cluster runs on without poolctl: no cluster has the Agent
/// any more, and none wants it.
pub fn retire_agent(state: &mut State, agent_id: AgentId) {
    state.agents.update(agent_id, |agent| {
        agent.spec.cluster_deployment_name = None;
        agent.status.bound_to = None;
    });
}
