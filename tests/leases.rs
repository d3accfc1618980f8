//! Leases of customizations: pools that share them, clusters that keep them, names that are taken.

use crate::sandbox::{
    BY_HAND, Sandbox, apply, assert_settled, condition_field, create_customization, jsonpath,
    move_state,
};

const PRESERVE: &str = "{spec: {preserveOnDelete: true}}";

#[test]
fn two_customizations_with_one_name_in_dns_are_one_cluster() {
    let sandbox = Sandbox::new();
    // Two customizations, but their clusters would have one name: only one of them can be made.
    create_customization(&sandbox, "one", "same");
    create_customization(&sandbox, "two", "same");
    sandbox.ok("pool create x --fake --size 2 --customization one --customization two");
    let status = jsonpath(
        &sandbox,
        "pool",
        "{.items[0].status.inventory.two.status}: {.items[0].status.inventory.two.message}",
    );
    let taken = "Unavailable: The name is taken: same.example.com belongs to cluster x-";
    assert!(status.starts_with(taken), "{status}");
    sandbox.ok("pool create y --fake --size 1 --customization two");
    sandbox.ok("pool scale x --size 3");
    assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].spec.clusterName}"), "same");
    // When the name is free again, the other entry serves.
    sandbox.ok("delete pool x");
    assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].spec.clusterPoolRef.poolName}"), "y");
    // Nor may a cluster that is made by hand have the name.
    let manifest = BY_HAND.replace("clusterName: c", "clusterName: same");
    sandbox.refused(
        4,
        &format!("apply -f {}", sandbox.write_file("c.yaml", &manifest)),
        "same.example.com is already the name of cluster `y-",
    );
}

#[test]
fn an_older_pool_takes_what_a_newer_one_gives_back() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "a", "a");
    sandbox.ok("pool create older --fake --size 0 --customization a");
    sandbox.ok("pool create newer --fake --size 1 --customization a");
    assert_settled(&sandbox);
    // Whichever pool is planned first, the older one gets what the newer one gives back.
    sandbox.ok("pool scale older --size 1");
    sandbox.ok("pool scale newer --size 0");
    assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].spec.clusterPoolRef.poolName}"), "older");
}

#[test]
fn two_pools_swap_their_customizations() {
    let mut sandbox = Sandbox::new();
    create_customization(&sandbox, "z1", "z1");
    create_customization(&sandbox, "z2", "z2");
    for (pool, customization_name) in [("a", "z1"), ("b", "z2")] {
        sandbox.ok(&format!(
            "pool create {pool} --fake --running-count 1 --customization {customization_name}"
        ));
    }
    assert_settled(&sandbox);
    for (pool, first, second) in [("a", "z2", "z1"), ("b", "z1", "z2")] {
        let inventory = format!("[{{name: {first}}}, {{name: {second}}}]");
        sandbox.ok(&format!("patch pool {pool} -p '{{spec: {{inventory: {inventory}}}}}'"));
        sandbox.ok(&format!("claim {pool} {pool} -q"));
    }
    sandbox.ok("release a b");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    sandbox.ok("reconcile");
    assert_settled(&sandbox);
    let leases = jsonpath(
        &sandbox,
        "cluster",
        "{range .items[*]}{.spec.clusterPoolRef.poolName}={.spec.clusterName} {end}",
    );
    assert_eq!(leases, "a=z2 b=z1 ");
}

/// Scenario D-7.
#[test]
fn a_customization_that_left_the_inventory_is_free_when_its_cluster_goes() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "z", "z");
    sandbox.ok("pool create p --fake --running-count 1 --customization z");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim p c -q");
    sandbox.ok("patch pool p -p '{spec: {inventory: null, size: 0, maxConcurrent: 0}}'");
    sandbox.ok("release c");
    sandbox.ok("delete pool p");
    assert_settled(&sandbox);
    // maxConcurrent 0 lets nothing be destroyed. It can be changed while the pool is being deleted.
    assert_eq!(sandbox.ok("get cluster -o name").lines().count(), 1);
    sandbox.ok("patch pool p -p '{spec: {maxConcurrent: 1}}'");
    assert_settled(&sandbox);
    assert_eq!(condition_field(&sandbox, "cdc/z", "Available", "status"), "True");
    assert_eq!(jsonpath(&sandbox, "cdc/z", "{.status.clusterDeploymentRef}"), "");
    assert_eq!(sandbox.run("get pool p").code, 3);
}

#[test]
fn a_customization_that_two_pools_cannot_use_settles() {
    let sandbox = Sandbox::new();
    let manifest = "apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\nmetadata: {name: a}\n\
                spec: {installConfigPatches: [{op: remove, path: /platform/x/y}]}\n";
    apply(&sandbox, manifest);
    sandbox.ok("pool create p --fake --customization a");
    sandbox.ok("pool create q --fake --customization a --platform vsphere");
    assert_settled(&sandbox);
    // A name that is not allowed in DNS is a broken configuration, too.
    create_customization(&sandbox, "b", "'../../x Y'");
    sandbox.ok("pool create r --fake --customization b");
    let message = jsonpath(&sandbox, "pool", "{.items[2].status.inventory.b.message}");
    assert!(message.contains("is not a valid name: use at most 63"), "{message}");
}

#[test]
fn a_preserved_cluster_keeps_its_name_and_a_deleted_customization_goes_with_its_cluster() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "a", "a");
    create_customization(&sandbox, "b", "b");
    sandbox.ok("pool create p --fake --size 2 --customization a --customization b");
    sandbox.ok("reconcile --wait -q");
    let path = "{.items[?(@.spec.clusterName==\"a\")].metadata.name}";
    let preserved = jsonpath(&sandbox, "cluster", path);
    sandbox.ok(&format!("patch cluster {preserved} -p '{PRESERVE}'"));
    sandbox.ok(&format!("delete cluster {preserved}"));
    sandbox.ok("delete cdc b");
    sandbox.ok("patch pool p -p '{spec: {inventory: [{name: a}]}}'");
    assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].spec.clusterName}"), "");
    assert_eq!(sandbox.ok("get cdc -o name"), "customization/a\n");
    assert!(sandbox.ok("get cdc").contains("Unavailable"));
    // Its name in DNS is kept, too: no other customization may set it.
    create_customization(&sandbox, "other", "a");
    sandbox.ok("patch pool p -p '{spec: {inventory: [{name: a}, {name: other}]}}'");
    assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].spec.clusterName}"), "");
    let message = sandbox.ok("get pool p -o jsonpath={.status.inventory.other.message}");
    let taken = "The name is taken: a.example.com belongs to cluster p-";
    assert!(message.starts_with(taken), "{message}");
    // The lease ends when somebody resets it, who knows that the cluster is not there any more.
    sandbox.ok("delete cdc other");
    sandbox.ok("delete cdc a");
    assert_eq!(sandbox.ok("get cdc -o name"), "customization/a\n");
    sandbox.ok("customization reset a");
    assert_eq!(sandbox.ok("get cdc -o name"), "");
}

#[test]
fn a_cluster_preserved_at_the_last_moment_keeps_its_lease() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "foo", "one");
    sandbox.ok("pool create lab --fake --customization foo");
    sandbox.ok("reconcile --wait -q");
    let name = sandbox.ok("get cluster -qo name");
    sandbox.ok(&format!("delete --no-reconcile cluster {} -y", name.trim()));
    sandbox.ok(&format!("patch cluster {} -p '{PRESERVE}'", name.trim()));
    sandbox.ok("reconcile --wait -q");
    assert!(sandbox.ok("get cdc").contains(name.trim()), "{}", sandbox.ok("get cdc"));
    assert_eq!(sandbox.run("doctor").code, 0);
    assert!(sandbox.ok("get cluster").is_empty());
}

#[test]
fn a_cluster_that_was_destroyed_is_not_preserved() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "foo", "one");
    sandbox.ok("pool create lab --fake --customization foo");
    sandbox.ok("reconcile --wait -q");
    let name = sandbox.ok("get cluster -qo name");
    sandbox.ok(&format!("delete cluster {} -y", name.trim()));
    sandbox.ok(&format!("patch cluster {} -p '{PRESERVE}'", name.trim()));
    sandbox.ok("reconcile --wait -q");
    let name_now = sandbox.ok("get cluster -qo name");
    assert!(!name_now.is_empty() && name_now != name, "{name_now}");
}

#[test]
fn the_name_of_a_claim_that_left_a_cluster_is_not_given_again() {
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("pool create other --fake");
    sandbox.ok("claim lab ci");
    let warnings = move_state(&mut sandbox, |objects| {
        objects.retain(|object| object["kind"] != "ClusterClaim");
    });
    assert!(warnings.contains("is held by claim ci, which is not in the file"), "{warnings}");
    // The cluster names its claim: a new claim of that name would take it over, used as it is.
    for pool in ["lab", "other"] {
        sandbox.refused(4, &format!("claim {pool} ci"), "still holds cluster lab-");
    }
    assert!(sandbox.run("doctor").out.contains("held by claim `default/ci`, which is gone"));
    let label = "hive.openshift.io/clusterpool-name=lab";
    let path = r#"{.items[?(@.spec.clusterPoolRef.claimName=="ci")].metadata.name}"#;
    let name = sandbox.ok(&format!("get cluster -l {label} -o jsonpath={path}"));
    assert!(sandbox.ok(&format!("why cluster {name}")).contains("which is gone"));
    sandbox.ok(&format!("delete cluster {name} -y"));
    sandbox.ok("reconcile --wait=1h -q");
    sandbox.ok("claim lab ci");
}

#[test]
fn a_customization_that_no_pass_has_looked_at_is_not_said_to_be_in_use() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -f examples/inventory --no-reconcile -q");
    for command in ["status", "why pool/vsphere"] {
        let ran = sandbox.run(command);
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        assert!(!ran.out.contains("is free"), "{command}: {}", ran.out);
    }
}
