//! What clusters do with the hosts that they use, and which hosts may run for one that they left.

use std::collections::HashSet;

use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::driver::Driver;
use crate::model::host::BareMetalHost;
use crate::model::state::State;

/// The hosts by which a cluster is started and stopped: those that it uses, unless its driver
/// does it.
pub fn that_drive(state: &State, cluster: &Cluster) -> Vec<String> {
    let drive = match cluster.driver {
        Driver::Installer | Driver::Agent => cluster.powerless,
        Driver::Missing => cluster.installed(),
        _ => false,
    };
    if !drive {
        return Vec::new();
    }
    let all = state.hosts_of(&cluster.name).into_iter().filter_map(|at| state.hosts.get(at));
    let all: Vec<_> = all.collect();
    // One that may not be touched keeps the others from being.
    if all.iter().any(|host| host.is_left_alone() || host.spec.disable_power_off) {
        return Vec::new();
    }
    all.into_iter().map(|host| host.key().to_string()).collect()
}

/// The hosts of a cluster that can be told what to do.
pub fn with_controller(state: &State, cluster: &str) -> Vec<String> {
    let all = state.hosts_of(cluster).into_iter().filter_map(|at| state.hosts.get(at));
    all.filter(|host| !host.is_left_alone()).map(|host| host.key().to_string()).collect()
}

/// Those of them that are booted from the image of their cluster.
pub fn that_boot(state: &State, cluster: &str) -> Vec<String> {
    let all = state.hosts_of(cluster).into_iter().filter_map(|at| state.hosts.get(at));
    let boots = |host: &&BareMetalHost| !host.is_left_alone() && host.boots_images();
    all.filter(boots).map(|host| host.key().to_string()).collect()
}

/// Whether something works on one of them.
pub fn are_busy(state: &State, names: &[String]) -> bool {
    let busy: HashSet<String> = state.busy_hosts();
    names.iter().any(|name| busy.contains(name))
}

/// A cluster is installed on its hosts.
pub fn install(state: &mut State, cluster: &str) {
    for host_id in state.hosts_of(cluster) {
        state.hosts.update(host_id, |host| switch_on(host, cluster));
    }
}

/// The job that installs a host switches it on and boots it from the image of its cluster. From here
/// on the machine may run on behalf of that cluster, however far the installation gets: that is
/// written down, so that giving the host back switches it off.
pub fn switch_on(host: &mut BareMetalHost, cluster: &str) {
    host.spec.online = true;
    // It has been discovered, and does not boot from the discovery image again.
    host.spec.image = None;
    if !host.is_left_alone() {
        host.status.switched_on_for = Some(cluster.to_owned());
    }
}

/// What a cluster does with its hosts they are to do from now on.
pub fn follow(state: &mut State, cluster: &str, online: bool) {
    for at in state.hosts_of(cluster) {
        state.hosts.update(at, |host| host.spec.online = online);
    }
}

/// The cluster that a machine was a node of and may still run as one: it has left the cluster, and
/// its management controller has not reported it off since. Machines without a controller come back
/// by reporting themselves; until then their Agents are returning.
pub fn cluster_that_may_run<'a>(state: &State, agent: &'a Agent) -> Option<&'a str> {
    let cluster = &agent.status.deprovision_info.as_ref()?.cluster_name;
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key));
    let is_off = host.is_none_or(|host| host.power() == Some(false));
    let may_run = if agent.status.found { !is_off } else { agent.state().is_returning() };
    may_run.then_some(cluster)
}

/// Whether hosts may run as nodes of a cluster that they have left.
pub fn may_have_nodes_left(state: &State, namespace: &str, cluster: &str) -> bool {
    let mut agents = state.agents.rows().filter(|agent| agent.metadata.namespace == namespace);
    agents.any(|agent| cluster_that_may_run(state, agent) == Some(cluster))
}
