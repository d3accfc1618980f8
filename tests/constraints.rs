//! The database refuses what must never be, whoever asks.

use rusqlite::Connection;

use crate::sandbox::Sandbox;

fn sql(sandbox: &Sandbox, text: &str) -> rusqlite::Result<()> {
    let conn = Connection::open(sandbox.state())?;
    conn.pragma_update(None, "foreign_keys", 1)?;
    conn.execute_batch(text)
}

#[test]
fn nothing_can_be_held_twice() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -qf examples/pool");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab c -q");
    for (what, text) in [
        (
            "a customization, two clusters",
            "INSERT INTO lease SELECT customization, cluster + 1, holder || 'x', pool_namespace, pool FROM lease LIMIT 1",
        ),
        (
            "a cluster, two customizations",
            "UPDATE lease SET cluster = (SELECT min(cluster) FROM lease)",
        ),
        ("a lease without its cluster", "UPDATE lease SET cluster = 999"),
        ("a claim, two clusters", "UPDATE cluster SET claim = 'c'"),
        (
            "a cluster, two claims",
            "INSERT INTO claim (id, namespace, name, created, pool, owner, cluster, held, warned) SELECT id + 1, namespace, 'd', created, pool, owner, cluster, held, warned FROM claim",
        ),
        ("a name in DNS, two clusters", "UPDATE cluster SET cluster_name = 'foo'"),
        ("a name, two clusters", "UPDATE cluster SET name = 'foo'"),
        (
            "an object, two live jobs",
            "INSERT INTO job (id, verb, object, driver, attempt, ordinal, started, begun) SELECT id || 'x', verb, object, driver, attempt, ordinal, started, begun FROM job; INSERT INTO job (id, verb, object, driver, attempt, ordinal, started, begun) SELECT id || 'y', verb, object, driver, attempt, ordinal, started, begun FROM job",
        ),
        ("a number that is text", "UPDATE cluster SET restarts = 'many'"),
    ] {
        let refused = sql(&sandbox, text).unwrap_err();
        let code = refused.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation), "{what}: {refused}");
    }
}

#[test]
fn a_pool_whose_changes_are_refused_does_not_stop_the_others() {
    let sandbox = Sandbox::new();
    for name in ["good", "bad", "fine"] {
        sandbox.ok(&format!("pool create {name} --fake --size 1 -q --no-reconcile"));
    }
    let trigger = "CREATE TRIGGER wall BEFORE INSERT ON cluster WHEN NEW.pool = 'bad' \
                   BEGIN SELECT RAISE(ABORT, 'a wall'); END";
    sql(&sandbox, trigger).unwrap();
    let ran = sandbox.run("reconcile");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("changes of pool `default/bad` were undone (InvariantViolated)"),
        "{}",
        ran.err
    );
    let path = "jsonpath={range .items[*]}{.spec.clusterPoolRef.poolName} {end}";
    assert_eq!(sandbox.ok(&format!("get cluster -o '{path}'")), "good fine ");
    let events = sandbox.ok("events pool/bad");
    assert!(events.contains("InvariantViolated"), "{events}");
    sql(&sandbox, "DROP TRIGGER wall").unwrap();
    sandbox.ok("reconcile");
    assert_eq!(sandbox.ok(&format!("get cluster -o '{path}'")), "good fine bad ");
}

#[test]
fn a_lease_is_free_again_though_its_pool_was_undone_when_its_cluster_went() {
    let mut sandbox = Sandbox::new();
    crate::sandbox::customization(&sandbox, "a", "a");
    sandbox.ok("pool create p --fake --customization a");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("pool scale p --size 0");
    let wall = "CREATE TRIGGER wall BEFORE UPDATE ON pool BEGIN SELECT RAISE(ABORT, 'a wall'); END";
    sql(&sandbox, wall).unwrap();
    sandbox.set("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    assert_eq!(sandbox.run("reconcile").code, 1);
    sql(&sandbox, "DROP TRIGGER wall").unwrap();
    crate::sandbox::steady(&sandbox);
    assert!(sandbox.ok("get cdc").contains("Available"));
    assert_eq!(sandbox.ok("get cluster -o name"), "");
}

#[test]
fn secret_values_are_in_one_table() {
    let sandbox = Sandbox::new();
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\nstringData: {.dockerconfigjson: CANARY-IN-THE-STATE}\n";
    let path = sandbox.file("secret.yaml", text);
    sandbox.ok(&format!("apply -qf {path}"));
    sandbox.ok("pool create lab --fake --running-count 1 -q");
    sandbox.ok("patch pool lab -p '{\"spec\": {\"pullSecretRef\": {\"name\": \"pull\"}}}'");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab c -q");
    let mut shown = String::new();
    for command in [
        "get pool,claim,cluster,secret,event,job -A -o yaml",
        "describe secret pull",
        "events",
        "plan",
        "pool render lab",
        "get secret pull -o json",
    ] {
        shown += &sandbox.shell(&format!("poolctl {command} 2>&1")).out;
    }
    assert!(shown.contains("pull") && !shown.contains("CANARY"), "{shown}");
    // Each cluster has its own copy, and no other table has any.
    let conn = Connection::open(sandbox.state()).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'";
    let tables: Vec<String> = conn
        .prepare(tables)
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for table in tables {
        let mut statement = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut found = 0;
        while let Some(row) = rows.next().unwrap() {
            for at in 0..columns {
                let value = row.get_ref(at).unwrap();
                let Ok(bytes) = value.as_blob().or_else(|_| value.as_bytes()) else { continue };
                found += usize::from(bytes.windows(6).any(|part| part == b"CANARY"));
            }
        }
        assert_eq!(found, if table == "secret" { 2 } else { 0 }, "{table}");
    }
}
