//! Hubs of Hive whose clusters are no ordinary ones: asleep, half installed, or in use while they are
//! exported.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, apply, create_customization, jsonpath, power_of};

/// The objects of a hub: pool `lab` with a running and a hibernating cluster, and a claimed one.
const HUB: &str = include_str!("cases/hive_hub.yaml");

/// Imports the objects of a hub.
fn import_hub(sandbox: &Sandbox, hub: &str) {
    sandbox.ok(&format!("import {}", sandbox.write_file("hub.yaml", hub)));
}

/// The file of an export for another program that has all objects of a kind.
fn exported_file(folder: &Path, kind: &str) -> String {
    let ending = format!("-{kind}.yaml");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.display().to_string().ends_with(&ending) {
            return std::fs::read_to_string(path).unwrap();
        }
    }
    panic!("no file of {kind} in {}", folder.display());
}

fn claim_manifest(name: &str) -> String {
    format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterClaim\n\
         metadata: {{name: {name}, namespace: pools}}\nspec: {{clusterPoolName: lab}}\n"
    )
}

#[test]
fn a_cluster_of_a_hub_that_hibernates_is_not_served_as_running() {
    let sandbox = Sandbox::new();
    // The pool makes no clusters beside those that it has.
    let hub = HUB.replace("maxConcurrent: 2", "maxConcurrent: 0");
    let file = sandbox.write_file("hub.yaml", &hub);
    let checked = sandbox.ok(&format!("import {file} --check"));
    let sentence = "cluster lab-bbbbb hibernates and serves no claim";
    assert!(checked.contains(sentence), "{checked}");
    assert!(!checked.contains("cluster lab-aaaaa hibernates"), "{checked}");
    import_hub(&sandbox, &hub);
    // The counts are right before any pass.
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.claimed} {.status.ready}"), "1 1");
    sandbox.ok("reconcile -q");
    assert_eq!(power_of(&sandbox, "lab-bbbbb"), "Hibernating");
    for claim in ["a", "b"] {
        apply(&sandbox, &claim_manifest(claim));
    }
    sandbox.ok("reconcile -q");
    assert_eq!(jsonpath(&sandbox, "claim/a", "{.spec.namespace}"), "lab-aaaaa");
    assert_eq!(jsonpath(&sandbox, "claim/b", "{.spec.namespace}"), "");
    assert_eq!(power_of(&sandbox, "lab-bbbbb"), "Hibernating");
    assert_eq!(jsonpath(&sandbox, "cluster/lab-bbbbb", "{.spec.powerState}"), "Hibernating");
}

#[test]
fn a_check_names_the_installations_that_an_import_interrupts() {
    let sandbox = Sandbox::new();
    let hub = HUB.replacen(
        "    installAttemptsLimit: 1\n    installed: true",
        "    installAttemptsLimit: 1\n    installed: false",
        1,
    );
    assert_ne!(hub, HUB);
    let hub = hub.replacen("    installedTimestamp: '2026-02-01T06:41:00Z'\n", "", 1);
    let file = sandbox.write_file("hub.yaml", &hub);
    let checked = sandbox.ok(&format!("import {file} --check"));
    for line in
        ["first pass destroys no cluster", "first pass interrupts 1 installation: lab-aaaaa"]
    {
        assert!(checked.contains(line), "{line}: {checked}");
    }
    let used_up = hub.replacen(
        "    installStartedTimestamp: '2026-02-01",
        "    installRestarts: 1\n    installStartedTimestamp: '2026-02-01",
        1,
    );
    let file = sandbox.write_file("used-up.yaml", &used_up);
    let check: Value =
        serde_json::from_str(&sandbox.ok(&format!("import {file} --check -o json"))).unwrap();
    assert_eq!(check["interrupted"][0], "lab-aaaaa", "{check}");
    assert_eq!(check["givenUp"][0], "lab-aaaaa", "{check}");
}

#[test]
fn hive_is_given_no_name_that_a_cluster_here_still_has() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "slot", "slot");
    sandbox.ok("pool create lab --fake --size 1 --customization slot");
    sandbox.create_ready_pool("other", 1);
    sandbox.ok("claim other ci");
    // The clusters above are installed by now; this one is not.
    create_customization(&sandbox, "new-slot", "new-slot");
    sandbox.ok("pool create late --fake --size 1 --customization new-slot");
    let folder = sandbox.path().join("hive");
    let ran = sandbox.run(&format!("export {} --for hive", folder.display()));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let paused = "pool late is paused in the files: clusters that stay here have new-slot (cluster";
    assert!(ran.err.contains(paused), "{}", ran.err);
    assert!(!ran.err.contains("pool lab is paused"), "{}", ran.err);
    let pools = exported_file(&folder, "clusterpool");
    assert_eq!(pools.matches("reconcile-pause").count(), 1, "{pools}");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("- pool late in namespace default: new-slot (cluster"), "{readme}");
    // The label of clusters of claims is taken off these, and off no others.
    let script = std::fs::read_to_string(folder.join("apply.sh")).unwrap();
    let cluster = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    let label = "hive.openshift.io/disable-creation-webhook-for-dr-";
    let line = format!("oc label clusterdeployment -n {cluster} {cluster} {label}\n");
    assert!(script.contains(&line), "{script}");
    assert_eq!(script.matches("oc label").count(), 1, "{script}");
}

/// Secrets of the platform that the hub runs on, as `oc get secret -A` prints them, and one that a
/// person has written down.
const OTHER_SECRETS: &str = "- apiVersion: v1
  kind: Secret
  metadata: {name: pull-secret, namespace: openshift-config, resourceVersion: '3'}
  data: {a: YQ==}
- apiVersion: v1
  kind: Secret
  metadata: {name: etcd-all-certs, namespace: openshift-etcd, resourceVersion: '4'}
  data: {a: YQ==}
- apiVersion: v1
  kind: Secret
  metadata: {name: extra, namespace: lab-aaaaa, resourceVersion: '5'}
  data: {a: YQ==}
- apiVersion: v1
  kind: Secret
  metadata: {name: by-hand, namespace: elsewhere}
  data: {a: YQ==}
";

#[test]
fn a_dump_of_oc_is_not_said_to_be_an_export_of_poolctl() {
    let sandbox = Sandbox::new();
    let empty_secret = "- apiVersion: v1
  kind: Secret
  metadata: {name: nothing, namespace: pools, resourceVersion: '6'}
";
    let hub = format!("{HUB}{empty_secret}");
    let ran = sandbox.run(&format!("import {}", sandbox.write_file("hub.yaml", &hub)));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("the file has 1 secret without any value"), "{}", ran.err);
    assert!(!ran.err.contains("--include-secrets"), "{}", ran.err);
}

#[test]
fn secrets_of_the_platform_of_a_hub_are_left_out() {
    let sandbox = Sandbox::new();
    let hub = format!("{HUB}{OTHER_SECRETS}");
    let ran = sandbox.run(&format!("import {}", sandbox.write_file("hub.yaml", &hub)));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let sentence = "2 secrets left out, which nothing in the file needs; \
                    namespaces: openshift-config, openshift-etcd";
    assert!(ran.err.contains(sentence), "{}", ran.err);
    let secrets = sandbox.ok("get secret -A -o 'jsonpath={.items[*].metadata.name}'");
    for name in ["aws-creds", "pull", "extra", "by-hand"] {
        assert!(secrets.split(' ').any(|secret| secret == name), "{name}: {secrets}");
    }
    assert!(!secrets.contains("etcd-all-certs"), "{secrets}");
}

/// A pool with a reserved range, and two claims that differ by capitals only.
const ADDRESSES: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: pool-1, annotations: {poolctl.dev/reserved: 192.168.0.14-192.168.0.15}}
spec: {pools: [{start: 192.168.0.10, end: 192.168.0.30}], prefix: 24}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: DB}
spec: {pool: {name: pool-1}}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: db}
spec: {pool: {name: pool-1}}
";

#[test]
fn metal3_leases_no_reserved_address_and_claims_keep_their_names() {
    let sandbox = Sandbox::new();
    apply(&sandbox, ADDRESSES);
    let folder = sandbox.path().join("metal3");
    sandbox.ok(&format!("export {} --for metal3", folder.display()));
    let list = poolctl::yaml::parse_value(&exported_file(&folder, "ippool")).unwrap();
    let pools = &list["items"][0]["spec"]["pools"];
    let ranges = [("192.168.0.10", "192.168.0.13"), ("192.168.0.16", "192.168.0.30")];
    assert_eq!(pools.as_array().unwrap().len(), ranges.len(), "{pools}");
    for (range, (start, end)) in pools.as_array().unwrap().iter().zip(ranges) {
        assert_eq!((range["start"].as_str(), range["end"].as_str()), (Some(start), Some(end)));
    }
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("DB: db-2\n"), "{readme}");
    assert!(!readme.contains("/db: "), "{readme}");
    let other = sandbox.path().join("other").display().to_string();
    sandbox.refused(2, &format!("export {other} --for metal3 --like x"), "--for hive only");
    sandbox.refused(2, &format!("export {other} --for hive -n nosuch"), "leave out -n");
}

#[test]
fn what_a_hub_reported_of_a_cluster_stays_and_goes_back() {
    let sandbox = Sandbox::new();
    let version = "    installVersion: 4.18.1\n";
    let private_link = "    platformStatus: {aws: {privateLink: {hostedZoneID: Z1}}}\n";
    let hub = HUB.replacen(version, &format!("{version}{private_link}"), 1);
    assert_ne!(hub, HUB);
    import_hub(&sandbox, &hub);
    sandbox.ok("label cluster lab-aaaaa -n pools team=ci");
    let folder = sandbox.path().join("hive");
    sandbox.ok(&format!("export {} --for hive", folder.display()));
    let list = poolctl::yaml::parse_value(&exported_file(&folder, "clusterdeployment")).unwrap();
    let reported = &list["items"][0]["status"];
    for (field, value) in [
        ("/apiURL", "https://api.x:6443"),
        ("/webConsoleURL", "https://console"),
        ("/cliImage", "quay.io/cli"),
        ("/installerImage", "quay.io/i"),
        ("/installVersion", "4.18.1"),
        ("/platformStatus/aws/privateLink/hostedZoneID", "Z1"),
    ] {
        let found = reported.pointer(field).and_then(Value::as_str);
        assert_eq!(found, Some(value), "{field}: {reported}");
    }
    // It names an object that does not move.
    assert!(reported.get("provisionRef").is_none(), "{reported}");
}

/// A customization that gives two addresses to its cluster, of which an IPPool leases one.
const FIXED_ADDRESSES: &str = "- apiVersion: hive.openshift.io/v1
  kind: ClusterDeploymentCustomization
  metadata: {name: slot, namespace: pools}
  spec:
    installConfigPatches:
    - {op: add, path: /platform/vsphere/apiVIPs, valueJSON: '[\"192.0.2.20\"]'}
    - {op: add, path: /platform/vsphere/ingressVIPs, valueJSON: '[\"192.0.2.21\"]'}
- apiVersion: ipam.metal3.io/v1alpha1
  kind: IPPool
  metadata:
    name: vips
    namespace: pools
    annotations: {poolctl.dev/reserved: 192.0.2.21-192.0.2.22}
  spec: {pools: [{start: 192.0.2.10, end: 192.0.2.30}], prefix: 24}
";

#[test]
fn addresses_of_customizations_that_an_ip_pool_may_lease_are_named() {
    let sandbox = Sandbox::new();
    let file = sandbox.write_file("hub.yaml", &format!("{HUB}{FIXED_ADDRESSES}"));
    let checked = sandbox.run(&format!("import {file} --check"));
    let sentence = "to clusters: 192.0.2.20 (slot); keep each from that before the first pass: \
                    `poolctl ip reserve vips 192.0.2.20 -n pools`";
    assert!(checked.err.contains(sentence), "{}", checked.err);
    sandbox.ok(&format!("import {file}"));
    sandbox.ok("ip reserve vips 192.0.2.20 -n pools");
    let exported = sandbox.ok("export");
    let file = sandbox.write_file("reserved.yaml", &exported);
    let checked = sandbox.run(&format!("import {file} --check"));
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(!checked.err.contains("192.0.2.20"), "{}", checked.err);
}

#[test]
fn pools_whose_clusters_a_hive_cannot_make_are_paused_for_it() {
    let sandbox = Sandbox::new();
    for (pool, annotations) in [
        ("leased", "{hive.openshift.io/fake-cluster: 'true', poolctl.dev/vips-from: vips}"),
        ("extended", "{hive.openshift.io/fake-cluster: 'true', poolctl.dev/manifests: extra}"),
        ("own", "{poolctl.dev/driver: 'exec:mine'}"),
        ("simulated", "{poolctl.dev/driver: fake}"),
    ] {
        let manifest = format!(
            "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: {pool}}}\n\
             spec: {{size: 0, baseDomain: x, imageSetRef: {{name: simulated}}, \
             platform: {{none: {{}}}}, annotations: {annotations}}}\n"
        );
        apply(&sandbox, &manifest);
    }
    let folder = sandbox.path().join("hive");
    let ran = sandbox.run(&format!("export {} --for hive", folder.display()));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let list = poolctl::yaml::parse_value(&exported_file(&folder, "clusterpool")).unwrap();
    for pool in list["items"].as_array().unwrap() {
        let name = pool["metadata"]["name"].as_str().unwrap();
        let pause = &pool["metadata"]["annotations"]["hive.openshift.io/reconcile-pause"];
        assert_eq!(*pause == "true", name != "simulated", "{pool}");
        // Hive would really install a cluster that poolctl only simulates.
        let is_fake = &pool["spec"]["annotations"]["hive.openshift.io/fake-cluster"];
        assert_eq!(*is_fake == "true", name != "own", "{pool}");
    }
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for (pool, why) in [
        ("leased", "leases the addresses"),
        ("extended", "adds manifests"),
        ("own", "a driver of your own"),
    ] {
        assert!(ran.err.contains(&format!("pool {pool} is paused in the files: ")), "{}", ran.err);
        assert!(readme.contains(why), "{readme}");
    }
}

/// Hosts as metal3 keeps them: one with an image on its disk, a free one, and one that booted a live
/// image for a cluster of its Agent.
const HOSTS: &str = "apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: disk, namespace: default, finalizers: [baremetalhost.metal3.io]}
spec:
  online: true
  bootMACAddress: '02:00:00:00:00:02'
  image: {url: 'https://d', checksum: abc, format: qcow2}
status: {provisioning: {state: provisioned, ID: u, image: {url: 'https://d', checksum: abc, format: qcow2}}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: free, namespace: default, finalizers: [baremetalhost.metal3.io]}
spec: {online: false, bootMACAddress: '02:00:00:00:00:03'}
status: {provisioning: {state: available, ID: v, image: {url: ''}}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: node, namespace: default, finalizers: [baremetalhost.metal3.io]}
spec: {online: true, bootMACAddress: '02:00:00:00:00:01', image: {url: 'https://i', format: live-iso}}
status: {provisioning: {state: provisioned, ID: w, image: {url: 'https://i', format: live-iso}}}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: Agent
metadata:
  name: node
  namespace: default
  labels: {infraenvs.agent-install.openshift.io: rack, agent-install.openshift.io/bmh: node}
spec: {approved: true, clusterDeploymentName: {name: edge, namespace: default}}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: edge, namespace: default}
spec:
  baseDomain: x
  clusterName: edge
  installed: true
  platform: {agentBareMetal: {agentSelector: {}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3DataTemplate
metadata:
  name: nodes
  namespace: default
  finalizers: [metal3datatemplate.infrastructure.cluster.x-k8s.io]
spec: {clusterName: lab}
";

#[test]
fn no_image_of_a_host_of_metal3_is_ejected_and_no_host_of_a_cluster_is_booted() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("import {}", sandbox.write_file("hosts.yaml", HOSTS)));
    // poolctl ejects what is attached and not wanted.
    let images = "get host -o 'jsonpath={.items[*].status.provisioning.image.url}'";
    assert_eq!(sandbox.ok(images), "https://i");
    let folder = sandbox.path().join("metal3");
    sandbox.ok(&format!("export {} --for metal3", folder.display()));
    let list = poolctl::yaml::parse_value(&exported_file(&folder, "baremetalhost")).unwrap();
    for host in list["items"].as_array().unwrap() {
        let is_of_cluster = host["metadata"]["name"] == "node";
        assert_eq!(host["spec"]["externallyProvisioned"] == true, is_of_cluster, "{host}");
    }
    // metal3 does not run here to take its finalizers away.
    for object in ["host free", "datatemplate nodes"] {
        sandbox.ok(&format!("delete {object} -y"));
        sandbox.refused(3, &format!("get {object}"), "there is no");
    }
}

#[test]
fn labels_and_free_customizations_are_the_same_after_the_way_to_hive_and_back() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "slot", "slot");
    create_customization(&sandbox, "spare", "spare");
    sandbox.ok("pool create lab --fake --size 1 --customization slot --customization spare");
    sandbox.create_ready_pool("other", 1);
    sandbox.ok("claim other ci");
    let folder = sandbox.path().join("hive").display().to_string();
    sandbox.ok(&format!("export {folder} --for hive --include-secrets"));
    let back = sandbox.path().join("back.db").display().to_string();
    sandbox.ok(&format!("--state {back} import {folder}"));
    let claimed = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    for (objects, path) in [
        (format!("cluster/{claimed}"), "{.metadata.labels}"),
        ("cdc/spare".to_owned(), "{.status.conditions[*].reason}"),
    ] {
        let get = format!("get {objects} -A -o 'jsonpath={path}'");
        let before = sandbox.ok(&get);
        assert!(!before.is_empty(), "{objects}");
        assert_eq!(sandbox.ok(&format!("--state {back} {get}")), before);
    }
}
