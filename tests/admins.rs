//! Admins behind sudo, with the real users and the real sudo of `access`: who owns which state, row
//! by row of the table in docs/tenants.md, and that nobody can make himself an admin.

use poolctl::model::documents::Admins;
use poolctl::rules::access::Person;

use crate::access::{CREATE, Machine};
use crate::sandbox::{Ran, Sandbox};

const AS_ROOT: &str = "sudo -n poolctl";
const AS_ACCOUNT: &str = "sudo -n -u poolctl poolctl";
/// What only owners may do; all of it succeeds on a state that is as it should be.
const FOR_OWNERS: [&str; 5] =
    ["state path", "describe pool lab", "get job", "doctor", "scale pool lab --replicas 3"];

fn behind_sudo(machine: &Machine, user: &str, sudo: &str, command: &str) -> Ran {
    machine.run_as(user, &format!("{sudo} {command}"))
}

/// Expects that a user may do all that owners may, and sees the whole of `status`.
fn assert_owner(machine: &Machine, user: &str, sudo: &str) {
    let commands = FOR_OWNERS.map(|command| format!("{sudo} {command} >/dev/null; echo $?\n"));
    let ran = machine.run_as(user, &format!("{}{sudo} status", commands.concat()));
    let status = ran.out.strip_prefix(&"0\n".repeat(FOR_OWNERS.len()));
    let is_whole = status
        .is_some_and(|status| status.contains(" jobs running") || status.contains(" job running"));
    assert!(is_whole && ran.code == 0, "{user}: {sudo}: {}{}", ran.out, ran.err);
}

/// Expects that a user may do nothing that only owners may, is shown nothing of it, and sees a
/// guest's `status`.
fn assert_guest(machine: &Machine, user: &str, sudo: &str) {
    let commands = FOR_OWNERS.map(|command| format!("{sudo} {command}; echo $?\n"));
    let ran = machine.run_as(user, &format!("{}{sudo} status", commands.concat()));
    let status = ran.out.strip_prefix(&"9\n".repeat(FOR_OWNERS.len()));
    let is_guests = status.is_some_and(|status| status.ends_with(" claims\n"));
    assert!(is_guests && ran.code == 0, "{user}: {sudo}: {}{}", ran.out, ran.err);
}

/// The path of Settings with this spec, in a file that everybody may read.
fn settings_file(machine: &Machine, spec: &str) -> String {
    let settings = format!(
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\n\
         spec: {{{spec}}}\n"
    );
    machine.sandbox.write_file("settings.yaml", &settings)
}

/// The standard output of a command that must have succeeded.
fn ok(ran: &Ran) -> &str {
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    &ran.out
}

#[test]
fn where_root_has_no_state_yet_only_an_admin_makes_one() {
    let Some(machine) = Machine::without_state() else { return };
    assert_eq!(behind_sudo(&machine, "frank", AS_ROOT, CREATE).code, 9);
    assert_eq!(behind_sudo(&machine, "erin", AS_ROOT, "status").code, 3);
    ok(&behind_sudo(&machine, "erin", AS_ROOT, CREATE));
    assert_owner(&machine, "erin", AS_ROOT);
    assert_guest(&machine, "frank", AS_ROOT);
    assert_eq!(ok(&machine.run_as_root("get pool -o name")), "clusterpool/lab\n");
}

#[test]
fn an_admin_sets_up_the_account_with_sudo_and_a_guest_does_not() {
    let Some(machine) = Machine::without_state() else { return };
    let init = "init --schedule none --platform none -y";
    let denied = behind_sudo(&machine, "frank", AS_ROOT, init);
    assert_eq!(denied.code, 9, "{}{}", denied.out, denied.err);
    let refused = machine.run_as("alice", "poolctl init --layout account --platform none -y");
    assert!(refused.err.contains("next: sudo poolctl init"), "{}", refused.err);
    let made = behind_sudo(&machine, "erin", AS_ROOT, init);
    assert!(ok(&made).contains("state /var/lib/poolctl/state.db"), "{}", made.out);
    // It is the account's, whoever has made it.
    let owner = machine.run_as("root", "stat -c %U:%a /var/lib/poolctl/state.db");
    assert_eq!(ok(&owner), "poolctl:600\n");
    let again = behind_sudo(&machine, "erin", AS_ROOT, init);
    assert!(ok(&again).contains("there already"), "{}", again.out);
    assert!(again.err.contains("nothing is left to do"), "{}", again.err);
    ok(&machine.run_as_owner(CREATE));
    assert_owner(&machine, "erin", AS_ROOT);
    assert_guest(&machine, "alice", AS_ACCOUNT);
}

#[test]
fn roots_own_state_is_its_admins_too_and_they_are_the_actors() {
    let Some(machine) = Machine::without_state() else { return };
    ok(&machine.run_as_root(CREATE));
    ok(&machine.run_as_root("reconcile --wait=1m -q"));
    assert_owner(&machine, "erin", AS_ROOT);
    assert_guest(&machine, "frank", AS_ROOT);
    ok(&behind_sudo(&machine, "erin", AS_ROOT, "scale pool lab --replicas 4"));
    let events = machine.run_as_root("events pool/lab");
    assert!(ok(&events).contains(" erin "), "{}", events.out);
    ok(&behind_sudo(&machine, "erin", AS_ROOT, "claim lab hers -q"));
    let annotations = machine.run_as_root("get claim hers -o jsonpath='{.metadata.annotations}'");
    assert!(ok(&annotations).contains("erin"), "{}", annotations.out);
    // A kubeconfig is printed: its file would be root's.
    let kubeconfig = behind_sudo(&machine, "erin", AS_ROOT, "kubeconfig hers");
    assert!(ok(&kubeconfig).contains("\"server\": \"https:"), "{}", kubeconfig.out);
    // An admin is asked before releasing what a guest claimed; the event names both.
    ok(&behind_sudo(&machine, "frank", AS_ROOT, "claim lab his -q"));
    let asked = behind_sudo(&machine, "erin", AS_ROOT, "release his");
    assert!(asked.code == 2 && asked.err.contains("belongs to frank"), "{}", asked.err);
    ok(&behind_sudo(&machine, "erin", AS_ROOT, "release his -y"));
    let events = machine.run_as_root("events claim/his");
    let message = "erin requested the deletion of what frank claimed";
    assert!(ok(&events).contains(message), "{}", events.out);
}

#[test]
fn root_owns_the_state_of_an_account_whoever_is_behind_sudo() {
    let Some(machine) = Machine::without_state() else { return };
    ok(&machine.run_as_owner(&format!("--state /var/lib/poolctl/state.db {CREATE}")));
    ok(&machine.run_as_owner(&format!("apply -f {} -q", settings_file(&machine, "admins: {}"))));
    for user in ["erin", "frank"] {
        assert_owner(&machine, user, AS_ROOT);
        ok(&behind_sudo(&machine, user, AS_ROOT, &format!("annotate pool lab {user}=here")));
        let events = machine.run_as_owner("events pool/lab");
        assert!(ok(&events).contains(&format!(" {user} ")), "{}", events.out);
    }
    // As the account they are what its Settings say; the account still owns its state.
    assert_guest(&machine, "erin", AS_ACCOUNT);
    assert_guest(&machine, "alice", AS_ACCOUNT);
    ok(&machine.run_as_owner("doctor"));
    ok(&machine.run_as_owner("scale pool lab --replicas 2"));
}

#[test]
fn settings_say_who_owns_an_accounts_state_besides_the_account() {
    let Some(machine) = Machine::without_state() else { return };
    ok(&machine.run_as_owner(CREATE));
    // If the Settings say nothing of admins: the members of sudo and wheel.
    let cases: [(&str, &[&str]); 5] = [
        ("", &["erin", "gina"]),
        ("admins: {}", &[]),
        ("admins: {users: [alice]}", &["alice"]),
        ("admins: {users: [nobody], groups: [watchers, sudo]}", &["dave", "erin"]),
        ("admins: null", &["erin", "gina"]),
    ];
    for (admins, owners) in cases {
        ok(&machine.run_as_owner(&format!("apply -f {} -q", settings_file(&machine, admins))));
        for user in ["alice", "dave", "erin", "gina"] {
            if owners.contains(&user) {
                assert_owner(&machine, user, AS_ACCOUNT);
            } else {
                assert_guest(&machine, user, AS_ACCOUNT);
            }
        }
    }
    // Only an owner changes the Settings.
    let named = settings_file(&machine, "admins: {users: [alice]}");
    machine.assert_denied("alice", &format!("apply -f {named}"));
    machine.assert_denied("alice", "patch settings default -p '{}'");
    machine.ok("gina", &format!("apply -f {named} -q"));
    assert_owner(&machine, "alice", AS_ACCOUNT);
    assert_guest(&machine, "gina", AS_ACCOUNT);
}

#[test]
fn a_state_that_somebody_brings_makes_nobody_an_admin() {
    let Some(machine) = Machine::without_state() else { return };
    ok(&machine.run_as_owner(CREATE));
    ok(&machine.run_as_root(CREATE));
    // States that the users own, in folders that are open to everybody.
    for user in ["alice", "frank"] {
        let folder = machine.sandbox.path().join(user).display().to_string();
        let named = settings_file(&machine, &format!("admins: {{users: [{user}]}}"));
        let mkdir = machine.sandbox.shell(&format!("mkdir -m 777 {folder}"));
        assert_eq!(mkdir.code, 0, "{}", mkdir.err);
        let state = format!("{folder}/state.db");
        for command in [CREATE, &format!("apply -f {named} -q")] {
            ok(&machine.run_as(user, &format!("poolctl --state {state} {command}")));
        }
        ok(&machine.run_as(user, &format!("chmod a+rw {folder}/state.db*")));
    }
    let folder = machine.sandbox.path().display();
    let hers = format!("{folder}/alice/state.db");
    let his = format!("{folder}/frank/state.db");
    for (user, line) in [
        ("alice", format!("{AS_ACCOUNT} --state {hers} get job")),
        ("alice", format!("{AS_ACCOUNT} --state {hers} get pool")),
        ("poolctl", format!("SUDO_UID=4802 POOLCTL_STATE={hers} poolctl get job")),
        ("poolctl", format!("SUDO_UID=4802 POOLCTL_STATE={hers} poolctl get pool")),
        // Root has a state of its own here, in which frank is a guest.
        ("frank", format!("{AS_ROOT} --state {his} get job")),
        ("frank", format!("{AS_ROOT} --state {hers} get pool")),
    ] {
        let ran = machine.run_as(user, &line);
        assert_eq!(ran.code, 9, "{user}: {line}: {}{}", ran.out, ran.err);
        assert!(ran.out.is_empty(), "{user}: {line}: {}", ran.out);
    }
    // An admin may name any state: it was not the state that stood in the way.
    for (user, line) in [
        ("gina", format!("{AS_ACCOUNT} --state {hers} get job")),
        ("erin", format!("{AS_ROOT} --state {his} get job")),
        ("erin", format!("sudo -n POOLCTL_STATE={hers} poolctl get job")),
    ] {
        ok(&machine.run_as(user, &line));
    }
}

#[test]
fn a_state_that_cannot_be_read_has_no_admins() {
    let Some(machine) = Machine::without_state() else { return };
    ok(&machine.run_as_owner(CREATE));
    let state = machine.sandbox.path().join("home/.local/state/poolctl/state.db");
    std::fs::write(state, "not a state").unwrap();
    for user in ["alice", "gina"] {
        let ran = behind_sudo(&machine, user, AS_ACCOUNT, "doctor");
        assert_eq!(ran.code, 8, "{user}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("so its admins are not known"), "{user}: {}", ran.err);
        ok(&behind_sudo(&machine, user, AS_ACCOUNT, "version"));
    }
}

#[test]
fn who_types_no_sudo_is_told_where_the_state_of_the_machine_is() {
    let Some(machine) = Machine::without_state() else { return };
    // The folder of the package is there, and nobody else may look into it.
    for user in ["alice", "erin"] {
        let ran = machine.run_as(user, "poolctl status");
        assert_eq!(ran.code, 3, "{user}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("next: sudo -u poolctl poolctl status\n"), "{}", ran.err);
    }
    let ran = machine.run_as("alice", "poolctl --state /tmp/no-such-state.db status");
    assert!(!ran.err.contains("sudo"), "{}", ran.err);
}

#[test]
fn guests_are_told_to_ask_an_admin() {
    let Some(machine) = Machine::without_state() else { return };
    ok(&machine.run_as_owner(CREATE));
    for command in ["pool scale lab --size 1", "why pool/lab"] {
        let ran = machine.run_behind_sudo("alice", command);
        assert_eq!(ran.code, 9, "{command}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("ask an admin\n"), "{command}: {}", ran.err);
    }
}

#[test]
fn run_is_refused_behind_sudo_and_names_what_helps() {
    let Some(machine) = Machine::without_state() else { return };
    ok(&machine.run_as_owner(CREATE));
    for user in ["alice", "gina"] {
        let ran = behind_sudo(&machine, user, AS_ACCOUNT, "-n here run lab -- touch /tmp/x");
        assert_eq!(ran.code, 9, "{user}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("would run as poolctl"), "{user}: {}", ran.err);
        let next = "next: sudo -u poolctl poolctl claim --wait lab -n here\n";
        assert!(ran.err.contains(next), "{}", ran.err);
    }
    assert_eq!(ok(&machine.run_as_owner("get claim -A -o name")), "");
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn admins_are_those_who_are_named_and_nobody_else() {
    let nobody = Admins::default();
    let alice = Admins { users: owned(&["alice"]), ..Admins::default() };
    let ops = Admins { groups: owned(&["ops"]), ..Admins::default() };
    for (name, groups, admins, expected) in [
        ("alice", ["sudo", "lab"], None, true),
        ("alice", ["lab", "wheel"], None, true),
        ("alice", ["admin", "lab"], None, true),
        ("sudo", ["lab", "admins"], None, false),
        ("alice", ["sudo", "wheel"], Some(&nobody), false),
        ("alice", ["lab", "users"], Some(&alice), true),
        ("bob", ["sudo", "alice"], Some(&alice), false),
        ("bob", ["lab", "ops"], Some(&ops), true),
        ("ops", ["lab", "users"], Some(&ops), false),
    ] {
        let person = Person { name: name.to_owned(), groups: owned(&groups) };
        assert_eq!(person.is_admin(admins), expected, "{name} {groups:?} {admins:?}");
    }
}

#[test]
fn an_admin_without_a_name_is_refused() {
    let sandbox = Sandbox::new();
    let settings = "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {name: default}\n\
                    spec: {admins: {groups: ['']}}\n";
    let path = sandbox.write_file("settings.yaml", settings);
    sandbox.refused(1, &format!("apply -f {path}"), "spec.admins has an empty name");
}
