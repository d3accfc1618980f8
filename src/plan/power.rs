//! Power: who runs and who hibernates, and how a cluster gets there. The oldest runningCount +
//! waiting claims of a pool run; a claimed cluster is its user's, or hibernateAfter's.

use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase, Power};
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::job::{Health, Verb};
use crate::model::pool::ClusterPool;
use crate::model::state::{ClaimId, ClusterId, PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

use super::buckets::{passed_over_at, sort_pool};
use super::cluster_jobs::start_job;
use super::{CLUSTER, clusters_hosts, say, warn};

/// How long after a failed start or stop it is tried again.
const RETRY: Span = Span::minutes(1);
/// A waking that takes so many times the limit was held up by something else.
const OUTAGE: i64 = 3;
/// How long after a cluster was asked how it does it is asked again.
const ASK: Span = Span::seconds(5);

pub fn choose(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else {
        return;
    };
    if pool.metadata.deletion_timestamp.is_some() {
        return;
    }
    pass_over_slow(state, pool_id, tick);
    let Some(pool) = state.pools.get(pool_id) else {
        return;
    };
    let sorted = sort_pool(state, pool, tick.now);
    // What cannot be stopped runs.
    let (powerless, by_hosts) = (pool.powerless(), pool.driver() == Driver::Agent);
    let running = pool.running_count().saturating_add(sorted.waiting.len());
    let claims_wait = !sorted.waiting.is_empty();
    let mut clusters: Vec<ClusterId> =
        [sorted.installing, sorted.standby, sorted.ready].into_iter().flatten().collect();
    clusters.sort_by_key(|at| {
        let cluster = state.clusters.get(*at);
        (cluster.map(|cluster| (cluster.passed_over, cluster.created)), *at)
    });
    let mut rank = 0;
    for at in clusters {
        let Some(cluster) = state.clusters.get(at) else { continue };
        let stays = powerless && !(by_hosts && is_driven(state, cluster));
        // A cluster that was passed over goes on waking: the first that runs serves the claim.
        let is_slow = cluster.passed_over.is_some() && cluster.power.waking();
        let may_serve = claims_wait && is_slow && cluster.wants() == Power::Running;
        let runs = rank < running || stays || may_serve;
        // A cluster that waits for its next attempt takes no place from one that is there.
        let waits = cluster.phase() == Phase::Retrying && state.live_job(&cluster.name).is_none();
        rank += usize::from(!waits && !may_serve);
        let wanted = if runs { Power::Running } else { Power::Hibernating };
        if cluster.power_wanted != wanted {
            state.clusters.update(at, |cluster| cluster.power_wanted = wanted);
        }
    }
}

/// A standby that takes too long to wake takes no place from those that may serve the claims that
/// wait: the next ones are woken, too.
fn pass_over_slow(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id).filter(|_| !tick.jumped) else { return };
    let members = state.members(&pool.key());
    let waits = |claim: &ClaimId| state.claims.get(*claim).is_some_and(Claim::waits);
    if !members.claims.iter().any(waits) {
        return;
    }
    let is_slow = |cluster: &ClusterId| {
        let cluster = state.clusters.get(*cluster);
        cluster.and_then(|one| passed_over_at(pool, one)).is_some_and(|next| tick.now >= next)
    };
    let slow: Vec<ClusterId> = members.clusters.into_iter().filter(is_slow).collect();
    let after = pool.wake_next_after();
    for cluster_id in slow {
        state.clusters.update(cluster_id, |cluster| cluster.passed_over = Some(tick.now));
        let Some(key) = state.clusters.get(cluster_id).map(Cluster::key) else { continue };
        let text = format!(
            "Not running {after} after it was woken: the next standby is woken for the claims"
        );
        warn(state, tick, EventReason::PassedOver, (CLUSTER, key), text);
    }
}

/// When a cluster that somebody has, or that belongs to no pool, has run long enough: from the
/// last of its installation, its claim and its waking.
pub fn hibernates_at(state: &State, cluster: &Cluster) -> Option<Time> {
    let after = cluster.hibernate_after?;
    let unclaimed =
        cluster.pool.is_some() && (cluster.claim.is_none() || cluster.claimed_at.is_none());
    let counts = cluster.power == Power::Running
        && cluster.power_wanted != Power::Hibernating
        && cluster.deleting.is_none()
        && !cluster.marked;
    if unclaimed || !counts || powerless(state, cluster) || cluster.power_paused {
        return None;
    }
    let since = [cluster.installed_at, cluster.claimed_at, cluster.power_since];
    Some(since.into_iter().flatten().max()?.plus(after))
}

/// Whether its machines cannot be stopped: by its driver, or as the hosts that they are.
fn powerless(state: &State, cluster: &Cluster) -> bool {
    cluster.powerless && !is_driven(state, cluster)
}

/// Whether it is started and stopped by its hosts.
fn is_driven(state: &State, cluster: &Cluster) -> bool {
    !clusters_hosts::that_drive(state, cluster).is_empty()
}

/// What an installed cluster needs: to be started, stopped, or left alone.
pub fn advance(state: &mut State, at: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    if cluster.power_paused {
        return set_power(state, at, Power::Paused, None, tick);
    }
    if powerless(state, cluster) {
        return set_power(state, at, Power::Unsupported, None, tick);
    }
    if cluster.power == Power::Unsupported {
        return set_power(state, at, Power::Running, None, tick);
    }
    if !tick.jumped && hibernates_at(state, cluster).is_some_and(|end| tick.now >= end) {
        let (key, after) = (cluster.key(), cluster.hibernate_after.unwrap_or_default());
        state.clusters.update(at, |cluster| cluster.power_wanted = Power::Hibernating);
        let text = format!("It has run for {after}: it goes to sleep");
        say(state, tick, EventReason::HibernateAfter, (CLUSTER, key), text);
    }
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    if state.live_job(&cluster.name).is_some() {
        return;
    }
    let (power, wants) = (cluster.power, cluster.wants());
    let same_way = (power.waking() && wants == Power::Running)
        || (power.stopping() && wants == Power::Hibernating);
    // What waits is looked at, what failed has its time; what began without a job that still
    // works on it begins anew.
    let later = retry_at(cluster).is_some_and(|next| tick.now < next);
    let machines = clusters_hosts::that_drive(state, cluster);
    let busy = clusters_hosts::are_busy(state, &machines);
    if same_way && power.waits() && is_asked(state, cluster) {
        if !busy && asks_at(state, cluster).is_none_or(|next| tick.now >= next) {
            start_job(state, at, Verb::Health, tick);
        }
        return;
    }
    if same_way && (power.waits() || later) {
        return;
    }
    let (verb, then) = match (power, wants) {
        (Power::Hibernating, Power::Hibernating) => return,
        (_, Power::Hibernating) => (Verb::Stop, Power::Stopping),
        (power, _) if power.runs() || power == Power::Unset => return,
        _ => (Verb::Start, Power::Starting),
    };
    if busy {
        return;
    }
    let name = cluster.name.clone();
    clusters_hosts::follow(state, &name, verb == Verb::Start);
    start_job(state, at, verb, tick);
    set_power(state, at, then, None, tick);
}

/// Whether a job has to ask how it does.
fn is_asked(state: &State, cluster: &Cluster) -> bool {
    cluster.driver.supervised() || is_driven(state, cluster)
}

/// When a cluster that waits for its machines, nodes or operators is asked again.
pub fn asks_at(state: &State, cluster: &Cluster) -> Option<Time> {
    let waits = cluster.power.waits() && is_asked(state, cluster);
    Some(cluster.asked_at.filter(|_| waits)?.plus(ASK))
}

/// When a start or stop that failed is tried again.
pub fn retry_at(cluster: &Cluster) -> Option<Time> {
    cluster.power_since.filter(|_| cluster.power.failed()).map(|since| since.plus(RETRY))
}

/// When a pause is over.
pub fn settled_at(cluster: &Cluster, settle: Span) -> Option<Time> {
    cluster.power_since.filter(|_| cluster.power == Power::Pausing).map(|since| since.plus(settle))
}

/// Takes in how a cluster that is waking or going to sleep is doing: Hive's steps.
pub fn observe(state: &mut State, at: ClusterId, health: &Health, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at).filter(|cluster| cluster.power.waits()) else {
        return;
    };
    let (power, since) = (cluster.power, cluster.power_since.unwrap_or(tick.now));
    let mut names = health.machines.clone();
    names.sort();
    let names = Some(names.join(",")).filter(|names| !names.is_empty());
    let next = match power {
        Power::WaitingForStop if names.is_some() => Power::WaitingForStop,
        Power::WaitingForStop => Power::Hibernating,
        _ if names.is_some() => Power::WaitingForMachines,
        _ if !health.nodes_ready => Power::WaitingForNodes,
        // Operators still show what they said before they slept.
        Power::WaitingForMachines | Power::WaitingForNodes if health.settle.0 > 0 => Power::Pausing,
        Power::Pausing if tick.now < since.plus(health.settle) => Power::Pausing,
        _ if !health.operators_ready => Power::WaitingForOperators,
        _ => Power::Running,
    };
    let message = names.filter(|_| next.waits());
    set_power(state, at, next, message, tick);
}

/// A cluster's power changes; what is worth telling is told.
pub fn set_power(
    state: &mut State,
    at: ClusterId,
    power: Power,
    message: Option<String>,
    tick: &Tick,
) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    if cluster.power == power && cluster.power_message == message {
        return;
    }
    let (key, changed) = (cluster.key(), cluster.power != power);
    if power == Power::Running && cluster.power.waking() {
        note_waking(state, at, tick);
    }
    let Some(cluster) = state.clusters.get(at) else { return };
    let slept = matches!(cluster.power, Power::Hibernating | Power::Unset | Power::Paused);
    // Called back before it slept: its waking begins now.
    let turned = power.waking() && !cluster.power.waking();
    state.clusters.update(at, |cluster| {
        if changed {
            cluster.power_since = Some(tick.now);
        }
        if power == Power::Hibernating {
            cluster.awake_since = None;
        } else if slept || turned {
            cluster.awake_since = Some(tick.now);
        }
        if power.runs() {
            cluster.passed_over = None;
        }
        cluster.power = power;
        cluster.power_message.clone_from(&message);
    });
    let reason = match power {
        Power::FailedToStart => EventReason::FailedToStartMachines,
        Power::FailedToStop => EventReason::FailedToStop,
        Power::Running if changed => EventReason::Running,
        Power::Hibernating if changed => EventReason::Hibernating,
        _ => return,
    };
    let text = format!("Cluster is {}", power.doing());
    if matches!(power, Power::FailedToStart | Power::FailedToStop) {
        let text = format!("{text}: {}", message.unwrap_or_default());
        warn(state, tick, reason, (CLUSTER, key), text);
    } else {
        say(state, tick, reason, (CLUSTER, key), text);
    }
}

/// How long a cluster took to wake tells how long the next one of its pool may take.
fn note_waking(state: &mut State, cluster: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster) else { return };
    let pool = cluster.pool.as_ref().and_then(|key| state.pools.find(key));
    let Some((pool, since)) = pool.zip(cluster.awake_since.filter(|_| !tick.jumped)) else {
        return;
    };
    let took = tick.now.since(since);
    // An outage in between tells nothing of the next one.
    let limit = state.pools.get(pool).map(ClusterPool::usual_resume_timeout).unwrap_or_default();
    if took > Span(limit.0.saturating_mul(OUTAGE)) {
        return;
    }
    state.pools.update(pool, |pool| pool.status.note_waking(took));
}

/// What a pool says when its clusters cannot be stopped; of those on hosts, when one cannot.
pub fn unsupported(state: &State, pool: &ClusterPool) -> Option<&'static str> {
    let members = state.members(&pool.key()).clusters.into_iter();
    let mut members = members.filter_map(|at| state.clusters.get(at));
    let by_hosts = pool.driver() == Driver::Agent;
    let cannot = pool.powerless() && (!by_hosts || members.any(|one| !is_driven(state, one)));
    cannot
        .then_some("The driver cannot stop machines: all clusters run, runningCount counts as size")
}
