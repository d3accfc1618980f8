//! Patches through the one way they are applied: RFC 6902 to the letter for strict pools, Hive's
//! leniency for the others. The cases are data, one JSON object a line.

use serde_json::Value;

use poolctl::model::customization::Patch;
use poolctl::model::documents::SecretValue;
use poolctl::model::pool::PoolSpec;
use poolctl::model::state::Template;
use poolctl::render::install_config;
use poolctl::render::patch::{Rules, apply};

const KNOWN: [&str; 5] = ["op", "path", "from", "value", "valueJSON"];

/// As `apply --lenient` reads it, and RFC 6902 asks: what is not known is ignored.
fn read(mut operations: Value) -> Result<Vec<Patch>, String> {
    for one in operations.as_array_mut().unwrap() {
        one.as_object_mut().unwrap().retain(|name, _| KNOWN.contains(&name.as_str()));
    }
    serde_json::from_value(operations).map_err(|why| why.to_string())
}

#[test]
fn patches_do_what_their_cases_say() {
    let text = include_str!("cases/patches.txt");
    let mut tried = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let case: Value = serde_json::from_str(line).unwrap();
        let (name, mut document) = (case["name"].as_str().unwrap(), case["doc"].clone());
        let strict = case["rules"] != "lenient";
        let rules = Rules { strict, allowed: None };
        let done =
            read(case["patch"].clone()).and_then(|patches| apply(&mut document, &patches, rules));
        match (case["refused"].as_str(), done) {
            (Some(says), Err(why)) => {
                assert!(why.contains(says), "{name}: {why}");
                assert_eq!(document, case["doc"], "{name}: half of it was applied");
            }
            (None, Ok(_)) => assert_eq!(document, case["gives"], "{name}"),
            (expected, found) => panic!("{name}: expected {expected:?}, found {found:?}"),
        }
        tried += 1;
    }
    assert!(tried > 110, "{tried}");
}

#[test]
fn a_template_gets_the_pools_domain_and_the_clusters_name_and_keeps_the_rest() {
    let text = "apiVersion: v1\nbaseDomain: old.example.com\nmetadata: {name: old, note: kept}\n\
                platform: {none: {}}\nsshKey: key\nunknown: {deep: [1, two]}\n";
    let base = |domain: &str| {
        let spec = PoolSpec { base_domain: domain.into(), ..PoolSpec::default() };
        let template = Template::new(SecretValue::new(text));
        install_config::base(&spec, Some(&template)).unwrap()
    };
    let before: Value = serde_json::json!({
        "apiVersion": "v1", "baseDomain": "old.example.com",
        "metadata": {"name": "old", "note": "kept"},
        "platform": {"none": {}}, "sshKey": "key", "unknown": {"deep": [1, "two"]},
    });
    // T-2: the domain only.
    let mut expected = before.clone();
    expected["baseDomain"] = "new.example.com".into();
    assert_eq!(base("new.example.com"), expected);
    // T-4: both, and every other key as it was.
    expected["metadata"]["name"] = "new".into();
    let pool = poolctl::model::pool::ClusterPool::default();
    let made = install_config::render(&base("new.example.com"), "new", None, &pool).unwrap();
    assert_eq!(made.document, expected);
    assert_eq!((made.cluster_name.as_str(), made.base_domain.as_str()), ("new", "new.example.com"));
}

#[test]
fn patches_of_manifests_stay_in_their_directory_and_come_in_order() {
    use poolctl::render::manifests::patched;
    let manifest = |path: &str| (path.to_owned(), serde_json::json!({"spec": {"count": 1}}));
    let files = ["manifests/a.yaml", "manifests/b.yaml", "openshift/c.yaml"].map(manifest).into();
    let one = |glob: &str, n: i32| {
        let patch = serde_json::json!({"op": "replace", "path": "/spec/count", "value": n});
        let one = serde_json::json!({"manifestSelector": {"glob": glob}, "patches": [patch]});
        serde_json::from_value(one).unwrap()
    };
    // The pool-wide customization's come first: what the inventory's says holds.
    let all = [one("manifests/*.yaml", 2), one("manifests/b.*", 3)];
    let made = patched(&files, &all, Rules::default()).unwrap();
    let n = |path: &str| made[path]["spec"]["count"].as_i64().unwrap();
    assert_eq!([n("manifests/a.yaml"), n("manifests/b.yaml"), n("openshift/c.yaml")], [2, 3, 1]);
    for (glob, says) in
        [("nothing/*.yaml", "matches no manifest"), ("*.yaml", "matches no manifest")]
    {
        let why = patched(&files, &[one(glob, 2)], Rules::default()).unwrap_err();
        assert!(why.contains(says), "{why}");
    }
    for glob in ["/etc/*", "../x", "manifests/../../x", "", "**/*.yaml", "manifests/[", "[^a]"] {
        let mut wrong = poolctl::model::customization::Customization::default();
        (wrong.metadata.name, wrong.metadata.namespace) = ("wrong".into(), "default".into());
        wrong.spec.installer_manifest_patches = vec![one(glob, 2)];
        let object = poolctl::model::object::Object::Customization(Box::new(wrong));
        assert!(poolctl::rules::check(&object).is_err(), "{glob}");
    }
}

#[test]
fn a_patch_that_grows_and_grows_is_refused() {
    let mut all = vec![serde_json::json!({"op": "add", "path": "/x", "value": ["a", "b", "c"]})];
    let copy = serde_json::json!({"op": "copy", "from": "/x", "path": "/x/-"});
    all.extend(std::iter::repeat_n(copy, 40));
    let mut document = serde_json::json!({});
    let patches = read(Value::Array(all)).unwrap();
    let why = apply(&mut document, &patches, Rules::default()).unwrap_err();
    assert!(why.contains("the result is larger than"), "{why}");
}

#[test]
fn a_secret_is_not_copied_to_where_it_would_be_shown() {
    for (from, path, fine) in [
        ("/pullSecret", "/metadata/name", false),
        ("/platform/vsphere/password", "/note", false),
        ("/platform/vsphere/password", "/proxy/password", true),
        ("/metadata/name", "/note", true),
    ] {
        let mut document = serde_json::json!({"pullSecret": "s", "metadata": {"name": "x"},
            "platform": {"vsphere": {"password": "p"}}, "proxy": {}});
        let patch = serde_json::json!([{"op": "copy", "from": from, "path": path}]);
        let done = apply(&mut document, &read(patch).unwrap(), Rules::default());
        assert_eq!(done.is_ok(), fine, "{from} {path}: {done:?}");
    }
}

#[test]
fn what_looks_like_a_secret_is_hidden() {
    let hidden = |value: Value| {
        let mut value = value;
        poolctl::render::redact::redact(&mut value);
        value.to_string()
    };
    for secret in [
        serde_json::json!({"passwd": "CANARY"}),
        serde_json::json!({"apiKey": "CANARY"}),
        serde_json::json!({"private_key": "CANARY"}),
        serde_json::json!({"kind": "Secret", "stringData": {"any": "CANARY"}}),
        serde_json::json!({"additionalTrustBundle": "-----BEGIN PRIVATE KEY-----\nCANARY\n"}),
        serde_json::json!({"text": "{\"auths\": {\"q\": {\"auth\": \"CANARY\"}}}"}),
        serde_json::json!({"proxy": "http://a.example.com, http://u:CANARY@b.example.com:3128/"}),
        serde_json::json!({"proxy": "u:CANARY@b.example.com:3128"}),
    ] {
        let shown = hidden(secret);
        assert!(!shown.contains("CANARY"), "{shown}");
    }
    let plain = serde_json::json!({"sshKey": "ssh-ed25519 AAAA me@host", "text": "{\"a\": 1}"});
    assert_eq!(hidden(plain.clone()), plain.to_string());
}
