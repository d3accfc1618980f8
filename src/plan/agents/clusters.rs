//! A cluster as its hosts see it: whether it takes hosts, what it needs of them, and their roles.
//! It binds and releases none.

use serde_json::Value;

use crate::model::agent::needs::{HostNeeds, LoadBalancer};
use crate::model::agent::{Agent, HostState, Role};
use crate::model::annotations::SPREAD_BY;
use crate::model::cluster::{
    Cluster, INSUFFICIENT_AGENTS, Phase, UNAPPROVED_AGENTS, UNSYNCED_AGENTS,
};
use crate::model::condition::Shortage;
use crate::model::driver::Driver;
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::job::Verb;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::release::Release;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::render::install_config;
use crate::rules::validations::ignored_validations;

use super::{conditions, record_agent_event, roles};

/// Which clusters take hosts, in assisted-service's words.
pub const ONLY_OPEN_CLUSTERS: &str = "Host can register only in one of the following states: [insufficient ready pending-for-input adding-hosts]";
/// How many arbiters a cluster has: no cluster that poolctl installs has any.
const ARBITERS: u64 = 0;
/// The replicas of a machine pool whose install-config does not say.
const DEFAULT_REPLICAS: u64 = 3;

/// Where a cluster is in its life, as its hosts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterStage {
    /// Before its installation.
    Open,
    Installing,
    Failed,
    /// Hosts may join it.
    Installed,
    /// It is being deleted.
    Ending,
}

impl ClusterStage {
    /// What assisted-service calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "insufficient",
            Self::Installing => "installing",
            Self::Failed => "error",
            Self::Installed => "adding-hosts",
            Self::Ending => "cancelled",
        }
    }
}

/// Where a cluster is. A job that installs it counts, also after a failed try.
pub fn cluster_stage(state: &State, cluster: &Cluster) -> ClusterStage {
    let live_verb = state.live_job(&cluster.name).map(|(_, job)| job.verb);
    match cluster.phase() {
        Phase::Deprovisioning => ClusterStage::Ending,
        Phase::Installed => ClusterStage::Installed,
        _ if live_verb == Some(Verb::Provision) => ClusterStage::Installing,
        Phase::Retrying | Phase::Broken => ClusterStage::Failed,
        Phase::Installing if cluster.started_at.is_some() => ClusterStage::Failed,
        Phase::Installing => ClusterStage::Open,
    }
}

/// The cluster that a reference means: of its name, in its own namespace or that of its pool.
pub fn find_cluster<'a>(state: &'a State, key: &Key) -> Option<&'a Cluster> {
    let cluster = state.clusters.get(state.find_cluster(&key.name)?)?;
    let pool_namespace = cluster.pool.as_ref().map(|pool| &pool.namespace);
    let is_meant = cluster.namespace == key.namespace || pool_namespace == Some(&key.namespace);
    is_meant.then_some(cluster)
}

/// What a cluster needs of its hosts, as far as its install-config, its platform and its release
/// image say. The body of the cluster has to be loaded.
pub fn needs_of_cluster(state: &State, cluster: &Cluster) -> HostNeeds {
    let template = cluster.install_config_secret().and_then(|key| state.templates.get(&key));
    let document = template.and_then(|template| install_config::template_document(template).ok());
    let mut needs = document.map(needs_of_install_config).unwrap_or_default();
    needs.day2 = cluster.is_installed();
    let image = release_image(state, cluster);
    needs.version = image.and_then(release_version);
    image.map(registry_host).unwrap_or_default().clone_into(&mut needs.release_host);
    needs.domain = format!("{}.{}", cluster.cluster_name, cluster.base_domain);
    if let Some(body) = &cluster.body {
        if needs.platform.is_empty() {
            body.spec.platform.name().clone_into(&mut needs.platform);
        }
        needs.ignored = ignored_validations(&body.metadata.annotations);
        needs.spread_by = body.metadata.annotation(SPREAD_BY).map(str::to_owned);
    }
    if needs.spread_by.is_none() {
        let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
        needs.spread_by = pool.and_then(ClusterPool::spread_label).map(str::to_owned);
    }
    needs.user_managed |= needs.platform == "none";
    needs
}

/// The release image of a cluster: its own, or that of its image set.
fn release_image<'a>(state: &'a State, cluster: &'a Cluster) -> Option<&'a str> {
    let provisioning = cluster.body.as_ref()?.spec.provisioning.as_ref()?;
    let own_image = provisioning.release_image.as_ref().filter(|image| !image.is_empty());
    if let Some(image) = own_image {
        return Some(image);
    }
    let name = &provisioning.image_set_ref.as_ref()?.name;
    Some(&state.image_sets.by_key(&Key::new("", &**name))?.spec.release_image)
}

/// Major and minor version, by the tag of the release image of a cluster.
fn release_version(image: &str) -> Option<(u64, u64)> {
    let release = Release::of_image(image)?;
    Some((release.major, release.minor))
}

/// The registry of an image, without its port; empty if the image has none.
fn registry_host(image: &str) -> &str {
    let Some((registry, _)) = image.split_once('/') else { return "" };
    let host = registry.split(':').next().unwrap_or_default();
    if host.contains('.') { host } else { "" }
}

/// What an install-config needs of hosts.
pub fn needs_of_install_config(document: &Value) -> HostNeeds {
    let compute_pools = document["compute"].as_array();
    let platforms = document["platform"].as_object();
    let platform =
        platforms.and_then(|platforms| platforms.keys().next().cloned()).unwrap_or_default();
    let settings = &document["platform"][&platform];
    let networks = document["networking"]["machineNetwork"].as_array().into_iter().flatten();
    HostNeeds {
        masters: replicas(&document["controlPlane"]).filter(|masters| *masters > 0),
        workers: compute_pools.map(|pools| pools.iter().filter_map(replicas).sum()),
        machine_networks: networks
            .filter_map(|network| network["cidr"].as_str()?.parse().ok())
            .collect(),
        load_balancer: if settings["loadBalancer"]["type"] == "UserManaged" {
            LoadBalancer::UserManaged
        } else {
            LoadBalancer::ClusterManaged
        },
        has_vips: has_entries(&settings["apiVIPs"]) || has_entries(&settings["apiVIP"]),
        user_managed: platform == "none",
        platform,
        ..HostNeeds::default()
    }
}

/// The replicas of a machine pool of an install-config; none if what it has there is no number.
fn replicas(machine_pool: &Value) -> Option<u64> {
    match &machine_pool["replicas"] {
        Value::Null => Some(DEFAULT_REPLICAS),
        number => number.as_u64(),
    }
}

/// Whether a value is a list or a text that is not empty.
fn has_entries(value: &Value) -> bool {
    match value {
        Value::Array(entries) => !entries.is_empty(),
        Value::String(entry) => !entry.is_empty(),
        _ => false,
    }
}

/// The architecture that the install-config of a cluster is for, normalized.
pub fn cluster_architecture(state: &State, cluster: &Cluster) -> Option<String> {
    let template = cluster.install_config_secret().and_then(|key| state.templates.get(&key))?;
    architecture_of_install_config(install_config::template_document(template).ok()?)
}

/// The architecture that an install-config is for, normalized.
pub fn architecture_of_install_config(document: &Value) -> Option<String> {
    document["controlPlane"]["architecture"].as_str().map(normalize_architecture)
}

/// One word for each architecture, which has two names in the documents of others.
pub fn normalize_architecture(architecture: &str) -> String {
    match architecture {
        "amd64" => "x86_64".into(),
        "aarch64" => "arm64".into(),
        normalized => normalized.into(),
    }
}

/// The ids of the Agents that are bound to a cluster.
pub fn agents_of_cluster(state: &State, cluster: &Cluster) -> Vec<AgentId> {
    state.agents.linked_to(&cluster.name).collect()
}

/// Gives roles to the hosts of clusters that are not installed yet, and to those that join clusters
/// which are.
pub fn assign_roles(state: &mut State, tick: &Tick) {
    let mut clusters: Vec<(Vec<AgentId>, HostNeeds)> = Vec::new();
    for cluster in state.clusters.rows() {
        let agent_ids = agents_of_cluster(state, cluster);
        let stage = cluster_stage(state, cluster);
        // A host that is installed keeps its role.
        let has_open_roles = match stage {
            ClusterStage::Open => !agent_ids.is_empty(),
            ClusterStage::Installed => {
                agent_ids.iter().any(|id| !has_ended_installation(state, *id))
            }
            _ => false,
        };
        if has_open_roles {
            clusters.push((agent_ids, needs_of_cluster(state, cluster)));
        }
    }
    for (agent_ids, needs) in clusters {
        assign_roles_of_cluster(state, &agent_ids, &needs, tick);
    }
}

fn has_ended_installation(state: &State, agent_id: AgentId) -> bool {
    state.agents.get(agent_id).is_some_and(|agent| agent.state().has_ended_installation())
}

/// Writes into each Agent of a cluster the role that its host gets, and which of the masters is the
/// bootstrap. A changed role is recorded in an event.
fn assign_roles_of_cluster(
    state: &mut State,
    agent_ids: &[AgentId],
    needs: &HostNeeds,
    tick: &Tick,
) {
    let agents: Vec<&Agent> =
        agent_ids.iter().filter_map(|agent_id| state.agents.get(*agent_id)).collect();
    let assigned_roles = roles::assign_roles(&agents, needs);
    let masters = agents.iter().zip(&assigned_roles).filter(|(_, role)| **role == Role::Master);
    let first_master = masters
        .map(|(agent, _)| *agent)
        .min_by_key(|agent| (agent.hostname(), &agent.metadata.name))
        .map(Agent::key);
    for (agent_id, role) in agent_ids.iter().zip(assigned_roles) {
        if needs.day2 && has_ended_installation(state, *agent_id) {
            continue;
        }
        let Some(agent) = state.agents.get(*agent_id) else { continue };
        // The masters meet at the first of them, which installs the others.
        let is_bootstrap = !needs.day2 && first_master.as_ref() == Some(&agent.key());
        let has_changed = agent.status.role != role;
        let message = format!("Host {}: calculated role is {}", agent.hostname(), role.name());
        state.agents.update(*agent_id, |agent| {
            agent.status.role = role;
            agent.status.bootstrap = is_bootstrap;
        });
        if has_changed {
            record_agent_event(
                state,
                *agent_id,
                EventReason::HostRoleUpdated,
                EventType::Normal,
                message,
                tick,
            );
        }
    }
}

/// Which hosts a cluster still needs before its installation can begin; none: it has all. Words and
/// order are those of assisted-service: first the number of ready hosts, then their specs, then
/// their approval.
pub fn find_shortage(state: &State, cluster: &Cluster) -> Option<Shortage> {
    let agent_ids = agents_of_cluster(state, cluster);
    let agents: Vec<&Agent> =
        agent_ids.into_iter().filter_map(|agent_id| state.agents.get(agent_id)).collect();
    let needs = needs_of_cluster(state, cluster);
    let Some(masters) = needs.masters else {
        return shortage_without_counts(state, cluster, &agents);
    };
    let workers = needs.workers.unwrap_or(0);
    let ready_masters = count_ready(&agents, Role::Master);
    let ready_workers = count_ready(&agents, Role::Worker);
    let registered = agents.len() as u64;
    if (ready_masters, ready_workers, registered) != (masters, workers, masters + workers) {
        let message = format!(
            "The cluster currently requires exactly {masters} master agents, {ARBITERS} arbiter \
             agents and {workers} worker agents, but currently registered {ready_masters} master \
             agents, {ARBITERS} arbiter agents and {ready_workers} worker agents"
        );
        return Some(Shortage::new(INSUFFICIENT_AGENTS, message));
    }
    let unsynced = agents.iter().filter(|agent| !conditions::is_spec_synced(agent)).count();
    if unsynced > 0 {
        let message = format!("The cluster currently has {unsynced} agents with spec error");
        return Some(Shortage::new(UNSYNCED_AGENTS, message));
    }
    let unapproved = agents.iter().filter(|agent| !agent.spec.approved).count();
    if unapproved > 0 {
        let message = format!("The installation is pending on the approval of {unapproved} agents");
        return Some(Shortage::new(UNAPPROVED_AGENTS, message));
    }
    None
}

/// What a cluster lacks whose install-config does not say how many hosts it needs. A simulated
/// cluster without an install-config lacks nothing as long as it has no hosts and waits for none.
fn shortage_without_counts(
    state: &State,
    cluster: &Cluster,
    agents: &[&Agent],
) -> Option<Shortage> {
    let why = match cluster.install_config_secret() {
        None if cluster.driver == Driver::Fake
            && agents.is_empty()
            && !is_awaiting_hosts(state, cluster) =>
        {
            return None;
        }
        None => "spec.provisioning.installConfigSecretRef is missing".to_owned(),
        Some(key) => format!("Secret {} has no readable install-config", key.name),
    };
    let message =
        format!("The cluster has no install-config, which says how many hosts it needs: {why}");
    Some(Shortage::new(INSUFFICIENT_AGENTS, message))
}

/// Whether hosts are wanted in a cluster that are not bound yet.
fn is_awaiting_hosts(state: &State, cluster: &Cluster) -> bool {
    let mut unbound_agents = state.agents.rows().filter(|agent| agent.bound_cluster().is_none());
    unbound_agents
        .any(|agent| agent.requested_cluster().is_some_and(|wanted| wanted.name == cluster.name))
}

fn count_ready(agents: &[&Agent], role: Role) -> u64 {
    agents.iter().filter(|agent| is_ready(agent) && agent.role() == role).count() as u64
}

/// Whether a host can be installed with its cluster: it passes its checks, or its installation
/// failed and can be tried again.
fn is_ready(agent: &Agent) -> bool {
    !agent.is_duplicate()
        && matches!(
            agent.state(),
            HostState::Known
                | HostState::Error
                | HostState::Installing
                | HostState::InstallingInProgress
                | HostState::Installed
        )
}
