//! AgentClassifications: labels that hosts get by queries over their inventory.

use serde_json::{Value, json};

use crate::metal::{boot_host, sandbox_with_rack};
use crate::sandbox::{Sandbox, apply, assert_settled};

const PREFIX: &str = "agentclassification.agent-install.openshift.io";

fn classification(name: &str, value: &str, query: &str) -> String {
    format!(
        "apiVersion: agent-install.openshift.io/v1beta1\nkind: AgentClassification\n\
         metadata: {{name: {name}}}\n\
         spec: {{labelKey: size, labelValue: {value}, query: '{query}'}}\n"
    )
}

/// The value of the label `size` of an agent; empty without it.
fn size_of(sandbox: &Sandbox, agent: &str) -> String {
    let agent = sandbox.ok(&format!("get agent {agent} -o json"));
    let agent: Value = serde_json::from_str(&agent).unwrap();
    let value = &agent["metadata"]["labels"][format!("{PREFIX}/size")];
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn hosts_are_labelled_by_what_was_found_in_them() {
    let sandbox = sandbox_with_rack();
    apply(&sandbox, &classification("large", "large", ".cpu.count >= 32"));
    boot_host(&sandbox, "rack", 1, &json!({"cpu": {"count": 8}}));
    boot_host(&sandbox, "rack", 2, &json!({"cpu": {"count": 64}}));
    sandbox.ok("reconcile -q");
    assert_eq!((size_of(&sandbox, "h1"), size_of(&sandbox, "h2")), (String::new(), "large".into()));
    // A classification is applied to the hosts that are there already, and follows its query.
    apply(&sandbox, &classification("small", "small", ".cpu.count < 32 and .memory != null"));
    assert_eq!(size_of(&sandbox, "h1"), "small");
    apply(&sandbox, &classification("large", "large", ".cpu.count >= 128"));
    assert_eq!(size_of(&sandbox, "h2"), "");
    apply(&sandbox, &classification("large", "large", ".cpu.count >= 64"));
    assert_settled(&sandbox);
    let listed = sandbox.ok(&format!("get agent -l {PREFIX}/size=large -o name"));
    assert_eq!(listed, "agent/h2\n");
}

/// agent-G04, agent-G06, agent-G08.
#[test]
fn a_query_without_an_answer_is_an_error_and_a_label_goes_with_its_classification() {
    let sandbox = sandbox_with_rack();
    boot_host(&sandbox, "rack", 1, &json!({"cpu": {"count": 8}}));
    for (query, label) in [
        ("true", "large"),
        (".cpu.count", ""),
        (".disks[] | select(.name == \"none\")", "QUERYERROR-large"),
        (".nothing[]", "QUERYERROR-large"),
    ] {
        apply(&sandbox, &classification("large", "large", query));
        sandbox.ok("reconcile -q");
        assert_eq!(size_of(&sandbox, "h1"), label, "{query}");
    }
    let file = sandbox.write_file("changed.yaml", &classification("large", "huge", "true"));
    let message = "Label modified: the specified label may not be modified after creation";
    sandbox.refused(4, &format!("apply -f {file}"), message);
    // Another classification with the same label keeps its value.
    apply(&sandbox, &classification("small", "small", ".cpu.count == 8"));
    assert_eq!(size_of(&sandbox, "h1"), "small");
    sandbox.ok("delete agentclassification large -y -q");
    assert_eq!(size_of(&sandbox, "h1"), "small");
    sandbox.ok("delete agentclassification small -y -q");
    assert_eq!(size_of(&sandbox, "h1"), "");
    assert_settled(&sandbox);
}

#[test]
fn a_query_that_is_not_understood_is_refused_with_what_is() {
    let sandbox = Sandbox::new();
    for (value, query, message) in [
        ("x", ".cpu.count == 2 and test(\"x\")", "spec.query: `test` is not understood"),
        ("x", ".cpu.count ==", "spec.query: it ends too early; understood are paths"),
        ("QUERYERROR-x", "true", "spec.labelValue must not begin with QUERYERROR-"),
        ("\"a b\"", "true", "spec.labelValue: `a b` is not the value of a label"),
    ] {
        let file = sandbox.write_file("wrong.yaml", &classification("wrong", value, query));
        sandbox.refused(1, &format!("apply -f {file}"), message);
    }
}
