//! The door and the pass: every change is load, edit, rules, plan, rules, write, COMMIT, and then
//! the jobs that are due. No `if` about pools.

mod act;
mod collect;
mod copy;
mod order;

pub use act::SUPERVISE;

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use crate::model::clock::{Judged, News};
use crate::model::customization::Customization;
use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::store::{Lock, Mark, Need, Refused, Store};
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
        let (value, mut passed) = self.alone(scope, || self.locked(scope, needs, edit))?;
        // What was leased or given back is another thing to pools that list it, too.
        for key in self.sharing(&passed.state)? {
            let scope = Scope::pool(key);
            match self.alone(&scope, || self.locked(&scope, &[], |_, _| Ok(()))) {
                Ok(((), theirs)) => passed.warnings.extend(theirs.warnings),
                // The change itself is committed, so that it cannot be refused any more.
                Err(refusal) if refusal.exit == Exit::State => {
                    passed.warnings.push(refusal.to_string());
                }
                // Their trouble is not ours: the next pass over everything says it.
                Err(_) => {}
            }
        }
        Ok((value, passed))
    }

    /// The same, but what came of it is looked at before it is written: refused, nothing happened.
    pub fn change_if<T, U>(
        &self,
        scope: &Scope,
        needs: &[Need],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
        look: impl FnOnce(&State, T) -> Result<U, Refusal>,
    ) -> Result<(U, Passed), Refusal> {
        self.alone(scope, || {
            let judged = self.judged(false)?;
            self.edited(scope, needs, judged, edit, look)
        })
    }

    /// Pools beyond the scope that list a customization which has another holder now.
    fn sharing(&self, state: &State) -> Result<Vec<Key>, Refusal> {
        let holder = |customization: Option<&Customization>| customization?.holder.clone();
        let changes = state.customizations.difference();
        let changes = changes.filter(|change| holder(change.before) != holder(change.after));
        let moved: HashSet<Key> =
            changes.filter_map(|change| Some(change.after.or(change.before)?.key())).collect();
        if moved.is_empty() || !self.pass {
            return Ok(Vec::new());
        }
        let mut pools = self.store.all::<ClusterPool>()?;
        pools.retain(|pool| {
            let entries = pool.spec.inventory.iter().flatten();
            let mut keys = entries.map(|entry| Key::new(&*pool.metadata.namespace, &*entry.name));
            keys.any(|key| moved.contains(&key))
        });
        let keys = pools.iter().map(ClusterPool::key);
        Ok(keys.filter(|key| state.pools.find(key).is_none()).collect())
    }

    /// Under the write lock, in one transaction; afterwards jobs are begun.
    fn alone<T>(
        &self,
        scope: &Scope,
        work: impl FnOnce() -> Result<(T, Passed), Refusal>,
    ) -> Result<(T, Passed), Refusal> {
        let lock = Lock::to_write(self.store.path())?;
        self.store.begin_write()?;
        let done = work();
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
        let judged = self.judged(whole)?;
        self.edited(scope, needs, judged, edit, |_, value| Ok(value))
    }

    fn edited<T, U>(
        &self,
        scope: &Scope,
        needs: &[Need],
        judged: Judged,
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
        look: impl FnOnce(&State, T) -> Result<U, Refusal>,
    ) -> Result<(U, Passed), Refusal> {
        let news = judged.news;
        let (tick, mark, _) = self.tick(judged)?;
        let mut state = self.store.load(scope, needs)?;
        state.events.extend(news.map(|news| (clock_jumped(news, &tick), None)));
        let value = edit(&mut state, &tick)?;
        self.store.load_references(scope, &mut state)?;
        rules::invariants(&state)?;
        if self.pass {
            self.plan(scope, &mut state, &tick)?;
        }
        let value = look(&state, value)?;
        if state.is_unchanged() {
            self.store.rollback();
            return Ok((value, Passed::new(state)));
        }
        // A command is done whole or not at all.
        if let Err(refusal) = store::write(self.store, &state, &mark) {
            return Err(self.with_pool(refusal, &state, &mark));
        }
        self.store.commit()?;
        self.store.checkpoint();
        Ok((value, Passed::new(state)))
    }

    /// Whose changes the database refuses: found by writing them pool by pool, and undone again.
    fn with_pool(&self, refusal: Refusal, state: &State, mark: &Mark) -> Refusal {
        self.store.rollback();
        let tried = self.store.begin_write();
        let refused = tried.and_then(|()| store::write_pool_by_pool(self.store, state, mark));
        self.store.rollback();
        match refused.unwrap_or_default().into_iter().next() {
            Some((pool, refusal)) => {
                let what = format!("{} (pool `{pool}`, InvariantViolated)", refusal.what);
                Refusal { what, ..refusal }
            }
            None => refusal,
        }
    }

    fn judged(&self, whole: bool) -> Result<Judged, Refusal> {
        let (_, last) = self.store.mark()?;
        Ok(last.clocks.judge(last.now, self.world.clocks(), whole))
    }

    /// What a pass knows, and what it leaves for the next one.
    fn tick(&self, judged: Judged) -> Result<(Tick, Mark, i64), Refusal> {
        let (revision, _) = self.store.mark()?;
        let tick = self.world.tick(&judged, revision.unsigned_abs());
        Ok((tick, Mark { now: judged.now, clocks: judged.clocks }, revision))
    }

    /// Collects finished jobs and plans to the fixed point.
    fn plan(&self, scope: &Scope, state: &mut State, tick: &Tick) -> Result<(), Refusal> {
        self.store.complete(scope, state)?;
        let reports = self.collect(state, tick)?;
        plan::absorb(state, reports, tick);
        let healths = self.healths(state)?;
        plan::look(state, healths, tick);
        let names = self.store.names_in_use();
        plan::settle(state, tick, &names).map_err(|plan::NotConverged| {
            Refusal::invalid("the plan did not settle; nothing was changed (NotConverged)")
                .advise("poolctl events, and report what led here")
        })?;
        names.check()?;
        rules::invariants(state)
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
        let now = self.judged(true)?.now;
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
        let loaded = self
            .judged(false)
            .and_then(|judged| self.tick(judged))
            .and_then(|(tick, _, _)| Ok((self.store.load(scope, needs)?, tick)));
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
        let planned = self.judged(whole).and_then(|judged| {
            let news = judged.news;
            let (tick, mark, revision) = self.tick(judged)?;
            let mut state = self.store.load(scope, &[])?;
            state.events.extend(news.map(|news| (clock_jumped(news, &tick), None)));
            self.plan(scope, &mut state, &tick)?;
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
            let refused = match store::write(self.store, state, mark) {
                Err(refusal) if refusal.exit == Exit::Conflict => {
                    // The lock is held: the state is still the one that was planned on.
                    self.store.rollback();
                    self.store.begin_write()?;
                    store::write_pool_by_pool(self.store, state, mark)?
                }
                written => written.map(|()| Refused::new())?,
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

    /// Under the write lock, each pool on its own, and then what is no pool's.
    fn pool_by_pool(&self, scope: &Scope) -> Result<Passed, Refusal> {
        let keys = match scope {
            Scope::Whole => self.store.pools_named()?,
            Scope::Pools(keys) => keys.clone(),
        };
        let (mut refused, mut warnings) = (Vec::new(), Vec::new());
        // One pass has one time, however many transactions it takes.
        let last = self.store.mark()?.1;
        let clocks = self.world.clocks();
        for key in keys {
            let judged = last.clocks.judge(last.now, clocks.clone(), *scope == Scope::Whole);
            let scope = Scope::pool(key.clone());
            let edit = || self.edited(&scope, &[], judged, |_, _| Ok(()), |_, ()| Ok(()));
            match self.alone(&scope, edit) {
                Ok(((), passed)) => warnings.extend(passed.warnings),
                Err(refusal) if refusal.exit == Exit::State => return Err(refusal),
                Err(refusal) => {
                    self.note(&key, &refusal)?;
                    refused.push((Rc::new(key), refusal));
                }
            }
        }
        if *scope == Scope::Whole {
            let judged = last.clocks.judge(last.now, clocks, true);
            let edit = || self.edited(scope, &[], judged, |_, _| Ok(()), |_, ()| Ok(()));
            match self.alone(scope, edit) {
                Ok(((), passed)) => warnings.extend(passed.warnings),
                // A pool that is refused is refused here too, and what is nobody's waits for it.
                Err(refusal) if refused.is_empty() => return Err(refusal),
                Err(_) => {}
            }
        }
        Ok(Passed { state: self.store.load(scope, &[])?, refused, warnings })
    }

    /// Writes down why a pool's changes were undone, unless that is the last thing known of it.
    fn note(&self, pool: &Key, refusal: &Refusal) -> Result<(), Refusal> {
        let known = self.store.events(Some((Kind::ClusterPool, pool)), 1)?;
        let new = store::violated(pool, refusal, self.judged(false)?.now);
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
}

fn clock_jumped(news: News, tick: &Tick) -> Event {
    let message = match news {
        News::Moved => {
            "The clock was moved; nothing expires until it is back or has stayed there for an hour"
        }
        News::Believed => "The clock stays where it was moved to; from the next pass on it counts",
    };
    Event {
        time: tick.now,
        warning: true,
        reason: EventReason::ClockJumped.into(),
        kind: Kind::Settings.name(),
        object: Key::new("", "default"),
        actor: tick.actor.clone(),
        message: message.into(),
        ..Event::default()
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
