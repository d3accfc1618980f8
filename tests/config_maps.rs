//! ConfigMaps: files that are no secret. Clusters take manifests and variables of the installer from
//! them, as they do from Secrets.

use serde_json::{Value, json};

use crate::admission::BY_HAND;
use crate::lab::{Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{Sandbox, apply, in_one_line, jsonpath, move_state};

#[test]
fn a_cluster_takes_manifests_and_variables_from_config_maps() {
    let lab = Lab::new();
    std::fs::write(lab.bin("version"), "4.17.1").unwrap();
    let mut manifest = BY_HAND.to_owned();
    for (from_secret, from_config_map) in [
        ("manifestsSecretRef: {name: manifests}", "manifestsConfigMapRef: {name: files}"),
        ("secretKeyRef: {name: s,", "configMapKeyRef: {name: files,"),
        (
            "metadata: {name: hand, namespace: hand}",
            "metadata: {name: hand, namespace: hand, annotations: {poolctl.dev/manifests: more}}",
        ),
    ] {
        assert!(manifest.contains(from_secret), "{from_secret}");
        manifest = manifest.replace(from_secret, from_config_map);
    }
    let path = lab.sandbox.write_file("hand.yaml", &manifest);
    let warnings = in_one_line(&lab.sandbox.run(&format!("apply -f {path}")).err);
    for name in ["files", "more"] {
        let warning = format!("there is no ConfigMap `{name}`; next: poolctl create configmap");
        assert!(warnings.contains(&warning), "{warnings}");
    }
    assert!(!warnings.contains("no effect"), "{warnings}");
    lab.wait_until("failed", |lab| {
        lab.sandbox.ok("get cluster -A --no-headers").contains("Retrying")
    });
    let why = lab.sandbox.ok("why cluster/hand -n hand");
    assert!(why.contains("`files`"), "{why}");
    let more = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: hand}\n";
    apply(
        &lab.sandbox,
        &format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: files, namespace: hand}}\n\
             data: {{98-text.yaml: 'kind: Text', variable: from-a-config-map}}\n\
             binaryData: {{97-binary.yaml: a2luZDogQmluYXJ5}}\n---\n{more}"
        ),
    );
    lab.sandbox.ok("cluster retry hand -n hand -q");
    lab.wait_until("failed for a ConfigMap without files", |lab| {
        lab.sandbox.ok("why cluster/hand -n hand").contains("`more`")
    });
    apply(&lab.sandbox, &format!("{more}data: {{99-more.yaml: 'kind: More'}}\n"));
    lab.sandbox.ok("cluster retry hand -n hand -q");
    lab.wait_until("installed", |lab| {
        lab.sandbox.ok("get cluster -A --no-headers").contains("Installed")
    });
    let ledger = lab.ledger();
    for line in [
        "manifest 97-binary.yaml",
        "manifest 98-text.yaml",
        "manifest 99-more.yaml",
        "given OPENSHIFT_INSTALL_X=from-a-config-map",
    ] {
        assert!(ledger.iter().any(|deed| deed == line), "{line}: {ledger:?}");
    }
}

#[test]
fn a_pool_waits_for_the_manifests_of_its_clusters() {
    let lab = Lab::new();
    let more = format!("{TEMPLATED}  annotations: {{poolctl.dev/manifests: extra}}\n");
    apply(&lab.sandbox, &pool("lab", VSPHERE, &more));
    assert_eq!(lab.pool_condition("MissingDependencies").split(' ').next(), Some("True"));
    assert_eq!(lab.phase(), "");
    let file = lab.sandbox.write_file("99-extra.yaml", "kind: Extra\n");
    lab.sandbox.ok(&format!("create configmap extra --from-file={file}"));
    assert_eq!(lab.pool_condition("MissingDependencies").split(' ').next(), Some("False"));
    lab.wait_until_installed();
    assert!(lab.ledger().contains(&"manifest 99-extra.yaml".to_owned()), "{:?}", lab.ledger());
    let description = lab.sandbox.ok("describe pool lab");
    assert!(description.contains("configmap/extra"), "{description}");
}

#[test]
fn a_config_map_moves_with_its_state_and_to_a_hive() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("create configmap files --from-literal=a.yaml=b");
    sandbox.refused(4, "create configmap files --from-literal=a=b", "files");
    let folder = sandbox.path().join("hive");
    sandbox.ok(&format!("export {} --for hive", folder.display()));
    let mut exported = String::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        exported += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    assert!(exported.contains("a.yaml: b"), "{exported}");
    move_state(&mut sandbox, |_| {});
    assert_eq!(jsonpath(&sandbox, "configmap/files", "{.data.a\\.yaml}"), "b");
    sandbox.ok("delete cm files");
    assert_eq!(sandbox.ok("get configmap -o name"), "");
}

#[test]
fn what_kubernetes_refuses_of_a_config_map_is_refused() {
    let sandbox = Sandbox::new();
    for (part, problem) in [
        ("data: {a/b: c}", "`a/b` cannot be a key"),
        ("{data: {a: c}, binaryData: {a: Yg==}}", "`a` is both in data and in binaryData"),
        ("binaryData: {a: '*'}", "binaryData.a is not base64"),
    ] {
        let mut document: Value = poolctl::yaml::parse_value(part).unwrap();
        document["apiVersion"] = "v1".into();
        document["kind"] = "ConfigMap".into();
        document["metadata"] = json!({"name": "files"});
        let file = sandbox.write_file("files.json", &document.to_string());
        sandbox.refused(1, &format!("apply -f {file}"), problem);
    }
}

#[test]
fn a_config_map_is_created_of_the_files_of_a_folder() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("extra");
    std::fs::create_dir_all(folder.join("below")).unwrap();
    for (name, text) in [("1.yaml", "one"), ("2.yaml", "two"), ("below/3.yaml", "three")] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("no key"), "four").unwrap();
    sandbox.ok(&format!("create configmap files --from-file={} -q", folder.display()));
    let files = sandbox.ok("get configmap files -o json");
    let document: Value = serde_json::from_str(&files).unwrap();
    assert_eq!(document["data"], json!({"1.yaml": "one", "2.yaml": "two"}));
    let refused = sandbox.refused(2, "create cm x --from-literal=a/b=c", "`a/b` cannot be a key");
    assert!(!refused.contains("--from-file"), "{refused}");
}

/// What `oc get configmap -A` prints of a hub: one that a cluster names, and one of the platform.
const DUMP: &str = "apiVersion: v1
kind: List
items:
- apiVersion: hive.openshift.io/v1
  kind: ClusterDeployment
  metadata: {name: edge, namespace: edge}
  spec:
    clusterName: edge
    baseDomain: example.com
    installed: true
    platform: {none: {}}
    provisioning: {manifestsConfigMapRef: {name: files}, imageSetRef: {name: ocp}}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: files, namespace: edge, resourceVersion: '1'}
  data: {99-extra.yaml: 'kind: Extra'}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: kube-root-ca.crt, namespace: edge, resourceVersion: '2'}
  data: {ca.crt: a}
";

#[test]
fn config_maps_of_the_platform_of_a_hub_are_left_out() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&format!("import {}", sandbox.write_file("hub.yaml", DUMP)));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let sentence = "1 configmap left out, which nothing in the file needs; namespaces: edge";
    assert!(in_one_line(&ran.err).contains(sentence), "{}", ran.err);
    assert_eq!(sandbox.ok("get configmap -A -o name"), "configmap/files\n");
}
