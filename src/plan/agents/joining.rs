//! Hosts that join a cluster which is installed: when their job starts, what becomes of them, and
//! when a host that failed is tried again. It never picks hosts for a cluster.

use crate::model::agent::{Agent, HostState};
use crate::model::backoff::Backoff;
use crate::model::cluster::{Cluster, Power};
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::failure::{Failure, FailureClass};
use crate::model::host::Image;
use crate::model::ip_lease::IpLease;
use crate::model::job::{CANCELLED, JobOutcome, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{AgentId, ClusterId, HostId, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};
use crate::plan::cluster_addresses::AddressRequest;
use crate::plan::cluster_jobs::{JobPlan, start_planned_job};
use crate::plan::{cluster_addresses, cluster_hosts, leases, node_claim_name, record_event};

use super::clusters::{self, agents_of_cluster};
use super::{INSTALLATION_IN_PROGRESS, READY_TO_INSTALL, conditions, enter_state};

/// How long a host waits after it failed to join.
const BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };
/// The URL of an image that may be in the drive of a host whose job was not seen to its end.
const UNKNOWN_IMAGE: &str = "unknown";

/// Whether a job works on a host to let it join its cluster.
fn is_joining(agent: &Agent) -> bool {
    let is_installing = matches!(
        agent.state(),
        HostState::Installing
            | HostState::InstallingInProgress
            | HostState::InstallingPendingUserAction
    );
    agent.is_day2() && is_installing
}

/// The hosts of a cluster that a job works on to let them join it.
fn find_joining(state: &State, cluster: &Cluster) -> Vec<AgentId> {
    let mut agent_ids = agents_of_cluster(state, cluster);
    agent_ids.retain(|agent_id| state.agents.get(*agent_id).is_some_and(is_joining));
    agent_ids
}

/// Lets hosts join a cluster that is installed: all that are ready together, and those that failed
/// one by one, after longer and longer delays.
pub fn advance_joins(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let agent_ids = find_joining(state, cluster);
    let Some((_, job)) = state.live_job(&cluster.name) else {
        // Their job was cancelled for the sake of another, or was left behind in a move.
        for agent_id in agent_ids {
            enter_state(state, agent_id, HostState::Known, READY_TO_INSTALL, tick);
        }
        return begin_join(state, cluster_id, tick);
    };
    if job.verb != Verb::AddNodes || !job.begun {
        return;
    }
    for agent_id in agent_ids {
        if state.agents.get(agent_id).map(Agent::state) == Some(HostState::Installing) {
            enter_state(
                state,
                agent_id,
                HostState::InstallingInProgress,
                INSTALLATION_IN_PROGRESS,
                tick,
            );
        }
    }
}

/// Starts the job that lets ready hosts join a cluster.
fn begin_join(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if !can_be_joined(cluster) {
        return;
    }
    let mut agent_ids = find_ready(state, cluster, tick);
    if agent_ids.is_empty() {
        return;
    }
    let cluster = cluster.clone();
    let waiting_ids = claim_node_addresses(state, &cluster, &agent_ids, tick);
    agent_ids.retain(|agent_id| !waiting_ids.contains(agent_id));
    let driven_hosts = find_driven_hosts(state, &cluster, &agent_ids);
    if agent_ids.is_empty() || cluster_hosts::are_hosts_busy(state, &driven_hosts) {
        return;
    }
    for agent_id in agent_ids {
        let Some(agent) = state.agents.get(agent_id) else { continue };
        let hostname = agent.hostname().to_owned();
        state.agents.update(agent_id, |agent| agent.status.node_name = hostname);
        enter_state(state, agent_id, HostState::Installing, INSTALLATION_IN_PROGRESS, tick);
    }
    let plan = plan_job(state, &cluster);
    start_planned_job(state, cluster_id, plan, tick);
    for host in driven_hosts {
        let Some(host_id) = find_host(state, &host) else { continue };
        state.hosts.update(host_id, |host| cluster_hosts::switch_on_host(host, &cluster.name));
    }
}

/// Whether hosts may join a cluster now.
fn can_be_joined(cluster: &Cluster) -> bool {
    let is_running = match cluster.power {
        Power::Unsupported => true,
        Power::Running | Power::Unset => cluster.wanted_power() == Power::Running,
        _ => false,
    };
    let is_in_use = cluster.is_installed() && cluster.deleting.is_none() && !cluster.paused;
    is_running && is_in_use && cluster.driver != Driver::Missing
}

/// All hosts that are ready to join a cluster; if there are none, the first one that failed and is
/// to be tried again.
fn find_ready(state: &State, cluster: &Cluster, tick: &Tick) -> Vec<AgentId> {
    let mut ready_ids = Vec::new();
    let mut next_retry: Option<(Time, AgentId)> = None;
    for agent_id in agents_of_cluster(state, cluster) {
        let Some(agent) = state.agents.get(agent_id) else { continue };
        if !may_join(agent) {
            continue;
        }
        if agent.state() == HostState::Known {
            ready_ids.push(agent_id);
        } else if let Some(retry_at) = join_retry_at(agent)
            && retry_at <= tick.now
            && next_retry.is_none_or(|next_retry| (retry_at, agent_id) < next_retry)
        {
            next_retry = Some((retry_at, agent_id));
        }
    }
    if ready_ids.is_empty() {
        ready_ids.extend(next_retry.map(|(_, agent_id)| agent_id));
    }
    ready_ids
}

/// Whether nothing but its state keeps a host from joining its cluster.
fn may_join(agent: &Agent) -> bool {
    agent.is_day2()
        && agent.spec.approved
        && agent.metadata.deletion_timestamp.is_none()
        && !agent.is_duplicate()
        && conditions::is_spec_synced(agent)
}

/// When a host that failed to join its cluster is tried again; none: never by itself.
fn join_retry_at(agent: &Agent) -> Option<Time> {
    if !agent.is_day2() || agent.state() != HostState::Error {
        return None;
    }
    agent.status.join_again_at
}

/// When a host that failed to join its cluster is tried again, if the cluster can be joined now.
pub fn next_join_at(state: &State, agent: &Agent) -> Option<Time> {
    let retry_at = join_retry_at(agent)?;
    let cluster = clusters::find_cluster(state, &agent.bound_cluster()?)?;
    if can_be_joined(cluster) && state.live_job(&cluster.name).is_none() {
        Some(retry_at)
    } else {
        None
    }
}

/// Claims the addresses that the pool of a cluster gives to hosts, for some hosts of the cluster.
/// Returns the hosts that have not got all of theirs yet.
pub fn claim_node_addresses(
    state: &mut State,
    cluster: &Cluster,
    agent_ids: &[AgentId],
    tick: &Tick,
) -> Vec<AgentId> {
    if agent_ids.is_empty() {
        return Vec::new();
    }
    let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
    let Some(pool) = pool.cloned() else { return Vec::new() };
    let ip_pools = pool.node_address_pools();
    let mut waiting_ids = Vec::new();
    for agent_id in agent_ids {
        let Some(agent) = state.agents.get(*agent_id) else { continue };
        let agent_name = agent.metadata.name.clone();
        for ip_pool in &ip_pools {
            let lease = find_lease(state, &pool, ip_pool, &cluster.name, &agent_name);
            let has_address = lease.is_some_and(|lease| lease.address.is_some());
            if lease.is_none() {
                let claim = node_claim_name(&cluster.name, &agent_name, &ip_pools, ip_pool);
                let agent = Some(agent_name.as_str());
                let request = AddressRequest { cluster: &cluster.name, agent, claim };
                claim_or_adopt_address(state, &pool, ip_pool, request, tick);
            }
            if !has_address && !waiting_ids.contains(agent_id) {
                waiting_ids.push(*agent_id);
            }
        }
    }
    waiting_ids
}

/// The lease of a host's address from a pool of addresses.
fn find_lease<'a>(
    state: &'a State,
    pool: &ClusterPool,
    ip_pool: &str,
    cluster: &str,
    agent: &str,
) -> Option<&'a IpLease> {
    state.ip_leases.rows().find(|lease| {
        lease.namespace == pool.metadata.namespace
            && lease.pool == ip_pool
            && lease.is_of_agent(cluster, agent)
    })
}

/// Makes the claim of a host's address. If the cluster has a claim of that name already which does
/// not say whose it is, as states of the first schema have them, that one becomes the host's.
fn claim_or_adopt_address(
    state: &mut State,
    pool: &ClusterPool,
    ip_pool: &str,
    request: AddressRequest<'_>,
    tick: &Tick,
) {
    let key = Key::new(&*pool.metadata.namespace, &*request.claim);
    let Some(lease_id) = state.ip_leases.find(&key) else {
        let lease = cluster_addresses::waiting_lease(pool, ip_pool, request, tick);
        return leases::grant_address(state, lease);
    };
    state.ip_leases.update(lease_id, |lease| {
        if lease.cluster() == Some(request.cluster)
            && lease.agent().is_none()
            && let Some(holder) = &mut lease.holder
        {
            holder.agent = request.agent.map(str::to_owned);
        }
    });
}

/// Finds the hosts that the job of poolctl boots by their controllers, among some hosts of a
/// cluster. Returns `NAMESPACE/NAME` of each. A simulated cluster has none, and a driver of somebody
/// else boots hosts itself.
fn find_driven_hosts(state: &State, cluster: &Cluster, agent_ids: &[AgentId]) -> Vec<String> {
    if !cluster.driver.joining_driver().traits().boots_images {
        return Vec::new();
    }
    let mut driven_hosts = Vec::new();
    for agent_id in agent_ids {
        let host_key = state.agents.get(*agent_id).and_then(Agent::host_key);
        let host = host_key.as_ref().and_then(|key| state.hosts.by_key(key));
        if let Some(host) = host
            && !host.is_left_alone()
            && host.can_boot_images()
        {
            driven_hosts.push(host.key().to_string());
        }
    }
    driven_hosts
}

/// The job by which the hosts join that are installing now.
fn plan_job(state: &State, cluster: &Cluster) -> JobPlan {
    let agent_ids = find_joining(state, cluster);
    let agents = agent_ids.iter().filter_map(|agent_id| state.agents.get(*agent_id));
    let failures = agents.map(|agent| agent.status.join_failures).max().unwrap_or(0);
    JobPlan {
        verb: Verb::AddNodes,
        attempt: failures + 1,
        hosts: find_driven_hosts(state, cluster, &agent_ids),
        driver: cluster.driver.joining_driver(),
    }
}

/// Updates the hosts of a cluster when the job ends that lets them join it.
pub fn finish_join(state: &mut State, cluster_id: ClusterId, outcome: &JobOutcome, tick: &Tick) {
    match outcome {
        JobOutcome::Failed(failure) => {
            let unheard_hosts = find_unheard_hosts(state, cluster_id, tick);
            fail_join(state, cluster_id, failure, tick);
            // Before anything was made no host was booted.
            if failure.is_made {
                mark_drives_unknown(state, &unheard_hosts);
            }
        }
        JobOutcome::BrokeOff(message) => {
            let unheard_hosts = find_unheard_hosts(state, cluster_id, tick);
            let failure = Failure::new(FailureClass::Unclear, message);
            fail_join(state, cluster_id, &failure, tick);
            mark_drives_unknown(state, &unheard_hosts);
        }
        _ => complete_join(state, cluster_id, tick),
    }
}

/// Marks the hosts that were joining a cluster as its nodes, and forgets their earlier failures.
fn complete_join(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    for agent_id in find_joining(state, cluster) {
        state.agents.update(agent_id, |agent| {
            agent.status.join_failures = 0;
            agent.status.join_again_at = None;
        });
        enter_state(state, agent_id, HostState::AddedToExistingCluster, "Done", tick);
    }
}

/// Marks the hosts that were joining a cluster as failed. They are tried again later and later,
/// unless another attempt would fail as well.
fn fail_join(state: &mut State, cluster_id: ClusterId, failure: &Failure, tick: &Tick) {
    let can_retry = !failure.is_hopeless;
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    for agent_id in find_joining(state, cluster) {
        state.agents.update(agent_id, |agent| {
            let status = &mut agent.status;
            status.join_failures += 1;
            let delay = BACKOFF.delay(status.join_failures);
            status.join_again_at = can_retry.then(|| tick.now.plus(delay));
        });
        enter_state(state, agent_id, HostState::Error, &failure.message, tick);
    }
}

/// Finds the hosts that a job has booted and whose controllers have reported nothing in this pass,
/// by namespace and name. The others were told to let go of their image, and their controllers have
/// reported what became of it.
fn find_unheard_hosts(state: &State, cluster_id: ClusterId, tick: &Tick) -> Vec<String> {
    let Some(cluster) = state.clusters.get(cluster_id) else { return Vec::new() };
    let mut hosts = find_driven_hosts(state, cluster, &find_joining(state, cluster));
    hosts.retain(|host| {
        let host = find_host(state, host).and_then(|host_id| state.hosts.get(host_id));
        host.is_some_and(|host| host.status.last_updated != Some(tick.now))
    });
    hosts
}

/// Ends the job of a host that leaves its cluster while it joins it. The job starts anew for the
/// other hosts.
pub fn cancel_join(state: &mut State, agent: &Agent, tick: &Tick) {
    if !is_joining(agent) {
        return;
    }
    let Some(cluster_key) = agent.bound_cluster() else { return };
    let Some((job_id, job)) = state.live_job(&cluster_key.name) else { return };
    if job.verb != Verb::AddNodes {
        return;
    }
    let hosts = job.hosts.clone();
    state.jobs.update(job_id, |job| {
        job.ended = Some(tick.now);
        job.outcome = Some(CANCELLED.into());
    });
    mark_drives_unknown(state, &hosts);
    let cluster_id = state.find_cluster(&cluster_key.name);
    let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
    let key = cluster.map_or(cluster_key, Cluster::key);
    let message = format!("add-nodes cancelled: host {} leaves the cluster", agent.hostname());
    record_event(state, tick, Kind::ClusterDeployment, key, EventReason::JobCancelled, message);
}

/// Records that an image may be in the drives of hosts, so that their controllers are told to eject
/// it.
fn mark_drives_unknown(state: &mut State, hosts: &[String]) {
    for host in hosts {
        let Some(host_id) = find_host(state, host) else { continue };
        state.hosts.update(host_id, |host| {
            let image = &mut host.status.provisioning.image;
            image.get_or_insert_with(|| Image::live(UNKNOWN_IMAGE));
        });
    }
}

/// The id of a host, by its namespace and name.
fn find_host(state: &State, host: &str) -> Option<HostId> {
    let (namespace, name) = host.split_once('/')?;
    state.hosts.find(&Key::new(namespace, name))
}
