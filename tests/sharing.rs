//! Two pools in production's shape, with 17 and 2 entries, of which they share one. Through random
//! failures, edits, removals and passes at once no customization is ever on two clusters.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::sandbox::{Sandbox, apply};

/// As oko-op-08 and oko-op-09 list them.
const LARGE: [u32; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 23];
const SMALL: [u32; 2] = [1, 20];

/// A step of a history. A bool says which pool it is about: true is the large one.
#[derive(Clone, Debug)]
enum Step {
    Scale(bool, u32),
    /// Every n-th installation of a pool fails; none for 0.
    Fail(bool, u32),
    Edit(u32, u32),
    /// Entries whose bit is not set leave the inventory.
    Remove(bool, u32),
    /// Deletes a customization.
    Delete(u32),
    /// Makes a customization again.
    Create(u32),
    Reset(u32),
    Claim(bool),
    Release,
    DeleteCluster(usize),
    Minutes(i64),
}

/// The number of a customization; 1 is in the inventories of both pools.
fn any_customization() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1_u32), Just(20), Just(23), 2..5_u32]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any::<bool>(), 0..18_u32).prop_map(|(large, size)| Step::Scale(large, size)),
        1 => (any::<bool>(), 0..4_u32).prop_map(|(large, every)| Step::Fail(large, every)),
        3 => (any_customization(), any::<u32>())
            .prop_map(|(number, publish)| Step::Edit(number, publish % 3)),
        3 => (any::<bool>(), any::<u32>()).prop_map(|(large, bits)| Step::Remove(large, bits)),
        1 => any_customization().prop_map(Step::Delete),
        1 => any_customization().prop_map(Step::Create),
        1 => any_customization().prop_map(Step::Reset),
        2 => any::<bool>().prop_map(Step::Claim),
        2 => Just(Step::Release),
        1 => (0..4_usize).prop_map(Step::DeleteCluster),
        4 => (1..200_i64).prop_map(Step::Minutes),
    ]
}

fn customization(number: u32, publish: u32) -> String {
    format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\n\
         metadata: {{name: vexx-{number}}}\nspec:\n  installConfigPatches:\n  \
         - {{op: replace, path: /metadata/name, value: oko-{number}}}\n  \
         - {{op: replace, path: /publish, value: \"{publish}\"}}\n---\n"
    )
}

/// The name of a pool, and its entries.
fn pool(large: bool) -> (&'static str, &'static [u32]) {
    if large { ("oko-08", &LARGE) } else { ("oko-09", &SMALL) }
}

/// The inventory with those entries whose bit is set, as YAML.
fn inventory(entries: &[u32], bits: u32) -> String {
    let mut kept = Vec::new();
    for (index, number) in entries.iter().enumerate() {
        if bits & (1 << index) != 0 {
            kept.push(format!("{{name: vexx-{number}}}"));
        }
    }
    if kept.is_empty() { "null".into() } else { format!("[{}]", kept.join(", ")) }
}

/// Both pools with all of their entries, and the customizations.
fn sandbox_with_pools() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create none --fake --size 0 -q");
    let mut manifest = String::new();
    for number in LARGE.iter().chain(&SMALL[1..]) {
        manifest += &customization(*number, 0);
    }
    for large in [true, false] {
        let (name, entries) = pool(large);
        let size = entries.len();
        write!(
            manifest,
            "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: {name}}}\nspec:\n  \
             size: {size}\n  runningCount: {size}\n  maxSize: {size}\n  maxConcurrent: {size}\n  \
             baseDomain: example.com\n  imageSetRef: {{name: simulated}}\n  platform: {{none: {{}}}}\n  \
             inventory: {}\n  annotations: {{hive.openshift.io/fake-cluster: \"true\"}}\n---\n",
            inventory(entries, u32::MAX)
        )
        .unwrap();
    }
    apply(&sandbox, &manifest);
    sandbox
}

/// The command that patches these fields of a pool's spec.
fn patch_command(pool: &str, fields: &str) -> String {
    format!("patch pool {pool} -p '{{spec: {{{fields}}}}}' -q")
}

/// The command of a step. `now` counts minutes since the 3rd of March.
fn command_of(sandbox: &mut Sandbox, step: &Step, number: usize, now: &mut i64) -> String {
    match step {
        Step::Scale(large, size) => {
            format!("pool scale {} --size {size} -q", pool(*large).0)
        }
        Step::Fail(large, every) => patch_command(
            pool(*large).0,
            &format!("annotations: {{poolctl.dev/fake-fail-every: \"{every}\"}}"),
        ),
        Step::Edit(entry, publish) => {
            let manifest = customization(*entry, *publish);
            let file = sandbox.write_file(&format!("{number}.yaml"), &manifest);
            format!("apply -qf {file}")
        }
        Step::Remove(large, bits) => {
            let (name, entries) = pool(*large);
            patch_command(name, &format!("inventory: {}", inventory(entries, *bits)))
        }
        Step::Delete(entry) => {
            format!("delete cdc vexx-{entry} --ignore-not-found -q")
        }
        Step::Create(entry) => {
            format!("customization create vexx-{entry} --set /metadata/name=oko-{entry} -q")
        }
        Step::Reset(entry) => format!("customization reset vexx-{entry} -q"),
        Step::Claim(large) => format!("claim {} k{number} -q", pool(*large).0),
        Step::Release => "delete claim --all -y -q".to_owned(),
        Step::DeleteCluster(index) => {
            let names = sandbox.ok("get cluster -A -o name");
            match names.lines().nth(*index) {
                Some(name) => format!("delete {name} -y -q"),
                None => "reconcile -q".to_owned(),
            }
        }
        Step::Minutes(minutes) => {
            *now += minutes;
            let day = 3 + *now / 1440;
            let time = format!("2026-03-{day:02}T{:02}:{:02}:00Z", *now / 60 % 24, *now % 60);
            sandbox.set_variable("POOLCTL_NOW", &time);
            "reconcile -q".to_owned()
        }
    }
}

/// Customizations and names in DNS that more than one cluster has.
fn held_twice(sandbox: &Sandbox) -> Vec<String> {
    let json = sandbox.ok("get cluster -A -o json");
    let list: Value = serde_json::from_str(&json).unwrap();
    let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cluster in list["items"].as_array().unwrap() {
        let name = cluster["metadata"]["name"].as_str().unwrap();
        let customization =
            &cluster["spec"]["clusterPoolRef"]["clusterDeploymentCustomization"]["name"];
        let dns_name = &cluster["spec"]["clusterName"];
        for resource in [customization, dns_name].into_iter().filter_map(Value::as_str) {
            holders.entry(resource.to_owned()).or_default().push(name.to_owned());
        }
    }
    holders.retain(|_, clusters| clusters.len() > 1);
    holders.into_iter().map(|(name, clusters)| format!("{name}: {}", clusters.join(", "))).collect()
}

/// How often things happened that the histories are about.
type Counts = BTreeMap<&'static str, usize>;

/// Plays a history, with two passes at the same time as each of its commands.
fn play(steps: &[Step], counts: &mut Counts) -> Result<(), TestCaseError> {
    let (mut sandbox, mut now) = (sandbox_with_pools(), 720);
    // Some installations fail in each history.
    for (number, step) in [Step::Fail(true, 3)].iter().chain(steps).enumerate() {
        let command = command_of(&mut sandbox, step, number, &mut now);
        let pass = "reconcile -q".to_owned();
        for ran in sandbox.run_together(&[command, pass.clone(), pass]) {
            let is_known_code = [0, 1, 3, 4].contains(&ran.code);
            prop_assert!(is_known_code, "{step:?}: {} {}", ran.code, ran.err);
            prop_assert!(!ran.err.contains("InvariantViolated"), "{step:?}: {}", ran.err);
            *counts.entry("commands that worked").or_default() += usize::from(ran.code == 0);
        }
        let twice = held_twice(&sandbox);
        prop_assert!(twice.is_empty(), "{step:?}: {twice:?}");
    }
    sandbox.ok("reconcile --wait -q");
    prop_assert!(held_twice(&sandbox).is_empty());
    let events = sandbox.ok("events");
    for reason in ["Reserved", "Released", "ProvisionStopped", "Installed"] {
        *counts.entry(reason).or_default() += events.matches(reason).count();
    }
    // doctor may find claims whose cluster somebody has deleted, but nothing else.
    let doctor = sandbox.run("doctor");
    prop_assert!([0, 1].contains(&doctor.code), "{}{}", doctor.out, doctor.err);
    for line in doctor.out.lines().filter(|line| !line.starts_with("claims")) {
        prop_assert!(!line.contains(" wrong "), "{}{}", doctor.out, doctor.err);
    }
    Ok(())
}

#[test]
fn no_customization_is_ever_on_two_clusters() {
    let config =
        Config { cases: 5, max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    let histories = prop::collection::vec(any_step(), 15..35);
    let counts = RefCell::new(Counts::new());
    let result =
        TestRunner::new(config).run(&histories, |steps| play(&steps, &mut counts.borrow_mut()));
    if let Err(failure) = result {
        panic!("{failure}");
    }
    // Without these nothing would have been tried.
    let counts = counts.into_inner();
    for (name, least) in [
        ("commands that worked", 150),
        ("Reserved", 50),
        ("Released", 10),
        ("Installed", 50),
        ("ProvisionStopped", 1),
    ] {
        assert!(counts.get(name).is_some_and(|count| *count >= least), "{name}: {counts:?}");
    }
}
