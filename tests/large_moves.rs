//! States that are too large to be read at once: their leases and events are imported in portions.
//! What comes of it, and what is refused, is the same as with a small one.

use std::fmt::Write;
use std::path::Path;

use poolctl::manifest::{ReadOptions, StateText};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, apply};

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
const DATA_KIB: usize = 128 << 10;

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
    let size = 12 << 20;
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
    check("long.yaml", format!("a: {}\n", many("a").repeat(2)), "more than 16777216 bytes");
}

/// Many leases, and the fields of an object that is no good.
fn leases_and(kind: &str, spec: &Value) -> Vec<Value> {
    let ipam = "ipam.metal3.io/v1alpha1";
    let range = json!({"start": "10.0.0.1", "end": "10.3.255.254"});
    let mut items = vec![json!({
        "apiVersion": ipam, "kind": "IPPool", "metadata": {"name": "lan"},
        "spec": {"pools": [range], "prefix": 8},
    })];
    for number in 0..40_000_u32 {
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
