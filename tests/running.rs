//! `run` and waiting: a cluster is given back whatever happens, with the documented exit codes.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Sandbox, finish, pause};

/// A pool on the real clock, whose clusters are made and destroyed in less than a second.
fn sandbox_with_quick_pool() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "");
    sandbox.ok("pool create lab --fake --size 0");
    let durations = "{poolctl.dev/fake-install-duration: 300ms, \
                     poolctl.dev/fake-deprovision-duration: 100ms}";
    sandbox.ok(&format!("patch pool lab -p '{{spec: {{annotations: {durations}}}}}'"));
    sandbox.ok("pool scale lab --size 1 --running-count 1");
    sandbox.ok("reconcile --wait=30s -q");
    sandbox
}

/// The rows of all claims.
fn claim_rows(sandbox: &Sandbox) -> String {
    sandbox.ok("get claim --no-headers")
}

/// Waits until a condition is met, for half a minute at most.
fn until(condition: &str, is_met: impl Fn() -> bool) {
    for _ in 0..1500 {
        if is_met() {
            return;
        }
        pause(20);
    }
    panic!("never: {condition}");
}

fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn run_gives_the_cluster_to_a_command_and_takes_it_back() {
    let sandbox = sandbox_with_quick_pool();
    let script = "test -r \"$KUBECONFIG\" && poolctl get claim $POOLCTL_CLAIM -o name && echo $POOLCTL_CLUSTER; umask";
    let ran = sandbox.run(&format!("run lab --lifetime 1h -- sh -c '{script}'"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("claim/lab-") && lines[1].starts_with("lab-"), "{}", ran.out);
    assert_ne!(lines[2], "0077", "the command has our umask, not its caller's");
    assert!(claim_rows(&sandbox).lines().all(|line| line.contains("Releasing")));
}

#[test]
fn run_exits_as_its_command_does() {
    let sandbox = sandbox_with_quick_pool();
    sandbox.ok("pool scale lab --size 4 --running-count 4");
    // Only starting them shows that these two cannot be run.
    let uninterpreted = sandbox.write_script("uninterpreted", "#!/nowhere/no-such-program\n");
    let no_program = sandbox.write_script("no-program", "echo\n");
    for (command, code) in [
        ("sh -c 'exit 7'", 7),
        ("sh -c 'kill -9 $$'", 137),
        (&*uninterpreted, 127),
        (&*no_program, 126),
    ] {
        let ran = sandbox.run(&format!("run lab --lifetime 1h -- {command}"));
        assert_eq!(ran.code, code, "{command}: {}", ran.err);
    }
    assert!(claim_rows(&sandbox).lines().all(|line| line.contains("Releasing")));
    // A failure of poolctl itself is 125, which no command is likely to exit with.
    for line in ["run nolab -- true", "-n x run lab -- true"] {
        assert_eq!(sandbox.run(line).code, 125, "{line}");
    }
    let ran = sandbox.run("run lab --wait 0s -- true");
    assert!([0, 125].contains(&ran.code), "{}", ran.err);
}

/// Everything that a command could have changed.
fn objects_and_events(sandbox: &Sandbox) -> String {
    sandbox.all_objects() + &sandbox.ok("events -A -o json")
}

/// A cluster was once claimed for a mistyped command, and destroyed.
#[test]
fn run_looks_for_its_command_before_it_claims() {
    let sandbox = sandbox_with_quick_pool();
    let script = "mkdir $HOME/first $HOME/second; cd $HOME; \
                  echo '#!/bin/sh' >first/tool; printf '#!/bin/sh\\nexit 3\\n' >second/tool; \
                  chmod +x second/tool; ln -s nowhere dangling; \
                  printf '#! /no/such/interpreter -x\n' >script; echo 'exit 0' >text; \
                  chmod +x script text";
    assert_eq!(sandbox.shell(script).code, 0);
    let before = objects_and_events(&sandbox);
    let absent = "No such file or directory (os error 2)";
    let denied = "Permission denied (os error 13)";
    for (path, command, code, cause) in [
        ("", "./no-such-program", 127, absent),
        ("", "no-such-program", 127, absent),
        ("", "''", 127, absent),
        ("", "./dangling", 127, absent),
        ("", "first/tool", 126, denied),
        ("", "/etc", 126, denied),
        ("", "./script", 127, absent),
        ("", "./text", 126, "Exec format error (os error 8)"),
        ("", "first/tool/x", 126, "Not a directory (os error 20)"),
        ("$HOME/first:", "tool", 126, denied),
    ] {
        let run = "poolctl run lab --lifetime 1h --";
        let ran = sandbox.shell(&format!("cd $HOME; PATH={path}$PATH; {run} {command}"));
        let name = command.trim_matches('\'');
        let next = if name.contains('/') {
            format!("ls -ld '{name}'")
        } else {
            "echo \"$PATH\" shows the folders that were searched".to_owned()
        };
        let message = format!(
            "error: `{name}` cannot be run; nothing was claimed\n  cause: {cause}\n  next: {next}\n"
        );
        assert_eq!((ran.code, ran.err), (code, message), "{path}{command}");
    }
    assert_eq!(objects_and_events(&sandbox), before);
    // A file of that name that may not be run does not hide a later one in PATH.
    let ran =
        sandbox.shell("PATH=$HOME/first:$HOME/second:$PATH; poolctl run lab --lifetime 1h -- tool");
    assert_eq!(ran.code, 3, "{}", ran.err);
}

#[test]
fn a_signal_ends_the_command_and_the_claim() {
    let sandbox = sandbox_with_quick_pool();
    sandbox.ok("pool scale lab --size 2 --running-count 2");
    for (kind, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let child = sandbox.start("run lab --lifetime 1h -- sleep 60");
        until("the command runs", || sandbox.ok("get claim").contains("Running"));
        pause(200);
        send_signal(&child, kind);
        let ran = finish(child);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(
            claim_rows(&sandbox).lines().all(|line| line.contains("Releasing")),
            "{}",
            claim_rows(&sandbox)
        );
        until("the claim is gone", || {
            sandbox.ok("reconcile --wait=30s -q");
            claim_rows(&sandbox).is_empty()
        });
    }
}

#[test]
fn a_killed_run_ends_with_its_lifetime() {
    let sandbox = sandbox_with_quick_pool();
    let child = sandbox.start("run lab --lifetime 2s -- sleep 1");
    until("the command runs", || sandbox.ok("get claim").contains("Running"));
    // Nobody is left to release the claim.
    send_signal(&child, Signal::KILL);
    finish(child);
    assert!(claim_rows(&sandbox).contains("Running"), "{}", claim_rows(&sandbox));
    until("the lifetime is over", || {
        sandbox.ok("reconcile");
        !claim_rows(&sandbox).contains("Running")
    });
}

#[test]
fn a_claim_that_waits_in_vain_is_released_unless_it_is_kept() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --fake-install-duration 2h");
    sandbox.refused(5, "claim lab ci --wait=5m", "the claim was released");
    assert!(claim_rows(&sandbox).is_empty());
    let ran = sandbox.run("claim lab ci --wait=5m --keep");
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(claim_rows(&sandbox).contains("Pending (#1)"));
    // The wait ends as soon as there is a cluster.
    let out = sandbox.ok("claim lab other --wait=5h");
    assert!(out.contains("bound to cluster/lab-") && out.contains("waited 119m"), "{out}");
}

#[test]
fn an_interrupted_wait_ends_like_its_deadline() {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "");
    sandbox.ok("pool create lab --fake --fake-install-duration 1h");
    for (line, signal, code, is_kept) in [
        ("claim lab ci --wait", Signal::INT, 130, false),
        ("claim lab ci --wait", Signal::TERM, 143, false),
        ("claim lab ci --wait --keep", Signal::TERM, 143, true),
    ] {
        let child = sandbox.start(line);
        until("the claim waits", || claim_rows(&sandbox).contains("Pending"));
        pause(300);
        send_signal(&child, signal);
        let ran = finish(child);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert_eq!(claim_rows(&sandbox).is_empty(), !is_kept, "{}", claim_rows(&sandbox));
    }
    let child = sandbox.start("wait claim/ci --for=condition=ClusterRunning --timeout=60s");
    pause(500);
    send_signal(&child, Signal::INT);
    assert_eq!(finish(child).code, 130);
}
