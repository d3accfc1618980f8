//! Patches of install-configs and manifests: RFC 6902 to the letter for strict pools, Hive's
//! leniency for the others. The cases are data, one JSON object a line.

use serde_json::{Value, json};

use poolctl::model::customization::{Customization, ManifestPatch, Patch};
use poolctl::model::documents::SecretValue;
use poolctl::model::object::Object;
use poolctl::model::pool::{ClusterPool, PoolSpec};
use poolctl::model::template::Template;
use poolctl::render::install_config;
use poolctl::render::manifests::patch_manifests;
use poolctl::render::patch::{PatchRules, apply_patches};
use poolctl::render::redact::redact;

use crate::cases::rows;

const FIELDS: [&str; 5] = ["op", "path", "from", "value", "valueJSON"];

/// Operations as `apply --lenient` reads them: fields that RFC 6902 does not define are ignored.
fn read_patches(mut operations: Value) -> Result<Vec<Patch>, String> {
    for operation in operations.as_array_mut().unwrap() {
        operation.as_object_mut().unwrap().retain(|name, _| FIELDS.contains(&name.as_str()));
    }
    serde_json::from_value(operations).map_err(|error| error.to_string())
}

#[test]
fn patches_do_what_their_cases_say() {
    let rows: Vec<&str> = rows(include_str!("cases/patches.txt")).collect();
    assert!(rows.len() > 110, "{}", rows.len());
    for row in rows {
        let case: Value = serde_json::from_str(row).unwrap();
        let name = case["name"].as_str().unwrap();
        let mut document = case["doc"].clone();
        let rules = PatchRules { strict: case["rules"] != "lenient", allowed: None };
        let result = read_patches(case["patch"].clone())
            .and_then(|patches| apply_patches(&mut document, &patches, rules));
        match (case["refused"].as_str(), result) {
            (Some(message), Err(error)) => {
                assert!(error.contains(message), "{name}: {error}");
                assert_eq!(document, case["doc"], "{name}: half of it was applied");
            }
            (None, Ok(_)) => assert_eq!(document, case["gives"], "{name}"),
            (expected, result) => panic!("{name}: expected {expected:?}, not {result:?}"),
        }
    }
}

#[test]
fn a_template_gets_the_pools_domain_and_the_clusters_name_and_keeps_the_rest() {
    let spec = PoolSpec { base_domain: "new.example.com".into(), ..PoolSpec::default() };
    let template = Template::new(SecretValue::new(
        "apiVersion: v1\nbaseDomain: old.example.com\nmetadata: {name: old, note: kept}\n\
         platform: {none: {}}\nsshKey: key\nunknown: {deep: [1, two]}\n",
    ));
    let base = install_config::render_base(&spec, Some(&template)).unwrap();
    // T-2: the base of a pool has its domain, and every other key as it was.
    let mut expected = json!({
        "apiVersion": "v1", "baseDomain": "new.example.com",
        "metadata": {"name": "old", "note": "kept"},
        "platform": {"none": {}}, "sshKey": "key", "unknown": {"deep": [1, "two"]},
    });
    assert_eq!(base, expected);
    // T-4: the install-config of a cluster has its name, too.
    expected["metadata"]["name"] = "new".into();
    let rendered = install_config::render(&base, "new", None, &ClusterPool::default()).unwrap();
    assert_eq!(rendered.document, expected);
    assert_eq!(rendered.cluster_name, "new");
    assert_eq!(rendered.base_domain, "new.example.com");
}

/// A patch that sets `spec.count` of the manifests that a glob selects.
fn set_count(glob: &str, count: i32) -> ManifestPatch {
    let patch = json!({"op": "replace", "path": "/spec/count", "value": count});
    let manifest_patch = json!({"manifestSelector": {"glob": glob}, "patches": [patch]});
    serde_json::from_value(manifest_patch).unwrap()
}

#[test]
fn patches_of_manifests_stay_in_their_directory_and_come_in_order() {
    let manifest = json!({"spec": {"count": 1}});
    let files = ["manifests/a.yaml", "manifests/b.yaml", "openshift/c.yaml"]
        .map(|path| (path.to_owned(), manifest.clone()))
        .into();
    // The patches of the pool-wide customization come first, so those of the inventory win.
    let patches = [set_count("manifests/*.yaml", 2), set_count("manifests/b.*", 3)];
    let patched_files = patch_manifests(&files, &patches, PatchRules::default()).unwrap();
    for (path, count) in [("manifests/a.yaml", 2), ("manifests/b.yaml", 3), ("openshift/c.yaml", 1)]
    {
        assert_eq!(patched_files[path]["spec"]["count"], count, "{path}");
    }
    for glob in ["nothing/*.yaml", "*.yaml"] {
        let error =
            patch_manifests(&files, &[set_count(glob, 2)], PatchRules::default()).unwrap_err();
        assert!(error.contains("matches no manifest"), "{error}");
    }
    for glob in ["/etc/*", "../x", "manifests/../../x", "", "**/*.yaml", "manifests/[", "[^a]"] {
        let mut customization = Customization::default();
        customization.metadata.name = "wrong".into();
        customization.metadata.namespace = "default".into();
        customization.spec.installer_manifest_patches = vec![set_count(glob, 2)];
        let object = Object::Customization(Box::new(customization));
        assert!(poolctl::rules::check_object(&object).is_err(), "{glob}");
    }
}

#[test]
fn a_patch_that_makes_a_document_too_large_is_refused() {
    let mut operations = vec![json!({"op": "add", "path": "/x", "value": ["a", "b", "c"]})];
    let copy = json!({"op": "copy", "from": "/x", "path": "/x/-"});
    // Each copy of the list into itself doubles it: a few lines would fill all memory.
    operations.extend(std::iter::repeat_n(copy, 40));
    let mut document = json!({});
    let patches = read_patches(Value::Array(operations)).unwrap();
    let error = apply_patches(&mut document, &patches, PatchRules::default()).unwrap_err();
    assert!(error.contains("the result is larger than"), "{error}");
}

#[test]
fn a_secret_is_not_copied_to_where_it_would_be_shown() {
    for (from, path, allowed) in [
        ("/pullSecret", "/metadata/name", false),
        ("/platform/vsphere/password", "/note", false),
        ("/platform/vsphere/password", "/proxy/password", true),
        ("/metadata/name", "/note", true),
    ] {
        let mut document = json!({"pullSecret": "s", "metadata": {"name": "x"},
            "platform": {"vsphere": {"password": "p"}}, "proxy": {}});
        let patch = json!([{"op": "copy", "from": from, "path": path}]);
        let result =
            apply_patches(&mut document, &read_patches(patch).unwrap(), PatchRules::default());
        assert_eq!(result.is_ok(), allowed, "{from} {path}: {result:?}");
    }
}

#[test]
fn what_looks_like_a_secret_is_hidden() {
    for mut document in [
        json!({"passwd": "CANARY"}),
        json!({"apiKey": "CANARY"}),
        json!({"private_key": "CANARY"}),
        json!({"kind": "Secret", "stringData": {"any": "CANARY"}}),
        json!({"additionalTrustBundle": "-----BEGIN PRIVATE KEY-----\nCANARY\n"}),
        json!({"text": "{\"auths\": {\"q\": {\"auth\": \"CANARY\"}}}"}),
        json!({"proxy": "http://a.example.com, http://u:CANARY@b.example.com:3128/"}),
        json!({"proxy": "u:CANARY@b.example.com:3128"}),
    ] {
        redact(&mut document);
        let shown = document.to_string();
        assert!(!shown.contains("CANARY"), "{shown}");
    }
    // A public key and other JSON are no secrets, and people need to see them.
    let plain = json!({"sshKey": "ssh-ed25519 AAAA me@host", "text": "{\"a\": 1}"});
    let mut document = plain.clone();
    redact(&mut document);
    assert_eq!(document, plain);
}
