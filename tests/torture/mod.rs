//! The torture suite: processes, disks and machines that do the worst at the worst moment. The
//! simulator (`sim`) does the same to clouds, people and clocks.
//!
//! - `sweep`: every command of the command tree that changes something, killed or told of an error
//!   at each of its system calls that change something.
//! - `power_cut`: what is on the disk after the power went, at any call, when whatever was not
//!   synced may be lost.
//! - `histories`: what commands that run at once were told, and whether some order explains it.
//! - `frozen`: commands, supervisors and installers that are stopped or killed in every phase, with
//!   the ledger of the stand-ins.
//! - `away`: management controllers that die at any request.
//! - `hostile`: drivers that do what no driver should.
//! - `canaries`: five programs that are broken on purpose, each of which must be found.
//!
//! `cargo test` runs a slice of it. `POOLCTL_TORTURE=all` runs everything, and a number runs so many
//! points of each command and fault. The table is printed after all tests.

use std::fs::OpenOptions;
use std::io::Write;

mod away;
mod canaries;
mod cut_disk;
mod frozen;
mod histories;
mod hostile;
mod judge;
mod linear;
mod power_cut;
mod sweep;
mod table;
mod trace;

/// How many points of each kind are tried: those of the slice, or as many as are asked for.
#[expect(clippy::disallowed_methods, reason = "tests read the environment")]
pub fn points_of_each(slice: usize) -> usize {
    match std::env::var("POOLCTL_TORTURE").as_deref() {
        Ok("all") => usize::MAX,
        Ok(number) if !number.is_empty() => number.parse().unwrap(),
        _ => slice,
    }
}

/// What a part of the suite has tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Faults that were asked for.
    pub points: usize,
    /// Those that happened: a command may end before it comes to one.
    pub fired: usize,
    /// Those after which every promise held.
    pub held: usize,
}

impl Tally {
    /// Puts a row into the table that is printed after all tests.
    pub fn note(self, part: &str) {
        let Self { points, fired, held } = self;
        // Where the tests were not built there may be no such folder; then there is no table.
        if let Ok(mut rows) = OpenOptions::new().create(true).append(true).open(table::rows()) {
            let _ = rows.write_all(format!("{part}\t{points}\t{fired}\t{held}\n").as_bytes());
        }
    }
}

/// Some of these values, spread evenly: the first, the last and those between.
pub fn spread<T>(values: Vec<T>, count: usize) -> Vec<T> {
    let total = values.len();
    if total <= count {
        return values;
    }
    let chosen: Vec<usize> = match count {
        0 => Vec::new(),
        1 => vec![total / 2],
        _ => (0..count).map(|number| number * (total - 1) / (count - 1)).collect(),
    };
    let numbered = values.into_iter().enumerate();
    numbered.filter(|(number, _)| chosen.contains(number)).map(|(_, value)| value).collect()
}

#[test]
fn some_values_are_spread_over_all() {
    let values: Vec<usize> = (0..9).collect();
    assert!(spread(values.clone(), 0).is_empty());
    assert_eq!(spread(values.clone(), 1), [4]);
    assert_eq!(spread(values.clone(), 3), [0, 4, 8]);
    assert_eq!(spread(values.clone(), 20), values);
}
