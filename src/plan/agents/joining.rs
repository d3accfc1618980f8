//! Hosts that join a cluster which is installed: when that begins, what becomes of them, and when
//! those that failed are tried again.

use crate::model::agent::{Agent, HostState};
use crate::model::backoff::Backoff;
use crate::model::cluster::{Cluster, Power};
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, Image};
use crate::model::ip_lease::IpLease;
use crate::model::job::{CANCELLED, Failure, Outcome, Verb};
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::{AgentId, ClusterId, HostId, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};
use crate::plan::cluster_jobs::{JobPlan, start_planned_job};
use crate::plan::{CLUSTER, claim_of_host, clusters_hosts, leases, say, vips};

use super::clusters::{self, hosts_of};
use super::{conditions, enter};

/// How long a host waits after it failed to join.
const BACKOFF: Backoff = Backoff { first: Span::minutes(1), factor: 2, longest: Span::hours(1) };
/// What is in the drive of a host whose job was not seen to its end.
const UNKNOWN: &str = "unknown";

/// One that a job works on.
fn joins(one: &Agent) -> bool {
    let installs = matches!(
        one.state(),
        HostState::Installing
            | HostState::InstallingInProgress
            | HostState::InstallingPendingUserAction
    );
    one.is_day2() && installs
}

/// The hosts of a cluster that a job works on, as places.
fn joining(state: &State, cluster: &Cluster) -> Vec<AgentId> {
    let joins = |at: &AgentId| state.agents.get(*at).is_some_and(joins);
    hosts_of(state, cluster).into_iter().filter(joins).collect()
}

/// Hosts that are ready join their cluster together; those that failed one by one, later and later.
pub fn advance(state: &mut State, at: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at) else { return };
    let live =
        state.live_job(&cluster.name).map(|(_, job)| job.verb == Verb::AddNodes && job.begun);
    let waits =
        |at: &AgentId| state.agents.get(*at).map(Agent::state) == Some(HostState::Installing);
    let hosts = joining(state, cluster);
    match live {
        Some(true) => {
            let first: Vec<AgentId> = hosts.into_iter().filter(waits).collect();
            for host in first {
                let info = "Installation is in progress";
                enter(state, host, HostState::InstallingInProgress, info, tick);
            }
        }
        Some(false) => {}
        None => {
            // Their job was cancelled for the sake of another, or was left behind in a move.
            for host in hosts {
                enter(state, host, HostState::Known, "Host is ready to be installed", tick);
            }
            begin(state, at, tick);
        }
    }
}

fn begin(state: &mut State, at: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at).filter(|one| takes(one)) else { return };
    let mut hosts = ready(state, cluster, tick);
    if hosts.is_empty() {
        return;
    }
    let cluster = cluster.clone();
    let waiting = without_addresses(state, &cluster, &hosts, tick);
    hosts.retain(|at| !waiting.contains(at));
    let machines = controllers(state, &cluster, &hosts);
    if hosts.is_empty() || clusters_hosts::are_busy(state, &machines) {
        return;
    }
    for host in hosts {
        let name = state.agents.get(host).map(|one| one.hostname().to_owned()).unwrap_or_default();
        state.agents.update(host, |one| one.status.node_name = name);
        enter(state, host, HostState::Installing, "Installation is in progress", tick);
    }
    let plan = plan_job(state, &cluster);
    start_planned_job(state, at, plan, tick);
    for machine in machines {
        let Some(host) = at_of(state, &machine) else { continue };
        state.hosts.update(host, |host| clusters_hosts::switch_on(host, &cluster.name));
    }
}

/// Whether hosts may join a cluster now.
fn takes(cluster: &Cluster) -> bool {
    let runs = match cluster.power {
        Power::Unsupported => true,
        Power::Running | Power::Unset => cluster.wants() == Power::Running,
        _ => false,
    };
    let there = cluster.installed() && cluster.deleting.is_none() && !cluster.paused;
    runs && there && cluster.driver != Driver::Missing
}

/// All that are ready; if there are none, the first of those that are tried again.
fn ready(state: &State, cluster: &Cluster, tick: &Tick) -> Vec<AgentId> {
    let synced = |one: &Agent| {
        one.condition(conditions::SPEC_SYNCED).is_none_or(|found| found.status != "False")
    };
    let may = |one: &Agent| {
        let stays = one.metadata.deletion_timestamp.is_none() && !one.is_duplicate();
        one.is_day2() && one.spec.approved && stays && synced(one)
    };
    let all = hosts_of(state, cluster).into_iter();
    let all = all.filter_map(|at| Some((at, state.agents.get(at).filter(|one| may(one))?)));
    let (known, others): (Vec<_>, Vec<_>) =
        all.partition(|(_, one)| one.state() == HostState::Known);
    if !known.is_empty() {
        return known.into_iter().map(|(at, _)| at).collect();
    }
    let due = others.into_iter().filter_map(|(at, one)| Some((again_at(one)?, at)));
    due.filter(|(next, _)| *next <= tick.now).min().map(|(_, at)| at).into_iter().collect()
}

/// When a host that failed joins its cluster again by itself.
fn again_at(one: &Agent) -> Option<Time> {
    let failed = one.is_day2() && one.state() == HostState::Error;
    one.status.join_again_at.filter(|_| failed)
}

/// When the first of those that failed is tried again.
pub fn due(state: &State) -> Option<Time> {
    let waits = |one: &&Agent| {
        let cluster = one.bound_to().and_then(|key| clusters::at(state, &key));
        cluster.is_some_and(|one| takes(one) && state.live_job(&one.name).is_none())
    };
    let all = state.agents.rows().filter(|one| again_at(one).is_some());
    all.filter(waits).filter_map(again_at).min()
}

/// Where the pool gives its clusters' hosts addresses: those of some hosts that have not all of
/// theirs yet. They wait for them from now on.
pub fn without_addresses(
    state: &mut State,
    cluster: &Cluster,
    hosts: &[AgentId],
    tick: &Tick,
) -> Vec<AgentId> {
    let Some(key) = cluster.pool.as_deref().filter(|_| !hosts.is_empty()) else {
        return Vec::new();
    };
    let Some(pool) = state.pools.by_key(key).cloned() else { return Vec::new() };
    let names = pool.nodes_from();
    let mut waiting = Vec::new();
    for at in hosts {
        let Some(host) = state.agents.get(*at).map(|one| one.metadata.name.clone()) else {
            continue;
        };
        for name in &names {
            let its = |one: &&IpLease| {
                one.namespace == key.namespace
                    && one.pool == *name
                    && one.is_of_host(&cluster.name, &host)
            };
            let known = state.ip_leases.rows().find(its).map(|one| one.address.is_some());
            if known.is_none() {
                let claim = claim_of_host(&cluster.name, &host, &names, name);
                lease_or_adopt(state, &pool, name, (cluster, &host, claim), tick);
            }
            if known != Some(true) && !waiting.contains(at) {
                waiting.push(*at);
            }
        }
    }
    waiting
}

/// The claim of a host's address: a new one, or one of that name that the cluster has and that does
/// not say yet whose it is, as states of the first schema have them.
fn lease_or_adopt(
    state: &mut State,
    pool: &ClusterPool,
    ip_pool: &str,
    (cluster, agent, claim): (&Cluster, &str, String),
    tick: &Tick,
) {
    let key = Key::new(&*pool.metadata.namespace, &*claim);
    let is_nobodys =
        |lease: &IpLease| lease.cluster() == Some(&cluster.name) && lease.agent().is_none();
    let known = state.ip_leases.find(&key);
    if let Some(lease_id) = known.filter(|id| state.ip_leases.get(*id).is_some_and(is_nobodys)) {
        state.ip_leases.update(lease_id, |lease| {
            if let Some(holder) = &mut lease.holder {
                holder.agent = Some(agent.to_owned());
            }
        });
    } else if known.is_none() {
        let request = vips::Request { cluster: &cluster.name, agent: Some(agent), claim };
        let lease = vips::waiting(pool, ip_pool, request, tick);
        leases::grant_address(state, lease);
    }
}

/// The machines of some hosts that we drive: a simulated cluster has none, and a driver of its own
/// does that itself.
fn controllers(state: &State, cluster: &Cluster, hosts: &[AgentId]) -> Vec<String> {
    if join_driver(cluster) != Driver::Agent {
        return Vec::new();
    }
    let hosts = hosts.iter().filter_map(|at| state.agents.get(*at)?.bmh());
    let boots = |host: &BareMetalHost| !host.is_left_alone() && host.boots_images();
    let driven = |key: &Key| state.hosts.by_key(key).is_some_and(boots);
    hosts.filter(driven).map(|key| key.to_string()).collect()
}

/// The job by which hosts join that are installing now.
fn plan_job(state: &State, cluster: &Cluster) -> JobPlan {
    let agent_ids = joining(state, cluster);
    let agents = agent_ids.iter().filter_map(|agent_id| state.agents.get(*agent_id));
    let failures = agents.map(|agent| agent.status.join_failures).max().unwrap_or(0);
    JobPlan {
        verb: Verb::AddNodes,
        attempt: failures + 1,
        hosts: controllers(state, cluster, &agent_ids),
        driver: join_driver(cluster),
    }
}

/// Who lets hosts join a cluster: whatever installed it, it is done by oc.
fn join_driver(cluster: &Cluster) -> Driver {
    match cluster.driver {
        own @ (Driver::Fake | Driver::Exec) => own,
        _ => Driver::Agent,
    }
}

/// The job is over, and so it is for its hosts.
pub fn over(state: &mut State, at: ClusterId, outcome: &Outcome, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at) else { return };
    let hosts = joining(state, cluster);
    let (message, hopeless, begun) = match outcome {
        Outcome::Failed { message, how } => (message, *how == Failure::Hopeless, true),
        Outcome::BrokeOff { message, later } => (message, false, !later),
        _ => {
            for host in hosts {
                state.agents.update(host, |one| {
                    (one.status.join_failures, one.status.join_again_at) = Default::default();
                });
                enter(state, host, HostState::AddedToExistingCluster, "Done", tick);
            }
            return;
        }
    };
    let machines = controllers_at(state, at, &hosts);
    for host in hosts {
        state.agents.update(host, |one| {
            let status = &mut one.status;
            status.join_failures += 1;
            let delay = BACKOFF.delay(status.join_failures);
            status.join_again_at = (!hopeless).then(|| tick.now.plus(delay));
        });
        enter(state, host, HostState::Error, message, tick);
    }
    // Of those that were told to let go of their image it was heard in this pass.
    let unheard = machines.into_iter().filter(|machine| {
        let host = at_of(state, machine).and_then(|at| state.hosts.get(at));
        host.is_some_and(|host| host.status.last_updated != Some(tick.now))
    });
    let unheard: Vec<String> = unheard.filter(|_| begun).collect();
    empty(state, &unheard);
}

fn controllers_at(state: &State, at: ClusterId, hosts: &[AgentId]) -> Vec<String> {
    let cluster = state.clusters.get(at);
    cluster.map(|cluster| controllers(state, cluster, hosts)).unwrap_or_default()
}

/// A host leaves its cluster in the middle of joining it: the job ends, and the others begin anew.
pub fn cancel(state: &mut State, agent: &Agent, tick: &Tick) {
    let Some(cluster) = agent.bound_to().filter(|_| joins(agent)) else { return };
    let Some((at, job)) = state.live_job(&cluster.name) else { return };
    if job.verb != Verb::AddNodes {
        return;
    }
    let machines = job.hosts.clone();
    state.jobs.update(at, |job| {
        job.ended = Some(tick.now);
        job.outcome = Some(CANCELLED.into());
    });
    empty(state, &machines);
    let key = state.cluster(&cluster.name).and_then(|at| state.clusters.get(at)).map(Cluster::key);
    let text = format!("add-nodes cancelled: host {} leaves", agent.hostname());
    say(state, tick, EventReason::JobCancelled, (CLUSTER, key.unwrap_or(cluster)), text);
}

/// Their drives may have an image that is gone: they are told to let go of it.
fn empty(state: &mut State, machines: &[String]) {
    for machine in machines {
        let Some(at) = at_of(state, machine) else { continue };
        state.hosts.update(at, |one| {
            one.status.provisioning.image.get_or_insert_with(|| Image::live(UNKNOWN));
        });
    }
}

/// The place of a host, by its namespace and name.
fn at_of(state: &State, machine: &str) -> Option<HostId> {
    let (namespace, name) = machine.split_once('/')?;
    state.hosts.find(&Key::new(namespace, name))
}
