//! Pools of bare metal that hibernate or have trouble: machines that sleep and wake with their
//! cluster, installations that fail, controllers that refuse and that do not answer.

use std::fs;
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::baremetal::{discover_rack, example_objects, wait_until};
use crate::lab::Lab;
use crate::machines::OC_OF_READY_CLUSTER;
use crate::rack::{Rack, mac, state_of};
use crate::sandbox::{Sandbox, apply, jsonpath, power_of};
use crate::served::{Server, black_hole};

/// The example's pool, which has no cluster yet, and a rack whose machines are all discovered.
fn known_rack() -> Option<(Rack, Lab, Server)> {
    let rack = Rack::start()?;
    let lab = Lab::new();
    let web = Server::of_folder(&lab.bin("images"));
    apply(&lab.sandbox, &example_objects(&lab, &web).replace("  size: 2\n", "  size: 0\n"));
    let oc = lab.sandbox.write_script("bin/oc", OC_OF_READY_CLUSTER);
    patch(&lab.sandbox, "settings/default", &json!({"spec": {"programs": {"oc": oc}}}));
    discover_rack(&lab.sandbox, &rack);
    wait_until(&lab, "known", |sandbox| {
        (2..=8).all(|number| state_of(sandbox, &format!("n{number}")) == "known-unbound")
    });
    Some((rack, lab, web))
}

fn patch(sandbox: &Sandbox, object: &str, patch: &serde_json::Value) {
    sandbox.ok(&format!("patch {object} --type merge -p '{patch}' -q"));
}

fn scale(sandbox: &Sandbox, size: usize) {
    sandbox.ok(&format!("pool scale metal --size {size} -q"));
}

fn has_ready(sandbox: &Sandbox, count: &str) -> bool {
    jsonpath(sandbox, "pool/metal", "{.status.ready}") == count
}

fn count_events(sandbox: &Sandbox, reason: &str) -> usize {
    sandbox.ok("events").lines().filter(|line| line.contains(reason)).count()
}

/// The cluster that holds a customization.
fn holder_of(sandbox: &Sandbox, customization: &str) -> String {
    let path = "{.status.clusterDeploymentRef.name}";
    jsonpath(sandbox, &format!("cdc/{customization}"), path)
}

/// The numbers of the machines that a cluster has.
fn machines_of(sandbox: &Sandbox, cluster: &str) -> Vec<usize> {
    let path = format!("{{.items[?(@.status.boundTo.name==\"{cluster}\")].metadata.name}}");
    let names = jsonpath(sandbox, "agent", &path);
    names.split_whitespace().map(|name| name.trim_start_matches('n').parse().unwrap()).collect()
}

/// Whether the emulator says of all these machines that they are `On` or `Off`, and that no image
/// is in them.
fn all_are(rack: &Rack, machines: &[usize], power: &str) -> bool {
    machines.iter().all(|number| {
        let seen = rack.emulator.describe_machine(*number);
        seen.starts_with(&format!("{power} ")) && seen.ends_with(" -")
    })
}

fn run_passes(sandbox: &Sandbox, count: usize) {
    for _ in 0..count {
        sandbox.ok("reconcile -q");
    }
}

/// Whether the nodes of a cluster are ready.
fn is_awake(sandbox: &Sandbox, cluster: &str) -> bool {
    ["PausingForClusterOperatorsToSettle", "Running"].contains(&&*power_of(sandbox, cluster))
}

#[test]
fn machines_sleep_and_wake_with_their_cluster_claimed_or_not() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let sandbox = &lab.sandbox;
    patch(sandbox, "pool/metal", &json!({"spec": {"hibernateAfter": "1s"}}));
    scale(sandbox, 2);
    wait_until(&lab, "ready", |sandbox| has_ready(sandbox, "2"));
    let clusters = [holder_of(sandbox, "metal-a"), holder_of(sandbox, "metal-b")];
    let machines = clusters.clone().map(|cluster| machines_of(sandbox, &cluster));
    assert!(all_are(&rack, &machines.concat(), "On"));
    // hibernateAfter is for claimed clusters; those that wait in the pool run on.
    sandbox.ok("claim metal ci -q");
    let claimed = jsonpath(sandbox, "claim/ci", "{.spec.namespace}");
    let claimed_machines = machines_of(sandbox, &claimed);
    wait_until(&lab, "asleep", |sandbox| power_of(sandbox, &claimed) == "Hibernating");
    assert!(all_are(&rack, &claimed_machines, "Off"));
    assert_eq!(count_events(sandbox, "HibernateAfter"), 1);
    let waiting = clusters.into_iter().find(|cluster| *cluster != claimed).unwrap();
    let waiting_machines = machines_of(sandbox, &waiting);
    assert!(all_are(&rack, &waiting_machines, "On") && power_of(sandbox, &waiting) == "Running");
    // Its hosts are still its own, and nobody turns them on.
    assert_eq!(machines_of(sandbox, &claimed), claimed_machines);
    run_passes(sandbox, 3);
    assert!(all_are(&rack, &claimed_machines, "Off"));

    sandbox.ok("cluster resume ci -q");
    wait_until(&lab, "its nodes are ready", |sandbox| is_awake(sandbox, &claimed));
    assert!(all_are(&rack, &claimed_machines, "On"));
    // By powerState, as its user says, while it is waking.
    sandbox.ok("cluster hibernate ci -q");
    wait_until(&lab, "asleep again", |sandbox| power_of(sandbox, &claimed) == "Hibernating");
    assert!(all_are(&rack, &claimed_machines, "Off"));
    // The pool keeps fewer running.
    sandbox.ok("pool scale metal --running-count 0 -q");
    wait_until(&lab, "standing by", |sandbox| power_of(sandbox, &waiting) == "Hibernating");
    assert!(all_are(&rack, &waiting_machines, "Off"));
    sandbox.ok("claim metal next -q");
    wait_until(&lab, "waking for a claim", |sandbox| is_awake(sandbox, &waiting));
    assert!(all_are(&rack, &waiting_machines, "On") && all_are(&rack, &claimed_machines, "Off"));
    sandbox.ok("doctor");
}

#[test]
fn a_host_that_fails_to_install_costs_an_attempt_and_its_cluster_is_given_up_at_the_limit() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let sandbox = &lab.sandbox;
    patch(sandbox, "pool/metal", &json!({"spec": {"installAttemptsLimit": 2}}));
    let reason = "Host n3: failed to write the image to its disk";
    lab.set_behaviour(&format!("agent-install of metal-a: exit 6 {reason}\n"));
    scale(sandbox, 2);
    wait_until(&lab, "failed", |sandbox| count_events(sandbox, "provision failed") == 1);
    let first = holder_of(sandbox, "metal-a");
    let machines = machines_of(sandbox, &first);
    assert_eq!(machines.len(), 3);
    // What the attempt has left is cleaned up before the wait for the next one.
    wait_until(&lab, "cleaned up", |_| all_are(&rack, &machines, "Off"));
    let why = sandbox.ok(&format!("why cluster/{first}"));
    assert!(why.contains("failed to install once") && why.contains(reason), "{why}");
    // Nothing keeps the other from being installed.
    wait_until(&lab, "the other is ready", |sandbox| has_ready(sandbox, "1"));
    // The second attempt is the last: off, free, and made anew.
    sandbox.ok(&format!("cluster retry {first} -q"));
    wait_until(&lab, "given up", |sandbox| count_events(sandbox, "ProvisionStopped") == 1);
    assert!(sandbox.ok(&format!("events cluster/{first}")).contains("after 2 failed"));
    assert_eq!(jsonpath(sandbox, "pool/metal", "{.status.inventory.metal-a.attempts}"), "2");
    lab.set_behaviour("");
    wait_until(&lab, "gone", |sandbox| {
        !jsonpath(sandbox, "cluster", "{.items[*].metadata.name}").contains(&first)
    });
    wait_until(&lab, "made anew", |sandbox| has_ready(sandbox, "2"));
    let begun = lab.ledger().iter().filter(|line| line.starts_with("image metal-a ")).count();
    assert_eq!(begun, 3);
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 0);
    sandbox.ok("doctor");
}

#[test]
fn when_one_controller_takes_no_image_no_host_of_its_cluster_begins() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let sandbox = &lab.sandbox;
    // The weakest is picked first.
    rack.refuses.store(2, Ordering::Relaxed);
    scale(sandbox, 2);
    wait_until(&lab, "failed", |sandbox| count_events(sandbox, "provision failed") > 0);
    let events = sandbox.ok("events");
    assert!(events.contains("n2: ") && events.contains("answers 503"), "{events}");
    let begun = |step: &str| lab.ledger().iter().filter(|line| line.contains(step)).count();
    assert!(begun("begin agent-image") >= 2);
    assert!(["image metal-a ", "image metal-b "].iter().all(|step| begun(step) > 0));
    let image_with_n2 = lab.ledger().into_iter().find(|line| line.contains(&mac(2)));
    assert!(
        image_with_n2.is_some_and(|line| line.starts_with("image metal-")),
        "{:?}",
        lab.ledger()
    );
    assert!(begun("begin agent-bootstrap") <= 1, "the other alone");
    assert!([2, 3, 4].iter().all(|number| rack.emulator.describe_machine(*number).ends_with(" -")));
    rack.refuses.store(0, Ordering::Relaxed);
    // A controller that is away for a while uses up no attempt: the cluster is tried again.
    let waiting = jsonpath(sandbox, "agent/n2", "{.status.boundTo.name}");
    wait_until(&lab, "both are ready", |sandbox| {
        sandbox.run(&format!("cluster retry {waiting} -q"));
        has_ready(sandbox, "2")
    });
    assert_eq!(count_events(sandbox, "ProvisionStopped"), 0);
    for customization in ["metal-a", "metal-b"] {
        let path = format!("{{.status.inventory.{customization}.attempts}}");
        assert_eq!(jsonpath(sandbox, "pool/metal", &path), "3", "{customization}");
    }
    assert_eq!(count_events(sandbox, "InvariantViolated"), 0);
    sandbox.ok("doctor");
}

#[test]
fn when_one_controller_does_not_switch_its_host_on_none_of_its_cluster_stays_on() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let sandbox = &lab.sandbox;
    rack.stays_off.store(2, Ordering::Relaxed);
    scale(sandbox, 1);
    wait_until(&lab, "failed", |sandbox| count_events(sandbox, "provision failed") > 0);
    let machines = machines_of(sandbox, &jsonpath(sandbox, "agent/n2", "{.status.boundTo.name}"));
    assert!(machines.len() == 3 && machines.contains(&2), "{machines:?}");
    assert!(all_are(&rack, &machines, "Off"), "{machines:?}");
    run_passes(sandbox, 3);
    assert!(all_are(&rack, &machines, "Off"), "{machines:?}");
    rack.stays_off.store(0, Ordering::Relaxed);
    wait_until(&lab, "ready", |sandbox| has_ready(sandbox, "1"));
}

#[test]
fn a_controller_that_does_not_answer_holds_up_its_cluster_alone_and_is_named() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let sandbox = &lab.sandbox;
    let (_listener, hole) = black_hole();
    let address = format!("{hole}/redfish/v1/Systems/2");
    let change = json!({"spec": {"bmc": {"address": address}}}).to_string();
    sandbox.ok(&format!("patch host n2 --type merge -p '{change}' -q --no-reconcile"));
    scale(sandbox, 2);
    wait_until(&lab, "one is ready", |sandbox| has_ready(sandbox, "1"));
    wait_until(&lab, "it was asked in vain", |sandbox| {
        sandbox.status().contains("does not answer")
    });
    let status = sandbox.status();
    assert!(status.contains("! host n2 ") && status.contains("does not answer"), "{status}");
    // The weakest is picked first, and of the cluster that has it no machine was told anything.
    let cluster = jsonpath(sandbox, "agent/n2", "{.status.boundTo.name}");
    let machines = machines_of(sandbox, &cluster);
    assert!(machines.len() == 3 && machines.contains(&2), "{cluster}: {machines:?}");
    let images: Vec<String> =
        lab.ledger().into_iter().filter(|line| line.starts_with("image ")).collect();
    assert!(images.len() == 1 && !images[0].contains(&mac(2)), "{images:?}");
    let reachable: Vec<usize> = machines.into_iter().filter(|number| *number != 2).collect();
    assert!(all_are(&rack, &reachable, "Off"));
    let why = sandbox.ok(&format!("why cluster/{cluster}"));
    assert!(why.contains("host n2 is disconnected"), "{why}");
    patch(sandbox, "host/n2", &json!({"spec": {"bmc": {"address": rack.address(2)}}}));
    wait_until(&lab, "both are ready", |sandbox| has_ready(sandbox, "2"));
    sandbox.ok("doctor");
}
