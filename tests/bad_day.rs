//! The lab's bad day: the platform goes away, has no room, refuses what it is asked for, or what it
//! makes does not come up. Nothing is used up that is not to blame, nothing is left behind, the
//! first cause stays, and what a person needs to find it is kept.

use crate::lab::{Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{apply, jsonpath};

const OPENSTACK: &str = "{openstack: {cloud: lab, credentialsSecretRef: {name: openstack}}}";

/// The name of the first cluster.
fn first_cluster(lab: &Lab) -> String {
    jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}")
}

#[test]
fn what_a_failed_attempt_left_is_destroyed_before_its_back_off() {
    let lab = Lab::new();
    lab.set_cloud("bootstrap: fails");
    // Without a limit and without an inventory it is tried again after a minute.
    apply(&lab.sandbox, &pool("lab", OPENSTACK, ""));
    lab.wait_until("failed", |lab| lab.phase() == "Retrying");
    lab.wait_until("destroyed", |lab| lab.infrastructure().is_empty());
    assert_eq!((lab.phase().as_str(), lab.count_in_ledger("made ")), ("Retrying", 1));
    lab.set_cloud("");
    lab.sandbox.ok(&format!("cluster retry {} -q", first_cluster(&lab)));
    lab.wait_until_installed();
    lab.delete_clusters();
}

/// A driver that leaves a metadata.json with this content.
fn lab_with_metadata(content: &str) -> Lab {
    let lab = Lab::new();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = provision ] || exit 0\necho 'clusters: []' >saved/kubeconfig\n\
         printf '%s' '{content}' >saved/metadata.json\necho '{{\"infraID\": \"x\"}}' >result\n"
    );
    lab.install_program("poolctl-driver-careless", &script);
    let annotations = "  annotations: {poolctl.dev/driver: 'exec:careless'}\n";
    apply(&lab.sandbox, &pool("lab", "{none: {}}", annotations));
    lab
}

#[test]
fn a_cluster_with_useless_metadata_is_not_installed() {
    for content in ["", "garbage", "[]", "{"] {
        let lab = lab_with_metadata(content);
        lab.wait_until("over", |lab| {
            let phase = lab.phase();
            assert_ne!(phase, "Installed", "metadata.json: {content:?}");
            phase == "Retrying"
        });
        assert!(lab.sandbox.ok("events").contains("metadata.json"), "{content:?}");
    }
}

/// A cluster that was installed elsewhere, whose metadata.json is broken.
const BROKEN_METADATA: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: hand-metadata-json, namespace: hand}
stringData: {metadata.json: "garbage"}
---
apiVersion: v1
kind: Secret
metadata: {name: vsphere, namespace: hand}
stringData: {username: admin@vsphere.local, password: CANARY-vsphere-password}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: hand, namespace: hand}
spec:
  clusterName: hand
  baseDomain: example.com
  installed: true
  clusterMetadata:
    infraID: hand-abcde
    clusterID: id-hand
    adminKubeconfigSecretRef: {name: hand-admin-kubeconfig}
    metadataJSONSecretRef: {name: hand-metadata-json}
  platform: {vsphere: {vCenter: vcenter.example.com, datacenter: lab, defaultDatastore: fast,
    credentialsSecretRef: {name: vsphere}, certificatesSecretRef: {name: vsphere}}}
  provisioning: {imageSetRef: {name: ocp}}
"#;

#[test]
fn what_nobody_can_destroy_is_said_to_a_person_who_can_have_it_forgotten() {
    let lab = Lab::new();
    apply(&lab.sandbox, BROKEN_METADATA);
    lab.sandbox.ok("delete cluster hand -n hand -y -q");
    let advice = "poolctl cluster forget hand -n hand --i-have-destroyed-it";
    lab.wait_until("explained", |lab| lab.sandbox.ok("why cluster/hand -n hand").contains(advice));
    let explanation = lab.sandbox.ok("why cluster/hand -n hand");
    assert!(explanation.contains("hand-abcde"), "which infrastructure: {explanation}");
    // It is not tried for ever, and not forgotten by mistake.
    assert_eq!(lab.count_in_ledger("begin destroy"), 0);
    lab.sandbox.refused(2, "cluster forget hand -n hand", "--i-have-destroyed-it");
    lab.sandbox.ok("cluster forget hand -n hand --i-have-destroyed-it -q");
    assert!(!lab.sandbox.ok("get cluster -A --no-headers").contains("hand"));
    assert!(lab.sandbox.ok("events -A").contains("Forgotten"));
}

#[test]
fn a_cluster_that_can_be_destroyed_is_not_forgotten() {
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until_installed();
    let forget = format!("cluster forget {} --i-have-destroyed-it", first_cluster(&lab));
    lab.sandbox.refused(4, &forget, "is not being deleted");
    lab.delete_clusters();
}
