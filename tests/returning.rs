//! The ways of hosts back from their clusters, and into them without a controller: wiped, brought
//! back by it, booted by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::machines::{status, until};
use crate::rack::{Rack, cluster, mac, report, state_of};
use crate::rigs::USER;
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::{Answer, Server};

/// Wipes all but n3, and writes down what it was told.
const ERASER: &str = r#"#!/bin/sh
user=$(cat input/machines/0/username)
echo "$1 $POOLCTL_HOST $POOLCTL_BMC $user" >> "$(dirname "$0")/wiped"
[ "$POOLCTL_HOST" != default/n3 ] && exit
echo '{"message": "disk 2 does not answer"}' > result
exit 1
"#;

fn infra_env(lab: &Sandbox, annotations: &Value) {
    let one = json!({"apiVersion": "agent-install.openshift.io/v1beta1", "kind": "InfraEnv",
        "metadata": {"name": "rack", "annotations": annotations},
        "spec": {"pullSecretRef": {"name": "pull"}, "agentApproval": {"autoApprove": true}}});
    apply(lab, &one.to_string());
}

fn info(lab: &Sandbox, agent: &str) -> String {
    jsonpath(lab, &format!("agent/{agent}"), "{.status.debugInfo.stateInfo}")
}

/// It was booted from its discovery image, and says what is in it.
fn booted(lab: &Sandbox, host: &str, mac: &str) {
    lab.ok(&["agent", "register", "--infraenv", "rack", "--id", host, "-q"]);
    let inventory = lab.file("report.json", &report(host, mac));
    lab.ok(&["agent", "report", host, "--inventory", &inventory, "-q"]);
    lab.ok(&["reconcile", "-q"]);
}

/// A cluster that openshift-install makes, of one host.
fn real(name: &str) -> String {
    let fake = cluster(name, 1, 0);
    let (secret, text) = fake.split_once("\n---\n").unwrap();
    let mut document: Value = serde_json::from_str(text).unwrap();
    document["metadata"]["annotations"] = json!({});
    document["spec"]["pullSecretRef"] = json!({"name": "pull"});
    document["spec"]["provisioning"]["imageSetRef"] = json!({"name": "ocp"});
    format!("{secret}\n---\n{document}\n")
}

#[test]
fn hosts_that_come_back_are_wiped_before_anybody_gets_them() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let one = &lab.sandbox;
    let eraser = lab.bin("poolctl-driver-eraser");
    fs::write(&eraser, ERASER).unwrap();
    fs::set_permissions(&eraser, fs::Permissions::from_mode(0o755)).unwrap();
    let web = Server::plain(|_| Answer { body: b"image".to_vec(), ..Answer::status(200) });
    infra_env(one, &json!({"poolctl.dev/wipe": "exec:eraser"}));
    rack.add_to(one);
    let hosts = ["n2", "n3", "n4"];
    one.ok(&["agent", "discover", "n2", "n3", "n4", "--infraenv", "rack", "-q"]);
    one.ok(&["annotate", "host/n4", "poolctl.dev/wipe=none", "-q"]);
    assert!(one.ok(&["driver", "check"]).contains("exec:eraser"));
    let iso = format!("{}/any.iso", web.origin());
    one.ok(&["host", "boot", "n2", "--iso", &iso, "-q"]);
    one.ok(&["host", "power", "on", "n3", "n4", "-q"]);
    let all = |one: &Sandbox, state: &str| hosts.iter().all(|host| state_of(one, host) == state);
    until(one, "known", |one| {
        let on = hosts.iter().all(|host| status(one, host, "poweredOn") == "true");
        on && all(one, "known-unbound") && status(one, "n2", "provisioning.state") == "provisioned"
    });
    apply(one, &cluster("a", 3, 0));
    one.ok(&["agent", "bind", "n2", "n3", "n4", "--cluster", "a", "-q"]);
    until(one, "installed", |one| all(one, "installed"));
    one.ok(&["delete", "cluster", "a", "-y", "-q"]);
    until(one, "wiped", |one| {
        let off = hosts.iter().all(|host| status(one, host, "poweredOn") == "false");
        let wiped = |host: &str| status(one, host, "wipe.state");
        off && all(one, "known-unbound") && wiped("n2") == "done" && wiped("n3") == "failed"
    });
    // Each once, by what opens its controller; n4 not at all.
    let told = fs::read_to_string(lab.bin("wiped")).unwrap();
    assert!(told.contains("wipe default/n2 redfish") && told.contains("wipe default/n3 redfish"));
    assert!(told.lines().count() == 2 && told.lines().all(|line| line.ends_with(USER)), "{told}");
    assert_eq!(status(one, "n4", "wipe"), "");
    // Without an image and without power first.
    let seen = one.ok(&["events", "host/n2"]);
    let after = &seen[seen.find("Image is ejected").unwrap()..];
    let (off, wipe) = (after.find("Host is powered off"), after.find("wipe started"));
    assert!(off.is_some() && off < wipe && wipe < after.find("Its disks are wiped"), "{seen}");
    assert!(rack.emulator.seen(2).starts_with("Off ") && rack.emulator.seen(2).ends_with(" -"));

    // Who could not be wiped is nobody's, and says what helps; the others are free.
    let why = "Host is held: wipe failed: disk 2 does not answer; poolctl host unhold n3";
    assert_eq!(info(one, "n3"), why);
    assert!(one.ok(&["describe", "agent", "n3"]).contains("Next: poolctl host unhold n3"));
    apply(one, &cluster("b", 1, 0));
    let ran = one.run(&["agent", "bind", "n3", "--cluster", "b"]);
    assert!(ran.code == 4 && ran.err.contains("is held: wipe failed: disk 2"), "{}", ran.err);
    one.ok(&["host", "unhold", "n3", "-q"]);
    assert_eq!(info(one, "n3"), "Host is ready to be bound to a cluster");
    // A driver that is not there wipes nothing.
    fs::remove_file(&eraser).unwrap();
    one.ok(&["agent", "bind", "n2", "--cluster", "b", "-q"]);
    until(one, "installed", |one| state_of(one, "n2") == "installed");
    one.ok(&["delete", "cluster", "b", "-y", "-q"]);
    until(one, "held", |one| info(one, "n2").starts_with("Host is held: wipe failed: "));
    assert!(info(one, "n2").contains("poolctl-driver-eraser"), "{}", info(one, "n2"));
    one.ok(&["doctor"]);
}

#[test]
fn a_host_that_reports_is_brought_back_by_its_controller_and_used_again() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let one = &lab.sandbox;
    let web = Server::plain(|_| Answer { body: b"image".to_vec(), ..Answer::status(200) });
    let images = lab.bin("images");
    fs::create_dir_all(&images).unwrap();
    let settings =
        json!({"spec": {"isoDirectory": images, "isoURL": format!("{}/images", web.origin())}});
    one.ok(&["patch", "settings", "default", "-p", &settings.to_string(), "-q"]);
    infra_env(one, &json!({}));
    rack.add_to(one);
    one.ok(&["label", "host/n2", "infraenvs.agent-install.openshift.io=rack", "-q"]);
    until(one, "asked", |one| status(one, "n2", "provisioning.state") == "available");
    let iso = format!("{}/rack.iso", web.origin());
    let made = one.shell(&format!(
        "ssh-keygen -q -t ed25519 -N '' -f $HOME/key && sed 's/^/192.0.2.1 /' $HOME/key.pub > \
         $HOME/known && poolctl infraenv iso rack --address poolctl@192.0.2.1 --key $HOME/key \
         --known-hosts $HOME/known --out $HOME/rack.ign --url {iso}"
    ));
    assert_eq!(made.code, 0, "{}", made.err);
    booted(one, "h2", &mac(2));
    apply(one, &cluster("a", 1, 0));
    one.ok(&["agent", "bind", "h2", "--cluster", "a", "-q"]);
    booted(one, "h2", &mac(2));
    until(one, "installed", |one| state_of(one, "h2") == "installed");
    one.ok(&["delete", "cluster", "a", "-y", "-q"]);
    until(one, "booted again", |one| {
        state_of(one, "h2") == "reclaiming-rebooting"
            && status(one, "n2", "provisioning.state") == "provisioned"
    });
    assert_eq!(rack.emulator.seen(2), format!("On Cd {iso}"));
    booted(one, "h2", &mac(2));
    assert_eq!(state_of(one, "h2"), "known-unbound");

    // Once it is installed again nobody boots it from there.
    apply(one, &real("b"));
    one.ok(&["agent", "bind", "h2", "--cluster", "b", "-q"]);
    booted(one, "h2", &mac(2));
    until(one, "installed again", |one| state_of(one, "h2") == "installed");
    for _ in 0..3 {
        one.ok(&["reconcile", "--wait", "-q"]);
    }
    assert_eq!(jsonpath(one, "host/n2", "{.spec.image}"), "");
    let seen = rack.emulator.seen(2);
    assert!(seen.starts_with("On ") && seen.ends_with(" -"), "{seen}");
    one.ok(&["doctor"]);
}

#[test]
fn hosts_without_a_controller_wait_for_somebody_who_boots_them() {
    let lab = Lab::new();
    let one = &lab.sandbox;
    infra_env(one, &json!({}));
    lab.behave("agent-bootstrap: sleep 15000\nagent-install: sleep 5000\n");
    for (host, name, mac) in [("h1", "c", "52:54:00:bb:00:01"), ("h2", "d", "52:54:00:bb:00:02")] {
        apply(one, &real(name));
        booted(one, host, mac);
        one.ok(&["agent", "bind", host, "--cluster", name, "-q"]);
        booted(one, host, mac);
    }
    let waits = "installing-pending-user-action";
    until(one, "waiting", |one| ["h1", "h2"].iter().all(|host| state_of(one, host) == waits));
    // The image that is named is there.
    let said = info(one, "h1");
    let (text, image) = said.split_once(": ").unwrap();
    assert_eq!(text, "Host is to be booted from the image of its cluster");
    assert!(image.ends_with("agent.x86_64.iso") && Path::new(image).exists(), "{said}");
    assert!(one.ok(&["status"]).contains("2 agents (h1, h2) to be booted for the installation"));
    assert!(one.ok(&["describe", "agent", "h1"]).contains("Next: boot it as its state says"));
    // One says how far it is, and the other goes on with its cluster.
    one.ok(&["agent", "report", "h1", "--stage", "Writing image to disk", "-q"]);
    one.ok(&["reconcile", "-q"]);
    assert_eq!(state_of(one, "h1"), "installing-in-progress");
    assert_eq!(state_of(one, "h2"), waits);
    until(one, "going on", |one| state_of(one, "h2") == "installing-in-progress");
    until(one, "installed", |one| {
        ["h1", "h2"].iter().all(|host| state_of(one, host) == "installed")
    });
    one.ok(&["doctor"]);
}
