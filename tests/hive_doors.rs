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
