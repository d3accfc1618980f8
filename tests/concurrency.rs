//! Many at once: nothing is held twice, nobody is turned away.

use std::collections::BTreeSet;

use crate::sandbox::Sandbox;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn fifty_claims_at_once_get_fifty_clusters() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 50);
    let all: Vec<Vec<String>> = (0..50).map(|at| words(&format!("claim lab c{at} -q"))).collect();
    for ran in sandbox.together(&all) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    }
    let path = "jsonpath={range .items[*]}{.spec.namespace}{\"\\n\"}{end}";
    let clusters = sandbox.ok(&format!("get claim -o '{path}'"));
    let different: BTreeSet<&str> = clusters.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!((clusters.lines().count(), different.len()), (50, 50), "{clusters}");
    // Both ends of each link agree.
    let path =
        "jsonpath={range .items[*]}{.spec.clusterPoolRef.claimName} {.metadata.name}{\"\\n\"}{end}";
    let from_clusters = sandbox.ok(&format!("get cluster -o '{path}'"));
    let path = "jsonpath={range .items[*]}{.metadata.name} {.spec.namespace}{\"\\n\"}{end}";
    let from_claims = sandbox.ok(&format!("get claim -o '{path}'"));
    let held = |text: &str| -> BTreeSet<String> {
        text.lines().filter(|line| line.starts_with('c')).map(str::to_owned).collect()
    };
    assert_eq!(held(&from_clusters), held(&from_claims));
}

#[test]
fn a_state_that_many_open_for_the_first_time_is_one_state() {
    let sandbox = Sandbox::new();
    let all: Vec<Vec<String>> =
        (0..30).map(|at| words(&format!("pool create p{at} --fake --size 1 -q"))).collect();
    for ran in sandbox.together(&all) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    }
    assert_eq!(sandbox.ok("get pool -o name").lines().count(), 30);
    let left: Vec<_> =
        std::fs::read_dir(sandbox.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".state.db")), "{left:?}");
}

#[test]
fn claims_releases_and_passes_at_once_come_to_a_consistent_end() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 20);
    for at in 0..10 {
        sandbox.ok(&format!("claim lab old{at} -q"));
    }
    let claims = (0..20).map(|at| words(&format!("claim lab new{at} -q")));
    let releases = (0..10).map(|at| words(&format!("release old{at} -q")));
    let passes = (0..10).map(|_| words("reconcile -q"));
    let all: Vec<Vec<String>> = claims.chain(releases).chain(passes).collect();
    for (ran, arguments) in sandbox.together(&all).into_iter().zip(&all) {
        assert_eq!(ran.code, 0, "{arguments:?}: {}{}", ran.out, ran.err);
    }
    sandbox.ok("reconcile --wait -q");
    let path = "jsonpath={range .items[*]}{.spec.namespace}{\"\\n\"}{end}";
    let clusters = sandbox.ok(&format!("get claim -o '{path}'"));
    let different: BTreeSet<&str> = clusters.lines().collect();
    assert_eq!((clusters.lines().count(), different.len()), (20, 20), "{clusters}");
    assert_eq!(sandbox.run("plan -q").code, 0);
}

/// J31, N01.
#[test]
fn two_hundred_claims_fifty_at_once_get_two_hundred_addresses() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.200");
    let mut addresses = BTreeSet::new();
    for first in [0, 50, 100, 150] {
        let claims = (first..first + 50).map(|at| words(&format!("ip claim lan c{at}")));
        for ran in sandbox.together(&claims.collect::<Vec<_>>()) {
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
            addresses.insert(ran.out);
        }
    }
    assert_eq!(addresses.len(), 200);
    assert_eq!(sandbox.run("ip claim lan one-more").code, 6);
    sandbox.ok("doctor");
}

/// Names are made up where nobody else makes up the same.
#[test]
fn claims_without_names_at_once_get_addresses_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.40");
    let all: Vec<Vec<String>> = (0..20).map(|_| words("ip claim lan")).collect();
    let mut addresses = BTreeSet::new();
    for ran in sandbox.together(&all) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        addresses.insert(ran.out);
    }
    assert_eq!(addresses.len(), 20);
}

#[test]
fn hosts_that_are_told_at_once_have_numbers_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.40");
    let mut text = String::from(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: Metal3DataTemplate\n\
         metadata: {name: nodes}\n\
         spec: {metaData: {ipAddressesFromIPPool: [{key: ip, name: lan}]}}\n",
    );
    for at in 0..20 {
        let host = format!(
            "---\napiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\n\
             metadata: {{name: node-{at}}}\nspec: {{online: false}}\n"
        );
        text.push_str(&host);
    }
    sandbox.ok(&["apply", "-qf", &sandbox.file("rack.yaml", &text)]);
    let all = (0..20).map(|at| words(&format!("template render nodes --host node-{at} -o json")));
    for ran in sandbox.together(&all.collect::<Vec<_>>()) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    }
    let numbers = sandbox.ok("get datatemplate nodes -o jsonpath={.status.indexes}");
    let hosts = (0..20).filter(|at| numbers.contains(&format!("\"node-{at}\""))).count();
    assert!(hosts == 20 && numbers.contains("\"19\":"), "{numbers}");
}

///
#[test]
fn two_passes_do_not_overlap() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake");
    let lock = format!("{}.pass", sandbox.state().display());
    let held =
        |command: &str| sandbox.shell(&format!("touch {lock}; flock {lock} sh -c '{command}'"));
    if !crate::sandbox::has("flock") {
        return;
    }
    let ran = held("poolctl reconcile");
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("another pass is running"), "{}", ran.err);
    assert_eq!(held("poolctl reconcile --strict").code, 7);
    // A claim never waits for a pass.
    assert_eq!(held("poolctl claim lab -q").code, 0);
}
