//! Programs that are broken on purpose, one in each way that would hurt most. As in the simulator,
//! each is played as what it would do to files and to the state. The judges of this suite must find
//! every one of them, or they would find nothing else either.

use std::fs;

use crate::lab::{CANARY, Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{Sandbox, apply, execute_sql, has_program};

use super::Tally;
use super::hostile::MAKE_A_CLUSTER;
use super::judge::find_complaints;
use super::{histories, power_cut};

/// Notes that a canary was found; fails if it was not.
fn expect_found(is_found: bool, canary: &str) {
    Tally { points: 1, fired: 1, held: usize::from(is_found) }.note("canary found");
    assert!(is_found, "nobody found it: {canary}");
}

#[test]
fn a_program_that_syncs_nothing_is_found() {
    if has_program("strace") {
        expect_found(
            power_cut::is_forgotten_sync_found(),
            "changes are told before they are synced",
        );
    }
}

#[test]
fn a_program_that_takes_no_lock_is_found() {
    expect_found(histories::is_missing_lock_found(), "the write lock is not taken");
}

/// What a pass leaves that forgets the savepoint of a pool which is refused: the rows that were
/// written before the refusal.
#[test]
fn a_program_that_forgets_a_savepoint_is_found() {
    for half in [
        "UPDATE cluster SET claim = NULL, claimed_at = NULL WHERE claim = 'c'",
        "UPDATE claim SET cluster = NULL WHERE name = 'c'",
    ] {
        let sandbox = Sandbox::new();
        sandbox.create_ready_pool("lab", 2);
        sandbox.ok("claim lab c -q");
        assert!(find_complaints(&sandbox).is_empty());
        assert_eq!(execute_sql(&sandbox, half).unwrap(), 1, "{half}");
        expect_found(!find_complaints(&sandbox).is_empty(), half);
    }
}

/// Runs pool `lab` with a driver that works like this. Returns whether its cluster is installed while
/// the work is not done.
fn is_installed_before_work(script: &str) -> bool {
    let lab = Lab::new();
    let driver =
        format!("#!/bin/sh\n[ $1 = provision ] || exit 0\nhere=$(dirname \"$0\")\n{script}\n");
    lab.install_program("poolctl-driver-own", &driver);
    let annotations = "  annotations: {poolctl.dev/driver: 'exec:own'}\n";
    apply(&lab.sandbox, &pool("lab", "{none: {}}", annotations));
    lab.wait_until_installed();
    let is_done = lab.ledger().iter().any(|line| line == "done");
    lab.sandbox.ok("pool scale lab --size 0 -q");
    lab.wait_until("gone", |lab| lab.phase().is_empty());
    !is_done
}

#[test]
fn a_supervisor_that_writes_the_outcome_before_the_work_is_found() {
    let work = format!("sleep 1\n{MAKE_A_CLUSTER}\necho done >> \"$here/ledger\"");
    assert!(!is_installed_before_work(&work));
    // What such a supervisor would do is done by its driver.
    let outcome = "echo '{\"verdict\": \"succeeded\", \"infraID\": \"x\"}' > outcome";
    let early = format!("{MAKE_A_CLUSTER}\n{outcome}\nsleep 8\necho done >> \"$here/ledger\"");
    expect_found(is_installed_before_work(&early), "the outcome is written before the work");
}

/// Whether anything that people are shown of a lab has a secret.
fn shows_secret(lab: &Lab) -> bool {
    let ran = lab.sandbox.shell(
        "for command in events 'get cluster,job,pool,secret -A -o yaml' 'why pool/lab' status \
             'describe pool lab' export \"cluster logs $(poolctl get cluster -qo name | head -1)\"; do
             poolctl $command
         done 2>&1; cat $HOME/jobs/*/log",
    );
    ran.out.contains(CANARY)
}

#[test]
fn a_supervisor_that_prints_a_secret_is_found() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: hang");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until("begun", |lab| lab.count_in_ledger("begin create-cluster") > 0);
    assert!(!shows_secret(&lab));
    // The log without the scrubber: what the installer prints is in it as it was printed.
    for entry in fs::read_dir(lab.sandbox.path().join("jobs")).unwrap().flatten() {
        let path = entry.path().join("log");
        let log = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, format!("{log}password: CANARY-vsphere-password\n")).unwrap();
    }
    expect_found(shows_secret(&lab), "a secret is printed");
    lab.set_behaviour("");
    lab.delete_clusters();
}
