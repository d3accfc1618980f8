//! Pools of addresses that namespaces share: claims of several namespaces name one pool, and each
//! address is leased once over all of them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sandbox::{Sandbox, apply, assert_settled, jsonpath};

/// A pool of namespace `infra` that `dev` and `test` share. Its first address is kept for a claim
/// of its own namespace.
const POOL: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata:
  name: lan
  namespace: infra
  annotations: {poolctl.dev/share-with: 'dev, test', poolctl.dev/allocation: sequential}
spec:
  pools: [{start: 10.0.0.10, end: 10.0.0.12}]
  prefix: 24
  preAllocations: {web: 10.0.0.10}
";

fn lab() -> Sandbox {
    let sandbox = Sandbox::new();
    apply(&sandbox, POOL);
    sandbox
}

/// A claim that names its pool, and the namespace of the pool if one is given.
fn claim(name: &str, namespace: &str, pool: &str) -> String {
    format!(
        "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{pool: {{{pool}}}}}\n"
    )
}

/// What `why` knows of a claim that waits.
fn error_of(sandbox: &Sandbox, namespace: &str, name: &str) -> String {
    sandbox.ok(&format!("get ipclaim {name} -n {namespace} -o 'jsonpath={{.status.errorMessage}}'"))
}

#[test]
fn claims_of_the_named_namespaces_lease_from_it_and_no_others() {
    let sandbox = lab();
    // The claim of this name in the pool's own namespace has its address kept, this one has not.
    assert_eq!(sandbox.ok("ip claim lan web -n dev"), "10.0.0.11\n");
    assert_eq!(sandbox.ok("ip claim lan web -n infra"), "10.0.0.10\n");
    assert_eq!(sandbox.ok("ip claim infra/lan web -n test"), "10.0.0.12\n");
    sandbox.refused(3, "ip claim lan web -n other", "there is no IPPool `other/lan`");
    sandbox.refused(3, "ip claim infra/lan web -n other", "there is no IPPool `infra/lan`");
    let refused = sandbox.refused(6, "ip claim lan db -n dev", "Exhausted IP Pools");
    assert!(refused.contains("next: poolctl ippool map lan -n infra\n"), "{refused}");
    sandbox.refused(6, "ip claim lan db -n dev --address 10.0.0.12", "claim test/web");
    // A claim has one address, whatever its pool: asked again it is the same.
    assert_eq!(sandbox.ok("ip claim lan web -n dev"), "10.0.0.11\n");
    assert_settled(&sandbox);
    sandbox.ok("doctor");
}

#[test]
fn every_namespace_shares_a_pool_with_an_asterisk() {
    let sandbox = Sandbox::new();
    apply(&sandbox, &POOL.replace("'dev, test'", "'*'"));
    assert_eq!(sandbox.ok("ip claim lan a -n one"), "10.0.0.11\n");
    assert_eq!(sandbox.ok("ip claim lan a -n two"), "10.0.0.12\n");
    for value in ["'dev,*'", "'Dev'", "'dev,,test'"] {
        let file = sandbox.write_file("pool.yaml", &POOL.replace("'dev, test'", value));
        sandbox.refused(1, &format!("apply -f {file}"), "annotation poolctl.dev/share-with");
    }
}

#[test]
fn a_pool_of_the_own_namespace_goes_first_and_two_shared_ones_are_told_apart() {
    let sandbox = lab();
    let second = POOL.replace("infra", "lab").replace("10.0.0.", "10.0.1.");
    apply(&sandbox, &second);
    let refusal = sandbox.refused(4, "ip claim lan web -n dev", "IPPool lan is ambiguous");
    assert!(refusal.contains("infra/lan and lab/lan"), "{refusal}");
    assert_eq!(sandbox.ok("ip claim lab/lan web -n dev"), "10.0.1.11\n");
    // A claim that waits says the same, and is served when its manifest names one of them.
    apply(&sandbox, &claim("db", "test", "name: lan"));
    assert!(error_of(&sandbox, "test", "db").contains("infra/lan and lab/lan"));
    apply(&sandbox, &claim("named", "test", "name: lan, namespace: infra"));
    assert_eq!(sandbox.ok("ip claim infra/lan named -n test"), "10.0.0.11\n");
    apply(&sandbox, &claim("away", "test", "name: lan, namespace: nowhere"));
    assert_eq!(
        error_of(&sandbox, "test", "away"),
        "there is no IPPool nowhere/lan that is shared with namespace test"
    );
    sandbox.ok("ippool create lan -n test --range 10.0.2.5-10.0.2.9 --allocation sequential");
    assert_eq!(sandbox.ok("ip claim lan db -n test"), "10.0.2.5\n");
    assert_settled(&sandbox);
}

#[test]
fn two_pools_of_one_name_give_two_claims() {
    let sandbox = lab();
    apply(&sandbox, &POOL.replace("infra", "lab").replace("10.0.0.", "10.0.1."));
    assert_eq!(
        sandbox.ok("ip claim infra/lan,lab/lan web -n dev"),
        "web-infra-lan 10.0.0.11\nweb-lab-lan 10.0.1.11\n"
    );
}

#[test]
fn claims_may_name_pools_that_do_not_exist_even_each_others() {
    let sandbox = Sandbox::new();
    apply(&sandbox, &claim("a", "dev", "name: lan, namespace: test"));
    apply(&sandbox, &claim("b", "test", "name: lan, namespace: dev"));
    sandbox.ok("reconcile -q");
    apply(&sandbox, POOL);
    apply(&sandbox, &claim("c", "dev", "name: lan, namespace: infra"));
    assert_eq!(sandbox.ok("ip claim infra/lan c -n dev"), "10.0.0.11\n");
    assert_settled(&sandbox);
}

#[test]
fn a_claim_waits_until_another_namespace_gives_an_address_back() {
    let sandbox = lab();
    sandbox.ok("ip claim lan a -n dev");
    sandbox.ok("ip claim lan b -n dev");
    apply(&sandbox, &claim("late", "test", "name: lan"));
    assert_eq!(error_of(&sandbox, "test", "late"), "Exhausted IP Pools");
    let metrics = sandbox.ok("metrics");
    let waiting = metrics.lines().find(|line| line.starts_with("poolctl_ippool_claims_pending{"));
    assert!(waiting.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
    sandbox.ok("ip release b -n dev");
    assert_eq!(sandbox.ok("ip claim lan late -n test"), "10.0.0.12\n");
    // A claim that was there before the pool was shared with its namespace.
    apply(&sandbox, &claim("early", "stage", "name: lan"));
    assert_eq!(error_of(&sandbox, "stage", "early"), "there is no IPPool lan");
    sandbox.ok("ip release late -n test");
    apply(&sandbox, &POOL.replace("dev, test", "dev, test, stage"));
    assert_eq!(sandbox.ok("ip claim lan early -n stage"), "10.0.0.12\n");
    assert_settled(&sandbox);
}

#[test]
fn a_pool_keeps_the_leases_of_other_namespaces() {
    let sandbox = lab();
    sandbox.ok("ip claim lan web -n dev");
    let leased = "10.0.0.11 is leased to claim dev/web";
    let refused = sandbox.refused(4, "delete ippool lan -n infra", leased);
    assert!(refused.contains("poolctl ip release CLAIM -n NAMESPACE"), "{refused}");
    let file = sandbox.write_file("pool.yaml", &POOL.replace("'dev, test'", "test"));
    let message = "annotation poolctl.dev/share-with: 10.0.0.11 is leased to claim dev/web";
    sandbox.refused(4, &format!("apply -f {file}"), message);
    let file = sandbox.write_file("pool.yaml", &POOL.replace("10.0.0.12", "10.0.0.10"));
    sandbox.refused(4, &format!("apply -f {file}"), "(claim dev/web)");
    sandbox.ok("ip release web -n dev");
    apply(&sandbox, &POOL.replace("'dev, test'", "test"));
    sandbox.refused(3, "ip claim lan web -n dev", "there is no IPPool");
}

#[test]
fn no_namespace_has_one_address_of_two_pools() {
    let sandbox = lab();
    let overlap = "overlaps 10.0.0.10-10.0.0.12 of IPPool `infra/lan`";
    sandbox.refused(4, "ippool create own -n dev --range 10.0.0.12-10.0.0.20", overlap);
    sandbox.ok("ippool create own -n other --range 10.0.0.12-10.0.0.20");
    let file = sandbox.write_file("pool.yaml", &POOL.replace("dev, test", "dev, other"));
    sandbox.refused(4, &format!("apply -f {file}"), "of IPPool `other/own`");
    // By hand only what is shared may be leased either.
    let address = "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPAddress\n\
        metadata: {name: by-hand, namespace: NAMESPACE}\n\
        spec: {address: 10.0.0.12, prefix: 24, pool: {name: lan, namespace: infra}, \
        claim: {name: hand}}\n";
    let file = sandbox.write_file("address.yaml", &address.replace("NAMESPACE", "other"));
    sandbox.refused(4, &format!("apply -f {file}"), "is shared with namespace `other`");
    apply(&sandbox, &address.replace("NAMESPACE", "dev"));
    let file = sandbox.write_file("address.yaml", &address.replace("NAMESPACE", "test"));
    sandbox.refused(4, &format!("apply -f {file}"), "10.0.0.12 would be leased to both");
}

#[test]
fn every_listing_shows_whose_the_addresses_are() {
    let sandbox = lab();
    sandbox.ok("ip claim lan web -n dev --comment front");
    sandbox.ok("ip claim lan db -n test");
    let owner = sandbox.ok("ip who 10.0.0.11 -n infra");
    assert!(owner.contains("dev/web (front)"), "{owner}");
    let claimer = sandbox.ok("ip who web -n dev -o json");
    let entries: Value = serde_json::from_str(&claimer).unwrap();
    let entry = entries.as_array().map_or(&entries["items"][0], |entries| &entries[0]);
    assert_eq!(entry["namespace"], "dev", "{claimer}");
    assert_eq!(entry["poolNamespace"], "infra", "{claimer}");
    let range = sandbox.ok("ip who 10.0.0.0/24 -n test");
    assert!(range.contains("10.0.0.12") && !range.contains("10.0.0.11"), "{range}");
    // What a refusal names is found, whoever has it.
    let refused = sandbox.refused(6, "ip claim lan x -n dev --address 10.0.0.10", "claim web");
    assert!(refused.contains("poolctl ip who 10.0.0.10"), "{refused}");
    let kept = sandbox.ok("ip who 10.0.0.10 -n dev");
    assert!(kept.contains("web (pre-allocated)"), "{kept}");
    let foreign = sandbox.ok("ip who 10.0.0.12 -n dev");
    assert!(foreign.contains("test/db"), "{foreign}");
    assert_eq!(sandbox.ok("ip who 10.0.0.11 -n dev").matches("10.0.0.11").count(), 1);
    // Each namespace sees its own objects, and the owner all leases of its pool.
    assert_eq!(sandbox.ok("get ipclaim -n dev -o name"), "ipclaim/web\n");
    assert_eq!(sandbox.ok("get ipaddress -n dev -o name"), "ipaddress/lan-10-0-0-11\n");
    sandbox.ok("get ipaddress lan-10-0-0-11 -n dev");
    sandbox.refused(3, "get ipaddress lan-10-0-0-11 -n infra", "lan-10-0-0-11");
    let allocations = jsonpath(&sandbox, "ippool/lan", "{.status.allocations}");
    assert!(allocations.contains("dev/web") && allocations.contains("test/db"), "{allocations}");
    let list = sandbox.ok("ip export --as csv -n infra");
    assert!(list.contains(",dev,lan,web,") && list.contains(",test,lan,db,"), "{list}");
    let list = sandbox.ok("ip export --as csv -n dev");
    assert!(list.contains(",dev,lan,web,") && !list.contains("db"), "{list}");
    let map = sandbox.ok("ippool map lan -n infra");
    assert!(map.contains("2 used"), "{map}");
}

#[test]
fn a_move_keeps_the_leases_of_all_namespaces() {
    let sandbox = lab();
    sandbox.ok("ip claim lan web -n dev");
    sandbox.ok("ip claim lan web -n test");
    apply(&sandbox, &claim("late", "dev", "name: lan"));
    let exported = sandbox.ok("export");
    let file = sandbox.write_file("moved.yaml", &exported);
    let moved = Sandbox::new();
    moved.ok(&format!("import {file}"));
    assert_eq!(moved.ok("export"), exported);
    assert_eq!(moved.ok("ip claim lan web -n test"), "10.0.0.12\n");
    moved.ok("doctor");
}

#[test]
fn racing_claims_of_three_namespaces_get_different_addresses() {
    let sandbox = Sandbox::new();
    apply(&sandbox, &POOL.replace("10.0.0.12", "10.0.0.60"));
    let mut lines = Vec::new();
    for number in 0..8 {
        for namespace in ["infra", "dev", "test"] {
            lines.push(format!("ip claim lan c-{number} -n {namespace}"));
        }
    }
    let mut addresses = BTreeSet::new();
    for ran in sandbox.run_together(&lines) {
        assert_eq!(ran.code, 0, "{}", ran.err);
        addresses.insert(ran.out);
    }
    assert_eq!(addresses.len(), lines.len());
    sandbox.ok("doctor");
}

#[test]
fn metal3_leases_no_address_that_a_claim_of_another_namespace_has() {
    let sandbox = lab();
    assert_eq!(sandbox.ok("ip claim lan db -n dev"), "10.0.0.11\n");
    assert_eq!(sandbox.ok("ip claim lan own -n infra"), "10.0.0.12\n");
    let folder = sandbox.path().join("metal3");
    sandbox.ok(&format!("export {} --for metal3", folder.display()));
    let script = std::fs::read_to_string(folder.join("apply.sh")).unwrap();
    // metal3 counts only the addresses in the namespace of the pool.
    assert!(script.contains("\nown infra lan-10-0-0-12 lan own\n"), "{script}");
    assert!(!script.contains("\nown dev "), "{script}");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("- `infra/lan-10-0-0-11`: 10.0.0.11, for `dev.db`\n"), "{readme}");
    let back = sandbox.path().join("back.db").display().to_string();
    sandbox.ok(&format!("--state {back} import {}", folder.display()));
    let claims = "get ipclaim -A -o 'jsonpath={.items[*].metadata.name}'";
    assert_eq!(sandbox.ok(&format!("--state {back} {claims}")), "own");
    // Both addresses are taken, and 10.0.0.10 is kept for another claim.
    let late = format!("--state {back} ip claim lan late -n infra");
    sandbox.refused(6, &late, "Exhausted IP Pools");
    let addresses = "get ipaddress -n infra -o 'jsonpath={.items[*].spec.address}'";
    assert_eq!(sandbox.ok(&format!("--state {back} {addresses}")), "10.0.0.11 10.0.0.12");
}
