//! The door and the pass: every change is load, edit, rules, plan, rules, write, COMMIT, and then
//! the jobs that are due. No `if` about pools.

mod act;

pub use act::SUPERVISE;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::drivers::{self, Work};
use crate::model::cluster::LEFT_BY_INSTALLATION;
use crate::model::event::Event;
use crate::model::job::{Health, Job, Outcome, Report};
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::store::{Lock, Mark, Need, Store};
use crate::world::World;
use crate::{plan, rules, store};

/// How often a whole pass plans without the write lock before it takes it pool by pool.
const TRIES: usize = 2;

/// The state file and the world, and whether changes end with a pass.
pub struct Door<'a> {
    pub store: &'a Store,
    pub world: &'a World,
    pub pass: bool,
}

/// Pools whose changes were undone, and why.
type Refused = Vec<(Rc<Key>, Refusal)>;

/// What a pass did or would do, and the pools whose changes were refused.
#[derive(Debug)]
pub struct Passed {
    pub state: State,
    pub refused: Refused,
    /// What went wrong after the commit and is tried again by the next pass.
    pub warnings: Vec<String>,
}

/// What still works, and when it will be over as far as drivers know.
#[derive(Debug, Default)]
pub struct InFlight {
    pub jobs: Vec<Job>,
    pub due: Option<Time>,
}

impl Door<'_> {
    /// The one way to change anything. The edit sees the scope and what it needs beyond it; if it
    /// refuses, nothing has happened.
    pub fn change<T>(
        &self,
        scope: &Scope,
        needs: &[Need],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<(T, Passed), Refusal> {
        let lock = Lock::to_write(self.store.path())?;
        self.store.begin_write()?;
        let done = self.locked(scope, needs, edit);
        if done.is_err() {
            self.store.rollback();
        }
        drop(lock);
        let (value, mut passed) = done?;
        passed.warnings = self.act(&passed.state, scope);
        Ok((value, passed))
    }

    fn locked<T>(
        &self,
        scope: &Scope,
        needs: &[Need],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<(T, Passed), Refusal> {
        let whole = *scope == Scope::Whole && self.pass;
        let (tick, mark, _) = self.tick(whole)?;
        let mut state = self.store.load(scope, needs)?;
        let value = edit(&mut state, &tick)?;
        rules::invariants(&state)?;
        self.store.load_references(scope, &mut state)?;
        if self.pass {
            self.plan(&mut state, &tick)?;
        }
        if state.is_unchanged() {
            self.store.rollback();
            return Ok((value, Passed::new(state)));
        }
        // A command is done whole or not at all.
        if let Some((pool, refusal)) = store::write(self.store, &state, &mark)?.into_iter().next() {
            let what = format!("{} (pool `{pool}`, InvariantViolated)", refusal.what);
            return Err(Refusal { what, ..refusal });
        }
        self.store.commit()?;
        self.store.checkpoint();
        Ok((value, Passed::new(state)))
    }

    fn tick(&self, whole: bool) -> Result<(Tick, Mark, i64), Refusal> {
        let (revision, last) = self.store.mark()?;
        let judged = last.clocks.judge(last.now, self.world.clocks(), whole);
        let tick = self.world.tick(&judged, revision.unsigned_abs());
        Ok((tick, Mark { now: judged.now, clocks: judged.clocks }, revision))
    }

    /// Collects finished jobs and plans to the fixed point.
    fn plan(&self, state: &mut State, tick: &Tick) -> Result<(), Refusal> {
        if tick.news {
            state.event(clock_jumped(tick));
        }
        let reports = self.collect(state, tick)?;
        plan::absorb(state, reports, tick);
        let healths = self.healths(state)?;
        plan::look(state, healths, tick);
        let names = self.store.names_in_use();
        plan::settle(state, tick, &names).map_err(|plan::NotConverged| {
            Refusal::invalid("the plan did not settle; nothing was changed (NotConverged)")
                .next("poolctl events, and report what led here")
        })?;
        names.check()?;
        rules::invariants(state)
    }

    fn collect(&self, state: &mut State, tick: &Tick) -> Result<Vec<Report>, Refusal> {
        let mut reports = Vec::new();
        let jobs: Vec<Job> = state.jobs.rows().filter(|job| job.ended.is_none()).cloned().collect();
        for job in jobs {
            let found = self.with_work(state, &job, |work| {
                let mut said = drivers::collect(work, tick.now);
                if said.iter().all(|one| matches!(one.outcome, Outcome::Saved(_)))
                    && drivers::begun(work)
                {
                    said.extend(plan::overdue(&job, &work.annotations, tick));
                }
                said
            })?;
            for report in found.unwrap_or_default() {
                if self.is_news(state, &job, &report)? {
                    self.store.load_cluster_body(state, &job.object)?;
                    reports.push(report);
                }
            }
        }
        Ok(reports)
    }

    /// How clusters do whose driver has done its part of waking or stopping them.
    fn healths(&self, state: &State) -> Result<Vec<(String, Health)>, Refusal> {
        let waiting = state.clusters.rows().filter(|one| one.power.waits());
        let mut found = Vec::new();
        for one in waiting.filter(|one| one.installed() && one.deleting.is_none()) {
            let steering = self.store.steering(&one.name)?;
            let health = drivers::health(one.driver, &steering, &one.name);
            found.extend(health.map(|health| (one.name.clone(), health)));
        }
        Ok(found)
    }

    fn with_work<T>(
        &self,
        state: &State,
        job: &Job,
        ask: impl FnOnce(&Work<'_>) -> T,
    ) -> Result<Option<T>, Refusal> {
        let annotations = self.store.steering(&job.object)?.annotations;
        let Some(cluster) = state.cluster(&job.object).and_then(|at| state.clusters.get(at)) else {
            return Ok(None);
        };
        let (cluster_name, base_domain) = (&cluster.cluster_name, &cluster.base_domain);
        let jobs = &self.jobs();
        Ok(Some(ask(&Work { job, cluster_name, base_domain, annotations, jobs })))
    }

    /// What a running job has saved is told once; it goes where what is there already was loaded.
    fn is_news(&self, state: &mut State, job: &Job, report: &Report) -> Result<bool, Refusal> {
        let (Outcome::Saved(made) | Outcome::Installed(made)) = &report.outcome else {
            return Ok(true);
        };
        if !job.driver.supervised() {
            return Ok(true);
        }
        let Some(at) = state.cluster(&job.object) else { return Ok(false) };
        let namespace = state.clusters.get(at).map(|one| one.namespace.clone()).unwrap_or_default();
        for what in LEFT_BY_INSTALLATION {
            let key = Key::new(&*namespace, format!("{}-{what}", job.object));
            self.store.load_secret(state, &key)?;
        }
        let key = Key::new(&*namespace, format!("{}-metadata-json", job.object));
        let known = self.store.secret_value(&key, "metadata.json")?;
        let same = known == made.metadata;
        Ok(!same || matches!(report.outcome, Outcome::Installed(_)))
    }

    /// One pass over everything, or over a pool. Plans without a lock, and takes the lock only to
    /// write a difference; whoever was faster makes it plan again.
    pub fn pass(&self, scope: &Scope) -> Result<Passed, Refusal> {
        if *scope == Scope::Whole {
            self.prune()?;
        }
        for _ in 0..TRIES {
            let (planned, revision, mark) = match self.plan_only(scope) {
                Ok(found) => found,
                Err(refusal) if refusal.exit == Exit::State => return Err(refusal),
                // One pool's trouble is not the others'.
                Err(_) => return self.pool_by_pool(scope),
            };
            let refused = if planned.is_unchanged() {
                Some(Refused::new())
            } else {
                match self.commit_if(&planned, revision, &mark) {
                    Err(refusal) if refusal.exit == Exit::Conflict => {
                        return self.pool_by_pool(scope);
                    }
                    written => written?,
                }
            };
            if let Some(refused) = refused {
                let warnings = self.act(&planned, scope);
                return Ok(Passed { state: planned, refused, warnings });
            }
        }
        self.pool_by_pool(scope)
    }

    fn prune(&self) -> Result<(), Refusal> {
        let now = self.tick(true)?.0.now;
        if !self.store.wants_pruning(now)? {
            return Ok(());
        }
        let _lock = Lock::to_write(self.store.path())?;
        self.store.begin_write()?;
        let pruned = self.store.prune(now).and_then(|()| self.store.commit());
        if pruned.is_err() {
            self.store.rollback();
        }
        pruned
    }

    /// What a change would start from: for edits that are shown, not made.
    pub fn imagine(&self, scope: &Scope, needs: &[Need]) -> Result<(State, Tick), Refusal> {
        self.store.begin_read()?;
        let loaded =
            self.tick(false).and_then(|(tick, _, _)| Ok((self.store.load(scope, needs)?, tick)));
        self.store.rollback();
        loaded
    }

    /// What a pass would do.
    pub fn preview(&self, scope: &Scope) -> Result<State, Refusal> {
        self.plan_only(scope).map(|(state, _, _)| state)
    }

    fn plan_only(&self, scope: &Scope) -> Result<(State, i64, Mark), Refusal> {
        self.store.begin_read()?;
        let whole = *scope == Scope::Whole;
        let planned = self.tick(whole).and_then(|(tick, mark, revision)| {
            let mut state = self.store.load(scope, &[])?;
            self.plan(&mut state, &tick)?;
            Ok((state, revision, mark))
        });
        self.store.rollback();
        planned
    }

    fn commit_if(
        &self,
        state: &State,
        revision: i64,
        mark: &Mark,
    ) -> Result<Option<Refused>, Refusal> {
        let _lock = Lock::to_write(self.store.path())?;
        self.store.begin_write()?;
        let written = self.store.mark().and_then(|(found, _)| {
            if found != revision {
                return Ok(None);
            }
            let refused = store::write(self.store, state, mark)?;
            self.store.commit()?;
            Ok(Some(refused))
        });
        if !matches!(written, Ok(Some(_))) {
            self.store.rollback();
        }
        self.store.checkpoint();
        written
    }

    /// Under the write lock, each pool on its own.
    fn pool_by_pool(&self, scope: &Scope) -> Result<Passed, Refusal> {
        let keys = match scope {
            Scope::Whole => self.store.pools_named()?,
            Scope::Pools(keys) => keys.clone(),
        };
        let (mut refused, mut warnings) = (Vec::new(), Vec::new());
        for key in keys {
            match self.change(&Scope::pool(key.clone()), &[], |_, _| Ok(())) {
                Ok(((), passed)) => warnings.extend(passed.warnings),
                Err(refusal) if refusal.exit == Exit::State => return Err(refusal),
                Err(refusal) => {
                    self.note(&key, &refusal)?;
                    refused.push((Rc::new(key), refusal));
                }
            }
        }
        Ok(Passed { state: self.store.load(scope, &[])?, refused, warnings })
    }

    /// Writes down why a pool's changes were undone, unless that is the last thing known of it.
    fn note(&self, pool: &Key, refusal: &Refusal) -> Result<(), Refusal> {
        let known = self.store.events(Some((Kind::ClusterPool, pool)), 1)?;
        let (_, mark, _) = self.tick(false)?;
        let new = store::violated(pool, refusal, mark.now);
        if known.first().is_some_and(|known| known.message == new.message) {
            return Ok(());
        }
        let edit = Self { pass: false, ..*self };
        edit.change(&Scope::Pools(Vec::new()), &[], |state, _| {
            state.event(new);
            Ok(())
        })?;
        Ok(())
    }

    /// Live jobs, of one pool or all.
    pub fn in_flight(&self, pool: Option<&Key>) -> Result<InFlight, Refusal> {
        let mut found = InFlight::default();
        for job in self.store.jobs(None, true)? {
            if pool.is_some_and(|pool| job.pool.as_deref() != Some(pool)) {
                continue;
            }
            let annotations = self.store.steering(&job.object)?.annotations;
            let (cluster_name, base_domain) = ("", "");
            let deadline = plan::deadline(&job, &annotations);
            let jobs = &self.jobs();
            let due =
                drivers::due(&Work { job: &job, cluster_name, base_domain, annotations, jobs });
            let due = due.map(|due| due.min(deadline));
            found.due = [found.due, due].into_iter().flatten().min();
            found.jobs.push(job);
        }
        Ok(found)
    }
}

fn clock_jumped(tick: &Tick) -> Event {
    Event {
        time: tick.now,
        warning: true,
        reason: "ClockJumped".into(),
        kind: Kind::Settings.name(),
        object: Key::new("", "default"),
        actor: tick.actor.clone(),
        message: "The clock was moved; nothing expires in this pass, nor until the clock is back \
                  or has stayed there for an hour"
            .into(),
    }
}

impl Passed {
    fn new(state: State) -> Self {
        Self { state, refused: Vec::new(), warnings: Vec::new() }
    }

    /// Refused pools make the command fail, after the others were committed.
    pub fn check(&self) -> Result<(), Refusal> {
        let Some((pool, refusal)) = self.refused.first() else {
            return Ok(());
        };
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for (pool, refusal) in &self.refused {
            all.insert(pool.to_string(), refusal.what.clone());
        }
        let names: Vec<String> = all.into_keys().collect();
        let what =
            format!("changes of pool `{}` were undone (InvariantViolated)", names.join("`, `"));
        let mut found = Refusal::new(Exit::Failed, what).because(refusal.what.clone());
        found.causes.extend(refusal.causes.clone());
        Err(found.next(format!("poolctl events clusterpool/{}", pool.name)))
    }
}
