//! Says what clusters do with the hosts that they use, and which hosts may still run as nodes of a
//! cluster that they have left. It never picks hosts for a cluster.

use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::driver::PowerControl;
use crate::model::host::{BareMetalHost, HostPower};
use crate::model::state::State;

/// The hosts by which a cluster is started and stopped, as `NAMESPACE/NAME`: those that it uses, or
/// none if its driver starts and stops it.
pub fn power_hosts(state: &State, cluster: &Cluster) -> Vec<String> {
    let is_driven_by_hosts = match cluster.driver.traits().power {
        PowerControl::ProgramOrHosts => cluster.powerless,
        PowerControl::HostsOfInstalled => cluster.is_installed(),
        PowerControl::Simulation | PowerControl::Driver | PowerControl::NoClusters => false,
    };
    if !is_driven_by_hosts {
        return Vec::new();
    }
    // A cluster is only stopped as a whole: one host that may not be touched keeps the others on.
    let hosts: Vec<&BareMetalHost> = hosts_of(state, &cluster.name).collect();
    if hosts.iter().any(|host| host.is_left_alone() || host.spec.disable_power_off) {
        return Vec::new();
    }
    hosts.into_iter().map(|host| host.key().to_string()).collect()
}

/// The hosts of a cluster whose controllers may be told what to do, as `NAMESPACE/NAME`.
pub fn controlled_hosts(state: &State, cluster: &str) -> Vec<String> {
    let hosts = hosts_of(state, cluster).filter(|host| !host.is_left_alone());
    hosts.map(|host| host.key().to_string()).collect()
}

/// Those of the controlled hosts that are booted from the image of their cluster.
pub fn image_booted_hosts(state: &State, cluster: &str) -> Vec<String> {
    let controlled = hosts_of(state, cluster).filter(|host| !host.is_left_alone());
    let booted = controlled.filter(|host| host.can_boot_images());
    booted.map(|host| host.key().to_string()).collect()
}

fn hosts_of<'a>(state: &'a State, cluster: &str) -> impl Iterator<Item = &'a BareMetalHost> {
    let host_ids = state.hosts_of(cluster).into_iter();
    host_ids.filter_map(move |host_id| state.hosts.get(host_id))
}

/// Whether a live job works on one of the hosts, which are given as `NAMESPACE/NAME`.
pub fn are_hosts_busy(state: &State, names: &[String]) -> bool {
    names.iter().any(|name| state.is_host_busy(name))
}

/// Prepares all hosts of a cluster for its installation.
pub fn switch_on_hosts(state: &mut State, cluster: &str) {
    for host_id in state.hosts_of(cluster) {
        state.hosts.update(host_id, |host| switch_on_host(host, cluster));
    }
}

/// Prepares a host for the job that switches it on and boots it from the image of its cluster. From
/// here on the machine may run on behalf of that cluster, however far the installation gets. That
/// is written down, so that giving the host back switches it off.
pub fn switch_on_host(host: &mut BareMetalHost, cluster: &str) {
    host.spec.online = true;
    // It has been discovered, and does not boot from the discovery image again.
    host.spec.image = None;
    if !host.is_left_alone() {
        host.status.switched_on_for = Some(cluster.to_owned());
    }
}

/// Lets the hosts of a cluster be wanted on or off, as their cluster is. Otherwise they would be
/// switched back as soon as the cluster is done with them. Those that are switched on are noted, as
/// in `switch_on_host`.
pub fn set_hosts_online(state: &mut State, cluster: &str, online: bool) {
    for host_id in state.hosts_of(cluster) {
        state.hosts.update(host_id, |host| {
            host.spec.online = online;
            if online && !host.is_left_alone() {
                host.status.switched_on_for = Some(cluster.to_owned());
            }
        });
    }
}

/// The cluster that a machine was a node of and may still run as one: it has left the cluster, and
/// its management controller has not reported it off since. Machines without a controller come back
/// by reporting themselves; until then their Agents are returning.
pub fn cluster_that_may_run<'a>(state: &State, agent: &'a Agent) -> Option<&'a str> {
    let cluster = &agent.status.deprovision_info.as_ref()?.cluster_name;
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key));
    let is_off = host.is_none_or(|host| host.power() == HostPower::Off);
    let may_run =
        if agent.status.found_by_controller { !is_off } else { agent.state().is_returning() };
    may_run.then_some(cluster)
}

/// Whether hosts may run as nodes of a cluster that they have left.
pub fn may_run_on_hosts_it_left(state: &State, namespace: &str, cluster: &str) -> bool {
    let mut agents = state.agents.rows().filter(|agent| agent.metadata.namespace == namespace);
    agents.any(|agent| cluster_that_may_run(state, agent) == Some(cluster))
}
