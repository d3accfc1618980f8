//! Hosts and their management controllers, on loopback: ipmi_sim, sushy-emulator, and servers that
//! behave badly.

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::rigs::{Emulator, IpmiSim, PASSWORD, USER, self_signed_certificate, signed_certificate};
use crate::sandbox::{Sandbox, apply, jsonpath, pause};
use crate::served::{Answer, Server, black_hole, closed_port};

/// A state on the real clock, as real controllers need it.
pub fn sandbox_on_real_clock() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "");
    sandbox.set_variable("POOLCTL_SEED", "");
    sandbox
}

/// Reconciles until a condition is met, for some minutes at most: after an attempt that broke off,
/// machines are watched for a while before the next one. The name of the condition is part of the
/// failure.
pub fn reconcile_until(lab: &Sandbox, name: &str, is_met: impl Fn(&Sandbox) -> bool) {
    for _ in 0..1000 {
        lab.run("reconcile -q");
        if is_met(lab) {
            return;
        }
        pause(300);
    }
    let logs =
        lab.shell("tail -n 20 $HOME/jobs/*/log; poolctl events | grep Warning | tail -20").out;
    panic!("never {name}:\n{}\n{logs}", lab.ok("get host,agent,cluster,pool,job"));
}

/// A field of a host's status.
pub fn host_status(lab: &Sandbox, host: &str, field: &str) -> String {
    jsonpath(lab, &format!("host/{host}"), &format!("{{.status.{field}}}"))
}

/// Status and message of a host's condition Registered, once the host has one.
fn registered_condition(lab: &Sandbox, host: &str) -> Option<String> {
    let conditions: Value =
        serde_json::from_str(&host_status(lab, host, "conditions")).unwrap_or_default();
    let mut conditions = conditions.as_array()?.iter();
    let registered = conditions.find(|condition| condition["type"] == "Registered")?;
    let message = registered["message"].as_str().unwrap_or("");
    Some(format!("{} {message}", registered["status"].as_str()?))
}

/// Imports hosts from a CSV file, without a pass.
pub fn import_hosts(lab: &Sandbox, header: &str, lines: &[String]) {
    let file = lab.write_file("hosts.csv", &format!("{header}\n{}\n", lines.join("\n")));
    lab.ok(&format!("host import {file} -q --no-reconcile"));
}

#[test]
fn each_ipmi_trouble_has_its_message() {
    let Some(sim) = IpmiSim::start() else { return };
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent_address = format!("ipmi://{}", silent.local_addr().unwrap());
    let closed_address = format!("ipmi://127.0.0.1:{}", closed_port());
    let address = sim.address();
    let as_user = format!("{address}?privilegelevel=user");
    let long_password = "p".repeat(21);
    let cases = [
        ("good", &address, USER, PASSWORD, "True "),
        // Another level of privilege, with its own user and password.
        ("reader", &as_user, "reader", "readpass", "True "),
        ("wrong", &address, USER, "another", "refused within"),
        ("stranger", &address, "nobody", PASSWORD, "refused within"),
        (
            "long",
            &address,
            USER,
            &*long_password,
            "the password has 21 bytes; IPMI takes 20 at most",
        ),
        ("hole", &silent_address, USER, PASSWORD, "unreachable, or no IPMI 2.0 there"),
        ("shut", &closed_address, USER, PASSWORD, "unreachable, or no IPMI 2.0 there"),
    ];
    for (name, address, user, password, expected) in cases {
        // Two hosts may not have one controller: each has a state of its own.
        let lab = sandbox_on_real_clock();
        import_hosts(
            &lab,
            "name,bmc,username,password",
            &[format!("{name},{address},{user},{password}")],
        );
        reconcile_until(&lab, name, |lab| registered_condition(lab, name).is_some());
        let condition = registered_condition(&lab, name).unwrap();
        assert!(condition.contains(expected), "{name}: {condition}");
        assert!(!lab.ok("get host -o yaml").contains(password), "{name}");
    }
}

/// The path of the system that the stubs have.
const SYSTEM: &str = "/redfish/v1/Systems/1";

/// The document of a stub's system.
fn system_document() -> Answer {
    Answer::json(&json!({"PowerState": "Off"}))
}

fn answer_with(body: Vec<u8>) -> Answer {
    Answer { body, ..Answer::status(200) }
}

#[test]
fn each_redfish_trouble_has_its_message() {
    let Some(emulator) = Emulator::start(1, true) else { return };
    let elsewhere = Server::plain(|_| system_document());
    let location = format!("{}{SYSTEM}", elsewhere.origin());
    let redirecting =
        Server::plain(move |_| Answer::status(302).with_header("Location", &location));
    let huge = Server::plain(|_| answer_with(vec![b' '; 10 << 20]));
    let slow = Server::plain(|_| Answer { is_slow: true, ..answer_with(vec![b' '; 600]) });
    let html = Server::plain(|_| answer_with(b"<html>".to_vec()));
    let rude =
        Server::plain(|_| Answer::error(404, "Base.1.0.ResourceMissing", "no \u{1b}[31msuch"));
    let plain = Server::plain(|_| system_document());
    let (_listener, hole) = black_hole();
    let not_tls = plain.bmc_address(SYSTEM).replace("+http", "");
    let shut = format!("redfish://127.0.0.1:{}", closed_port());
    let cases = [
        ("wrong", emulator.address(1), "wrong username or password (401)"),
        ("shut", shut, "refuses connections: nothing listens there"),
        ("hole", format!("{hole}{SYSTEM}"), "does not answer within 10 s"),
        ("slow", slow.bmc_address(SYSTEM), "does not answer within 30 s"),
        ("huge", huge.bmc_address(SYSTEM), "the answer is larger than 4 MiB"),
        ("leads", redirecting.bmc_address(SYSTEM), "it refers to another host, http://127.0.0.1:"),
        ("html", html.bmc_address(SYSTEM), "the answer is not JSON"),
        ("rude", rude.bmc_address(SYSTEM), "answers 404: Base.1.0.ResourceMissing no [31msuch"),
        ("nottls", not_tls, "cannot be reached: "),
    ];
    let lab = sandbox_on_real_clock();
    let ca = emulator.certificate().display().to_string();
    let password = lab.write_file("password", "CANARY");
    for (name, address, _) in &cases {
        lab.ok(&format!(
            "host add {name} --bmc {address} --user {USER} --ca {ca} --password-file {password} \
             --no-reconcile -q"
        ));
    }
    reconcile_until(&lab, "all were asked", |lab| {
        cases.iter().all(|(name, ..)| registered_condition(lab, name).is_some())
    });
    for (name, _, expected) in &cases {
        let condition = registered_condition(&lab, name).unwrap();
        assert!(condition.starts_with("False "), "{name}: {condition}");
        assert!(condition.contains(expected), "{name}: {condition}");
        assert!(!condition.contains('\u{1b}'), "{name}: {condition}");
    }
    let next = "--from-file=password --overwrite";
    reconcile_until(&lab, "said what helps", |lab| lab.ok("why host/wrong").contains(next));
    // The password goes to no other server, and is shown to nobody.
    assert_eq!(elsewhere.requests().len(), 0);
    let shown = lab.ok("get host -o yaml") + &lab.shell("cat $HOME/jobs/*/log").out;
    assert!(!shown.contains("CANARY"), "{shown}");
}

/// The row of a table that begins with this name.
fn row_of<'a>(table: &'a str, name: &str) -> &'a str {
    table.lines().find(|line| line.starts_with(name)).unwrap()
}

#[test]
fn a_certificate_is_trusted_by_authority_by_pin_or_because_the_user_says_so() {
    let names = ["localhost", "127.0.0.1"];
    let (by_our_authority, our_authority) = signed_certificate(&names);
    let (of_another_name, another_authority) = signed_certificate(&["bmc.example.com"]);
    let unsigned = self_signed_certificate(&names, |_| {});
    let pinned = self_signed_certificate(&["other.example.com"], |_| {});
    let expired = self_signed_certificate(&names, |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let lab = sandbox_on_real_clock();
    let trust_ca = format!("--ca {}", lab.write_file("ca.crt", &our_authority));
    let trust_another_ca = format!("--ca {}", lab.write_file("elsewhere.crt", &another_authority));
    let password = lab.write_file("password", PASSWORD);
    lab.write_file("other.crt", &pinned.0);
    let fingerprint_command =
        "openssl x509 -in $HOME/other.crt -noout -fingerprint -sha256 | cut -d= -f2";
    let trust_pin = format!("--pin {}", lab.shell(fingerprint_command).out.trim());
    let wrong_pin = format!("--pin {}", "a".repeat(64));
    let unknown = "no known authority has signed its certificate (SHA-256 ";
    let cases = [
        ("ca", &by_our_authority, &*trust_ca, "True "),
        ("pin", &pinned, &*trust_pin, "True "),
        ("word", &pinned, "--insecure", "True "),
        ("elsewhere", &of_another_name, &*trust_another_ca, "its certificate is for another name"),
        ("unknown", &unsigned, "", unknown),
        ("expired", &expired, "", "its certificate has expired (SHA-256 "),
        ("changed", &pinned, &*wrong_pin, "the certificate was changed, or this is another"),
        ("signed", &unsigned, &*trust_ca, unknown),
    ];
    let servers: Vec<Server> = cases
        .iter()
        .map(|(_, certificate, ..)| Server::tls(certificate, |_| system_document()))
        .collect();
    for ((name, _, options, _), server) in cases.iter().zip(&servers) {
        let address = server.bmc_address(SYSTEM);
        lab.ok(&format!(
            "host add {name} --bmc {address} --user {USER} --password-file {password} \
             --no-reconcile {options}"
        ));
    }
    reconcile_until(&lab, "all were asked", |lab| {
        cases.iter().all(|(name, ..)| registered_condition(lab, name).is_some())
    });
    for ((name, _, _, expected), server) in cases.iter().zip(&servers) {
        let condition = registered_condition(&lab, name).unwrap();
        assert!(condition.contains(expected), "{name}: {condition}");
        let is_trusted = *expected == "True ";
        let reason = if is_trusted { "" } else { "CertificateRefused" };
        assert_eq!(host_status(&lab, name, "errorReason"), reason, "{name}");
        // A server that is not trusted is sent nothing at all.
        assert_eq!(server.requests().is_empty(), !is_trusted, "{name}");
    }
    assert!(lab.ok("why host/expired").contains("bmc-certificate-sha256=SHA256"));
    let wide = lab.ok("get host -o wide");
    assert!(row_of(&wide, "ca").contains("verified"), "{wide}");
    assert!(row_of(&wide, "pin").contains("pinned"), "{wide}");
    assert!(row_of(&wide, "word").contains("INSECURE"), "{wide}");
}

/// Reads the command line of every process until it is told to stop. Returns those with a password.
fn watch_command_lines(stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<String>> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut lines_with_password = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            for entry in fs::read_dir("/proc").unwrap().flatten() {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                if line.contains(PASSWORD) {
                    lines_with_password.push(line);
                }
            }
        }
        lines_with_password
    })
}

fn all_have_power(sims: &[IpmiSim], power: &str) -> bool {
    sims.iter().all(|sim| sim.property("power") == power)
}

#[test]
fn three_hosts_are_powered_and_boot_once_by_ipmitool() {
    let sims: Option<Vec<IpmiSim>> = (0..3).map(|_| IpmiSim::start()).collect();
    let Some(sims) = sims else { return };
    let lab = sandbox_on_real_clock();
    let lines: Vec<String> = sims
        .iter()
        .enumerate()
        .map(|(number, sim)| format!("n{number},{},{USER},{PASSWORD}", sim.address()))
        .collect();
    import_hosts(&lab, "name,bmc,username,password", &lines);
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = watch_command_lines(&stop);

    lab.ok("host power on --all --boot pxe --wait -q");
    assert!(all_have_power(&sims, "1"));
    for sim in &sims {
        assert!(sim.property("calls").contains("set boot pxe"), "{}", sim.property("calls"));
    }
    assert_eq!(host_status(&lab, "n0", "poweredOn"), "true");
    let cipher = "{.metadata.annotations.poolctl\\.dev/ipmi-cipher-suite}";
    assert_eq!(jsonpath(&lab, "host/n0", cipher), "3", "17 is refused by ipmi_sim");
    // Only once: the next start boots as usual.
    lab.ok("host power cycle n0 --wait -q");
    assert_eq!(sims[0].property("calls").matches("set boot pxe").count(), 1);
    // A machine whose operating system does not shut down is switched off.
    sims[1].set_property("deaf", "");
    lab.ok("annotate host/n1 poolctl.dev/soft-off-timeout=2s -q");
    lab.ok("host power off --all --wait -q");
    assert!(all_have_power(&sims, "0"));
    assert!(sims[0].property("calls").contains("set shutdown"), "{}", sims[0].property("calls"));
    assert!(sims[1].property("calls").contains("set power 0"), "{}", sims[1].property("calls"));
    // A machine that somebody switched on is switched off again, as its host wants it.
    sims[2].set_property("power", "1");
    lab.ok("host power status --all --wait -q");
    reconcile_until(&lab, "turned off again", |_| all_have_power(&sims, "0"));
    stop.store(true, Ordering::Relaxed);
    assert_eq!(watcher.join().unwrap(), Vec::<String>::new());
}

/// Whether the hosts n1 to n3 are in this state of provisioning.
fn all_are_in_state(lab: &Sandbox, state: &str) -> bool {
    ["n1", "n2", "n3"].iter().all(|host| host_status(lab, host, "provisioning.state") == state)
}

#[test]
fn three_hosts_boot_an_image_once_by_redfish() {
    let Some(emulator) = Emulator::start(3, true) else { return };
    let image_server = Server::plain(|_| answer_with(b"an image".to_vec()));
    let lab = sandbox_on_real_clock();
    let certificate = fs::read_to_string(emulator.certificate()).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": USER, "password": PASSWORD, "ca.crt": certificate}});
    apply(&lab, &secret.to_string());
    let lines: Vec<String> =
        (1..=3).map(|number| format!("n{number},{},bmc", emulator.address(number))).collect();
    import_hosts(&lab, "name,bmc,secret", &lines);
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = watch_command_lines(&stop);

    let iso = format!("{}/discovery.iso", image_server.origin());
    lab.ok(&format!("host boot --all --iso {iso} -q"));
    reconcile_until(&lab, "booted from the image", |lab| all_are_in_state(lab, "provisioned"));
    for number in 1..=3 {
        assert_eq!(emulator.describe_machine(number), format!("On Cd {iso}"));
    }
    assert!(image_server.requests().len() >= 3);
    lab.ok("host eject --all -q");
    reconcile_until(&lab, "ejected", |lab| all_are_in_state(lab, "available"));
    lab.ok("host power off --all --wait -q");
    for number in 1..=3 {
        assert_eq!(emulator.describe_machine(number), "Off Cd -");
    }
    // An image that cannot be fetched is refused.
    let missing_image = format!("http://127.0.0.1:{}/x.iso", closed_port());
    lab.ok(&format!("host boot n1 --iso {missing_image} -q"));
    reconcile_until(&lab, "refused", |_| !host_status(&lab, "n1", "errorMessage").is_empty());
    let message = host_status(&lab, "n1", "errorMessage");
    assert!(
        message.contains("/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia answers 500"),
        "{message}"
    );
    assert_eq!(host_status(&lab, "n1", "errorType"), "provisioning error");
    stop.store(true, Ordering::Relaxed);
    assert_eq!(watcher.join().unwrap(), Vec::<String>::new());
}

/// A cluster that poolctl did not install; it runs on two hosts.
const CLUSTER: &str = r#"
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: c, namespace: mine}
spec:
  clusterName: c
  baseDomain: example.com
  installed: true
  platform: {none: {}}
  clusterMetadata: {infraID: c-1, clusterID: d, adminKubeconfigSecretRef: {name: k}}
---
apiVersion: v1
kind: Secret
metadata: {name: k, namespace: mine}
stringData: {kubeconfig: "users: [{name: admin, user: {token: x}}]"}
"#;

/// A stand-in for oc that says that all nodes and operators of a cluster are ready.
pub const OC_OF_READY_CLUSTER: &str = r#"#!/bin/sh
case $* in
*nodes*) echo '{"items": [{"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}]}' ;;
*) echo '{"items": []}' ;;
esac
"#;

fn power_state(lab: &Sandbox) -> String {
    jsonpath(lab, "cluster", "{.items[0].status.powerState}")
}

#[test]
fn a_cluster_sleeps_and_wakes_by_its_hosts_with_workers_off_first_and_on_last() {
    let (Some(master), Some(worker)) = (IpmiSim::start(), IpmiSim::start()) else { return };
    let lab = sandbox_on_real_clock();
    let oc = lab.write_script("oc", OC_OF_READY_CLUSTER);
    let settings = format!(
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\nspec: {{programs: {{oc: {oc}}}}}\n"
    );
    apply(&lab, &settings);
    apply(&lab, CLUSTER);
    let lines = [
        format!("m,{},{USER},{PASSWORD},master", master.address()),
        format!("w,{},{USER},{PASSWORD},worker", worker.address()),
    ];
    for sim in [&master, &worker] {
        sim.set_property("power", "1");
    }
    import_hosts(&lab, "name,bmc,username,password,role", &lines);
    let consumer = json!({"spec": {"consumerRef": {"apiVersion": "hive.openshift.io/v1",
        "kind": "ClusterDeployment", "name": "c", "namespace": "mine"}}});
    for host in ["m", "w"] {
        lab.ok(&format!("patch host {host} -p '{consumer}' -q"));
    }
    worker.set_property("deaf", "");
    lab.ok("annotate host/w poolctl.dev/soft-off-timeout=2s -q");
    reconcile_until(&lab, "seen running", |lab| {
        host_status(lab, "w", "poweredOn") == "true" && power_state(lab) == "Running"
    });

    lab.ok("cluster hibernate c -n mine -q");
    reconcile_until(&lab, "asleep", |lab| power_state(lab) == "Hibernating");
    assert_eq!((master.property("power"), worker.property("power")), ("0".into(), "0".into()));
    assert!(worker.last_told("set shutdown 1") < worker.last_told("set power 0"));
    assert!(worker.last_told("set power 0") < master.last_told("set shutdown 1"));
    // The next pass does not switch them on again.
    lab.ok("reconcile -q");
    assert_eq!(jsonpath(&lab, "host", "{.items[*].spec.online}"), "false false");

    lab.ok("cluster resume c -n mine -q");
    let awake =
        ["WaitingForNodes", "PausingForClusterOperatorsToSettle", "WaitingForClusterOperators"];
    reconcile_until(&lab, "on its way", |lab| awake.contains(&&*power_state(lab)));
    assert_eq!((master.property("power"), worker.property("power")), ("1".into(), "1".into()));
    assert!(master.last_told("set power 1") < worker.last_told("set power 1"));
    assert_eq!(jsonpath(&lab, "host", "{.items[*].spec.online}"), "true true");
}
