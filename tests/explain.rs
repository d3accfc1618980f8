//! Field help: every field has a description, in the schema that manifests are checked against.

use poolctl::model::kinds::Kind;
use poolctl::model::schemas::schema_of_kind;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// Adds every field below a schema, with its path.
fn add_fields(schema: &Value, path: &str, fields: &mut Vec<(String, Value)>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let field_path = format!("{path}.{name}");
        // An optional field is any of its own type and null.
        let mut variants = field["anyOf"].as_array().into_iter().flatten();
        let own_type = variants.find(|variant| variant["type"] != "null").unwrap_or(field);
        let element = own_type.get("items").unwrap_or(own_type);
        fields.push((field_path.clone(), field.clone()));
        add_fields(element, &field_path, fields);
    }
}

/// All fields of a kind, each with its path.
fn fields_of(kind: Kind) -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    add_fields(schema_of_kind(kind), kind.word(), &mut fields);
    fields
}

#[test]
fn every_field_of_every_kind_has_help() {
    let fields: Vec<(String, Value)> = Kind::ALL.iter().flat_map(|kind| fields_of(*kind)).collect();
    assert!(fields.len() > 400, "{}", fields.len());
    for (path, field) in fields {
        let help = field["description"].as_str().unwrap_or_default();
        assert!(!help.is_empty(), "{path} has no help");
    }
}

#[test]
fn every_path_can_be_explained() {
    let sandbox = Sandbox::new();
    let kinds = [Kind::ClusterPool, Kind::Customization, Kind::Settings, Kind::Job];
    for (path, _) in kinds.into_iter().flat_map(fields_of) {
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
    let own = sandbox.ok("explain pool.metadata.annotations");
    assert!(own.contains("  poolctl.dev/refresh <slow, fast or none>, default slow\n"), "{own}");
    let given = sandbox.ok("explain pool.spec.annotations");
    assert!(given.contains("  poolctl.dev/install-timeout <duration>, default 3h\n"), "{given}");
    assert!(!sandbox.ok("explain namespace.metadata.annotations").contains("ANNOTATIONS"));
}

#[test]
fn reasons_of_events_are_explained() {
    let shown = Sandbox::new().ok("explain event.reason");
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
