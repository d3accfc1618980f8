//! The doors to a Hive on Kubernetes: its own versions of pools, dumps of its objects that are
//! imported, and files that are exported for it.

use poolctl::model::pool::ClusterPool;
use poolctl::render::hive_version::{hive_version, is_hive_version};
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A pool with this spec; what the spec leaves out is what the tests of Hive have.
fn pool(mut spec: Value) -> ClusterPool {
    for (name, value) in [
        ("size", json!(1)),
        ("baseDomain", json!("test-domain")),
        ("imageSetRef", json!({"name": "test-image-set"})),
        ("platform", aws()),
    ] {
        spec.as_object_mut().unwrap().entry(name).or_insert(value);
    }
    let document = json!({"metadata": {"name": "lab", "namespace": "pools"}, "spec": spec});
    serde_json::from_value(document).unwrap()
}

fn aws() -> Value {
    json!({"aws": {"credentialsSecretRef": {"name": "aws-creds"}, "region": "region"}})
}

#[test]
fn versions_are_those_in_the_tests_of_hive() {
    let inventory = json!([{"name": "test-cdc-1"}]);
    let customization = json!({"name": "non-inventory-cdc"});
    let openstack =
        json!({"openstack": {"credentialsSecretRef": {"name": "aws-creds"}, "cloud": ""}});
    for (spec, version) in [
        (json!({}), "04a8f79a4a2e9733"),
        (json!({"inventory": inventory}), "a6dcbd6776a3c92b"),
        (json!({"customizationRef": customization}), "564f99a732a771e9"),
        (json!({"inventory": inventory, "customizationRef": customization}), "f1a16535dbc27559"),
        (json!({"platform": openstack, "inventory": inventory}), "0be50b7ba396d313"),
    ] {
        assert_eq!(hive_version(&pool(spec.clone())), version, "{spec}");
        assert!(is_hive_version(&pool(spec), version), "{version}");
    }
    // A release with fewer platforms, whose pools had no customizations.
    assert!(is_hive_version(&pool(json!({})), "3533907469253ac5"));
}

#[test]
fn versions_of_every_platform_follow_the_types_of_hive() {
    for (platform, version) in [
        // Hive makes `infrastructure` of single fields before it looks at a pool.
        (
            json!({"vsphere": {"credentialsSecretRef": {"name": "creds"}, "certificatesSecretRef": {"name": "ca"}, "vCenter": "vc.lab", "datacenter": "dc", "defaultDatastore": "ds", "cluster": "c1", "folder": "/dc/vm/f", "network": "vlan"}}),
            "34fba552e0ced037",
        ),
        (
            json!({"openstack": {"credentialsSecretRef": {"name": "creds"}, "cloud": "vexxhost"}}),
            "b0058c39d1339fb3",
        ),
        (json!({"none": {}}), "3fc69e4c41551682"),
        (
            json!({"azure": {"credentialsSecretRef": {"name": "creds"}, "region": "westeurope", "baseDomainResourceGroupName": "dns"}}),
            "4527f25af4607b96",
        ),
        (
            json!({"gcp": {"credentialsSecretRef": {"name": "creds"}, "region": "europe-west4"}}),
            "b32df9c3621025f4",
        ),
        (
            json!({"ibmcloud": {"credentialsSecretRef": {"name": "creds"}, "region": "eu-de"}}),
            "1e6dcabd7fe96af7",
        ),
        (
            json!({"baremetal": {"libvirtSSHPrivateKeySecretRef": {"name": "creds"}}}),
            "6294f5b17b1fd5b9",
        ),
        (
            json!({"agentBareMetal": {"agentSelector": {"matchLabels": {"rack": "r1", "site": "x"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}}}),
            "87691e50cf1b0d41",
        ),
        (
            json!({"nutanix": {"prismCentral": {"address": "pc.lab", "port": 9440}, "credentialsSecretRef": {"name": "creds"}, "failureDomains": [{"name": "fd", "prismElement": {"uuid": "u-1", "endpoint": {"address": "pe.lab", "port": 9440}, "name": "pe"}, "subnetUUIDs": ["s-1"]}]}}),
            "c11bfc6fd657d088",
        ),
        (
            json!({"vsphere": {"credentialsSecretRef": {"name": "creds"}, "certificatesSecretRef": {"name": "ca"}, "infrastructure": {"apiVIPs": ["10.0.0.5"], "ingressVIPs": ["10.0.0.7"], "vcenters": [{"server": "vc.lab", "user": "", "password": "", "datacenters": ["dc"]}], "failureDomains": [{"name": "fd", "region": "r", "zone": "z", "server": "vc.lab", "topology": {"datacenter": "dc", "computeCluster": "/dc/host/c", "networks": ["vlan"], "datastore": "/dc/datastore/d"}}]}}}),
            "852961fa9b7d84a9",
        ),
        (
            json!({"aws": {"region": "eu", "credentialsSecretRef": {"name": "creds"}, "credentialsAssumeRole": {"roleARN": "a", "externalID": "b"}, "userTags": {"team": "ci", "cost": "7", "a": "b"}}}),
            "75309ac58f92b5e4",
        ),
    ] {
        let pool = pool(json!({"platform": platform}));
        assert_eq!(hive_version(&pool), version, "{platform}");
        assert!(is_hive_version(&pool, version), "{platform}");
        assert!(!is_hive_version(&pool, "0000000000000000"), "{platform}");
    }
}

/// The objects of a hub: pool `lab` with a running and a hibernating cluster, and a claimed one.
const HUB: &str = include_str!("cases/hive_hub.yaml");
/// The version on the clusters of the hub.
const VERSION: &str = "04a8f79a4a2e9733";

#[test]
fn clusters_of_a_hub_are_neither_stale_nor_made_again() {
    for (hub, code) in [
        (HUB.to_owned(), 0),
        // Another release of Hive, with fewer platforms.
        (
            HUB.replace(VERSION, "3533907469253ac5")
                .replace("status: 'True', reason: Cl", "status: 'False', reason: Cl"),
            0,
        ),
        // A release that nobody knows; but the pool says that all its clusters are current.
        (HUB.replace(VERSION, "1234567890abcdef"), 0),
        (
            HUB.replace(VERSION, "1234567890abcdef").replace(
                "AllClustersCurrent, status: 'True'",
                "AllClustersCurrent, status: 'False'",
            ),
            4,
        ),
    ] {
        let sandbox = Sandbox::new();
        let file = sandbox.write_file("hub.yaml", &hub);
        let ran = sandbox.run(&format!("import {file}"));
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        if code != 0 {
            assert!(ran.err.contains("--current"), "{}", ran.err);
            assert!(!sandbox.state().exists());
            sandbox.ok(&format!("import {file} --current"));
        }
        let plan = sandbox.run("plan").out;
        for sign in ["+ cluster/", "- cluster/", "deletionTimestamp", "+ job", "stale"] {
            assert!(!plan.contains(sign), "{sign}: {plan}");
        }
        // A second import of the same file finds the same.
        sandbox.ok(&format!("import {file} --current"));
    }
}

#[test]
fn stale_clusters_of_a_hub_stay_stale() {
    let sandbox = Sandbox::new();
    // One cluster has the version of its pool: so the others are really older.
    let hub = HUB
        .replacen(VERSION, "1234567890abcdef", 1)
        .replace("AllClustersCurrent, status: 'True'", "AllClustersCurrent, status: 'False'");
    sandbox.ok(&format!("import {}", sandbox.write_file("hub.yaml", &hub)));
    let plan = sandbox.run("plan").out;
    assert!(plan.contains("clusterpool/lab: 1 stale"), "{plan}");
}

#[test]
fn an_import_is_checked_before_anything_is_written() {
    let sandbox = Sandbox::new();
    let file = sandbox.write_file("hub.yaml", HUB);
    let ran = sandbox.run(&format!("import {file} --check"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for line in
        ["3 ClusterDeployment", "creates no cluster", "destroys no cluster", "~ clusterpool/lab"]
    {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    for kind in ["ClusterProvision", "ClusterSync", "MachinePool", "DNSZone"] {
        assert_eq!(ran.err.matches(&format!("{kind} (")).count(), 1, "{kind}: {}", ran.err);
    }
    assert!(!sandbox.state().exists());
    let pools_away = HUB.replace("size: 2\n  status", "size: 3\n  status");
    let file = sandbox.write_file("hub.yaml", &pools_away);
    let check: Value =
        serde_json::from_str(&sandbox.ok(&format!("import {file} --check -o json"))).unwrap();
    assert_eq!(check["created"].as_array().unwrap().len(), 1, "{check}");
    assert_eq!(check["destroyed"], json!([]));
}

/// The objects in the files of a folder, file by file.
fn exported_files(sandbox: &Sandbox, folder: &str) -> Vec<(String, Vec<Value>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(sandbox.path().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let list =
                poolctl::yaml::parse_value(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.push((name, list["items"].as_array().unwrap().clone()));
        }
    }
    files.sort_by(|left, right| left.0.cmp(&right.0));
    files
}

/// The objects of a kind.
fn objects_of<'a>(files: &'a [(String, Vec<Value>)], kind: &str) -> Vec<&'a Value> {
    let objects = files.iter().flat_map(|(_, objects)| objects);
    objects.filter(|object| object["kind"] == kind).collect()
}

/// What Hive's pool controller would do with the objects: how many clusters it would make, destroy
/// as too many, and replace as stale.
fn actions_of_hive(files: &[(String, Vec<Value>)]) -> (i64, i64, usize) {
    let mut actions = (0, 0, 0);
    for pool_document in objects_of(files, "ClusterPool") {
        let spec = pool_document["spec"].clone();
        let size = spec["size"].as_i64().unwrap();
        let version = hive_version(&pool(spec));
        let name = &pool_document["metadata"]["name"];
        let mut unclaimed = 0;
        for cluster in objects_of(files, "ClusterDeployment") {
            let reference = &cluster["spec"]["clusterPoolRef"];
            if reference["poolName"] != *name || !reference["claimName"].is_null() {
                continue;
            }
            unclaimed += 1;
            let hash =
                &cluster["metadata"]["annotations"]["hive.openshift.io/cluster-pool-spec-hash"];
            actions.2 += usize::from(*hash != version);
        }
        let claims = objects_of(files, "ClusterClaim");
        let waiting = claims.iter().filter(|claim| {
            claim["spec"]["clusterPoolName"] == *name && claim["spec"]["namespace"].is_null()
        });
        let drift = unclaimed - size - i64::try_from(waiting.count()).unwrap();
        actions.0 += (-drift).max(0);
        actions.1 += drift.max(0);
    }
    actions
}

#[test]
fn hive_has_nothing_to_do_with_what_is_exported_for_it() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab ci");
    sandbox.ok("reconcile --wait -q");
    let ran = sandbox.run(&format!("export {}/hive --for hive", sandbox.path().display()));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("secrets left out"), "{}", ran.err);
    let files = exported_files(&sandbox, "hive");
    assert_eq!(actions_of_hive(&files), (0, 0, 0));
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.first(), Some(&"00-namespace.yaml"));
    assert!(names.last().unwrap().ends_with("-clusterpool.yaml"), "{names:?}");
    assert_eq!(objects_of(&files, "ClusterDeployment").len(), 3);
    assert!(objects_of(&files, "Secret").is_empty());
    for cluster in objects_of(&files, "ClusterDeployment") {
        assert_eq!(cluster["spec"]["installed"], true);
        let is_claimed = !cluster["spec"]["clusterPoolRef"]["claimName"].is_null();
        let label =
            &cluster["metadata"]["labels"]["hive.openshift.io/disable-creation-webhook-for-dr"];
        assert_eq!(*label == "true", is_claimed, "{cluster}");
    }
    for (name, objects) in &files {
        for object in objects {
            assert!(!object.to_string().contains("poolctl.dev"), "{name}: {object}");
            for field in ["uid", "creationTimestamp", "generation"] {
                assert!(object["metadata"][field].is_null(), "{name}: {object}");
            }
        }
    }
    let script = std::fs::read_to_string(sandbox.path().join("hive/apply.sh")).unwrap();
    let mut applied =
        script.lines().filter_map(|line| line.strip_prefix("oc apply --server-side -f "));
    assert!(applied.by_ref().eq(names.iter().copied()), "{script}");
    assert!(script.contains("oc get secret -o name -n "), "{script}");
}

#[test]
fn hashes_are_those_of_the_release_that_takes_over() {
    const OLDER: &str = "3533907469253ac5";
    let sandbox = Sandbox::new();
    let hub = sandbox.write_file("hub.yaml", HUB);
    let older_hub = sandbox.write_file("older.yaml", &HUB.replace(VERSION, OLDER));
    sandbox.ok(&format!("import {hub}"));
    for (folder, options, version) in [
        ("newest", String::new(), VERSION),
        ("like", format!("--like {hub}"), VERSION),
        ("older", format!("--like {older_hub}"), OLDER),
    ] {
        let path = sandbox.path().join(folder);
        sandbox.ok(&format!("export {} --for hive {options}", path.display()));
        let files = exported_files(&sandbox, folder);
        let clusters = objects_of(&files, "ClusterDeployment");
        let mut hashes = clusters.iter().map(|cluster| {
            &cluster["metadata"]["annotations"]["hive.openshift.io/cluster-pool-spec-hash"]
        });
        assert!(hashes.all(|hash| *hash == version), "{folder}: {clusters:?}");
    }
    let strange = sandbox.write_file("strange.yaml", &HUB.replace(VERSION, "1234567890abcdef"));
    let export = format!("export {}/x --for hive --like {strange}", sandbox.path().display());
    sandbox.refused(1, &export, "shows no release of Hive that poolctl knows");
}

#[test]
fn a_stale_cluster_is_stale_for_hive_and_an_unfinished_one_stays() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("patch pool lab -p '{metadata: {annotations: {poolctl.dev/refresh: none}}, spec: {baseDomain: lab.example}}'");
    sandbox.ok("pool create other --fake --size 1");
    let ran = sandbox.run(&format!("export {}/hive --for hive --paused", sandbox.path().display()));
    assert!(ran.err.contains("is left out: it is not installed yet"), "{}", ran.err);
    let files = exported_files(&sandbox, "hive");
    assert_eq!(actions_of_hive(&files), (1, 0, 1));
    for pool in objects_of(&files, "ClusterPool") {
        assert_eq!(pool["metadata"]["annotations"]["hive.openshift.io/reconcile-pause"], "true");
        assert!(pool["status"].is_null());
    }
    let readme = std::fs::read_to_string(sandbox.path().join("hive/README.md")).unwrap();
    assert!(readme.contains("These clusters stay with poolctl"), "{readme}");
    sandbox.refused(
        4,
        &format!("export {}/hive --for hive", sandbox.path().display()),
        "not empty",
    );
}

#[test]
fn secrets_for_hive_are_exported_only_on_request() {
    let sandbox = Sandbox::new();
    sandbox.write_file("pull.json", "{\"auths\": {}}");
    sandbox.ok(&format!(
        "secret create pull --from-file=.dockerconfigjson={}/pull.json",
        sandbox.path().display()
    ));
    sandbox.ok(&format!("export {}/hive --for hive --include-secrets", sandbox.path().display()));
    let files = exported_files(&sandbox, "hive");
    let secrets = objects_of(&files, "Secret");
    assert_eq!(secrets[0]["type"], "kubernetes.io/dockerconfigjson");
    assert!(secrets[0]["data"][".dockerconfigjson"].is_string());
}

#[test]
fn patches_for_hive_have_texts_and_a_lost_lease_is_given_back() {
    let sandbox = Sandbox::new();
    let manifest = sandbox.write_file(
        "cdc.yaml",
        "apiVersion: hive.openshift.io/v1
kind: ClusterDeploymentCustomization
metadata: {name: slot}
spec: {installConfigPatches: [{op: add, path: metadata/name, value: slot}, {op: add, path: /controlPlane/replicas, value: 3}]}
",
    );
    sandbox.ok(&format!("apply -f {manifest}"));
    sandbox.ok("pool create lab --fake --size 1");
    sandbox.ok("patch pool lab -p '{spec: {inventory: [{name: slot}]}}'");
    sandbox.ok(&format!("export {}/hive --for hive", sandbox.path().display()));
    let files = exported_files(&sandbox, "hive");
    let slot = objects_of(&files, "ClusterDeploymentCustomization")[0];
    let patches = &slot["spec"]["installConfigPatches"];
    assert_eq!(patches[0], json!({"op": "add", "path": "/metadata/name", "value": "slot"}));
    assert_eq!(
        patches[1],
        json!({"op": "add", "path": "/controlPlane/replicas", "valueJSON": "3"})
    );
    assert_eq!(slot["metadata"]["finalizers"], json!(["hive.openshift.io/lab"]));
    assert!(slot["status"]["clusterDeploymentRef"].is_null(), "{slot}");
}

#[test]
fn what_hive_was_given_comes_back_by_import() {
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab ci");
    sandbox.ok("reconcile --wait -q");
    let folder = sandbox.path().join("hive").display().to_string();
    sandbox.ok(&format!("export {folder} --for hive --include-secrets"));
    let names = "get pool,cluster,claim -A -o 'jsonpath={.items[*].metadata.name} {.items[*].spec.clusterPoolRef.claimName}'";
    let before = sandbox.ok(names);
    let state = sandbox.path().join("back.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    sandbox.ok(&format!("import {folder}"));
    assert_eq!(sandbox.ok(names), before);
    let plan = sandbox.run("plan").out;
    for sign in ["+ cluster/", "- cluster/", "deletionTimestamp", "+ job"] {
        assert!(!plan.contains(sign), "{sign}: {plan}");
    }
}

/// A pool of addresses with a lease under a name with capitals, and two hosts of which one is used.
const RACK: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: machines, namespace: default}
spec: {pools: [{start: 192.0.2.10, end: 192.0.2.15}], prefix: 24, preAllocations: {RenderedData-9: 192.0.2.12}}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: RenderedData-9, namespace: default}
spec: {pool: {name: machines}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: used, namespace: default}
spec: {online: true, bootMACAddress: '52:54:00:00:00:01', consumerRef: {kind: Machine, name: m}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: free, namespace: default}
spec: {online: false, bootMACAddress: '52:54:00:00:00:02'}
";

#[test]
fn addresses_and_hosts_for_metal3_have_names_and_fields_that_it_accepts() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("apply -f {}", sandbox.write_file("rack.yaml", RACK)));
    let folder = sandbox.path().join("metal3").display().to_string();
    sandbox.ok(&format!("export {folder} --for metal3 --paused"));
    let files = exported_files(&sandbox, "metal3");
    let claim = objects_of(&files, "IPClaim")[0];
    assert_eq!(claim["metadata"]["name"], "rendereddata-9");
    assert_eq!(claim["status"]["address"]["name"], "machines-192-0-2-12");
    let address = objects_of(&files, "IPAddress")[0];
    assert_eq!(address["spec"]["claim"]["name"], "rendereddata-9");
    assert!(address["metadata"]["ownerReferences"].is_null(), "{address}");
    let pool = objects_of(&files, "IPPool")[0];
    assert_eq!(pool["spec"]["namePrefix"], "machines");
    assert_eq!(pool["spec"]["allocationStrategy"], "random");
    assert_eq!(pool["spec"]["preAllocations"], json!({"rendereddata-9": "192.0.2.12"}));
    for host in objects_of(&files, "BareMetalHost") {
        let is_used = host["metadata"]["name"] == "used";
        assert_eq!(host["spec"]["externallyProvisioned"] == true, is_used, "{host}");
        assert_eq!(host["metadata"]["annotations"]["baremetalhost.metal3.io/paused"], "");
        assert!(host["status"].is_null(), "{host}");
    }
    let script = std::fs::read_to_string(sandbox.path().join("metal3/apply.sh")).unwrap();
    let position = |part: &str| script.find(part).unwrap_or_else(|| panic!("{part}: {script}"));
    // No address is leased twice: a pool comes after everything that was leased of it.
    assert!(position("-ipclaim.yaml") < position("-ipaddress.yaml"));
    assert!(position("-ipaddress.yaml") < position("-ippool.yaml"));
    assert!(script.contains("own default machines-192-0-2-12 machines rendereddata-9"), "{script}");
}

/// Two templates of which one machine has an index each, and another machine has one.
const TEMPLATES: &str = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3DataTemplate
metadata: {name: nodes, namespace: default}
spec: {clusterName: lab}
status: {indexes: {'0': node-1, '2': node-2}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3DataTemplate
metadata: {name: storage, namespace: default}
spec: {clusterName: lab}
status: {indexes: {'5': node-1}}
";

#[test]
fn machines_keep_their_indexes_of_templates_on_the_way_to_metal3_and_back() {
    let mut sandbox = Sandbox::new();
    sandbox.ok(&format!("import {}", sandbox.write_file("templates.yaml", TEMPLATES)));
    let folder = sandbox.path().join("metal3").display().to_string();
    sandbox.ok(&format!("export {folder} --for metal3"));
    let files = exported_files(&sandbox, "metal3");
    let mut indexes = Vec::new();
    for data in objects_of(&files, "Metal3Data") {
        let spec = &data["spec"];
        indexes.push((
            data["metadata"]["name"].as_str().unwrap(),
            spec["index"].as_i64().unwrap(),
            spec["template"]["name"].as_str().unwrap(),
            spec["claim"]["name"].as_str().unwrap(),
        ));
    }
    indexes.sort_unstable();
    assert_eq!(
        indexes,
        [
            ("nodes-0", 0, "nodes", "node-1"),
            ("nodes-2", 2, "nodes", "node-2"),
            ("storage-5", 5, "storage", "node-1-storage"),
        ]
    );
    for claim in objects_of(&files, "Metal3DataClaim") {
        let name = claim["metadata"]["name"].as_str().unwrap();
        let (data, _, template, _) =
            indexes.iter().find(|(_, _, _, claim)| *claim == name).unwrap();
        assert_eq!(claim["spec"]["template"]["name"], *template);
        assert_eq!(claim["status"]["renderedData"]["name"], *data);
    }
    let script = std::fs::read_to_string(sandbox.path().join("metal3/apply.sh")).unwrap();
    let position = |part: &str| script.find(part).unwrap_or_else(|| panic!("{part}: {script}"));
    // Nobody gets an index twice: a template comes after everything that was leased of it.
    assert!(position("-metal3data.yaml") < position("-metal3dataclaim.yaml"));
    assert!(position("-metal3dataclaim.yaml") < position("-metal3datatemplate.yaml"));
    let state = sandbox.path().join("back.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    sandbox.ok(&format!("import {folder}"));
    let get = "get datatemplate nodes -o 'jsonpath={.status.indexes}'";
    let back: Value = serde_json::from_str(&sandbox.ok(get)).unwrap();
    assert_eq!(back, json!({"0": "node-1", "2": "node-2"}));
}

#[test]
fn the_chapter_about_hive_has_the_tables_of_what_moves() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0");
    let chapter = std::fs::read_to_string("docs/hive.md").unwrap();
    for program in ["hive", "metal3", "assisted"] {
        let folder = sandbox.path().join(program);
        sandbox.ok(&format!("export {} --for {program}", folder.display()));
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(rows.len() > 5, "{program}: {readme}");
        for row in rows {
            assert!(chapter.contains(row), "{program}: {row}");
        }
    }
}

/// An InfraEnv, the network of a host, and an installed cluster that is made of Agents.
const SITE: &str = "apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: rack, namespace: default, annotations: {poolctl.dev/owner: lab-team}}
spec: {pullSecretRef: {name: pull}}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata: {name: node-1, namespace: default, labels: {rack: '7'}}
spec:
  interfaces: [{name: eth0, macAddress: '02:00:00:00:00:01'}]
  config: {interfaces: [{name: eth0, type: ethernet, state: up}]}
";

#[test]
fn infra_envs_and_networks_for_assisted_have_no_status_and_no_annotations_of_poolctl() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("apply -f {}", sandbox.write_file("site.yaml", SITE)));
    let folder = sandbox.path().join("assisted").display().to_string();
    sandbox.ok(&format!("export {folder} --for assisted"));
    let files = exported_files(&sandbox, "assisted");
    let infra_env = objects_of(&files, "InfraEnv")[0];
    assert_eq!(infra_env["metadata"], json!({"name": "rack", "namespace": "default"}));
    assert!(infra_env["status"].is_null(), "{infra_env}");
    assert_eq!(objects_of(&files, "NMStateConfig")[0]["metadata"]["labels"]["rack"], "7");
    for script in ["apply.sh", "agents.sh"] {
        let script = std::fs::read_to_string(sandbox.path().join("assisted").join(script)).unwrap();
        assert!(script.starts_with("#!/bin/sh\n"), "{script}");
    }
    sandbox.refused(2, "export - --for assisted", "into a folder");
}

/// What a pool or a claim is asked for, by kind and name; those that are being deleted do not move.
fn wishes(objects: &[Value]) -> Vec<(String, Value)> {
    let mut wishes = Vec::new();
    for object in objects {
        let is_asked = object["kind"] == "ClusterPool" || object["kind"] == "ClusterClaim";
        if is_asked && object["metadata"]["deletionTimestamp"].is_null() {
            let spec = &object["spec"];
            let wish = json!([
                spec["size"],
                spec["maxSize"],
                spec["baseDomain"],
                spec["clusterPoolName"],
                spec["namespace"]
            ]);
            wishes.push((format!("{}/{}", object["kind"], object["metadata"]["name"]), wish));
        }
    }
    wishes.sort_by(|left, right| left.0.cmp(&right.0));
    wishes
}

/// Gives a state to a Hive and takes it back: pools and claims want the same. Returns whether it has
/// anything for a Hive.
pub fn assert_wishes_come_back_from_hive(transcript: &str, sandbox: &Sandbox) -> bool {
    let folder = sandbox.path().join("for-hive");
    let _ = std::fs::remove_dir_all(&folder);
    sandbox.ok(&format!("export {} --for hive --include-secrets", folder.display()));
    let files = exported_files(sandbox, "for-hive");
    for (name, objects) in &files {
        for object in objects {
            assert!(
                !object.to_string().contains("\"poolctl.dev/"),
                "{transcript}: {name}: {object}"
            );
        }
    }
    if files.is_empty() {
        return false;
    }
    let state = folder.join("back.db").display().to_string();
    let ran = sandbox.run(&format!("--state {state} import {} --current", folder.display()));
    assert_eq!(ran.code, 0, "{transcript}: {}", ran.err);
    let get = "get pool,claim -A -o json";
    let before: Value = serde_json::from_str(&sandbox.ok(get)).unwrap();
    let after: Value =
        serde_json::from_str(&sandbox.ok(&format!("--state {state} {get}"))).unwrap();
    let [before, after] = [before, after].map(|list| wishes(list["items"].as_array().unwrap()));
    assert_eq!(before, after, "{transcript}");
    true
}
