//! The longest parts of an Agent, its inventory and the results of its checks, are columns that are
//! decoded when somebody reads them. What lists show has columns of its own, too.

use rusqlite::Connection;

use crate::migrations::earlier;
use crate::sandbox::{Sandbox, jsonpath};

/// A lab with hosts of an installed cluster. It was made by a poolctl that kept all of an Agent in one
/// column, and migrated by a change of something else.
fn lab_with_installed_hosts() -> Sandbox {
    let sandbox = earlier(10);
    sandbox.ok("label imgset ocp migrated=yes -q");
    sandbox
}

fn execute_sql(sandbox: &Sandbox, sql: &str) {
    assert_eq!(Connection::open(sandbox.state()).unwrap().execute(sql, []).unwrap(), 1);
}

/// Changes a column with a part of the document of an Agent, behind the back of poolctl.
fn set_part(sandbox: &Sandbox, agent: &str, assignment: &str) {
    let agent = format!("(SELECT id FROM agent WHERE name = '{agent}')");
    execute_sql(sandbox, &format!("UPDATE agent_body SET {assignment} WHERE id = {agent}"));
}

#[test]
fn the_parts_are_moved_out_of_the_document_and_read_as_before() {
    let before = earlier(10).ok("get agent -o json");
    let sandbox = lab_with_installed_hosts();
    let connection = Connection::open(sandbox.state()).unwrap();
    let sql = "SELECT count(*) FROM agent_body WHERE json_valid(inventory) AND json_valid(validations) \
               AND body -> '$.status.inventory' IS NULL \
               AND body -> '$.status.validationsInfo' IS NULL";
    let moved: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(moved, 3);
    assert_eq!(sandbox.ok("get agent -o json"), before);
}

#[test]
fn a_part_that_has_changed_is_found_by_its_checksum() {
    let sandbox = lab_with_installed_hosts();
    sandbox.ok("doctor");
    set_part(&sandbox, "a", "validations = '{}'");
    let ran = sandbox.run("doctor");
    assert!(ran.out.contains("the document of `a` in table agent_body"), "{}", ran.out);
}

#[test]
fn nothing_follows_from_a_part_that_cannot_be_decoded() {
    let sandbox = lab_with_installed_hosts();
    set_part(&sandbox, "a", "inventory = '5'");
    let message = "a row of kind Agent in table agent_body cannot be read";
    for command in
        ["get agent -o wide", "describe agent a", "why agent/a", "agent unbind a -y", "export"]
    {
        assert!(sandbox.run(command).err.contains(message), "{command}");
    }
    set_part(&sandbox, "a", "inventory = NULL");
    assert_eq!(jsonpath(&sandbox, "agent/a", "{.status.debugInfo.state}"), "installed");
}

#[test]
fn doctor_names_a_part_that_cannot_be_decoded_and_has_it_worked_out_again() {
    for (column, value) in [("conditions", "5"), ("validations", "[1]"), ("inventory", "5")] {
        let sandbox = lab_with_installed_hosts();
        set_part(&sandbox, "a", &format!("{column} = '{value}'"));
        let found = sandbox.run("doctor");
        let problem = format!("{column} of agent `a` cannot be read (invalid type");
        assert!(found.out.contains(&problem), "{}\n{}", found.out, found.err);
        sandbox.run("doctor --fix -y");
        sandbox.ok("reconcile -q");
        let condition = "{.status.conditions[?(@.type==\"Installed\")].status}";
        assert_eq!(jsonpath(&sandbox, "agent/a", condition), "True", "{column}");
        sandbox.ok("doctor");
    }
}

#[test]
fn a_document_that_is_lost_is_said_to_be_lost() {
    let sandbox = lab_with_installed_hosts();
    execute_sql(
        &sandbox,
        "DELETE FROM agent_body WHERE id = (SELECT id FROM agent WHERE name = 'a')",
    );
    let ran = sandbox.run("describe agent a");
    assert!(ran.err.contains("its document is lost"), "{}", ran.err);
    assert!(ran.err.contains("next: poolctl doctor"), "{}", ran.err);
    let found = sandbox.run("doctor").out;
    assert!(found.contains("agent `a` has no document; to have a state without it"), "{found}");
}

#[test]
fn a_migration_hides_no_document_that_was_damaged_before() {
    let sandbox = earlier(13);
    let damage = "body = json_set(body, '$.metadata.annotations.damaged', 'yes')";
    set_part(&sandbox, "a", damage);
    let message = "the document of `a` in table agent_body is not the one that was written";
    // What only reads migrates a copy in memory.
    assert!(sandbox.run("doctor").out.contains(message));
    sandbox.ok("label imgset ocp migrated=yes -q --no-reconcile");
    let found = sandbox.run("doctor").out;
    assert!(found.contains(message), "{found}");
    assert_eq!(found.matches("in table agent_body").count(), 1, "{found}");
}

#[test]
fn labels_that_follow_from_an_inventory_are_mended_also_of_installed_hosts() {
    let sandbox = lab_with_installed_hosts();
    let label = "inventory.agent-install.openshift.io/cpu-architecture";
    for label_change in [format!("{label}=other --overwrite"), format!("{label}-")] {
        sandbox.ok(&format!("label agent a {label_change} --no-reconcile -q"));
        let labels = || sandbox.ok("get agent a -o 'jsonpath={.metadata.labels}'");
        assert!(!labels().contains(&format!("\"{label}\":\"x86_64\"")), "{}", labels());
        sandbox.ok("reconcile -q");
        assert!(labels().contains(&format!("\"{label}\":\"x86_64\"")), "{}", labels());
    }
}

#[test]
fn labels_that_a_file_has_wrong_are_mended_by_the_next_pass() {
    let mut sandbox = lab_with_installed_hosts();
    let right = "/cpu-architecture: x86_64";
    let exported = sandbox.ok("export");
    assert_eq!(exported.matches(right).count(), 3);
    let file =
        sandbox.write_file("moved.yaml", &exported.replace(right, "/cpu-architecture: other"));
    let moved = sandbox.path().join("moved.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &moved);
    sandbox.ok(&format!("import {file} -q"));
    sandbox.ok("reconcile -q");
    assert_eq!(sandbox.ok("export").matches(right).count(), 3);
}

#[test]
fn a_host_that_is_installed_has_nothing_to_reach() {
    let sandbox = lab_with_installed_hosts();
    let answer = "{\"after\":60,\"next\":\"none\",\"peers\":[]}\n";
    assert_eq!(sandbox.ok("agent check-in a"), answer);
}

#[test]
fn columns_of_agents_follow_from_their_documents_after_a_migration() {
    for schema in [1, 10, 12] {
        let sandbox = earlier(schema);
        let before = sandbox.ok("get agent -A -o wide");
        sandbox.ok("label imgset ocp migrated=yes -q --no-reconcile");
        assert!(!sandbox.run("doctor").out.contains("other values"), "schema {schema}");
        assert_eq!(sandbox.ok("get agent -A -o wide"), before);
        // A wide table is made of whole Agents, any other one of the columns.
        let rows = sandbox.ok("get agent -A --no-headers");
        let wide_rows = sandbox.ok("get agent -A --no-headers -o wide");
        assert_eq!(rows.lines().count(), 3);
        for (row, wide_row) in rows.lines().zip(wide_rows.lines()) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let wide_cells: Vec<&str> = wide_row.split_whitespace().collect();
            assert_eq!(cells[..5], wide_cells[..5], "schema {schema}");
        }
    }
}

#[test]
fn columns_that_contradict_the_document_of_an_agent_are_found_and_mended() {
    let sandbox = lab_with_installed_hosts();
    execute_sql(&sandbox, "UPDATE agent SET state = 'known', disk = 1 WHERE name = 'a'");
    // Each of two Agents has the name of the other: neither can be mended alone.
    for (name, other) in [("b", "?"), ("a-nodes", "b"), ("?", "a-nodes")] {
        execute_sql(&sandbox, &format!("UPDATE agent SET name = '{other}' WHERE name = '{name}'"));
    }
    let ran = sandbox.run("doctor");
    let problem = "agent `a` is kept with other values than its document has (state, disk)";
    assert!(ran.out.contains(problem), "{}", ran.out);
    execute_sql(&sandbox, "UPDATE agent SET state = 'nonsense' WHERE name = 'a'");
    sandbox.refused(8, "get agent", "cause: column state: unknown name `nonsense`");
    assert!(sandbox.run("doctor").out.contains(problem));
    sandbox.ok("doctor --fix -y");
    assert!(!sandbox.ok("doctor").contains(problem));
    assert!(sandbox.ok("get agent --no-headers").lines().all(|line| line.contains("installed")));
}

#[test]
fn agents_are_listed_by_their_labels_without_their_documents() {
    let sandbox = lab_with_installed_hosts();
    sandbox.ok("label agent a spare=yes -q");
    set_part(&sandbox, "b", "body = '{}'");
    for (selector, names) in [("spare=yes", vec!["a"]), ("!spare", vec!["a-nodes", "b"])] {
        let rows = sandbox.ok(&format!("get agent -l '{selector}' --no-headers"));
        let listed: Vec<&str> =
            rows.lines().filter_map(|row| row.split_whitespace().next()).collect();
        assert_eq!(listed, names, "{selector}");
    }
    sandbox.refused(8, "get agent b -o yaml", "cannot be read");
}

#[test]
fn a_lost_row_of_an_agent_is_made_anew_from_its_document() {
    for mend in ["doctor --fix -y", "doctor --salvage {state} --to {new}"] {
        let mut sandbox = lab_with_installed_hosts();
        let rows = sandbox.ok("get agent --no-headers");
        let connection = Connection::open(sandbox.state()).unwrap();
        let sql = "PRAGMA foreign_keys = 0; DELETE FROM agent WHERE name = 'b'";
        connection.execute_batch(sql).unwrap();
        drop(connection);
        assert!(!sandbox.ok("get agent --no-headers").contains("node-3"));
        let new_state = sandbox.path().join("new.db").display().to_string();
        let state = sandbox.state().display().to_string();
        sandbox.run(&mend.replace("{state}", &state).replace("{new}", &new_state));
        if mend.contains("--to") {
            sandbox.set_variable("POOLCTL_STATE", &new_state);
        }
        let mended = sandbox.ok("get agent --no-headers");
        assert_eq!(mended, rows, "{mend}");
        assert_eq!(jsonpath(&sandbox, "agent/b", "{.status.debugInfo.state}"), "installed");
    }
}

/// Whoever looks for a machine by an identity that has no row would use the machine a second time.
#[test]
fn a_lost_identity_of_an_agent_is_named_and_written_anew() {
    for damage in ["DELETE FROM agent_mac", "UPDATE agent_mac SET bound = NULL"] {
        let sandbox = lab_with_installed_hosts();
        let identities =
            "SELECT group_concat(agent || ' ' || mac || ' ' || ifnull(bound, '-')) FROM agent_mac";
        let connection = Connection::open(sandbox.state()).unwrap();
        let read = || connection.query_row(identities, [], |row| row.get::<_, String>(0)).unwrap();
        let before = read();
        assert!(connection.execute(damage, []).unwrap() > 0);
        let named = sandbox.shell("poolctl doctor").out;
        assert!(named.contains("agent `b` would not be found by"), "{named}");
        sandbox.ok("doctor --fix -y");
        assert_eq!(read(), before, "{damage}");
        sandbox.ok("doctor");
    }
}
