//! An AgentClusterInstall that is applied with its ClusterDeployment becomes the install-config of
//! the cluster.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, apply, jsonpath};

fn cluster_deployment() -> Value {
    json!({"apiVersion": "hive.openshift.io/v1", "kind": "ClusterDeployment",
        "metadata": {"name": "edge"},
        "spec": {"baseDomain": "lab.test", "clusterName": "edge",
            "pullSecretRef": {"name": "pull"},
            "platform": {"agentBareMetal": {"agentSelector": {"matchLabels": {"rack": "7"}}}},
            "clusterInstallRef": {"group": "extensions.hive.openshift.io",
                "kind": "AgentClusterInstall", "name": "edge-aci", "version": "v1beta1"}}})
}

fn cluster_install(more: &Value) -> Value {
    let mut install = json!({"apiVersion": "extensions.hive.openshift.io/v1beta1",
        "kind": "AgentClusterInstall", "metadata": {"name": "edge-aci"},
        "spec": {"clusterDeploymentRef": {"name": "edge"}, "imageSetRef": {"name": "ocp"},
            "apiVIP": "192.0.2.100", "ingressVIPs": ["192.0.2.101"],
            "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}],
                "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
                "serviceNetwork": ["172.30.0.0/16"]},
            "provisionRequirements": {"controlPlaneAgents": 3, "workerAgents": 2}}});
    json_patch::merge(&mut install["spec"], more);
    install
}

fn apply_with(sandbox: &Sandbox, install: &Value) {
    let image_set = json!({"apiVersion": "hive.openshift.io/v1", "kind": "ClusterImageSet",
        "metadata": {"name": "ocp"}, "spec": {"releaseImage": "example.com/ocp:4.18.3-x86_64"}});
    let pull_secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
        "stringData": {".dockerconfigjson": "{\"auths\": {}}"}});
    let cluster = cluster_deployment();
    apply(sandbox, &format!("{image_set}\n---\n{pull_secret}\n---\n{cluster}\n---\n{install}"));
}

fn install_config(sandbox: &Sandbox) -> Value {
    let path = "{.spec.provisioning.installConfigSecretRef.name}";
    let secret = jsonpath(sandbox, "cluster/edge", path);
    assert_eq!(secret, "edge-install-config");
    let document = sandbox.ok("extract secret/edge-install-config --to=-");
    serde_json::from_str(document.trim()).unwrap()
}

#[test]
fn its_vips_networks_and_counts_are_those_of_the_cluster() {
    let sandbox = Sandbox::new();
    apply_with(&sandbox, &cluster_install(&json!({})));
    let config = install_config(&sandbox);
    assert_eq!(config["controlPlane"]["replicas"], 3);
    assert_eq!(config["compute"][0]["replicas"], 2);
    assert_eq!(config["networking"]["networkType"], "OVNKubernetes");
    assert_eq!(config["networking"]["machineNetwork"][0]["cidr"], "192.0.2.0/24");
    assert_eq!(config["platform"]["baremetal"]["apiVIPs"], json!(["192.0.2.100"]));
    assert_eq!(config["platform"]["baremetal"]["ingressVIPs"], json!(["192.0.2.101"]));
    let image_set = "{.spec.provisioning.imageSetRef.name}";
    assert_eq!(jsonpath(&sandbox, "cluster/edge", image_set), "ocp");
}

#[test]
fn a_single_node_and_whoever_manages_the_networks_get_platform_none() {
    for more in [
        json!({"provisionRequirements": {"controlPlaneAgents": 1, "workerAgents": 0}}),
        json!({"networking": {"userManagedNetworking": true}}),
    ] {
        let sandbox = Sandbox::new();
        apply_with(&sandbox, &cluster_install(&more));
        assert_eq!(install_config(&sandbox)["platform"], json!({"none": {}}));
    }
}

#[test]
fn its_manifests_are_those_of_the_cluster() {
    for (more, config_map, names) in [
        (json!({"manifestsConfigMapRefs": [{"name": "one"}]}), "one", ""),
        (json!({"manifestsConfigMapRef": {"name": "old"}}), "old", ""),
        (
            json!({"manifestsConfigMapRef": {"name": "old"},
                "manifestsConfigMapRefs": [{"name": "one"}, {"name": "two"}]}),
            "",
            "one,two",
        ),
    ] {
        let sandbox = Sandbox::new();
        apply_with(&sandbox, &cluster_install(&more));
        let path = "{.spec.provisioning.manifestsConfigMapRef.name}";
        assert_eq!(jsonpath(&sandbox, "cluster/edge", path), config_map, "{more}");
        let path = "{.metadata.annotations.poolctl\\.dev/manifests}";
        assert_eq!(jsonpath(&sandbox, "cluster/edge", path), names, "{more}");
    }
}

#[test]
fn what_is_not_read_is_said() {
    let sandbox = Sandbox::new();
    let alone = cluster_install(&json!({"holdInstallation": true}));
    let file = sandbox.write_file("install.json", &alone.to_string());
    let ran = sandbox.run(&format!("apply -f {file}"));
    assert!(
        ran.err.contains("spec.holdInstallation of AgentClusterInstall has no effect"),
        "{ran:?}"
    );
    assert!(ran.err.contains("AgentClusterInstall"), "{ran:?}");
    let other = cluster_install(&json!({"platformType": "VSphere"}));
    let file = sandbox.write_file("install.json", &other.to_string());
    sandbox.refused(1, &format!("apply -f {file}"), "spec.platformType `VSphere` is not supported");
}

#[test]
fn an_installed_cluster_keeps_what_it_says_on_the_way_to_assisted_service() {
    let sandbox = Sandbox::new();
    let mut installed = cluster_deployment();
    installed["spec"]["installed"] = true.into();
    let mut unfinished = cluster_deployment();
    unfinished["metadata"]["name"] = "late".into();
    unfinished["spec"]["clusterName"] = "late".into();
    unfinished["spec"].as_object_mut().unwrap().remove("clusterInstallRef");
    let install = cluster_install(&json!({"sshPublicKey": "ssh-ed25519 AAAA lab"}));
    let dump = format!("{installed}\n---\n{unfinished}\n---\n{install}\n");
    sandbox.ok(&format!("import {}", sandbox.write_file("dump.yaml", &dump)));
    let folder = sandbox.path().join("assisted");
    let ran = sandbox.run(&format!("export {} --for assisted", folder.display()));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("cluster late is left out: it is not installed yet"), "{}", ran.err);
    let file = std::fs::read_to_string(folder.join("90-agentclusterinstall.yaml")).unwrap();
    let list = poolctl::yaml::parse_value(&file).unwrap();
    let spec = &list["items"][0]["spec"];
    assert_eq!(
        spec["provisionRequirements"],
        json!({"controlPlaneAgents": 3, "workerAgents": 2}),
        "{spec}"
    );
    assert_eq!(spec["networking"]["machineNetwork"][0]["cidr"], "192.0.2.0/24");
    assert_eq!(spec["apiVIPs"], json!(["192.0.2.100"]));
    assert_eq!(spec["ingressVIPs"], json!(["192.0.2.101"]));
    assert_eq!(spec["imageSetRef"]["name"], "ocp");
    assert_eq!(spec["sshPublicKey"], "ssh-ed25519 AAAA lab");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let content = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!content.contains("installedTimestamp"), "{content}");
        // Hive refuses a cluster that has both this and an AgentClusterInstall.
        assert!(!content.contains("provisioning:"), "{content}");
    }
}
