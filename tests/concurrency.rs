//! Many commands at once: nothing is leased twice, and no command fails for another's sake.

use std::collections::BTreeSet;

use crate::sandbox::{Sandbox, apply};

/// Runs commands at once, of which each must succeed and say nothing but for whom it has waited;
/// returns what they printed.
fn all_succeed(sandbox: &Sandbox, lines: &[String]) -> Vec<String> {
    let mut outputs = Vec::new();
    for (ran, line) in sandbox.run_together(lines).into_iter().zip(lines) {
        let mut messages = ran.err.lines();
        let has_waited_at_most =
            messages.all(|said| said.starts_with("waiting for the write lock"));
        assert!(ran.code == 0 && has_waited_at_most, "{line}: {}{}", ran.out, ran.err);
        outputs.push(ran.out);
    }
    outputs
}

/// Expects that so many claims have each a cluster of their own.
fn assert_claimed_once(sandbox: &Sandbox, count: usize) {
    let path = "jsonpath={range .items[*]}{.spec.namespace}{\"\\n\"}{end}";
    let clusters = sandbox.ok(&format!("get claim -o '{path}'"));
    let different: BTreeSet<&str> = clusters.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(clusters.lines().count(), count, "{clusters}");
    assert_eq!(different.len(), count, "{clusters}");
}

#[test]
fn fifty_claims_at_once_get_fifty_clusters() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 50);
    let claims: Vec<String> = (0..50).map(|number| format!("claim lab c{number} -q")).collect();
    all_succeed(&sandbox, &claims);
    assert_claimed_once(&sandbox, 50);
    // Both ends of each link agree.
    let path =
        "jsonpath={range .items[*]}{.spec.clusterPoolRef.claimName} {.metadata.name}{\"\\n\"}{end}";
    let from_clusters = sandbox.ok(&format!("get cluster -o '{path}'"));
    let path = "jsonpath={range .items[*]}{.metadata.name} {.spec.namespace}{\"\\n\"}{end}";
    let from_claims = sandbox.ok(&format!("get claim -o '{path}'"));
    // Clusters that nobody claimed have no name of a claim before theirs.
    let from_clusters: BTreeSet<&str> =
        from_clusters.lines().filter(|line| line.starts_with('c')).collect();
    let from_claims: BTreeSet<&str> = from_claims.lines().collect();
    assert_eq!(from_clusters, from_claims);
}

#[test]
fn a_state_that_many_open_for_the_first_time_is_one_state() {
    let sandbox = Sandbox::new();
    let creates: Vec<String> =
        (0..30).map(|number| format!("pool create p{number} --fake --size 1 -q")).collect();
    all_succeed(&sandbox, &creates);
    assert_eq!(sandbox.ok("get pool -o name").lines().count(), 30);
    for entry in std::fs::read_dir(sandbox.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with(".state.db"), "{name} is left");
    }
}

#[test]
fn claims_releases_and_passes_at_once_come_to_a_consistent_end() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 20);
    for number in 0..10 {
        sandbox.ok(&format!("claim lab old{number} -q"));
    }
    let claims = (0..20).map(|number| format!("claim lab new{number} -q"));
    let releases = (0..10).map(|number| format!("release old{number} -q"));
    let passes = (0..10).map(|_| "reconcile -q".to_owned());
    let lines: Vec<String> = claims.chain(releases).chain(passes).collect();
    for (ran, line) in sandbox.run_together(&lines).into_iter().zip(&lines) {
        assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
    }
    sandbox.ok("reconcile --wait -q");
    assert_claimed_once(&sandbox, 20);
    assert_eq!(sandbox.run("plan -q").code, 0);
}

/// J31, N01.
#[test]
fn two_hundred_claims_fifty_at_once_get_two_hundred_addresses() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.200");
    let mut addresses = BTreeSet::new();
    for first in [0, 50, 100, 150] {
        let claims = (first..first + 50).map(|number| format!("ip claim lan c{number}"));
        addresses.extend(all_succeed(&sandbox, &claims.collect::<Vec<_>>()));
    }
    assert_eq!(addresses.len(), 200);
    assert_eq!(sandbox.run("ip claim lan one-more").code, 6);
    sandbox.ok("doctor");
}

/// A claim without a name gets one. Two commands at once must not choose the same.
#[test]
fn claims_without_names_at_once_get_addresses_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.40");
    let claims = vec!["ip claim lan".to_owned(); 20];
    let addresses: BTreeSet<String> = all_succeed(&sandbox, &claims).into_iter().collect();
    assert_eq!(addresses.len(), 20);
}

#[test]
fn hosts_that_are_rendered_at_once_get_numbers_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.40");
    let mut manifest = String::from(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: Metal3DataTemplate\n\
         metadata: {name: nodes}\n\
         spec: {metaData: {ipAddressesFromIPPool: [{key: ip, name: lan}]}}\n",
    );
    for number in 0..20 {
        let host = format!(
            "---\napiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\n\
             metadata: {{name: node-{number}}}\nspec: {{online: false}}\n"
        );
        manifest.push_str(&host);
    }
    apply(&sandbox, &manifest);
    let renders: Vec<String> = (0..20)
        .map(|number| format!("template render nodes --host node-{number} -o json"))
        .collect();
    all_succeed(&sandbox, &renders);
    let indexes = sandbox.ok("get datatemplate nodes -o jsonpath={.status.indexes}");
    for number in 0..20 {
        assert!(indexes.contains(&format!("\"node-{number}\"")), "{number}: {indexes}");
    }
    assert!(indexes.contains("\"19\":"), "{indexes}");
}

///
#[test]
fn two_passes_do_not_overlap() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake");
    let lock = format!("{}.pass", sandbox.state().display());
    let while_locked =
        |command: &str| sandbox.shell(&format!("touch {lock}; flock {lock} sh -c '{command}'"));
    if !crate::sandbox::has_program("flock") {
        return;
    }
    let ran = while_locked("poolctl reconcile");
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("another pass is running"), "{}", ran.err);
    assert_eq!(while_locked("poolctl reconcile --strict").code, 7);
    // A claim never waits for a pass.
    assert_eq!(while_locked("poolctl claim lab -q").code, 0);
}
