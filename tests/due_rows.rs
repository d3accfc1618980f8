//! What is stored of when scopes are due is at least as early as what a plan over everything says.
//! A pass that looks at what is due alone would never find the contrary; `doctor` does.

use rusqlite::Connection;

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

/// The rows of what is due: their tables, the conditions that select them, and what they are about.
fn due_rows(sandbox: &Sandbox) -> Vec<(&'static str, String, String)> {
    let connection = Connection::open(sandbox.state()).unwrap();
    let mut rows = Vec::new();
    for (table, sql) in [
        ("due_scope", "SELECT printf('pool = %Q', pool), pool FROM due_scope"),
        ("due_object", "SELECT printf('name = %Q', name), name FROM due_object"),
    ] {
        let mut statement = connection.prepare(sql).unwrap();
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.extend(found.map(Result::unwrap).map(|(key, name)| (table, key, name)));
    }
    rows
}

#[test]
fn doctor_finds_and_mends_what_would_be_looked_at_too_late() {
    let sandbox = sandbox_with_work_to_come();
    let rows = due_rows(&sandbox);
    let names: Vec<&str> = rows.iter().map(|(_, _, name)| name.as_str()).collect();
    for name in ["lab", "lan", "node-a"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    for (table, key, name) in &rows {
        for damage in [
            format!("DELETE FROM {table} WHERE {key}"),
            format!("UPDATE {table} SET due = due + 2000000 WHERE {key}"),
            format!("UPDATE {table} SET due = NULL WHERE {key}"),
        ] {
            sandbox.ok("doctor");
            execute_sql(&sandbox, &damage).unwrap();
            let checked = sandbox.shell("poolctl doctor");
            let late = format!("{name}` would be looked at too late");
            assert!(checked.code != 0 && checked.out.contains(&late), "{damage}: {}", checked.out);
            assert!(sandbox.ok("doctor --fix").contains("fixed"), "{damage}");
            sandbox.ok("reconcile -q");
            assert_eq!(due_rows(&sandbox), rows, "{damage}");
        }
    }
}

#[test]
fn doctor_finds_and_mends_an_inventory_whose_pool_would_not_notice_what_is_free() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -qf examples/inventory/pool.yaml -f examples/inventory/customizations.yaml");
    sandbox.ok("reconcile -q");
    execute_sql(&sandbox, "DELETE FROM inventory_entry").unwrap();
    let checked = sandbox.shell("poolctl doctor").out;
    let unnoticed = "pool `default/vsphere` would not notice that customization \
                     `foo-cluster-deployment-customization` is free: poolctl doctor --fix";
    assert!(checked.contains(unnoticed), "{checked}");
    assert!(sandbox.ok("doctor --fix").contains("fixed"));
    sandbox.ok("doctor");
}
