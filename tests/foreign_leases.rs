//! What another program leases is leased again by nobody: an import that cannot keep a lease is
//! refused, or told to leave it out.

use crate::sandbox::{Ran, Sandbox};

const POOL: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: lan}
spec: {pools: [{start: 10.0.0.10, end: 10.0.0.10}], prefix: 24}
";

/// Objects of kinds that are not modelled, and what is said of each.
const FOREIGN: [(&str, &str, &str); 6] = [
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
        "Metal3Data",
        "Metal3Data.infrastructure.cluster.x-k8s.io `default/x` holds an index of a template",
    ),
    (
        "infrastructure.cluster.x-k8s.io/v1beta1",
        "Metal3DataClaim",
        "Metal3DataClaim.infrastructure.cluster.x-k8s.io `default/x` holds an index of a template",
    ),
    (
        "infrastructure.cluster.x-k8s.io/v1beta1",
        "Metal3Machine",
        "Metal3Machine.infrastructure.cluster.x-k8s.io `default/x` holds a host",
    ),
    ("metal3.io/v1alpha1", "HostClaim", "HostClaim.metal3.io `default/x` holds a host"),
];

fn foreign(version: &str, kind: &str) -> String {
    let spec = if kind == "IPAddress" { "{address: 10.0.0.10}" } else { "{}" };
    format!("---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n")
}

/// Imports a text into a state that is not there yet.
fn import(sandbox: &Sandbox, text: &str, options: &[&str]) -> Ran {
    let file = sandbox.file("moved.yaml", text);
    let mut arguments = vec!["import", file.as_str()];
    arguments.extend(options);
    sandbox.run(&arguments)
}

/// Refused by name, and nothing is imported.
fn refused(text: &str, says: &str, skip: &str) {
    let sandbox = Sandbox::new();
    let ran = import(&sandbox, text, &[]);
    assert_eq!(ran.code, 4, "{says}: {}{}", ran.out, ran.err);
    assert!(ran.err.contains(says), "{says}: {}", ran.err);
    assert!(ran.err.contains(&format!("moved.yaml --skip {skip}")), "{}", ran.err);
    assert!(!sandbox.state().exists(), "{says}");
}

#[test]
fn a_lease_of_a_kind_that_is_not_modelled_stops_the_import() {
    for (version, kind, says) in FOREIGN {
        let (group, _) = version.split_once('/').unwrap();
        refused(&format!("{POOL}{}", foreign(version, kind)), says, &format!("{kind}.{group}"));
    }
    // All of them are named at once, with where they are.
    let all: String = FOREIGN.iter().map(|(version, kind, _)| foreign(version, kind)).collect();
    let sandbox = Sandbox::new();
    let ran = import(&sandbox, &format!("{POOL}{all}"), &["--skip", "HostClaim"]);
    assert_eq!((ran.code, ran.err.matches("cause: ").count()), (4, 5), "{}", ran.err);
    assert!(ran.err.contains("moved.yaml:6:1: IPAddress.ipam"), "{}", ran.err);
    assert!(ran.err.contains("--skip HostClaim --skip IPAddress.ipam"), "{}", ran.err);
}

#[test]
fn a_kind_that_is_skipped_is_left_out_and_each_lease_of_it_named() {
    for (version, kind, says) in FOREIGN {
        let (group, _) = version.split_once('/').unwrap();
        for skip in [kind.to_owned(), format!("{kind}.{group}")] {
            let sandbox = Sandbox::new();
            let text = format!("{POOL}{}", foreign(version, kind));
            let ran = import(&sandbox, &text, &["--skip", &skip]);
            assert_eq!((ran.code, ran.out.as_str()), (0, "1 objects imported\n"), "{}", ran.err);
            let warning = format!("{says}; it is left out and not known here");
            assert!(ran.err.contains(&warning), "{says}: {}", ran.err);
        }
    }
    // A kind is not taken for another of the same name.
    let (version, kind, _) = FOREIGN[0];
    let text = format!("{POOL}{}", foreign(version, kind));
    let ran = import(&Sandbox::new(), &text, &["--skip", "IPAddress.ipam.metal3.io"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    let ran = import(&Sandbox::new(), &text, &["--skip", "IPAddres"]);
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
    for (object, says, kind) in [
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
        refused(&format!("{POOL}{object}"), says, kind);
        let sandbox = Sandbox::new();
        let ran = import(&sandbox, &format!("{POOL}{object}"), &["--skip", kind]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "1 objects imported\n"), "{}", ran.err);
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
        assert_eq!(sandbox.ok("get ipclaim,ipaddress -o name"), "");
    }
    // A claim that waits holds nothing.
    let waits = claim.replace("status: {address: {name: lan-10-0-0-10}}\n", "");
    let ran = import(&Sandbox::new(), &format!("{POOL}{waits}"), &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "2 objects imported\n"), "{}", ran.err);
}

#[test]
fn apply_leaves_out_what_is_not_modelled_with_a_warning() {
    for (version, kind, _) in FOREIGN {
        let sandbox = Sandbox::new();
        let file = sandbox.file("a.yaml", &format!("{POOL}{}", foreign(version, kind)));
        let ran = sandbox.run(&format!("apply -f {file}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(
            ran.err.contains(&format!("{kind} ({version}) is not modelled; skipped")),
            "{kind}"
        );
        assert!(sandbox.state().exists());
    }
}

#[test]
fn addresses_that_only_a_list_or_the_status_of_a_pool_names_stop_the_import() {
    let list = "---\napiVersion: ipam.cluster.x-k8s.io/v1beta1\nkind: IPAddressList\n\
                items: [{metadata: {name: x}, spec: {address: 10.0.0.10}}]\n";
    let says = "IPAddress.ipam.cluster.x-k8s.io `default/` holds an address";
    refused(&format!("{POOL}{list}"), says, "IPAddress.ipam.cluster.x-k8s.io");
    let status = format!("{POOL}status: {{allocations: {{db: 10.0.0.10}}}}\n");
    let says = "IPPool `default/lan` has given 10.0.0.10 to IPClaim `db`";
    refused(&status, says, "IPAddress.ipam.metal3.io");
    let sandbox = Sandbox::new();
    let ran = import(&sandbox, &status, &["--skip", "IPAddress.ipam.metal3.io"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1 objects imported\n"), "{}", ran.err);
}
