//! Applies the schedule of a pool: its size and runningCount follow its cron lines. Each tick of
//! the schedule acts once, so what is scaled by hand holds until the next tick.

use crate::model::annotations::SCHEDULE;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::pool::{ClusterPool, ScheduleStatus};
use crate::model::schedule::Schedule;
use crate::model::state::{PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::{may_act, record_event};

/// The schedule of a pool, if it has one. One that cannot be parsed was refused when it was
/// written.
pub fn schedule_of(pool: &ClusterPool) -> Option<Schedule> {
    pool.metadata.annotation(SCHEDULE)?.parse().ok()
}

/// The first tick of the schedule that was not applied yet, which may be in the past.
pub fn next_tick_at(pool: &ClusterPool) -> Option<Time> {
    let last = pool.status.schedule.as_ref()?.last;
    if !may_act(pool) || pool.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let schedule = schedule_of(pool)?;
    schedule.next_tick(last).map(|(time, _)| time)
}

/// Applies the ticks of a pool's schedule since the last one that was applied.
pub fn apply_schedule(state: &mut State, pool_id: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    if pool.metadata.deletion_timestamp.is_some() {
        // It is winding down, and its size changes nothing any more.
        return;
    }
    let Some(schedule) = schedule_of(pool) else {
        if pool.status.schedule.is_some() {
            state.pools.update(pool_id, |pool| pool.status.schedule = None);
        }
        return;
    };
    let lines = pool.metadata.annotation(SCHEDULE).unwrap_or_default().to_owned();
    // A last tick in the future was written by a clock that has been set back since.
    let status = pool.status.schedule.as_ref();
    let applied = status.filter(|status| status.lines == lines && status.last <= tick.now);
    let Some(applied) = applied else {
        // A new schedule acts from its first tick on, not for those before it was written.
        let begun = ScheduleStatus { lines, last: tick.now };
        state.pools.update(pool_id, |pool| pool.status.schedule = Some(begun));
        return;
    };
    if tick.clock_jumped {
        return;
    }
    let Some(due) = schedule.due_since(applied.last, tick.now) else { return };
    let key = pool.key();
    let counts_before = (pool.spec.size, pool.spec.running_count);
    let size = due.size.unwrap_or(pool.spec.size);
    let running_count = due.running_count.unwrap_or(pool.spec.running_count);
    let is_changed = counts_before != (size, running_count);
    state.pools.update(pool_id, |pool| {
        pool.status.schedule = Some(ScheduleStatus { lines, last: due.last_tick });
        pool.spec.size = size;
        pool.spec.running_count = running_count;
        if is_changed {
            pool.status.keep_install_pause(pool.metadata.generation);
            pool.metadata.generation += 1;
        }
    });
    let message =
        format!("Scheduled for {}: size {size}, runningCount {running_count}", due.last_tick);
    record_event(state, tick, Kind::ClusterPool, key, EventReason::Scheduled, message);
}
