//! Growing a cluster: hosts join an installed cluster, by its API and by an image. They are booted
//! by management controllers of a simulated rack, or by people.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;

use crate::machines::{reconcile_until, sandbox_on_real_clock};
use crate::rack::{Rack, condition, report, state_of};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::Server;

/// A cluster that poolctl did not install, and the InfraEnv that its hosts are booted from.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: pull}
stringData: {.dockerconfigjson: '{"auths": {"q": {"auth": "CANARY-pull-secret"}}}'}
---
apiVersion: v1
kind: Secret
metadata: {name: k}
stringData: {kubeconfig: "users: [{name: admin, user: {token: CANARY-token}}]"}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: c}
spec:
  clusterName: c
  baseDomain: example.com
  installed: true
  platform: {none: {}}
  pullSecretRef: {name: pull}
  clusterMetadata: {infraID: c-1, clusterID: d, adminKubeconfigSecretRef: {name: k}}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: rack}
spec: {pullSecretRef: {name: pull}}
"#;

/// The network of the machine n2.
const NETWORK: &str = r#"
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata: {name: n2}
spec:
  interfaces: [{name: eth0, macAddress: "52:54:00:aa:00:02"}]
  config:
    interfaces:
    - name: eth0
      type: ethernet
      state: up
      ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.62, prefix-length: 24}]}
"#;

const BOOTSTRAPPER: &str =
    "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";

/// Applies the objects, and puts a stand-in for oc into the folder of the lab.
fn set_up_cluster(lab: &Sandbox, origin: &str) {
    let oc = lab.write_script("oc", include_str!("stub/oc.sh"));
    fs::create_dir(lab.path().join("csr")).unwrap();
    let images = lab.path().join("images");
    let settings = format!(
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\nspec:\n  \
         programs: {{oc: {oc}}}\n  isoDirectory: {}\n  isoURL: {origin}/images\n",
        images.display()
    );
    apply(lab, &settings);
    apply(lab, OBJECTS);
}

/// Writes a node's request for a certificate. A request with names is for serving, one without is
/// for the node as a client.
fn write_certificate_request(lab: &Sandbox, file: &str, node: &str, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (usage, user) = if names.is_empty() {
        ("client auth", BOOTSTRAPPER.to_owned())
    } else {
        ("server auth", format!("system:node:{node}"))
    };
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let document = json!({"metadata": {"name": file}, "status": "STATUS", "spec": {
        "request": STANDARD.encode(pem), "username": user,
        "groups": ["system:nodes", "system:authenticated"],
        "usages": ["digital signature", usage]}});
    lab.write_file(&format!("csr/{file}.json"), &document.to_string());
}

/// What the stand-in for oc wrote to a file; empty if there is no such file.
fn read_file_of_lab(lab: &Sandbox, name: &str) -> String {
    fs::read_to_string(lab.path().join(name)).unwrap_or_default()
}

/// The host h1 reports its inventory, and a pass reads it.
fn report_host(lab: &Sandbox, inventory: &str) {
    lab.ok(&format!("agent report h1 --inventory {inventory} -q"));
    lab.ok("reconcile -q");
}

#[test]
fn a_machine_joins_and_nobody_else_gets_a_certificate() {
    let Some(rack) = Rack::start() else { return };
    let lab = sandbox_on_real_clock();
    let image_server = Server::of_folder(&lab.path().join("images"));
    set_up_cluster(&lab, &image_server.origin());
    apply(&lab, NETWORK);
    rack.add_to(&lab);
    lab.ok("agent discover n2 --infraenv rack -q");
    reconcile_until(&lab, "known", |lab| state_of(lab, "n2") == "known-unbound");
    lab.write_file("joins", "n2 192.0.2.62\n");
    for (file, node, names) in [
        ("n2-client", "n2", &[][..]),
        ("n2-serving", "n2", &["n2", "192.0.2.62"][..]),
        // It is from the right node, but would let that node serve as the API.
        ("n2-more", "n2", &["n2", "api.c.example.com"][..]),
        ("n3-client", "n3", &[][..]),
        ("m1-renewal", "m1", &["m1", "192.0.2.60"][..]),
    ] {
        write_certificate_request(&lab, file, node, names);
    }

    // While no image can be made, the condition of the host says why.
    lab.write_file("refuse", "release 4.16 has no node-joiner");
    lab.ok("agent bind n2 --cluster c -q");
    reconcile_until(&lab, "failed", |lab| state_of(lab, "n2") == "error");
    let message = condition(&lab, "n2", "Installed");
    assert!(message.contains("release 4.16 has no node-joiner"), "{message}");
    assert_eq!(jsonpath(&lab, "agent/n2", "{.status.joinFailures}"), "1");
    fs::remove_file(lab.path().join("refuse")).unwrap();
    lab.ok("agent unbind n2 -y -q");
    // The host is free once its controller has reported it off.
    reconcile_until(&lab, "free", |lab| {
        let info = jsonpath(lab, "agent/n2", "{.status.debugInfo.stateInfo}");
        info == "Host is ready to be bound to a cluster"
    });

    lab.ok("agent bind n2 --cluster c -q");
    reconcile_until(&lab, "joined", |lab| state_of(lab, "n2") == "added-to-existing-cluster");
    assert_eq!(read_file_of_lab(&lab, "approved"), "n2-client\nn2-serving\n");
    let config = poolctl::yaml::parse_value(&read_file_of_lab(&lab, "nodes-config.yaml")).unwrap();
    let hosts = config["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), hosts[0]["hostname"].as_str()), (1, Some("n2")));
    assert_eq!(hosts[0]["interfaces"][0]["macAddress"], "52:54:00:aa:00:02");
    let oc_calls = read_file_of_lab(&lab, "asked");
    assert!(oc_calls.contains("node-image monitor --ip-addresses 192.0.2.62"), "{oc_calls}");
    assert!(!oc_calls.contains("CANARY"), "{oc_calls}");
    // The host was booted from the image and runs; the image is ejected and deleted.
    let power_and_media = rack.emulator.describe_machine(2);
    assert!(
        power_and_media.starts_with("On ") && power_and_media.ends_with(" -"),
        "{power_and_media}"
    );
    assert_eq!(fs::read_dir(lab.path().join("images")).unwrap().count(), 0);
    let log = lab.shell("cat $HOME/jobs/*/log").out;
    assert!(!log.contains("CANARY"), "{log}");
    reconcile_until(&lab, "left on", |lab| jsonpath(lab, "host/n2", "{.spec.online}") == "true");
    assert!(condition(&lab, "n2", "Installed").starts_with("True InstallationCompleted"));
    lab.ok("doctor");
}

#[test]
fn a_host_without_a_controller_is_booted_by_people_and_may_leave_in_the_middle() {
    let lab = sandbox_on_real_clock();
    set_up_cluster(&lab, "http://192.0.2.1");
    lab.ok("agent register --infraenv rack --id h1 -q");
    let inventory = lab.write_file("report.json", &report("h1", "52:54:00:bb:00:01"));
    report_host(&lab, &inventory);
    lab.ok("agent bind h1 --cluster c -q");
    lab.ok("agent register --infraenv rack --id h1 -q");
    report_host(&lab, &inventory);
    assert_eq!(state_of(&lab, "h1"), "known");
    lab.ok("agent approve h1 -q");
    reconcile_until(&lab, "to be booted", |lab| {
        state_of(lab, "h1") == "installing-pending-user-action"
    });
    let info = jsonpath(&lab, "agent/h1", "{.status.debugInfo.stateInfo}");
    let image = info
        .strip_prefix("Host must be booted from the image of its cluster: ")
        .unwrap_or_default();
    assert_eq!(fs::read_to_string(image).unwrap(), "image\n", "{info}");
    lab.ok("agent unbind h1 -y -q");
    assert_eq!(state_of(&lab, "h1"), "unbinding-pending-user-action");
    let outcome = "{.items[?(@.spec.verb==\"add-nodes\")].status.outcome}";
    assert_eq!(jsonpath(&lab, "job", outcome), "cancelled");
    // The driver ends, and deletes the image.
    reconcile_until(&lab, "ended", |_| !fs::exists(image).unwrap());
    assert_eq!(read_file_of_lab(&lab, "approved"), "");
}

#[test]
fn without_oc_a_host_says_what_is_missing() {
    let lab = sandbox_on_real_clock();
    set_up_cluster(&lab, "http://192.0.2.1");
    fs::remove_file(lab.path().join("oc")).unwrap();
    lab.ok("agent register --infraenv rack --id h1 -q");
    let inventory = lab.write_file("report.json", &report("h1", "52:54:00:bb:00:01"));
    report_host(&lab, &inventory);
    lab.ok("agent bind h1 --cluster c -q");
    lab.ok("agent register --infraenv rack --id h1 -q");
    report_host(&lab, &inventory);
    lab.ok("agent approve h1 -q");
    reconcile_until(&lab, "failed", |lab| state_of(lab, "h1") == "error");
    let message = condition(&lab, "h1", "Installed");
    assert!(message.contains("adding hosts to a cluster needs oc adm node-image"), "{message}");
    assert!(jsonpath(&lab, "agent/h1", "{.status.joinAgainAt}").starts_with("20"), "{message}");
}
