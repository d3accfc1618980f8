//! Whether what commands were told, which ran at the same time, could have been told if they had run
//! one after the other: each at some moment between its start and its end. The search is the one of
//! Wing and Gong, which remembers where it has been.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// What a thing is, to people who use it by one command after the other.
pub trait Model: Clone + Eq + Hash {
    /// A command with what it was told.
    type Deed: Debug;

    /// What it is after this deed; None if it would not have told this.
    fn after(&self, deed: &Self::Deed) -> Option<Self>;
}

/// A command that was run.
#[derive(Clone, Debug)]
pub struct Event<Deed> {
    /// Its place among all starts and ends.
    pub started: u64,
    pub ended: u64,
    pub deed: Deed,
}

/// How many events a history has at most: a bit for each.
const MAX_EVENTS: usize = 128;

/// Whether some order of the events explains them all.
pub fn has_order<M: Model>(model: &M, events: &[Event<M::Deed>]) -> bool {
    assert!(events.len() <= MAX_EVENTS, "{}", events.len());
    let everything = (0..events.len()).fold(0_u128, |done, number| done | (1_u128 << number));
    let mut seen: HashSet<(u128, M)> = HashSet::new();
    let mut waiting = vec![(0_u128, model.clone())];
    while let Some((done, model)) = waiting.pop() {
        if done == everything {
            return true;
        }
        for number in possible_next(events, done) {
            if let Some(next) = model.after(&events[number].deed) {
                let step = (done | (1_u128 << number), next);
                if seen.insert(step.clone()) {
                    waiting.push(step);
                }
            }
        }
    }
    false
}

/// The events that may come next: those that began before any of the others had ended.
fn possible_next<Deed>(events: &[Event<Deed>], done: u128) -> Vec<usize> {
    let left = (0..events.len()).filter(|number| done & (1_u128 << *number) == 0);
    let left: Vec<usize> = left.collect();
    let first_end = left.iter().map(|number| events[*number].ended).min().unwrap_or_default();
    left.into_iter().filter(|number| events[*number].started < first_end).collect()
}

/// A place that holds a number.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Register(u32);

#[derive(Clone, Copy, Debug)]
enum Use {
    Write(u32),
    Read(u32),
}

impl Model for Register {
    type Deed = Use;

    fn after(&self, deed: &Use) -> Option<Self> {
        match *deed {
            Use::Write(value) => Some(Self(value)),
            Use::Read(value) if value == self.0 => Some(self.clone()),
            Use::Read(_) => None,
        }
    }
}

#[test]
fn histories_that_no_order_explains_are_found() {
    let event = |started, ended, deed| Event { started, ended, deed };
    let begin = Register(0);
    // A read beside a write sees either.
    for value in [0, 1] {
        let events = [event(1, 4, Use::Write(1)), event(2, 3, Use::Read(value))];
        assert!(has_order(&begin, &events), "{value}");
    }
    // A read after the write does not see what was before.
    let stale = [event(1, 2, Use::Write(1)), event(3, 4, Use::Read(0))];
    assert!(!has_order(&begin, &stale));
    // Two readers see the same order.
    let events =
        [event(1, 10, Use::Write(1)), event(2, 3, Use::Read(1)), event(4, 5, Use::Read(0))];
    assert!(!has_order(&begin, &events));
}
