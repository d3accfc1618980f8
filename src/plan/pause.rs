//! The pause of a pool whose installations fail for a reason that the next one would meet, too: the
//! platform is away, or all that is tried is wrong. It grows with each wave of failures; one
//! installation that succeeds, or somebody who changes the pool, ends it.

use crate::model::backoff::Backoff;
use crate::model::event_reason::EventReason;
use crate::model::pool::{ClusterPool, InstallPause};
use crate::model::state::{PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::{POOL, say, warn};

/// How long a pause is, by how many waves of failures there were.
const BACKOFF: Backoff = Backoff { first: Span::minutes(1), factor: 2, longest: Span::hours(1) };
/// After so many clusters in a row that were given up, none is made for a while.
const GIVEN_UP_IN_A_ROW: u32 = 2;

/// Before anything of the pool is decided: a pause that is over, or whose pool was changed since.
pub fn look(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let Some(pause) = &pool.status.install_pause else { return };
    if pause.generation != pool.metadata.generation {
        return end(state, pool_id);
    }
    if !tick.jumped && pause.until.is_some_and(|until| tick.now >= until) {
        state.pools.update(pool_id, |pool| {
            if let Some(pause) = &mut pool.status.install_pause {
                pause.until = None;
            }
        });
    }
}

/// Whether no installation begins now, and no cluster is made.
pub fn is_on(pool: &ClusterPool) -> bool {
    pool.status.install_pause.as_ref().is_some_and(|pause| pause.until.is_some())
}

/// An installation failed before anything existed. Those that were begun with it and fail, too, are
/// of the same wave.
pub fn begin(state: &mut State, pool_id: PoolId, cause: &str, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id).filter(|pool| !is_on(pool)) else { return };
    let (key, generation) = (pool.key(), pool.metadata.generation);
    let before = pool.status.install_pause.as_ref();
    let failures = before.map_or(0, |pause| pause.failures) + 1;
    let until = tick.now.plus(BACKOFF.delay(failures));
    let pause = InstallPause {
        failures,
        since: before.map_or(tick.now, |pause| pause.since),
        until: Some(until),
        cause: cause.to_owned(),
        generation,
    };
    state.pools.update(pool_id, |pool| pool.status.install_pause = Some(pause));
    let text = format!("No installation begins before {until}: {cause}");
    warn(state, tick, EventReason::InstallationsPaused, (POOL, key), text);
}

/// A cluster was given up, and another is made in its place. One alone may have been bad luck; where
/// an inventory counts the attempts of its entries, they come to an end by themselves.
pub fn given_up(state: &mut State, pool_id: PoolId, cause: &str, tick: &Tick) {
    state.pools.update(pool_id, |pool| pool.status.given_up_in_a_row += 1);
    let Some(pool) = state.pools.get(pool_id) else { return };
    let in_a_row = pool.status.given_up_in_a_row;
    if pool.spec.inventory.is_none() && in_a_row >= GIVEN_UP_IN_A_ROW {
        begin(state, pool_id, cause, tick);
    }
}

/// An installation succeeded.
pub fn succeeded(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let (key, was_paused) = (pool.key(), pool.status.install_pause.is_some());
    end(state, pool_id);
    if was_paused {
        let text = "An installation succeeded: installations begin as usual";
        say(state, tick, EventReason::InstallationsResumed, (POOL, key), text.into());
    }
}

/// What failed before does not count any more.
pub fn end(state: &mut State, pool_id: PoolId) {
    state.pools.update(pool_id, |pool| {
        pool.status.install_pause = None;
        pool.status.given_up_in_a_row = 0;
    });
}
