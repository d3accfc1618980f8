//! The database refuses what must never be, whatever the program above it does.

use rusqlite::Connection;

use crate::sandbox::{Sandbox, apply, assert_settled, create_customization, execute_sql};

#[test]
fn nothing_can_be_held_twice() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -qf examples/pool");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab c -q");
    // Each statement breaks one rule, and nothing else is wrong with it.
    for (case, statements) in [
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
        let error = execute_sql(&sandbox, statements).unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation), "{case}: {error}");
    }
}

#[test]
fn a_pool_whose_changes_are_refused_does_not_stop_the_others() {
    let sandbox = Sandbox::new();
    for name in ["good", "bad", "fine"] {
        sandbox.ok(&format!("pool create {name} --fake --size 1 -q --no-reconcile"));
    }
    // The trigger stands for any rule of the database that a change could break.
    let trigger = "CREATE TRIGGER wall BEFORE INSERT ON cluster WHEN NEW.pool = 'bad' \
                   BEGIN SELECT RAISE(ABORT, 'a wall'); END";
    execute_sql(&sandbox, trigger).unwrap();
    let message = "changes of pool `default/bad` were undone (InvariantViolated)";
    sandbox.refused(1, "reconcile", message);
    let get_pools =
        "get cluster -o 'jsonpath={range .items[*]}{.spec.clusterPoolRef.poolName} {end}'";
    assert_eq!(sandbox.ok(get_pools), "good fine ");
    let events = sandbox.ok("events pool/bad");
    assert!(events.contains("InvariantViolated"), "{events}");
    execute_sql(&sandbox, "DROP TRIGGER wall").unwrap();
    sandbox.ok("reconcile");
    assert_eq!(sandbox.ok(get_pools), "good fine bad ");
}

#[test]
fn a_lease_is_free_again_though_its_pool_was_undone_when_its_cluster_went() {
    let mut sandbox = Sandbox::new();
    create_customization(&sandbox, "a", "a");
    sandbox.ok("pool create p --fake --customization a");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("pool scale p --size 0");
    let wall = "CREATE TRIGGER wall BEFORE UPDATE ON document WHEN old.kind = 'ClusterPool' \
                BEGIN SELECT RAISE(ABORT, 'a wall'); END";
    execute_sql(&sandbox, wall).unwrap();
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    assert_eq!(sandbox.run("reconcile").code, 1);
    execute_sql(&sandbox, "DROP TRIGGER wall").unwrap();
    assert_settled(&sandbox);
    assert!(sandbox.ok("get cdc").contains("Available"));
    assert_eq!(sandbox.ok("get cluster -o name"), "");
}

#[test]
fn secret_values_are_in_one_table() {
    let sandbox = Sandbox::new();
    apply(
        &sandbox,
        "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\n\
         stringData: {.dockerconfigjson: CANARY-IN-THE-STATE}\n",
    );
    sandbox.ok("pool create lab --fake --running-count 1 -q");
    sandbox.ok("patch pool lab -p '{spec: {pullSecretRef: {name: pull}}}'");
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
    // The pull secret and the copy of the cluster; no other table has it.
    let connection = Connection::open(sandbox.state()).unwrap();
    let mut statement =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables = statement.query_map([], |row| row.get(0)).unwrap();
    for table in tables.collect::<Result<Vec<String>, _>>().unwrap() {
        let expected = if table == "secret" { 2 } else { 0 };
        assert_eq!(count_canaries(&connection, &table), expected, "{table}");
    }
}

/// The number of values in a table that contain the secret of the test.
fn count_canaries(connection: &Connection, table: &str) -> usize {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut count = 0;
    while let Some(row) = rows.next().unwrap() {
        for column in 0..columns {
            let value = row.get_ref(column).unwrap();
            let Ok(bytes) = value.as_blob().or_else(|_| value.as_bytes()) else { continue };
            count += usize::from(bytes.windows(6).any(|window| window == b"CANARY"));
        }
    }
    count
}
