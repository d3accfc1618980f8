//! The list of tests that are skipped because something is missing on this machine: where it is
//! kept, and how people read it. A captured test says nothing itself, so `tests/skipped.rs` prints
//! the list after all tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

/// The list of this run. Cargo is the parent of each program of tests that it starts, so that two
/// runs at a time have two lists. Each line is a reason, a tab and the name of a test.
pub fn list() -> PathBuf {
    let run = std::os::unix::process::parent_id();
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("skipped-{run}"))
}

/// Each reason once, with its tests.
pub fn summary(list: &str) -> String {
    let mut tests_by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (reason, test) in list.lines().filter_map(|line| line.split_once('\t')) {
        tests_by_reason.entry(reason).or_default().insert(test);
    }
    if tests_by_reason.is_empty() {
        return "No test was skipped.\n".to_owned();
    }
    let tests: BTreeSet<&str> = tests_by_reason.values().flatten().copied().collect();
    let mut text = format!("SKIPPED tests, wholly or in part: {}\n", tests.len());
    for (reason, tests) in &tests_by_reason {
        let _ = writeln!(text, "  {reason}");
        for test in tests {
            let _ = writeln!(text, "    {test}");
        }
    }
    text + "With POOLCTL_REQUIRE_ALL=1 these tests fail; .ci/run installs what they need.\n"
}

#[test]
fn each_reason_is_told_once_with_its_tests() {
    assert_eq!(summary(""), "No test was skipped.\n");
    let list = "fish is not installed\tshells::fish\nno strace\tcrashes::b\nno strace\tcrashes::a\n\
                no strace\tcrashes::b\nno strace\tshells::fish\n";
    let expected = "SKIPPED tests, wholly or in part: 3\n  \
                      fish is not installed\n    shells::fish\n  \
                      no strace\n    crashes::a\n    crashes::b\n    shells::fish\n\
                    With POOLCTL_REQUIRE_ALL=1 these tests fail; .ci/run installs what they need.\n";
    assert_eq!(summary(list), expected);
}
