//! States of earlier schemas. A fixture of every schema that has landed is opened, migrated and used;
//! it is written once, by the poolctl of that schema, and never edited again.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use crate::sandbox::{Sandbox, execute_sql, has_program, jsonpath};

/// The fixtures, and the SHA-256 of each. The last one has the schema before that of this program.
const FIXTURES: [(u32, &str); 14] = [
    (1, DIGEST_OF_1),
    (2, DIGEST_OF_2),
    (3, DIGEST_OF_3),
    (4, DIGEST_OF_4),
    (5, DIGEST_OF_5),
    (6, DIGEST_OF_6),
    (7, DIGEST_OF_7),
    (8, DIGEST_OF_8),
    (9, DIGEST_OF_9),
    (10, DIGEST_OF_10),
    (11, DIGEST_OF_11),
    (12, DIGEST_OF_12),
    (13, DIGEST_OF_13),
    (14, DIGEST_OF_14),
];
const DIGEST_OF_1: &str = "0121b320f1cafd96bbcca25f75eb229953e903ae6957864a25a115f3ecf1d3de";
const DIGEST_OF_2: &str = "83c311748ab19ed47c15af7fe492ec35efebef8acd2c601df551778bcbc6a189";
const DIGEST_OF_3: &str = "9ea844854cef443b66a2f36b9be00f2107b85eb58dd0b2ae0e5e8fcff15c9444";
const DIGEST_OF_4: &str = "1de0a88020710a0939ada9c563a2834ec3b0b69525ff9d95ec8dbbc347d783b1";
const DIGEST_OF_5: &str = "816ec458fd4756c88b0f5f56ca0170777ca887209fdae1ad3f53fa1ebee3ded9";
const DIGEST_OF_6: &str = "f8e9948f575e6b2f9c6227866936c47222c2203680b8608dfc3852c905922fe8";
const DIGEST_OF_7: &str = "45087d1c6cb4ac88c6f2d1af0e7c8bce11c917d0ce1f2fc2c5f063d225bf704a";
const DIGEST_OF_8: &str = "b6bf849a25fc022481712c1fa4f927167808ab33296d5ae679f992ff219be3aa";
const DIGEST_OF_9: &str = "663a73b07abcb263881de906971f2f47c120568d55bd1f0d68d2d57839da1be1";
const DIGEST_OF_10: &str = "e48e86603c5d460a89f61b71cd9c8b2335fb16f1b303acfa0deb33e8618e360d";
const DIGEST_OF_11: &str = "ce974b53551b6bc361e90071e785d1af64066086adbfb2383aa8b4581374f883";
const DIGEST_OF_12: &str = "31e56106899b377f6ee077bda8c309da00daaee0facf298f42855d9e17fc8ab1";
const DIGEST_OF_13: &str = "385608ebd960825d86adb9a8ca86ce9fe92178395494f118b5e982b2b46d81a1";
const DIGEST_OF_14: &str = "1ad30b86f285ecf7040b5b82be409fc8c273a9cd7a3595e6875b1b2661f3d3d0";
/// When the fixtures were written.
const THEN: &str = "2026-03-02T11:06:00Z";
/// All that can be listed.
const KINDS: &str = "settings,ns,rolebinding,imgset,secret,cdc,pool,cluster,claim,job,event,host,\
    datatemplate,cm,m3dc,m3d,agentclassification,infraenv,agent,nmstateconfig,ippool,ipaddress,ipclaim";

fn fixture(schema: u32) -> PathBuf {
    let name = format!("tests/fixtures/state-{schema}.db");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A sandbox whose state is a copy of a fixture.
pub fn earlier(schema: u32) -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", THEN);
    fs::copy(fixture(schema), sandbox.state()).unwrap();
    // A state without its lock would be a copy that may lack its log.
    let lock = sandbox.path().join("state.db.lock");
    fs::write(&lock, "").unwrap();
    for file in [sandbox.state(), lock] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    sandbox
}

fn bytes(sandbox: &Sandbox) -> Vec<u8> {
    fs::read(sandbox.state()).unwrap()
}

fn schema_of(state: &Path) -> u32 {
    let conn = Connection::open(state).unwrap();
    conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn everything(sandbox: &Sandbox) -> String {
    sandbox.ok(&format!("get {KINDS} -A -o json")) + &sandbox.ok("export")
}

/// The smallest change there is.
fn label(sandbox: &Sandbox) {
    sandbox.ok("label imgset ocp migrated=yes -q --no-reconcile");
}

#[test]
fn fixtures_are_never_edited_and_there_is_one_of_each_earlier_schema() {
    for (schema, digest) in FIXTURES {
        let found = Sha256::digest(fs::read(fixture(schema)).unwrap());
        assert_eq!(format!("{found:x}"), digest, "schema {schema}");
        assert_eq!(schema_of(&earlier(schema).state()), schema);
    }
    let fresh = Sandbox::new();
    fresh.ok("pool create lab --fake");
    let earlier: Vec<u32> = (1..schema_of(&fresh.state())).collect();
    assert_eq!(FIXTURES.map(|(schema, _)| schema).to_vec(), earlier);
}

#[test]
fn who_only_reads_migrates_a_copy_in_memory_and_writes_nothing() {
    for (schema, _) in FIXTURES {
        let sandbox = earlier(schema);
        let before = bytes(&sandbox);
        everything(&sandbox);
        for command in ["status", "plan", "doctor", "why pool/lab", "describe pool metal"] {
            let ran = sandbox.shell(&format!("poolctl {command}"));
            assert!([0, 10].contains(&ran.code), "{command}: {}", ran.err);
        }
        assert_eq!(bytes(&sandbox), before, "schema {schema}");
        // Only SQLite's index of the log may be there, and a log without anything in it.
        for entry in fs::read_dir(sandbox.path()).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let is_empty = entry.metadata().unwrap().len() == 0;
            let ours = ["state.db", "state.db-shm", "state.db.lock"].contains(&name.as_str());
            assert!(ours || (name == "state.db-wal" && is_empty), "{name}");
        }
        assert_eq!(schema_of(&sandbox.state()), schema);
    }
}

/// A claim of an address of the first schema that waits, as `more` has it.
fn waiting_claim_of_a_host(sandbox: &Sandbox, cluster: &str, claim: &str) {
    let more = serde_json::json!({"notes": {"claim": {
        "name": "", "finalizers": ["poolctl.dev/cluster"], "ownerReferences": [{
            "apiVersion": "hive.openshift.io/v1", "kind": "ClusterDeployment", "name": cluster}]}}});
    let conn = Connection::open(sandbox.state()).unwrap();
    let sql = "INSERT INTO ip_wait (namespace, claim, pool, created, more) VALUES ('default', ?1, 'nodes', 1, ?2)";
    conn.execute(sql, [claim, &more.to_string()]).unwrap();
}

#[test]
fn claims_of_the_first_schema_that_wait_name_their_host_too_and_vips_name_none() {
    let sandbox = earlier(1);
    let conn = Connection::open(sandbox.state()).unwrap();
    // A host called api, whose name is that of the cluster's own claims.
    let sql = "INSERT INTO agent (body) SELECT json_set(body, '$.metadata.name', 'api', \
               '$.status.hostID', 'other', '$.status.boundTo', NULL) FROM agent LIMIT 1";
    conn.execute(sql, []).unwrap();
    let sql = "UPDATE ip_lease SET claim = claim || '-vips' WHERE claim = 'metal-cns7l-api'";
    assert_eq!(conn.execute(sql, []).unwrap(), 1);
    drop(conn);
    waiting_claim_of_a_host(&sandbox, "metal-cns7l", "metal-cns7l-a-nodes-nodes");
    waiting_claim_of_a_host(&sandbox, "gone", "gone-a");
    label(&sandbox);
    let owners = |claim: &str| {
        jsonpath(&sandbox, &format!("ipclaim/{claim}"), "{.metadata.ownerReferences[*].name}")
    };
    assert_eq!(owners("metal-cns7l-a-nodes-nodes"), "metal-cns7l a-nodes");
    assert_eq!(owners("gone-a"), "gone a");
    assert_eq!(owners("metal-cns7l-api-vips"), "metal-cns7l");
    assert_eq!(owners("metal-cns7l-ingress"), "metal-cns7l");
}

#[test]
fn what_a_newer_poolctl_has_migrated_is_refused_also_when_only_the_log_says_so() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let conn = Connection::open(sandbox.state()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    for command in ["get pool", "plan", "reconcile", "claim lab ci", "backup copy.db"] {
        let ran = sandbox.shell(&format!("poolctl {command}"));
        assert_eq!(ran.code, 8, "{command}: {}", ran.err);
        assert!(ran.err.contains("was written by a newer poolctl"), "{command}: {}", ran.err);
    }
    drop(conn);
}

#[test]
fn who_watches_a_state_of_an_earlier_schema_sees_it_migrated_by_another() {
    let mut sandbox = earlier(1);
    sandbox.set_variable("POOLCTL_NOW", "");
    let condition = "jsonpath={.metadata.labels.migrated}=yes";
    let child =
        sandbox.start(&format!("wait imgset/ocp --for={condition} --timeout=30s --no-reconcile"));
    sandbox.shell("sleep 0.5");
    label(&sandbox);
    let ran = crate::sandbox::finish(child);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn the_first_change_migrates_after_a_copy_and_everything_is_as_it_was() {
    for (schema, _) in FIXTURES {
        let sandbox = earlier(schema);
        let (before, seen) = (bytes(&sandbox), everything(&sandbox));
        label(&sandbox);
        // The copy beside is the state as it was.
        let copy = sandbox.path().join(format!("state.db.schema-{schema}"));
        assert_eq!(schema_of(&copy), schema);
        let mut old = Sandbox::new();
        old.set_variable("POOLCTL_NOW", THEN);
        fs::copy(&copy, old.state()).unwrap();
        assert_eq!(everything(&old), seen);
        assert_eq!(before.len(), bytes(&old).len());
        // A migrated state has the tables and indexes of a new one.
        let fresh = Sandbox::new();
        fresh.ok("pool create lab --fake");
        assert_eq!(tables(&sandbox.state()), tables(&fresh.state()));
        let plain =
            |text: &str| text.replace("migrated: \"yes\"", "").replace("\"migrated\": \"yes\"", "");
        let (seen, now) = (plain(&seen), plain(&everything(&sandbox)));
        let (seen, now): (BTreeSet<&str>, BTreeSet<&str>) =
            (seen.lines().collect(), now.lines().collect());
        // Lines of an object that was labelled.
        let of_labels = ["generation", "labels", "}", "]"];
        let mut lost: Vec<_> = seen.difference(&now).collect();
        lost.retain(|line| !of_labels.iter().any(|word| line.contains(word)));
        assert!(lost.is_empty(), "{lost:?}");
    }
}

/// Tables and indexes with their SQL, whatever their order.
fn tables(state: &Path) -> BTreeSet<(String, String)> {
    let conn = Connection::open(state).unwrap();
    let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_migrated_state_goes_on_where_it_was() {
    for (schema, _) in FIXTURES {
        let mut sandbox = earlier(schema);
        sandbox.ok("claim lab ci-9 -q");
        sandbox.ok("release ci-2 -y -q");
        sandbox.ok("ip claim lab-net host-9 -q");
        sandbox.ok("ip release only -y -q");
        sandbox.ok("reconcile --wait=2h -q");
        assert_eq!(sandbox.run("plan").code, 0);
        sandbox.ok("doctor");
        // The claim that waited for an address has the one that was released.
        assert_eq!(jsonpath(&sandbox, "ipaddress/tiny-10-8-0-10", "{.spec.claim.name}"), "waits");
        assert_eq!(jsonpath(&sandbox, "claim/ci-9", "{.spec.namespace}"), "lab-8zjxn");
        let running = "{.items[?(@.metadata.name==\"sleepy-hubn9\")].status.powerState}";
        assert_eq!(jsonpath(&sandbox, "cluster", running), "Running");
        // What it exports is what an empty state becomes by it.
        let file = sandbox.write_file("moved.yaml", &sandbox.ok("export"));
        let before = sandbox.ok("export");
        let moved = sandbox.path().join("moved.db").display().to_string();
        sandbox.set_variable("POOLCTL_STATE", &moved);
        sandbox.ok(&format!("import {file} --settings"));
        assert_eq!(sandbox.ok("export"), before);
    }
}

#[test]
fn addresses_of_the_first_schema_are_those_of_the_hosts_that_have_them() {
    let sandbox = earlier(1);
    let owner = |claim: &str| {
        jsonpath(&sandbox, &format!("ipclaim/{claim}"), "{.metadata.ownerReferences[*].name}")
    };
    for host in ["a", "a-nodes", "b"] {
        assert_eq!(owner(&format!("metal-cns7l-{host}")), format!("metal-cns7l {host}"));
    }
    assert_eq!(owner("metal-cns7l-api"), "metal-cns7l");
    assert_eq!(owner("host-1"), "");
}

#[test]
fn who_has_an_address_of_a_cluster_is_moved_from_its_claim_into_columns() {
    for (schema, _) in FIXTURES {
        let sandbox = earlier(schema);
        label(&sandbox);
        let conn = Connection::open(sandbox.state()).unwrap();
        let sql = "SELECT cluster, agent, more ->> '$.notes.claim.finalizers' FROM ip_lease \
                   WHERE claim = ?1";
        let holder = |claim: &str| {
            let columns = |row: &rusqlite::Row<'_>| -> rusqlite::Result<[Option<String>; 3]> {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?])
            };
            conn.query_row(sql, [claim], columns).unwrap()
        };
        let cluster = || Some("metal-cns7l".to_owned());
        assert_eq!(holder("metal-cns7l-a"), [cluster(), Some("a".into()), Some("[]".into())]);
        assert_eq!(holder("metal-cns7l-api"), [cluster(), None, Some("[]".into())]);
        assert_eq!(holder("host-1"), [None, None, None]);
        let host_without_cluster = "UPDATE ip_lease SET agent = 'a' WHERE claim = 'host-1'";
        assert!(conn.execute(host_without_cluster, []).is_err());
    }
}

#[test]
fn which_pool_a_claim_asked_is_moved_from_a_sentence_into_a_column() {
    for (schema, _) in FIXTURES {
        let sandbox = earlier(schema);
        label(&sandbox);
        let conn = Connection::open(sandbox.state()).unwrap();
        let sql = "SELECT count(*) FROM event WHERE message LIKE 'Asks for a cluster of pool %' \
                   AND pool IS NOT 'default/' || substr(message, 28)";
        let without_pool: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(without_pool, 0);
        let sql = "SELECT count(*) FROM event WHERE pool = 'default/lab'";
        let claims: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert!(claims > 0, "schema {schema}");
    }
}

/// `doctor` says of such rows that something is wrong, and goes on.
#[test]
fn rows_that_point_to_nothing_do_not_keep_a_state_from_being_migrated() {
    let sandbox = earlier(11);
    let sql = "PRAGMA foreign_keys = 0; INSERT INTO secret VALUES (999, 'a', x'62');
               INSERT INTO lease (customization, holder) VALUES (999, 'gone');
               INSERT INTO infra_env_token VALUES (999, 'id', 'hash', 0, NULL, NULL)";
    execute_sql(&sandbox, sql).unwrap();
    let get = "get secret,cdc,infraenv -A -o json";
    let before = sandbox.ok(get);
    label(&sandbox);
    assert_eq!(schema_of(&sandbox.state()), poolctl::store::SCHEMA);
    let connection = Connection::open(sandbox.state()).unwrap();
    let dangling = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!dangling);
    assert_eq!(sandbox.ok(get), before);
}

#[test]
fn two_that_migrate_at_once_migrate_once() {
    let sandbox = earlier(1);
    let claims: Vec<String> =
        (0..6).map(|number| format!("claim sleepy at-once-{number} -q")).collect();
    for ran in sandbox.run_together(&claims) {
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let names = jsonpath(&sandbox, "claim", "{.items[*].metadata.name}");
    assert_eq!(names.matches("at-once-").count(), 6, "{names}");
    sandbox.ok("doctor");
    let copies = fs::read_dir(sandbox.path()).unwrap().flatten();
    let copies = copies.filter(|entry| entry.file_name().to_string_lossy().contains(".schema-"));
    assert_eq!(copies.count(), 1);
}

/// System calls by which anything is changed.
const CALLS: [&str; 6] = ["pwrite64", "write", "fsync", "fdatasync", "ftruncate", "rename"];

#[test]
fn a_migration_that_is_killed_anywhere_is_done_by_the_next_command() {
    if !has_program("strace") {
        return;
    }
    let mut fired = 0;
    for call in CALLS {
        // Of many writes of the copy beside one is as good as another.
        let steps: Vec<u32> = (1..12).chain((12..400).step_by(23)).collect();
        for step in steps {
            let sandbox = earlier(1);
            let ran = sandbox.shell(&format!(
                "strace -f -qq -o /dev/null -e trace={call} \
                 -e inject={call}:signal=KILL:when={step} poolctl claim lab ci-9 -q"
            ));
            if ran.code == 0 {
                break;
            }
            assert_eq!(ran.code, 137, "{call} {step}: {}", ran.err);
            fired += 1;
            let claimed = jsonpath(&sandbox, "claim", "{.items[*].metadata.name}").contains("ci-9");
            if !claimed {
                sandbox.ok("claim lab ci-9 -q");
            }
            assert_eq!(jsonpath(&sandbox, "claim/ci-9", "{.spec.namespace}"), "lab-8zjxn");
            let checked = sandbox.ok("doctor --fix");
            assert!(checked.contains("constraints  ok"), "{call} {step}: {checked}");
        }
    }
    assert!(fired >= 25, "{fired}");
}

#[test]
fn a_full_disk_leaves_the_earlier_state_as_it_was() {
    let sandbox = earlier(1);
    let before = bytes(&sandbox);
    // Below the size of the copy, then of the log that the migration writes.
    for blocks in [1, 100, 400, 800] {
        let ran = sandbox.shell(&format!(
            "trap '' XFSZ; ulimit -f {blocks}; poolctl claim lab ci-9 -q --no-reconcile"
        ));
        assert_eq!(ran.code, 8, "{blocks}: {}", ran.err);
        assert_eq!(bytes(&sandbox), before, "{blocks}");
        assert_eq!(sandbox.run("get claim ci-9").code, 3, "{blocks}");
    }
    sandbox.ok("claim lab ci-9 -q");
    assert_eq!(jsonpath(&sandbox, "claim/ci-9", "{.spec.namespace}"), "lab-8zjxn");
}

#[test]
fn schemas_from_before_the_first_are_refused_by_name() {
    let sandbox = Sandbox::new();
    let make = |sql: &str| {
        drop(fs::remove_file(sandbox.state()));
        let conn = Connection::open(sandbox.state()).unwrap();
        conn.execute_batch(sql).unwrap();
        conn.pragma_update(None, "application_id", 0x706f_6f6c).unwrap();
        conn.pragma_update(None, "user_version", 1).unwrap();
        conn.close().unwrap();
    };
    for (sql, says) in [
        (include_str!("fixtures/before-schema-1.sql"), "made by the poolctl of commit 1fcd8ea"),
        ("CREATE TABLE state (id INTEGER);", "has a schema that no poolctl has made"),
    ] {
        make(sql);
        let before = bytes(&sandbox);
        for line in ["get pool", "pool create lab --fake"] {
            let ran = sandbox.run(line);
            assert_eq!(ran.code, 8, "{}", ran.err);
            assert!(ran.err.contains(says) && ran.err.contains("left as it is"), "{}", ran.err);
            assert!(ran.err.contains("next: poolctl --state NEW import FILE"), "{}", ran.err);
        }
        assert_eq!(bytes(&sandbox), before);
        // As a backup it is refused alike, and another backup may take its place.
        let state = sandbox.state().display().to_string();
        let other = sandbox.path().join("other.db").display().to_string();
        sandbox.refused(8, &format!("--state {other} restore {state} -y"), says);
    }
    let fixture = fixture(1).display().to_string();
    sandbox.ok(&format!("restore {fixture} -y"));
    assert!(sandbox.ok("get claim").contains("ci-1"));
}
