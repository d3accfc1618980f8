//! Files that are not a usable state: refused, exit 8, and not a byte of them changed.

use crate::sandbox::{Sandbox, has, is_root, met};

/// Every way to come near a state.
const COMMANDS: [&str; 6] = [
    "get pool",
    "status",
    "reconcile",
    "claim lab",
    "pool create x --fake",
    "apply -f examples/pool",
];

fn refused(sandbox: &Sandbox, says: &str) {
    let before = std::fs::read(sandbox.state()).unwrap();
    for command in COMMANDS {
        let ran = sandbox.shell(&format!("poolctl {command}"));
        assert_eq!(ran.code, 8, "{command}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(says), "{command}: {}", ran.err);
        assert_eq!(std::fs::read(sandbox.state()).unwrap(), before, "{command}");
    }
}

fn with(bytes: &[u8]) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.state(), bytes).unwrap();
    sandbox
}

fn good() -> Vec<u8> {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake", "-q"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    let conn = rusqlite::Connection::open(sandbox.state()).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(conn);
    std::fs::read(sandbox.state()).unwrap()
}

#[test]
fn what_is_not_a_state_is_left_as_it_is() {
    refused(&with(b""), "empty or too short");
    refused(&with(b"hello"), "empty or too short");
    refused(&with(&[7; 5000]), "is not a poolctl state file");
    refused(&with(&std::fs::read("Cargo.lock").unwrap()), "is not a poolctl state file");
    let bytes = good();
    let mut foreign = bytes.clone();
    foreign[68..72].copy_from_slice(&[0; 4]);
    refused(&with(&foreign), "is not a poolctl state file");
    let mut newer = bytes.clone();
    newer[60..64].copy_from_slice(&[0, 0, 0, 99]);
    refused(&with(&newer), "newer poolctl");
    refused(&with(&bytes[..bytes.len() / 2]), "cut short");
}

#[test]
fn a_corrupt_state_is_refused_wherever_it_is_corrupt() {
    let bytes = good();
    let page = 4096;
    let mut fired = 0;
    for at in 1..bytes.len() / page {
        let mut corrupt = bytes.clone();
        corrupt[at * page..at * page + 64].fill(0xa5);
        let sandbox = with(&corrupt);
        for command in ["get pool", "reconcile", "claim lab -q"] {
            let ran = sandbox.shell(&format!("poolctl {command}"));
            // A page that a command does not read may be anything.
            assert!([0, 8].contains(&ran.code), "page {at}, {command}: {} {}", ran.code, ran.err);
            if ran.code == 8 {
                fired += 1;
                assert!(ran.err.contains("corrupt") || ran.err.contains("cannot"), "{}", ran.err);
            }
        }
    }
    assert!(fired > 5, "{fired}");
}

#[test]
fn reading_makes_no_state() {
    let sandbox = Sandbox::new();
    for command in [
        "get pool",
        "status",
        "events",
        "reconcile",
        "plan",
        "job list",
        "claim lab",
        "describe pool x",
    ] {
        let ran = sandbox.shell(&format!("poolctl {command}"));
        assert_eq!(ran.code, 3, "{command}: {}", ran.err);
        assert!(ran.err.contains("there is no state at"), "{}", ran.err);
    }
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0);
    for command in ["version", "state path", "--help"] {
        assert_eq!(sandbox.shell(&format!("poolctl {command}")).code, 0, "{command}");
    }
}

#[test]
fn the_state_is_for_its_owner_alone() {
    let sandbox = Sandbox::new();
    sandbox.shell("umask 000; poolctl pool create lab --fake --running-count 1; poolctl reconcile --wait -q; poolctl claim lab c; poolctl kubeconfig c");
    let ran = sandbox.shell(
        "find $HOME -mindepth 1 ! -type d -perm /077; find $HOME -mindepth 1 -type d -perm /077",
    );
    assert_eq!(ran.out, "", "readable for others");
    assert!(sandbox.shell("find $HOME -name kubeconfig").out.contains("kubeconfig"));
}

#[test]
fn a_state_of_somebody_else_is_denied() {
    if !met(is_root(), "only root can be somebody else") || !has("setpriv") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake", "-q"]);
    sandbox.shell("chmod 755 $HOME; cp $(command -v poolctl) $HOME/p; chmod 755 $HOME/p");
    let other = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    for command in ["get pool", "claim lab", "pool create x --fake"] {
        let ran = sandbox.shell(&format!("{other} $HOME/p {command}"));
        assert_eq!(ran.code, 9, "{command}: {}", ran.err);
    }
    // A place where no state can be made.
    let ran = sandbox
        .shell(&format!("POOLCTL_STATE=$HOME/new/state.db {other} $HOME/p pool create x --fake"));
    assert_eq!(ran.code, 9, "{}", ran.err);
}

#[test]
fn a_read_only_state_is_refused() {
    if !met(is_root() && mounts(), "needs root and mounts of its own") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake", "-q"]);
    let script = "mount --bind $HOME $HOME && mount -o remount,bind,ro $HOME && poolctl pool scale lab --size 5";
    let ran = sandbox.shell(&format!("unshare -m sh -c '{script}'"));
    assert_eq!(ran.code, 8, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("read-only"), "{}", ran.err);
    assert!(sandbox.ok(&["get", "pool"]).contains("lab   1"));
}

fn mounts() -> bool {
    let ran = Sandbox::new().shell("unshare -m sh -c 'mount --bind $HOME $HOME'");
    ran.code == 0
}
