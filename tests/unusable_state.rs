//! Files that are not a usable state: refused, exit 8, and not a byte of them changed.

use crate::sandbox::{Sandbox, execute_sql, has_program, is_met_or_skipped, is_root};

/// Commands that open a state in every way.
const COMMANDS: [&str; 6] = [
    "get pool",
    "status",
    "reconcile",
    "claim lab",
    "pool create x --fake",
    "apply -f examples/pool",
];

/// Every command refuses the state with this message, and does not change it.
fn assert_refused(sandbox: &Sandbox, message: &str) {
    let before = std::fs::read(sandbox.state()).unwrap();
    for command in COMMANDS {
        let ran = sandbox.shell(&format!("poolctl {command}"));
        assert_eq!(ran.code, 8, "{command}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(message), "{command}: {}", ran.err);
        assert_eq!(std::fs::read(sandbox.state()).unwrap(), before, "{command}");
    }
}

fn sandbox_with_state(bytes: &[u8]) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.state(), bytes).unwrap();
    // A state without its lock would be a copy that may lack its log.
    std::fs::write(sandbox.path().join("state.db.lock"), "").unwrap();
    sandbox
}

/// The bytes of a usable state.
fn usable_state() -> Vec<u8> {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    sandbox.ok("reconcile --wait -q");
    // What is in the log is not in the file, which alone is copied.
    execute_sql(&sandbox, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    std::fs::read(sandbox.state()).unwrap()
}

#[test]
fn a_file_that_is_not_a_state_is_refused_and_not_changed() {
    assert_refused(&sandbox_with_state(b""), "empty or too short");
    assert_refused(&sandbox_with_state(b"hello"), "empty or too short");
    assert_refused(&sandbox_with_state(&[7; 5000]), "is not a poolctl state file");
    assert_refused(
        &sandbox_with_state(&std::fs::read("Cargo.lock").unwrap()),
        "is not a poolctl state file",
    );
    let bytes = usable_state();
    // The header of SQLite has the number of the schema at 60, and whose file it is at 68.
    let mut foreign = bytes.clone();
    foreign[68..72].copy_from_slice(&[0; 4]);
    assert_refused(&sandbox_with_state(&foreign), "is not a poolctl state file");
    let mut newer = bytes.clone();
    newer[60..64].copy_from_slice(&[0, 0, 0, 99]);
    assert_refused(&sandbox_with_state(&newer), "newer poolctl");
    assert_refused(&sandbox_with_state(&bytes[..bytes.len() / 2]), "cut short");
    let mut no_schema = bytes.clone();
    no_schema[60..64].copy_from_slice(&[0; 4]);
    assert_refused(&sandbox_with_state(&no_schema), "a schema that no poolctl has made");
}

#[test]
fn a_corrupt_state_is_refused_wherever_it_is_corrupt() {
    let bytes = usable_state();
    let page_size = 4096;
    let mut refusals = 0;
    for page in 1..bytes.len() / page_size {
        let mut corrupt = bytes.clone();
        corrupt[page * page_size..page * page_size + 64].fill(0xa5);
        let sandbox = sandbox_with_state(&corrupt);
        for command in ["get pool", "reconcile", "claim lab -q"] {
            let ran = sandbox.shell(&format!("poolctl {command}"));
            // A page that a command does not read may be anything.
            assert!([0, 8].contains(&ran.code), "page {page}, {command}: {} {}", ran.code, ran.err);
            if ran.code == 8 {
                refusals += 1;
                assert!(ran.err.contains("corrupt") || ran.err.contains("cannot"), "{}", ran.err);
            }
        }
    }
    assert!(refusals > 5, "{refusals}");
}

#[test]
fn a_reading_command_makes_no_state() {
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
        // Whoever types it has a cluster at once.
        assert!(ran.err.contains("NAME --fake --fake-install-duration 3s"), "{}", ran.err);
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
fn a_state_of_another_user_is_refused() {
    if !is_met_or_skipped(is_root(), "only root can be somebody else") || !has_program("setpriv") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    sandbox.shell("chmod 755 $HOME; cp $(command -v poolctl) $HOME/p; chmod 755 $HOME/p");
    let other = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    for command in ["get pool", "claim lab", "pool create x --fake"] {
        let ran = sandbox.shell(&format!("{other} $HOME/p {command}"));
        assert_eq!(ran.code, 9, "{command}: {}", ran.err);
    }
    // Nor is a state made where that user may not write.
    let ran = sandbox
        .shell(&format!("POOLCTL_STATE=$HOME/new/state.db {other} $HOME/p pool create x --fake"));
    assert_eq!(ran.code, 9, "{}", ran.err);
}

#[test]
fn a_read_only_state_is_refused() {
    if !is_met_or_skipped(is_root() && can_mount(), "needs root and mounts of its own") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    let script = "mount --bind $HOME $HOME && mount -o remount,bind,ro $HOME && poolctl pool scale lab --size 5";
    let ran = sandbox.shell(&format!("unshare -m sh -c '{script}'"));
    assert_eq!(ran.code, 8, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("read-only"), "{}", ran.err);
    assert!(sandbox.ok("get pool").contains("lab   1"));
}

/// Commands that change a state, or copy it.
const CHANGING_COMMANDS: [&str; 6] = [
    "claim lab other",
    "release c",
    "reconcile",
    "pool create x --fake",
    "backup $HOME/copy.db",
    "restore $HOME/backup.db -y",
];

/// Commands that only read a state.
const READING_COMMANDS: [&str; 4] = ["get pool", "status", "plan", "export"];

fn sandbox_with_claim_and_backup() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab c -q");
    assert_eq!(sandbox.shell("poolctl backup $HOME/backup.db").code, 0);
    sandbox
}

/// The refusal of a state with two names.
fn two_names_message(path: &std::path::Path, cause: &str, next: &str) -> String {
    format!(
        "error: the state `{}` has more than one name\n  cause: {cause}\n  \
         cause: its log and locks are beside one name; programs that use another name do not see them\n  \
         next: {next}\n",
        path.display()
    )
}

/// Somebody with a corrupt state was told that it was left as it is, and not what to do.
#[test]
fn a_corrupt_state_names_the_ways_out_and_both_lead_out() {
    // The list of tables, and the header.
    for (offset, size, says) in
        [(4096, 60_000, "the state file is corrupt"), (0, 100, "is not a poolctl state file")]
    {
        let sandbox = sandbox_with_claim_and_backup();
        execute_sql(&sandbox, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let mut bytes = std::fs::read(sandbox.state()).unwrap();
        let end = bytes.len().min(offset + size);
        bytes[offset..end].fill(if offset == 0 { 0 } else { 0xa5 });
        std::fs::write(sandbox.state(), &bytes).unwrap();
        for command in ["get pool", "claim lab d", "doctor"] {
            let ran = sandbox.shell(&format!("poolctl {command}"));
            assert_eq!(ran.code, 8, "{command}: {}{}", ran.out, ran.err);
            assert!(ran.err.contains(says), "{command}: {}", ran.err);
            assert!(ran.err.contains("next: poolctl restore BACKUP"), "{command}: {}", ran.err);
        }
        let salvage = "poolctl doctor --salvage $HOME/state.db --to $HOME/new.db";
        // Either some of it is saved, or there is no new state.
        let ran = sandbox.shell(&format!("{salvage}; [ $? = 1 ] || [ ! -e $HOME/new.db ]"));
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("next: "), "{}{}", ran.out, ran.err);
        let ran = sandbox.shell("poolctl restore $HOME/backup.db -y --nothing-since");
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("the replaced state is kept as "), "{}", ran.err);
        sandbox.ok("get pool");
    }
}

#[test]
fn a_pipe_is_no_state_to_salvage() {
    let sandbox = Sandbox::new();
    let ran = sandbox.shell(
        "mkfifo $HOME/pipe && timeout 20 poolctl doctor --salvage $HOME/pipe --to $HOME/new.db",
    );
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("pipe` is not a file"), "{}", ran.err);
}

/// A claim through a second link was once not seen through the first: one cluster had two users.
#[test]
fn a_state_with_two_hard_links_is_changed_by_neither_name_and_read_with_a_warning() {
    let sandbox = sandbox_with_claim_and_backup();
    let before = sandbox.all_objects();
    let link = sandbox.path().join("other.db");
    std::fs::hard_link(sandbox.state(), &link).unwrap();
    for path in [sandbox.state(), link.clone()] {
        let shown = path.display();
        let find = format!("find \"$(stat -c %m '{shown}')\" -xdev -samefile '{shown}'");
        let next = format!("{find} lists them; keep the one with a -wal beside it, rm the others");
        let message = two_names_message(&path, "it has 2 hard links", &next);
        for command in CHANGING_COMMANDS {
            let ran = sandbox.shell(&format!("poolctl --state {shown} {command}"));
            if path == link {
                // Without its log the file has no pool yet, and nobody can tell.
                assert_eq!(ran.code, 8, "{command}: {}", ran.err);
                assert!(ran.err.contains("has more than one name"), "{command}: {}", ran.err);
            } else {
                assert_eq!((ran.code, &ran.err), (8, &message), "{command}");
            }
        }
        for command in READING_COMMANDS {
            let ran = sandbox.shell(&format!("poolctl --state {shown} {command}"));
            let warning = format!(
                "warning: the state `{shown}` has more than one name: it has 2 hard links; "
            );
            assert!(ran.code == 0 || command == "plan", "{command}: {}", ran.err);
            assert_eq!(ran.err.matches(&warning).count(), 1, "{command}: {}", ran.err);
            assert!(ran.err.contains(&format!("; next: {next}")), "{command}: {}", ran.err);
        }
        let ran = sandbox.shell(&format!("poolctl --state {shown} doctor"));
        assert!(ran.code == 1 && ran.out.contains("has more than one name"), "{}", ran.out);
        // The command that the message names, but not through the whole file system.
        let fake_stat = "stat() { command stat \"$@\" >$HOME/mount && echo $HOME; }";
        let ran =
            sandbox.shell(&format!("{fake_stat}; {find} | sort; test -d \"$(cat $HOME/mount)\""));
        let paths = format!("{}\n{}\n", link.display(), sandbox.state().display());
        assert_eq!((ran.code, ran.out), (0, paths), "{}", ran.err);
    }
    for end in ["-wal", "-shm", ".lock", ".pass", ".clusters"] {
        let beside = format!("{}{end}", link.display());
        assert!(!std::path::Path::new(&beside).exists(), "{beside}");
    }
    std::fs::remove_file(link).unwrap();
    assert_eq!(sandbox.all_objects(), before);
    sandbox.ok("claim lab d -q");
    sandbox.ok("release c -q");
}

#[test]
fn a_state_that_is_mounted_as_a_file_is_not_changed_there_and_only_there() {
    if !is_met_or_skipped(is_root() && can_mount(), "needs root and mounts of its own") {
        return;
    }
    let sandbox = sandbox_with_claim_and_backup();
    let before = sandbox.all_objects();
    let mounted = sandbox.path().join("mounted.db");
    let shown = mounted.display();
    let mount = format!("touch {shown} && mount --bind $HOME/state.db {shown}");
    for command in CHANGING_COMMANDS {
        let script = format!("{mount} && poolctl --state {shown} {command}");
        let ran = sandbox.shell(&format!("unshare -m sh -c '{script}'"));
        assert_eq!(ran.code, 8, "{command}: {}", ran.err);
        assert!(ran.err.contains("has more than one name"), "{command}: {}", ran.err);
    }
    let script = format!("{mount} && poolctl --state {shown} get pool");
    let ran = sandbox.shell(&format!("unshare -m sh -c '{script}'"));
    assert!(ran.code == 0 && ran.err.contains("it is a bind mount of one file"), "{}", ran.err);
    let ran = sandbox.shell(&format!("unshare -m sh -c \"{mount} && findmnt -no SOURCE {shown}\""));
    assert!(ran.code == 0 && ran.out.contains("state.db"), "{}{}", ran.out, ran.err);
    assert_eq!(sandbox.all_objects(), before);
    // By its own name it is used as ever, and also in a folder that is mounted.
    let ran = sandbox.shell(&format!("unshare -m sh -c '{mount} && poolctl claim lab d -q'"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let folder = "mkdir $HOME/folder && mount --bind $HOME $HOME/folder";
    let release = "poolctl --state $HOME/folder/state.db release c d";
    let ran = sandbox.shell(&format!("unshare -m sh -c '{folder} && {release}'"));
    assert_eq!(ran.code, 0, "{}", ran.err);
}

/// Whether this process may mount.
fn can_mount() -> bool {
    let ran = Sandbox::new().shell("unshare -m sh -c 'mount --bind $HOME $HOME'");
    ran.code == 0
}

#[test]
fn a_pool_that_cannot_be_read_is_not_said_to_be_absent() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    let sql =
        "UPDATE document SET body = json_set(body, '$.spec.labels', 5) WHERE kind = 'ClusterPool'";
    assert_eq!(execute_sql(&sandbox, sql).unwrap(), 1);
    sandbox.refused(
        8,
        "describe pool lab",
        "a row of kind ClusterPool in table document cannot be read",
    );
}

#[test]
fn a_cluster_whose_annotations_cannot_be_read_is_not_driven_without_them() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1 -q");
    let sql = "UPDATE cluster_body SET body = json_set(body, '$.metadata.labels', 5)";
    assert_eq!(execute_sql(&sandbox, sql).unwrap(), 1);
    sandbox.refused(8, "reconcile", "the metadata of cluster `lab-");
}

/// Salvages the state of a sandbox, and expects a state that lacks a row and can be used.
fn assert_salvaged_without_the_row(sandbox: &Sandbox, damage: &str) {
    let ran = sandbox.shell("poolctl doctor --salvage $HOME/state.db --to $HOME/new.db");
    assert_eq!(ran.code, 1, "{damage}: {}{}", ran.out, ran.err);
    assert!(ran.out.contains("rows whose values are not possible"), "{damage}: {}", ran.out);
    for command in ["doctor --fix", "reconcile --all", "get claim,cluster,job", "export -o json"] {
        let ran = sandbox.shell(&format!("poolctl --state $HOME/new.db {command}"));
        assert!([0, 1].contains(&ran.code), "{damage}, {command}: {}{}", ran.out, ran.err);
    }
}

/// Only the program knows which words there are, not the schema.
#[test]
fn a_word_that_no_program_writes_is_named_with_its_row_and_can_be_left_behind() {
    for (table, column) in [
        ("cluster", "driver"),
        ("cluster", "power_wanted"),
        ("cluster", "power"),
        ("claim", "pending"),
        ("claim", "running"),
        ("job", "verb"),
        ("job", "driver"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.ok("pool create lab --fake --size 1 -q");
        sandbox.ok("claim lab mine -q");
        let sql = format!("UPDATE {table} SET {column} = 'elsewhere'");
        assert!(execute_sql(&sandbox, &sql).unwrap() > 0, "{table}.{column}");
        let problem = format!("column {column}: unknown name `elsewhere`");
        sandbox.refused(8, "reconcile --all", &problem);
        assert!(sandbox.shell("poolctl doctor").out.contains(&problem), "{table}.{column}");
        assert_salvaged_without_the_row(&sandbox, &sql);
    }
}

#[test]
fn a_past_job_that_cannot_be_read_is_named_although_no_pass_reads_it() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let sql = "UPDATE job SET verb = 'elsewhere' WHERE ended IS NOT NULL";
    assert!(execute_sql(&sandbox, sql).unwrap() > 0);
    sandbox.ok("reconcile --all");
    assert!(sandbox.shell("poolctl doctor").out.contains("column verb: unknown name `elsewhere`"));
    assert_salvaged_without_the_row(&sandbox, sql);
}

#[test]
fn a_document_that_is_no_json_can_be_left_behind_and_its_object_removed() {
    for (table, remove) in [("cluster_body", "delete cluster"), ("claim_body", "release")] {
        let mut sandbox = Sandbox::new();
        sandbox.ok("pool create lab --fake --size 1 -q");
        sandbox.ok("claim lab mine -q");
        let sql = format!("UPDATE {table} SET body = '{{'");
        assert!(execute_sql(&sandbox, &sql).unwrap() > 0, "{table}");
        assert_eq!(sandbox.shell("poolctl doctor").code, 1, "{table}");
        assert_salvaged_without_the_row(&sandbox, &sql);
        let new_state = sandbox.path().join("new.db").display().to_string();
        sandbox.set_variable("POOLCTL_STATE", &new_state);
        let advice = sandbox.shell(
            "poolctl doctor | sed -n 's/.*has no document; to have a state without it: //p'",
        );
        let command = advice.out.lines().next().unwrap_or_default().trim_end().to_owned();
        assert!(command.starts_with(&format!("poolctl {remove} ")), "{table}: {}", advice.out);
        let ran = sandbox.shell(&format!("{command} -y"));
        assert_eq!(ran.code, 0, "{table}: {command}: {}", ran.err);
    }
}

#[test]
fn a_count_that_is_out_of_range_keeps_no_command_from_going_on() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    execute_sql(&sandbox, "UPDATE state SET tell_failures = -1").unwrap();
    sandbox.ok("claim lab mine -q");
    sandbox.ok("status");
}
