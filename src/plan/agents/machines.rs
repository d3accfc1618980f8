//! Which machine a host is, and what follows from that for its Agent: approval, labels, and what
//! the annotations of its `BareMetalHost` wish for. It never changes the state of a host.

use std::collections::HashMap;

use crate::model::agent::{Agent, AgentSpec, ClusterReference, HOST_LABEL, INFRA_ENV_LABEL, Role};
use crate::model::condition::{
    self, Condition, ConditionReason, ConditionType, set_condition_without_probe,
};
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, CLUSTER_REFERENCE, ROLE_ANNOTATION};
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::state::{AgentId, HostId, State};
use crate::model::tick::Tick;
use crate::plan::{leases, record_warning};

use super::labels::Classification;
use super::{controller_inventory, hints, labels, record_agent_event};

/// Annotations of a `BareMetalHost` that become fields of its Agent's spec.
const HOSTNAME: &str = "bmac.agent-install.openshift.io/hostname";
const MACHINE_CONFIG_POOL: &str = "bmac.agent-install.openshift.io/machine-config-pool";
const INSTALLER_ARGS: &str = "bmac.agent-install.openshift.io/installer-args";
const IGNITION: &str = "bmac.agent-install.openshift.io/ignition-config-overrides";
/// The condition of a `BareMetalHost` whose cluster reference is not followed.
const REFERENCE: ConditionType = ConditionType::ClusterReference;
/// The installation disk of a host none of whose disks fits the root device hints.
const NO_DISK: &str = "/dev/not-found-by-hints";

/// Brings an Agent up to date with its machine, its InfraEnv and its `BareMetalHost`, in this order:
/// what a person has written on the host wins over what was found.
pub fn recognize_machine(
    state: &mut State,
    agent_id: AgentId,
    hosts_by_mac: &HostsByMac,
    classifications: &[Classification],
    tick: &Tick,
) {
    controller_inventory::update_inventory(state, agent_id);
    link_to_host(state, agent_id, hosts_by_mac);
    let Some(agent) = state.agents.get(agent_id) else { return };
    let bound_cluster = agent.bound_cluster();
    let infra_env_key = agent.infra_env_key();
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key)).cloned();
    let is_settled = state.agents.is_settled(agent_id);
    let recognized = recognize(state, agent, host.as_ref(), classifications, is_settled);
    let was_approved = agent.spec.approved;
    if let Some(host) = &host {
        let infra_env = infra_env_key.and_then(|key| state.infra_envs.by_key(&key)).cloned();
        grant_machine(state, host, bound_cluster.as_ref());
        check_cluster_reference(state, host, infra_env.as_ref(), tick);
    }
    let Some((metadata, spec)) = recognized else { return };
    let has_become_approved = spec.approved && !was_approved;
    state.agents.update(agent_id, |agent| {
        agent.metadata = metadata;
        agent.spec = spec;
    });
    if has_become_approved {
        let hostname = state.agents.get(agent_id).map(Agent::hostname).unwrap_or_default();
        let message = format!("Host {hostname}: updated approved to true");
        record_agent_event(
            state,
            agent_id,
            EventReason::HostApprovedUpdated,
            EventType::Normal,
            message,
            tick,
        );
    }
}

/// The metadata and the spec of an Agent with what follows from its machine, its InfraEnv and its
/// `BareMetalHost`; none if nothing changes. Its status, which is most of it, is not copied.
fn recognize(
    state: &State,
    agent: &Agent,
    host: Option<&BareMetalHost>,
    classifications: &[Classification],
    is_settled: bool,
) -> Option<(Meta, AgentSpec)> {
    let infra_env = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key));
    let is_approved = agent.spec.approved || why_approved(state, agent).is_some();
    let namespace = &agent.metadata.namespace;
    let of_namespace: Vec<&Classification> = classifications
        .iter()
        .filter(|classification| classification.namespace == *namespace)
        .collect();
    // The labels of its inventory are then those that it has, and the inventory is not decoded.
    let has_inventory_labels =
        is_settled && of_namespace.is_empty() && !labels::is_classified(&agent.metadata);
    let must_update_node_labels = infra_env
        .is_some_and(|infra_env| labels::must_update_node_labels(infra_env, &agent.metadata));
    let is_approval_current = is_approved == agent.spec.approved;
    if has_inventory_labels && !must_update_node_labels && host.is_none() && is_approval_current {
        return None;
    }
    let mut metadata = agent.metadata.clone();
    let mut spec = agent.spec.clone();
    spec.approved = is_approved;
    if !has_inventory_labels && let Some(inventory) = agent.inventory() {
        labels::apply_inventory_labels(&mut metadata, inventory);
        labels::apply_classifications(&mut metadata, inventory, &of_namespace);
    }
    if let Some(infra_env) = infra_env {
        labels::inherit_node_labels(infra_env, &mut metadata, &mut spec);
    }
    if let Some(host) = host {
        follow_annotations(host, infra_env, agent, &mut spec);
        labels::apply_host_labels(host, &mut metadata, &mut spec);
    }
    metadata.generation += i64::from(spec != agent.spec);
    (metadata != agent.metadata || spec != agent.spec).then_some((metadata, spec))
}

/// Why a host is approved whatever its spec says; none: its spec decides.
pub fn why_approved(state: &State, agent: &Agent) -> Option<String> {
    let infra_env = agent.infra_env_key().and_then(|key| state.infra_envs.by_key(&key));
    if let Some(infra_env) = infra_env
        && infra_env.approves_agents()
    {
        let name = &infra_env.metadata.name;
        return Some(format!("InfraEnv {name} approves all of its hosts (agentApproval)"));
    }
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key))?;
    let name = &host.metadata.name;
    Some(format!("poolctl manages BareMetalHost {name}, so its Agent is always approved"))
}

/// Gives the machine of a bound host to its cluster, unless it has a consumer already.
fn grant_machine(state: &mut State, host: &BareMetalHost, bound_cluster: Option<&Key>) {
    if host.spec.consumer_ref.is_some() {
        return;
    }
    let Some(cluster_key) = bound_cluster else { return };
    let Some(host_id) = state.hosts.find(&host.key()) else { return };
    leases::grant_host(state, host_id, cluster_key);
}

/// Links an Agent to the `BareMetalHost` that is its machine, by a label.
fn link_to_host(state: &mut State, agent_id: AgentId, hosts_by_mac: &HostsByMac) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    if let Some(host_key) = agent.host_key() {
        if state.hosts.by_key(&host_key).is_some() {
            return;
        }
        // That BareMetalHost was deleted. Another one may stand for the same machine.
        state.agents.update(agent_id, |agent| {
            agent.metadata.labels.remove(HOST_LABEL);
        });
    }
    let Some(agent) = state.agents.get(agent_id) else { return };
    let Some(host) = find_host_of_machine(state, agent, hosts_by_mac) else { return };
    let name = host.metadata.name.clone();
    state.agents.update(agent_id, |agent| {
        agent.metadata.labels.insert(HOST_LABEL.into(), name);
    });
}

/// The `BareMetalHost` of an Agent's InfraEnv that boots from one of the Agent's interfaces.
fn find_host_of_machine<'a>(
    state: &'a State,
    agent: &Agent,
    hosts_by_mac: &HostsByMac,
) -> Option<&'a BareMetalHost> {
    // Without hosts there is none to find, and no inventory to decode for that.
    if hosts_by_mac.is_empty() {
        return None;
    }
    let inventory = agent.inventory()?;
    let infra_env_key = agent.infra_env_key()?;
    let mut first: Option<(usize, &BareMetalHost)> = None;
    for mac in inventory.macs() {
        let Some((order, host_id)) = hosts_by_mac.get(&mac.to_lowercase()) else { continue };
        let Some(host) = state.hosts.get(*host_id) else { continue };
        let metadata = &host.metadata;
        let is_of_infra_env = metadata.namespace == infra_env_key.namespace
            && metadata.labels.get(INFRA_ENV_LABEL) == Some(&infra_env_key.name);
        if is_of_infra_env && first.is_none_or(|(first_order, _)| *order < first_order) {
            first = Some((*order, host));
        }
    }
    first.map(|(_, host)| host)
}

/// Finds hosts by the MAC address that they boot from, in lower case, with their places in the
/// state. Thousands of Agents are compared with thousands of hosts.
pub type HostsByMac = HashMap<String, (usize, HostId)>;

/// The hosts of the state by their MAC addresses. No two have the same.
pub fn index_hosts(state: &State) -> HostsByMac {
    let mut hosts_by_mac = HostsByMac::new();
    for (order, (host_id, host)) in state.hosts.iter().enumerate() {
        let mac = host.spec.boot_mac_address.to_lowercase();
        if !mac.is_empty() {
            hosts_by_mac.entry(mac).or_insert((order, host_id));
        }
    }
    hosts_by_mac
}

/// Puts what the annotations and the hints of a `BareMetalHost` wish for into the spec of its
/// Agent.
fn follow_annotations(
    host: &BareMetalHost,
    infra_env: Option<&InfraEnv>,
    agent: &Agent,
    spec: &mut AgentSpec,
) {
    match host.metadata.annotation(ROLE_ANNOTATION) {
        Some("master") => spec.role = Role::Master,
        Some("worker") => spec.role = Role::Worker,
        Some("auto-assign") => spec.role = Role::AutoAssign,
        _ => {}
    }
    for (annotation, field) in [
        (HOSTNAME, &mut spec.hostname),
        (MACHINE_CONFIG_POOL, &mut spec.machine_config_pool),
        (INSTALLER_ARGS, &mut spec.installer_args),
        (IGNITION, &mut spec.ignition_config_overrides),
    ] {
        if let Some(value) = host.metadata.annotation(annotation) {
            value.clone_into(field);
        }
    }
    let has_own_cluster = infra_env.is_some_and(|infra_env| infra_env.spec.cluster_ref.is_some());
    if !has_own_cluster && let Some(reference) = host.metadata.annotation(CLUSTER_REFERENCE) {
        // A text that is neither empty nor NAMESPACE/NAME wishes for nothing.
        if let Some((namespace, name)) = reference.split_once('/') {
            let reference = ClusterReference { name: name.into(), namespace: namespace.into() };
            spec.cluster_deployment_name = Some(reference);
        } else if reference.is_empty() {
            spec.cluster_deployment_name = None;
        }
    }
    if let Some(root_device_hints) = &host.spec.root_device_hints
        && let Some(inventory) = agent.inventory()
    {
        let disk = hints::find_disk(inventory, root_device_hints);
        disk.map_or(NO_DISK, |disk| &disk.id).clone_into(&mut spec.installation_disk_id);
        spec.installation_disk_path.clear();
    }
}

/// Says of a host, by a condition and an event, that the cluster which its annotation names is not
/// followed, for as long as that is so.
fn check_cluster_reference(
    state: &mut State,
    host: &BareMetalHost,
    infra_env: Option<&InfraEnv>,
    tick: &Tick,
) {
    let Some(host_id) = state.hosts.find(&host.key()) else { return };
    let is_reported = condition::find_condition(&host.status.conditions, REFERENCE).is_some();
    let Some(cluster) = conflicting_cluster(host, infra_env) else {
        if is_reported {
            state.hosts.update(host_id, |host| {
                host.status.conditions.retain(|condition| condition.kind != REFERENCE);
            });
        }
        return;
    };
    let message = format!(
        "failed to reconcile cluster reference.  InfraEnv already has cluster reference {cluster}"
    );
    let reason = ConditionReason::InfraEnvHasCluster;
    let condition = Condition::new(REFERENCE, "False", reason, message.as_str());
    state.hosts.update(host_id, |host| {
        set_condition_without_probe(&mut host.status.conditions, condition, tick.now);
    });
    if !is_reported {
        let key = host.key();
        record_warning(
            state,
            tick,
            Kind::BareMetalHost,
            key,
            EventReason::ClusterReferenceRefused,
            message,
        );
    }
}

/// The cluster of a host's InfraEnv, as NAMESPACE/NAME, if the annotation of the host names
/// another.
fn conflicting_cluster(host: &BareMetalHost, infra_env: Option<&InfraEnv>) -> Option<String> {
    let reference = host.metadata.annotation(CLUSTER_REFERENCE)?;
    let cluster = infra_env.and_then(InfraEnv::cluster_key)?.to_string();
    (reference != cluster).then_some(cluster)
}
