//! Small slips: a name that is mistyped, a claim where a cluster was meant, a word too many, a
//! warning that holds for as long as a command waits.

use crate::sandbox::{Sandbox, apply, in_one_line, jsonpath};

#[test]
fn waiting_for_the_deletion_of_what_never_was_says_so() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab ci-17");
    let mistyped = sandbox.run("wait claim/ci-71 --for=delete");
    assert_eq!(mistyped.code, 0, "{}", mistyped.err);
    assert!(mistyped.err.contains("warning: there is no claim `ci-71`"), "{}", mistyped.err);
    // A script that comes late is not warned: the claim was there.
    sandbox.ok("release ci-17 -y");
    sandbox.ok("wait claim/ci-17 --for=delete --timeout=1h");
    let late = sandbox.run("wait claim/ci-17 --for=delete");
    assert_eq!((late.code, late.err.as_str()), (0, ""));
}

#[test]
fn a_claim_stands_for_its_cluster_where_logs_are_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab ci-17");
    let cluster = jsonpath(&sandbox, "claim/ci-17", "{.spec.namespace}");
    let logs = sandbox.ok(&format!("cluster logs {cluster}"));
    assert!(logs.contains("attempt 1"), "{logs}");
    for name in ["ci-17", "claim/ci-17"] {
        assert_eq!(sandbox.ok(&format!("cluster logs {name}")), logs, "{name}");
        let (by_claim, by_cluster) =
            (sandbox.run(&format!("logs {name}")), sandbox.run(&format!("logs {cluster}")));
        assert_eq!((by_claim.code, by_claim.out), (by_cluster.code, by_cluster.out), "{name}");
    }
    let cause = "a simulated installation leaves no files";
    sandbox.refused(3, &format!("cluster logs {cluster} --bundle copies"), cause);
    sandbox.ok("pool scale lab --size 0 --no-reconcile");
    sandbox.ok("claim lab waiting --no-reconcile");
    sandbox.refused(4, "cluster logs waiting", "claim `waiting` has no cluster yet");
    sandbox.refused(3, "cluster logs claim/absent", "there is no claim `absent`");
    sandbox.refused(
        3,
        "cluster forget absent --i-have-destroyed-it",
        "there is no cluster `absent`",
    );
    sandbox.refused(3, "cluster logs absent", "nothing was installed under the name `absent`");
}

/// A host whose controller nobody may ask while the clock stands.
const HOST: &str = "apiVersion: v1
kind: Secret
metadata: {name: bmc}
stringData: {username: admin, password: change-me}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: node-1}
spec: {online: true, bootMACAddress: '52:54:00:00:00:01', bmc: {address: 'ipmi://127.0.0.1', credentialsName: bmc}}
";

#[test]
fn a_command_that_waits_warns_of_the_same_once() {
    let sandbox = Sandbox::new();
    apply(&sandbox, HOST);
    let waited = sandbox.run("reconcile --wait=2m");
    let warnings = waited.err.lines().filter(|line| line.starts_with("warning: "));
    assert_eq!(warnings.count(), 1, "{}", waited.err);
}

#[test]
fn the_folder_of_agents_is_applied_as_it_is() {
    let sandbox = Sandbox::new();
    let applied = sandbox.ok("apply --no-reconcile -f examples/agents");
    for name in ["infraenv/rack", "cluster/edge", "nmstateconfig/node-1"] {
        assert!(applied.contains(&format!("{name} created")), "{name}: {applied}");
    }
}

#[test]
fn a_word_too_many_is_refused_with_what_to_type() {
    let sandbox = Sandbox::new();
    for (line, help) in [
        ("status lab", "next: poolctl status --help"),
        ("ip export lab --as dnsmasq", "next: poolctl ip export --help"),
    ] {
        let refused = sandbox.refused(2, line, "error: `lab` is one argument too many");
        assert!(refused.contains(help), "{refused}");
    }
}

#[test]
fn a_claim_that_waits_for_a_pass_is_not_told_to_claim() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab k --no-reconcile -q");
    let why = sandbox.ok("why claim/k");
    assert!(why.contains("Next: poolctl reconcile --wait"), "{why}");
}

#[test]
fn a_claim_whose_pool_is_gone_is_listed_with_that() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0 -q");
    sandbox.ok("claim lab k -q");
    sandbox.ok("delete pool lab -y -q");
    sandbox.ok("reconcile --wait -q");
    let status = in_one_line(&sandbox.ok("status"));
    assert!(status.contains("claim k waits for a cluster of pool lab"), "{status}");
    assert!(status.contains("(no such pool)"), "{status}");
}
