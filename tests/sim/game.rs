//! Plays a history: does its steps one after the other in a new world, judges the state after each
//! of them, and brings the world to rest at the end.

use std::fmt;

use poolctl::model::state::Scope;
use poolctl::model::time::Span;

use super::canary::Canary;
use super::history::History;
use super::law::{Law, Violation};
use super::people;
use super::referee::{Referee, accepted, accepted_or_refused};
use super::rest;
use super::step::Step;
use super::world::SimWorld;

/// How many passes there are at most while people wait. Cron runs more; what is level-triggered
/// does not count them.
const PASSES_OF_A_WAIT: u32 = 12;
/// The laws that are slow to check are checked once in so many steps, and at rest.
const RARELY: usize = 8;

/// A history that breaks a law, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of the step, from 0. It is the number of all steps if it happened at rest.
    pub step: usize,
    pub violation: Violation,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "after {} steps: {}", self.step, self.violation)
    }
}

/// Plays a history by some of the laws. A canary is a wrong rule that all passes get.
pub fn play(history: &History, laws: &[Law], canary: Option<Canary>) -> Result<(), Failure> {
    let mut referee = Referee::new(laws, canary);
    let mut world = accepted(SimWorld::new(history.seed))
        .map_err(|violation| Failure { step: 0, violation })?;
    for (number, step) in history.steps.iter().enumerate() {
        let is_rare = number % RARELY == RARELY - 1;
        play_step(&mut world, &mut referee, step, is_rare)
            .map_err(|violation| Failure { step: number, violation })?;
    }
    end_history(&mut world, &mut referee)
        .map_err(|violation| Failure { step: history.steps.len(), violation })
}

fn play_step(
    world: &mut SimWorld,
    referee: &mut Referee,
    step: &Step,
    checks_slow_laws: bool,
) -> Result<(), Violation> {
    match step {
        Step::Wait { minutes } => wait(world, referee, Span::minutes(i64::from(*minutes)))?,
        Step::Sleep { minutes } => {
            world.clock.advance(Span::minutes(i64::from(*minutes)));
            // No pass runs, so there is nothing to judge.
            return Ok(());
        }
        Step::Reboot => accepted(world.reboot())?,
        Step::MoveClock { minutes } => world.clock.move_wall(*minutes),
        deed => {
            // What drivers have met by now, every command sees before it acts.
            accepted(world.report_troubles())?;
            accepted_or_refused(people::act(world, deed))?;
            referee.judge(world)?;
        }
    }
    referee.run_pass(world)?;
    referee.check_quiet(world, &Scope::Whole)?;
    if checks_slow_laws {
        referee.check_pools_quiet(world)?;
        referee.check_round_trip(world)?;
        referee.check_hive_trip(world)?;
    }
    Ok(())
}

/// Lets time go by, with a pass whenever something is due.
fn wait(world: &mut SimWorld, referee: &mut Referee, span: Span) -> Result<(), Violation> {
    let end = Span(world.clock.elapsed().0 + span.0);
    for number in 1..=PASSES_OF_A_WAIT {
        referee.run_pass(world)?;
        let remaining = Span((end.0 - world.clock.elapsed().0).max(0));
        let due = accepted(world.time_until_due())?;
        let due = due.filter(|due| *due < remaining && number < PASSES_OF_A_WAIT);
        let Some(due) = due else {
            world.clock.advance(remaining);
            return Ok(());
        };
        world.clock.advance(due.max(Span::seconds(1)));
    }
    Ok(())
}

/// Brings the world to rest, and checks the slow laws once more.
fn end_history(world: &mut SimWorld, referee: &mut Referee) -> Result<(), Violation> {
    rest::come_to_rest(world, referee)?;
    referee.check_pools_quiet(world)?;
    referee.check_round_trip(world)?;
    referee.check_import(world)?;
    referee.check_hive_trip(world)?;
    let mistakes = accepted(world.store().check_constraints())?;
    match mistakes.first() {
        Some(mistake) => Err(Violation::new(Law::Accepted, mistake.clone())),
        None => Ok(()),
    }
}
