//! A state that knows itself: documents and events that were changed or removed behind poolctl's
//! back are found, and nothing is lost for being one of many.

use std::fmt::Write;

use crate::sandbox::{Sandbox, apply, execute_sql};

/// Twenty leases were looked at, and whoever removed twenty and their pool met the database itself.
#[test]
fn a_pool_is_not_removed_with_twenty_of_its_many_leases() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.10-10.0.0.99 --allocation sequential");
    let mut claims = String::new();
    for number in 0..22 {
        let _ = write!(
            claims,
            "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\nmetadata: {{name: c{number:02}}}\n\
             spec: {{pool: {{name: lan}}}}\n---\n"
        );
    }
    apply(&sandbox, &claims);
    let first_claims: Vec<&str> = claims.split("---\n").take(20).collect();
    let pool = "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: lan}\n\
                spec: {pools: [{start: 10.0.0.10, end: 10.0.0.99}]}\n";
    let file =
        sandbox.write_file("going.yaml", &format!("{}---\n{pool}", first_claims.join("---\n")));
    let ran = sandbox.run(&format!("delete -f {file} -y"));
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("IPPool `lan` has leases"), "{}", ran.err);
    assert!(!ran.err.contains("the state file refuses"), "{}", ran.err);
    sandbox.ok("doctor");
}

/// What doctor says of the contents of a state; nothing if all is well.
fn problems_of_contents(sandbox: &Sandbox) -> String {
    let ran = sandbox.run("doctor");
    let rows =
        ran.out.lines().filter(|line| line.starts_with("contents") && line.contains("wrong"));
    rows.collect::<Vec<_>>().join("\n")
}

/// A copy of a state that was changed behind poolctl's back.
fn copy_and_change(sandbox: &Sandbox, sql: &str) -> Sandbox {
    let copy = sandbox.copy();
    // A copy with neither a lock nor a log is refused, and SQLite removes the log.
    copy.write_file("state.db.lock", "");
    assert!(execute_sql(&copy, sql).unwrap() > 0, "{sql}");
    copy
}

/// SQLite's own check says of all of these that the file is whole.
#[test]
fn documents_and_events_that_were_changed_or_removed_are_found() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab c -q");
    assert_eq!(problems_of_contents(&sandbox), "");
    let label = "body = json_set(body, '$.metadata.labels', json('{\"a\": \"b\"}'))";
    for (sql, says) in [
        (
            format!("UPDATE document SET {label} WHERE kind = 'ClusterPool'"),
            "the document of ClusterPool `lab` in table document is not the one",
        ),
        (format!("UPDATE claim_body SET {label}"), "the document of `c` in table claim_body"),
        ("UPDATE event SET message = message || '!' WHERE id = 3".into(), "event 3 has changed"),
        ("UPDATE event SET actor = 'nobody' WHERE id = 1".into(), "event 1 has changed"),
        ("DELETE FROM event WHERE id = 3".into(), "event 3 is missing"),
        ("DELETE FROM event WHERE id BETWEEN 3 AND 5".into(), "the events 3 to 5 are missing"),
        ("DELETE FROM event WHERE id < 3".into(), "the events 1 to 2 are missing"),
        (
            "DELETE FROM event WHERE id = (SELECT max(id) FROM event)".into(),
            "the newest one, are missing",
        ),
        (
            "INSERT INTO event (time, warning, reason, kind, namespace, name, actor, message) \
             SELECT time, 0, reason, kind, namespace, name, 'nobody', message FROM event LIMIT 1"
                .into(),
            "was not written by poolctl",
        ),
    ] {
        let changed = copy_and_change(&sandbox, &sql);
        let problems = problems_of_contents(&changed);
        assert!(problems.contains(says), "{sql}: {problems}");
        assert_eq!(problems.lines().count(), 1, "{sql}: {problems}");
    }
    // A document that poolctl writes anew is its own again.
    execute_sql(&sandbox, &format!("UPDATE document SET {label} WHERE kind = 'ClusterPool'"))
        .unwrap();
    sandbox.ok("label pool lab other=label");
    assert_eq!(problems_of_contents(&sandbox), "");
}

/// A checksum covers a document, and not the columns that repeat what it says: a cluster that came to
/// be paused by a failing disk was left alone for ever.
#[test]
fn columns_that_contradict_their_documents_are_found_and_mended() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab c -q");
    let names = sandbox.ok("get cluster -qo name");
    let cluster = names.lines().next().unwrap();
    let claimed = format!("cluster {cluster} -n {cluster}");
    assert_eq!(sandbox.run("doctor").code, 0);
    for (sql, object, column) in [
        ("UPDATE cluster SET paused = 1", claimed.as_str(), "paused"),
        ("UPDATE cluster SET protected = 1", claimed.as_str(), "protected"),
        ("UPDATE cluster SET once = 1", claimed.as_str(), "once"),
        ("UPDATE claim SET held = 1", "claim c -n default", "held"),
    ] {
        execute_sql(&sandbox, &format!("{sql} WHERE name IN ('c', '{cluster}')")).unwrap();
        let mend = format!("poolctl get {object} -o yaml | poolctl apply -f -");
        let ran = sandbox.run("doctor");
        let says = format!("than its document has ({column}); for the document to count: {mend}");
        assert!(ran.code == 1 && ran.out.contains(&says), "{says}: {}", ran.out);
        assert_eq!(sandbox.shell(&mend).code, 0, "{mend}");
        sandbox.ok("reconcile -q");
        assert!(!sandbox.run("doctor").out.contains("than its document has"), "{sql}");
    }
}

/// Once found, an event that is missing was a problem for ever.
#[test]
fn changed_contents_are_named_by_backup_and_restore_and_accepted_by_a_person() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let label = "body = json_set(body, '$.metadata.labels', json('{\"a\": \"b\"}'))";
    let sql = format!(
        "DELETE FROM event WHERE id = 3; UPDATE document SET {label} WHERE kind = 'ClusterPool'"
    );
    execute_sql(&sandbox, &sql).unwrap();
    let problems = problems_of_contents(&sandbox);
    assert_eq!(problems.matches("poolctl doctor --accept-contents").count(), 2, "{problems}");
    let ran = sandbox.shell("poolctl backup $HOME/b.db");
    let says = "warning: another program has changed the state: ";
    assert!(ran.code == 0 && ran.err.contains(says), "{}", ran.err);
    let restore = "poolctl --state $HOME/new/state.db restore $HOME/b.db --nothing-since";
    let ran = sandbox.shell(restore);
    let says = "warning: another program has changed the backup: ";
    assert!(ran.code == 0 && ran.err.contains(says), "{}", ran.err);
    sandbox.refused(2, "doctor --accept-contents", "poolctl doctor --accept-contents -y");
    sandbox.ok("doctor --accept-contents -y");
    assert_eq!(problems_of_contents(&sandbox), "");
    sandbox.ok("label pool lab c=d -q");
    assert_eq!(problems_of_contents(&sandbox), "");
}

#[test]
fn the_chain_of_events_goes_on_where_old_events_were_removed() {
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    apply(
        &sandbox,
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {name: default}\n\
         spec: {keepEventsDays: 1}\n",
    );
    let count_events = |sandbox: &Sandbox| sandbox.ok("get event -A -o name").lines().count();
    // Twice, so that the second sweep finds the gaps of the first.
    for day in ["06", "09"] {
        for name in ["a", "b", "c"] {
            sandbox.ok(&format!("claim lab {name} -q"));
            sandbox.ok(&format!("label pool lab last={name}{day} --overwrite -q"));
            sandbox.ok(&format!("release {name} -q"));
        }
        sandbox.ok("reconcile --wait=1h -q");
        let before = count_events(&sandbox);
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-{day}T12:00:00Z"));
        sandbox.ok("reconcile -q");
        sandbox.ok("reconcile -q");
        assert!(count_events(&sandbox) < before, "{before}");
        assert_eq!(problems_of_contents(&sandbox), "");
    }
    for sql in [
        "DELETE FROM event WHERE id = (SELECT min(id) FROM event)",
        "DELETE FROM event WHERE id = (SELECT max(first) - 1 FROM event_gap)",
        "DELETE FROM event WHERE id = (SELECT max(last) + 1 FROM event_gap)",
        "DELETE FROM event_gap",
    ] {
        let changed = copy_and_change(&sandbox, sql);
        assert!(problems_of_contents(&changed).contains("missing"), "{sql}");
    }
    // A state that was salvaged begins a chain of its own.
    execute_sql(&sandbox, "DELETE FROM event WHERE id = (SELECT max(last) + 1 FROM event_gap)")
        .unwrap();
    sandbox.shell("poolctl doctor --salvage $HOME/state.db --to $HOME/new.db");
    sandbox.set_variable("POOLCTL_STATE", &sandbox.path().join("new.db").display().to_string());
    assert_eq!(problems_of_contents(&sandbox), "");
}

#[test]
fn each_new_state_has_a_lineage_of_its_own_and_so_has_one_that_was_migrated() {
    let mut lineages = Vec::new();
    for _ in 0..2 {
        let sandbox = Sandbox::new();
        sandbox.ok("pool create lab --fake --size 0 -q");
        lineages.push(lineage_of(&sandbox));
        let migrated = crate::migrations::earlier(1);
        migrated.ok("label imgset ocp migrated=yes -q --no-reconcile");
        lineages.push(lineage_of(&migrated));
    }
    assert!(lineages.iter().all(|lineage| lineage.len() == 32), "{lineages:?}");
    lineages.sort_unstable();
    lineages.dedup();
    assert_eq!(lineages.len(), 4, "{lineages:?}");
}

fn lineage_of(sandbox: &Sandbox) -> String {
    let connection = rusqlite::Connection::open(sandbox.state()).unwrap();
    connection.query_row("SELECT lineage FROM state", [], |row| row.get(0)).unwrap()
}

/// Puts a file or a log from elsewhere in place of that of the state, by a script.
fn check_foreign_log(prepare: &str, mix: &str, says: &str) {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab c -q");
    sandbox.shell("poolctl backup $HOME/b.db -q");
    let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
    execute_sql(&sandbox, fold).unwrap();
    sandbox.ok("label pool lab first=yes -q");
    sandbox.shell(&format!("cd $HOME && {prepare}"));
    execute_sql(&sandbox, fold).unwrap();
    sandbox.ok("label pool lab second=yes -q");
    execute_sql(&sandbox, fold).unwrap();
    sandbox.ok("label pool lab third=yes -q");
    sandbox.shell(&format!("cd $HOME && {mix}"));
    let before = std::fs::read(sandbox.state()).unwrap();
    for command in ["get pool", "label pool lab fourth=yes", "doctor", "backup $HOME/c.db"] {
        let ran = sandbox.shell(&format!("poolctl {command}"));
        assert_eq!(ran.code, 8, "{mix}: {command}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("state.db-wal` is not that of `"), "{mix}: {}", ran.err);
        assert!(ran.err.contains(says), "{mix}: {}", ran.err);
    }
    assert_eq!(std::fs::read(sandbox.state()).unwrap(), before);
    let ran = sandbox.shell("poolctl restore $HOME/b.db -y");
    assert_eq!(ran.code, 0, "{mix}: {}", ran.err);
    assert_eq!(sandbox.ok("get claim -o name"), "claim/c\n");
}

/// SQLite would take pages of both, and say nothing.
#[test]
fn a_log_that_is_not_that_of_its_file_is_refused() {
    let older_file = "and its log begins after commit";
    check_foreign_log("cp state.db old.db", "cp old.db state.db", older_file);
    let older_log = "and its log ends at commit";
    check_foreign_log("cp state.db-wal old-wal", "cp old-wal state.db-wal", older_log);
    check_foreign_log("true", "cp b.db state.db", "the file is a backup, which has no log");
}

/// Two states, `one` with claim `a` and `other` with claim `b`, after a script in their folder.
fn two_states_after(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, claim) in [("one", "a"), ("other", "b")] {
        sandbox.shell(&format!(
            "cd $HOME; mkdir {name}; export POOLCTL_STATE=$HOME/{name}/state.db
             poolctl pool create lab --fake --size 1 -q && poolctl reconcile --wait -q
             poolctl backup $HOME/{name}.db -q
             poolctl claim lab {claim} -q"
        ));
    }
    sandbox.shell(&format!("cd $HOME/one; {script}"));
    sandbox
}

/// Such a state was opened as an older or an empty one, and said that all is well.
#[test]
fn a_state_that_has_lost_its_log_or_has_that_of_another_is_refused() {
    let lost = "one/state.db` lacks its last commits";
    let foreign = "one/state.db-wal` is not that of `";
    for (script, says) in [
        ("rm state.db-wal state.db-shm", lost),
        ("mkdir c; cp state.db state.db.lock c; rm state.db*; mv c/* .; rmdir c", lost),
        ("rm state.db-shm; truncate -s 1000 state.db-wal", lost),
        ("rm state.db-shm; truncate -s 0 state.db-wal", lost),
        ("rm state.db-shm; cp ../other/state.db-wal state.db-wal", foreign),
    ] {
        let sandbox = two_states_after(script);
        for command in ["get pool,claim", "pool create x --fake", "doctor", "backup $HOME/c.db"] {
            let ran = sandbox.shell(&format!("poolctl --state $HOME/one/state.db {command}"));
            assert_eq!(ran.code, 8, "{script}: {command}: {}{}", ran.out, ran.err);
            assert!(ran.err.contains(says), "{script}: {command}: {}", ran.err);
            // Of this state, not of the one that is used without the option.
            let path = sandbox.path().join("one/state.db");
            let next = format!("poolctl --state {} restore BACKUP", path.display());
            assert!(ran.err.contains(&next), "{script}: {}", ran.err);
        }
        let restore = "restore $HOME/one.db -y --nothing-since >&2 && poolctl get pool -o name";
        let ran =
            sandbox.shell(&format!("export POOLCTL_STATE=$HOME/one/state.db; poolctl {restore}"));
        assert_eq!((ran.code, &*ran.out), (0, "clusterpool/lab\n"), "{script}: {}", ran.err);
    }
    // What the message says takes the state as it is, and so does a backup in place of the state.
    for script in [
        "rm state.db-wal state.db-shm; install -m 600 /dev/null state.db.lock",
        "rm state.db-wal state.db-shm; cp ../one.db state.db",
    ] {
        let sandbox = two_states_after(script);
        for command in ["get claim", "pool create x --fake -q", "get pool"] {
            let ran = sandbox.shell(&format!("poolctl --state $HOME/one/state.db {command}"));
            assert_eq!(ran.code, 0, "{script}: {command}: {}", ran.err);
        }
    }
}

#[test]
fn the_backup_of_another_state_is_restored_and_used() {
    let sandbox =
        two_states_after("poolctl --state state.db restore ../other.db -y --leases-since=hold");
    for command in ["get pool", "claim lab c -q", "get claim", "doctor"] {
        let ran = sandbox.shell(&format!("poolctl --state $HOME/one/state.db {command}"));
        assert_ne!(ran.code, 8, "{command}: {}", ran.err);
    }
}

#[test]
fn every_table_of_documents_has_checksums() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0 -q");
    let connection = rusqlite::Connection::open(sandbox.state()).unwrap();
    let sql = "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c \
               WHERE t.type = 'table' AND c.name = 'body' AND t.name <> 'ip_network' \
               AND NOT EXISTS (SELECT 1 FROM pragma_table_info(t.name) k WHERE k.name = 'checksum')";
    let mut statement = connection.prepare(sql).unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    let tables: Vec<String> = names.map(Result::unwrap).collect();
    assert!(tables.is_empty(), "next: ALTER TABLE ... ADD COLUMN checksum INTEGER: {tables:?}");
}
