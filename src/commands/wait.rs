//! Waiting: passes repeated until nothing is in flight.

use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::time::{Span, Time};
use crate::output::Progress;
use crate::plan;
use crate::reconcile::Door;
use crate::store::try_pass_lock;

use super::Context;

/// How often a waiting command looks when drivers cannot say when they will be done.
const LOOK: Span = Span::seconds(1);
/// A bar moves at least this often.
const FRAME: Span = Span(100_000);

/// Repeats passes until no job is live, at most `limit`.
pub fn until_idle(
    context: &Context,
    door: &Door<'_>,
    pool: Option<&Key>,
    limit: Span,
) -> Result<(), Refusal> {
    let scope = pool.cloned().map_or(Scope::Whole, Scope::pool);
    let end = context.world.now().plus(limit);
    let mut progress = Progress::new(context.draws(), context.globals.quiet);
    loop {
        // Held for one pass only: others go on between ours.
        let Some(lock) = try_pass_lock(door.store.path())? else {
            let now = context.world.now();
            if now >= end {
                return Err(Refusal::new(Exit::Timeout, "another pass is running all the time"));
            }
            context.world.wait(now.plus(LOOK), FRAME);
            continue;
        };
        let passed = door.pass(&scope)?;
        drop(lock);
        context.finish(&passed)?;
        let flying = door.in_flight(pool)?;
        let now = context.world.now();
        if flying.jobs.is_empty() {
            progress.finish();
            return Ok(());
        }
        if now >= end {
            progress.finish();
            let many = flying.jobs.len();
            return Err(Refusal::new(
                Exit::Timeout,
                format!("{many} jobs are still in flight after {}", limit.short()),
            )
            .next("poolctl job list"));
        }
        show(context, &mut progress, &passed.state, flying.jobs.len());
        let planned = plan::due(&passed.state).filter(|due| *due > now);
        let next = [flying.due, planned].into_iter().flatten().min();
        sleep(context, &mut progress, next.unwrap_or(now.plus(LOOK)).min(end));
    }
}

fn sleep(context: &Context, progress: &mut Progress, until: Time) {
    if context.world.stands() || !context.draws() {
        return context.world.wait(until, LOOK);
    }
    // On a terminal the bar goes on moving.
    let start = context.world.now();
    while context.world.now() < until.min(start.plus(LOOK)) {
        progress.turn();
        context.world.wait(until, FRAME);
    }
}

fn show(context: &Context, progress: &mut Progress, state: &State, jobs: usize) {
    let sum = |count: fn(&crate::model::pool::PoolStatus) -> u32| -> u64 {
        state.pools.rows().map(|pool| u64::from(count(&pool.status))).sum()
    };
    let (ready, standby) = (sum(|status| status.ready), sum(|status| status.standby));
    let (installing, deleting) = (sum(|status| status.installing), sum(|status| status.deleting));
    let size = state.pools.rows().map(|pool| u64::from(pool.spec.size)).sum();
    let text = format!(
        "{ready} ready, {standby} standby, {installing} installing, {deleting} deprovisioning; {jobs} jobs"
    );
    if let Some(line) = progress.tell(ready + standby, size, &text, context.world.now()) {
        context.hint(&line);
    }
}
