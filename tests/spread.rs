//! Masters are spread over the values of a label, such as the racks that hosts are in.

use serde_json::json;

use crate::metal::{boot_host, sandbox_with_rack};
use crate::once::only_cluster;
use crate::sandbox::{Sandbox, jsonpath};

/// Boots hosts that are in these rows, and approves them at once.
fn boot_in_rows(sandbox: &Sandbox, rows: &[&str]) {
    let mut agents = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let number = index + 1;
        boot_host(sandbox, "rack", number, &json!({}));
        sandbox.ok(&format!("label agent h{number} row={row} --no-reconcile -q"));
        agents.push(format!("h{number}"));
    }
    sandbox.ok(&format!("agent approve -q {}", agents.join(" ")));
    sandbox.ok("reconcile -q");
}

fn hosts_of_cluster(sandbox: &Sandbox) -> String {
    let cluster = only_cluster(sandbox);
    let path = format!("{{.items[?(@.status.boundTo.name==\"{cluster}\")].metadata.name}}");
    jsonpath(sandbox, "agent", &path)
}

#[test]
fn a_pool_takes_its_masters_from_as_many_rows_as_there_are() {
    let rows = ["a", "a", "a", "b", "c"];
    let sandbox = sandbox_with_rack();
    boot_in_rows(&sandbox, &rows);
    assert_eq!(hosts_of_cluster(&sandbox), "h1 h2 h3");

    let sandbox = sandbox_with_rack();
    sandbox.ok("annotate pool metal poolctl.dev/spread-by=row -q");
    boot_in_rows(&sandbox, &rows);
    assert_eq!(hosts_of_cluster(&sandbox), "h1 h4 h5");
}

#[test]
fn what_is_no_label_is_refused() {
    let sandbox = sandbox_with_rack();
    let ran = sandbox.run("annotate pool metal 'poolctl.dev/spread-by=a b'");
    assert!(ran.code != 0 && ran.err.contains("not key of a label"), "{ran:?}");
}
