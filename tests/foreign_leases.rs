//! What another program has leased is never leased a second time: an import that cannot keep a
//! lease is refused, unless it is told to leave the lease out.

use crate::sandbox::{Ran, Sandbox};

const POOL: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: lan}
spec: {pools: [{start: 10.0.0.10, end: 10.0.0.10}], prefix: 24}
";

/// Version and kind of objects that are not modelled, and what is said of each.
const FOREIGN: [(&str, &str, &str); 4] = [
    (
        "ipam.cluster.x-k8s.io/v1beta1",
        "IPAddress",
        "IPAddress.ipam.cluster.x-k8s.io `default/x` holds an address, 10.0.0.10",
    ),
    (
        "ipam.cluster.x-k8s.io/v1alpha1",
        "IPAddressClaim",
        "IPAddressClaim.ipam.cluster.x-k8s.io `default/x` holds an address",
    ),
    (
        "infrastructure.cluster.x-k8s.io/v1beta1",
        "Metal3Machine",
        "Metal3Machine.infrastructure.cluster.x-k8s.io `default/x` holds a host",
    ),
    ("metal3.io/v1alpha1", "HostClaim", "HostClaim.metal3.io `default/x` holds a host"),
];

/// The pool, and an object that is not modelled.
fn pool_and_foreign(version: &str, kind: &str) -> String {
    format!("{POOL}{}", foreign(version, kind))
}

fn foreign(version: &str, kind: &str) -> String {
    let spec = if kind == "IPAddress" { "{address: 10.0.0.10}" } else { "{}" };
    format!("---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n")
}

/// Imports a manifest; the options come after the file.
fn import(sandbox: &Sandbox, manifest: &str, options: &str) -> Ran {
    let file = sandbox.write_file("moved.yaml", manifest);
    sandbox.run(&format!("import {file} {options}"))
}

/// Expects that an import succeeds with so many objects; returns the warnings.
fn imports(sandbox: &Sandbox, manifest: &str, options: &str, count: usize) -> String {
    let ran = import(sandbox, manifest, options);
    let objects = if count == 1 { "object" } else { "objects" };
    assert_eq!((ran.code, ran.out), (0, format!("{count} {objects} imported\n")), "{}", ran.err);
    ran.err
}

/// Expects that an import is refused, names the kind to skip, and imports nothing.
fn refuses(manifest: &str, message: &str, kind: &str) {
    let sandbox = Sandbox::new();
    let ran = import(&sandbox, manifest, "");
    assert_eq!(ran.code, 4, "{message}: {}{}", ran.out, ran.err);
    assert!(ran.err.contains(message), "{message}: {}", ran.err);
    assert!(ran.err.contains(&format!("moved.yaml --skip {kind}")), "{}", ran.err);
    assert!(!sandbox.state().exists(), "{message}");
}

#[test]
fn a_lease_of_a_kind_that_is_not_modelled_stops_the_import() {
    for (version, kind, message) in FOREIGN {
        let (group, _) = version.split_once('/').unwrap();
        refuses(&pool_and_foreign(version, kind), message, &format!("{kind}.{group}"));
    }
    // All of them are named at once, with their lines and columns.
    let objects = FOREIGN.map(|(version, kind, _)| foreign(version, kind)).concat();
    let ran = import(&Sandbox::new(), &format!("{POOL}{objects}"), "--skip HostClaim");
    assert_eq!((ran.code, ran.err.matches("cause: ").count()), (4, 3), "{}", ran.err);
    assert!(ran.err.contains("moved.yaml:6:1: IPAddress.ipam"), "{}", ran.err);
    assert!(ran.err.contains("--skip HostClaim --skip IPAddress.ipam"), "{}", ran.err);
}

#[test]
fn a_kind_that_is_skipped_is_left_out_and_each_lease_of_it_named() {
    for (version, kind, message) in FOREIGN {
        let manifest = pool_and_foreign(version, kind);
        let (group, _) = version.split_once('/').unwrap();
        for option in [format!("--skip {kind}"), format!("--skip {kind}.{group}")] {
            let warnings = imports(&Sandbox::new(), &manifest, &option, 1);
            let warning = format!("{message}; it is skipped, and poolctl will not know of it");
            assert!(warnings.contains(&warning), "{message}: {warnings}");
        }
    }
    // A kind is not taken for another of the same name.
    let (version, kind, _) = FOREIGN[0];
    let manifest = pool_and_foreign(version, kind);
    let ran = import(&Sandbox::new(), &manifest, "--skip IPAddress.ipam.metal3.io");
    assert_eq!(ran.code, 4, "{}", ran.err);
    let ran = import(&Sandbox::new(), &manifest, "--skip IPAddres");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("did you mean `IPAddress`?"), "{}", ran.err);
}

#[test]
fn an_address_of_metal3_that_cannot_be_placed_stops_the_import() {
    let address = "---\napiVersion: ipam.metal3.io/v1alpha1\nkind: IPAddress\n\
                   metadata: {name: other-10-0-0-10}\n\
                   spec: {address: 10.0.0.10, claim: {name: db}, pool: {name: other}}\n";
    let claim = "---\napiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\n\
                 metadata: {name: db}\nspec: {pool: {name: lan}}\n\
                 status: {address: {name: lan-10-0-0-10}}\n";
    for (object, message, kind) in [
        (
            address,
            "`default/other-10-0-0-10` holds 10.0.0.10 of IPPool `other`, which is not in the file",
            "IPAddress.ipam.metal3.io",
        ),
        (
            claim,
            "`default/db` holds IPAddress `lan-10-0-0-10`, which is not in the file",
            "IPClaim.ipam.metal3.io",
        ),
    ] {
        let manifest = format!("{POOL}{object}");
        refuses(&manifest, message, kind);
        let sandbox = Sandbox::new();
        let warnings = imports(&sandbox, &manifest, &format!("--skip {kind}"), 1);
        assert!(warnings.contains(message), "{message}: {warnings}");
        assert_eq!(sandbox.ok("get ipclaim,ipaddress -o name"), "");
    }
    // A claim that waits holds nothing.
    let waiting_claim = claim.replace("status: {address: {name: lan-10-0-0-10}}\n", "");
    imports(&Sandbox::new(), &format!("{POOL}{waiting_claim}"), "", 2);
}

#[test]
fn apply_leaves_out_what_is_not_modelled_with_a_warning() {
    for (version, kind, _) in FOREIGN {
        let sandbox = Sandbox::new();
        let file = sandbox.write_file("a.yaml", &pool_and_foreign(version, kind));
        let ran = sandbox.run(&format!("apply -f {file}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(
            ran.err.contains(&format!("{kind} ({version}) is not modelled; 1 object is skipped")),
            "{kind}"
        );
        assert!(sandbox.state().exists());
    }
}

#[test]
fn addresses_that_only_a_list_or_the_status_of_a_pool_names_stop_the_import() {
    let list = "---\napiVersion: ipam.cluster.x-k8s.io/v1beta1\nkind: IPAddressList\n\
                items: [{metadata: {name: x}, spec: {address: 10.0.0.10}}]\n";
    let message = "IPAddress.ipam.cluster.x-k8s.io `default/` holds an address";
    refuses(&format!("{POOL}{list}"), message, "IPAddress.ipam.cluster.x-k8s.io");
    let status = format!("{POOL}status: {{allocations: {{db: 10.0.0.10}}}}\n");
    let message = "IPPool `default/lan` has given 10.0.0.10 to IPClaim `db`";
    refuses(&status, message, "IPAddress.ipam.metal3.io");
    imports(&Sandbox::new(), &status, "--skip IPAddress.ipam.metal3.io", 1);
}
