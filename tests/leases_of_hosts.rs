//! Numbers and addresses that a host has go when the host is deleted, but for those that a person or
//! another program holds.

use crate::sandbox::Sandbox;

fn lab() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(
        "ippool create machines --range 10.40.0.0/24 --gateway 10.40.0.1 --allocation sequential",
    );
    sandbox.ok("apply -f examples/addresses/template.yaml");
    sandbox.ok("host import examples/hosts/hosts.csv -q");
    sandbox
}

fn addresses(sandbox: &Sandbox) -> String {
    sandbox
        .ok("get ipaddress -o 'jsonpath={range .items[*]}{.spec.address}={.spec.claim.name} {end}'")
}

fn numbers(sandbox: &Sandbox) -> String {
    sandbox.ok("get datatemplate nodes -o jsonpath={.status.indexes}")
}

#[test]
fn a_host_that_is_deleted_gives_back_its_number_and_its_address() {
    let sandbox = lab();
    sandbox.ok("template render nodes --host node-1");
    sandbox.ok("template render nodes --host node-2");
    assert_eq!(addresses(&sandbox), "10.40.0.2=nodes-0-machines 10.40.0.3=nodes-1-machines ");
    sandbox.ok("delete host node-1");
    assert_eq!(addresses(&sandbox), "10.40.0.3=nodes-1-machines ");
    assert!(!numbers(&sandbox).contains("node-1"), "{}", numbers(&sandbox));
    assert!(numbers(&sandbox).contains("node-2"), "{}", numbers(&sandbox));
    // The next host gets the number and the address.
    let data = sandbox.ok("template render nodes --host node-3");
    assert!(data.contains("index: 0\n") && data.contains("10.40.0.2"), "{data}");
}

#[test]
fn an_address_that_somebody_else_holds_outlives_the_host() {
    let sandbox = lab();
    let owner =
        "ownerReferences: [{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: node-1}]";
    let claims = format!(
        "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\n\
         metadata: {{name: kept, {owner}, finalizers: [example.com/keeper]}}\n\
         spec: {{pool: {{name: machines}}}}\n---\n\
         apiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\n\
         metadata: {{name: plain, {owner}}}\nspec: {{pool: {{name: machines}}}}\n---\n\
         apiVersion: ipam.metal3.io/v1alpha1\nkind: IPAddress\n\
         metadata: {{name: by-hand, {owner}}}\n\
         spec: {{address: 10.40.0.9, claim: {{name: console}}, pool: {{name: machines}}}}\n"
    );
    let file = sandbox.write_file("claims.yaml", &claims);
    sandbox.ok(&format!("apply -f {file}"));
    assert_eq!(addresses(&sandbox), "10.40.0.2=kept 10.40.0.3=plain 10.40.0.9=console ");
    sandbox.ok("delete host node-1");
    assert_eq!(addresses(&sandbox), "10.40.0.2=kept 10.40.0.9=console ");
    // The keeper lets go of it.
    sandbox.ok("patch ipclaim kept -p '{\"metadata\": {\"finalizers\": null}}'");
    assert_eq!(addresses(&sandbox), "10.40.0.9=console ");
}

#[test]
fn the_number_of_a_host_is_a_metal3data_and_moves_with_the_state() {
    let sandbox = lab();
    sandbox.ok("template render nodes --host node-2");
    let data = sandbox.ok("get metal3data nodes-0 -o jsonpath={.spec.index}={.spec.claim.name}");
    assert_eq!(data, "0=node-2");
    assert!(sandbox.ok("get m3d").contains("node-2"));
    sandbox.ok("template render nodes --host node-2");
    let file = sandbox.write_file("state.yaml", &sandbox.ok("export"));
    let moved = Sandbox::new();
    moved.ok(&format!("import {file}"));
    assert_eq!(moved.ok("export"), sandbox.ok("export"));
    assert!(moved.ok("template render nodes --host node-3").contains("index: 1\n"));
    sandbox.ok("template release nodes --host node-2");
    assert_eq!(sandbox.ok("get metal3data -o name"), "");
    sandbox.ok("template render nodes --host node-3");
    sandbox.ok("delete host node-3");
    assert_eq!(sandbox.ok("get metal3data -o name"), "");
}

/// What CAPM3 keeps of a machine, without the status of its template.
const DUMP: &str = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3DataClaim
metadata: {name: machine-7, finalizers: [metal3dataclaim.infrastructure.cluster.x-k8s.io]}
spec: {template: {name: nodes}}
status: {renderedData: {name: nodes-0}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Data
metadata: {name: nodes-0, finalizers: [metal3data.infrastructure.cluster.x-k8s.io]}
spec: {index: 0, template: {name: nodes}, claim: {name: machine-7}}
status: {ready: true}
---
";

#[test]
fn a_number_that_another_program_has_given_is_not_given_again() {
    let sandbox = Sandbox::new();
    let template = std::fs::read_to_string("examples/addresses/template.yaml").unwrap();
    let file = sandbox.write_file("dump.yaml", &format!("{DUMP}{template}"));
    sandbox.ok(&format!("import {file}"));
    assert!(numbers(&sandbox).contains("machine-7"), "{}", numbers(&sandbox));
    assert!(sandbox.ok("get m3dc").contains("nodes-0"));
    sandbox.ok("ippool create machines --range 10.40.0.0/24 --gateway 10.40.0.1");
    sandbox.ok("host import examples/hosts/hosts.csv -q");
    let data = sandbox.ok("template render nodes --host node-1");
    assert!(data.contains("index: 1\n"), "{data}");
}

#[test]
fn a_metal3data_says_what_is_wrong_with_it() {
    let sandbox = Sandbox::new();
    for (metadata, spec, problem) in [
        (
            "{name: a-1}",
            "{index: 0, template: {name: a}, claim: {name: m}}",
            "metadata.name: should follow the convention",
        ),
        (
            "{name: a-1}",
            "{index: -1, template: {name: a}, claim: {name: m}}",
            "spec.index: must be positive value",
        ),
        ("{name: a-0}", "{index: 0, template: {name: a}}", "spec.claim.name: cannot be empty"),
    ] {
        let manifest = format!(
            "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: Metal3Data\n\
             metadata: {metadata}\nspec: {spec}\n"
        );
        let file = sandbox.write_file("data.yaml", &manifest);
        let ran = sandbox.run(&format!("apply -f {file}"));
        assert!(ran.code != 0 && ran.err.contains(problem), "{problem}: {}", ran.err);
    }
}

/// A lab whose template has an annotation.
fn annotated_lab(annotation: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let template = std::fs::read_to_string("examples/addresses/template.yaml").unwrap();
    let metadata = format!("metadata:\n  name: nodes\n  annotations: {{{annotation}}}\n");
    let template = template.replace("metadata:\n  name: nodes\n", &metadata);
    let pool = "---\napiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\n\
                metadata: {name: machines}\n\
                spec: {pools: [{subnet: 10.40.0.0/24}], gateway: 10.40.0.1, prefix: 24, \
                allocationStrategy: sequential, \
                preAllocations: {node-2-machines: 10.40.0.77}}\n";
    let file = sandbox.write_file("template.yaml", &format!("{template}{pool}"));
    sandbox.ok(&format!("apply -f {file}"));
    sandbox.ok("host import examples/hosts/hosts.csv -q");
    sandbox
}

#[test]
fn a_host_has_its_addresses_again_after_a_rebuild_if_claims_are_called_after_it() {
    let sandbox = annotated_lab("poolctl.dev/claim-names: host");
    for _ in 0..2 {
        sandbox.ok("template render nodes --host node-1");
        let data = sandbox.ok("template render nodes --host node-2");
        assert!(data.contains("ip: \"10.40.0.77\""), "{data}");
        assert_eq!(addresses(&sandbox), "10.40.0.2=node-1-machines 10.40.0.77=node-2-machines ");
        sandbox.ok("template release nodes --host node-2");
        assert_eq!(addresses(&sandbox), "10.40.0.2=node-1-machines ");
    }
    sandbox.ok("delete host node-1");
    assert_eq!(addresses(&sandbox), "");
}

#[test]
fn an_address_that_two_templates_share_goes_with_the_last_of_them() {
    let sandbox = annotated_lab("poolctl.dev/claim-names: host");
    let template = std::fs::read_to_string("examples/addresses/template.yaml").unwrap();
    let metadata = "metadata:\n  name: edge\n  annotations: {poolctl.dev/claim-names: host}\n";
    let template = template.replace("metadata:\n  name: nodes\n", metadata);
    sandbox.ok(&format!("apply -f {}", sandbox.write_file("edge.yaml", &template)));
    sandbox.ok("template render nodes --host node-3");
    sandbox.ok("template render edge --host node-3");
    for first_template in ["edge", "nodes"] {
        let shared = "10.40.0.2=node-3-machines ";
        assert_eq!(addresses(&sandbox), shared);
        sandbox.ok(&format!("template release {first_template} --host node-3"));
        assert_eq!(addresses(&sandbox), shared);
        // It has no number any more, and its address is not its to give back.
        let ran = sandbox.run(&format!("template release {first_template} --host node-3"));
        assert_eq!((ran.code, addresses(&sandbox).as_str()), (0, shared), "{}", ran.err);
        sandbox.ok(&format!("template render {first_template} --host node-3"));
    }
    sandbox.ok("template release edge --host node-3");
    sandbox.ok("template release nodes --host node-3");
    assert_eq!(addresses(&sandbox), "");
}

#[test]
fn a_claim_of_somebody_else_is_not_taken_for_that_of_a_host() {
    let sandbox = annotated_lab("poolctl.dev/claim-names: host");
    let claim = "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\n\
                 metadata: {name: node-1-machines, ownerReferences: \
                 [{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: node-3}]}\n\
                 spec: {pool: {name: machines}}\n";
    let file = sandbox.write_file("claim.yaml", claim);
    sandbox.ok(&format!("apply -f {file}"));
    let ran = sandbox.run("template render nodes --host node-1");
    assert_eq!(ran.code, 4, "{}", ran.err);
    let cause = "claim `node-1-machines` belongs to host `node-3`";
    assert!(ran.err.contains(cause), "{}", ran.err);
}

#[test]
fn each_network_of_a_host_may_have_an_address_of_its_own_of_one_pool() {
    let second = "          link: eth0\n          ipAddressFromIPPool: machines\n        \
                  - id: storage\n          link: eth0\n          ipAddressFromIPPool: machines\n";
    let template = std::fs::read_to_string("examples/addresses/template.yaml").unwrap();
    let template =
        template.replace("          link: eth0\n          ipAddressFromIPPool: machines\n", second);
    for (annotation, storage_address) in [("true", "10.40.0.3"), ("false", "10.40.0.2")] {
        let sandbox = Sandbox::new();
        sandbox.ok("ippool create machines --range 10.40.0.0/24 --gateway 10.40.0.1 \
             --allocation sequential");
        sandbox.ok("host import examples/hosts/hosts.csv -q");
        let annotated = template.replace(
            "  name: nodes\n",
            &format!(
                "  name: nodes\n  annotations: {{poolctl.dev/separate-addresses: '{annotation}'}}\n"
            ),
        );
        let file = sandbox.write_file("template.yaml", &annotated);
        let ran = sandbox.run(&format!("apply -f {file}"));
        let is_warned = ran.err.contains("have the same address");
        assert_eq!((ran.code, is_warned), (0, annotation == "false"), "{}", ran.err);
        let data = sandbox.ok("template render nodes --host node-1 -o json");
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        let networks = &data["networkData"]["networks"];
        assert_eq!(networks[0]["ip_address"], "10.40.0.2");
        assert_eq!(networks[1]["id"], "storage");
        assert_eq!(networks[1]["ip_address"], storage_address);
        assert_eq!(data["metaData"]["ip"], "10.40.0.2");
        sandbox.ok("delete host node-1");
        assert_eq!(addresses(&sandbox), "");
    }
}
