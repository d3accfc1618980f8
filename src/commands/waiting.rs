//! Waiting: repeats passes until what a command waits for is there, its time is over, or a signal
//! comes. Meanwhile it shows progress.

pub mod stage;

use crate::causes::describe_installing;
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, PoolStatus};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::Scope;
use crate::model::time::{Span, Time};
use crate::output::{Progress, ProgressWords, clean_line};
use crate::reconcile::Door;
use crate::store::{Store, try_pass_lock};

use crate::commands::waiting::stage::{Stage, find_stage};
use crate::commands::{Context, count_of};

/// How often a waiting command looks while nobody knows when something will have changed.
const LOOK_INTERVAL: Span = Span::seconds(1);
/// A wait with a longer limit counts as one without end: what is left of it is not told.
const LONGEST_LIMIT: Span = Span::hours(24 * 7);
/// How long a frame of a moving progress bar is shown: a tenth of a second.
const BAR_FRAME: Span = Span(100_000);

/// What a look at the state found.
pub enum Observation<T> {
    /// What is waited for is there.
    Met(T),
    NotYet(WaitProgress),
}

/// How far what is waited for has come, for the progress bar.
#[derive(Default)]
pub struct WaitProgress {
    /// How many of `total` are done.
    pub done: u64,
    pub total: u64,
    /// The same in words.
    pub description: String,
    /// How far the job is that brings it there, if there is one.
    pub stage: Stage,
    /// When it is expected, in words that change with the clock; empty if nobody knows.
    pub estimate: String,
}

/// How the waiting ended.
pub enum WaitOutcome<T> {
    Met(T),
    /// The limit has passed.
    Late,
    /// A signal came; this is the exit code for it.
    Interrupted(Exit),
}

/// What became of an attempt to run a pass.
struct TriedPass {
    has_passed: bool,
    /// When the next pass will have something to do. None if nobody knows.
    due: Option<Time>,
}

/// How a command waits.
pub struct Waiting<'a> {
    pub context: &'a Context,
    pub door: &'a Door<'a>,
    /// The pool that passes are run for, or none for all pools.
    pub pool: Option<&'a Key>,
    /// How long it waits at most.
    pub limit: Span,
}

impl Waiting<'_> {
    /// Runs a pass and looks, again and again. `look` is told whether a pass was run: it is not
    /// while another process runs one, and never with `--no-reconcile`.
    pub fn wait_until<T>(
        &self,
        mut look: impl FnMut(bool) -> Result<Observation<T>, Refusal>,
    ) -> Result<WaitOutcome<T>, Refusal> {
        let world = &self.context.world;
        let mut progress = Progress::new(
            self.context.can_redraw(),
            self.context.globals.quiet,
            self.context.style(),
        );
        let end = world.now().plus(self.limit);
        loop {
            let TriedPass { has_passed, due } = self.try_pass()?;
            let progress_so_far = match look(has_passed)? {
                Observation::Met(value) => {
                    progress.finish();
                    return Ok(WaitOutcome::Met(value));
                }
                Observation::NotYet(progress_so_far) => progress_so_far,
            };
            if let Some(caught) = world.take_signal() {
                progress.finish();
                return Ok(WaitOutcome::Interrupted(Exit::by_signal(caught.signal)));
            }
            if world.now() >= end {
                progress.finish();
                return Ok(WaitOutcome::Late);
            }
            let WaitProgress { done, total, description, stage, estimate } = progress_so_far;
            let visible_stage =
                if self.context.guest().is_some() { stage.without_names() } else { stage };
            let words = ProgressWords {
                headline: description,
                stage: join_stage(visible_stage.sentence(), &estimate),
                detail: clean_line(&visible_stage.detail).into_owned(),
                time_left: describe_time_left(end.since(world.now())),
            };
            let told = progress.update(done, total, &words, world.now());
            for line in told.iter().flat_map(|told| told.lines()) {
                self.context.hint(line);
            }
            // While the clock stands, nothing happens before something is due.
            let next_look = due.unwrap_or_else(|| {
                if world.is_clock_standing() { end } else { world.now().plus(LOOK_INTERVAL) }
            });
            self.sleep_until(&mut progress, next_look.min(end));
        }
    }

    /// Runs a pass, unless another process runs one or the command was told not to.
    fn try_pass(&self) -> Result<TriedPass, Refusal> {
        let soon = Some(self.context.world.now().plus(LOOK_INTERVAL));
        if !self.door.plans_changes {
            return Ok(TriedPass { has_passed: false, due: soon });
        }
        // The lock is held for one pass only, so that other processes run theirs between ours.
        let Some(lock) = try_pass_lock(self.door.store.path())? else {
            return Ok(TriedPass { has_passed: false, due: soon });
        };
        let passed = if let Some(pool) = self.pool {
            self.door.run_pass(&Scope::pool(pool.clone()))?
        } else {
            let passed = self.door.run_due_pass()?;
            self.door.store.note_pass(self.context.world.now());
            passed
        };
        drop(lock);
        self.context.report_pass(&passed)?;
        let now = self.context.world.now();
        let plan_due = self.door.store.next_due_at(self.pool, now)?;
        let in_flight = self.door.find_live_jobs(self.pool)?;
        // Some drivers cannot say when their jobs will be done: these are looked at again soon.
        let is_end_unknown = !in_flight.jobs.is_empty() && in_flight.due.is_none();
        let next_look = if is_end_unknown { soon } else { None };
        let due = [in_flight.due, plan_due, next_look].into_iter().flatten().min();
        Ok(TriedPass { has_passed: true, due })
    }

    /// Sleeps until then, but not longer than the interval between two looks.
    fn sleep_until(&self, progress: &mut Progress, until: Time) {
        let world = &self.context.world;
        if world.is_clock_standing() || !self.context.can_redraw() {
            return world.wait_until(until, LOOK_INTERVAL);
        }
        // On a terminal the bar moves meanwhile.
        let end = until.min(world.now().plus(LOOK_INTERVAL));
        while world.now() < end {
            progress.spin();
            world.wait_until(until, BAR_FRAME);
        }
    }

    /// Repeats passes until no job runs.
    pub fn wait_until_idle(&self) -> Result<(), Refusal> {
        let mut job_count = 0;
        let ended = self.wait_until(|has_passed| {
            let in_flight = self.door.find_live_jobs(self.pool)?;
            if has_passed && in_flight.jobs.is_empty() {
                return Ok(Observation::Met(()));
            }
            job_count = in_flight.jobs.len();
            let mut progress = count_clusters(self.door.store, self.pool)?;
            let jobs = count_of(job_count, "job");
            progress.description = format!("{}; {jobs}", progress.description);
            progress.stage =
                find_stage(self.door.store, &in_flight.jobs, None, self.context.world.now())?;
            Ok(Observation::NotYet(progress))
        })?;
        match ended {
            WaitOutcome::Met(()) => Ok(()),
            WaitOutcome::Interrupted(exit) => Err(Refusal::new(exit, "interrupted")),
            WaitOutcome::Late if job_count == 0 => {
                Err(Refusal::new(Exit::Timeout, "other passes kept running until the time limit"))
            }
            WaitOutcome::Late => {
                let waited = self.limit.to_short_text();
                Err(Refusal::new(
                    Exit::Timeout,
                    format!("{} still running after {waited}", count_of(job_count, "job")),
                )
                .next("poolctl job list"))
            }
        }
    }
}

/// When it is expected, and the stage of the job that brings it: both move with the clock.
fn join_stage(stage: String, estimate: &str) -> String {
    match (stage.is_empty(), estimate.is_empty()) {
        (_, true) => stage,
        (true, false) => estimate.to_owned(),
        (false, false) => format!("{estimate}; {stage}"),
    }
}

/// `27m left`; empty for a limit that is so far away that it is none.
fn describe_time_left(left: Span) -> String {
    if left > LONGEST_LIMIT { String::new() } else { format!("{} left", left.to_short_text()) }
}

/// Counts the unclaimed clusters of a pool, or of all pools: those that are installed of those that
/// the pools are to keep.
pub fn count_clusters(store: &Store, pool: Option<&Key>) -> Result<WaitProgress, Refusal> {
    let pools: Vec<ClusterPool> = match pool {
        Some(key) => store.find::<ClusterPool>(key)?.into_iter().collect(),
        None => store.list_all::<ClusterPool>()?,
    };
    let ready = sum_of(&pools, |status| status.ready);
    let standby = sum_of(&pools, |status| status.standby);
    let deleting = sum_of(&pools, |status| status.deleting);
    let size = pools.iter().map(|pool| u64::from(pool.spec.size)).sum();
    let installing = sum_of(&pools, |status| status.installing);
    let retrying = sum_of(&pools, |status| status.retrying);
    let held = sum_of(&pools, |status| status.held);
    let mut counts = Vec::new();
    for (count, word) in [(ready, "ready"), (standby, "standby"), (held, "held")] {
        if count > 0 {
            counts.push(format!("{count} {word}"));
        }
    }
    if installing + retrying > 0 {
        counts.push(describe_installing(installing, retrying));
    }
    if deleting > 0 {
        counts.push(format!("{deleting} deprovisioning"));
    }
    let description =
        if counts.is_empty() { "no clusters yet".to_owned() } else { counts.join(", ") };
    let done = ready + standby;
    Ok(WaitProgress { done, total: size, description, ..WaitProgress::default() })
}

fn sum_of(pools: &[ClusterPool], count: fn(&PoolStatus) -> u32) -> u64 {
    pools.iter().map(|pool| u64::from(count(&pool.status))).sum()
}
