//! Pauses a pool whose installations fail for a reason that the next one would meet, too: the
//! platform is away, or all that is tried is wrong. The pause grows with each wave of failures; one
//! installation that succeeds, or a change of the pool, ends it. It never stops an installation
//! that has begun.

use crate::model::backoff::Backoff;
use crate::model::event_reason::EventReason;
use crate::model::failure::FailureClass;
use crate::model::kinds::Kind;
use crate::model::pool::{ClusterPool, InstallFailure, InstallPause};
use crate::model::state::{PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Span;

use super::version::{is_recipe_changed, recipe_of};
use super::{record_event, record_warning};

/// How long a pause is, by how many waves of failures there were.
const BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };
/// After so many clusters in a row that were given up, none is made for a while.
const GIVEN_UP_IN_A_ROW: u32 = 2;

/// Why a pause and the failures before it are forgotten.
#[derive(Clone, Copy)]
pub enum PauseEnd {
    /// An installation succeeded.
    Success,
    /// What clusters are installed from was changed.
    Correction,
    /// A person asked for another attempt.
    Request,
    /// One customization is the cause, so clusters with others may be installed.
    Blame,
}

impl PauseEnd {
    /// A clause for people.
    fn describe(self) -> &'static str {
        match self {
            Self::Success => "An installation succeeded",
            Self::Correction => "The pool was changed",
            Self::Request => "Another attempt was asked for",
            Self::Blame => "A customization is the cause",
        }
    }
}

/// Lifts a pause whose time is over, and forgets one whose pool was changed since. It comes before
/// anything else is decided about the pool.
pub fn lift_expired_pause(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let Some(pause) = &pool.status.install_pause else { return };
    if pause.generation != pool.metadata.generation
        || is_recipe_changed(state, pool, pause.recipe.as_deref())
    {
        return end_pause(state, pool_id, PauseEnd::Correction, tick);
    }
    if !tick.clock_jumped && pause.until.is_some_and(|until| tick.now >= until) {
        state.pools.update(pool_id, |pool| {
            if let Some(pause) = &mut pool.status.install_pause {
                pause.until = None;
            }
        });
    }
}

/// Why installations of a pool fail, and until when it starts no other. None if they do not fail.
pub fn describe_install_pause(pool: &ClusterPool) -> Option<String> {
    let InstallPause { since, until, class, cause, .. } = pool.status.install_pause.as_ref()?;
    let next = match until {
        Some(until) => format!("the next one begins at {until}"),
        None => "the next one may begin now".to_owned(),
    };
    Some(format!("installations have failed since {since} ({}); {next}: {cause}", class.name()))
}

/// Begins a pause after an installation that failed as the next ones would, too. Installations that
/// were begun together with it and fail, too, belong to the same wave and do not prolong the pause.
/// The cause of the first failure is kept, because later ones may only follow from it. A cause of
/// another class is another trouble, but the pauses go on growing.
pub fn begin_pause(
    state: &mut State,
    pool_id: PoolId,
    class: FailureClass,
    cause: &str,
    tick: &Tick,
) {
    let Some(pool) = state.pools.get(pool_id).filter(|pool| !pool.is_install_paused()) else {
        return;
    };
    let key = pool.key();
    let generation = pool.metadata.generation;
    let last_pause = pool.status.install_pause.as_ref();
    let failures = last_pause.map_or(0, |pause| pause.failures) + 1;
    let until = tick.now.plus(BACKOFF.delay(failures));
    let mut pause = InstallPause {
        failures,
        since: tick.now,
        until: Some(until),
        class,
        cause: cause.to_owned(),
        generation,
        recipe: recipe_of(state, pool),
    };
    let first_failure = pool.status.first_failure.as_ref();
    if let Some(last_pause) = last_pause {
        if last_pause.class == class {
            pause.since = last_pause.since;
            pause.cause.clone_from(&last_pause.cause);
        }
    } else if let Some(failure) = first_failure.filter(|failure| failure.class == class) {
        pause.since = failure.since;
        pause.cause.clone_from(&failure.cause);
    }
    state.pools.update(pool_id, |pool| pool.status.install_pause = Some(pause));
    let message = format!("No installation begins before {until}: {cause}");
    record_warning(state, tick, Kind::ClusterPool, key, EventReason::InstallationsPaused, message);
}

/// Counts a cluster that was given up and that another one replaces. One alone may have been bad
/// luck, several in a row begin a pause. With the same customization again and again, it may be the
/// customization: the inventory counts its attempts, so they come to an end by themselves.
pub fn count_given_up_cluster(
    state: &mut State,
    pool_id: PoolId,
    failure: InstallFailure,
    tick: &Tick,
) {
    let InstallFailure { class, cause, customization, .. } = failure.clone();
    state.pools.update(pool_id, |pool| {
        let first_failure = pool.status.first_failure.get_or_insert(failure);
        let is_first = pool.status.given_up_in_a_row == 0;
        let is_same_entry = customization.is_some() && first_failure.customization == customization;
        pool.status.given_up_in_a_row += u32::from(is_first || !is_same_entry);
    });
    let pool = state.pools.get(pool_id);
    if pool.is_some_and(|pool| pool.status.given_up_in_a_row >= GIVEN_UP_IN_A_ROW) {
        begin_pause(state, pool_id, class, &cause, tick);
    }
}

/// Ends a pause and forgets the failures before it, so that the next pause is a short one again.
pub fn end_pause(state: &mut State, pool_id: PoolId, end: PauseEnd, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let key = pool.key();
    let was_paused = pool.status.install_pause.is_some();
    state.pools.update(pool_id, |pool| {
        pool.status.install_pause = None;
        pool.status.given_up_in_a_row = 0;
        pool.status.first_failure = None;
    });
    if was_paused {
        let message = format!("{}: installations begin as usual", end.describe());
        let reason = EventReason::InstallationsResumed;
        record_event(state, tick, Kind::ClusterPool, key, reason, message);
    }
}
