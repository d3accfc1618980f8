//! Two pools in production's shape, 17 and 2 entries that share one, through random failures,
//! edits, removals and reconciles that run at once: no customization is ever on two clusters.

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

#[derive(Clone, Debug)]
enum Step {
    Scale(bool, u32),
    /// Every n-th installation of a pool fails; 0 for none.
    Fail(bool, u32),
    Edit(u32, u32),
    /// Entries whose bit is not set leave the inventory.
    Remove(bool, u32),
    /// Deletes a customization, or makes it again.
    Delete(u32),
    Create(u32),
    Reset(u32),
    Claim(bool),
    Release,
    DeleteCluster(usize),
    Minutes(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let one = || prop_oneof![Just(1_u32), Just(20), Just(23), 2..5_u32];
    prop_oneof![
        2 => (any::<bool>(), 0..18_u32).prop_map(|(large, size)| Step::Scale(large, size)),
        1 => (any::<bool>(), 0..4_u32).prop_map(|(large, every)| Step::Fail(large, every)),
        3 => (one(), any::<u32>()).prop_map(|(one, to)| Step::Edit(one, to % 3)),
        3 => (any::<bool>(), any::<u32>()).prop_map(|(large, bits)| Step::Remove(large, bits)),
        1 => one().prop_map(Step::Delete),
        1 => one().prop_map(Step::Create),
        1 => one().prop_map(Step::Reset),
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

fn pool(large: bool) -> (&'static str, &'static [u32]) {
    if large { ("oko-08", &LARGE) } else { ("oko-09", &SMALL) }
}

fn inventory(entries: &[u32], bits: u32) -> String {
    let left = entries.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
    let left: Vec<String> =
        left.map(|(_, number)| format!("{{\"name\": \"vexx-{number}\"}}")).collect();
    if left.is_empty() { "null".into() } else { format!("[{}]", left.join(", ")) }
}

fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "none", "--fake", "--size", "0", "-q"]);
    let mut text = String::new();
    for number in LARGE.iter().chain(&SMALL[1..]) {
        text += &customization(*number, 0);
    }
    for large in [true, false] {
        let (name, entries) = pool(large);
        let many = entries.len();
        write!(
            text,
            "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: {name}}}\nspec:\n  \
             size: {many}\n  runningCount: {many}\n  maxSize: {many}\n  maxConcurrent: {many}\n  \
             baseDomain: example.com\n  imageSetRef: {{name: simulated}}\n  platform: {{none: {{}}}}\n  \
             inventory: {}\n  annotations: {{hive.openshift.io/fake-cluster: \"true\"}}\n---\n",
            inventory(entries, u32::MAX)
        )
        .unwrap();
    }
    apply(&sandbox, &text);
    sandbox
}

/// The commands of a step.
fn command(sandbox: &mut Sandbox, step: &Step, number: usize, now: &mut i64) -> Vec<String> {
    let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let patch = |name: &str, spec: String| {
        let spec = format!("{{\"spec\": {{{spec}}}}}");
        ["patch", "pool", name, "-p", &spec, "-q"].map(str::to_owned).to_vec()
    };
    match step {
        Step::Scale(large, size) => {
            words(format!("pool scale {} --size {size} -q", pool(*large).0))
        }
        Step::Fail(large, every) => {
            let steer =
                format!("\"annotations\": {{\"poolctl.dev/fake-fail-every\": \"{every}\"}}");
            patch(pool(*large).0, steer)
        }
        Step::Edit(one, to) => {
            let file = sandbox.file(&format!("{number}.yaml"), &customization(*one, *to));
            words(format!("apply -qf {file}"))
        }
        Step::Remove(large, bits) => {
            let (name, entries) = pool(*large);
            patch(name, format!("\"inventory\": {}", inventory(entries, *bits)))
        }
        Step::Delete(one) => words(format!("delete cdc vexx-{one} --ignore-not-found -q")),
        Step::Create(one) => {
            words(format!("customization create vexx-{one} --set /metadata/name=oko-{one} -q"))
        }
        Step::Reset(one) => words(format!("customization reset vexx-{one} -q")),
        Step::Claim(large) => words(format!("claim {} k{number} -q", pool(*large).0)),
        Step::Release => words("delete claim --all -y -q".into()),
        Step::DeleteCluster(at) => {
            let all = sandbox.ok(&["get", "cluster", "-A", "-o", "name"]);
            match all.lines().nth(*at) {
                Some(name) => words(format!("delete {name} -y -q")),
                None => words("reconcile -q".into()),
            }
        }
        Step::Minutes(minutes) => {
            *now += minutes;
            let time = format!(
                "2026-03-{:02}T{:02}:{:02}:00Z",
                3 + *now / 1440,
                *now / 60 % 24,
                *now % 60
            );
            sandbox.set("POOLCTL_NOW", &time);
            words("reconcile -q".into())
        }
    }
}

/// What has more than one holder.
fn held_twice(sandbox: &Sandbox) -> Vec<String> {
    let all = sandbox.ok(&["get", "cluster", "-A", "-o", "json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in all["items"].as_array().unwrap() {
        let name = one["metadata"]["name"].as_str().unwrap().to_owned();
        let used = &one["spec"]["clusterPoolRef"]["clusterDeploymentCustomization"]["name"];
        let dns = &one["spec"]["clusterName"];
        for what in [used, dns].into_iter().filter_map(Value::as_str) {
            holders.entry(what.to_owned()).or_default().push(name.clone());
        }
    }
    holders.retain(|_, holders| holders.len() > 1);
    holders.into_iter().map(|(what, by)| format!("{what}: {}", by.join(", "))).collect()
}

#[test]
fn no_customization_is_ever_on_two_clusters() {
    let config =
        Config { cases: 5, max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let seen = RefCell::new(BTreeMap::<&str, usize>::new());
    let histories = prop::collection::vec(step(), 15..35);
    let done = runner.run(&histories, |steps| {
        let (mut sandbox, mut now) = (prepared(), 720);
        // Some installations fail in each history.
        for (number, step) in [Step::Fail(true, 3)].iter().chain(&steps).enumerate() {
            let one = command(&mut sandbox, step, number, &mut now);
            let pass = || ["reconcile", "-q"].map(str::to_owned).to_vec();
            for ran in sandbox.together(&[one, pass(), pass()]) {
                prop_assert!(
                    [0, 1, 3, 4].contains(&ran.code),
                    "{step:?}: {} {}",
                    ran.code,
                    ran.err
                );
                prop_assert!(!ran.err.contains("InvariantViolated"), "{step:?}: {}", ran.err);
                *seen.borrow_mut().entry("commands that worked").or_default() +=
                    usize::from(ran.code == 0);
            }
            let twice = held_twice(&sandbox);
            prop_assert!(twice.is_empty(), "{step:?}: {twice:?}");
        }
        sandbox.ok(&["reconcile", "--wait", "-q"]);
        prop_assert!(held_twice(&sandbox).is_empty());
        let events = sandbox.ok(&["events"]);
        for what in ["Reserved", "Released", "ProvisionStopped", "Installed"] {
            let times = events.matches(what).count();
            *seen.borrow_mut().entry(what).or_default() += times;
        }
        // A claim whose cluster somebody deleted is said; anything else would be wrong.
        let doctor = sandbox.run(&["doctor"]);
        let mut found = doctor.out.lines().filter(|line| !line.starts_with("claims"));
        let fine = found.all(|line| !line.contains(" wrong "));
        prop_assert!(fine && [0, 1].contains(&doctor.code), "{}{}", doctor.out, doctor.err);
        Ok(())
    });
    if let Err(failed) = done {
        panic!("{failed}");
    }
    // Without these nothing would have been tried.
    let seen = seen.into_inner();
    for (what, least) in [
        ("commands that worked", 150),
        ("Reserved", 50),
        ("Released", 10),
        ("Installed", 50),
        ("ProvisionStopped", 1),
    ] {
        assert!(seen.get(what).is_some_and(|times| *times >= least), "{what}: {seen:?}");
    }
}
