//! The table of the torture suite: where its rows are kept, and how people read them. A captured
//! test says nothing itself, so `tests/skipped.rs` prints the table after all tests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// The rows of this run. Cargo is the parent of each program of tests that it starts, so that two
/// runs at a time have two tables. Each line is a part, its points, those that fired, and those that
/// held, separated by tabs.
pub fn rows() -> PathBuf {
    let run = std::os::unix::process::parent_id();
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("torture-{run}"))
}

/// Each part once, with the sums of its rows. Without rows there is no table.
pub fn drawn_table(rows: &str) -> String {
    let mut sums: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for row in rows.lines() {
        let mut columns = row.split('\t');
        let sum = sums.entry(columns.next().unwrap_or_default()).or_default();
        for (total, column) in sum.iter_mut().zip(columns) {
            *total += column.parse::<usize>().unwrap_or_default();
        }
    }
    if sums.is_empty() {
        return String::new();
    }
    let width = sums.keys().map(|part| part.len()).max().unwrap_or_default().max(7);
    let mut text = format!("{:<width$}  POINTS   FIRED    HELD\n", "TORTURE");
    for (part, [points, fired, held]) in sums {
        let _ = writeln!(text, "{part:<width$}  {points:>6}  {fired:>6}  {held:>6}");
    }
    text
}

#[test]
fn rows_of_a_part_are_added_up() {
    assert_eq!(drawn_table(""), "");
    let rows = "kill\t2\t2\t2\nerror EIO\t3\t2\t1\nkill\t1\t0\t0\n";
    let table = "TORTURE    POINTS   FIRED    HELD\n\
                 error EIO       3       2       1\n\
                 kill            3       2       2\n";
    assert_eq!(drawn_table(rows), table);
}
