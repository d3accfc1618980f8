//! Manifests of production, where they lie beside this checkout: listed and missing customizations,
//! one that two pools list, nulls, stale statuses, and RBAC in between.

use std::path::Path;

use crate::sandbox::{Sandbox, apply, condition_field, is_met_or_skipped};

const NAMESPACE: &str = "openstack-k8s-operators-cluster-pool";

/// Everything that the manifests refer to and do not bring.
const SUPPLIED: &str = r#"
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp-release-4.18.30-x86-64-for-4.18.0-0-to-4.19.0-0}
spec: {releaseImage: "example.com/ocp:4.18.30"}
---
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp-release-4.20.28-multi-for-4.20.0-0-to-4.21.0-0}
spec: {releaseImage: "example.com/ocp:4.20.28"}
---
apiVersion: v1
kind: Secret
metadata: {name: pull-secret, namespace: openstack-k8s-operators-cluster-pool}
stringData: {.dockerconfigjson: "{}"}
---
apiVersion: v1
kind: Secret
metadata: {name: openstack-operators-vexxhost-hive-creds, namespace: openstack-k8s-operators-cluster-pool}
stringData: {clouds.yaml: "clouds: {}"}
"#;

const SIMULATED: &str = r#"{"spec": {"annotations": {"hive.openshift.io/fake-cluster": "true"}}}"#;

#[test]
fn production_manifests_apply_unchanged_and_lease_each_customization_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/realworld");
    if !is_met_or_skipped(
        folder.is_dir(),
        "the production manifests do not lie beside this checkout",
    ) {
        return;
    }
    let folder = folder.display().to_string();
    let sandbox = Sandbox::new();
    let first = sandbox.run(&format!("apply -f {folder}"));
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(first.err.contains("ClusterRoleBinding"), "{}", first.err);
    assert!(first.out.lines().all(|line| line.ends_with(" created")), "{}", first.out);
    let second = sandbox.ok(&format!("apply -f {folder}"));
    assert_eq!(second.lines().count(), first.out.lines().count());
    assert!(second.lines().all(|line| line.ends_with(" unchanged")), "{second}");

    let missing = condition_field(&sandbox, "pool/oko-op-09", "MissingDependencies", "message");
    for dependency in ["cluster image set: ", "pull secret: ", "credentials secret: "] {
        assert!(missing.contains(dependency), "{missing}");
    }

    for pool in ["oko-op-08", "oko-op-09"] {
        sandbox.ok(&format!("patch pool {pool} -n {NAMESPACE} -p '{SIMULATED}'"));
    }
    apply(&sandbox, SUPPLIED);
    sandbox.ok("reconcile --wait -q");

    let path = "jsonpath={range .items[*]}{.spec.clusterPoolRef.poolName} \
                {.spec.clusterPoolRef.clusterDeploymentCustomization.name} {.spec.clusterName}{\"\\n\"}{end}";
    let clusters = sandbox.ok(&format!("get cluster -n {NAMESPACE} -o '{path}'"));
    let mut lines: Vec<&str> = clusters.lines().collect();
    lines.sort_unstable();
    let prefix = "openstack-k8s-operators-cdc-vexx";
    let expected = [
        format!("oko-op-08 {prefix}-01 oko-01"),
        format!("oko-op-08 {prefix}-02 oko-02"),
        format!("oko-op-08 {prefix}-05 oko-05"),
        format!("oko-op-09 {prefix}-20 oko-20"),
    ];
    assert_eq!(lines, expected);

    let missing_numbers =
        ["03", "04", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "23"];
    let missing = missing_numbers.map(|number| format!("{prefix}-{number}"));
    let message = condition_field(&sandbox, "pool/oko-op-08", "InventoryValid", "message");
    let valid: serde_json::Value = serde_json::from_str(&message).unwrap();
    assert_eq!(valid["Missing"], serde_json::json!(missing));
    let message = condition_field(&sandbox, "pool/oko-op-09", "InventoryValid", "message");
    assert_eq!(message, "");

    for (cluster, api, ingress) in [
        ("oko-01", "38.129.56.44", "38.129.56.195"),
        ("oko-02", "38.129.56.12", "38.129.56.77"),
        ("oko-05", "38.102.83.34", "38.102.83.42"),
        ("oko-20", "38.102.83.71", "38.102.83.228"),
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
