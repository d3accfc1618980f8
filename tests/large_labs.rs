//! Labs with more pools than are planned together: a pass over everything plans and commits their
//! pools in portions, and `doctor` looks at them in the same portions.

use std::fmt::Write;

use crate::sandbox::{Sandbox, assert_settled, execute_sql, has_program, jsonpath};

/// More than are planned together.
const POOLS: usize = 203;

/// A lab whose pools have just been applied, with what belongs to none of them: a cluster, a claim
/// of a pool that does not exist, and a claim of an address that waits.
fn large_lab() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut manifest = IMAGE_SET.to_owned();
    for number in 0..POOLS {
        manifest.push_str(&POOL.replace("NAME", &format!("p{number}")));
        if WITH_CUSTOMIZATION.contains(&number) {
            let _ = writeln!(manifest, "  inventory: [{{name: c{number}}}]");
        }
    }
    for number in WITH_CUSTOMIZATION {
        manifest.push_str(&CUSTOMIZATION.replace("NAME", &format!("c{number}")));
    }
    manifest.push_str(BESIDE_POOLS);
    let file = sandbox.write_file("lab.yaml", &manifest);
    sandbox.ok(&format!("apply -f {file} -q --no-reconcile"));
    // Nothing says which pools were changed.
    let sql = "DELETE FROM due_scope; DELETE FROM due_object; \
               INSERT INTO due_scope (namespace, pool, dirty, polled, waits) \
               VALUES ('', '', 1, 0, 0)";
    execute_sql(&sandbox, sql).unwrap();
    sandbox
}

const IMAGE_SET: &str = "apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: simulated}
spec: {releaseImage: \"example.com/simulated:1\"}
";

const POOL: &str = "---
apiVersion: hive.openshift.io/v1
kind: ClusterPool
metadata: {name: NAME}
spec:
  annotations: {hive.openshift.io/fake-cluster: \"true\"}
  baseDomain: example.com
  imageSetRef: {name: simulated}
  platform: {none: {}}
  size: 1
";

/// The pools whose clusters have a customization.
const WITH_CUSTOMIZATION: [usize; 2] = [1, 202];

const CUSTOMIZATION: &str = "---
apiVersion: hive.openshift.io/v1
kind: ClusterDeploymentCustomization
metadata: {name: NAME}
spec: {installConfigPatches: [{op: replace, path: /metadata/name, value: NAME}]}
";

const BESIDE_POOLS: &str = "---
apiVersion: hive.openshift.io/v1
kind: ClusterClaim
metadata: {name: lost}
spec: {clusterPoolName: gone}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: full}
spec: {pools: [{start: 10.9.0.1, end: 10.9.0.1}], prefix: 24}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: has}
spec: {pool: {name: full}}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: waits}
spec: {pool: {name: full}}
";

/// How many pools have the cluster that they are to have.
fn served_pools(sandbox: &Sandbox) -> usize {
    jsonpath(sandbox, "pool", "{.items[*].status.size}").matches('1').count()
}

fn revision(sandbox: &Sandbox) -> String {
    sandbox.shell("sqlite3 $POOLCTL_STATE 'SELECT revision FROM state'").out
}

#[test]
fn a_pass_over_everything_settles_all_portions_and_what_belongs_to_no_pool() {
    let mut sandbox = large_lab();
    sandbox.ok("reconcile -q");
    assert_eq!(served_pools(&sandbox), POOLS);
    let reason = "{.status.conditions[?(@.type==\"Pending\")].reason}";
    assert_eq!(jsonpath(&sandbox, "claim/lost", reason), "ClusterPoolNotFound");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    sandbox.ok("reconcile -q");
    assert_settled(&sandbox);
    sandbox.ok("doctor");
    // Nothing is left to be done, so nothing is written.
    let before = revision(&sandbox);
    sandbox.ok("reconcile --all -q");
    assert_eq!(revision(&sandbox), before);
    // What becomes free is given to whoever waits for it, in the same pass.
    sandbox.ok("ip release has -y -q --no-reconcile");
    execute_sql(&sandbox, "UPDATE due_scope SET dirty = 1 WHERE pool = ''").unwrap();
    sandbox.ok("reconcile -q");
    assert_eq!(jsonpath(&sandbox, "ipaddress", "{.items[*].spec.claim.name}"), "waits");
}

#[test]
fn a_pass_over_everything_that_is_killed_between_two_portions_is_done_by_the_next() {
    if !has_program("strace") {
        return;
    }
    for step in 1..12 {
        let sandbox = large_lab();
        let ran = sandbox.shell(&format!(
            "strace -f -qq -o /dev/null -e trace=fsync -e inject=fsync:signal=KILL:when={step} \
             poolctl reconcile -q"
        ));
        assert!([0, 137].contains(&ran.code), "{step}: {}", ran.err);
        sandbox.ok("reconcile -q");
        assert_eq!(served_pools(&sandbox), POOLS, "{step}");
        let checked = sandbox.shell("poolctl doctor").out;
        assert!(checked.contains("due          ok"), "{step}: {checked}");
        if ran.code == 0 {
            assert!(step > 5, "{step} fsyncs");
            return;
        }
    }
    panic!("the pass never ended");
}

/// The first pool of another portion lists what a pool of the first portion has, which shares its own
/// inventory with a third one.
#[test]
fn doctor_raises_no_alarm_for_customizations_that_pools_of_all_portions_share() {
    let mut sandbox = large_lab();
    for (pool, inventory) in [("p1", "[{name: c1}]"), ("p2", "[{name: c1}, {name: c3}]")] {
        sandbox.ok(&format!("patch pool {pool} -p '{{spec: {{inventory: {inventory}}}}}' -q"));
    }
    crate::sandbox::create_customization(&sandbox, "c3", "c3");
    sandbox.ok("reconcile -q");
    sandbox.ok("patch pool p201 -p '{spec: {inventory: [{name: c3}]}}' -q");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    sandbox.ok("reconcile -q");
    assert_eq!(jsonpath(&sandbox, "cdc/c3", "{.status.clusterPoolRef.name}"), "p2");
    sandbox.ok("doctor");
}

#[test]
fn what_belongs_to_no_object_is_removed_by_a_pass_over_everything() {
    let sandbox = large_lab();
    sandbox.shell("mkdir -p -m 700 $HOME/clusters/p0-gone; touch $HOME/clusters/p0-gone/a");
    sandbox.ok("reconcile -q");
    assert!(!sandbox.path().join("clusters/p0-gone").exists());
}

/// A claim that another program has given the cluster of another portion lets go of it.
#[test]
fn a_claim_that_names_a_cluster_of_another_portion_is_put_right() {
    let mut sandbox = large_lab();
    sandbox.ok("reconcile -q");
    sandbox.ok("claim p1 of-p1 -q");
    for hour in [14, 16] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{hour}:00:00Z"));
        sandbox.ok("reconcile -q");
    }
    execute_sql(&sandbox, "UPDATE claim SET pool = 'ghost' WHERE name = 'of-p1'").unwrap();
    let checked = sandbox.shell("poolctl doctor").out;
    assert!(checked.contains("links        wrong"), "{checked}");
}

#[test]
fn doctor_finds_in_every_portion_what_is_missed_and_links_that_are_broken() {
    let mut sandbox = large_lab();
    sandbox.ok("reconcile -q");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    sandbox.ok("reconcile -q");
    for pool in ["p1", "p202"] {
        sandbox.ok(&format!("claim {pool} of-{pool} -q"));
    }
    for hour in [16, 18] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{hour}:00:00Z"));
        sandbox.ok("reconcile -q");
    }
    sandbox.ok("doctor");
    for pool in ["p2", "p201"] {
        let sql = format!(
            "UPDATE document SET body = json_set(body, '$.spec.size', 2) \
             WHERE kind = 'ClusterPool' AND name = '{pool}'"
        );
        execute_sql(&sandbox, &sql).unwrap();
    }
    let checked = sandbox.shell("poolctl doctor").out;
    for pool in ["p2", "p201"] {
        let missed = format!("pool `default/{pool}` would change if all were worked out again");
        assert!(checked.contains(&missed), "{checked}");
    }
    let sql = "UPDATE claim SET cluster = NULL; UPDATE cluster SET customization = NULL";
    execute_sql(&sandbox, sql).unwrap();
    let checked = sandbox.shell("poolctl doctor").out;
    for broken in [
        "ClusterClaim default/of-p1",
        "ClusterClaim default/of-p202",
        "c1: Reservation",
        "c202: Reservation",
    ] {
        assert!(checked.contains(broken), "{broken}: {checked}");
    }
}
