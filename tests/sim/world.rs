//! The simulated machine: a state in a folder of its own, the clocks, and the door of the library.
//! What people and clouds do goes through it.

use std::collections::BTreeSet;
use std::path::Path;

use poolctl::model::claim::Claim;
use poolctl::model::clock::{JudgedClocks, PassExtent};
use poolctl::model::refusal::Refusal;
use poolctl::model::state::{Scope, State};
use poolctl::model::tick::Tick;
use poolctl::model::time::{Span, Time};
use poolctl::plan;
use poolctl::reconcile::{Door, Notes, PassOutcome};
use poolctl::store::{NeededObject, Store};
use poolctl::world::World;
use tempfile::TempDir;

use super::clock::SimClock;
use super::trouble::Troubles;

/// A file system in memory, where a commit waits for no disk.
const MEMORY: &str = "/dev/shm";
const STATE: &str = "state.db";
/// The namespace of all pools and claims.
pub const NAMESPACE: &str = "default";

pub struct SimWorld {
    store: Store,
    /// Removed when the world ends.
    folder: TempDir,
    pub clock: SimClock,
    pub troubles: Troubles,
    /// Clusters that a person deleted or evicted, over all limits and beside all claims.
    pub taken_away: BTreeSet<String>,
    /// Clusters that a person has made to fail until they are blessed.
    pub cursed: BTreeSet<String>,
    /// How many objects people have edited so far. It makes their edits differ.
    edits: u32,
    seed: u64,
}

impl SimWorld {
    /// An empty state. The seed is that of the names in it.
    pub fn new(seed: u64) -> Result<Self, Refusal> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("poolctl-sim-");
        let is_in_memory = Path::new(MEMORY).is_dir();
        let folder = if is_in_memory { builder.tempdir_in(MEMORY) } else { builder.tempdir() };
        let folder = folder.map_err(|error| Refusal::invalid(error.to_string()))?;
        let store = Store::open_or_create(&folder.path().join(STATE))?;
        Ok(Self {
            store,
            folder,
            clock: SimClock::default(),
            troubles: Troubles::default(),
            taken_away: BTreeSet::new(),
            cursed: BTreeSet::new(),
            edits: 0,
            seed,
        })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Ends the program and the machine, and starts both again. Nothing is left but the files.
    pub fn reboot(&mut self) -> Result<(), Refusal> {
        self.store = Store::open(&self.folder.path().join(STATE))?;
        self.clock.boot();
        Ok(())
    }

    /// A number that no edit had before.
    pub fn next_edit(&mut self) -> u32 {
        self.edits += 1;
        self.edits
    }

    /// What a command that starts now knows of the world.
    fn read_world(&self) -> World {
        World::rehearsed(self.clock.read(), self.seed)
    }

    /// Changes the state as a command does.
    pub fn change<T>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let world = self.read_world();
        let door = Door { store: &self.store, world: &world, plans_changes: true };
        let (value, _) = door.change(scope, needs, edit)?;
        Ok(value)
    }

    /// Changes the state without planning, as an import does.
    pub fn change_without_plan(
        &self,
        edit: impl FnOnce(&mut State, &Tick) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let world = self.read_world();
        let door = Door { store: &self.store, world: &world, plans_changes: false };
        door.change(&Scope::Whole, &[], edit)?;
        Ok(())
    }

    /// Changes the state as a wrong rule of a plan would.
    pub fn corrupt(&self, edit: impl FnOnce(&mut State)) -> Result<(), Refusal> {
        self.change_without_plan(|state, _| {
            edit(state);
            Ok(())
        })
    }

    /// Has drivers report the troubles that jobs have met.
    pub fn report_troubles(&self) -> Result<(), Refusal> {
        let reports = self.troubles.reports(&self.load()?, self.now()?);
        if reports.is_empty() {
            return Ok(());
        }
        self.change(&Scope::Whole, &[], |state, tick| {
            plan::take_job_reports(state, reports, tick);
            Ok(())
        })
    }

    /// One pass over what is due, as cron starts it.
    pub fn run_pass(&self) -> Result<PassOutcome, Refusal> {
        let world = self.read_world();
        let door = Door { store: &self.store, world: &world, plans_changes: true };
        door.run_due_pass()
    }

    /// The state as a further pass over a scope would leave it.
    pub fn preview(&self, scope: &Scope) -> Result<State, Refusal> {
        let world = self.read_world();
        let door = Door { store: &self.store, world: &world, plans_changes: true };
        door.preview_pass(scope, Notes::Ignore).map(|(state, _)| state)
    }

    /// The whole state as it is stored.
    pub fn load(&self) -> Result<State, Refusal> {
        self.store.load(&Scope::Whole, &[])
    }

    /// The time that a pass would go by now, and whether it doubts the clock on the wall.
    fn judge_clock(&self) -> Result<JudgedClocks, Refusal> {
        let mark = self.store.read_mark()?;
        Ok(mark.clocks.judge(mark.now, self.clock.read(), PassExtent::Everything))
    }

    /// The time that a pass would go by now.
    pub fn now(&self) -> Result<Time, Refusal> {
        Ok(self.judge_clock()?.now)
    }

    /// Whether a pass would find that somebody has moved the clock on the wall. It lets nothing
    /// expire then, and a later one may.
    pub fn is_clock_doubted(&self) -> Result<bool, Refusal> {
        Ok(self.judge_clock()?.jumped)
    }

    /// How long it is until something is due after a pass. None if nothing is.
    pub fn time_until_due(&self) -> Result<Option<Span>, Refusal> {
        // A pass itself reads only what was due.
        let state = &self.load()?;
        let now = self.now()?;
        let world = self.read_world();
        let door = Door { store: &self.store, world: &world, plans_changes: true };
        let job_due = door.find_live_jobs(None)?.due;
        let due = [plan::next_due_at(state, now), job_due].into_iter().flatten().min();
        Ok(due.map(|due| due.since(now)))
    }

    /// The claims that wait, first come first.
    pub fn waiting_claims(&self) -> Result<Vec<Claim>, Refusal> {
        let mut claims = self.store.list_all::<Claim>()?;
        claims.retain(Claim::is_waiting);
        claims.sort_by_key(|claim| claim.created);
        Ok(claims)
    }
}
