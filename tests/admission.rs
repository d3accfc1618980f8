//! What a manifest may say: what is required, exclusive or fixed is refused wherever it is written,
//! and whoever sets a field that has no effect here is told so.

use serde_json::{Value, json};

use crate::cases::{assert_all_hold, columns, rows};
use crate::lab::Lab;
use crate::sandbox::{Sandbox, apply, in_one_line, jsonpath};

const FIELDS_WITHOUT_EFFECT: &str = include_str!("cases/fields_without_effect.txt");

/// What every pool and cluster below refers to.
const OBJECTS: &str = r#"
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp}
spec: {releaseImage: "example.com/ocp:4.18.3-x86_64"}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {username: u, password: p, clouds.yaml: "clouds: {}", install-config.yaml: "{apiVersion: v1, platform: {none: {}}}"}
"#;

/// The kinds in `fields_without_effect.txt`: their apiVersion, and a spec that is valid.
fn valid_spec(kind: &str) -> (&'static str, Value) {
    let platform = json!({"none": {}});
    match kind {
        "ClusterPool" => (
            "hive.openshift.io/v1",
            json!({"size": 0, "baseDomain": "example.com", "imageSetRef": {"name": "ocp"},
                   "platform": platform}),
        ),
        "ClusterDeployment" => (
            "hive.openshift.io/v1",
            json!({"clusterName": "c", "baseDomain": "example.com", "platform": platform,
                   "provisioning": {"imageSetRef": {"name": "ocp"},
                                    "installConfigSecretRef": {"name": "s"}}}),
        ),
        "BareMetalHost" => ("metal3.io/v1alpha1", json!({"online": false})),
        "Agent" => ("agent-install.openshift.io/v1beta1", json!({"approved": true})),
        "InfraEnv" => {
            ("agent-install.openshift.io/v1beta1", json!({"pullSecretRef": {"name": "s"}}))
        }
        _ => panic!("{kind}"),
    }
}

/// Merges a part into a document: mappings into mappings, but one platform instead of another.
fn merge(document: &mut Value, part: &Value) {
    let Some(new_fields) = part.as_object() else {
        *document = part.clone();
        return;
    };
    if !document.is_object() {
        *document = json!({});
    }
    let Some(fields) = document.as_object_mut() else { return };
    for (name, value) in new_fields {
        if name == "platform" {
            fields.insert(name.clone(), value.clone());
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

fn manifest(kind: &str, spec_part: &Value) -> String {
    let (version, mut spec) = valid_spec(kind);
    merge(&mut spec, spec_part);
    let metadata = json!({"name": "x", "labels": {"infraenvs.agent-install.openshift.io": "x"}});
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}).to_string()
}

/// A message without the indexes of lists: `spec.ingress[0].name` is `spec.ingress.name`.
fn without_indexes(message: &str) -> String {
    let mut path = String::new();
    let mut is_index = false;
    for letter in message.chars() {
        is_index = letter == '[' || (is_index && letter != ']');
        if !is_index && letter != ']' {
            path.push(letter);
        }
    }
    path
}

#[test]
fn a_field_without_effect_is_said_when_it_is_applied() {
    let base = Sandbox::new();
    apply(&base, OBJECTS);
    let mut failures = Vec::new();
    let mut tried = 0;
    for row in rows(FIELDS_WITHOUT_EFFECT) {
        let [kind, path, part] = columns(row)[..] else { panic!("{row}") };
        let part: Value = serde_json::from_str(part).unwrap();
        let sandbox = base.copy();
        let file = sandbox.write_file("x.yaml", &manifest(kind, &part));
        let ran = sandbox.run(&format!("apply --no-reconcile -f {file}"));
        tried += 1;
        // A mapping is named as a whole if none of its parts has an effect.
        let message = without_indexes(&ran.err);
        let mut field = Some(path.replace("[]", ""));
        while let Some(name) = &field
            && !message.contains(&format!("`spec.{name}`"))
        {
            field = name.rsplit_once('.').map(|(parent, _)| parent.to_owned());
        }
        if field.is_none() {
            failures.push(format!("{kind} {path}: exit {}: {}", ran.code, ran.err.trim()));
        }
    }
    assert_all_hold(tried, 100, &failures);
}

/// Parts of the spec of a pool, and what is missing in them or too much.
const WRONG_POOLS: [(&str, &str); 14] = [
    ("platform: {vsphere: {}}", "spec.platform.vsphere.credentialsSecretRef.name"),
    (
        "platform: {vsphere: {credentialsSecretRef: {name: s}}}",
        "spec.platform.vsphere.certificatesSecretRef.name",
    ),
    (
        "platform: {vsphere: {credentialsSecretRef: {name: s}, certificatesSecretRef: {name: s}}}",
        "spec.platform.vsphere.vCenter",
    ),
    ("platform: {openstack: {credentialsSecretRef: {name: s}}}", "spec.platform.openstack.cloud"),
    ("platform: {openstack: {cloud: lab}}", "spec.platform.openstack.credentialsSecretRef.name"),
    (
        "platform: {openstack: {cloud: lab, credentialsSecretRef: {name: s}, certificatesSecretRef: {}}}",
        "spec.platform.openstack.certificatesSecretRef.name",
    ),
    ("platform: {azure: {region: x}}", "spec.platform.azure.credentialsSecretRef.name"),
    (
        "platform: {azure: {credentialsSecretRef: {name: s}, region: x}}",
        "spec.platform.azure.baseDomainResourceGroupName",
    ),
    ("platform: {aws: {region: x}}", "spec.platform.aws.credentialsSecretRef.name"),
    ("platform: {gcp: {region: x}}", "spec.platform.gcp.credentialsSecretRef.name"),
    ("platform: {ibmcloud: {region: x}}", "spec.platform.ibmcloud.credentialsSecretRef.name"),
    (
        "platform: {nutanix: {credentialsSecretRef: {name: s}}}",
        "spec.platform.nutanix.prismCentral",
    ),
    (
        "platform: {ovirt: {credentialsSecretRef: {name: s}, certificatesSecretRef: {name: s}}}",
        "spec.platform.ovirt.ovirt_cluster_id",
    ),
    ("platform: {agentBareMetal: {}}", "spec.platform.agentBareMetal.agentSelector"),
];

fn pool_manifest(part: &str) -> String {
    format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: lab}}\nspec:\n  size: 0\n  \
         baseDomain: example.com\n  imageSetRef: {{name: ocp}}\n  {part}\n"
    )
}

#[test]
fn what_a_platform_needs_is_required_of_a_pool() {
    let sandbox = Sandbox::new();
    apply(&sandbox, OBJECTS);
    let mut failures = Vec::new();
    for (part, field) in WRONG_POOLS {
        let path = sandbox.write_file("pool.yaml", &pool_manifest(part));
        let ran = sandbox.run(&format!("apply -f {path}"));
        if ran.code != 1 || !ran.err.contains(field) {
            failures.push(format!("{part}: exit {}: {}", ran.code, ran.err.trim()));
        }
    }
    assert_all_hold(WRONG_POOLS.len(), 14, &failures);
    // What a simulated pool lacks does not matter to it, and is said.
    let simulated = pool_manifest(
        "platform: {vsphere: {}}\n  annotations: {hive.openshift.io/fake-cluster: 'true'}",
    );
    let path = sandbox.write_file("pool.yaml", &simulated);
    let ran = sandbox.run(&format!("apply -f {path}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("spec.platform.vsphere.credentialsSecretRef.name"), "{}", ran.err);
}

/// The parts of a cluster: its name, its platform and more of its spec, and the field that is wrong.
const WRONG_CLUSTERS: [(&str, &str, &str, &str); 9] = [
    ("c", "{}", PROVISIONING, "spec.platform"),
    ("c", "{none: {}, vsphere: {}}", PROVISIONING, "spec.platform"),
    ("Foo_Bar!", "{none: {}}", PROVISIONING, "spec.clusterName"),
    (
        "a-name-that-is-far-longer-than-what-a-label-of-the-domain-name-system-may-have-x",
        "{none: {}}",
        PROVISIONING,
        "spec.clusterName",
    ),
    ("c", "{none: {}}", "", "spec.provisioning"),
    (
        "c",
        "{none: {}}",
        "provisioning: {imageSetRef: {name: ocp}}",
        "spec.provisioning.installConfigSecretRef.name",
    ),
    (
        "c",
        "{none: {}}",
        "provisioning: {imageSetRef: {name: ocp}, installConfigSecretRef: {name: s}, sshPrivateKeySecretRef: {}}",
        "spec.provisioning.sshPrivateKeySecretRef.name",
    ),
    (
        "c",
        "{none: {}}",
        "provisioning: {imageSetRef: {name: ocp}, installConfigSecretRef: {name: s}, \
         manifestsConfigMapRef: {name: a}, manifestsSecretRef: {name: b}}",
        "spec.provisioning.manifestsConfigMapRef",
    ),
    (
        "c",
        "{none: {}}",
        "provisioning: {imageSetRef: {name: ocp}, installConfigSecretRef: {name: s}}\n  \
         clusterInstallRef: {group: a, kind: b, name: c, version: v1}",
        "spec.clusterInstallRef",
    ),
];
const PROVISIONING: &str =
    "provisioning: {imageSetRef: {name: ocp}, installConfigSecretRef: {name: s}}";

#[test]
fn what_hive_refuses_of_a_cluster_is_refused() {
    let sandbox = Sandbox::new();
    apply(&sandbox, OBJECTS);
    let mut failures = Vec::new();
    for (name, platform, part, field) in WRONG_CLUSTERS {
        let manifest = format!(
            "apiVersion: hive.openshift.io/v1\nkind: ClusterDeployment\n\
             metadata: {{name: c, namespace: c}}\nspec:\n  clusterName: '{name}'\n  \
             baseDomain: example.com\n  platform: {platform}\n  {part}\n"
        );
        let path = sandbox.write_file("cluster.yaml", &manifest);
        let ran = sandbox.run(&format!("apply --no-reconcile -f {path}"));
        if ran.code != 1 || !ran.err.contains(field) {
            failures.push(format!(
                "{name} {platform} {part}: exit {}: {}",
                ran.code,
                ran.err.trim()
            ));
        }
    }
    assert_all_hold(WRONG_CLUSTERS.len(), 9, &failures);
}

#[test]
fn what_is_fixed_of_a_cluster_cannot_be_changed_by_any_command() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab k -q");
    let cluster = jsonpath(&sandbox, "claim", "{.items[0].spec.namespace}");
    for (patch, field) in [
        (r#"{"spec": {"platform": {"none": null, "vsphere": {}}}}"#, "spec.platform"),
        (
            r#"{"spec": {"clusterMetadata": {"infraID": "another"}}}"#,
            "spec.clusterMetadata.infraID",
        ),
        (
            r#"{"spec": {"clusterMetadata": {"clusterID": "another"}}}"#,
            "spec.clusterMetadata.clusterID",
        ),
        (
            r#"{"spec": {"provisioning": {"imageSetRef": {"name": "another"}}}}"#,
            "spec.provisioning",
        ),
        (r#"{"spec": {"provisioning": null}}"#, "spec.provisioning"),
        (r#"{"spec": {"installed": false}}"#, "spec.installed"),
        (r#"{"spec": {"pullSecretRef": {"name": "another"}}}"#, "spec.pullSecretRef"),
    ] {
        sandbox.refused(4, &format!("patch cluster {cluster} -p '{patch}'"), field);
    }
    // What Hive lets people change stays theirs.
    let patch = r#"{"spec": {"preserveOnDelete": true}}"#;
    sandbox.ok(&format!("patch cluster {cluster} -p '{patch}'"));
}

#[test]
fn what_is_being_deleted_is_not_changed_any_more() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab k -q");
    sandbox.ok("delete pool lab -y -q");
    sandbox.refused(4, "pool scale lab --size 3", "is being deleted");
    let patch = r#"{"spec": {"size": 3}}"#;
    sandbox.refused(4, &format!("patch pool lab -p '{patch}'"), "is being deleted");
}

#[test]
fn what_is_missing_of_a_state_that_moves_is_warned_of_and_kept() {
    let sandbox = Sandbox::new();
    let pool = pool_manifest("platform: {vsphere: {}}");
    let manifest = format!("{OBJECTS}---\n{pool}");
    let path = sandbox.write_file("state.yaml", &manifest);
    let ran = sandbox.run(&format!("import {path}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("spec.platform.vsphere.credentialsSecretRef.name"), "{}", ran.err);
    // Nor is it refused later what was so before; what is mended stays mended.
    let credentials = "spec.platform.vsphere.credentialsSecretRef.name is missing";
    for command in
        [r#"patch pool lab -p '{"metadata": {"labels": {"a": "b"}}}'"#, "pool scale lab --size 0"]
    {
        let ran = sandbox.run(command);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains(credentials), "{}", ran.err);
    }
    let vsphere = r#"{"credentialsSecretRef": {"name": "s"}}"#;
    let ran = sandbox.run(&format!(
        r#"patch pool lab -p '{{"spec": {{"platform": {{"vsphere": {vsphere}}}}}}}'"#
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains(credentials), "{}", ran.err);
    let emptied = r#"{"spec": {"platform": {"vsphere": {"credentialsSecretRef": null}}}}"#;
    sandbox.refused(1, &format!("patch pool lab -p '{emptied}'"), credentials);
}

/// A cluster by hand that says more than its image set does.
pub const BY_HAND: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: hand}
stringData:
  username: u
  password: p
  variable: from-a-secret
  install-config.yaml: "{apiVersion: v1, metadata: {name: hand}, platform: {vsphere: {network: machines}}}"
---
apiVersion: v1
kind: Secret
metadata: {name: manifests, namespace: hand}
stringData: {99-extra.yaml: "kind: Extra"}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: hand, namespace: hand}
spec:
  clusterName: hand
  baseDomain: example.com
  platform: {vsphere: {vCenter: vcenter.example.com, datacenter: lab, defaultDatastore: fast,
    credentialsSecretRef: {name: s}, certificatesSecretRef: {name: s}}}
  provisioning:
    imageSetRef: {name: ocp}
    releaseImage: example.com/ocp:4.17.1-x86_64
    installConfigSecretRef: {name: s}
    manifestsSecretRef: {name: manifests}
    installerEnv: [{name: OPENSHIFT_INSTALL_X, valueFrom: {secretKeyRef: {name: s, key: variable}}}]
"#;

#[test]
fn the_release_manifests_and_variables_that_a_cluster_names_itself_count() {
    let lab = Lab::new();
    apply(&lab.sandbox, BY_HAND);
    // The installer at hand is of 4.18.3, as the image set is.
    let message = "example.com/ocp:4.17.1-x86_64";
    lab.wait_until("refused", |lab| lab.sandbox.ok("events -A").contains(message));
    std::fs::write(lab.bin("version"), "4.17.1").unwrap();
    lab.sandbox.ok("cluster retry hand -n hand -q");
    lab.wait_until("installed", |lab| {
        lab.sandbox.ok("get cluster -A --no-headers").contains("Installed")
    });
    assert!(lab.ledger().contains(&"given OPENSHIFT_INSTALL_X=from-a-secret".to_owned()));
    assert!(lab.ledger().contains(&"manifest 99-extra.yaml".to_owned()), "{:?}", lab.ledger());
}

#[test]
fn all_secrets_that_a_cluster_names_and_that_are_not_there_are_said_at_once() {
    let lab = Lab::new();
    let manifest = BY_HAND
        .replace("installConfigSecretRef: {name: s}", "installConfigSecretRef: {name: config}")
        .replace("credentialsSecretRef: {name: s}", "credentialsSecretRef: {name: login}");
    let path = lab.sandbox.write_file("hand.yaml", &manifest);
    let ran = lab.sandbox.run(&format!("apply -f {path}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for secret in ["config", "login"] {
        let warning = format!("there is no Secret `{secret}`");
        assert!(in_one_line(&ran.err).contains(&warning), "{}", ran.err);
    }
    lab.wait_until("failed", |lab| {
        lab.sandbox.ok("get cluster -A --no-headers").contains("Retrying")
    });
    let why = lab.sandbox.ok("why cluster/hand -n hand");
    let sentence = "the cluster lacks Secret `config` of spec.provisioning.installConfigSecretRef \
                    and Secret `login` of spec.platform.vsphere.credentialsSecretRef; next: \
                    poolctl secret create config -n hand --from-file=install-config.yaml=FILE";
    assert!(in_one_line(&why).contains(sentence), "{why}");
    let cluster = lab.sandbox.ok("get cluster hand -n hand -o yaml");
    assert!(cluster.contains("SetupMissing"), "{cluster}");
    assert!(lab.ledger().is_empty(), "{:?}", lab.ledger());
}

#[test]
fn an_installation_without_a_secret_that_it_needs_fails_for_missing_setup() {
    for (before, after) in [
        ("manifestsSecretRef: {name: manifests}", "manifestsSecretRef: {name: later}"),
        ("secretKeyRef: {name: s, key: variable}", "secretKeyRef: {name: later, key: variable}"),
    ] {
        let lab = Lab::new();
        std::fs::write(lab.bin("version"), "4.17.1").unwrap();
        apply(&lab.sandbox, &BY_HAND.replace(before, after));
        lab.wait_until("failed", |lab| {
            lab.sandbox.ok("get cluster -A --no-headers").contains("Retrying")
        });
        for command in ["events -A", "why cluster/hand -n hand"] {
            let output = lab.sandbox.ok(command);
            assert!(output.contains("`later`"), "{command}: {output}");
        }
        let cluster = lab.sandbox.ok("get cluster hand -n hand -o yaml");
        assert!(cluster.contains("SetupMissing"), "{cluster}");
        apply(
            &lab.sandbox,
            "apiVersion: v1\nkind: Secret\nmetadata: {name: later, namespace: hand}\n\
             stringData: {99-extra.yaml: 'kind: Extra', variable: from-a-secret}\n",
        );
        lab.sandbox.ok("cluster retry hand -n hand -q");
        lab.wait_until("installed", |lab| {
            lab.sandbox.ok("get cluster -A --no-headers").contains("Installed")
        });
    }
}
