//! The state under distress: writers that are frozen, commands that were killed, disks that are
//! full or read-only, copies that lack their log.

use crate::sandbox::{Ran, Sandbox, has_program};

/// Stops a claim of pool `lab` in the middle of its commit, runs a script, and lets the claim go
/// on. The code is that of the script.
fn run_beside_frozen_writer(sandbox: &Sandbox, script: &str) -> Ran {
    sandbox.shell(&format!(
        "strace -qq -o /dev/null -e trace=fsync -e inject=fsync:signal=STOP:when=1 \
         poolctl claim lab frozen -q > $HOME/frozen.out 2>&1 &
         for try in $(seq 100); do
             read pid rest < $HOME/state.db.lock || true
             [ -n \"$pid\" ] && grep -q '(poolctl) [tT] ' /proc/$pid/stat 2>/dev/null && break
             sleep 0.1
         done
         {script}
         code=$?
         kill -CONT $pid; wait; exit $code"
    ))
}

#[test]
fn whoever_waits_for_a_frozen_writer_says_so_and_gives_up() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let ran = run_beside_frozen_writer(
        &sandbox,
        "poolctl get pool -q && poolctl claim lab other --lock-timeout 3s",
    );
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out, "lab\n");
    for says in [
        "waiting for the write lock: `poolctl claim lab frozen -q` (process ",
        "), which is stopped, has held the write lock since ",
        "error: the state was locked by another command for 3s",
        "next: kill -CONT ",
    ] {
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
    }
    // It went on, and the claim that gave up left nothing.
    assert_eq!(sandbox.ok("get claim -o name"), "clusterclaim/frozen\n");
    sandbox.ok("claim lab other");
    assert_eq!(sandbox.run("plan -q").code, 0);
}

#[test]
fn doctor_names_a_frozen_writer() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let ran = run_beside_frozen_writer(&sandbox, "poolctl doctor");
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let row = ran.out.lines().find(|line| line.starts_with("writers")).unwrap();
    assert!(row.contains("wrong") && row.contains("poolctl claim lab frozen -q"), "{row}");
    assert!(row.contains("which is stopped, has held the write lock since "), "{row}");
}
