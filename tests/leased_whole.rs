//! A cluster on bare metal is leased whole or not at all: its name, its hosts and its addresses.
//! poolctl is killed at every system call by which it leases or returns them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::metal::{another_pool, boot_hosts, sandbox_with_rack};
use crate::once::{assert_clusters_are_whole, only_cluster};
use crate::sandbox::{Sandbox, apply, has_program, jsonpath};

/// The system calls by which poolctl changes anything.
const CALLS: [&str; 4] = ["pwrite64", "fdatasync", "ftruncate", "write"];

/// A pool without clusters, and hosts that it could take.
fn free_rack() -> Sandbox {
    let sandbox = sandbox_with_rack();
    sandbox.ok("pool scale metal --size 0 -q");
    boot_hosts(&sandbox, &[1, 2, 3, 4]);
    sandbox.ok("reconcile -q");
    assert_eq!(only_cluster(&sandbox), "");
    sandbox
}

/// Nothing in the state contradicts itself.
fn assert_consistent(sandbox: &Sandbox, place: &str) {
    let report = sandbox.run("doctor").out;
    for check in ["constraints", "addresses", "links", "claims", "agents"] {
        let mut lines = report.lines().filter(|line| line.starts_with(check));
        assert!(lines.any(|line| line.contains(" ok ")), "{place}: {report}");
    }
}

/// Kills a command at each of its calls, each time in a copy of the state. One check sees what the
/// killed command left, the other what is there after the command was run again.
fn kill_at_every_call(
    start: &Sandbox,
    command: &str,
    check_after_kill: impl Fn(&Sandbox),
    check_after_retry: impl Fn(&Sandbox),
) {
    if !has_program("strace") {
        return;
    }
    let mut kills = 0;
    for call in CALLS {
        for count in 1..80 {
            let sandbox = start.copy();
            let ran = sandbox.shell(&format!(
                "strace -f -qq -o /dev/null -e trace={call} \
                 -e inject={call}:signal=KILL:when={count} poolctl {command}"
            ));
            if ran.code == 0 {
                break;
            }
            let place = format!("{call} {count}");
            assert_eq!(ran.code, 137, "{place}: {}", ran.err);
            kills += 1;
            assert_clusters_are_whole(&sandbox, 3, 5);
            check_after_kill(&sandbox);
            assert_consistent(&sandbox, &place);
            sandbox.ok(command);
            sandbox.ok("reconcile -q");
            assert_clusters_are_whole(&sandbox, 3, 5);
            check_after_retry(&sandbox);
            assert_eq!(sandbox.run("plan -q").code, 0, "{place}");
        }
    }
    assert!(kills > 20, "{kills}");
}

#[test]
fn a_cluster_is_made_whole_or_not_at_all_wherever_its_pass_is_killed() {
    let outcomes = RefCell::new(BTreeSet::new());
    kill_at_every_call(
        &free_rack(),
        "pool scale metal --size 1 -q",
        |sandbox| {
            let size = jsonpath(sandbox, "pool/metal", "{.spec.size}");
            let is_made = !only_cluster(sandbox).is_empty();
            // The wanted size and the cluster that it asks for are one transaction.
            assert_eq!(is_made, size == "1");
            outcomes.borrow_mut().insert(is_made);
        },
        |sandbox| assert!(!only_cluster(sandbox).is_empty()),
    );
    // It was killed before the commit and after it.
    assert!(!has_program("strace") || outcomes.borrow().len() == 2);
}

#[test]
fn a_cluster_is_given_back_whole_or_not_at_all_wherever_its_pass_is_killed() {
    let sandbox = free_rack();
    sandbox.ok("pool scale metal --size 1 -q");
    assert!(!only_cluster(&sandbox).is_empty());
    let command = "pool scale metal --size 0 -q";
    kill_at_every_call(&sandbox, command, |_| {}, |sandbox| assert_eq!(only_cluster(sandbox), ""));
}

#[test]
fn a_full_pass_over_two_pools_that_is_killed_leaves_each_whole() {
    let sandbox = sandbox_with_rack();
    apply(&sandbox, &another_pool("rival", "metal-b"));
    boot_hosts(&sandbox, &[1, 2, 3, 4, 5, 6]);
    kill_at_every_call(
        &sandbox,
        "reconcile -q",
        |_| {},
        |sandbox| {
            let names = jsonpath(sandbox, "cluster", "{.items[*].metadata.name}");
            assert_eq!(names.split_whitespace().count(), 2, "{names}");
        },
    );
}
