//! An InfraEnv whose token is known to strangers: they cannot keep out the hosts that are expected,
//! and all of them are deleted by one command.

use serde_json::{Value, json};

use crate::metal::sandbox_with_rack;
use crate::sandbox::{Sandbox, apply, jsonpath};

const EXPECTED_MAC: &str = "52:54:00:00:00:07";

/// A state whose InfraEnv has as many unapproved agents as it takes.
fn crowded_sandbox() -> Sandbox {
    let sandbox = sandbox_with_rack();
    let mut strangers: Vec<Value> = Vec::new();
    for number in 0..1000 {
        strangers.push(json!({"apiVersion": "agent-install.openshift.io/v1beta1", "kind": "Agent",
            "metadata": {"name": format!("stranger-{number}"),
                "labels": {"infraenvs.agent-install.openshift.io": "rack"}}}));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": strangers});
    let file = sandbox.write_file("strangers.json", &list.to_string());
    sandbox.ok(&format!("apply -f {file} --no-reconcile -q"));
    sandbox
}

#[test]
fn strangers_do_not_keep_out_hosts_that_are_expected() {
    let sandbox = crowded_sandbox();
    let words = "has 1000 unapproved hosts and accepts no more";
    sandbox.refused(4, "agent register --infraenv rack --id h1", words);
    sandbox.refused(4, "agent register --infraenv rack --id h1", "agent delete --unapproved");
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "n7"}, "spec": {"online": false, "bootMACAddress": EXPECTED_MAC}});
    apply(&sandbox, &host.to_string());
    let register = "agent register --infraenv rack --id";
    sandbox.ok(&format!("{register} h7 --mac 02:00:00:00:00:01 --mac {EXPECTED_MAC} -q"));
    // There is one place for each of them, and not more.
    sandbox.refused(4, &format!("{register} liar --mac {EXPECTED_MAC}"), "accepts no more");
    // A host that is known registers as often as it boots.
    sandbox.ok(&format!("{register} h7 -q"));
}

#[test]
fn all_that_nobody_has_approved_are_deleted_at_once() {
    let sandbox = crowded_sandbox();
    sandbox.ok("agent approve stranger-7 -q");
    sandbox.ok("agent delete --unapproved --infraenv rack -y -q");
    sandbox.ok("agent register --infraenv rack --id h1 -q");
    assert_eq!(jsonpath(&sandbox, "agent", "{.items[*].metadata.name}"), "stranger-7 h1");
    sandbox.ok("agent delete h1 -y -q");
    assert_eq!(jsonpath(&sandbox, "agent", "{.items[*].metadata.name}"), "stranger-7");
    sandbox.ok("agent delete --unapproved -q");
    sandbox.refused(2, "agent delete", "AGENT");
}
