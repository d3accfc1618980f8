//! Pauses a pool whose installations fail for a reason that the next one would meet, too: the
//! platform is away, or all that is tried is wrong. The pause grows with each wave of failures; one
//! installation that succeeds, or a change of the pool, ends it. It never stops an installation
//! that has begun.

use crate::model::backoff::Backoff;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::pool::{ClusterPool, InstallPause};
use crate::model::state::{PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::{record_event, record_warning};

/// How long a pause is, by how many waves of failures there were.
const BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };
/// After so many clusters in a row that were given up, none is made for a while.
const GIVEN_UP_IN_A_ROW: u32 = 2;

/// Lifts a pause whose time is over, and forgets one whose pool was changed since. It comes before
/// anything else is decided about the pool.
pub fn lift_expired_pause(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let Some(pause) = &pool.status.install_pause else { return };
    if pause.generation != pool.metadata.generation {
        return end_pause(state, pool_id);
    }
    if !tick.clock_jumped && pause.until.is_some_and(|until| tick.now >= until) {
        state.pools.update(pool_id, |pool| {
            if let Some(pause) = &mut pool.status.install_pause {
                pause.until = None;
            }
        });
    }
}

/// Whether no installation begins now, and no cluster is made.
pub fn is_paused(pool: &ClusterPool) -> bool {
    pool.status.install_pause.as_ref().is_some_and(|pause| pause.until.is_some())
}

/// Begins a pause after an installation that failed before anything existed. Installations that
/// were begun together with it and fail, too, belong to the same wave and do not prolong the pause.
pub fn begin_pause(state: &mut State, pool_id: PoolId, cause: &str, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id).filter(|pool| !is_paused(pool)) else { return };
    let key = pool.key();
    let generation = pool.metadata.generation;
    let last_pause = pool.status.install_pause.as_ref();
    let failures = last_pause.map_or(0, |pause| pause.failures) + 1;
    let until = tick.now.plus(BACKOFF.delay(failures));
    let pause = InstallPause {
        failures,
        since: last_pause.map_or(tick.now, |pause| pause.since),
        until: Some(until),
        cause: cause.to_owned(),
        generation,
    };
    state.pools.update(pool_id, |pool| pool.status.install_pause = Some(pause));
    let message = format!("No installation begins before {until}: {cause}");
    record_warning(state, tick, Kind::ClusterPool, key, EventReason::InstallationsPaused, message);
}

/// Counts a cluster that was given up and that another one replaces. One alone may have been bad
/// luck, several in a row begin a pause. Pools with an inventory do without it: the inventory
/// counts the attempts of each entry, so they come to an end by themselves.
pub fn count_given_up_cluster(state: &mut State, pool_id: PoolId, cause: &str, tick: &Tick) {
    state.pools.update(pool_id, |pool| pool.status.given_up_in_a_row += 1);
    let Some(pool) = state.pools.get(pool_id) else { return };
    let in_a_row = pool.status.given_up_in_a_row;
    if pool.spec.inventory.is_none() && in_a_row >= GIVEN_UP_IN_A_ROW {
        begin_pause(state, pool_id, cause, tick);
    }
}

/// Ends the pause because an installation succeeded.
pub fn resume_after_success(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let key = pool.key();
    let was_paused = pool.status.install_pause.is_some();
    end_pause(state, pool_id);
    if was_paused {
        let message = "An installation succeeded: installations begin as usual";
        record_event(
            state,
            tick,
            Kind::ClusterPool,
            key,
            EventReason::InstallationsResumed,
            message.into(),
        );
    }
}

/// Ends a pause and forgets the failures before it, so that the next pause is a short one again.
pub fn end_pause(state: &mut State, pool_id: PoolId) {
    state.pools.update(pool_id, |pool| {
        pool.status.install_pause = None;
        pool.status.given_up_in_a_row = 0;
    });
}
