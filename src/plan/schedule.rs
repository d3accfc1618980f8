//! Schedules: a pool's size and runningCount follow its cron lines. Each tick acts once; what is
//! scaled by hand holds until the next.

use crate::model::event_reason::EventReason;
use crate::model::pool::{ClusterPool, ScheduleStatus};
use crate::model::schedule::{SCHEDULE, Schedule};
use crate::model::state::{PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::{POOL, acts, say};

/// The schedule of a pool, if it has one; what cannot be read was refused when it came.
pub fn of(pool: &ClusterPool) -> Option<Schedule> {
    pool.metadata.annotation(SCHEDULE)?.parse().ok()
}

/// When the schedule acts, or should have.
pub fn due(pool: &ClusterPool) -> Option<Time> {
    let last = pool.status.schedule.as_ref()?.last;
    Some(of(pool).filter(|_| acts(pool))?.next(last)?.0)
}

pub fn act(state: &mut State, at: PoolId, tick: &Tick) {
    let Some(pool) = state.pools.get(at) else {
        return;
    };
    let Some(schedule) = of(pool) else {
        if pool.status.schedule.is_some() {
            state.pools.update(at, |pool| pool.status.schedule = None);
        }
        return;
    };
    let lines = pool.metadata.annotation(SCHEDULE).unwrap_or_default().to_owned();
    // What was acted on after now was seen by a clock that went back.
    let known = pool.status.schedule.as_ref();
    let known = known.filter(|known| known.lines == lines && known.last <= tick.now);
    let Some(known) = known else {
        // A schedule acts from its first tick on, not for those that were before it.
        let new = ScheduleStatus { lines, last: tick.now };
        state.pools.update(at, |pool| pool.status.schedule = Some(new));
        return;
    };
    let since = schedule.since(known.last, tick.now).filter(|_| !tick.jumped);
    let Some((time, size, running)) = since else {
        return;
    };
    let (key, spec) = (pool.key(), &pool.spec);
    let was = (spec.size, spec.running_count);
    let new = (size.unwrap_or(was.0), running.unwrap_or(was.1));
    state.pools.update(at, |pool| {
        pool.status.schedule = Some(ScheduleStatus { lines, last: time });
        (pool.spec.size, pool.spec.running_count) = new;
        pool.metadata.generation += i64::from(was != new);
    });
    let text = format!("By its schedule of {time}: size {}, runningCount {}", new.0, new.1);
    say(state, tick, EventReason::Scheduled, (POOL, key), text);
}
