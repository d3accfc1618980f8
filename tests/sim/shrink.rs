//! Makes a history that breaks a law as short as it can: steps are left out, many at first and then
//! fewer, as long as the same law is broken.

use super::canary::Canary;
use super::game::{Failure, play};
use super::history::History;
use super::law::Law;

/// How many shorter histories are tried at most.
const ATTEMPTS: usize = 300;

/// A shorter history that breaks the same law, and how it does.
pub fn shrink(
    history: &History,
    failure: &Failure,
    laws: &[Law],
    canary: Option<Canary>,
) -> (History, Failure) {
    let mut shortest = history.clone();
    let mut shortest_failure = failure.clone();
    // What comes after the violation has nothing to do with it.
    shortest.steps.truncate(failure.step + 1);
    let mut attempts = 0;
    let mut chunk = shortest.steps.len().div_ceil(2);
    while chunk > 0 && attempts < ATTEMPTS {
        let mut start = 0;
        while start < shortest.steps.len() && attempts < ATTEMPTS {
            attempts += 1;
            let candidate = without_steps(&shortest, start, chunk);
            match play(&candidate, laws, canary) {
                Err(candidate_failure)
                    if candidate_failure.violation.law == failure.violation.law =>
                {
                    shortest = candidate;
                    shortest.steps.truncate(candidate_failure.step + 1);
                    shortest_failure = candidate_failure;
                }
                _ => start += chunk,
            }
        }
        chunk /= 2;
    }
    (shortest, shortest_failure)
}

fn without_steps(history: &History, start: usize, count: usize) -> History {
    let end = (start + count).min(history.steps.len());
    let mut steps = history.steps.clone();
    steps.drain(start..end);
    History { seed: history.seed, steps }
}

/// A failure as people read it: what is broken, and the shortest history that shows it, as a file
/// of `tests/cases/sim` has it.
pub fn describe(history: &History, failure: &Failure, laws: &[Law]) -> String {
    let (shortest, shortest_failure) = shrink(history, failure, laws, None);
    format!(
        "seed {} breaks a law {failure}\n\nThe shortest history that does, {shortest_failure}:\n\n\
         # {}\n{shortest}",
        history.seed, shortest_failure.violation
    )
}
