//! The simulator in the test suite: some random histories, those that once broke a law, and one
//! wrong rule of each kind, which must be found.

use std::path::PathBuf;

use super::canary::Canary;
use super::game::play;
use super::history::History;
use super::law::Law;
use super::shrink::{describe, shrink};

/// More are played by `cargo run --example sim`.
const SEEDS: u64 = 12;
const STEPS: usize = 60;
/// Within so many seeds every wrong rule must be found.
const SEEDS_OF_CANARIES: u64 = 100;
const STEPS_OF_CANARIES: usize = 40;

#[test]
fn random_histories_keep_all_laws() {
    for seed in 0..SEEDS {
        let history = History::random(seed, STEPS);
        if let Err(failure) = play(&history, Law::ALL, None) {
            panic!("{}", describe(&history, &failure, Law::ALL));
        }
    }
}

#[test]
fn histories_that_broke_a_law_do_so_no_more() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases/sim");
    let mut failures: Vec<String> = Vec::new();
    let mut played = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let history: History = text.parse().unwrap();
        played += 1;
        if let Err(failure) = play(&history, Law::ALL, None) {
            failures.push(format!("{}: {failure}", path.display()));
        }
    }
    crate::cases::assert_all_hold(played, 5, &failures);
}

/// Whether a wrong rule is found in the history of a seed, by the law that it breaks or because the
/// library itself refuses what it does.
fn finds(canary: Canary, seed: u64) -> bool {
    let law = canary.law();
    match play(&History::random(seed, STEPS_OF_CANARIES), &[law], Some(canary)) {
        Err(failure) => [law, Law::Accepted].contains(&failure.violation.law),
        Ok(()) => false,
    }
}

#[test]
fn a_wrong_rule_of_each_kind_is_found() {
    let mut missed: Vec<&str> = Vec::new();
    for canary in Canary::ALL {
        if !(0..SEEDS_OF_CANARIES).any(|seed| finds(*canary, seed)) {
            missed.push(canary.word());
        }
    }
    assert!(missed.is_empty(), "not found in {SEEDS_OF_CANARIES} seeds: {missed:?}");
}

#[test]
fn a_history_is_the_same_after_it_was_written_and_read() {
    for seed in 0..50 {
        let history = History::random(seed, 100);
        assert_eq!(history.to_string().parse::<History>().unwrap(), history);
    }
    assert!("pool p1".parse::<History>().is_err());
}

#[test]
fn the_same_history_ends_in_the_same_way() {
    let history = History::random(3, 30);
    let canary = Some(Canary::Miscount);
    let failure = play(&history, &[Law::Counts], canary).unwrap_err();
    assert_eq!(play(&history, &[Law::Counts], canary).unwrap_err(), failure);
    let (shortest, shortest_failure) = shrink(&history, &failure, &[Law::Counts], canary);
    // Nothing but a pool is needed for a wrong count.
    assert!(shortest.steps.len() <= 2, "{shortest_failure}:\n{shortest}");
}
