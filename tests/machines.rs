//! Hosts by management controllers that are there, on loopback: ipmi_sim, sushy-emulator, and
//! servers that behave badly.

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::rigs::{Emulator, IpmiSim, PASSWORD, USER, certificate, pause, signed};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::{Answer, Asked, Server, black_hole, closed};

/// On the real clock.
pub fn lab() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set("POOLCTL_NOW", "");
    sandbox.set("POOLCTL_SEED", "");
    sandbox
}

/// Passes until a look is met, at most two minutes: no controller keeps us longer.
pub fn until(lab: &Sandbox, what: &str, met: impl Fn(&Sandbox) -> bool) {
    for _ in 0..400 {
        lab.run(&["reconcile", "-q"]);
        if met(lab) {
            return;
        }
        (0..3).for_each(|_| pause());
    }
    let logs =
        lab.shell("tail -n 20 $HOME/jobs/*/log; poolctl events | grep Warning | tail -20").out;
    panic!("never {what}:\n{}\n{logs}", lab.ok(&["get", "host,agent,cluster,pool,job"]));
}

pub fn status(lab: &Sandbox, host: &str, field: &str) -> String {
    jsonpath(lab, &format!("host/{host}"), &format!("{{.status.{field}}}"))
}

/// What its Registered condition says, once there is one.
fn registered(lab: &Sandbox, host: &str) -> Option<String> {
    let conditions: serde_json::Value =
        serde_json::from_str(&status(lab, host, "conditions")).unwrap_or_default();
    let all = conditions.as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|one| one["type"] == "Registered")?;
    Some(format!("{} {}", found["status"].as_str()?, found["message"].as_str().unwrap_or("")))
}

pub fn import(lab: &Sandbox, header: &str, lines: &[String]) {
    let file = lab.file("hosts.csv", &format!("{header}\n{}\n", lines.join("\n")));
    lab.ok(&["host", "import", &file, "-q", "--no-reconcile"]);
}

#[test]
fn each_ipmi_trouble_has_its_message() {
    let Some(sim) = IpmiSim::start() else { return };
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let hole = format!("ipmi://{}", silent.local_addr().unwrap());
    let shut = format!("ipmi://127.0.0.1:{}", closed());
    let (good, user) = (sim.address(), format!("{}?privilegelevel=user", sim.address()));
    let long = "p".repeat(21);
    let all = [
        ("good", &good, USER, PASSWORD, "True "),
        // Another session: its Secret says which.
        ("reader", &user, "reader", "readpass", "True "),
        ("wrong", &good, USER, "another", "refused within"),
        ("stranger", &good, "nobody", PASSWORD, "refused within"),
        ("long", &good, USER, &*long, "the password has 21 bytes; IPMI takes 20 at most"),
        ("hole", &hole, USER, PASSWORD, "unreachable, or no IPMI 2.0 there"),
        ("shut", &shut, USER, PASSWORD, "unreachable, or no IPMI 2.0 there"),
    ];
    for alone in all {
        // Two hosts may not have one controller: each has a state of its own.
        let lab = lab();
        let (name, address, user, password, says) = alone;
        import(
            &lab,
            "name,bmc,username,password",
            &[format!("{name},{address},{user},{password}")],
        );
        until(&lab, name, |lab| registered(lab, name).is_some());
        let found = registered(&lab, name).unwrap();
        assert!(found.contains(says), "{name}: {found}");
        assert!(!lab.ok(&["get", "host", "-o", "yaml"]).contains(password), "{name}");
    }
}

const ONE: &str = "/redfish/v1/Systems/1";

/// A document that any system of a stub has.
fn system() -> Answer {
    Answer::json(&json!({"PowerState": "Off"}))
}

#[test]
fn each_redfish_trouble_has_its_message() {
    let Some(emulator) = Emulator::start(1, true) else { return };
    let elsewhere = Server::plain(|_| system());
    let to = format!("{}/redfish/v1/Systems/1", elsewhere.origin());
    let leads = Server::plain(move |_| Answer::status(302).with("Location", &to));
    let body = |body: Vec<u8>| Answer { body, ..Answer::status(200) };
    let huge = Server::plain(move |_| body(vec![b' '; 10 << 20]));
    let slow = Server::plain(move |_| Answer { drips: true, ..body(vec![b' '; 600]) });
    let html = Server::plain(move |_| body(b"<html>".to_vec()));
    let rude = |_: &Asked| Answer::error(404, "Base.1.0.ResourceMissing", "no \u{1b}[31msuch");
    let (rude, plain) = (Server::plain(rude), Server::plain(|_| system()));
    let (_listener, hole) = black_hole();
    let not_tls = plain.bmc(ONE).replace("+http", "");
    let shut = format!("redfish://127.0.0.1:{}", closed());
    let all = [
        ("wrong", emulator.address(1), "wrong username or password (401)"),
        ("shut", shut, "refuses connections: nothing listens there"),
        ("hole", format!("{hole}{ONE}"), "does not answer (for 10 s)"),
        ("slow", slow.bmc(ONE), "does not answer (for 30 s)"),
        ("huge", huge.bmc(ONE), "the answer is larger than 4 MiB"),
        ("leads", leads.bmc(ONE), "it refers to another host, http://127.0.0.1:"),
        ("html", html.bmc(ONE), "the answer is no JSON"),
        ("rude", rude.bmc(ONE), "answers 404: Base.1.0.ResourceMissing no [31msuch"),
        ("nottls", not_tls, "is not reached: "),
    ];
    let lab = lab();
    let (ca, password) = (emulator.certificate(), lab.file("password", "CANARY"));
    for (name, address, _) in &all {
        let ca = ca.display().to_string();
        let mut add = vec!["host", "add", name, "--bmc", address, "--user", USER, "--ca", &ca];
        add.extend(["--password-file", &password, "--no-reconcile", "-q"]);
        lab.ok(&add);
    }
    let asked = |lab: &Sandbox| all.iter().all(|(name, ..)| registered(lab, name).is_some());
    until(&lab, "all were asked", asked);
    for (name, _, says) in &all {
        let found = registered(&lab, name).unwrap();
        assert!(found.starts_with("False ") && found.contains(says), "{name}: {found}");
        assert!(!found.contains('\u{1b}'), "{name}: {found}");
    }
    let mend = "--from-file=password --overwrite";
    until(&lab, "said what helps", |lab| lab.ok(&["why", "host/wrong"]).contains(mend));
    // No password for whoever was not asked, and none for anybody to read.
    assert_eq!(elsewhere.asked().len(), 0);
    let shown = lab.ok(&["get", "host", "-o", "yaml"]) + &lab.shell("cat $HOME/jobs/*/log").out;
    assert!(!shown.contains("CANARY"), "{shown}");
}

#[test]
fn certificates_are_believed_by_authority_pin_or_word() {
    let here = ["localhost", "127.0.0.1"];
    let ((ours, authority), (elsewhere, of_elsewhere)) =
        (signed(&here), signed(&["bmc.example.com"]));
    let (own, other) = (certificate(&here, |_| {}), certificate(&["other.example.com"], |_| {}));
    let old = certificate(&here, |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let lab = lab();
    let (ca, password) = (lab.file("ca.crt", &authority), lab.file("password", PASSWORD));
    let ca_of_elsewhere = lab.file("elsewhere.crt", &of_elsewhere);
    lab.file("other.crt", &other.0);
    let pin = "openssl x509 -in $HOME/other.crt -noout -fingerprint -sha256 | cut -d= -f2";
    let (pin, wrong) = (lab.shell(pin).out, "a".repeat(64));
    let all = [
        ("ca", &ours, vec!["--ca", &ca], "True "),
        ("pin", &other, vec!["--pin", pin.trim()], "True "),
        ("word", &other, vec!["--insecure"], "True "),
        (
            "elsewhere",
            &elsewhere,
            vec!["--ca", &ca_of_elsewhere],
            "its certificate is for another name",
        ),
        ("unknown", &own, vec![], "nobody known has signed its certificate (SHA-256 "),
        ("expired", &old, vec![], "its certificate has expired (SHA-256 "),
        ("changed", &other, vec!["--pin", &wrong], "it was changed, or this is another"),
        ("signed", &own, vec!["--ca", &ca], "nobody known has signed its certificate (SHA-256 "),
    ];
    let serve = |(_, chain, ..): &(_, &(String, String), _, _)| Server::tls(chain, |_| system());
    let servers: Vec<Server> = all.iter().map(serve).collect();
    for ((name, _, how, _), server) in all.iter().zip(&servers) {
        let address = server.bmc(ONE);
        let mut add = vec!["host", "add", name, "--bmc", &address, "--user", USER];
        add.extend(["--password-file", &password, "--no-reconcile"]);
        add.extend(how);
        lab.ok(&add);
    }
    let asked = |lab: &Sandbox| all.iter().all(|(name, ..)| registered(lab, name).is_some());
    until(&lab, "all were asked", asked);
    for ((name, _, _, says), server) in all.iter().zip(&servers) {
        let found = registered(&lab, name).unwrap();
        assert!(found.contains(says), "{name}: {found}");
        let reason = if *says == "True " { "" } else { "CertificateRefused" };
        assert_eq!(status(&lab, name, "errorReason"), reason, "{name}");
        // Nothing at all is said to whoever is not believed.
        assert_eq!(server.asked().is_empty(), *says != "True ", "{name}");
    }
    assert!(lab.ok(&["why", "host/expired"]).contains("bmc-certificate-sha256=SHA256"));
    let wide = lab.ok(&["get", "host", "-o", "wide"]);
    let row = |name: &str| wide.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("ca").contains("verified") && row("pin").contains("pinned"), "{wide}");
    assert!(row("word").contains("INSECURE"), "{wide}");
}

/// Looks at every process's command line until it is told to stop: says whether one had a password.
fn watch(stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<String>> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut found = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            for entry in fs::read_dir("/proc").unwrap().flatten() {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                if line.contains(PASSWORD) {
                    found.push(line);
                }
            }
        }
        found
    })
}

#[test]
fn three_hosts_are_powered_and_boot_once_by_ipmitool() {
    let sims: Option<Vec<IpmiSim>> = (0..3).map(|_| IpmiSim::start()).collect();
    let Some(sims) = sims else { return };
    let lab = lab();
    let lines = sims.iter().enumerate();
    let lines: Vec<String> =
        lines.map(|(at, sim)| format!("n{at},{},{USER},{PASSWORD}", sim.address())).collect();
    import(&lab, "name,bmc,username,password", &lines);
    let stop = Arc::new(AtomicBool::new(false));
    let watched = watch(&stop);
    let power = |value: &'static str| sims.iter().all(|sim| sim.machine("power") == value);

    lab.ok(&["host", "power", "on", "--all", "--boot", "pxe", "--wait", "-q"]);
    assert!(power("1"));
    for sim in &sims {
        assert!(sim.machine("calls").contains("set boot pxe"), "{}", sim.machine("calls"));
    }
    assert_eq!(status(&lab, "n0", "poweredOn"), "true");
    let cipher = "{.metadata.annotations.poolctl\\.dev/ipmi-cipher-suite}";
    assert_eq!(jsonpath(&lab, "host/n0", cipher), "3", "17 is refused by ipmi_sim");
    // Once: what follows boots as ever.
    lab.ok(&["host", "power", "cycle", "n0", "--wait", "-q"]);
    assert_eq!(sims[0].machine("calls").matches("set boot pxe").count(), 1);
    // One does not listen to its operating system: it is told by force.
    sims[1].be("deaf", "");
    lab.ok(&["annotate", "host/n1", "poolctl.dev/soft-off-timeout=2s", "-q"]);
    lab.ok(&["host", "power", "off", "--all", "--wait", "-q"]);
    assert!(power("0"));
    assert!(sims[0].machine("calls").contains("set shutdown"), "{}", sims[0].machine("calls"));
    assert!(sims[1].machine("calls").contains("set power 0"), "{}", sims[1].machine("calls"));
    // Somebody turned one on: what is wished for is done.
    sims[2].be("power", "1");
    lab.ok(&["host", "power", "status", "--all", "--wait", "-q"]);
    until(&lab, "turned off again", |_| power("0"));
    stop.store(true, Ordering::Relaxed);
    assert_eq!(watched.join().unwrap(), Vec::<String>::new());
}

#[test]
fn three_hosts_boot_an_image_once_by_redfish() {
    let Some(emulator) = Emulator::start(3, true) else { return };
    let web = Server::plain(|_| Answer { body: b"an image".to_vec(), ..Answer::status(200) });
    let lab = lab();
    let certificate = fs::read_to_string(emulator.certificate()).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": USER, "password": PASSWORD, "ca.crt": certificate}});
    apply(&lab, &secret.to_string());
    let lines: Vec<String> =
        (1..=3).map(|at| format!("n{at},{},bmc", emulator.address(at))).collect();
    import(&lab, "name,bmc,secret", &lines);
    let stop = Arc::new(AtomicBool::new(false));
    let watched = watch(&stop);

    let iso = format!("{}/discovery.iso", web.origin());
    lab.ok(&["host", "boot", "--all", "--iso", &iso, "-q"]);
    let all = |wanted: &str, field: &str| {
        (1..=3).all(|at| status(&lab, &format!("n{at}"), field) == wanted)
    };
    until(&lab, "booted from the image", |_| all("provisioned", "provisioning.state"));
    for at in 1..=3 {
        assert_eq!(emulator.seen(at), format!("On Cd {iso}"));
    }
    assert!(web.asked().len() >= 3);
    lab.ok(&["host", "eject", "--all", "-q"]);
    until(&lab, "ejected", |_| all("available", "provisioning.state"));
    lab.ok(&["host", "power", "off", "--all", "--wait", "-q"]);
    for at in 1..=3 {
        assert_eq!(emulator.seen(at), "Off Cd -");
    }
    // An image that is not there.
    let dead = format!("http://127.0.0.1:{}/x.iso", closed());
    lab.ok(&["host", "boot", "n1", "--iso", &dead, "-q"]);
    until(&lab, "refused", |_| !status(&lab, "n1", "errorMessage").is_empty());
    let why = status(&lab, "n1", "errorMessage");
    assert!(why.contains("/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia answers 500"), "{why}");
    assert_eq!(status(&lab, "n1", "errorType"), "provisioning error");
    stop.store(true, Ordering::Relaxed);
    assert_eq!(watched.join().unwrap(), Vec::<String>::new());
}

/// A cluster that somebody else installed on two hosts.
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

/// A cluster whose nodes and operators are well.
pub const OC: &str = r#"#!/bin/sh
case $* in
*nodes*) echo '{"items": [{"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}]}' ;;
*) echo '{"items": []}' ;;
esac
"#;

#[test]
fn a_cluster_sleeps_and_wakes_by_its_hosts_workers_first_and_last() {
    let (Some(master), Some(worker)) = (IpmiSim::start(), IpmiSim::start()) else { return };
    let lab = lab();
    let oc = lab.file("oc", OC);
    lab.shell("chmod 755 $HOME/oc");
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
        sim.be("power", "1");
    }
    import(&lab, "name,bmc,username,password,role", &lines);
    let consumer = json!({"spec": {"consumerRef": {"apiVersion": "hive.openshift.io/v1",
        "kind": "ClusterDeployment", "name": "c", "namespace": "mine"}}});
    for host in ["m", "w"] {
        lab.ok(&["patch", "host", host, "-p", &consumer.to_string(), "-q"]);
    }
    worker.be("deaf", "");
    lab.ok(&["annotate", "host/w", "poolctl.dev/soft-off-timeout=2s", "-q"]);
    let state = |lab: &Sandbox| jsonpath(lab, "cluster", "{.items[0].status.powerState}");
    until(&lab, "seen running", |lab| {
        status(lab, "w", "poweredOn") == "true" && state(lab) == "Running"
    });

    lab.ok(&["cluster", "hibernate", "c", "-n", "mine", "-q"]);
    until(&lab, "asleep", |lab| state(lab) == "Hibernating");
    assert_eq!((master.machine("power"), worker.machine("power")), ("0".into(), "0".into()));
    assert!(worker.told("set shutdown 1") < worker.told("set power 0"));
    assert!(worker.told("set power 0") < master.told("set shutdown 1"));
    // Nobody turns them on again.
    lab.ok(&["reconcile", "-q"]);
    assert_eq!(jsonpath(&lab, "host", "{.items[*].spec.online}"), "false false");

    lab.ok(&["cluster", "resume", "c", "-n", "mine", "-q"]);
    let awake =
        ["WaitingForNodes", "PausingForClusterOperatorsToSettle", "WaitingForClusterOperators"];
    until(&lab, "on its way", |lab| awake.contains(&&*state(lab)));
    assert_eq!((master.machine("power"), worker.machine("power")), ("1".into(), "1".into()));
    assert!(master.told("set power 1") < worker.told("set power 1"));
    assert_eq!(jsonpath(&lab, "host", "{.items[*].spec.online}"), "true true");
}
