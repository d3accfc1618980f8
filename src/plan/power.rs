//! Decides which clusters run and which hibernate, and starts the jobs that take them there. The
//! oldest clusters of a pool run, as many as its runningCount and the claims that wait; a claimed
//! cluster runs until its user or its hibernateAfter says otherwise. It never makes or deletes a
//! cluster.

use std::collections::HashSet;

use crate::model::annotations::POWER;
use crate::model::cluster::{Cluster, Power};
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::job::{ClusterHealth, Verb};
use crate::model::kinds::Kind;
use crate::model::pool::ClusterPool;
use crate::model::state::{ClusterId, PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

use super::buckets::{passed_over_at, sort_pool};
use super::cluster_jobs::start_job;
use super::{cluster_hosts, record_event, record_warning};

/// How long after a failed start or stop it is tried again.
const RETRY: Span = Span::minutes(1);
/// A waking that takes so many times the limit was held up by something else.
const OUTAGE: i64 = 3;
/// How long after a cluster was asked how it does it is asked again.
const ASK: Span = Span::seconds(5);

/// Writes down for each unclaimed cluster of a pool whether it is to run.
pub fn choose_running_clusters(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    if pool.metadata.deletion_timestamp.is_some() {
        return;
    }
    pass_over_slow_clusters(state, pool_id, tick);
    let Some(pool) = state.pools.get(pool_id) else { return };
    let sorted = sort_pool(state, pool, tick.now);
    let is_pool_powerless = pool.cannot_stop_machines() || lacks_power_verbs(state, pool);
    let is_by_hosts = pool.driver() == Driver::Agent;
    let running = pool.running_count().saturating_add(sorted.waiting.len());
    let has_waiting_claims = !sorted.waiting.is_empty();
    let usable: HashSet<ClusterId> =
        [sorted.installing, sorted.retrying, sorted.standby, sorted.ready]
            .into_iter()
            .flatten()
            .collect();
    let mut clusters = state.members(&pool.key()).clusters;
    clusters.retain(|cluster_id| usable.contains(cluster_id));
    // One whose installation has failed comes last: nobody knows whether it will ever run. The sort is
    // stable, so the order of the members breaks ties.
    clusters.sort_by_key(|cluster_id| {
        let cluster = state.clusters.get(*cluster_id);
        cluster.map(|cluster| (cluster.failed_at.is_some(), cluster.created))
    });
    let oldest: HashSet<ClusterId> = clusters.iter().copied().take(pool.running_count()).collect();
    clusters.sort_by_key(|cluster_id| {
        let cluster = state.clusters.get(*cluster_id);
        cluster.map(|cluster| (cluster.failed_at.is_some(), cluster.passed_over))
    });
    let mut rank = 0;
    for cluster_id in clusters {
        let Some(cluster) = state.clusters.get(cluster_id) else { continue };
        // What cannot be stopped runs.
        let cannot_stop = is_pool_powerless && !(is_by_hosts && is_driven_by_hosts(state, cluster));
        // What cannot be started either sleeps on, and takes no place from what can.
        let sleeps_on = cannot_stop && sleeps_for_good(state, cluster);
        // A cluster that was passed over goes on waking and takes no place: the first that runs
        // serves the claim, and one that is to run anyway runs or turns out to be broken.
        let is_slow = cluster.passed_over.is_some() && cluster.power.is_waking();
        let is_of_use = has_waiting_claims || oldest.contains(&cluster_id);
        // One that a person holds is given to no claim, so it takes no place from what may be.
        let is_held = has_waiting_claims && cluster.is_held_from_claims();
        let goes_on = is_slow && is_of_use && cluster.wanted_power() == Power::Running;
        let runs = !sleeps_on && (rank < running || cannot_stop || goes_on);
        rank += usize::from(!goes_on && !sleeps_on && !is_held);
        let wanted = if runs { Power::Running } else { Power::Hibernating };
        if cluster.power_wanted != wanted {
            state.clusters.update(cluster_id, |cluster| cluster.power_wanted = wanted);
        }
    }
}

/// A standby that takes too long to wake takes no place from those that may serve the claims that
/// wait: the next ones are woken, too. While no claim waits there is time to see whether it wakes;
/// then only one whose machines cannot be started takes no place from those that sleep.
fn pass_over_slow_clusters(state: &mut State, pool_id: PoolId, tick: &Tick) {
    if tick.clock_jumped {
        return;
    }
    let Some(pool) = state.pools.get(pool_id) else { return };
    let mut slow = state.members(&pool.key()).clusters;
    slow.retain(|cluster_id| {
        let cluster = state.clusters.get(*cluster_id);
        let limit = cluster.and_then(|cluster| passed_over_at(pool, cluster));
        limit.is_some_and(|limit| tick.now >= limit)
    });
    if slow.is_empty() {
        return;
    }
    let sorted = sort_pool(state, pool, tick.now);
    if sorted.waiting.is_empty() {
        let mut standbys = sorted.standby.iter().filter_map(|id| state.clusters.get(*id));
        if !standbys.any(may_be_woken_instead) {
            return;
        }
        slow.retain(|cluster_id| {
            let cluster = state.clusters.get(*cluster_id);
            cluster.is_some_and(|cluster| cluster.power.is_being_started())
        });
    }
    let after = pool.wake_next_after();
    for cluster_id in slow {
        state.clusters.update(cluster_id, |cluster| cluster.passed_over = Some(tick.now));
        let Some(key) = state.clusters.get(cluster_id).map(Cluster::key) else { continue };
        let message = format!("Not running {after} after it was woken: another standby is woken");
        record_warning(state, tick, Kind::ClusterDeployment, key, EventReason::PassedOver, message);
    }
}

/// Whether a standby sleeps that can be woken in the place of one that is too slow.
fn may_be_woken_instead(standby: &Cluster) -> bool {
    !standby.power.is_waking()
        && standby.passed_over.is_none()
        && !standby.paused
        && !standby.power_paused
}

/// When a cluster that somebody has, or that belongs to no pool, has run long enough: from the
/// last of its installation, its claim and its waking.
pub fn hibernates_at(state: &State, cluster: &Cluster) -> Option<Time> {
    let after = cluster.hibernate_after?;
    let is_unclaimed =
        cluster.pool.is_some() && (cluster.claim.is_none() || cluster.claimed_at.is_none());
    let is_counted = cluster.power == Power::Running
        && cluster.power_wanted != Power::Hibernating
        && cluster.deleting.is_none()
        && !cluster.marked;
    if is_unclaimed || !is_counted || is_powerless(state, cluster) || cluster.power_paused {
        return None;
    }
    let since = [cluster.installed_at, cluster.claimed_at, cluster.power_since];
    Some(since.into_iter().flatten().max()?.plus(after))
}

/// Whether its machines cannot be stopped: neither by its driver nor as the hosts that they are.
fn is_powerless(state: &State, cluster: &Cluster) -> bool {
    let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
    let is_by_program = cluster.driver == Driver::Exec;
    let lacks_verbs = is_by_program && pool.is_some_and(|pool| lacks_power_verbs(state, pool));
    (cluster.powerless || lacks_verbs) && !is_driven_by_hosts(state, cluster)
}

/// Whether it hibernates, and nothing here can start it: another program stopped its machines.
pub fn sleeps_for_good(state: &State, cluster: &Cluster) -> bool {
    cluster.power == Power::Hibernating && is_powerless(state, cluster)
}

/// Whether the program that is the driver of a pool says that it cannot start and stop machines. An
/// annotation may name another program for that.
fn lacks_power_verbs(state: &State, pool: &ClusterPool) -> bool {
    if pool.spec.annotations.contains_key(POWER) {
        return false;
    }
    let sighting = pool.driver_program().and_then(|name| state.drivers.get(name));
    let description = sighting.and_then(|sighting| sighting.description.as_ref());
    description.is_some_and(|description| !description.can_switch_machines())
}

/// Whether it is started and stopped by way of its hosts.
fn is_driven_by_hosts(state: &State, cluster: &Cluster) -> bool {
    !cluster_hosts::power_hosts(state, cluster).is_empty()
}

/// Takes an installed cluster the next step towards the power that is wanted of it.
pub fn advance_power(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if cluster.power_paused {
        return set_power(state, cluster_id, Power::Paused, None, tick);
    }
    if sleeps_for_good(state, cluster) {
        // Nobody has started its machines, so that it must not count as running.
        return;
    }
    if is_powerless(state, cluster) {
        return set_power(state, cluster_id, Power::Unsupported, None, tick);
    }
    if cluster.power == Power::Unsupported {
        return set_power(state, cluster_id, Power::Running, None, tick);
    }
    if !tick.clock_jumped && hibernates_at(state, cluster).is_some_and(|end| tick.now >= end) {
        let key = cluster.key();
        let after = cluster.hibernate_after.unwrap_or_default();
        state.clusters.update(cluster_id, |cluster| cluster.power_wanted = Power::Hibernating);
        let message = format!("It has run for {after}: it hibernates now");
        record_event(
            state,
            tick,
            Kind::ClusterDeployment,
            key,
            EventReason::HibernateAfter,
            message,
        );
    }
    start_or_stop(state, cluster_id, tick);
}

/// Starts the job that a cluster needs to become as it is wanted: one that asks how it does while
/// it is on its way, else one that starts or stops it.
fn start_or_stop(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if state.live_job(&cluster.name).is_some() {
        return;
    }
    let power = cluster.power;
    let wanted = cluster.wanted_power();
    let is_on_its_way = (power.is_waking() && wanted == Power::Running)
        || (power.is_stopping() && wanted == Power::Hibernating);
    let hosts = cluster_hosts::power_hosts(state, cluster);
    let are_hosts_busy = cluster_hosts::are_hosts_busy(state, &hosts);
    if is_on_its_way && power.is_waiting() {
        let is_due = next_health_check_at(state, cluster).is_none_or(|next| tick.now >= next);
        if is_asked_by_job(state, cluster) && is_due && !are_hosts_busy {
            start_job(state, cluster_id, Verb::Health, tick);
        }
        return;
    }
    // What failed has its time. What is on its way without a job that still works on it begins
    // anew.
    if is_on_its_way && next_power_attempt_at(cluster).is_some_and(|next| tick.now < next) {
        return;
    }
    let (verb, next_power) = match (power, wanted) {
        (Power::Hibernating, Power::Hibernating) => return,
        (_, Power::Hibernating) => (Verb::Stop, Power::Stopping),
        (power, _) if power.is_running() || power == Power::Unset => return,
        _ => (Verb::Start, Power::Starting),
    };
    if are_hosts_busy {
        return;
    }
    let name = cluster.name.clone();
    // While it is tried again, people see why it failed the last time.
    let last_failure = cluster.start_failure().map(str::to_owned);
    let message = if verb == Verb::Start { last_failure } else { None };
    cluster_hosts::set_hosts_online(state, &name, verb == Verb::Start);
    start_job(state, cluster_id, verb, tick);
    set_power(state, cluster_id, next_power, message, tick);
}

/// Notes that the platform has done what a cluster was told. So it is there, and clusters of the same
/// pool whose machines it has not started yet have no outage to wait for.
pub fn note_answer_of_platform(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let pool = state.clusters.get(cluster_id).and_then(|cluster| cluster.pool.clone());
    let Some(pool) = pool else { return };
    for member_id in state.members(&pool).clusters {
        let member = state.clusters.get(member_id);
        let is_being_started = member.is_some_and(|member| member.power.is_being_started());
        if member_id != cluster_id && is_being_started {
            state.clusters.update(member_id, |member| {
                member.platform_answers_since.get_or_insert(tick.now);
            });
        }
    }
}

/// Whether it takes a job to ask a cluster how it does.
fn is_asked_by_job(state: &State, cluster: &Cluster) -> bool {
    cluster.driver.is_supervised() || is_driven_by_hosts(state, cluster)
}

/// When a cluster that waits for its machines, nodes or operators is asked again; none if it was
/// never asked, or needs no asking.
pub fn next_health_check_at(state: &State, cluster: &Cluster) -> Option<Time> {
    let asked_at = cluster.asked_at?;
    if !cluster.power.is_waiting() || !is_asked_by_job(state, cluster) {
        return None;
    }
    Some(asked_at.plus(ASK))
}

/// When a start or stop that failed is tried again.
pub fn next_power_attempt_at(cluster: &Cluster) -> Option<Time> {
    if cluster.power.has_failed() { Some(cluster.power_since?.plus(RETRY)) } else { None }
}

/// When the operators of a waking cluster have been left alone for as long as they are to be.
pub fn settled_at(cluster: &Cluster, settle: Span) -> Option<Time> {
    if cluster.power == Power::Pausing { Some(cluster.power_since?.plus(settle)) } else { None }
}

/// Takes in how a cluster that is waking or going to sleep is doing: Hive's steps. A paused cluster
/// stays as it is, so that no pass need ask for it.
pub fn take_health(state: &mut State, cluster_id: ClusterId, health: &ClusterHealth, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if !cluster.power.is_waiting() || cluster.paused {
        return;
    }
    let since = cluster.power_since.unwrap_or(tick.now);
    let mut machines = health.machines.clone();
    machines.sort_unstable();
    let unready_machines = machines.join(",");
    let are_machines_ready = unready_machines.is_empty();
    let next_power = match cluster.power {
        Power::WaitingForStop if !are_machines_ready => Power::WaitingForStop,
        Power::WaitingForStop => Power::Hibernating,
        _ if !are_machines_ready => Power::WaitingForMachines,
        _ if !health.nodes_ready => Power::WaitingForNodes,
        // Operators still report what they did before the cluster slept.
        Power::WaitingForMachines | Power::WaitingForNodes if health.settle.0 > 0 => Power::Pausing,
        Power::Pausing if tick.now < since.plus(health.settle) => Power::Pausing,
        _ if !health.operators_ready => Power::WaitingForOperators,
        _ => Power::Running,
    };
    let has_message = next_power.is_waiting() && !are_machines_ready;
    let message = has_message.then_some(unready_machines);
    set_power(state, cluster_id, next_power, message, tick);
}

/// Changes the power of a cluster, and records an event where that is worth one.
pub fn set_power(
    state: &mut State,
    cluster_id: ClusterId,
    power: Power,
    message: Option<String>,
    tick: &Tick,
) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if cluster.power == power && cluster.power_message == message {
        return;
    }
    let key = cluster.key();
    let is_changed = cluster.power != power;
    if power == Power::Running && cluster.power.is_waking() {
        learn_from_waking(state, cluster_id, tick);
    }
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let has_slept = matches!(cluster.power, Power::Hibernating | Power::Unset | Power::Paused);
    // Called back before it slept: its waking begins now.
    let has_turned = power.is_waking() && !cluster.power.is_waking();
    state.clusters.update(cluster_id, |cluster| {
        if is_changed {
            cluster.power_since = Some(tick.now);
        }
        if power == Power::Hibernating {
            cluster.awake_since = None;
        } else if has_slept || has_turned {
            cluster.awake_since = Some(tick.now);
        }
        if power.is_running() {
            cluster.passed_over = None;
        }
        if !power.is_being_started() {
            cluster.platform_answers_since = None;
        }
        cluster.power = power;
        cluster.power_message.clone_from(&message);
    });
    let reason = match power {
        Power::FailedToStart => EventReason::FailedToStartMachines,
        Power::FailedToStop => EventReason::FailedToStop,
        Power::Running if is_changed => EventReason::Running,
        Power::Hibernating if is_changed => EventReason::Hibernating,
        _ => return,
    };
    let event = format!("Cluster is {}", power.describe());
    if matches!(power, Power::FailedToStart | Power::FailedToStop) {
        let failure = format!("{event}: {}", message.unwrap_or_default());
        record_warning(state, tick, Kind::ClusterDeployment, key, reason, failure);
    } else {
        record_event(state, tick, Kind::ClusterDeployment, key, reason, event);
    }
}

/// Notes with the pool how long a cluster took to wake, which tells how long the next one may take.
fn learn_from_waking(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    if tick.clock_jumped {
        return;
    }
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let Some(awake_since) = cluster.awake_since else { return };
    let Some(pool_id) = cluster.pool.as_ref().and_then(|key| state.pools.find(key)) else { return };
    let Some(pool) = state.pools.get(pool_id) else { return };
    let took = tick.now.since(awake_since);
    // A waking that was held up by an outage tells nothing of the next one.
    if took > Span(pool.usual_resume_timeout().0.saturating_mul(OUTAGE)) {
        return;
    }
    state.pools.update(pool_id, |pool| pool.status.note_waking(took));
}

/// What a pool says when its clusters cannot be stopped; a pool of hosts says it when one of its
/// clusters cannot.
pub fn why_power_is_unsupported(state: &State, pool: &ClusterPool) -> Option<&'static str> {
    if !pool.cannot_stop_machines() && !lacks_power_verbs(state, pool) {
        return None;
    }
    let members = state.members(&pool.key()).clusters.into_iter();
    let mut clusters = members.filter_map(|id| state.clusters.get(id));
    let is_by_hosts = pool.driver() == Driver::Agent;
    if is_by_hosts && clusters.all(|cluster| is_driven_by_hosts(state, cluster)) {
        return None;
    }
    Some("The driver cannot stop machines: all clusters run, as if runningCount were the size")
}
