//! Changes the state and runs passes over it. Every change goes through one door: load, edit, check
//! the rules, plan, check again, write, commit, and only then start the jobs that are due. What
//! happens to a pool is decided in `plan`, never here.

mod act;
mod answer;
mod cluster_files;
mod collect;
mod copy;
mod due;
mod notes;
mod order;
mod parts;
mod rehearsal;
mod sightings;
mod site;
mod steps;
mod trial;
mod wipe_order;

pub use act::{SUPERVISE_COMMAND, TELL_COMMAND};
pub use answer::Answered;
pub use notes::Notes;
pub use steps::Steps;

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use crate::model::clock::{ClockNews, JudgedClocks, PassExtent};
use crate::model::due::DueChanges;
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::store::{CommitMark, NeededObject, RefusedPools, Store, SweepProgress};
use crate::world::World;
use crate::{plan, rules, store};

/// How often a pass plans without the write lock before it locks and plans pool by pool.
const TRIES: usize = 2;

/// How many steps of removing old records a pass takes at most, so that it does not take long.
const MAX_PRUNING_STEPS: usize = 50;

/// The state file and the world that a change needs.
pub struct Door<'a> {
    pub store: &'a Store,
    pub world: &'a World,
    /// Whether a change is planned before it is committed. Without a plan, the next pass draws the
    /// consequences of the edit.
    pub plans_changes: bool,
}

/// What a change or a pass has committed.
#[derive(Debug)]
pub struct PassOutcome {
    /// The state after the plan, with its difference to the one before.
    pub state: State,
    /// The pools whose changes were undone, and why.
    pub refused: RefusedPools,
    /// What went wrong after the commit and is tried again by the next pass.
    pub warnings: Vec<String>,
}

/// The jobs that have not ended.
#[derive(Debug, Default)]
pub struct LiveJobs {
    /// In the order in which they were started.
    pub jobs: Vec<Job>,
    /// When the first of them will have ended, as far as its driver knows, or will be overdue.
    pub due: Option<Time>,
}

/// What a pass begins with.
struct PassStart {
    /// What it knows of the world.
    tick: Tick,
    /// What its commit leaves for the next pass.
    mark: CommitMark,
}

/// What a pass would write, planned without the write lock.
struct PlannedPass {
    state: State,
    /// It may be written only while its revision is the newest.
    mark: CommitMark,
    due: DueChanges,
    tick: Tick,
}

impl Door<'_> {
    /// The one way to change anything. `edit` gets the scope and the objects of `needs`. If it
    /// refuses, nothing has happened.
    pub fn change<T>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<(T, PassOutcome), Refusal> {
        let (value, mut passed) =
            self.change_and_act(scope, || self.commit_edit(scope, needs, edit))?;
        self.plan_sharing_pools(&mut passed)?;
        Ok((value, passed))
    }

    /// A customization that was leased or given back concerns every pool that lists it: these are
    /// planned, too, each in a commit of its own.
    fn plan_sharing_pools(&self, passed: &mut PassOutcome) -> Result<(), Refusal> {
        for pool_key in self.find_pools_sharing_customizations(&passed.state)? {
            let pool_scope = Scope::pool(pool_key);
            let planned = self
                .change_and_act(&pool_scope, || self.commit_edit(&pool_scope, &[], |_, _| Ok(())));
            match planned {
                Ok(((), pool_passed)) => passed.warnings.extend(pool_passed.warnings),
                // The change itself is committed, so it can no longer be refused.
                Err(refusal) if refusal.is_about_state_file() => {
                    passed.warnings.push(refusal.to_string());
                }
                // The next pass over everything reports what is wrong with that pool.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Changes the state only if `check` accepts the planned state. If it refuses, nothing has
    /// happened.
    pub fn change_if_accepted<T, U>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
        check: impl FnOnce(&State, T) -> Result<U, Refusal>,
    ) -> Result<(U, PassOutcome), Refusal> {
        let (value, mut passed) = self.change_and_act(scope, || {
            let judged = self.judge_clock(PassExtent::Part)?;
            self.commit_checked_edit(scope, needs, judged, edit, check)
        })?;
        self.plan_sharing_pools(&mut passed)?;
        Ok((value, passed))
    }

    /// The pools beyond the scope that list a customization whose holder has changed.
    fn find_pools_sharing_customizations(&self, state: &State) -> Result<BTreeSet<Key>, Refusal> {
        let mut moved_customizations: HashSet<Key> = HashSet::new();
        for change in state.customizations.difference() {
            let holder_before = change.before.and_then(|before| before.holder.as_ref());
            let holder_after = change.after.and_then(|after| after.holder.as_ref());
            if holder_before != holder_after
                && let Some(customization) = change.after.or(change.before)
            {
                moved_customizations.insert(customization.key());
            }
        }
        if moved_customizations.is_empty() || !self.plans_changes {
            return Ok(BTreeSet::new());
        }
        let mut pools = self.store.find_pools_listing(&moved_customizations)?;
        pools.retain(|pool| state.pools.find(pool).is_none());
        Ok(pools)
    }

    /// Changes the state under the write lock. After the commit the lock is free again and jobs are
    /// started.
    fn change_and_act<T>(
        &self,
        scope: &Scope,
        work: impl FnOnce() -> Result<(T, PassOutcome), Refusal>,
    ) -> Result<(T, PassOutcome), Refusal> {
        let (value, mut passed) = self.run_under_write_lock(work)?;
        passed.warnings = self.act_after_commit(&passed.state, scope);
        Ok((value, passed))
    }

    /// Does the work, which commits, in one transaction under the write lock.
    fn run_under_write_lock<T>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let lock = self.store.lock_to_write()?;
        self.store.begin_write()?;
        let result = work();
        if result.is_err() {
            self.store.rollback();
        }
        drop(lock);
        result
    }

    /// Loads, edits, plans and commits. Needs an open write transaction.
    fn commit_edit<T>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<(T, PassOutcome), Refusal> {
        let extent = if self.plans_changes { extent_of(scope) } else { PassExtent::Part };
        let judged = self.judge_clock(extent)?;
        self.commit_checked_edit(scope, needs, judged, edit, |_, value| Ok(value))
    }

    /// As `commit_edit`, but `check` sees the planned state before it is written, and may refuse.
    fn commit_checked_edit<T, U>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        judged: JudgedClocks,
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
        check: impl FnOnce(&State, T) -> Result<U, Refusal>,
    ) -> Result<(U, PassOutcome), Refusal> {
        let news = judged.news;
        let PassStart { tick, mark } = self.begin_pass(judged)?;
        let mut state = self.store.load(scope, needs)?;
        state.events.extend(news.map(|news| (clock_jumped_event(news, &tick), None)));
        let value = edit(&mut state, &tick)?;
        let edited = state.changed_kinds();
        // Nothing is wrong with a machine because it was heard of, so nothing is loaded to check it.
        if self.plans_changes || !due::are_signs_of_life(&state, &edited, tick.now) {
            self.check_edit(scope, &mut state)?;
        }
        if self.plans_changes {
            self.plan_to_fixed_point(scope, &mut state, &tick)?;
        }
        let value = check(&state, value)?;
        let due = self.due_changes(scope, &state, &edited, self.plans_changes, &tick)?;
        self.write_and_commit(&state, &due, &mark)?;
        self.store.checkpoint();
        Ok((value, PassOutcome::new(state)))
    }

    /// Refuses an edit after which the state would be wrong, by itself or beside what it refers to.
    fn check_edit(&self, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
        self.store.load_references(scope, state)?;
        rules::check_invariants(state)?;
        plan::check_edited_input(state)
    }

    /// Writes what has changed and commits it. A command changes all that it was asked to change,
    /// or nothing: unlike a pass, it is not written pool by pool.
    fn write_and_commit(
        &self,
        state: &State,
        due: &DueChanges,
        mark: &CommitMark,
    ) -> Result<(), Refusal> {
        if self.has_nothing_to_write(state, due, mark)? {
            self.store.rollback();
            return Ok(());
        }
        self.announce_removals(state)?;
        if let Err(refusal) = store::write(self.store, state, due, mark) {
            return Err(self.name_refused_pool(refusal, state, due, mark));
        }
        self.store.commit()
    }

    fn has_nothing_to_write(
        &self,
        state: &State,
        due: &DueChanges,
        mark: &CommitMark,
    ) -> Result<bool, Refusal> {
        Ok(!mark.begins_anew && state.is_unchanged() && !self.store.is_due_changed(due)?)
    }

    /// Adds to a refusal of the database which pool's changes it refuses. To find the pool, the
    /// changes are written pool by pool and then rolled back.
    fn name_refused_pool(
        &self,
        refusal: Refusal,
        state: &State,
        due: &DueChanges,
        mark: &CommitMark,
    ) -> Refusal {
        self.store.rollback();
        let begun = self.store.begin_write();
        let refused = begun.and_then(|()| store::write_pool_by_pool(self.store, state, due, mark));
        self.store.rollback();
        match refused.unwrap_or_default().into_iter().next() {
            Some((pool, pool_refusal)) => {
                let message = format!("{} (pool `{pool}`, InvariantViolated)", pool_refusal.what);
                Refusal { what: message, ..pool_refusal }
            }
            None => refusal,
        }
    }

    /// Whether the clock can be believed, compared with that of the last pass.
    fn judge_clock(&self, extent: PassExtent) -> Result<JudgedClocks, Refusal> {
        let last_mark = self.store.read_mark()?;
        Ok(last_mark.clocks.judge(last_mark.now, self.world.read_clocks(), extent))
    }

    /// Reads what a pass has to know before it loads anything. `judged` is the time of the pass.
    fn begin_pass(&self, judged: JudgedClocks) -> Result<PassStart, Refusal> {
        let revision = self.store.read_revision()?;
        let tick = self.world.tick(&judged, revision.unsigned_abs());
        let mark = CommitMark {
            now: judged.now,
            clocks: judged.clocks,
            begins_anew: judged.begins_anew,
            revision,
        };
        Ok(PassStart { tick, mark })
    }

    /// Collects what drivers report and plans until nothing changes any more.
    fn plan_to_fixed_point(
        &self,
        scope: &Scope,
        state: &mut State,
        tick: &Tick,
    ) -> Result<(), Refusal> {
        self.store.load_owning_pools(scope, state)?;
        let reports = self.collect_reports(state, tick)?;
        plan::take_job_reports(state, reports, tick);
        let healths = self.simulate_healths(state)?;
        plan::take_healths(state, healths, tick);
        self.look_at_drivers(state)?;
        let names = self.store.stored_books();
        plan::settle(state, tick, &names).map_err(|plan::NotConverged| {
            Refusal::invalid("the plan did not settle; nothing was changed (NotConverged)")
                .advise("poolctl events, and report what led here")
        })?;
        names.check()?;
        rules::check_invariants(state)
    }

    /// One pass over everything, or over some pools. Plans without a lock, and takes the write lock
    /// only if there is something to write. If another command has committed in between, it plans
    /// again, and in the end pool by pool under the lock.
    pub fn run_pass(&self, scope: &Scope) -> Result<PassOutcome, Refusal> {
        self.run_pass_with(scope, &[])
    }

    /// As `run_pass`, over some objects and what belongs to them besides.
    fn run_pass_with(&self, scope: &Scope, needs: &[NeededObject]) -> Result<PassOutcome, Refusal> {
        for _ in 0..TRIES {
            let planned = match self.plan_without_lock(scope, needs, Notes::Trust) {
                Ok(planned) => planned,
                Err(refusal) if refusal.is_about_state_file() => return Err(refusal),
                // What is wrong with one pool must not keep the others from their pass.
                Err(_) => return self.pass_pool_by_pool(scope, needs),
            };
            // A pass commits also to note what it has settled, a command does not.
            let has_nothing_to_write = planned.state.agents.newly_settled().next().is_none()
                && self.has_nothing_to_write(&planned.state, &planned.due, &planned.mark)?;
            let refused = if has_nothing_to_write {
                Some(RefusedPools::new())
            } else {
                match self.commit_at_revision(&planned) {
                    Err(refusal) if refusal.exit == Exit::Conflict => {
                        return self.pass_pool_by_pool(scope, needs);
                    }
                    written => written?,
                }
            };
            if let Some(refused) = refused {
                let warnings = self.act_after_commit(&planned.state, scope);
                return Ok(PassOutcome { state: planned.state, refused, warnings });
            }
        }
        self.pass_pool_by_pool(scope, needs)
    }

    /// Removes records of the past that are too old to be kept, when the store says it is time.
    fn prune_old_records(&self) -> Result<(), Refusal> {
        let now = self.judge_clock(PassExtent::Everything)?.now;
        if !self.store.wants_pruning(now)? {
            return Ok(());
        }
        // What is left after so many steps is for the next pass.
        for _ in 0..MAX_PRUNING_STEPS {
            // Others may take the write lock between two steps.
            let progress = self.store.write_under_lock(|| self.store.prune_step(now))?;
            if progress == SweepProgress::Finished {
                break;
            }
        }
        self.store.checkpoint();
        Ok(())
    }

    /// The state as a pass would leave it, and what the pass would know of the world.
    pub fn preview_pass(&self, scope: &Scope, notes: Notes) -> Result<(State, Tick), Refusal> {
        let planned = self.plan_without_lock(scope, &[], notes)?;
        Ok((planned.state, planned.tick))
    }

    fn plan_without_lock(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        notes: Notes,
    ) -> Result<PlannedPass, Refusal> {
        self.store.read_snapshot(|| {
            let judged = self.judge_clock(extent_of(scope))?;
            let news = judged.news;
            let PassStart { tick, mark } = self.begin_pass(judged)?;
            let mut state = self.store.load(scope, &[])?;
            state.events.extend(news.map(|news| (clock_jumped_event(news, &tick), None)));
            if !needs.is_empty() {
                self.store.load_due_objects(&mut state, needs)?;
                self.store.load_references(scope, &mut state)?;
            }
            if notes == Notes::Ignore {
                state.agents.forget_settled_rows();
            }
            self.plan_to_fixed_point(scope, &mut state, &tick)?;
            let due = self.due_changes(scope, &state, &BTreeSet::new(), true, &tick)?;
            store::refuse_unreadable_parts(&state.decode_error)?;
            Ok(PlannedPass { state, mark, due, tick })
        })
    }

    /// Writes a planned state, and returns the pools that were refused. Writes nothing and returns
    /// None if the state has another revision than the one that was planned on.
    fn commit_at_revision(&self, planned: &PlannedPass) -> Result<Option<RefusedPools>, Refusal> {
        let PlannedPass { state, mark, due, .. } = planned;
        let _lock = self.store.lock_to_write()?;
        self.store.begin_write()?;
        let written = self.store.read_revision().and_then(|current_revision| {
            if current_revision != mark.revision {
                return Ok(None);
            }
            self.announce_removals(state)?;
            let refused = match store::write(self.store, state, due, mark) {
                Err(refusal) if refusal.exit == Exit::Conflict => {
                    // The write lock is still held, so nobody can change the state between these
                    // two transactions.
                    self.store.rollback();
                    self.store.begin_write()?;
                    store::write_pool_by_pool(self.store, state, due, mark)?
                }
                written => written.map(|()| RefusedPools::new())?,
            };
            self.store.commit()?;
            Ok(Some(refused))
        });
        if !matches!(written, Ok(Some(_))) {
            self.store.rollback();
        }
        self.store.checkpoint();
        written
    }

    /// Plans and commits each pool on its own under the write lock, and then what belongs to no
    /// pool. A pool that is refused does not keep the others from being committed.
    fn pass_pool_by_pool(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
    ) -> Result<PassOutcome, Refusal> {
        let extent = extent_of(scope);
        let pool_keys = match scope {
            Scope::Whole => self.store.list_named_pools()?,
            Scope::WithoutPool => Vec::new(),
            Scope::Pools(keys) => keys.clone(),
        };
        let mut refused = RefusedPools::new();
        let mut warnings = Vec::new();
        // One pass has one time, however many transactions it takes.
        let last_mark = self.store.read_mark()?;
        let clocks = self.world.read_clocks();
        for pool_key in pool_keys {
            let judged = last_mark.clocks.judge(last_mark.now, clocks.clone(), extent);
            match self.commit_pass(&Scope::pool(pool_key.clone()), &[], judged) {
                Ok(passed) => warnings.extend(passed.warnings),
                Err(refusal) if refusal.is_about_state_file() => return Err(refusal),
                Err(refusal) => {
                    self.record_refused_pool(&pool_key, &refusal)?;
                    self.keep_pool_due(&pool_key)?;
                    refused.push((Rc::new(pool_key), refusal));
                }
            }
        }
        if extent == PassExtent::Everything || !needs.is_empty() {
            let judged = last_mark.clocks.judge(last_mark.now, clocks, extent);
            let no_pool = Scope::Pools(Vec::new());
            let last_scope = if extent == PassExtent::Everything { scope } else { &no_pool };
            match self.commit_pass(last_scope, needs, judged) {
                Ok(passed) => warnings.extend(passed.warnings),
                Err(refusal) if refused.is_empty() => return Err(refusal),
                // This pass includes the refused pool and is refused with it. What belongs to no
                // pool waits until that pool is mended.
                Err(_) => {}
            }
        }
        Ok(PassOutcome { state: self.store.load(scope, &[])?, refused, warnings })
    }

    /// One pass over a scope and the objects that are needed besides, under the write lock.
    fn commit_pass(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        judged: JudgedClocks,
    ) -> Result<PassOutcome, Refusal> {
        let ((), passed) = self.change_and_act(scope, || {
            self.commit_checked_edit(
                scope,
                &[],
                judged,
                |state, _| self.store.load_due_objects(state, needs),
                |_, ()| Ok(()),
            )
        })?;
        Ok(passed)
    }

    /// What was planned for a pool was undone, so it is still to be done.
    fn keep_pool_due(&self, pool: &Key) -> Result<(), Refusal> {
        let _lock = self.store.lock_to_write()?;
        self.store.mark_pool_due(pool)
    }

    /// Records in an event why a pool's changes were undone, unless its last event says so already.
    fn record_refused_pool(&self, pool: &Key, refusal: &Refusal) -> Result<(), Refusal> {
        let last_events = self.store.list_events(Some((Kind::ClusterPool, pool)), 1)?;
        let event =
            store::invariant_violated_event(pool, refusal, self.judge_clock(PassExtent::Part)?.now);
        if last_events.first().is_some_and(|last_event| last_event.message == event.message) {
            return Ok(());
        }
        let door_without_pass = Self { plans_changes: false, ..*self };
        door_without_pass.change(&Scope::Pools(Vec::new()), &[], |state, _| {
            state.record_event(event);
            Ok(())
        })?;
        Ok(())
    }
}

fn extent_of(scope: &Scope) -> PassExtent {
    match scope {
        // The scope without pools ends a pass over everything: the clock is judged as in one.
        Scope::Whole | Scope::WithoutPool => PassExtent::Everything,
        Scope::Pools(_) => PassExtent::Part,
    }
}

fn clock_jumped_event(news: ClockNews, tick: &Tick) -> Event {
    let message = match news {
        ClockNews::Moved => {
            "The clock jumped; nothing expires until it is right, or keeps the new time for an hour"
        }
        ClockNews::Believed => {
            "The clock has kept the new time; from the next pass on, expiry follows it again"
        }
    };
    Event {
        time: tick.now,
        event_type: EventType::Warning,
        reason: EventReason::ClockJumped.into(),
        kind: Kind::Settings.name(),
        object: Key::new("", "default"),
        actor: tick.actor.clone(),
        message: message.into(),
        ..Event::default()
    }
}

impl PassOutcome {
    fn new(state: State) -> Self {
        Self { state, refused: Vec::new(), warnings: Vec::new() }
    }

    /// The error of a command whose pass had to undo the changes of some pools. The changes of the
    /// other pools are committed.
    pub fn check_refused_pools(&self) -> Result<(), Refusal> {
        let Some((pool, refusal)) = self.refused.first() else {
            return Ok(());
        };
        let pool_names: BTreeSet<String> =
            self.refused.iter().map(|(refused_pool, _)| refused_pool.to_string()).collect();
        let pool_names: Vec<String> = pool_names.into_iter().collect();
        let message = format!(
            "changes of pool `{}` were undone (InvariantViolated)",
            pool_names.join("`, `")
        );
        let mut summary = Refusal::new(Exit::Failed, message).because(refusal.what.clone());
        summary.causes.extend(refusal.causes.clone());
        Err(summary.next(format!("poolctl events clusterpool/{}", pool.name)))
    }
}
