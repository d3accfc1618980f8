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
