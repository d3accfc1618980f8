//! The stored due time of a scope is never later than the one that a plan of everything computes. A pass
//! that looks only at what is due cannot find a late one; `doctor` can.

use rusqlite::{Connection, Row};

use crate::sandbox::{Sandbox, apply, execute_sql};

/// A pool with a claim that ends, an address that is leased for a time, and hosts that fall silent.
/// Nothing of it is due now.
fn sandbox_with_work_to_come() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1 -q");
    apply(&sandbox, ADDRESSES);
    sandbox.ok("apply -qf examples/agents/rack.yaml");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    for words in ["reconcile -q", "claim lab job --lifetime 8h -q", "ip claim lan web --for 4h -q"]
    {
        sandbox.ok(words);
    }
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T16:00:00Z");
    sandbox.ok("reconcile -q");
    sandbox.ok("agent register --infraenv rack --id node-a -q");
    sandbox.ok("reconcile -q");
    sandbox
}

const ADDRESSES: &str = "\
apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: lan}
spec:
  pools: [{start: 127.0.0.10, end: 127.0.0.20}]
  prefix: 24
";

/// A row of what is due: its table, the condition that selects it, the name of what it is about, and
/// what it says.
type DueRow = (&'static str, String, String, String);

fn due_rows(sandbox: &Sandbox) -> Vec<DueRow> {
    let connection = Connection::open(sandbox.state()).unwrap();
    let mut rows = Vec::new();
    for (table, column) in [("due_scope", "pool"), ("due_object", "name")] {
        let sql = format!(
            "SELECT printf('{column} = %Q', {column}), {column}, \
             printf('%d %d %d', due, dirty, polled) FROM {table}"
        );
        let mut statement = connection.prepare(&sql).unwrap();
        let read_row = |row: &Row<'_>| Ok((table, row.get(0)?, row.get(1)?, row.get(2)?));
        rows.extend(statement.query_map([], read_row).unwrap().map(Result::unwrap));
    }
    rows
}

/// In microseconds.
const TWO_SECONDS: i64 = 2_000_000;

#[test]
fn doctor_finds_and_mends_what_would_be_looked_at_too_late() {
    let sandbox = sandbox_with_work_to_come();
    let rows = due_rows(&sandbox);
    let names: Vec<&str> = rows.iter().map(|(_, _, name, _)| name.as_str()).collect();
    for name in ["lab", "lan", "node-a"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    for (table, key, name, _) in &rows {
        for damage in [
            format!("DELETE FROM {table} WHERE {key}"),
            format!("UPDATE {table} SET due = due + {TWO_SECONDS} WHERE {key}"),
            format!("UPDATE {table} SET due = NULL WHERE {key}"),
        ] {
            execute_sql(&sandbox, &damage).unwrap();
            let checked = sandbox.shell("poolctl doctor");
            let late = format!("{name}` too late, because its due time is stored wrongly");
            assert!(checked.code != 0 && checked.out.contains(&late), "{damage}: {}", checked.out);
            assert!(sandbox.ok("doctor --fix").contains("fixed"), "{damage}");
            sandbox.ok("reconcile -q");
            assert_eq!(due_rows(&sandbox), rows, "{damage}");
            sandbox.ok("doctor");
        }
    }
}

/// The row of a kind that no program has makes one pass look at everything, not all that follow.
#[test]
fn a_pass_forgets_what_is_due_of_a_kind_that_there_is_not() {
    let sandbox = sandbox_with_work_to_come();
    let rows = due_rows(&sandbox);
    let foreign = "INSERT INTO due_object (kind, namespace, name, due, dirty, polled) \
                   VALUES ('Tenant', 'default', 'left', NULL, 1, 0)";
    execute_sql(&sandbox, foreign).unwrap();
    sandbox.ok("reconcile -q");
    assert_eq!(due_rows(&sandbox), rows);
    sandbox.ok("doctor");
}

#[test]
fn doctor_finds_and_mends_an_inventory_whose_pool_would_not_notice_what_is_free() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -qf examples/inventory/pool.yaml -f examples/inventory/customizations.yaml");
    sandbox.ok("reconcile -q");
    execute_sql(&sandbox, "DELETE FROM inventory_entry").unwrap();
    let checked = sandbox.shell("poolctl doctor").out;
    let unnoticed = "pool `default/vsphere` would not notice when customization \
                     `foo-cluster-deployment-customization` becomes free: poolctl doctor --fix";
    assert!(checked.contains(unnoticed), "{checked}");
    assert!(sandbox.ok("doctor --fix").contains("fixed"));
    sandbox.ok("doctor");
}

/// Whatever stands where an inventory should be, the other checks and repairs go on.
#[test]
fn an_inventory_that_is_none_keeps_nothing_else_from_being_mended() {
    for inventory in ["[\"foo\"]", "\"foo\"", "[{\"name\": 3}]", "[null]", "3"] {
        let sandbox = sandbox_with_work_to_come();
        let damage = format!(
            "UPDATE document SET body = json_set(body, '$.spec.inventory', json('{inventory}')) \
             WHERE kind = 'ClusterPool'; \
             UPDATE agent SET approved = 1 - approved"
        );
        execute_sql(&sandbox, &damage).unwrap();
        let checked = sandbox.shell("poolctl doctor").out;
        assert!(checked.contains("agent `node-a` is kept with other values"), "{checked}");
        let fixed = sandbox.shell("poolctl doctor --fix").out;
        assert!(!fixed.contains("malformed"), "{fixed}");
        let sql = "SELECT approved FROM agent";
        let connection = Connection::open(sandbox.state()).unwrap();
        let approved: bool = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert!(!approved, "{inventory}: {fixed}");
    }
}
