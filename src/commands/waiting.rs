//! Waiting: passes repeated until what a command waits for has come, with progress.

use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, PoolStatus};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::Scope;
use crate::model::time::{Span, Time};
use crate::output::Progress;
use crate::plan;
use crate::reconcile::Door;
use crate::store::{Store, try_pass_lock};

use crate::commands::Context;

/// How often a waiting command looks when nobody can say when there will be news.
const LOOK: Span = Span::seconds(1);
/// A bar moves at least this often.
const FRAME: Span = Span(100_000);

/// What a look came to.
pub enum Look<T> {
    Met(T),
    /// How far it is: so many of so many, and in words.
    Not(u64, u64, String),
}

/// How the waiting ended.
pub enum Ended<T> {
    Met(T),
    Late,
    /// By a signal, told as the exit code.
    Interrupted(Exit),
}

/// What is waited with.
pub struct Waiting<'a> {
    pub context: &'a Context,
    pub door: &'a Door<'a>,
    /// Passes are of this pool, or of all.
    pub pool: Option<&'a Key>,
    pub limit: Span,
}

impl Waiting<'_> {
    /// Repeats pass and look. `look` is told whether the pass was run; it is not while another
    /// one runs, and never with `--no-reconcile`.
    pub fn until<T>(
        &self,
        mut look: impl FnMut(bool) -> Result<Look<T>, Refusal>,
    ) -> Result<Ended<T>, Refusal> {
        let world = &self.context.world;
        let mut progress = Progress::new(self.context.can_redraw(), self.context.globals.quiet);
        let end = world.now().plus(self.limit);
        loop {
            let (passed, due) = self.pass()?;
            let (done, of, text) = match look(passed)? {
                Look::Met(found) => {
                    progress.finish();
                    return Ok(Ended::Met(found));
                }
                Look::Not(done, of, text) => (done, of, text),
            };
            let late = world.now() >= end;
            if let Some(caught) = world.interrupted() {
                progress.finish();
                return Ok(Ended::Interrupted(Exit::by_signal(caught.signal)));
            }
            if late {
                progress.finish();
                return Ok(Ended::Late);
            }
            if let Some(line) = progress.tell(done, of, &text, world.now()) {
                self.context.hint(&line);
            }
            // Where time stands, nothing happens before something is due.
            let next = due.unwrap_or(if world.stands() { end } else { world.now().plus(LOOK) });
            self.sleep(&mut progress, next.min(end));
        }
    }

    /// One pass, unless others do it; and when the next one will have something to do.
    fn pass(&self) -> Result<(bool, Option<Time>), Refusal> {
        let soon = Some(self.context.world.now().plus(LOOK));
        if !self.door.pass {
            return Ok((false, soon));
        }
        // Held for one pass only: others go on between ours.
        let Some(lock) = try_pass_lock(self.door.store.path())? else {
            return Ok((false, soon));
        };
        let scope = self.pool.cloned().map_or(Scope::Whole, Scope::pool);
        let passed = self.door.pass(&scope)?;
        drop(lock);
        self.context.finish(&passed)?;
        let now = self.context.world.now();
        let planned = plan::due(&passed.state, now);
        let flying = self.door.in_flight(self.pool)?;
        // A job whose driver cannot say when it will be done is looked at again soon.
        let unknown = if flying.jobs.is_empty() || flying.due.is_some() { None } else { soon };
        Ok((true, [flying.due, planned, unknown].into_iter().flatten().min()))
    }

    fn sleep(&self, progress: &mut Progress, until: Time) {
        let world = &self.context.world;
        if world.stands() || !self.context.can_redraw() {
            return world.wait(until, LOOK);
        }
        // On a terminal the bar goes on moving.
        let start = world.now();
        while world.now() < until.min(start.plus(LOOK)) {
            progress.turn();
            world.wait(until, FRAME);
        }
    }

    /// Repeats passes until no job is live.
    pub fn until_idle(&self) -> Result<(), Refusal> {
        let mut jobs = 0;
        let ended = self.until(|passed| {
            let flying = self.door.in_flight(self.pool)?;
            if passed && flying.jobs.is_empty() {
                return Ok(Look::Met(()));
            }
            jobs = flying.jobs.len();
            let (ready, size, text) = counts(self.door.store, self.pool)?;
            Ok(Look::Not(ready, size, format!("{text}; {jobs} jobs")))
        })?;
        match ended {
            Ended::Met(()) => Ok(()),
            Ended::Interrupted(exit) => Err(Refusal::new(exit, "interrupted")),
            Ended::Late if jobs == 0 => {
                Err(Refusal::new(Exit::Timeout, "another pass is running all the time"))
            }
            Ended::Late => {
                let what = format!("{jobs} jobs are still in flight after {}", self.limit.short());
                Err(Refusal::new(Exit::Timeout, what).next("poolctl job list"))
            }
        }
    }
}

/// Clusters that are installed, those wanted, and how things stand in words; of a pool or all.
pub fn counts(store: &Store, pool: Option<&Key>) -> Result<(u64, u64, String), Refusal> {
    let pools: Vec<ClusterPool> = match pool {
        Some(key) => store.one::<ClusterPool>(key)?.into_iter().collect(),
        None => store.all::<ClusterPool>()?,
    };
    let sum = |count: fn(&PoolStatus) -> u32| -> u64 {
        pools.iter().map(|pool| u64::from(count(&pool.status))).sum()
    };
    let (ready, standby) = (sum(|status| status.ready), sum(|status| status.standby));
    let (installing, deleting) = (sum(|status| status.installing), sum(|status| status.deleting));
    let size = pools.iter().map(|pool| u64::from(pool.spec.size)).sum();
    let text = format!(
        "{ready} ready, {standby} standby, {installing} installing, {deleting} deprovisioning"
    );
    Ok((ready + standby, size, text))
}
