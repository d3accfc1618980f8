//! Leases that come from metal3: claims and addresses of Cluster API are served by metal3's pools
//! like metal3's own, and go back as what they were.

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, jsonpath};

const POOL: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: lan}
spec:
  allocationStrategy: sequential
  pools: [{start: 10.0.0.1, end: 10.0.0.3}]
  prefix: 24
  preAllocations: {db: 10.0.0.3}
";

fn capi_claim(version: &str, name: &str) -> String {
    format!(
        "---\napiVersion: ipam.cluster.x-k8s.io/{version}\nkind: IPAddressClaim\n\
         metadata: {{name: {name}, labels: {{team: web}}}}\n\
         spec: {{poolRef: {{apiGroup: ipam.metal3.io, kind: IPPool, name: lan}}}}\n"
    )
}

fn capi_address(claim: &str, address: &str) -> String {
    let name = address.replace('.', "-");
    format!(
        "---\napiVersion: ipam.cluster.x-k8s.io/v1beta1\nkind: IPAddress\n\
         metadata: {{name: lan-{name}}}\n\
         spec:\n  address: {address}\n  prefix: 24\n  claimRef: {{name: {claim}}}\n  \
         poolRef: {{apiGroup: ipam.metal3.io, kind: IPPool, name: lan}}\n"
    )
}

fn claim(name: &str) -> String {
    format!(
        "---\napiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\nmetadata: {{name: {name}}}\n\
         spec: {{pool: {{name: lan}}}}\n"
    )
}

fn address(name: &str, claim: &str, address: &str) -> String {
    format!(
        "---\napiVersion: ipam.metal3.io/v1alpha1\nkind: IPAddress\nmetadata: {{name: {name}}}\n\
         spec: {{address: {address}, prefix: 24, claim: {{name: {claim}}}, pool: {{name: lan}}}}\n"
    )
}

fn import(sandbox: &Sandbox, manifest: &str, options: &str) -> Ran {
    let file = sandbox.write_file("moved.yaml", manifest);
    sandbox.run(&format!("import {file} {options}"))
}

fn apply(sandbox: &Sandbox, manifest: &str) -> Ran {
    let file = sandbox.write_file("applied.yaml", manifest);
    sandbox.run(&format!("apply -f {file}"))
}

/// The addresses of a state with their claims, in their order.
fn leases(sandbox: &Sandbox) -> String {
    sandbox
        .ok("get ipaddress -o 'jsonpath={range .items[*]}{.spec.address}={.spec.claim.name} {end}'")
}

/// The exported objects of a kind.
fn exported(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(&sandbox.ok("export -o json")).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.filter(|item| item["kind"] == kind).cloned().collect()
}

#[test]
fn leases_of_cluster_api_are_kept_and_their_addresses_are_not_leased_again() {
    let sandbox = Sandbox::new();
    let manifest = [POOL, &capi_claim("v1beta1", "web"), &capi_address("web", "10.0.0.1")].concat();
    let ran = import(&sandbox, &manifest, "");
    assert_eq!((ran.code, ran.err.contains("skip")), (0, false), "{}", ran.err);
    assert_eq!(leases(&sandbox), "10.0.0.1=web.capi ");
    sandbox.ok("ip claim lan ci-1");
    assert_eq!(leases(&sandbox), "10.0.0.1=web.capi 10.0.0.2=ci-1 ");
}

#[test]
fn claims_of_both_groups_may_have_one_name_and_are_served_alike() {
    // So it is in metal3's own example of a pool.
    let sandbox = Sandbox::new();
    let manifest = [POOL, &claim("web"), &capi_claim("v1beta2", "web")].concat();
    let ran = apply(&sandbox, &manifest);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(leases(&sandbox), "10.0.0.1=web 10.0.0.2=web.capi ");
    // An address is pre-allocated to a claim by its name, whatever its kind is.
    let ran = apply(&sandbox, &capi_claim("v1beta2", "db"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(leases(&sandbox), "10.0.0.1=web 10.0.0.2=web.capi 10.0.0.3=db.capi ");
}

#[test]
fn a_move_with_leases_of_all_kinds_is_exported_as_it_came() {
    let sandbox = Sandbox::new();
    let manifest = [
        POOL,
        &claim("ci"),
        &address("lan-10-0-0-2", "ci", "10.0.0.2"),
        &capi_claim("v1beta2", "web"),
        &capi_address("web", "10.0.0.1"),
        &address("by-hand", "router", "10.0.0.9"),
    ]
    .concat();
    assert_eq!(import(&sandbox, &manifest, "").code, 0);
    let claims = exported(&sandbox, "IPAddressClaim");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["apiVersion"], "ipam.cluster.x-k8s.io/v1beta2");
    assert_eq!(claims[0]["metadata"]["name"], "web");
    assert_eq!(claims[0]["metadata"]["labels"]["team"], "web");
    assert_eq!(claims[0]["metadata"]["annotations"], Value::Null);
    assert_eq!(claims[0]["spec"]["poolRef"]["name"], "lan");
    assert_eq!(claims[0]["status"]["addressRef"]["name"], "lan-10-0-0-1");
    let addresses = exported(&sandbox, "IPAddress");
    let versions: Vec<&Value> = addresses.iter().map(|item| &item["apiVersion"]).collect();
    assert_eq!(
        versions,
        ["ipam.cluster.x-k8s.io/v1beta1", "ipam.metal3.io/v1alpha1", "ipam.metal3.io/v1alpha1"]
    );
    assert_eq!(addresses[0]["spec"]["claimRef"]["name"], "web");
    // What was exported is equal to the state, and makes the same one elsewhere.
    let file = sandbox.write_file("again.yaml", &sandbox.ok("export"));
    let ran = sandbox.run(&format!("import {file}"));
    assert_eq!((ran.code, ran.out.contains("unchanged")), (0, true), "{}{}", ran.out, ran.err);
    let moved = Sandbox::new();
    let ran = moved.run(&format!("import {file}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(moved.ok("export"), sandbox.ok("export"));
}

#[test]
fn leases_of_all_kinds_go_to_metal3_and_come_back() {
    let sandbox = Sandbox::new();
    let manifest = [
        POOL,
        &claim("ci"),
        &address("lan-10-0-0-2", "ci", "10.0.0.2"),
        &capi_claim("v1beta2", "web"),
        &capi_address("web", "10.0.0.1"),
        &address("by-hand", "outsider", "10.0.0.9"),
    ]
    .concat();
    assert_eq!(import(&sandbox, &manifest, "").code, 0);
    let folder = sandbox.path().join("metal3").display().to_string();
    sandbox.ok(&format!("export {folder} --for metal3"));
    let script = std::fs::read_to_string(sandbox.path().join("metal3/apply.sh")).unwrap();
    assert!(script.contains("\nown default lan-10-0-0-2 lan ci\n"), "{script}");
    assert!(script.contains("\nown_capi default lan-10-0-0-1 lan web\n"), "{script}");
    // Nobody's claim is the owner of the third one.
    assert!(!script.contains("outsider"), "{script}");
    let readme = std::fs::read_to_string(sandbox.path().join("metal3/README.md")).unwrap();
    assert!(readme.contains("- `default/by-hand`: 10.0.0.9, for `outsider`"), "{readme}");
    let moved = Sandbox::new();
    moved.ok(&format!("import {folder}"));
    assert_eq!(leases(&moved), "10.0.0.1=web.capi 10.0.0.2=ci 10.0.0.9=outsider ");
    let claims = exported(&moved, "IPAddressClaim");
    assert_eq!(claims[0]["apiVersion"], "ipam.cluster.x-k8s.io/v1beta2");
    assert_eq!(claims[0]["metadata"]["name"], "web");
    assert_eq!(claims[0]["status"]["addressRef"]["name"], "lan-10-0-0-1");
}

#[test]
fn a_claim_that_a_pool_serves_is_exported_with_its_cluster_and_without_dns_servers() {
    let sandbox = Sandbox::new();
    let pool = POOL.replace("  prefix: 24\n", "  prefix: 24\n  dnsServers: [9.9.9.9]\n");
    let claim = capi_claim("v1beta2", "web").replace("spec: {", "spec: {clusterName: c1, ");
    let ran = apply(&sandbox, &format!("{pool}{claim}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(exported(&sandbox, "IPAddressClaim")[0]["spec"]["clusterName"], "c1");
    let file = sandbox.write_file("again.yaml", &sandbox.ok("export"));
    let ran = sandbox.run(&format!("import {file}"));
    assert_eq!((ran.code, ran.out.contains("unchanged")), (0, true), "{}{}", ran.out, ran.err);
}

#[test]
fn claims_of_pools_that_are_not_metal3s_still_stop_the_import() {
    let manifest = [POOL, &capi_claim("v1beta2", "web")]
        .concat()
        .replace("kind: IPPool, name: lan", "kind: InClusterIPPool, name: lan");
    let ran = import(&Sandbox::new(), &manifest, "");
    let message = "IPAddressClaim.ipam.cluster.x-k8s.io `default/web` holds an address";
    assert_eq!((ran.code, ran.err.contains(message)), (4, true), "{}", ran.err);
}

#[test]
fn an_address_of_cluster_api_without_its_pool_stops_the_import_unless_it_is_skipped() {
    let manifest = format!("{POOL}{}", capi_address("web", "10.0.0.1").replace(": lan}", ": wan}"));
    let kind = "IPAddress.ipam.cluster.x-k8s.io";
    let ran = import(&Sandbox::new(), &manifest, "");
    let message = format!("{kind} `default/lan-10-0-0-1` holds 10.0.0.1 of IPPool `wan`");
    assert_eq!((ran.code, ran.err.contains(&message)), (4, true), "{}", ran.err);
    let sandbox = Sandbox::new();
    let ran = import(&sandbox, &manifest, &format!("--skip {kind}"));
    assert_eq!((ran.code, ran.err.contains(&message)), (0, true), "{}", ran.err);
    assert_eq!(sandbox.ok("get ipaddress -o name"), "");
}

#[test]
fn a_pool_that_cannot_be_taken_does_not_stop_a_whole_move() {
    let bad_pool = "---\napiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\n\
                    metadata: {name: bad}\n\
                    spec: {pools: [{subnet: 10.1.0.0/24, prefix: 26}]}\n";
    let lost = [claim("a"), address("bad-10-1-0-5", "a", "10.1.0.5")].concat();
    let lost = lost.replace("{name: lan}", "{name: bad}");
    let kept = [claim("b"), address("lan-10-0-0-1", "b", "10.0.0.1")].concat();
    let manifest = [POOL, bad_pool, &lost, &kept].concat();
    let problem = "spec.pools[0].prefix: 26 is longer than the prefix of its subnet, /24";
    let ran = import(&Sandbox::new(), &manifest, "");
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains(problem), "{}", ran.err);
    assert!(ran.err.contains("moved.yaml --skip IPPool.ipam.metal3.io"), "{}", ran.err);
    for option in ["--skip IPPool", "--skip IPPool.ipam.metal3.io"] {
        let sandbox = Sandbox::new();
        let ran = import(&sandbox, &manifest, option);
        assert_eq!((ran.code, ran.out.as_str()), (0, "3 objects imported\n"), "{}", ran.err);
        assert!(ran.err.contains(problem), "{}", ran.err);
        let warning = "IPPool `default/bad` is skipped with its claims and addresses (2 objects)";
        assert!(ran.err.contains(warning), "{}", ran.err);
        assert_eq!(leases(&sandbox), "10.0.0.1=b ");
    }
}

#[test]
fn pools_that_overlap_do_not_stop_a_whole_move() {
    let overlapping = POOL
        .replace("{name: lan}", "{name: wan}")
        .replace("  preAllocations: {db: 10.0.0.3}\n", "");
    let lost = [claim("a"), address("wan-10-0-0-2", "a", "10.0.0.2")].concat();
    let lost = lost.replace("pool: {name: lan}", "pool: {name: wan}");
    let kept = [claim("b"), address("lan-10-0-0-1", "b", "10.0.0.1")].concat();
    let manifest = [POOL, "---\n", &overlapping, &lost, &kept].concat();
    let problem = "IPPool `wan`: 10.0.0.1-10.0.0.3 overlaps 10.0.0.1-10.0.0.3 of IPPool `lan`";
    let ran = import(&Sandbox::new(), &manifest, "");
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains(problem), "{}", ran.err);
    assert!(ran.err.contains("moved.yaml --skip IPPool.ipam.metal3.io"), "{}", ran.err);
    let sandbox = Sandbox::new();
    let ran = import(&sandbox, &manifest, "--skip IPPool");
    assert_eq!((ran.code, ran.out.as_str()), (0, "3 objects imported\n"), "{}", ran.err);
    assert!(ran.err.contains(problem), "{}", ran.err);
    let warning = "IPPool `default/wan` is skipped with its claims and addresses (2 objects)";
    assert!(ran.err.contains(warning), "{}", ran.err);
    assert_eq!(leases(&sandbox), "10.0.0.1=b ");
    // Or both are taken, with all leases.
    let allowing = "annotations: {poolctl.dev/allow-overlap: 'true'}";
    let manifest = manifest
        .replace("metadata: {name: lan}", &format!("metadata: {{name: lan, {allowing}}}"))
        .replace("metadata: {name: wan}", &format!("metadata: {{name: wan, {allowing}}}"));
    let sandbox = Sandbox::new();
    let ran = import(&sandbox, &manifest, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(leases(&sandbox), "10.0.0.1=b 10.0.0.2=a ");
}

#[test]
fn an_address_that_claims_of_both_groups_hold_is_said_with_both() {
    let manifest = [
        POOL,
        &claim("m3"),
        &address("lan-10-0-0-2", "m3", "10.0.0.2"),
        &capi_claim("v1beta2", "capi"),
        &capi_address("capi", "10.0.0.2"),
    ]
    .concat();
    let ran = import(&Sandbox::new(), &manifest, "");
    assert_eq!(ran.code, 4, "{}", ran.err);
    for part in [
        "the file has two claims of 10.0.0.2",
        "IPAddress.ipam.metal3.io `default/lan-10-0-0-2` is of IPClaim.ipam.metal3.io `m3`",
        "IPAddress.ipam.cluster.x-k8s.io `default/lan-10-0-0-2` is of \
         IPAddressClaim.ipam.cluster.x-k8s.io `capi`",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn what_a_pool_says_it_has_given_is_not_forgotten() {
    // metal3 itself writes this map.
    let manifest = format!("{POOL}status: {{indexes: {{web: 10.0.0.1}}}}\n");
    let ran = import(&Sandbox::new(), &manifest, "");
    let message = "IPPool `default/lan` has given 10.0.0.1 to IPClaim `web`";
    assert_eq!((ran.code, ran.err.contains(message)), (4, true), "{}", ran.err);
    let leases = [capi_claim("v1beta2", "web"), capi_address("web", "10.0.0.1")].concat();
    assert_eq!(import(&Sandbox::new(), &format!("{manifest}{leases}"), "").code, 0);
}

#[test]
fn the_name_of_an_address_belongs_to_one_claim() {
    let sandbox = Sandbox::new();
    let ran = apply(&sandbox, &format!("{POOL}{}", address("a", "web", "10.0.0.1")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for second in [address("a", "ci", "10.0.0.2"), address("lan-10-0-0-2", "x", "10.0.0.2")] {
        let again = second.replace("claim: {name: x}", "claim: {name: z}");
        let manifest = if again == second { again } else { format!("{second}{again}") };
        let ran = apply(&sandbox, &manifest);
        assert_eq!(ran.code, 4, "{}", ran.err);
        assert!(ran.err.contains("spec.claim cannot be modified: it belongs to"), "{}", ran.err);
    }
    assert_eq!(leases(&sandbox), "10.0.0.1=web ");
    let file = sandbox.write_file("again.yaml", &sandbox.ok("export"));
    assert_eq!(Sandbox::new().run(&format!("import {file}")).code, 0);
}

#[test]
fn a_pool_that_comes_later_gives_no_name_that_is_taken() {
    let sandbox = Sandbox::new();
    let ran = apply(&sandbox, &format!("{POOL}{}", address("wan-10-9-0-1", "web", "10.0.0.1")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let pool = POOL
        .replace("{name: lan}", "{name: wan}")
        .replace("10.0.0.", "10.9.0.")
        .replace("  preAllocations: {db: 10.9.0.3}\n", "");
    assert_eq!(apply(&sandbox, &pool).code, 0);
    sandbox.ok("ip claim wan ci");
    let names = sandbox.ok("get ipaddress -o name");
    assert!(names.contains("ipaddress/wan-10-9-0-1\n"), "{names}");
    assert!(names.contains("ipaddress/wan-10-9-0-1-of-ci\n"), "{names}");
    let file = sandbox.write_file("again.yaml", &sandbox.ok("export"));
    assert_eq!(Sandbox::new().run(&format!("import {file}")).code, 0);
}

#[test]
fn an_address_may_be_called_like_its_pool() {
    let sandbox = Sandbox::new();
    let ran = apply(&sandbox, &format!("{POOL}{}", address("lan", "web", "10.0.0.1")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sandbox.ok("get ipaddress -o name"), "ipaddress/lan\n");
    sandbox.ok("delete ipaddress lan -y");
    assert_eq!(sandbox.ok("get ipaddress -o name"), "");
}

#[test]
fn metal3s_own_examples_are_taken() {
    for example in [
        // A pool whose fields are spelled as in its documentation.
        "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: pool1}\n\
         spec: {namePrefix: test1-prov, pools: [{Start: 192.168.0.10, End: 192.168.0.30, \
         prefix: 25, Gateway: 192.168.0.1, DNSServers: [192.168.0.2]}, \
         {subnet: 192.168.1.1/26}], prefix: 24, preAllocations: {Claim-1: 192.168.0.12}}\n",
        // One whose status names claims of pre-allocated addresses, and none of their addresses.
        "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: bmv4}\n\
         spec: {namePrefix: test1-bmv4, gateway: 192.168.111.1, prefix: 24, \
         pools: [{start: 192.168.111.100, end: 192.168.111.200}], \
         preAllocations: {node-0-pool0: 192.168.111.101}}\n\
         status: {indexes: {node-0-pool0: 192.168.111.101}}\n",
        // A template whose routes have a netmask.
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: Metal3DataTemplate\n\
         metadata: {name: nodepool-1}\nspec: {networkData: {links: {ethernets: \
         [{type: phy, id: enp1s0, mtu: 1500, macAddress: {fromHostInterface: eth0}}]}, \
         networks: {ipv4: [{id: Baremetal, link: enp1s0, IPAddressFromIPPool: pool-1, routes: \
         [{network: 0.0.0.0, netmask: 0, gateway: {fromIPPool: pool-1}}]}]}}}\n\
         status: {indexes: {'0': machine-1}}\n",
    ] {
        for command in ["apply -f", "import"] {
            let sandbox = Sandbox::new();
            let file = sandbox.write_file("example.yaml", example);
            let ran = sandbox.run(&format!("{command} {file}"));
            assert_eq!(ran.code, 0, "{command}: {example}{}", ran.err);
        }
    }
    let sandbox = Sandbox::new();
    assert_eq!(apply(&sandbox, POOL).code, 0);
    assert!(sandbox.ok("get ippool lan -o yaml").contains("db: "));
}

#[test]
fn an_example_that_no_machine_could_use_is_refused_by_the_name_of_its_field() {
    let example = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n\
                   kind: Metal3DataTemplate\nmetadata: {name: nodepool-1}\n\
                   spec: {networkData: {links: {bonds: [{id: bond0, bondMode: 802.3ad, \
                   macAddress: {string: 'XX:XX:XX:XX:XX:XX'}, bondLinks: []}]}}}\n";
    let ran = apply(&Sandbox::new(), example);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("spec.networkData.links.bonds[0]"), "{}", ran.err);
}

#[test]
fn a_claim_for_an_address_that_was_leased_by_hand_is_as_old_as_itself() {
    let mut sandbox = Sandbox::new();
    let manifest = format!("{POOL}{}", address("lan-10-0-0-2", "web", "10.0.0.2"));
    assert_eq!(apply(&sandbox, &manifest).code, 0);
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T13:00:00Z");
    assert_eq!(apply(&sandbox, &claim("web")).code, 0);
    let created = "{.metadata.creationTimestamp}";
    assert_eq!(jsonpath(&sandbox, "ipclaim/web", created), "2026-03-02T13:00:00Z");
    assert_eq!(jsonpath(&sandbox, "ipaddress/lan-10-0-0-2", created), "2026-03-02T12:00:00Z");
}
