//! The referee: runs passes, and judges the state after everything that happens by the laws that it
//! is told to look at.

use poolctl::model::object::Object;
use poolctl::model::refusal::{Exit, Refusal};
use poolctl::model::state::{Scope, State};

use super::canary::Canary;
use super::hive_trip::check_hive_trip;
use super::law::{self, Law, Observed, Violation};
use super::round_trip::{check_import, check_round_trip};
use super::world::SimWorld;

/// What no refusal of a person's edit may say: the library itself has come to a wrong state.
const DEFECTS: [&str; 2] = ["InvariantViolated", "NotConverged"];

pub struct Referee {
    laws: Vec<Law>,
    /// The wrong rule that the passes of this game have.
    pub canary: Option<Canary>,
    /// The state when it was last judged.
    before: Observed,
    /// Whether the last pass doubted the clock, so that the next one may do what it has put off.
    has_doubted_clock: bool,
}

/// A value, or the violation that it was refused.
pub fn accepted<T>(result: Result<T, Refusal>) -> Result<T, Violation> {
    result.map_err(|refusal| Violation::new(Law::Accepted, refusal.to_string()))
}

/// A person's edit may be refused, but not because the library has come to a wrong state.
pub fn accepted_or_refused(result: Result<(), Refusal>) -> Result<(), Violation> {
    let Err(refusal) = result else { return Ok(()) };
    let is_defect = DEFECTS.iter().any(|defect| refusal.what.contains(defect));
    if is_defect || refusal.exit == Exit::State {
        return Err(Violation::new(Law::Accepted, refusal.to_string()));
    }
    Ok(())
}

impl Referee {
    pub fn new(laws: &[Law], canary: Option<Canary>) -> Self {
        Self { laws: laws.to_vec(), canary, before: Observed::default(), has_doubted_clock: false }
    }

    /// Whether a law is one of those that count.
    pub fn judges(&self, law: Law) -> bool {
        self.laws.contains(&law)
    }

    /// Judges by a law, if it is one of those that count.
    pub fn enforce(
        &self,
        law: Law,
        check: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), Violation> {
        if !self.judges(law) {
            return Ok(());
        }
        check().map_err(|message| Violation::new(law, message))
    }

    /// Judges the state as it is now, compared with the one that was judged before.
    pub fn judge(&mut self, world: &SimWorld) -> Result<(), Violation> {
        let state = accepted(world.load())?;
        let before = &self.before;
        self.enforce(Law::HeldOnce, || law::check_held_once(&state, &world.taken_away))?;
        self.enforce(Law::Limits, || law::check_limits(before, &state, &world.taken_away))?;
        self.enforce(Law::Fifo, || law::check_fifo(before, &state))?;
        self.enforce(Law::Counts, || law::check_counts(&state))?;
        self.before = Observed::of(&state);
        Ok(())
    }

    /// Runs a pass, after drivers have reported the troubles that their jobs have met, and judges
    /// what it has done. Returns the state that it has left.
    pub fn run_pass(&mut self, world: &SimWorld) -> Result<(), Violation> {
        accepted(world.report_troubles())?;
        let limits = match self.canary {
            Some(canary) => accepted(canary.before_pass(world))?,
            None => Vec::new(),
        };
        self.has_doubted_clock = accepted(world.is_clock_doubted())?;
        let passed = accepted(world.run_pass())?;
        if let Some((pool, refusal)) = passed.refused.first() {
            let message = format!("the pass over pool {pool} was undone: {refusal}");
            return Err(Violation::new(Law::Accepted, message));
        }
        if let Some(canary) = self.canary {
            accepted(canary.after_pass(world, &self.before, limits))?;
        }
        self.judge(world)
    }

    /// Expects that a pass which follows at once would change nothing.
    pub fn check_quiet(&self, world: &SimWorld, scope: &Scope) -> Result<(), Violation> {
        if self.has_doubted_clock || !self.judges(Law::Quiet) {
            return Ok(());
        }
        let state = accepted(world.preview(scope))?;
        self.enforce(Law::Quiet, || {
            if state.is_unchanged() {
                return Ok(());
            }
            Err(format!("a second pass over {scope:?} acts: {}", describe_changes(&state)))
        })
    }

    /// As `check_quiet`, for each pool alone.
    pub fn check_pools_quiet(&self, world: &SimWorld) -> Result<(), Violation> {
        for pool in accepted(world.load())?.pools.rows() {
            self.check_quiet(world, &Scope::pool(pool.key()))?;
        }
        Ok(())
    }

    pub fn check_round_trip(&self, world: &SimWorld) -> Result<(), Violation> {
        self.enforce(Law::RoundTrip, || check_round_trip(world))
    }

    pub fn check_hive_trip(&self, world: &SimWorld) -> Result<(), Violation> {
        self.enforce(Law::RoundTrip, || check_hive_trip(world))
    }

    pub fn check_import(&self, world: &SimWorld) -> Result<(), Violation> {
        self.enforce(Law::RoundTrip, || check_import(world))
    }
}

/// What a planned state would change: the objects, the jobs and the events.
fn describe_changes(state: &State) -> String {
    let mut changes: Vec<String> = Vec::new();
    for changed in state.changed_objects() {
        if let Some(object) = changed.after.as_ref().or(changed.before.as_ref()) {
            changes.push(describe_object(object));
        }
    }
    for job in state.jobs.difference().filter_map(|change| change.after) {
        changes.push(format!("{} of {}", job.verb.name(), job.object));
    }
    changes.extend(state.events.iter().map(|(event, _)| event.message.clone()));
    changes.join("; ")
}

fn describe_object(object: &Object) -> String {
    format!("{} {}", object.kind().name(), object.key())
}
