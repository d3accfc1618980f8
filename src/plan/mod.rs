//! Decides: State + Tick -> State. Pure and total; no clock, dice, disk or program. This file is
//! the order of the steps; each concern has a file of its own.

mod addresses;
pub mod agents;
mod assign;
pub mod buckets;
mod cluster_jobs;
mod clusters_hosts;
mod create;
mod customizations;
mod deadline;
mod dependencies;
mod desk;
mod expire;
mod hosts;
mod inventory;
mod lease_names;
pub mod leases;
mod life;
mod links;
mod pause;
mod power;
mod probes;
mod recipe;
mod reports;
mod schedule;
mod size;
mod status;
mod version;
mod vips;
mod whole;
mod wiping;

use std::rc::Rc;

pub use deadline::{deadline, overdue};
pub use dependencies::missing;
pub use expire::effective_lifetime;
pub use hosts::version;
pub use inventory::summary as inventory_summary;
pub use life::{WORRYING, next_attempt_at, waits_until};
pub use pause::end as end_pause;
pub use power::hibernates_at;
pub use recipe::trial;
pub use reports::{absorb, look};
pub use schedule::of as schedule_of;
pub use size::{BROKEN, STALE};
pub use version::pool_version;
pub use vips::claim_of_host;
pub use whole::{free, mend};

use crate::model::cluster::Cluster;
use crate::model::driver::Driver;
use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, PAUSED};
use crate::model::power::SETTLE;
use crate::model::state::{Books, ClusterId, PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

/// Rounds after which a plan counts as not settling.
const PATIENCE: usize = 100;

/// The rounds changed something every time.
#[derive(Debug, PartialEq, Eq)]
pub struct NotConverged;

/// Repeats `round` until nothing changes, time standing still.
pub fn settle(state: &mut State, tick: &Tick, names: &dyn Books) -> Result<(), NotConverged> {
    for _ in 0..PATIENCE {
        let before = state.changes_made();
        round(state, tick, names);
        if state.changes_made() == before {
            return Ok(());
        }
    }
    Err(NotConverged)
}

/// One round: what Hive would do in one reconcile of each pool, in its order.
pub fn round(state: &mut State, tick: &Tick, names: &dyn Books) {
    // How hosts are now: what is begun below is begun on them.
    agents::advance(state, tick);
    let pools: Vec<PoolId> = state.pools.iter().map(|(at, _)| at).collect();
    for at in pools {
        let Some(key) = state.pools.get(at).map(|pool| Rc::new(pool.key())) else {
            continue;
        };
        state.act_for(Some(Rc::clone(&key)));
        pause::look(state, at, tick);
        expire::lifetimes(state, &key, tick);
        links::sync(state, &key, tick);
        links::conditions(state, &key, tick);
        customizations::sync(state, at, tick);
        if state.pools.get(at).is_some_and(acts) {
            schedule::act(state, at, tick);
            choose(state, at, &key, tick, names);
        }
        for cluster in state.members(&key).clusters {
            life::advance(state, cluster, tick);
        }
        status::write(state, at, tick);
    }
    state.act_for(None);
    without_pool(state, tick);
    hosts::advance(state, tick);
    addresses::advance(state, names, tick);
    lease_names::tell_apart(state, names);
}

/// A paused pool neither makes nor hands over; when it is deleted it goes all the same.
fn acts(pool: &ClusterPool) -> bool {
    !pool.metadata.annotated(PAUSED) || pool.metadata.deletion_timestamp.is_some()
}

/// What a pool does of its own accord.
fn choose(state: &mut State, at: PoolId, key: &Key, tick: &Tick, names: &dyn Books) {
    // Assignment before size: a claimed cluster is not in the pool when size looks at it, so
    // it is never deleted as stale in the pass that hands it over.
    assign::claims(state, key, tick);
    size::choose(state, at, tick, names);
    power::choose(state, at, tick);
}

/// Clusters that were applied by hand, and claims whose pool is not there.
fn without_pool(state: &mut State, tick: &Tick) {
    let loose: Vec<ClusterId> =
        state.clusters.iter().filter(|(_, one)| one.pool.is_none()).map(|(at, _)| at).collect();
    for at in loose {
        life::advance(state, at, tick);
    }
    let orphaned: Vec<Key> =
        state.pools_with_members().filter(|key| state.pools.find(key).is_none()).cloned().collect();
    for key in orphaned {
        // With the jobs of its clusters, which are the pool's too.
        state.act_for(Some(Rc::new(key.clone())));
        expire::lifetimes(state, &key, tick);
        links::sync(state, &key, tick);
        for at in state.members(&key).clusters {
            life::advance(state, at, tick);
        }
        links::conditions(state, &key, tick);
    }
    state.act_for(None);
}

/// When something is next due by itself: an expiry, a retry, a timeout, a schedule, and after a plan
/// the end of a rest. An instant that has passed is none any more: what was to be done then is done, or
/// waits for something else.
pub fn due(state: &State, now: Time) -> Option<Time> {
    let schedules = state.pools.rows().filter_map(schedule::due);
    let expiries = state.claims.rows().filter(|claim| claim.deleting.is_none());
    let expiries = expiries.flat_map(|claim| {
        let soon = claim.expires_soon().filter(|_| !claim.warned);
        [soon, claim.expires()].into_iter().flatten()
    });
    // Nothing happens to a cluster that is paused, or that no driver looks after.
    let lives = |one: &&Cluster| {
        let looked_after = one.driver != Driver::Missing || one.power.waits();
        looked_after && !one.paused
    };
    let clusters = || state.clusters.rows().filter(lives);
    let retries = clusters().flat_map(|one| {
        [life::next_attempt_at(state, one), life::undo_at(one), life::waits_until(one)]
            .into_iter()
            .flatten()
    });
    let powers = clusters().flat_map(|one| {
        let settled = power::settled_at(one, SETTLE);
        [
            power::hibernates_at(state, one),
            power::retry_at(one),
            power::asks_at(state, one),
            settled,
        ]
        .into_iter()
        .flatten()
    });
    let active = state.pools.rows().filter(|pool| acts(pool));
    let timeouts = active.flat_map(|pool| buckets::timeouts(state, pool));
    let hosts = hosts::due(state);
    let joins = agents::joining::due(state);
    let all = expiries
        .chain(hosts)
        .chain(joins)
        .chain(retries)
        .chain(powers)
        .chain(timeouts)
        .chain(schedules);
    all.chain(state.resting.values().copied()).filter(|instant| *instant > now).min()
}

/// Writes down what is done and why.
fn say(
    state: &mut State,
    tick: &Tick,
    reason: EventReason,
    object: (&'static str, Key),
    message: String,
) {
    event(state, tick, false, reason, object, message);
}

fn warn(
    state: &mut State,
    tick: &Tick,
    reason: EventReason,
    object: (&'static str, Key),
    message: String,
) {
    event(state, tick, true, reason, object, message);
}

fn event(
    state: &mut State,
    tick: &Tick,
    warning: bool,
    reason: EventReason,
    (kind, object): (&'static str, Key),
    message: String,
) {
    let (time, reason, actor) = (tick.now, reason.into(), PASS.to_owned());
    state.event(Event { time, warning, reason, kind, object, actor, message, ..Event::default() });
}

/// Who does what nobody has typed: whoever started the pass has only started it.
const PASS: &str = "reconcile";
const POOL: &str = "ClusterPool";
const AGENT: &str = "Agent";
const HOST: &str = "BareMetalHost";
const CLUSTER: &str = "ClusterDeployment";
const CLAIM: &str = "ClusterClaim";
const CUSTOMIZATION: &str = "ClusterDeploymentCustomization";
