//! A cluster on bare metal is leased whole or not at all: its name, its hosts and its addresses,
//! whenever whoever leases or returns them is killed.

use crate::metal::{another_pool, boot, rack};
use crate::once::{only_cluster, whole};
use crate::sandbox::{Sandbox, apply, has, jsonpath};

/// System calls by which anything is changed.
const CALLS: [&str; 4] = ["pwrite64", "fdatasync", "ftruncate", "write"];

/// A pool without clusters, and hosts that it could take.
fn free_rack() -> Sandbox {
    let sandbox = rack();
    sandbox.ok(&["pool", "scale", "metal", "--size", "0", "-q"]);
    boot(&sandbox, &[1, 2, 3, 4]);
    sandbox.ok(&["reconcile", "-q"]);
    assert_eq!(only_cluster(&sandbox), "");
    sandbox
}

/// Nothing that the state says contradicts itself.
fn doctor_is_content(sandbox: &Sandbox, at: &str) {
    let said = sandbox.run(&["doctor"]).out;
    for check in ["constraints", "addresses", "links", "claims", "agents"] {
        let fine = |line: &str| line.starts_with(check) && line.contains(" ok ");
        assert!(said.lines().any(fine), "{at}: {said}");
    }
}

/// A command killed at each of these calls, one after the other; what is seen then, and after it
/// was typed again.
fn killed(
    from: &Sandbox,
    command: &[&str],
    seen: impl Fn(&Sandbox, &str),
    after: impl Fn(&Sandbox),
) {
    if !has("strace") {
        return;
    }
    let typed = command.join(" ");
    let mut fired = 0;
    for call in CALLS {
        for at in 1..80 {
            let sandbox = from.copy();
            let ran = sandbox.shell(&format!(
                "strace -f -qq -o /dev/null -e trace={call} -e inject={call}:signal=KILL:when={at} \
                 poolctl {typed}"
            ));
            if ran.code == 0 {
                break;
            }
            let place = format!("{call} {at}");
            assert_eq!(ran.code, 137, "{place}: {}", ran.err);
            fired += 1;
            whole(&sandbox, 3, 5);
            seen(&sandbox, &place);
            doctor_is_content(&sandbox, &place);
            sandbox.ok(command);
            sandbox.ok(&["reconcile", "-q"]);
            whole(&sandbox, 3, 5);
            after(&sandbox);
            assert_eq!(sandbox.run(&["plan", "-q"]).code, 0, "{place}");
        }
    }
    assert!(fired > 20, "{fired}");
}

#[test]
fn a_cluster_is_made_whole_or_not_at_all_wherever_its_pass_is_killed() {
    let command = ["pool", "scale", "metal", "--size", "1", "-q"];
    let states = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let seen = |one: &Sandbox, _: &str| {
        let size = jsonpath(one, "pool/metal", "{.spec.size}");
        let there = !only_cluster(one).is_empty();
        // The wish and what came of it are one transaction.
        assert_eq!(there, size == "1");
        states.borrow_mut().insert(there);
    };
    killed(&free_rack(), &command, seen, |one| assert!(!only_cluster(one).is_empty()));
    // It was killed before the commit and after it.
    assert!(!has("strace") || states.borrow().len() == 2);
}

#[test]
fn a_cluster_is_given_back_whole_or_not_at_all_wherever_its_pass_is_killed() {
    let sandbox = free_rack();
    sandbox.ok(&["pool", "scale", "metal", "--size", "1", "-q"]);
    assert!(!only_cluster(&sandbox).is_empty());
    let command = ["pool", "scale", "metal", "--size", "0", "-q"];
    killed(&sandbox, &command, |_, _| {}, |one| assert_eq!(only_cluster(one), ""));
}

#[test]
fn a_full_pass_over_two_pools_that_is_killed_leaves_each_whole() {
    let sandbox = rack();
    apply(&sandbox, &another_pool("rival", "metal-b"));
    boot(&sandbox, &[1, 2, 3, 4, 5, 6]);
    let both = |one: &Sandbox| {
        let names = jsonpath(one, "cluster", "{.items[*].metadata.name}");
        assert_eq!(names.split_whitespace().count(), 2, "{names}");
    };
    killed(&sandbox, &["reconcile", "-q"], |_, _| {}, both);
}
