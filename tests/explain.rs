//! Field help: every field has it, from the source that manifests are checked against.

use poolctl::model::kinds::Kind;
use poolctl::model::object::schema;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// Every field below a schema, with its path.
fn fields(schema: &Value, path: &str, see: &mut impl FnMut(&str, &Value)) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let below = format!("{path}.{name}");
        see(&below, field);
        let real =
            field["anyOf"].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null"));
        let real = real.unwrap_or(field);
        fields(real.get("items").unwrap_or(real), &below, see);
    }
}

#[test]
fn every_field_of_every_kind_has_help() {
    let (mut bare, mut all) = (Vec::new(), 0);
    for kind in Kind::ALL {
        fields(schema(*kind), kind.word(), &mut |path, field| {
            all += 1;
            if field["description"].as_str().unwrap_or_default().is_empty() {
                bare.push(path.to_owned());
            }
        });
    }
    assert!(bare.is_empty() && all > 400, "{all}: {bare:#?}");
}

#[test]
fn every_path_can_be_explained() {
    let sandbox = Sandbox::new();
    let mut paths = Vec::new();
    for kind in [Kind::ClusterPool, Kind::Customization, Kind::Settings, Kind::Job] {
        fields(schema(kind), kind.word(), &mut |path, _| paths.push(path.to_owned()));
    }
    for path in paths {
        let shown = sandbox.ok(&format!("explain {path}"));
        let (_, field) = path.split_once('.').unwrap();
        assert!(shown.contains(&format!("FIELD: {field} <")), "{path}: {shown}");
    }
    assert!(sandbox.ok("explain settings.spec.keepEventsDays").contains("default 400"));
    assert!(sandbox.ok("explain clusterpools.hive.openshift.io").contains("KIND:     ClusterPool"));
    assert!(sandbox.ok("explain pool --recursive").contains("      maximum <duration>"));
}

#[test]
fn annotations_of_poolctl_are_explained_where_they_stand() {
    let sandbox = Sandbox::new();
    let own = sandbox.ok(&["explain", "pool.metadata.annotations"]);
    assert!(own.contains("  poolctl.dev/refresh <slow, fast or none>, default slow\n"), "{own}");
    let given = sandbox.ok(&["explain", "pool.spec.annotations"]);
    assert!(given.contains("  poolctl.dev/install-timeout <duration>, default 3h\n"), "{given}");
    assert!(!sandbox.ok(&["explain", "namespace.metadata.annotations"]).contains("ANNOTATIONS"));
}

#[test]
fn reasons_of_events_are_explained() {
    let shown = Sandbox::new().ok(&["explain", "event.reason"]);
    let failed = "  JobFailed\n    A job failed.\n    next: poolctl job logs NAME\n";
    assert!(shown.contains(failed), "{shown}");
}

#[test]
fn explain_says_that_patches_of_manifests_are_applied() {
    let sandbox = Sandbox::new();
    for field in ["manifestSelector", "patches"] {
        let path = format!("cdc.spec.installerManifestPatches.{field}");
        let shown = sandbox.ok(&format!("explain {path}"));
        assert!(!shown.contains("not applied") && !shown.contains("no effect"), "{shown}");
    }
    let shown = sandbox.ok("explain cdc.spec.installerManifestPatches.patches");
    assert!(shown.contains("applied before the installation begins"), "{shown}");
}
