//! Guests behind sudo, with real users and a real sudo: each command runs in a mount namespace of
//! its own, where the system's users are those of the test.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::sandbox::{Ran, Sandbox, has_program, is_met_or_skipped, is_root};

const POOLCTL: &str = env!("CARGO_BIN_EXE_poolctl");
/// Names and numbers. `poolctl` is the account that owns the state in most tests.
const USERS: [(&str, u32); 8] = [
    ("poolctl", 4801),
    ("alice", 4802),
    ("bob", 4803),
    ("carol", 4804),
    ("dave", 4805),
    ("erin", 4806),
    ("frank", 4807),
    ("gina", 4808),
];
const GROUPS: &str = "root:x:0:
lab:x:4900:alice,bob,carol,dave,gina
watchers:x:4901:dave
lab watchers:x:4902:carol
sudo:x:4903:erin
wheel:x:4904:gina
";
/// Beside the line of examples/access: an ordinary admin's, and one for poolctl as root.
const SUDOERS: &str = "%sudo ALL = (ALL:ALL) NOPASSWD: ALL
frank ALL = (root) NOPASSWD: /usr/local/bin/poolctl
";
pub const CREATE: &str =
    "pool create lab --fake --fake-install-duration 1s --size 3 --running-count 3 -q";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A machine with these users and the sudoers of examples/access.
pub struct Machine {
    pub sandbox: Sandbox,
}

impl Machine {
    /// With a state in the home of account poolctl. `None` where the test cannot run.
    fn new() -> Option<Self> {
        let machine = Self::without_state()?;
        let created = machine.run_as_owner(CREATE);
        assert_eq!(created.code, 0, "{}", created.err);
        Some(machine)
    }

    /// Without any state. `None` where the test cannot run.
    pub fn without_state() -> Option<Self> {
        let may_switch_user = is_met_or_skipped(is_root(), "only root can be somebody else");
        if !may_switch_user || !has_program("unshare") || !has_program("sudo") {
            return None;
        }
        let sandbox = Sandbox::new();
        set_mode(sandbox.path(), 0o755);
        for folder in ["home", "root", "lib", "lib/poolctl"] {
            std::fs::create_dir(sandbox.path().join(folder)).unwrap();
        }
        for folder in ["home", "lib/poolctl"] {
            let folder = sandbox.path().join(folder);
            std::os::unix::fs::chown(folder, Some(4801), Some(4801)).unwrap();
        }
        let home = sandbox.path().join("home").display().to_string();
        let mut passwd = format!("root:x:0:0::{}/root:/bin/sh\n", sandbox.path().display());
        let mut group = GROUPS.to_owned();
        let mut shadow = "root:*:19000::::::\n".to_owned();
        for (name, id) in USERS {
            let home = if name == "poolctl" { &home } else { "/nonexistent" };
            writeln!(passwd, "{name}:x:{id}:{id}::{home}:/bin/sh").unwrap();
            writeln!(group, "{name}:x:{id}:").unwrap();
            writeln!(shadow, "{name}:*:19000::::::").unwrap();
        }
        sandbox.write_file("passwd", &passwd);
        sandbox.write_file("group", &group);
        sandbox.write_file("shadow", &shadow);
        let sudoers = std::fs::read_to_string("examples/access/sudoers").unwrap();
        let sudoers = sandbox.write_file("sudoers", &(sudoers + SUDOERS));
        set_mode(Path::new(&sudoers), 0o440);
        Some(Self { sandbox })
    }

    /// Runs a line that a user types.
    pub fn run_as(&self, user: &str, command: &str) -> Ran {
        let id = USERS.iter().find(|(name, _)| *name == user).map_or(0, |(_, id)| *id);
        let folder = self.sandbox.path().display().to_string();
        self.sandbox.shell(&format!(
            "exec unshare -m sh -ec '
            for file in passwd group shadow sudoers; do mount --bind {folder}/$file /etc/$file; done
            mount --bind {folder}/lib /var/lib
            mount -t tmpfs -o mode=755 none /usr/local/bin
            cp {POOLCTL} /usr/local/bin/poolctl
            exec setpriv --reuid={id} --regid={id} --init-groups \\
                env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/nonexistent sh -c \"$0\"' '{}'",
            command.replace('\'', "'\\''")
        ))
    }

    /// Runs a poolctl command as the account, for a user who is behind sudo.
    pub fn run_behind_sudo(&self, user: &str, command: &str) -> Ran {
        self.run_as(user, &format!("sudo -n -u poolctl poolctl {command}"))
    }

    /// Runs a poolctl command as the account itself.
    pub fn run_as_owner(&self, command: &str) -> Ran {
        let home = self.sandbox.path().join("home");
        self.run_as("poolctl", &format!("HOME={} poolctl {command}", home.display()))
    }

    /// Runs a poolctl command as root, without sudo.
    pub fn run_as_root(&self, command: &str) -> Ran {
        let home = self.sandbox.path().join("root");
        self.run_as("root", &format!("HOME={} poolctl {command}", home.display()))
    }

    /// Runs a command behind sudo that must succeed; returns its standard output.
    pub fn ok(&self, user: &str, command: &str) -> String {
        let ran = self.run_behind_sudo(user, command);
        assert_eq!(ran.code, 0, "{user}: {command}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Runs a command behind sudo that must be denied and print nothing.
    pub fn assert_denied(&self, user: &str, command: &str) {
        let ran = self.run_behind_sudo(user, command);
        assert_eq!(ran.code, 9, "{user}: {command}: {}{}", ran.out, ran.err);
        assert!(ran.out.is_empty(), "{user}: {command}: {}", ran.out);
    }
}

#[test]
fn guests_have_what_is_theirs_and_nothing_else() {
    let Some(machine) = Machine::new() else { return };
    assert_eq!(machine.run_as_owner("reconcile --wait=1m -q").code, 0);
    assert_eq!(machine.ok("alice", "claim lab hers --lifetime 2h -q"), "hers\n");
    assert_eq!(machine.ok("bob", "claim lab his -q"), "his\n");
    // Each sees his own.
    assert_eq!(machine.ok("alice", "get claim -o name"), "claim/hers\n");
    assert_eq!(machine.ok("bob", "get claim -A -o name"), "claim/his\n");
    assert_eq!(machine.ok("carol", "get claim -o name"), "");
    for command in
        ["describe claim hers", "why claim/hers", "events claim/hers", "extend hers --for 1h"]
    {
        machine.ok("alice", command);
        machine.assert_denied("bob", command);
    }
    machine.assert_denied("bob", "get claim hers");
    machine.assert_denied("bob", "release hers");
    machine.assert_denied("bob", "release -y hers his");
    assert_eq!(machine.ok("bob", "get claim -o name"), "claim/his\n");
    let annotations =
        machine.run_as_owner("get claim hers -o jsonpath='{.metadata.annotations}'").out;
    assert!(annotations.contains("alice"), "{annotations}");
    machine.ok("bob", "release his");
    // The account is asked before it releases a claim of somebody else; the event names both.
    let asked = machine.run_as_owner("release hers");
    assert!(asked.code == 2 && asked.err.contains("belongs to alice"), "{}", asked.err);
    assert_eq!(machine.run_as_owner("release -y hers").code, 0);
    let events = machine.run_as_owner("events claim/hers").out;
    assert!(events.contains("poolctl requested the deletion of what alice claimed"), "{events}");
}

#[test]
fn logs_and_credentials_are_for_subjects_and_pool_admins_too() {
    let Some(machine) = Machine::new() else { return };
    assert_eq!(machine.run_as_owner("reconcile --wait=1m -q").code, 0);
    machine.ok("alice", "claim lab hers -q");
    let cluster = machine.run_as_owner("get claim hers -o jsonpath='{.spec.namespace}'").out;
    let clusters = machine.run_as_owner("get cluster -o name").out;
    let free_cluster = clusters.lines().find(|line| !line.ends_with(&*cluster)).unwrap();
    let free_cluster = free_cluster.trim_start_matches("cluster/");
    let reading_commands = [
        "kubeconfig hers".to_owned(),
        "credentials hers".to_owned(),
        format!("cluster logs {cluster}"),
        format!("describe cluster {cluster}"),
        format!("get cluster {cluster}"),
    ];
    // A kubeconfig is printed: its file would be the account's.
    assert!(machine.ok("alice", "kubeconfig hers").contains("\"server\": \"https:"));
    assert!(!machine.ok("alice", "credentials hers").contains("/home/"));
    machine.ok("alice", "cluster hibernate hers");
    machine.ok("alice", "cluster resume hers");
    for command in &reading_commands {
        machine.ok("alice", command);
        machine.assert_denied("carol", command);
        machine.assert_denied("dave", command);
    }
    // The subjects of a claim may read it, too.
    let subjects = r#"{"spec": {"subjects": [{"kind": "User", "name": "carol"}]}}"#;
    let patched = machine.run_as_owner(&format!("patch claim hers -p '{subjects}'"));
    assert_eq!(patched.code, 0, "{}", patched.err);
    for command in &reading_commands {
        machine.ok("carol", command);
        machine.assert_denied("dave", command);
    }
    // Subjects of the role see all clusters of the namespace's pools, and change none.
    let binding = "kind: RoleBinding\napiVersion: rbac.authorization.k8s.io/v1\n\
        metadata: {name: admins}\n\
        roleRef: {kind: ClusterRole, name: hive-cluster-pool-admin}\n\
        subjects: [{kind: Group, name: watchers}]\n";
    let file = machine.sandbox.path().join("home/binding.yaml");
    std::fs::write(&file, binding).unwrap();
    assert_eq!(machine.run_as_owner(&format!("apply -f {}", file.display())).code, 0);
    for command in &reading_commands {
        machine.ok("dave", command);
    }
    machine.ok("dave", &format!("kubeconfig {free_cluster}"));
    machine.assert_denied("carol", &format!("kubeconfig {free_cluster}"));
    machine.assert_denied("alice", &format!("describe cluster {free_cluster}"));
    for user in ["carol", "dave"] {
        for command in ["release -y hers", "extend hers --for 1h", "cluster hibernate hers"] {
            machine.assert_denied(user, command);
        }
    }
    // The role is of one namespace.
    let create = "-n away pool create far --fake --fake-install-duration 1s --running-count 1 -q";
    assert_eq!(machine.run_as_owner(create).code, 0);
    assert_eq!(machine.run_as_owner("reconcile --wait=1m -q").code, 0);
    machine.ok("alice", "-n away claim far there -q");
    machine.assert_denied("dave", "-n away kubeconfig there");
}

#[test]
fn guests_have_as_many_claims_as_the_settings_allow() {
    let Some(machine) = Machine::new() else { return };
    assert_eq!(machine.run_as_owner("reconcile --wait=1m -q").code, 0);
    assert_eq!(machine.run_as_owner("pool create empty --fake --size 0 -q").code, 0);
    let settings = "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {name: default}\n\
                    spec: {quota: {claims: 2, waiting: 1}}\n";
    let file = machine.sandbox.path().join("home/settings.yaml");
    std::fs::write(&file, settings).unwrap();
    assert_eq!(machine.run_as_owner(&format!("apply -f {}", file.display())).code, 0);
    machine.ok("alice", "claim lab a -q");
    machine.ok("alice", "claim lab b -q");
    let ran = machine.run_behind_sudo("alice", "claim lab c");
    assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("you have 2 of the 2 claims that you may have"), "{}", ran.err);
    // Everybody has a quota of his own, and a claim that was released does not count.
    machine.ok("bob", "claim empty waits -q");
    let ran = machine.run_behind_sudo("bob", "claim lab other");
    assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("1 of your claims wait for a cluster, and 1 may wait"), "{}", ran.err);
    machine.ok("alice", "release a");
    machine.ok("alice", "claim empty c -q");
    // Admins and the account are not limited.
    for name in ["d", "e", "f"] {
        let ran = machine.run_behind_sudo("erin", &format!("claim empty {name} -q"));
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
}

#[test]
fn guests_lease_addresses_and_release_their_own() {
    let Some(machine) = Machine::new() else { return };
    let create = "ippool create lan --range 10.0.0.1-10.0.0.9 --allocation sequential -q";
    assert_eq!(machine.run_as_owner(create).code, 0);
    let settings = "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {name: default}\n\
                    spec: {quota: {claims: 2}}\n";
    let file = machine.sandbox.path().join("home/settings.yaml");
    std::fs::write(&file, settings).unwrap();
    assert_eq!(machine.run_as_owner(&format!("apply -f {}", file.display())).code, 0);
    assert_eq!(machine.ok("alice", "ip claim lan hers"), "10.0.0.1\n");
    assert_eq!(machine.ok("alice", "ip claim lan hers"), "10.0.0.1\n");
    assert_eq!(machine.run_as_owner("ip claim lan ours --comment secret").code, 0);
    for line in [
        "ip claim lan hers",
        "ip claim lan ours --for 1h",
        "ip release hers",
        "ip release ours",
        "ip release nobody",
        "ip who 10.0.0.1",
        "ip reserve lan 10.0.0.5",
    ] {
        machine.assert_denied("bob", line);
    }
    // What other people have is not told.
    let ran = machine.run_behind_sudo("bob", "ip claim lan his --address 10.0.0.2");
    assert_eq!((ran.code, ran.err.contains("secret")), (6, false), "{}", ran.err);
    assert!(ran.err.contains("next: the same command without --address"), "{}", ran.err);
    // Addresses count like clusters, also several at once.
    let ran = machine.run_behind_sudo("alice", "ip claim lan more --count 2");
    assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("you have 2 of the 2 claims that you may have"), "{}", ran.err);
    machine.ok("alice", "ip claim lan second -q");
    assert_eq!(machine.run_behind_sudo("alice", "ip claim lan third").code, 6);
    assert_eq!(machine.run_behind_sudo("alice", "claim lab third").code, 6);
    machine.ok("alice", "ip release hers");
    machine.ok("alice", "ip claim lan third -q");
}

#[test]
fn what_guests_shall_type_next_is_what_they_can_type() {
    let Some(machine) = Machine::new() else { return };
    assert_eq!(machine.run_as_owner("reconcile --wait=1m -q").code, 0);
    let create = "ippool create one --range 10.0.1.1-10.0.1.1 -q";
    assert_eq!(machine.run_as_owner(create).code, 0);
    assert_eq!(machine.run_as_owner("ip claim one ours -q").code, 0);
    assert_eq!(machine.run_as_owner("pool create slow --fake --size 0 -q").code, 0);
    for (code, line, next) in [
        (6, "ip claim one his", "the same command with --wait, until an address is free"),
        (5, "ip claim one his --wait=1s", "ask an admin"),
        (5, "ip claim one his --wait=1s --keep", "sudo -u poolctl poolctl ip claim one his"),
        (3, "ip claim none his", "ask an admin"),
        (3, "release nothing", "sudo -u poolctl poolctl get claim"),
        (5, "claim slow later --wait=1s", "sudo -u poolctl poolctl get pool/slow"),
        (0, "claim lab --no-reconcile", "ask an admin"),
        (0, "claim lab his", "sudo -u poolctl poolctl kubeconfig his >kubeconfig"),
    ] {
        let ran = machine.run_behind_sudo("bob", line);
        assert_eq!(ran.code, code, "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(&format!("next: {next}")), "{line}: {}", ran.err);
    }
    let may = |kind: &str| machine.run_behind_sudo("bob", &format!("auth can-i list {kind}")).out;
    assert_eq!((&*may("claim"), &*may("ippool")), ("yes\n", "no\n"));
    // In a shell that sudo has opened, poolctl is typed as it is.
    let line = "sudo -n -u poolctl sh -c 'poolctl get pool nowhere'";
    let ran = machine.run_as("erin", line);
    assert!(ran.err.contains("next: poolctl get "), "{}", ran.err);
    let ran = machine.run_behind_sudo("erin", "get pool nowhere");
    assert!(ran.err.contains("next: sudo -u poolctl poolctl get "), "{}", ran.err);
}

#[test]
fn guests_see_how_many_clusters_pools_have() {
    let Some(machine) = Machine::new() else { return };
    assert_eq!(machine.run_as_owner("reconcile --wait=1m -q").code, 0);
    let proxy = r#"{"spec": {"installerEnv": [{"name": "HTTPS_PROXY", "value": "hunter2"}]}}"#;
    assert_eq!(machine.run_as_owner(&format!("patch pool lab -p '{proxy}'")).code, 0);
    assert!(machine.run_as_owner("get pool lab -o yaml").out.contains("hunter2"));
    machine.ok("alice", "claim lab hers --lifetime 2h -q");
    machine.ok("bob", "claim lab his -q");
    assert_eq!(machine.ok("alice", "get pool -o name"), "clusterpool/lab\n");
    assert_eq!(machine.ok("alice", "get pool lab -o jsonpath='{.status.claimed}'"), "2");
    assert_eq!(machine.ok("alice", "get pool,claim -o name"), "clusterpool/lab\nclaim/hers\n");
    for command in ["get pool -A -o json", "get pool lab -o yaml", "status -o json"] {
        let shown = machine.ok("alice", command);
        assert!(shown.contains("ready") && !shown.contains("hunter2"), "{command}: {shown}");
    }
    let status = machine.ok("alice", "status");
    assert!(status.starts_with("POOL ") && status.contains("\nlab "), "{status}");
    assert!(status.contains("claim hers has cluster lab-"), "{status}");
    assert!(status.contains("\n1 pool, 1 claim\n") && !status.contains(" his "), "{status}");
    assert!(machine.ok("carol", "status").contains("\n1 pool, 0 claims\n"));
}

#[test]
fn guests_are_denied_all_that_is_not_theirs_and_every_file() {
    let Some(machine) = Machine::new() else { return };
    let home = machine.sandbox.path().join("home").display().to_string();
    std::fs::write(format!("{home}/secret"), "of the account").unwrap();
    for command in [
        "--state /tmp/other.db get claim",
        "--state=/tmp/other.db claim lab x",
        "--i-know claim lab x",
        "run lab -- sh",
        "edit pool/lab",
        "patch settings default -p '{}'",
        "get settings",
        "get secret -o yaml",
        "get claim,secret",
        "get job",
        "get event",
        "events",
        "describe pool lab",
        "why pool/lab",
        "state path",
        "export",
        "doctor",
        "metrics",
        "plan",
        "reconcile",
        "job list",
        "wait claim/x --for=delete",
        "pool scale lab --size 9",
        "scale pool lab --replicas 9",
        "delete pool lab -y",
        "patch pool lab -p '{}'",
        "label pool lab a=b",
        "cluster retry x",
        "pool create mine --fake",
        "pool rotate-credentials lab",
    ] {
        machine.assert_denied("alice", command);
    }
    // Whatever names a file is refused, and the file is not touched.
    for command in [
        "apply -f {home}/secret",
        "diff -f {home}/secret",
        "import {home}/secret",
        "export {home}/secret",
        "backup {home}/copy",
        "restore {home}/secret -y",
        "metrics --textfile {home}/copy",
        "extract secret/x --to={home}",
        "secret create x --from-file={home}/secret",
        "pool create mine --fake --install-config {home}/secret",
    ] {
        machine.assert_denied("alice", &command.replace("{home}", &home));
    }
    assert_eq!(std::fs::read_to_string(format!("{home}/secret")).unwrap(), "of the account");
    assert!(!std::fs::exists(format!("{home}/copy")).unwrap());
    // Completion offers nothing and says nothing.
    let ran = machine.run_behind_sudo("alice", "__complete -- poolctl get pool ''");
    assert!(ran.code == 1 && ran.out.is_empty() && ran.err.is_empty(), "{}{}", ran.out, ran.err);
}

#[test]
fn sudo_lets_nothing_else_through() {
    let Some(machine) = Machine::new() else { return };
    let home = machine.sandbox.path().join("home").display().to_string();
    // sudo itself lets nothing else through, and strips what would choose another state.
    for line in [
        "sudo -n -u poolctl sh -c id",
        "sudo -n -u poolctl -s",
        "sudo -n -u root poolctl get claim",
        "sudo -n -u poolctl POOLCTL_STATE=/tmp/x poolctl get claim",
        "sudo -n -E -u poolctl poolctl get claim",
        "sudo -n -u poolctl -D / poolctl get claim",
    ] {
        let ran = machine.run_as("alice", line);
        assert!(ran.code == 1 && ran.out.is_empty(), "{line}: {}{}", ran.out, ran.err);
    }
    machine.ok("alice", "claim lab hers -q");
    for variable in ["HOME", "XDG_STATE_HOME", "POOLCTL_STATE", "SUDO_UID", "TMPDIR", "EDITOR"] {
        let line = format!("{variable}=/tmp/x sudo -n -u poolctl poolctl get claim -o name");
        let ran = machine.run_as("alice", &line);
        assert_eq!((ran.code, &*ran.out), (0, "claim/hers\n"), "{variable}: {}", ran.err);
    }
    // Without sudo the state cannot be read, whoever one claims to be.
    let state = format!("{home}/.local/state/poolctl/state.db");
    let ran =
        machine.run_as("alice", &format!("SUDO_UID=4801 POOLCTL_STATE={state} poolctl status"));
    assert_eq!(ran.code, 9, "{}", ran.err);
    // Variables that reach poolctl nevertheless are refused; a SUDO_UID must be a number.
    for (variable, value) in [("POOLCTL_NOW", "2030-01-01T00:00:00Z"), ("POOLCTL_STATE", "/tmp/x")]
    {
        let line = format!("SUDO_UID=4802 {variable}={value} poolctl get claim");
        let ran = machine.run_as("poolctl", &line);
        assert!(ran.code == 9 && ran.err.contains(variable), "{}", ran.err);
    }
    assert_eq!(machine.run_as("poolctl", "SUDO_UID=-1 poolctl get claim").code, 9);
}

#[test]
fn the_sudoers_example_is_valid() {
    if !is_met_or_skipped(has_program("visudo"), "visudo reads sudoers files") {
        return;
    }
    let ran = Sandbox::new().shell("visudo -cf examples/access/sudoers");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}
