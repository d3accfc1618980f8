//! States that are too large to be read at once: their clusters, leases and events are imported in
//! portions.
//! What comes of it, and what is refused, is the same as with a small one.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use poolctl::manifest::{ReadOptions, StateText};
use poolctl::model::kinds::Kind;
use poolctl::model::object::Object;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, apply, create_customization, jsonpath};

const MANIFEST: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: lan}
spec:
  pools: [{start: 10.0.0.1, end: 10.0.39.254}]
  prefix: 16
  gateway: 10.0.0.1
  allocationStrategy: sequential
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: full, annotations: {poolctl.dev/share-with: dev}}
spec: {pools: [{start: 10.9.0.1, end: 10.9.0.2}], prefix: 24}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPAddress
metadata: {name: full-10-9-0-1}
spec: {address: 10.9.0.1, prefix: 24, claim: {name: by-hand}, pool: {name: full}}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: shared, namespace: dev, labels: {team: web}}
spec: {pool: {name: full, namespace: default}}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: waits}
spec: {pool: {name: full}}
";

/// More than are in memory at once, and than fit into a text that is read at once.
const LEASES: usize = 1100;

fn sandbox_with_leases() -> Sandbox {
    let sandbox = Sandbox::new();
    let file = sandbox.write_file("addresses.yaml", MANIFEST);
    sandbox.ok(&format!("apply -f {file}"));
    sandbox.ok(&format!("ip claim lan node --count {LEASES} -q"));
    sandbox.ok("ip claim lan web --dns-name www --mac 52:54:00:00:00:01 --comment web --for 8h");
    sandbox
}

#[test]
fn a_large_state_is_imported_in_portions_and_equal() {
    let sandbox = sandbox_with_leases();
    let exported = sandbox.ok("export");
    let file = sandbox.write_file("all.yaml", &exported);
    let reading = ReadOptions { namespace: "default", moves_state: true, ..ReadOptions::default() };
    let source = StateText::open(Path::new(&file), sandbox.path()).unwrap();
    let (manifests, spool) = source.read_to_spool(&reading, sandbox.path()).unwrap().unwrap();
    // The pools, and in the spool two objects of each lease, the address by hand and two claims.
    assert_eq!(manifests.objects.len(), 2);
    assert_eq!(spool.object_count(), 2 * (LEASES + 1) + 1 + 3);

    let moved = Sandbox::new();
    moved.ok(&format!("import {file}"));
    assert_eq!(moved.ok("export"), exported);
    moved.ok("doctor");
    // Beside the state nothing is left.
    for entry in std::fs::read_dir(moved.path()).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(name.to_string_lossy().starts_with("state.db"), "{name:?}");
    }
    assert!(moved.ok(&format!("import {file}")).contains("unchanged"));

    // As metal3 has it: the pool lists its leases, too.
    let mut list: Value = serde_json::from_str(&sandbox.ok("export -o json")).unwrap();
    let claim = sandbox.ok("get ipaddress lan-10-0-0-2 -o 'jsonpath={.spec.claim.name}'");
    list["items"][0]["status"]["indexes"] = json!({ claim: "10.0.0.2" });
    let file = sandbox.write_file("all.json", &format!("{list:#}"));
    let source = StateText::open(Path::new(&file), sandbox.path()).unwrap();
    assert!(source.read_to_spool(&reading, sandbox.path()).unwrap().is_some());
    let piped = Sandbox::new();
    let ran = piped.shell(&format!("poolctl import - < {file}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(piped.ok("export"), exported);
}

/// A customization that gives its cluster an address which the state has leased.
const FIXED_ADDRESS: &str = "apiVersion: hive.openshift.io/v1
kind: ClusterDeploymentCustomization
metadata: {name: slot}
spec:
  installConfigPatches:
  - {op: add, path: /platform/vsphere/apiVIPs, valueJSON: '[\"10.0.0.2\"]'}
";

/// The leases of a large state are not among its objects, so its addresses were called free.
#[test]
fn an_address_of_a_customization_that_a_large_state_leases_is_not_called_free() {
    let sandbox = sandbox_with_leases();
    apply(&sandbox, FIXED_ADDRESS);
    let file = sandbox.write_file("all.yaml", &sandbox.ok("export"));
    let moved = Sandbox::new();
    let ran = moved.run(&format!("import {file}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("may lease addresses"), "{}", ran.err);
    moved.ok("get ipaddress lan-10-0-0-2");
}

#[test]
fn leases_of_a_large_state_that_do_not_go_together_are_refused_and_no_state_is_made() {
    let sandbox = sandbox_with_leases();
    let list: Value = serde_json::from_str(&sandbox.ok("export -o json")).unwrap();
    let items = list["items"].as_array().unwrap();
    let position_of = |kind: &str, name: &str| {
        let is_wanted = |item: &Value| item["kind"] == kind && item["metadata"]["name"] == name;
        items.iter().position(is_wanted).unwrap()
    };
    let address = position_of("IPAddress", "lan-10-0-0-2");
    let claim = items[address]["spec"]["claim"]["name"].as_str().unwrap();
    let mut second_claim = items[address].clone();
    second_claim["metadata"]["name"] = json!("second");
    second_claim["spec"]["claim"]["name"] = json!("second");
    let mut of_lost_pool = items[address].clone();
    of_lost_pool["spec"]["pool"]["name"] = json!("lost");
    let mut pool_with_more = items[0].clone();
    pool_with_more["status"]["indexes"] = json!({"nobody": "10.0.0.99"});
    let mut of_other_pool = items[position_of("IPClaim", claim)].clone();
    of_other_pool["spec"]["pool"]["name"] = json!("full");
    for (removed, added, message) in [
        (None, Some(items[address].clone()), "the file has ipaddress `default/lan-10-0-0-2` twice"),
        (None, Some(second_claim), "the file has two claims of 10.0.0.2"),
        (
            Some(address),
            Some(of_lost_pool),
            "`default/lan-10-0-0-2` holds 10.0.0.2 of IPPool `lost`, which is not in the file",
        ),
        (Some(address), None, "holds IPAddress `lan-10-0-0-2`, which is not in the file"),
        (Some(0), Some(pool_with_more), "has given 10.0.0.99 to IPClaim `nobody`"),
        (Some(position_of("IPClaim", claim)), Some(of_other_pool), "spec.pool cannot be modified"),
    ] {
        let mut edited_items = items.clone();
        if let Some(position) = removed {
            edited_items.remove(position);
        }
        edited_items.extend(added);
        let document = json!({"apiVersion": "v1", "kind": "List", "items": edited_items});
        let file = sandbox.write_file("edited.json", &format!("{document:#}"));
        let new_state = Sandbox::new();
        let ran = new_state.run(&format!("import {file}"));
        assert!(ran.code != 0 && ran.err.contains(message), "{message}: {}", ran.err);
        assert!(!new_state.state().exists(), "{message}");
    }
}

#[test]
fn an_object_that_a_file_has_twice_is_refused_with_both_places() {
    let sandbox = Sandbox::new();
    let file = sandbox.write_file("twice.yaml", &format!("{MANIFEST}---\n{MANIFEST}"));
    let error = sandbox.refused(1, &format!("import {file}"), "twice");
    assert!(error.contains(&format!("{file}:1:1 has it first")), "{error}");
    assert!(error.contains(&format!("{file}:30:1 has it again")), "{error}");
}

/// Memory for data that a command may use, in KiB: twice of what any of these imports needs.
const DATA_KIB: usize = 64 << 10;

/// Imports a file with little memory, and returns what was told. It is refused, and leaves no state.
fn refused_in_little_memory(content: &str, name: &str) -> String {
    let sandbox = Sandbox::new();
    let file = sandbox.write_file(name, content);
    let ran = sandbox.shell(&format!("ulimit -d {DATA_KIB}; poolctl import {file}"));
    let start: String = ran.err.chars().take(2000).collect();
    assert_eq!(ran.code, 1, "{name}: {start}");
    assert!(ran.err.len() < 64 << 10, "{name}: {start}");
    assert!(!sandbox.state().exists(), "{name}");
    ran.err
}

/// A file of tiny items took a hundred times the memory of its text, because everything in it became
/// nodes, and each wrong item a refusal, before it was refused.
#[test]
fn large_files_of_tiny_items_are_refused_in_little_memory() {
    let size = 4 << 20;
    let many = |item: &str| item.repeat(size / item.len());
    let head = "apiVersion: v1\nkind: List\nitems:\n";
    let json_head = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[";
    let pool = "- apiVersion: hive.openshift.io/v1\n  kind: ClusterPool\n  spec:\n    labels:\n";
    let not_read = "has 1000 problems or more; the rest is not read";
    let check = |name: &str, content: String, message: &str| {
        let told = refused_in_little_memory(&content, name);
        let start: String = told.chars().take(2000).collect();
        assert!(told.contains(message), "{name}: {start}");
    };
    check("list.yaml", many("- a\n"), "too many values");
    check("flow.yaml", format!("[{}1]\n", many("1,")), "too many values");
    check("mapping.yaml", format!("a:\n{}", many("  - a\n")), "too many values");
    check("field.yaml", format!("{head}{pool}{}", many("    - a\n")), "too many values");
    check("documents.yaml", many("---\n{}\n"), not_read);
    check("items.yaml", format!("{head}{}", many("- {}\n")), "items.yaml:4:3: the object needs");
    check("indented.yaml", format!("{head}{}", many("  - {}\n")), "indented.yaml:4:5: the object");
    check("others.yaml", format!("{head}{}", many("- kind: X\n")), "there is nothing to import");
    let json_items = format!("{json_head}{}{{}}]}}", many("{},"));
    check("items.json", json_items, "items.json:1:43: the object needs");
    check("field.json", format!("{{\"a\":[{}1]}}", many("1,")), "too many values");
    check("documents.json", many("{}"), not_read);
    check("long.yaml", format!("a: {}\n", "a".repeat(24 << 20)), "more than 16777216 bytes");
}

/// Many leases, and the fields of an object that is no good.
fn leases_and(kind: &str, spec: &Value) -> Vec<Value> {
    let ipam = "ipam.metal3.io/v1alpha1";
    let range = json!({"start": "10.0.0.1", "end": "10.3.255.254"});
    let mut items = vec![json!({
        "apiVersion": ipam, "kind": "IPPool", "metadata": {"name": "lan"},
        "spec": {"pools": [range], "prefix": 8},
    })];
    for number in 0..12_000_u32 {
        let address = std::net::Ipv4Addr::from((10 << 24) + 2 + number).to_string();
        let name = format!("lan-{}", address.replace('.', "-"));
        let claim = format!("node-{number}");
        items.push(json!({
            "apiVersion": ipam, "kind": "IPAddress", "metadata": {"name": name},
            "spec": {
                "address": address, "prefix": 8, "claim": {"name": claim}, "pool": {"name": "lan"}
            },
        }));
        items.push(json!({
            "apiVersion": ipam, "kind": "IPClaim", "metadata": {"name": claim},
            "spec": {"pool": {"name": "lan"}}, "status": {"address": {"name": name}},
        }));
    }
    let metadata = json!({"name": "wrong"});
    items.push(json!({"apiVersion": ipam, "kind": kind, "metadata": metadata, "spec": spec}));
    items
}

/// The whole file was read again as nodes, to find the line of what is wrong.
#[test]
fn a_wrong_object_of_a_large_state_is_refused_with_its_line_in_little_memory() {
    for kind in ["IPClaim", "IPPool"] {
        let items = leases_and(kind, &json!({"pool": {"name": "lan"}, "nonsense": 1}));
        let document = json!({"apiVersion": "v1", "items": items, "kind": "List"});
        let json = format!("{document:#}\n");
        let mut yaml = String::from("apiVersion: v1\nitems:\n");
        for item in &items {
            writeln!(yaml, "- apiVersion: {}", item["apiVersion"]).unwrap();
            for field in ["kind", "metadata", "spec", "status"] {
                if let Some(value) = item.get(field) {
                    writeln!(yaml, "  {field}:\n    {value}").unwrap();
                }
            }
        }
        yaml += "kind: List\n";
        for (name, content) in [("leases.json", json), ("leases.yaml", yaml)] {
            let told = refused_in_little_memory(&content, name);
            let number = content.lines().position(|line| line.contains("nonsense")).unwrap();
            let line = content.lines().nth(number).unwrap();
            let column = line.find("\"nonsense\"").unwrap() + 1;
            let message = format!("{name}:{}:{column}: unknown field `spec.nonsense`", number + 1);
            assert!(told.contains(&message), "{message}: {told}");
        }
    }
}

/// Only the plain List that `export` writes was read object by object.
#[test]
fn documents_and_indented_items_of_a_large_state_are_imported_in_portions() {
    let sandbox = sandbox_with_leases();
    let exported = sandbox.ok("export");
    let list: Value = serde_json::from_str(&sandbox.ok("export -o json")).unwrap();
    let mut documents = String::new();
    let mut items = String::from("kind: List\napiVersion: v1\nitems:\n");
    for item in list["items"].as_array().unwrap() {
        writeln!(documents, "---\n{item:#}").unwrap();
        writeln!(items, "  -\n    {item}").unwrap();
    }
    // A comment makes it large.
    let comment = format!("# {}\n", "x".repeat(1 << 20));
    for content in [format!("{comment}{documents}"), format!("{items}{comment}")] {
        let file = sandbox.write_file("edited.yaml", &content);
        let source = StateText::open(Path::new(&file), sandbox.path()).unwrap();
        let reading =
            ReadOptions { namespace: "default", moves_state: true, ..ReadOptions::default() };
        assert!(source.read_to_spool(&reading, sandbox.path()).unwrap().is_some());
        let moved = Sandbox::new();
        moved.ok(&format!("import {file}"));
        assert_eq!(moved.ok("export"), exported);
    }
}

/// A state with clusters of every kind: ready, claimed, installed from another version of their pool,
/// with a customization, being deleted, and in no pool.
fn sandbox_with_clusters() -> Sandbox {
    let sandbox = Sandbox::new();
    for pool in ["a", "b"] {
        sandbox.create_ready_pool(pool, 3);
    }
    create_customization(&sandbox, "slot", "slot");
    let fake = "--fake --fake-install-duration 1s";
    sandbox
        .ok(&format!("pool create slots {fake} --size 1 --running-count 1 --customization slot"));
    // Another pool that lists the customization, and whose claim waits for it.
    sandbox.ok(&format!("pool create rivals {fake} --size 1 --customization slot"));
    sandbox.ok("claim rivals queued");
    sandbox.ok("secret create notes --from-file Cargo.toml");
    for claim in ["a first", "b second", "a third", "b going"] {
        sandbox.ok(&format!("claim {claim}"));
    }
    sandbox.ok("reconcile --wait");
    sandbox.ok("release going -y");
    sandbox.ok(
        "patch pool b --type merge -p '{\"spec\":{\"baseDomain\":\"new.example\"}}' --no-reconcile",
    );
    sandbox.ok("claim b waits --no-reconcile");
    sandbox
}

/// What an import of a list says and makes, and what `doctor` says of it. Rows of Secrets and of jobs may come in another order.
fn import_list(
    items: &[Value],
    is_large: bool,
    is_in_portions: bool,
) -> (i32, String, BTreeSet<String>) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    // Spaces make it large.
    let rest = if is_large { " ".repeat(1 << 20) } else { String::new() };
    let sandbox = Sandbox::new();
    let file = sandbox.write_file("all.json", &format!("{list:#}\n{rest}"));
    let ran = sandbox.run(&format!("import {file}"));
    let told = ran.err.replace(&file, "FILE");
    if ran.code != 0 {
        assert!(!sandbox.state().exists());
        return (ran.code, told, BTreeSet::new());
    }
    let doctor = sandbox.run("doctor").out;
    let made = export_items(&sandbox);
    assert_eq!(has_rows_by_pool(&made), is_in_portions, "{told}");
    (ran.code, told + &doctor, made.iter().map(Value::to_string).collect())
}

/// Whether the Secrets of a pool's clusters stand together: only an import in portions writes the rows
/// of one pool after those of another.
fn has_rows_by_pool(items: &[Value]) -> bool {
    let secrets = items.iter().filter(|item| item["kind"] == "Secret");
    let mut pools: Vec<&str> = Vec::new();
    for namespace in secrets.filter_map(|secret| secret["metadata"]["namespace"].as_str()) {
        let pool = namespace.split_once('-').map_or(namespace, |(pool, _)| pool);
        if pools.last() != Some(&pool) {
            pools.push(pool);
        }
    }
    pools.iter().filter(|pool| **pool == "a").count() < 2
}

/// What an export has, with the values of Secrets.
fn export_items(sandbox: &Sandbox) -> Vec<Value> {
    let file = sandbox.path().join("export.json");
    sandbox.ok(&format!("export -o json --include-secrets {}", file.display()));
    let list: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// Clusters of a large state are put aside and read again pool by pool, and the result is the same.
#[test]
fn clusters_of_a_large_state_are_imported_like_those_of_a_small_one() {
    let sandbox = sandbox_with_clusters();
    let items = export_items(&sandbox);
    let text = format!("{:#}\n{}", json!({"kind": "List", "items": items}), " ".repeat(1 << 20));
    let source = StateText::open(Path::new(&sandbox.write_file("all.json", &text)), sandbox.path());
    let reading = ReadOptions { namespace: "default", moves_state: true, ..ReadOptions::default() };
    let (kept, spool) = source.unwrap().read_to_spool(&reading, sandbox.path()).unwrap().unwrap();
    // Those of pool `b`, whose clusters are of an earlier version, and that with a customization.
    let is_cluster = |object: &&Object| object.kind() == Kind::ClusterDeployment;
    let all_clusters = items.iter().filter(|item| item["kind"] == "ClusterDeployment").count();
    let kept_clusters = kept.objects.iter().filter(is_cluster).count();
    assert!(spool.clusters.has_any() && kept_clusters < all_clusters && kept_clusters > 1);
    let position_of = |kind: &str, is_wanted: &dyn Fn(&Value) -> bool| {
        items.iter().position(|item| item["kind"] == kind && is_wanted(item)).unwrap()
    };
    let cluster = position_of("ClusterDeployment", &|item| {
        item["spec"]["clusterPoolRef"]["claimName"] == "first"
    });
    let claim = position_of("ClusterClaim", &|item| item["metadata"]["name"] == "first");
    let secret = position_of("Secret", &|item| {
        item["metadata"]["namespace"] == items[cluster]["metadata"]["namespace"]
    });
    let without = |position: usize| {
        let mut left = items.clone();
        left.remove(position);
        left
    };
    let twice = |position: usize| [&items[..], &items[position..=position]].concat();
    let reversed: Vec<Value> = items.iter().rev().cloned().collect();
    let mut with_two_holders = items.clone();
    for item in &mut with_two_holders {
        if item["spec"]["clusterPoolRef"]["poolName"] == "a" {
            item["spec"]["clusterPoolRef"]["claimName"] = json!("first");
        }
    }
    let mut without_values = items.clone();
    for item in &mut without_values {
        if item["kind"] == "Secret" {
            item.as_object_mut().unwrap().remove("data");
        }
    }
    // Whether poolctl has kept a pool before is told by its status, and by any job of the file.
    let mut like_those_of_a_hive = items.clone();
    like_those_of_a_hive.retain(|item| item["kind"] != "Job" || item["spec"]["pool"] == "a");
    for item in like_those_of_a_hive.iter_mut().filter(|item| item["kind"] == "ClusterPool") {
        item.as_object_mut().unwrap().remove("status");
    }
    for (name, items, is_in_portions) in [
        ("as it is", items.clone(), true),
        ("without a cluster", without(cluster), false),
        ("without a claim", without(claim), false),
        ("without a secret", without(secret), true),
        ("with a cluster twice", twice(cluster), false),
        ("with a claim twice", twice(claim), false),
        ("with a secret twice", twice(secret), false),
        ("with two clusters of a claim", with_two_holders, false),
        ("without values", without_values, true),
        ("like those of a Hive", like_those_of_a_hive, true),
        ("from its end", reversed, false),
    ] {
        let (code, told, made) = import_list(&items, true, is_in_portions);
        let (code_of_small, told_of_small, made_of_small) = import_list(&items, false, false);
        assert_eq!((code, &*told), (code_of_small, &*told_of_small), "{name}");
        let differing: Vec<&String> = made.symmetric_difference(&made_of_small).collect();
        assert!(differing.is_empty(), "{name}: {differing:#?}");
    }
}

/// More clusters of a pool than are in memory at once come in portions, and its claims with the last.
#[test]
fn a_pool_that_is_larger_than_a_portion_is_imported_in_several() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("big", 203);
    sandbox.ok("claim big first");
    sandbox.ok("claim big second");
    let items = export_items(&sandbox);
    let file = sandbox.path().join("export.json");
    let source = StateText::open(&file, sandbox.path()).unwrap();
    let reading = ReadOptions { namespace: "default", moves_state: true, ..ReadOptions::default() };
    let (_, mut spool) = source.read_to_spool(&reading, sandbox.path()).unwrap().unwrap();
    let mut parts: Vec<(bool, usize, usize)> = Vec::new();
    let count_kind =
        |objects: &[Object], kind| objects.iter().filter(|object| object.kind() == kind).count();
    spool
        .clusters
        .visit_parts(&reading, &mut |part| {
            let objects = &part.manifests.objects;
            let clusters = count_kind(objects, Kind::ClusterDeployment);
            parts.push((part.is_last, clusters, count_kind(objects, Kind::ClusterClaim)));
            Ok(())
        })
        .unwrap();
    assert_eq!(parts, [(false, 200, 0), (true, 5, 2)]);

    let moved = Sandbox::new();
    moved.ok(&format!("import {}", file.display()));
    let texts = |items: &[Value]| items.iter().map(Value::to_string).collect::<BTreeSet<_>>();
    let moved_items = texts(&export_items(&moved));
    let differing: Vec<_> = moved_items.symmetric_difference(&texts(&items)).cloned().collect();
    assert!(differing.is_empty(), "{differing:#?}");
    moved.ok("doctor");
}

/// When a job that has no end is said to have broken off follows from all that the file has, also from
/// events, which are put aside.
#[test]
fn a_job_in_flight_broke_off_after_the_last_event_of_a_large_state() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1");
    let mut items = export_items(&sandbox);
    for item in &mut items {
        match item["kind"].as_str() {
            Some("Event") => item["eventTime"] = json!("2027-01-01T00:00:00Z"),
            Some("Job") => {
                item["status"].as_object_mut().unwrap().retain(|field, _| field == "started");
            }
            _ => {}
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = sandbox.write_file("all.json", &format!("{list}{}", " ".repeat(1 << 20)));
    let moved = Sandbox::new();
    moved.ok(&format!("import {file}"));
    let ended = jsonpath(&moved, "job", "{.items[0].status.ended}");
    assert_eq!(ended, "2027-01-01T00:00:00Z");
}
