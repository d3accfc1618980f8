//! The life of one cluster: which job it needs now.

use crate::model::backoff::Backoff;
use crate::model::cluster::{Cluster, INSUFFICIENT_AGENTS, Phase};
use crate::model::condition::Shortage;
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::job::{CANCELLED, Job, Verb};
use crate::model::state::{AgentId, ClusterId, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

use super::cluster_jobs::start_job;
use super::{
    CLUSTER, CUSTOMIZATION, agents, clusters_hosts, customizations, leases, pause, power, say, warn,
};
use crate::model::meta::Key;

/// How long a cluster waits between installations.
const INSTALL_BACKOFF: Backoff =
    Backoff { first: Span::minutes(1), factor: 2, longest: Span::hours(24) };
/// How long a cluster waits that could not be destroyed.
const UNDO_BACKOFF: Backoff =
    Backoff { first: Span::minutes(1), factor: 2, longest: Span::hours(1) };
/// Until hosts that were picked are ready for their cluster.
const HOSTS_COME: Span = Span::hours(1);
/// From so many failed installations of a cluster on it is worth a warning of its own.
pub const WORRYING: u32 = 3;

pub fn advance(state: &mut State, at: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    // Without a driver nothing is made and, worse, what was made cannot be destroyed.
    let destroys = cluster.started_at.is_some() && !cluster.preserve;
    if cluster.paused {
        return held(state, at);
    }
    let powered = || cluster.installed() && !clusters_hosts::that_drive(state, cluster).is_empty();
    let stays = || if cluster.deleting.is_some() { destroys } else { !powered() };
    if cluster.driver == Driver::Missing && stays() {
        return;
    }
    match cluster.phase() {
        Phase::Deprovisioning => end(state, at, tick),
        Phase::Installed => {
            agents::joining::advance(state, at, tick);
            power::advance(state, at, tick);
        }
        Phase::Installing | Phase::Retrying => install(state, at, tick),
        Phase::Broken => {}
    }
}

/// When the next installation of a cluster whose last one failed begins: 1, 2, 4 ... minutes
/// after the failure, at most a day.
pub fn retry_at(cluster: &Cluster) -> Option<Time> {
    // One that goes, or waits for something else, is not tried again by the clock.
    let tried = cluster.phase() == Phase::Retrying && !cluster.marked && cluster.unmet.is_none();
    let failed = cluster.failed_at.filter(|_| tried)?;
    Some(failed.plus(INSTALL_BACKOFF.delay(cluster.restarts)))
}

/// Whether the pool of a cluster begins no installation for a while.
fn is_pool_paused(state: &State, cluster: &Cluster) -> bool {
    let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
    pool.is_some_and(pause::is_on)
}

/// When the next installation of a cluster begins, and not before its pool begins any.
pub fn next_attempt_at(state: &State, cluster: &Cluster) -> Option<Time> {
    let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
    let pause = pool.and_then(|pool| pool.status.install_pause.as_ref()?.until);
    retry_at(cluster).max(pause)
}

/// Until when a pool's cluster waits for hosts that were good when they were picked.
pub fn waits_until(cluster: &Cluster) -> Option<Time> {
    let picked = cluster.pool.is_some() && cluster.lacks.is_some() && !cluster.stopped;
    cluster.unmet.filter(|_| picked).map(|since| since.plus(HOSTS_COME))
}

/// On hold; what it lacks is said all the same, and its time to get that does not begin.
fn held(state: &mut State, at: ClusterId) {
    let Some(cluster) = state.clusters.get(at) else { return };
    let open = matches!(cluster.phase(), Phase::Installing | Phase::Retrying);
    if !open || !cluster.takes_hosts() || state.live_job(&cluster.name).is_some() {
        return;
    }
    let lacks = agents::lacks(state, cluster);
    let fixed = cluster.lacks.is_some() && lacks.is_none();
    state.clusters.update(at, |cluster| {
        cluster.unmet = cluster.unmet.filter(|_| !fixed);
        cluster.lacks = lacks;
    });
}

fn install(state: &mut State, at: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    if state.live_job(&cluster.name).is_some() {
        return;
    }
    // Hive lets the back-off pass before it looks at the limit; nothing is gained by that. In a
    // pool a limit of 0 counts as 1: it would make and give up clusters for ever.
    let least = u32::from(cluster.pool.is_some());
    let limit = if cluster.once { Some(1) } else { cluster.attempts_limit };
    if limit.is_some_and(|limit| cluster.restarts >= limit.max(least)) {
        return give_up(state, at, tick);
    }
    let missing = cluster.required().is_some_and(|key| state.customizations.find(&key).is_none());
    let takes = cluster.takes_hosts();
    let lacks = if takes { lacks(state, at, tick) } else { None };
    let Some(cluster) = state.clusters.get(at) else { return };
    let unmet = missing || lacks.is_some();
    if unmet != cluster.unmet.is_some() || lacks != cluster.lacks {
        state.clusters.update(at, |cluster| {
            cluster.unmet = cluster.unmet.or(Some(tick.now)).filter(|_| unmet);
            cluster.lacks = lacks;
        });
    }
    let Some(cluster) = state.clusters.get(at) else { return };
    if waits_until(cluster).is_some_and(|end| end <= tick.now) && !tick.jumped {
        let limit = HOSTS_COME.short();
        return stop(state, at, format!("Its hosts were not ready within {limit}"), tick);
    }
    if unmet {
        return;
    }
    let waits = retry_at(cluster).is_some_and(|next| tick.now < next);
    if waits || (cluster.marked && cluster.failed_at.is_some()) || crowded(state, cluster) {
        return;
    }
    if cluster.interrupted {
        return undo(state, at, tick);
    }
    if is_pool_paused(state, cluster) {
        return;
    }
    if cluster.driver == Driver::Agent {
        let (name, all) =
            (cluster.name.clone(), clusters_hosts::with_controller(state, &cluster.name));
        if clusters_hosts::are_busy(state, &all) {
            return;
        }
        clusters_hosts::install(state, &name);
    }
    start_job(state, at, Verb::Provision, tick);
    state.clusters.update(at, |cluster| {
        cluster.started_at.get_or_insert(tick.now);
    });
}

/// What its hosts lack: to be good and many enough, and then addresses.
fn lacks(state: &mut State, at: ClusterId, tick: &Tick) -> Option<Shortage> {
    let cluster = state.clusters.get(at)?.clone();
    let lacks = agents::lacks(state, &cluster);
    if lacks.is_some() {
        return lacks;
    }
    let hosts = agents::clusters::hosts_of(state, &cluster);
    let waiting = agents::joining::without_addresses(state, &cluster, &hosts, tick);
    let name = |at: &AgentId| state.agents.get(*at).map(|one| one.hostname().to_owned());
    let names: Vec<String> = waiting.iter().filter_map(name).collect();
    let text = format!("No address yet for {}", names.join(", "));
    (!names.is_empty()).then(|| Shortage::new(INSUFFICIENT_AGENTS, text))
}

/// Whether as much is in flight as its pool allows. Those that wait to be tried again count there
/// as if they were, so only a limit that was lowered holds them up.
fn crowded(state: &State, cluster: &Cluster) -> bool {
    let pool = cluster.pool.as_deref();
    let limit = pool.and_then(|key| state.pools.by_key(key)?.max_concurrent());
    let Some(most) = limit else { return false };
    let makes = |job: &Job| matches!(job.verb, Verb::Provision | Verb::Deprovision);
    let busy = |one: &&Cluster| {
        one.deleting.is_some() || state.live_job(&one.name).is_some_and(|(_, job)| makes(job))
    };
    let members = pool.map(|key| state.members(key).clusters).unwrap_or_default();
    let members = members.into_iter().filter_map(|at| state.clusters.get(at));
    members.filter(busy).count() >= most
}

/// No more attempts: the cluster is broken, and its customization has one attempt less.
pub fn give_up(state: &mut State, at: ClusterId, tick: &Tick) {
    let tried = state.clusters.get(at).map_or(0, |one| one.restarts);
    let text = format!("Install attempts limit reached after {tried} failed installations");
    let entry =
        state.clusters.get(at).and_then(|one| one.pool.clone().zip(one.customization.clone()));
    stop(state, at, text, tick);
    let cluster = state.clusters.get(at);
    let pool = cluster.and_then(|one| state.pools.find(one.pool.as_deref()?));
    let cause = cluster.and_then(|one| one.failure.clone()).unwrap_or_default();
    if let Some(pool) = pool {
        pause::given_up(state, pool, &cause, tick);
    }
    let entry = entry.and_then(|(pool, entry)| state.pools.find(&pool).zip(Some(entry)));
    let Some((pool, entry)) = entry else { return };
    state.pools.update(pool, |pool| {
        if let Some(entry) = pool.status.inventory.get_mut(&entry) {
            entry.attempts = entry.attempts.saturating_sub(1);
        }
    });
}

/// A cluster is tried no more.
fn stop(state: &mut State, at: ClusterId, text: String, tick: &Tick) {
    state.clusters.update(at, |cluster| {
        cluster.stopped = true;
        cluster.failed_at.get_or_insert(tick.now);
        cluster.failure.get_or_insert_with(|| text.clone());
    });
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    let key = cluster.key();
    warn(state, tick, EventReason::ProvisionStopped, (CLUSTER, key), text);
}

/// Ends what still works on the cluster, destroys what was made, and lets the object go.
fn end(state: &mut State, at: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    let live = state.live_job(&cluster.name).map(|(at, job)| (at, job.verb));
    if live.is_some_and(|(_, verb)| verb == Verb::Deprovision) || cluster.protected {
        return;
    }
    let (nothing_made, preserve) = (cluster.started_at.is_none(), cluster.preserve);
    if let Some((job, verb)) = live {
        let key = cluster.key();
        // A job without a process ends when it is told to.
        state.jobs.update(job, |job| {
            job.ended = Some(tick.now);
            job.outcome = Some(CANCELLED.into());
        });
        say(
            state,
            tick,
            EventReason::JobCancelled,
            (CLUSTER, key),
            format!("{} cancelled", verb.name()),
        );
    }
    if nothing_made || preserve {
        return remove(state, at, tick, false);
    }
    undo(state, at, tick);
}

/// Destroys what was made; an attempt that failed is followed by another, later and later.
fn undo(state: &mut State, at: ClusterId, tick: &Tick) {
    let next = state.clusters.get(at).and_then(undo_at);
    let busy = state.clusters.get(at).is_some_and(|one| {
        one.driver == Driver::Agent
            && clusters_hosts::are_busy(state, &clusters_hosts::with_controller(state, &one.name))
    });
    if next.is_none_or(|next| tick.now >= next) && !busy {
        start_job(state, at, Verb::Deprovision, tick);
    }
}

/// When a cluster that could not be destroyed is tried again.
pub fn undo_at(cluster: &Cluster) -> Option<Time> {
    Some(cluster.undo_failed_at?.plus(UNDO_BACKOFF.delay(cluster.undo_failures)))
}

/// The object goes, and with it its lease.
pub fn remove(state: &mut State, at: ClusterId, tick: &Tick, destroyed: bool) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    if cluster.held {
        // A foreign finalizer: nothing is left to destroy, but the object stays.
        if cluster.started_at.is_some() && (destroyed || !cluster.preserve) {
            state.clusters.update(at, |cluster| cluster.started_at = None);
        }
        return;
    }
    let (key, name) = (cluster.key(), cluster.name.clone());
    let dns = format!("{}.{}", cluster.cluster_name, cluster.base_domain);
    let preserved = !destroyed && cluster.preserve && cluster.started_at.is_some();
    let namespace = cluster.pool.as_ref().map(|pool| pool.namespace.clone()).unwrap_or_default();
    let lease = cluster.customization.as_deref().map(|one| Key::new(namespace, one));
    let lease = lease.and_then(|key| state.customizations.find(&key));
    agents::release_agents_of_cluster(state, at, tick);
    if let Some(gone) = state.clusters.get(at).cloned() {
        if preserved {
            leases::keep_addresses(state, &gone);
        } else {
            leases::return_addresses(state, &gone);
        }
    }
    state.clusters.remove(at);
    let why = if destroyed { "Deprovisioned" } else { "Nothing was destroyed" };
    say(state, tick, EventReason::ClusterDeleted, (CLUSTER, key), why.into());
    let Some(lease) = lease else { return };
    let Some(one) = state.customizations.get(lease) else {
        return;
    };
    let Some(holder) = one.holder.clone().filter(|holder| holder.cluster == name) else {
        return;
    };
    let object = (CUSTOMIZATION, one.key());
    if preserved {
        leases::keep_customization(state, lease, dns);
        return warn(
            state,
            tick,
            EventReason::Preserved,
            object,
            format!("Kept by cluster {name}, left running"),
        );
    }
    leases::return_customization(state, lease);
    if let Some(pool) = holder.pool {
        // The pool may not list it any more: nobody else would look at it.
        customizations::write_status(state, lease, &pool, tick);
    }
    say(state, tick, EventReason::Released, object, format!("No longer leased to cluster {name}"));
}
