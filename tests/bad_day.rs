//! The lab's bad day: the platform goes away, has no room, refuses what it is asked for, or what it
//! makes does not come up. Nothing is used up that is not to blame, nothing is left behind, the
//! first cause stays, and what a person needs to find it is kept.

use crate::lab::{Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{Sandbox, apply, create_customization, in_one_line, jsonpath};

const OPENSTACK: &str = "{openstack: {cloud: lab, credentialsSecretRef: {name: openstack}}}";

/// A lab in this condition, with a pool of one cluster that has a customization.
fn lab_with_inventory(conditions: &str) -> Lab {
    let lab = Lab::new();
    lab.set_cloud(conditions);
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab
}

fn attempts_left(lab: &Lab) -> String {
    jsonpath(&lab.sandbox, "pool/lab", "{.status.inventory.foo.attempts}")
}

/// The name of the first cluster.
fn first_cluster(lab: &Lab) -> String {
    jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}")
}

fn retry_first_cluster(lab: &Lab) {
    lab.sandbox.ok(&format!("cluster retry {} -q", first_cluster(lab)));
}

/// Waits until the pool is degraded for this reason, and returns the message.
fn wait_until_degraded(lab: &Lab, reason: &str) -> String {
    lab.wait_until(&format!("degraded: {reason}"), |lab| {
        lab.pool_condition("Degraded") == format!("True {reason}")
    });
    jsonpath(&lab.sandbox, "pool/lab", "{.status.conditions[?(@.type==\"Degraded\")].message}")
}

/// Expects that people find a cause in the events and explanations of the pool and of its cluster.
fn assert_cause_is_shown(lab: &Lab, cause: &str) {
    let cluster = format!("cluster/{}", first_cluster(lab));
    for command in [
        "status".to_owned(),
        "why pool/lab".to_owned(),
        format!("why {cluster}"),
        "events pool/lab".to_owned(),
        format!("events {cluster}"),
    ] {
        let output = in_one_line(&lab.sandbox.ok(&command));
        assert!(output.contains(cause), "{command}: {output}");
    }
}

/// Mends the lab, tries again at once, and expects that nothing is lost.
fn assert_heals(lab: &Lab) {
    lab.set_cloud("");
    retry_first_cluster(lab);
    lab.wait_until_installed();
    assert_eq!(lab.pool_condition("Degraded").split(' ').next(), Some("False"));
    assert_eq!(attempts_left(lab), "3");
    lab.delete_clusters();
}

#[test]
fn a_platform_that_is_away_is_called_so_whatever_its_silence_looks_like() {
    for (conditions, cause) in [
        ("away: refused", "connection refused"),
        ("away: timeout", "i/o timeout"),
        ("away: unavailable", "503"),
        ("away: unknown", "no such host"),
    ] {
        let lab = lab_with_inventory(conditions);
        let message = wait_until_degraded(&lab, "CloudAway");
        assert!(message.contains(cause), "{message}");
        assert_eq!((lab.phase().as_str(), attempts_left(&lab).as_str()), ("Retrying", "3"));
        assert_cause_is_shown(&lab, cause);
        assert!(lab.sandbox.status().contains('!'), "{}", lab.sandbox.status());
        assert_heals(&lab);
    }
}

#[test]
fn a_platform_that_goes_away_while_machines_are_made_uses_up_no_attempt() {
    let lab = lab_with_inventory("away at create-cluster: refused");
    wait_until_degraded(&lab, "CloudAway");
    assert_eq!((lab.phase().as_str(), attempts_left(&lab).as_str()), ("Retrying", "3"));
    lab.wait_until("cleaned", |lab| lab.infrastructure().is_empty());
    assert_heals(&lab);
}

#[test]
fn what_cannot_be_destroyed_while_the_platform_is_away_is_destroyed_afterwards() {
    let lab = lab_with_inventory("");
    lab.wait_until_installed();
    lab.set_cloud("away: timeout");
    lab.sandbox.ok("pool scale lab --size 0 -q");
    lab.wait_until("tried", |lab| lab.count_in_ledger("begin destroy") > 0);
    let message = wait_until_degraded(&lab, "CloudAway");
    assert!(message.contains("i/o timeout"), "{message}");
    lab.set_cloud("");
    retry_first_cluster(&lab);
    lab.delete_clusters();
}

#[test]
fn an_input_that_is_refused_twice_breaks_its_customization_by_configuration() {
    let lab = lab_with_inventory("network: another");
    wait_until_degraded(&lab, "InputWrong");
    retry_first_cluster(&lab);
    let status = "{.status.inventory.foo.status}";
    lab.wait_until("broken", |lab| {
        jsonpath(&lab.sandbox, "pool/lab", status) == "Broken by configuration"
    });
    let message = jsonpath(&lab.sandbox, "pool/lab", "{.status.inventory.foo.message}");
    assert!(message.contains("unable to find network provided"), "{message}");
    assert_eq!((attempts_left(&lab).as_str(), lab.infrastructure().len()), ("3", 0));
    // Correcting the customization heals it.
    let patch = "{op: add, path: /platform/vsphere/network, value: another}";
    let customization = format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\n\
         metadata: {{name: foo}}\nspec: {{installConfigPatches: [{patch}]}}\n"
    );
    apply(&lab.sandbox, &customization);
    lab.wait_until_installed();
    lab.delete_clusters();
}

#[test]
fn a_quota_is_the_first_cause_and_is_never_replaced_by_its_symptoms() {
    let lab = lab_with_inventory("quota: cores");
    let message = wait_until_degraded(&lab, "Capacity");
    let cause = "Quota exceeded for cores";
    assert!(message.contains(cause) && !message.contains("no such host"), "{message}");
    // Who waits for an installation whose bootstrap did not complete waits for nothing.
    assert_eq!(lab.count_in_ledger("begin wait-for"), 0, "{:?}", lab.ledger());
    assert_cause_is_shown(&lab, cause);
    assert!(lab.sandbox.ok(&format!("cluster logs {}", first_cluster(&lab))).contains(cause));
    let classes = jsonpath(&lab.sandbox, "job", "{.items[*].status.class}");
    assert!(classes.contains("Capacity"), "{classes}");
    let reason = "{.items[0].status.conditions[?(@.type==\"ProvisionFailed\")].reason}";
    assert_eq!(jsonpath(&lab.sandbox, "cluster", reason), "Capacity");
    assert_eq!((lab.phase().as_str(), attempts_left(&lab).as_str()), ("Retrying", "3"));
    assert_heals(&lab);
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
    retry_first_cluster(&lab);
    lab.wait_until_installed();
    lab.delete_clusters();
}

#[test]
fn an_authority_that_is_not_trusted_is_missing_setup_and_uses_up_nothing() {
    let lab = lab_with_inventory("authority: LAB-AUTHORITY");
    let message = wait_until_degraded(&lab, "SetupMissing");
    let cause = "certificate signed by unknown authority";
    assert!(message.contains(cause), "{message}");
    assert_eq!((lab.phase().as_str(), attempts_left(&lab).as_str()), ("Retrying", "3"));
    assert_cause_is_shown(&lab, cause);
    // Whoever adds the authority need do nothing else.
    apply(
        &lab.sandbox,
        "apiVersion: v1\nkind: Secret\nmetadata: {name: vsphere}\nstringData:\n  \
         username: admin@vsphere.local\n  password: CANARY-vsphere-password\n  \
         .cacert: |\n    -----BEGIN CERTIFICATE-----\n    LAB-AUTHORITY\n    \
         -----END CERTIFICATE-----\n",
    );
    lab.wait_until_installed();
    assert_eq!(lab.pool_condition("Degraded").split(' ').next(), Some("False"));
    assert_eq!(attempts_left(&lab), "3");
    lab.delete_clusters();
}

#[test]
fn a_pool_without_the_value_of_a_variable_leases_nothing() {
    let lab = Lab::new();
    let variable = "{name: OPENSHIFT_INSTALL_X, valueFrom: {secretKeyRef: {name: later, key: x}}}";
    let more = format!("{TEMPLATED}  installerEnv: [{variable}]\n");
    apply(&lab.sandbox, &pool("lab", VSPHERE, &more));
    assert_eq!(lab.pool_condition("MissingDependencies").split(' ').next(), Some("True"));
    assert_eq!(lab.phase(), "");
    let explanation = in_one_line(&lab.sandbox.ok("why pool/lab"));
    assert!(explanation.contains("OPENSHIFT_INSTALL_X"), "{explanation}");
    apply(
        &lab.sandbox,
        "apiVersion: v1\nkind: Secret\nmetadata: {name: later}\nstringData: {x: from-a-secret}\n",
    );
    lab.wait_until_installed();
    lab.delete_clusters();
}

#[test]
fn a_failure_of_what_was_corrected_meanwhile_pauses_nothing() {
    let lab = Lab::new();
    lab.set_cloud("network: another");
    lab.set_behaviour("create-manifests: sleep 4000");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until("begun", |lab| lab.count_in_ledger("begin create-manifests") > 0);
    lab.set_behaviour("");
    let platform = "{vCenter: vcenter.example.com, datacenter: lab, network: another}";
    apply(
        &lab.sandbox,
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: template}}\nstringData:\n  \
             install-config.yaml: |\n    {{apiVersion: v1, metadata: {{name: x}},\n     \
             platform: {{vsphere: {platform}}}}}\n"
        ),
    );
    lab.wait_until_installed();
    let events = lab.sandbox.ok("events");
    assert!(events.contains("unable to find network provided"), "{events}");
    assert!(!events.contains("InstallationsPaused"), "{events}");
    assert_eq!(attempts_left(&lab), "3");
    lab.delete_clusters();
}

#[test]
fn credentials_that_are_not_whole_are_missing_setup_and_use_up_nothing() {
    let lab = Lab::new();
    apply(
        &lab.sandbox,
        "apiVersion: v1\nkind: Secret\nmetadata: {name: cloud}\nstringData: {vcenters: 'garbage: ['}\n",
    );
    let credentials = "credentialsSecretRef: {name: cloud}";
    let platform = VSPHERE.replace("credentialsSecretRef: {name: vsphere}", credentials);
    apply(&lab.sandbox, &pool("lab", &platform, TEMPLATED));
    let message = wait_until_degraded(&lab, "SetupMissing");
    assert!(message.contains("key `vcenters` is no list"), "{message}");
    assert_eq!(lab.count_in_ledger("begin create-manifests"), 0, "{:?}", lab.ledger());
    assert_eq!(attempts_left(&lab), "3");
}

#[test]
fn operators_that_are_late_are_waited_for_and_those_that_never_come_are_the_cause() {
    let lab = lab_with_inventory("operators: late");
    lab.wait_until_installed();
    assert_eq!(lab.count_in_ledger("begin wait-for"), 1);
    lab.delete_clusters();
    let lab = Lab::new();
    lab.set_cloud("operators: never");
    apply(&lab.sandbox, &pool("lab", OPENSTACK, "  installAttemptsLimit: 1\n"));
    let message = wait_until_degraded(&lab, "OperatorsNotReady");
    assert!(message.contains("authentication, console are not available"), "{message}");
    lab.set_cloud("");
    lab.sandbox.ok("pool scale lab --size 0 -q");
    lab.delete_clusters();
}

#[test]
fn every_customization_is_reset_at_once() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        create_customization(&sandbox, name, name);
    }
    sandbox.ok("pool create lab --fake --size 2 --customization a --customization b");
    sandbox.ok("customization reset --all -q");
    let attempts = jsonpath(&sandbox, "pool/lab", "{.status.inventory[*].attempts}");
    assert_eq!(attempts, "3 3");
    sandbox.refused(2, "customization reset a --all", "--all");
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
    let lab = lab_with_inventory("");
    lab.wait_until_installed();
    let forget = format!("cluster forget {} --i-have-destroyed-it", first_cluster(&lab));
    lab.sandbox.refused(4, &forget, "is not being deleted");
    lab.delete_clusters();
}
