//! When something is next to be done by itself, and what scopes wait for. It never does anything.

use crate::model::agent::Agent;
use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::condition::ConditionReason;
use crate::model::driver::Driver;
use crate::model::due::{Due, DueObject, DueScopes};
use crate::model::job::Job;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::power::SETTLE_TIME;
use crate::model::state::State;
use crate::model::time::{Span, Time};

use super::{addresses, agents, buckets, hosts, life, may_act, power, probes, schedule};

/// When something is next due by itself: an expiry, a retry, a timeout, a schedule, and after a
/// plan the end of an address's rest. An instant that has passed is none any more: what was to be
/// done then is done, or waits for something else.
pub fn next_due_at(state: &State, now: Time) -> Option<Time> {
    let scopes = due_scopes(state, now);
    let parts = scopes.pools.values().chain(scopes.objects.values()).chain([&scopes.rest]);
    parts.filter_map(|due| due.at).min()
}

/// What each pool and each object with a row of its own waits for, and what is left.
/// Only after a plan that has settled this is true until somebody changes something.
pub fn due_scopes(state: &State, now: Time) -> DueScopes {
    let mut scopes = DueScopes::default();
    for pool in state.pools.rows() {
        scopes.pools.insert(pool.key(), due_of_pool(state, pool, now));
    }
    for claim in state.claims.rows() {
        scope_of(&mut scopes, Some(&claim.pool_key())).add(due_of_claim(claim, now));
    }
    for cluster in state.clusters.rows() {
        scope_of_cluster(&mut scopes, cluster).add(due_of_cluster(state, cluster, now));
    }
    for agent in state.agents.rows() {
        scopes.objects.insert(DueObject::agent(agent.key()), due_of_agent(state, agent, now));
    }
    let probes = probes::hosts_to_probe(state);
    for host in state.hosts.rows() {
        let mut due = Due::default();
        add_later_instants(&mut due, hosts::due_instants(state, host, &probes), now);
        scopes.objects.insert(DueObject::host(host.key()), due);
    }
    for job in state.jobs.rows().filter(|job| job.ended.is_none()) {
        scope_of_job(state, &mut scopes, job).is_polled = true;
    }
    for pool in state.ip_pools.rows() {
        scopes.objects.insert(DueObject::ip_pool(pool.metadata.key()), Due::default());
    }
    for (pool_key, rests_until) in &state.resting_until {
        add_later_instants(due_of_ip_pool(&mut scopes, pool_key.clone()), [*rests_until], now);
    }
    for lease in state.ip_leases.rows() {
        let pool_due = due_of_ip_pool(&mut scopes, lease.pool_key());
        add_later_instants(pool_due, lease.expiry_instants(), now);
    }
    scopes
}

fn due_of_ip_pool(scopes: &mut DueScopes, pool_key: Key) -> &mut Due {
    scopes.objects.entry(DueObject::ip_pool(pool_key)).or_default()
}

/// The scope of a cluster: its pool, or the cluster alone.
fn scope_of_cluster<'a>(scopes: &'a mut DueScopes, cluster: &Cluster) -> &'a mut Due {
    match &cluster.pool {
        Some(pool) => scope_of(scopes, Some(pool)),
        None => scopes.objects.entry(DueObject::cluster(cluster.key())).or_default(),
    }
}

/// The scope of what a pool has. What names a pool that does not exist belongs to no pool.
fn scope_of<'a>(scopes: &'a mut DueScopes, pool: Option<&Key>) -> &'a mut Due {
    match pool.and_then(|key| scopes.pools.get_mut(key)) {
        Some(due) => due,
        None => &mut scopes.rest,
    }
}

/// The scope of a job: its host, else its cluster or the pool of that cluster. If neither is in the
/// state, it is the pool that the job names.
fn scope_of_job<'a>(state: &State, scopes: &'a mut DueScopes, job: &Job) -> &'a mut Due {
    let host = job.host().map(DueObject::host);
    if let Some(host) = host.filter(|host| scopes.objects.contains_key(host)) {
        return scopes.objects.entry(host).or_default();
    }
    match state.find_cluster(&job.object).and_then(|cluster_id| state.clusters.get(cluster_id)) {
        Some(cluster) => scope_of_cluster(scopes, cluster),
        None => scope_of(scopes, job.pool.as_deref()),
    }
}

fn add_later_instants(due: &mut Due, instants: impl IntoIterator<Item = Time>, now: Time) {
    for instant in instants {
        if instant > now {
            due.add_instant(instant);
        }
    }
}

/// What an Agent waits for. What is around it is in the state.
pub fn due_of_agent(state: &State, agent: &Agent, now: Time) -> Due {
    let mut due = Due::default();
    add_later_instants(&mut due, agents::due_instants(state, agent), now);
    due
}

fn due_of_pool(state: &State, pool: &ClusterPool, now: Time) -> Due {
    let status = &pool.status;
    let mut due = Due {
        waits: status.size < pool.spec.size || status.pending > 0,
        // Nothing reports that its driver was installed, replaced or removed.
        is_polled: pool.driver_program().is_some_and(|name| state.drivers.contains_key(name))
            || waits_for_resting_address(state, pool),
        ..Due::default()
    };
    let pause = status.install_pause.as_ref();
    add_later_instants(&mut due, pause.and_then(|pause| pause.until), now);
    add_later_instants(&mut due, schedule::next_tick_at(pool), now);
    if may_act(pool) {
        add_later_instants(&mut due, buckets::waking_deadlines(state, pool), now);
    }
    due
}

/// Whether a pool lacks addresses that may only rest after their last use. When the first of them
/// can be leased again is known to the book of addresses alone, so every pass asks.
fn waits_for_resting_address(state: &State, pool: &ClusterPool) -> bool {
    let shortage = state.shortages.get(&pool.key());
    if shortage.is_none_or(|shortage| shortage.reason != ConditionReason::AddressesExhausted) {
        return false;
    }
    let mut ip_pools = pool.vip_pools().into_iter().chain(pool.node_address_pools());
    ip_pools.any(|name| {
        let ip_pool = addresses::find_serving_pool(state, &pool.metadata.namespace, name);
        ip_pool.is_ok_and(|ip_pool| {
            ip_pool.is_some_and(|ip_pool| ip_pool.reuse_delay() > Span::default())
        })
    })
}

fn due_of_claim(claim: &Claim, now: Time) -> Due {
    let mut due = Due::default();
    if claim.deleting.is_some() {
        return due;
    }
    if !claim.warned {
        add_later_instants(&mut due, claim.warning_due_at(), now);
    }
    add_later_instants(&mut due, claim.expires_at(), now);
    due
}

fn due_of_cluster(state: &State, cluster: &Cluster, now: Time) -> Due {
    // A cluster without a pool lacks Agents, or an object that its spec names. A change of either has
    // it looked at.
    let is_short = cluster.unmet.is_some() || cluster.shortage.is_some();
    let mut due = Due { waits: cluster.pool.is_some() && is_short, ..Due::default() };
    if !cluster.paused {
        add_later_instants(&mut due, cluster.expires_at(), now);
    }
    if !is_looked_after(cluster) {
        return due;
    }
    // Nothing reports that a simulated cluster has woken: it is asked.
    due.is_polled = cluster.power.is_waiting() && !cluster.driver.is_supervised();
    let instants = [
        life::next_attempt_at(state, cluster),
        life::next_deprovision_at(cluster),
        life::waits_for_hosts_until(cluster),
        power::hibernates_at(state, cluster),
        power::next_power_attempt_at(cluster),
        power::next_health_check_at(state, cluster),
        power::settled_at(cluster, SETTLE_TIME),
    ];
    add_later_instants(&mut due, instants.into_iter().flatten(), now);
    due
}

/// Nothing happens to a cluster that is paused, or that no driver looks after.
fn is_looked_after(cluster: &Cluster) -> bool {
    !cluster.paused && (cluster.driver != Driver::Missing || cluster.power.is_waiting())
}
