//! What people see in a terminal with 80 columns: descriptions, plans, tables, and what is said while
//! a command waits.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Expects that no line of an output is wider than a terminal.
fn assert_fits(command: &str, output: &str) {
    for line in output.lines() {
        let width = line.chars().count();
        assert!(width <= WIDTH, "{command}: {width} columns: {line}\n{output}");
    }
}

/// Runs a command that may fail, expects that its output fits a terminal, and returns it.
fn screen(sandbox: &Sandbox, command: &str) -> String {
    let out = sandbox.run(command).out;
    assert_fits(command, &out);
    out
}

#[test]
fn a_plan_begins_with_a_summary_and_tells_the_rest_with_full() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let patch = r#"{"spec": {"baseDomain": "other.example.com"}}"#;
    sandbox.ok(&format!("patch pool lab --no-reconcile -p '{patch}'"));
    let plan = screen(&sandbox, "plan");
    let first_line = plan.lines().next().unwrap();
    assert!(first_line.starts_with("1 cluster made, 1 destroyed: stale; "), "{plan}");
    assert!(plan.contains("metadata.deletionTimestamp: none -> "), "{plan}");
    assert!(plan.contains("clusterpool/lab: 2 stale, would replace "), "{plan}");
    assert!(!plan.contains("status.conditions") && !plan.contains("status.ready"), "{plan}");
    let full_plan = screen(&sandbox, "plan --full");
    assert!(full_plan.starts_with(first_line) && full_plan.contains("status.conditions."));
    // Programs get the same lines with and without it.
    let [document, full_document] = ["plan -o json", "plan --full -o json"]
        .map(|line| serde_json::from_str::<Value>(&sandbox.run(line).out).unwrap());
    assert_eq!(document, full_document);
    assert_eq!(document["summary"], first_line);
    let change_count = document["changes"].as_array().unwrap().len();
    assert!(change_count > plan.lines().count() - 2, "{document}");
}

#[test]
fn a_summary_counts_with_the_right_plurals() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 2 --no-reconcile");
    let plan = screen(&sandbox, "plan");
    assert!(plan.starts_with("2 clusters made; 2 jobs begun\n"), "{plan}");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("pool scale lab --size 1 --no-reconcile");
    let plan = screen(&sandbox, "plan");
    assert!(plan.starts_with("1 cluster destroyed: not needed; 1 job begun\n"), "{plan}");
    sandbox.ok("reconcile --wait -q");
    let ran = sandbox.run("plan");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", "nothing to do\n"));
}
