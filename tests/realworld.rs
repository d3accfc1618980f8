//! Manifests of the shapes that fleets in production have: listed and missing customizations, one
//! that two pools list, nulls, stale statuses, and RBAC in between.

use std::path::Path;

use crate::sandbox::{Sandbox, apply, condition_field};

const NAMESPACE: &str = "storage-ci-pools";

/// Everything that the manifests refer to and do not bring.
const SUPPLIED: &str = r#"
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: release-4.18.24-x86-64}
spec: {releaseImage: "example.com/ocp:4.18.24"}
---
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: release-4.20.12-multi}
spec: {releaseImage: "example.com/ocp:4.20.12"}
---
apiVersion: v1
kind: Secret
metadata: {name: pull-secret, namespace: storage-ci-pools}
stringData: {.dockerconfigjson: "{}"}
---
apiVersion: v1
kind: Secret
metadata: {name: openstack-credentials, namespace: storage-ci-pools}
stringData: {clouds.yaml: "clouds: {}"}
"#;

const SIMULATED: &str = r#"{"spec": {"annotations": {"hive.openshift.io/fake-cluster": "true"}}}"#;

#[test]
fn production_manifests_apply_unchanged_and_lease_each_customization_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/production");
    let folder = folder.display().to_string();
    let sandbox = Sandbox::new();
    let first = sandbox.run(&format!("apply -f {folder}"));
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(first.err.contains("ClusterRoleBinding"), "{}", first.err);
    assert!(first.out.lines().all(|line| line.ends_with(" created")), "{}", first.out);
    let second = sandbox.ok(&format!("apply -f {folder}"));
    assert_eq!(second.lines().count(), first.out.lines().count());
    assert!(second.lines().all(|line| line.ends_with(" unchanged")), "{second}");

    let missing = condition_field(&sandbox, "pool/storage-west", "MissingDependencies", "message");
    for dependency in ["cluster image set: ", "pull secret: ", "credentials secret: "] {
        assert!(missing.contains(dependency), "{missing}");
    }

    for pool in ["storage-east", "storage-west"] {
        sandbox.ok(&format!("patch pool {pool} -n {NAMESPACE} -p '{SIMULATED}'"));
    }
    apply(&sandbox, SUPPLIED);
    sandbox.ok("reconcile --wait -q");

    let path = "jsonpath={range .items[*]}{.spec.clusterPoolRef.poolName} \
                {.spec.clusterPoolRef.clusterDeploymentCustomization.name} {.spec.clusterName}{\"\\n\"}{end}";
    let clusters = sandbox.ok(&format!("get cluster -n {NAMESPACE} -o '{path}'"));
    let mut lines: Vec<&str> = clusters.lines().collect();
    lines.sort_unstable();
    let prefix = "storage-ci-slot";
    let expected = [
        format!("storage-east {prefix}-01 storage-01"),
        format!("storage-east {prefix}-02 storage-02"),
        format!("storage-east {prefix}-05 storage-05"),
        format!("storage-west {prefix}-20 storage-20"),
    ];
    assert_eq!(lines, expected);

    let missing_numbers =
        ["03", "04", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "23"];
    let missing = missing_numbers.map(|number| format!("{prefix}-{number}"));
    let message = condition_field(&sandbox, "pool/storage-east", "InventoryValid", "message");
    let valid: serde_json::Value = serde_json::from_str(&message).unwrap();
    assert_eq!(valid["Missing"], serde_json::json!(missing));
    let message = condition_field(&sandbox, "pool/storage-west", "InventoryValid", "message");
    assert_eq!(message, "");

    for (cluster, api, ingress) in [
        ("storage-01", "198.51.100.11", "198.51.100.12"),
        ("storage-02", "198.51.100.21", "198.51.100.22"),
        ("storage-05", "203.0.113.51", "203.0.113.52"),
        ("storage-20", "203.0.113.201", "203.0.113.202"),
    ] {
        let grep =
            format!("cat $(grep -lr 'name: {cluster}$' {}/clusters)", sandbox.path().display());
        let config = sandbox.shell(&grep).out;
        for part in
            [format!("apiFloatingIP: \"{api}\""), format!("ingressFloatingIP: \"{ingress}\"")]
        {
            assert!(config.contains(&part), "{cluster}: {config}");
        }
    }
}
