//! Leads a cluster through its life: decides which job it needs now, when it is given up, and when
//! its object goes. It never decides that a cluster is made or deleted: its pool does, or a person.

use crate::model::agent::Agent;
use crate::model::backoff::Backoff;
use crate::model::cluster::{Cluster, IMAGE_SET_NOT_FOUND, INSUFFICIENT_AGENTS, Phase};
use crate::model::condition::Shortage;
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::failure::FailureClass;
use crate::model::inventory::InputRefusal;
use crate::model::job::{CANCELLED, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, InstallFailure};
use crate::model::pool_versions::pool_version;
use crate::model::state::{ClusterId, CustomizationId, PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

use super::cluster_jobs::start_job;
use super::pause::PauseEnd;
use super::version::recipe_of;
use super::{
    agents, cluster_hosts, customizations, expire, give_back, leases, pause, power, record_event,
    record_warning,
};

/// How long a cluster waits between installations.
const INSTALL_BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(24) };
/// How long a cluster without a pool waits between installations that use up no attempt: its pool
/// would pause for as long.
const UNCOUNTED_BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };
/// How long a cluster waits that could not be destroyed.
const DEPROVISION_BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };
/// Until hosts that were picked are ready for their cluster.
const HOSTS_COME: Span = Span::hours(1);
/// From so many failed installations of a cluster on it is worth a warning of its own.
pub const FAILURES_WORTH_A_WARNING: u32 = 3;

/// Takes a cluster the next step of its life.
pub fn advance_cluster(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if cluster.paused {
        return note_shortage_of_paused_cluster(state, cluster_id);
    }
    expire::expire_cluster(state, cluster_id, tick);
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if cluster.driver == Driver::Missing && needs_driver(state, cluster) {
        return;
    }
    match cluster.phase() {
        Phase::Deprovisioning => end_cluster(state, cluster_id, tick),
        Phase::Installed => {
            agents::joining::advance_joins(state, cluster_id, tick);
            power::advance_power(state, cluster_id, tick);
        }
        Phase::Installing | Phase::Retrying => install(state, cluster_id, tick),
        Phase::Broken => {}
    }
}

/// Whether nothing can be done for a cluster without a driver. Without one nothing is made and,
/// worse, what was made cannot be destroyed. But hosts start and stop an installed cluster, and an
/// object that has nothing to destroy can go.
fn needs_driver(state: &State, cluster: &Cluster) -> bool {
    if cluster.deleting.is_some() {
        return cluster.started_at.is_some() && !cluster.preserve;
    }
    !cluster.is_installed() || cluster_hosts::power_hosts(state, cluster).is_empty()
}

/// When a cluster whose last installation failed may be installed again: 1, 2, 4 ... minutes after
/// the failure, at most a day, or an hour if the site is to blame. One that is to be removed, or
/// waits for something else, is not tried again by the clock.
pub fn next_install_at(cluster: &Cluster) -> Option<Time> {
    if cluster.phase() != Phase::Retrying || cluster.marked || cluster.unmet.is_some() {
        return None;
    }
    let is_alone = cluster.pool.is_none()
        || cluster.failure_class.is_some_and(FailureClass::delays_cluster_alone);
    let delay = if is_alone && cluster.uncounted_failures > 0 {
        UNCOUNTED_BACKOFF.delay(cluster.uncounted_failures)
    } else {
        INSTALL_BACKOFF.delay(cluster.restarts)
    };
    Some(cluster.failed_at?.plus(delay))
}

/// Whether the pool of a cluster begins no installation for a while.
fn is_pool_paused(state: &State, cluster: &Cluster) -> bool {
    let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
    pool.is_some_and(ClusterPool::is_install_paused)
}

/// When the next installation of a cluster that has failed begins, and not before its pool begins
/// any.
pub fn next_attempt_at(state: &State, cluster: &Cluster) -> Option<Time> {
    let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
    let paused_until = pool.and_then(|pool| pool.status.install_pause.as_ref()?.until);
    let next_install = next_install_at(cluster)?;
    Some(paused_until.map_or(next_install, |until| next_install.max(until)))
}

/// Until when a pool's cluster waits for hosts that met all requirements when they were picked.
pub fn waits_for_hosts_until(cluster: &Cluster) -> Option<Time> {
    if cluster.pool.is_none() || !cluster.waits_for_hosts() || cluster.stopped {
        return None;
    }
    Some(cluster.unmet?.plus(HOSTS_COME))
}

/// Writes down what a cluster on hold lacks. The time that it has to get that does not begin.
fn note_shortage_of_paused_cluster(state: &mut State, cluster_id: ClusterId) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let is_to_be_installed = matches!(cluster.phase(), Phase::Installing | Phase::Retrying);
    if !is_to_be_installed
        || !cluster.is_made_of_agents()
        || state.live_job(&cluster.name).is_some()
    {
        return;
    }
    let shortage = agents::find_shortage(state, cluster);
    let is_over = cluster.shortage.is_some() && shortage.is_none();
    state.clusters.update(cluster_id, |cluster| {
        if is_over {
            cluster.unmet = None;
        }
        cluster.shortage = shortage;
    });
}

/// Starts the installation of a cluster as soon as all that it needs is there, or gives it up.
fn install(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if state.live_job(&cluster.name).is_some() {
        return;
    }
    if has_used_its_attempts(cluster) {
        return give_up_cluster(state, cluster_id, tick);
    }
    let is_unmet = note_unmet_requirements(state, cluster_id, tick);
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if !tick.clock_jumped && waits_for_hosts_until(cluster).is_some_and(|end| end <= tick.now) {
        let limit = HOSTS_COME.to_short_text();
        let failure = format!("Its hosts were not ready within {limit}");
        return stop_trying(state, cluster_id, failure, tick);
    }
    if is_unmet {
        return;
    }
    let is_to_be_removed = cluster.marked && cluster.failed_at.is_some();
    if is_to_be_removed || is_pool_crowded(state, cluster) {
        return;
    }
    // What an attempt has left is cleaned up at once, also while the pool is paused: only a new
    // attempt has to wait, and that may be for hours.
    if cluster.interrupted {
        return deprovision(state, cluster_id, tick);
    }
    let is_early = next_install_at(cluster).is_some_and(|next| tick.now < next);
    if is_early || is_pool_paused(state, cluster) {
        return;
    }
    let recipe = present_recipe(state, cluster);
    if cluster.driver == Driver::Agent {
        let name = cluster.name.clone();
        let hosts = cluster_hosts::controlled_hosts(state, &name);
        // No two jobs work on one host: its own job ends first.
        if cluster_hosts::are_hosts_busy(state, &hosts) {
            return;
        }
        cluster_hosts::switch_on_hosts(state, &name);
    }
    start_job(state, cluster_id, Verb::Provision, tick);
    state.clusters.update(cluster_id, |cluster| {
        cluster.started_at.get_or_insert(tick.now);
        cluster.attempt_since = Some(tick.now);
        // One that was imported, or is of an earlier version of poolctl, came without.
        cluster.recipe = cluster.recipe.take().or(recipe);
    });
}

/// Versions of what the pool of a cluster names now.
fn present_recipe(state: &State, cluster: &Cluster) -> Option<String> {
    recipe_of(state, state.pools.by_key(cluster.pool.as_deref()?)?)
}

/// Hive lets the back-off pass before it looks at the limit; nothing is gained by that. In a pool a
/// limit of 0 counts as 1: the pool would make and give up clusters for ever.
pub fn has_used_its_attempts(cluster: &Cluster) -> bool {
    let least = u32::from(cluster.pool.is_some());
    let limit = if cluster.once { Some(1) } else { cluster.attempts_limit };
    limit.is_some_and(|limit| cluster.restarts >= limit.max(least))
}

/// Writes down what a cluster needs before it can be installed, and since when, and says whether
/// anything is missing.
fn note_unmet_requirements(state: &mut State, cluster_id: ClusterId, tick: &Tick) -> bool {
    let Some(cluster) = state.clusters.get(cluster_id) else { return false };
    let required = cluster.required_customization();
    let is_customization_missing =
        required.is_some_and(|key| state.customizations.find(&key).is_none());
    let shortage = find_shortage(state, cluster_id, tick);
    let is_unmet = is_customization_missing || shortage.is_some();
    let Some(cluster) = state.clusters.get(cluster_id) else { return is_unmet };
    if is_unmet != cluster.unmet.is_some() || shortage != cluster.shortage {
        state.clusters.update(cluster_id, |cluster| {
            cluster.unmet = if is_unmet { cluster.unmet.or(Some(tick.now)) } else { None };
            cluster.shortage = shortage;
        });
    }
    is_unmet
}

/// The image set that a cluster lacks, else what its hosts lack: to meet all requirements and to be
/// enough, and then addresses.
fn find_shortage(state: &mut State, cluster_id: ClusterId, tick: &Tick) -> Option<Shortage> {
    let cluster = state.clusters.get(cluster_id)?;
    let missing_image_set = describe_missing_image_set(state, cluster);
    if missing_image_set.is_some() || !cluster.is_made_of_agents() {
        return missing_image_set;
    }
    let cluster = cluster.clone();
    let shortage = agents::find_shortage(state, &cluster);
    if shortage.is_some() {
        return shortage;
    }
    let hosts = agents::clusters::agents_of_cluster(state, &cluster);
    let waiting = agents::joining::claim_node_addresses(state, &cluster, &hosts, tick);
    let agents = waiting.iter().filter_map(|agent_id| state.agents.get(*agent_id));
    let names: Vec<&str> = agents.map(Agent::hostname).collect();
    if names.is_empty() {
        return None;
    }
    let message = format!("No address yet for {}", names.join(", "));
    Some(Shortage::new(INSUFFICIENT_AGENTS, message))
}

/// Says in Hive's words that the image set which a cluster names is not there.
fn describe_missing_image_set(state: &State, cluster: &Cluster) -> Option<Shortage> {
    let key = cluster.required_image_set()?;
    if state.image_sets.find(&key).is_some() {
        return None;
    }
    let message = format!("ClusterImageSet {} is not available", key.name);
    Some(Shortage::new(IMAGE_SET_NOT_FOUND, message))
}

/// Whether as much is in flight as its pool allows.
fn is_pool_crowded(state: &State, cluster: &Cluster) -> bool {
    crowding_clusters(state, cluster).is_some()
}

/// The clusters that take all places which maxConcurrent allows, if they do. One that has failed
/// also lets those go first that are about to begin: otherwise one that always fails would be tried
/// before all others.
pub fn crowding_clusters<'a>(state: &'a State, cluster: &Cluster) -> Option<Vec<&'a Cluster>> {
    let key = cluster.pool.as_deref()?;
    let limit = state.pools.by_key(key).and_then(ClusterPool::max_concurrent)?;
    let has_failed = cluster.phase() == Phase::Retrying;
    let mut ahead = Vec::new();
    for member in state.members(key).clusters.into_iter().filter_map(|id| state.clusters.get(id)) {
        if is_in_flight(state, member) || (has_failed && is_about_to_begin(member)) {
            ahead.push(member);
        }
    }
    (ahead.len() >= limit).then_some(ahead)
}

/// Whether nothing keeps the first installation of a cluster from beginning.
fn is_about_to_begin(cluster: &Cluster) -> bool {
    cluster.phase() == Phase::Installing
        && cluster.attempt_since.is_none()
        && cluster.unmet.is_none()
        && !cluster.interrupted
        && !cluster.paused
        && cluster.driver != Driver::Missing
}

/// Whether a cluster is being made or destroyed.
fn is_in_flight(state: &State, cluster: &Cluster) -> bool {
    let live_job = state.live_job(&cluster.name);
    cluster.deleting.is_some()
        || live_job.is_some_and(|(_, job)| matches!(job.verb, Verb::Provision | Verb::Deprovision))
}

/// Tries a cluster no more: it is broken, its customization has one attempt less, and its pool may
/// pause. If its configuration was refused, its customization is broken without losing an attempt.
pub fn give_up_cluster(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let class = cluster.failure_class.unwrap_or_default();
    let cause = cluster.failure.clone().unwrap_or_default();
    let customization = cluster.customization.clone();
    let pool_id = cluster.pool.as_deref().and_then(|key| state.pools.find(key));
    let failure = describe_giving_up(cluster, class);
    stop_trying(state, cluster_id, failure, tick);
    let Some(pool_id) = pool_id else { return };
    if class == FailureClass::InputWrong
        && let Some(customization) = &customization
    {
        return blame_customization(state, pool_id, customization, cause, tick);
    }
    let failure =
        InstallFailure { since: tick.now, customization: customization.clone(), class, cause };
    if class.concerns_whole_pool() {
        pause::begin_pause(state, pool_id, class, &failure.cause, tick);
    }
    pause::count_given_up_cluster(state, pool_id, failure, tick);
    let Some(customization) = customization else { return };
    state.pools.update(pool_id, |pool| {
        if let Some(entry) = pool.status.inventory.get_mut(&customization) {
            entry.attempts = entry.attempts.saturating_sub(1);
        }
    });
}

/// Why a cluster is given up whose last failure was of a class, for people.
fn describe_giving_up(cluster: &Cluster, class: FailureClass) -> String {
    if class == FailureClass::InputWrong {
        return "Its configuration is refused, and another attempt would not change that".into();
    }
    let tried = cluster.restarts;
    let installations = if tried == 1 { "installation" } else { "installations" };
    format!("Install attempts limit reached after {tried} failed {installations}")
}

/// Notes that no cluster of a pool can be installed with a customization. The others need not wait
/// for that, so a pause for this reason ends.
fn blame_customization(
    state: &mut State,
    pool_id: PoolId,
    customization: &str,
    cause: String,
    tick: &Tick,
) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let pause_class = pool.status.install_pause.as_ref().map(|pause| pause.class);
    let refusal =
        InputRefusal { pool_version: pool_version(pool), recipe: recipe_of(state, pool), cause };
    state.pools.update(pool_id, |pool| {
        if let Some(entry) = pool.status.inventory.get_mut(customization) {
            entry.refusal = Some(refusal);
        }
    });
    if pause_class == Some(FailureClass::InputWrong) {
        pause::end_pause(state, pool_id, PauseEnd::Blame, tick);
    }
}

/// Tries a cluster no more. `failure` is why, unless a failed installation has said that already.
fn stop_trying(state: &mut State, cluster_id: ClusterId, failure: String, tick: &Tick) {
    state.clusters.update(cluster_id, |cluster| {
        cluster.stopped = true;
        cluster.stopped_at = Some(tick.now);
        cluster.failed_at.get_or_insert(tick.now);
        cluster.failure.get_or_insert_with(|| failure.clone());
    });
    let Some(key) = state.clusters.get(cluster_id).map(Cluster::key) else { return };
    record_warning(
        state,
        tick,
        Kind::ClusterDeployment,
        key,
        EventReason::ProvisionStopped,
        failure,
    );
}

/// Ends what still works on the cluster, destroys what was made, and lets the object go.
fn end_cluster(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let live_job = state.live_job(&cluster.name);
    let is_being_destroyed = live_job.is_some_and(|(_, job)| job.verb == Verb::Deprovision);
    if is_being_destroyed || cluster.protected {
        return;
    }
    let has_nothing_to_destroy = cluster.started_at.is_none() || cluster.preserve;
    cancel_live_job(state, cluster_id, tick);
    if has_nothing_to_destroy {
        return remove_cluster(state, cluster_id, Removal::WithoutDeprovision, tick);
    }
    deprovision(state, cluster_id, tick);
}

/// Ends the job that works on a cluster, if one does.
fn cancel_live_job(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(key) = state.clusters.get(cluster_id).map(Cluster::key) else { return };
    let live_job = state.live_job(&key.name).map(|(job_id, job)| (job_id, job.verb));
    let Some((job_id, verb)) = live_job else { return };
    state.clusters.update(cluster_id, |cluster| cluster.attempt_since = None);
    // A job without a process ends when it is told to.
    state.jobs.update(job_id, |job| {
        job.ended = Some(tick.now);
        job.outcome = Some(CANCELLED.into());
    });
    record_event(
        state,
        tick,
        Kind::ClusterDeployment,
        key,
        EventReason::JobCancelled,
        format!("{} cancelled", verb.name()),
    );
}

/// Lets a cluster go that poolctl cannot destroy, because a person has destroyed what was made of
/// it.
pub fn forget_cluster(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    cancel_live_job(state, cluster_id, tick);
    remove_cluster(state, cluster_id, Removal::AfterDestructionByHand, tick);
}

/// Destroys what was made; an attempt that failed is followed by another, later and later.
fn deprovision(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    // Another attempt would fail as well: only a person can help.
    if cluster.undo_blocked.is_some() {
        return;
    }
    if next_deprovision_at(cluster).is_some_and(|next| tick.now < next) {
        return;
    }
    if cluster.driver == Driver::Agent {
        let hosts = cluster_hosts::controlled_hosts(state, &cluster.name);
        if cluster_hosts::are_hosts_busy(state, &hosts) {
            return;
        }
    }
    start_job(state, cluster_id, Verb::Deprovision, tick);
}

/// When a cluster that could not be destroyed is tried again; none if that waits for a person.
pub fn next_deprovision_at(cluster: &Cluster) -> Option<Time> {
    if cluster.undo_blocked.is_some() {
        return None;
    }
    Some(cluster.undo_failed_at?.plus(DEPROVISION_BACKOFF.delay(cluster.undo_failures)))
}

/// What became of the machines of a cluster whose object goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A job has destroyed what was made.
    AfterDeprovision,
    /// A person has destroyed it, because no job can.
    AfterDestructionByHand,
    /// Nothing was made, or it is left running (preserveOnDelete) and keeps its customization and
    /// its addresses.
    WithoutDeprovision,
}

/// Lets the object of a cluster go, and with it its leases. An object with a foreign finalizer
/// stays, but has nothing left to destroy.
pub fn remove_cluster(state: &mut State, cluster_id: ClusterId, removal: Removal, tick: &Tick) {
    let is_destroyed = removal != Removal::WithoutDeprovision;
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if cluster.held {
        // A foreign finalizer: nothing is left to destroy, but the object stays.
        if cluster.started_at.is_some() && (is_destroyed || !cluster.preserve) {
            state.clusters.update(cluster_id, |cluster| cluster.started_at = None);
        }
        return;
    }
    let key = cluster.key();
    let name = cluster.name.clone();
    let is_preserved = !is_destroyed && cluster.preserve && cluster.started_at.is_some();
    let preserved_dns_name =
        is_preserved.then(|| format!("{}.{}", cluster.cluster_name, cluster.base_domain));
    let customization_id = customization_of(state, cluster);
    agents::release_agents_of_cluster(state, cluster_id, tick);
    if let Some(cluster) = state.clusters.get(cluster_id).cloned() {
        if is_preserved {
            give_back::leave_hosts_to_cluster(state, &name);
            leases::keep_addresses(state, &cluster);
        } else {
            give_back::give_back_hosts_of_cluster(state, &name, tick);
            leases::return_addresses(state, &cluster);
        }
    }
    state.clusters.remove(cluster_id);
    let message = match removal {
        Removal::AfterDeprovision => "Deprovisioned",
        Removal::AfterDestructionByHand => "Destroyed by hand",
        Removal::WithoutDeprovision => "Nothing was destroyed",
    };
    record_event(
        state,
        tick,
        Kind::ClusterDeployment,
        key,
        EventReason::ClusterDeleted,
        message.into(),
    );
    if let Some(customization_id) = customization_id {
        end_customization_lease(state, customization_id, &name, preserved_dns_name, tick);
    }
}

fn customization_of(state: &State, cluster: &Cluster) -> Option<CustomizationId> {
    let name = cluster.customization.as_deref()?;
    let namespace = cluster.pool.as_ref().map(|pool| pool.namespace.clone()).unwrap_or_default();
    state.customizations.find(&Key::new(namespace, name))
}

/// Gives a customization back whose cluster is gone. A cluster that was left running keeps it, and
/// with it its name in DNS.
fn end_customization_lease(
    state: &mut State,
    customization_id: CustomizationId,
    cluster: &str,
    preserved_dns_name: Option<String>,
    tick: &Tick,
) {
    let Some(customization) = state.customizations.get(customization_id) else { return };
    let Some(holder) = customization.holder.clone() else { return };
    if holder.cluster != cluster {
        return;
    }
    let key = customization.key();
    if let Some(dns_name) = preserved_dns_name {
        leases::keep_customization(state, customization_id, dns_name);
        let message = format!("Kept by cluster {cluster}, which was left running");
        return record_warning(
            state,
            tick,
            Kind::Customization,
            key,
            EventReason::Preserved,
            message,
        );
    }
    leases::return_customization(state, customization_id);
    if let Some(pool) = holder.pool {
        // The pool may not list it any more, and then nobody else would write its status.
        customizations::write_customization_status(state, customization_id, &pool, tick);
    }
    let message = format!("No longer leased to cluster {cluster}");
    record_event(state, tick, Kind::Customization, key, EventReason::Released, message);
}
