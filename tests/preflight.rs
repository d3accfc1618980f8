//! An install-config is checked by the rules of openshift-install before anything is leased for it.
//! The rules are rows in `cases/preflight.txt`, which explains its columns: each has an example that
//! keeps it and one that breaks it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use poolctl::model::release::Release;
use poolctl::rules::preflight::{
    InstallConfig, InstallMethod, Problem, RULES, VipSource, find_problems,
};

use crate::cases::{assert_all_hold, columns, rows};
use crate::lab::{Lab, VSPHERE, pool};
use crate::sandbox::{Ran, Sandbox, apply, jsonpath};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2rPHp+8pqQ0i0MkmjIlz6l8uLSsLfGQVNTjbEVVSMi me";

/// An install-config with which nothing is wrong, for a platform.
fn valid_config(platform: &str) -> Value {
    let mut config = json!({
        "apiVersion": "v1",
        "baseDomain": "lab.test",
        "metadata": {"name": "a"},
        "controlPlane": {"name": "master", "replicas": 3},
        "compute": [{"name": "worker", "replicas": 2}],
        "networking": {
            "networkType": "OVNKubernetes",
            "machineNetwork": [{"cidr": "192.0.2.0/24"}],
            "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
            "serviceNetwork": ["172.30.0.0/16"],
        },
        "platform": {},
        "pullSecret": "{\"auths\": {\"quay.io\": {\"auth\": \"bWU6aHVudGVyMg==\"}}}",
        "sshKey": KEY,
    });
    config["platform"][platform] = json!({});
    config
}

/// The release, the method and the platform of a row.
fn parse_case(case: &str) -> (Option<Release>, InstallMethod, String) {
    let [release, method, platform] = case.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{case}")
    };
    let method = match method {
        "machines" => InstallMethod::Machines,
        "agent" => InstallMethod::Agent,
        _ => panic!("{case}"),
    };
    (Release::of_image(&format!("ocp:{release}")), method, platform.to_owned())
}

/// The problems of the valid install-config with a patch merged into it.
fn problems_of(case: &str, patch: &str) -> Vec<Problem> {
    let (release, method, platform) = parse_case(case);
    let mut document = valid_config(&platform);
    let patch: Value =
        serde_json::from_str(patch).unwrap_or_else(|error| panic!("{error}: {patch}"));
    json_patch::merge(&mut document, &patch);
    let vips = VipSource::Document;
    find_problems(&InstallConfig { document: &document, release, method, vips })
}

#[test]
fn every_rule_has_an_example_that_keeps_it_and_one_that_breaks_it() {
    let mut failures = Vec::new();
    let mut tried = BTreeSet::new();
    let mut count = 0;
    for row in rows(include_str!("cases/preflight.txt")) {
        let [rule, case, kept, broken, message] = columns(row)[..] else { panic!("{row}") };
        count += 1;
        tried.insert(rule);
        let kept_problems = problems_of(case, kept);
        if let Some(problem) = kept_problems.iter().find(|problem| problem.rule == rule) {
            failures.push(format!("{rule}: {kept}: {}", problem.message));
        }
        let problems = problems_of(case, broken);
        if !problems.iter().any(|problem| problem.rule == rule && problem.message.contains(message))
        {
            failures.push(format!("{rule}: {broken}: {problems:#?}"));
        }
    }
    for rule in RULES.iter().filter(|rule| !tried.contains(rule.id)) {
        failures.push(format!("{} has no row", rule.id));
    }
    assert_all_hold(count, RULES.len(), &failures);
}

#[test]
fn nothing_is_wrong_with_a_valid_install_config() {
    for platform in ["none", "external", "vsphere", "openstack", "nutanix", "ovirt", "aws"] {
        let problems = problems_of(&format!("4.18 machines {platform}"), "{}");
        assert!(problems.is_empty(), "{platform}: {problems:#?}");
    }
    assert!(problems_of("4.18 agent none", "{}").is_empty());
    let vips =
        r#"{"platform": {"baremetal": {"apiVIPs": ["192.0.2.2"], "ingressVIPs": ["192.0.2.3"]}}}"#;
    assert!(problems_of("4.18 agent baremetal", vips).is_empty());
}

#[test]
fn secrets_and_passwords_are_in_no_message() {
    for patch in [
        r#"{"pullSecret": "CANARY"}"#,
        r#"{"pullSecret": "{\"auths\": {\"q\": {\"password\": \"CANARY\"}}}"}"#,
        r#"{"proxy": {"httpProxy": "https://me:CANARY@proxy.example.com"}}"#,
        r#"{"proxy": {"httpProxy": "http://me:CANARY@172.30.0.1"}}"#,
        r#"{"additionalTrustBundle": "CANARY"}"#,
        r#"{"sshKey": "CANARY"}"#,
    ] {
        let problems = problems_of("4.18 machines vsphere", patch);
        assert!(!problems.is_empty(), "{patch}");
        assert!(!format!("{problems:?}").contains("CANARY"), "{problems:?}");
    }
}

/// The Secret `t` with an install-config for vSphere; `more` are further lines of it.
fn template(more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: t}}\nstringData:\n  \
         install-config.yaml: |\n    apiVersion: v1\n    metadata: {{name: x}}\n    \
         platform: {{vsphere: {{network: machines}}}}\n{more}"
    )
}

const TEMPLATE_OF_POOL: &str = "  installConfigSecretTemplateRef: {name: t}\n";
const SDN: &str = "    networking: {networkType: OpenShiftSDN}\n";
const GONE: &str =
    "networking.networkType `OpenShiftSDN` is not supported here; write OVNKubernetes";

fn try_to_apply(sandbox: &Sandbox, manifest: &str) -> Ran {
    let path = sandbox.write_file("tried.yaml", manifest);
    sandbox.run(&format!("apply -f {path}"))
}

fn assert_refused(sandbox: &Sandbox, manifest: &str, message: &str) {
    let ran = try_to_apply(sandbox, manifest);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(message), "{}", ran.err);
    assert!(ran.err.contains("next: "), "{}", ran.err);
}

#[test]
fn a_wrong_install_config_is_refused_with_the_pool_that_uses_it() {
    let lab = Lab::new();
    let lab_pool = pool("lab", VSPHERE, TEMPLATE_OF_POOL);
    let manifests = format!("{}---\n{lab_pool}", template(SDN));
    assert_refused(&lab.sandbox, &manifests, GONE);
    assert_eq!(lab.sandbox.ok("get pool,secret -o name").matches("secret/t\n").count(), 0);
    assert!(!lab.sandbox.ok("get pool -o name").contains("pool/lab"));
    for (lines, message) in [
        ("    fips: \"yes\"\n", "fips `yes` is not true or false"),
        ("    networking: {machineNetwork: [{cidr: 10.0.0.0/8}]}\n", "overlaps"),
        ("    sshKey: garbage\n", "sshKey is not a public key of SSH"),
        ("    additionalTrustBundle: garbage\n", "additionalTrustBundle has no certificate"),
        ("    proxy: {httpProxy: proxy.example.com}\n", "proxy.httpProxy is not a URL"),
    ] {
        assert_refused(&lab.sandbox, &format!("{}---\n{lab_pool}", template(lines)), message);
    }
    let misspelled = template("").replace("platform:", "platfrom:");
    let manifests = format!("{misspelled}---\n{lab_pool}");
    assert_refused(&lab.sandbox, &manifests, "`platfrom` is unknown, did you mean `platform`?");
}

#[test]
fn a_template_that_becomes_wrong_is_refused_and_other_edits_are_not() {
    let lab = Lab::new();
    apply(&lab.sandbox, &template(""));
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATE_OF_POOL).replace("size: 1", "size: 0"));
    assert_refused(&lab.sandbox, &template(SDN), "install-config of pool `lab`");
    lab.sandbox.ok("patch pool lab -q -p '{\"metadata\": {\"labels\": {\"a\": \"b\"}}}'");
    // What the installer overlooks is only said.
    let ran = try_to_apply(&lab.sandbox, &template("    controlPlan: {replicas: 1}\n"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("did you mean `controlPlane`?"), "{}", ran.err);
}

#[test]
fn a_pool_that_comes_before_what_it_is_made_from_has_a_condition_and_leases_nothing() {
    let lab = Lab::new();
    let image_set = "apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\n\
                     metadata: {name: later}\nspec: {releaseImage: 'example.com/ocp:4.18.3-x86_64'}\n";
    let lab_pool = pool("lab", VSPHERE, TEMPLATE_OF_POOL).replace("name: ocp", "name: later");
    apply(&lab.sandbox, &template(SDN));
    apply(&lab.sandbox, &lab_pool);
    apply(&lab.sandbox, image_set);
    assert_eq!(lab.pool_condition("MissingDependencies"), "True InputWrong");
    assert_eq!(lab.sandbox.ok("get cluster -o name"), "");
    assert!(lab.sandbox.ok("why pool/lab").contains(GONE));
    lab.sandbox.refused(1, "pool render lab", GONE);
    apply(&lab.sandbox, &template(""));
    lab.wait_until_installed();
    assert!(lab.pool_condition("MissingDependencies").starts_with("False"));
    lab.delete_clusters();
}

#[test]
fn a_customization_that_spoils_an_install_config_is_refused() {
    let lab = Lab::new();
    apply(&lab.sandbox, &template(""));
    let listed = format!("{TEMPLATE_OF_POOL}  inventory: [{{name: a}}, {{name: b}}]\n");
    apply(&lab.sandbox, &pool("lab", VSPHERE, &listed));
    let customization = |name: &str, patch: &str| {
        format!(
            "apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\n\
             metadata: {{name: {name}}}\nspec: {{installConfigPatches: [\
             {{op: replace, path: /metadata/name, value: {name}}}, {patch}]}}\n"
        )
    };
    let wrong = "{op: add, path: /platform/vsphere/apiVIPs, value: [10.0.0.5]}";
    let message = "platform.vsphere.ingressVIPs is missing, but the API has an address";
    assert_refused(&lab.sandbox, &customization("a", wrong), message);
    let right = "{op: add, path: /sshKey, value: ''}";
    apply(&lab.sandbox, &customization("b", right));
    lab.wait_until_installed();
    assert_eq!(jsonpath(&lab.sandbox, "cluster", "{.items[*].spec.clusterName}"), "b");
    lab.delete_clusters();
}

#[test]
fn a_wrong_install_config_is_refused_with_the_cluster_that_is_applied_by_hand() {
    let lab = Lab::new();
    let manifests = |lines: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: t}}\nstringData:\n  \
             install-config.yaml: |\n    apiVersion: v1\n    metadata: {{name: edge}}\n    \
             platform: {{none: {{}}}}\n{lines}---\napiVersion: hive.openshift.io/v1\n\
             kind: ClusterDeployment\nmetadata: {{name: edge}}\nspec:\n  clusterName: edge\n  \
             baseDomain: lab.test\n  platform: {{none: {{}}}}\n  provisioning:\n    \
             imageSetRef: {{name: ocp}}\n    installConfigSecretRef: {{name: t}}\n"
        )
    };
    assert_refused(&lab.sandbox, &manifests(SDN), GONE);
    apply(&lab.sandbox, &manifests(""));
}

#[test]
fn clusters_that_no_installer_makes_are_not_checked() {
    let sandbox = Sandbox::new();
    let path = sandbox.write_file("t", "networking: {networkType: OpenShiftSDN}\n");
    sandbox.ok(&format!("pool create lab --fake --install-config {path} -q"));
    sandbox.ok("pool render lab");
}
