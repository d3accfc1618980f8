//! Pools of bare metal by night and in trouble: machines that sleep and wake with their cluster,
//! installations that fail, controllers that refuse and that do not answer.

use std::fs;
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::baremetal::{discovered, objects, until};
use crate::lab::Lab;
use crate::machines::OC;
use crate::rack::{Rack, mac, state_of};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::{Server, black_hole};

/// The example's pool, which has no cluster yet, and machines that are known.
fn known_rack() -> Option<(Rack, Lab, Server)> {
    let rack = Rack::start()?;
    let lab = Lab::new();
    let web = Server::of(&lab.bin("images"));
    apply(&lab.sandbox, &objects(&lab, &web).replace("  size: 2\n", "  size: 0\n"));
    fs::write(lab.bin("oc"), OC).unwrap();
    lab.sandbox.shell("chmod 755 $HOME/bin/oc");
    let oc = json!({"spec": {"programs": {"oc": lab.bin("oc").display().to_string()}}});
    patch(&lab.sandbox, "settings/default", &oc);
    discovered(&lab.sandbox, &rack);
    let known =
        |one: &Sandbox| (2..=8).all(|at| state_of(one, &format!("n{at}")) == "known-unbound");
    until(&lab, "known", known);
    Some((rack, lab, web))
}

fn patch(one: &Sandbox, what: &str, patch: &serde_json::Value) {
    one.ok(&["patch", what, "--type", "merge", "-p", &patch.to_string(), "-q"]);
}

fn scale(one: &Sandbox, size: usize) {
    one.ok(&["pool", "scale", "metal", "--size", &size.to_string(), "-q"]);
}

fn ready(one: &Sandbox, number: &str) -> bool {
    jsonpath(one, "pool/metal", "{.status.ready}") == number
}

fn events(one: &Sandbox, reason: &str) -> usize {
    one.ok("events").lines().filter(|line| line.contains(reason)).count()
}

/// The cluster that has a customization.
fn with(one: &Sandbox, customization: &str) -> String {
    let path = "{.status.clusterDeploymentRef.name}";
    jsonpath(one, &format!("cdc/{customization}"), path)
}

/// Numbers of the machines of a cluster.
fn machines_of(one: &Sandbox, cluster: &str) -> Vec<usize> {
    let path = format!("{{.items[?(@.status.boundTo.name==\"{cluster}\")].metadata.name}}");
    let names = jsonpath(one, "agent", &path);
    names.split_whitespace().map(|name| name.trim_start_matches('n').parse().unwrap()).collect()
}

/// What the emulator says of all of these: `On` or `Off`, and that no image is in them.
fn are(rack: &Rack, machines: &[usize], power: &str) -> bool {
    machines.iter().all(|number| {
        let seen = rack.emulator.seen(*number);
        seen.starts_with(&format!("{power} ")) && seen.ends_with(" -")
    })
}

fn power_of(one: &Sandbox, cluster: &str) -> String {
    jsonpath(one, &format!("cluster/{cluster}"), "{.status.powerState}")
}

#[test]
fn machines_sleep_and_wake_with_their_cluster_claimed_or_not() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let one = &lab.sandbox;
    patch(one, "pool/metal", &json!({"spec": {"hibernateAfter": "1s"}}));
    scale(one, 2);
    until(&lab, "ready", |one| ready(one, "2"));
    let both = [with(one, "metal-a"), with(one, "metal-b")].map(|name| machines_of(one, &name));
    assert!(are(&rack, &both.concat(), "On"));
    // Whoever has it has hibernateAfter; whoever waits in the pool runs on.
    one.ok("claim metal ci -q");
    let mine = jsonpath(one, "claim/ci", "{.spec.namespace}");
    let its = machines_of(one, &mine);
    until(&lab, "asleep", |one| power_of(one, &mine) == "Hibernating");
    assert!(are(&rack, &its, "Off"));
    assert_eq!(events(one, "HibernateAfter"), 1);
    let other = [with(one, "metal-a"), with(one, "metal-b")];
    let other = other.into_iter().find(|name| *name != mine).unwrap();
    let others = machines_of(one, &other);
    assert!(are(&rack, &others, "On") && power_of(one, &other) == "Running");
    // Its hosts are still its own, and nobody turns them on.
    assert_eq!(machines_of(one, &mine), its);
    (0..3).for_each(|_| drop(one.ok("reconcile -q")));
    assert!(are(&rack, &its, "Off"));

    one.ok("cluster resume ci -q");
    until(&lab, "its nodes are ready", |one| {
        ["PausingForClusterOperatorsToSettle", "Running"].contains(&&*power_of(one, &mine))
    });
    assert!(are(&rack, &its, "On"));
    // By powerState, as its user says, while it is waking.
    one.ok("cluster hibernate ci -q");
    until(&lab, "asleep again", |one| power_of(one, &mine) == "Hibernating");
    assert!(are(&rack, &its, "Off"));
    // The pool keeps fewer running.
    one.ok("pool scale metal --running-count 0 -q");
    until(&lab, "standing by", |one| power_of(one, &other) == "Hibernating");
    assert!(are(&rack, &others, "Off"));
    one.ok("claim metal next -q");
    until(&lab, "waking for a claim", |one| {
        ["PausingForClusterOperatorsToSettle", "Running"].contains(&&*power_of(one, &other))
    });
    assert!(are(&rack, &others, "On") && are(&rack, &its, "Off"));
    one.ok("doctor");
}

#[test]
fn a_host_that_fails_to_install_costs_an_attempt_and_its_cluster_is_given_up_at_the_limit() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let one = &lab.sandbox;
    patch(one, "pool/metal", &json!({"spec": {"installAttemptsLimit": 2}}));
    let why = "Host n3: failed to write the image to its disk";
    lab.behave(&format!("agent-install of metal-a: exit 6 {why}\n"));
    scale(one, 2);
    until(&lab, "failed", |one| events(one, "provision failed") == 1);
    let first = with(one, "metal-a");
    let its = machines_of(one, &first);
    assert_eq!(its.len(), 3);
    assert!(are(&rack, &its, "On"), "ejected at once");
    let said = one.ok(&format!("why cluster/{first}"));
    assert!(said.contains("failed to install once") && said.contains(why), "{said}");
    // Nothing keeps the other from being installed.
    until(&lab, "the other is ready", |one| ready(one, "1"));
    // The second attempt is the last: off, free, and made anew.
    one.ok(&format!("cluster retry {first} -q"));
    until(&lab, "given up", |one| events(one, "ProvisionStopped") == 1);
    assert!(one.ok(&format!("events cluster/{first}")).contains("after 2 failed"));
    assert_eq!(jsonpath(one, "pool/metal", "{.status.inventory.metal-a.attempts}"), "2");
    lab.behave("");
    let gone =
        |one: &Sandbox| !jsonpath(one, "cluster", "{.items[*].metadata.name}").contains(&first);
    until(&lab, "gone", gone);
    until(&lab, "made anew", |one| ready(one, "2"));
    let begun = lab.ledger().iter().filter(|line| line.starts_with("image metal-a ")).count();
    assert_eq!(begun, 3);
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 0);
    one.ok("doctor");
}

#[test]
fn when_one_controller_takes_no_image_no_host_of_its_cluster_begins() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let one = &lab.sandbox;
    // The weakest is picked first.
    rack.refuses.store(2, Ordering::Relaxed);
    scale(one, 2);
    until(&lab, "failed", |one| events(one, "provision failed") > 0);
    let said = one.ok("events");
    assert!(said.contains("n2: ") && said.contains("answers 503"), "{said}");
    let begun = |step: &str| lab.ledger().iter().filter(|line| line.contains(step)).count();
    assert!(begun("begin agent-image") >= 2);
    assert!(["image metal-a ", "image metal-b "].iter().all(|one| begun(one) > 0));
    let with_n2 = lab.ledger().into_iter().find(|line| line.contains(&mac(2)));
    assert!(with_n2.is_some_and(|line| line.starts_with("image metal-")), "{:?}", lab.ledger());
    assert!(begun("begin agent-bootstrap") <= 1, "the other alone");
    assert!([2, 3, 4].iter().all(|one| rack.emulator.seen(*one).ends_with(" -")));
    rack.refuses.store(0, Ordering::Relaxed);
    until(&lab, "both are ready", |one| ready(one, "2"));
    assert_eq!(events(one, "InvariantViolated"), 0);
    one.ok("doctor");
}

#[test]
fn when_one_controller_does_not_switch_its_host_on_none_of_its_cluster_stays_on() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let one = &lab.sandbox;
    rack.stays_off.store(2, Ordering::Relaxed);
    scale(one, 1);
    until(&lab, "failed", |one| events(one, "provision failed") > 0);
    let its = machines_of(one, &jsonpath(one, "agent/n2", "{.status.boundTo.name}"));
    assert_eq!((its.len(), its.contains(&2)), (3, true), "{its:?}");
    assert!(are(&rack, &its, "Off"), "{its:?}");
    (0..3).for_each(|_| drop(one.ok("reconcile -q")));
    assert!(are(&rack, &its, "Off"), "{its:?}");
    rack.stays_off.store(0, Ordering::Relaxed);
    until(&lab, "ready", |one| ready(one, "1"));
}

#[test]
fn a_controller_that_does_not_answer_holds_up_its_cluster_alone_and_is_named() {
    let Some((rack, lab, _web)) = known_rack() else { return };
    let one = &lab.sandbox;
    let (_listener, hole) = black_hole();
    let to = |address: &str| json!({"spec": {"bmc": {"address": address}}}).to_string();
    let hole = to(&format!("{hole}/redfish/v1/Systems/2"));
    one.ok(&["patch", "host", "n2", "--type", "merge", "-p", &hole, "-q", "--no-reconcile"]);
    scale(one, 2);
    until(&lab, "one is ready", |one| ready(one, "1"));
    until(&lab, "it was asked in vain", |one| one.ok("status").contains("does not answer"));
    let said = one.ok("status");
    assert!(said.contains("host `n2`: ") && said.contains("does not answer"), "{said}");
    // The weakest is picked first, and of the cluster that has it no machine was told anything.
    let name = jsonpath(one, "agent/n2", "{.status.boundTo.name}");
    let its = machines_of(one, &name);
    assert_eq!((its.len(), its.contains(&2)), (3, true), "{name}: {its:?}");
    let images: Vec<String> =
        lab.ledger().into_iter().filter(|line| line.starts_with("image ")).collect();
    assert!(images.len() == 1 && !images[0].contains(&mac(2)), "{images:?}");
    let others: Vec<usize> = its.into_iter().filter(|number| *number != 2).collect();
    assert!(are(&rack, &others, "Off"));
    let said = one.ok(&format!("why cluster/{name}"));
    assert!(said.contains("host n2 is disconnected"), "{said}");
    patch(one, "host/n2", &json!({"spec": {"bmc": {"address": rack.address(2)}}}));
    until(&lab, "both are ready", |one| ready(one, "2"));
    one.ok("doctor");
}
