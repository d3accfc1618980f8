//! How hosts come back from their clusters: wiped by a driver, booted again by their controllers,
//! or booted by people where there is no controller.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::machines::{host_status, reconcile_until};
use crate::rack::{Rack, cluster, mac, report, state_of};
use crate::rigs::USER;
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::{Answer, Server};

/// A driver that wipes all hosts but n3, and writes down what it was called with.
const ERASER: &str = r#"#!/bin/sh
user=$(cat input/machines/0/username)
echo "$1 $POOLCTL_HOST $POOLCTL_BMC $user" >> "$(dirname "$0")/wiped"
[ "$POOLCTL_HOST" != default/n3 ] && exit
echo '{"message": "disk 2 does not answer"}' > result
exit 1
"#;

/// Applies the InfraEnv `rack` with these annotations.
pub fn apply_infra_env(lab: &Sandbox, annotations: &Value) {
    let manifest = json!({"apiVersion": "agent-install.openshift.io/v1beta1", "kind": "InfraEnv",
        "metadata": {"name": "rack", "annotations": annotations},
        "spec": {"pullSecretRef": {"name": "pull"}, "agentApproval": {"autoApprove": true}}});
    apply(lab, &manifest.to_string());
}

/// What the state of an agent says to people.
fn state_info(lab: &Sandbox, agent: &str) -> String {
    jsonpath(lab, &format!("agent/{agent}"), "{.status.debugInfo.stateInfo}")
}

/// A host was booted from its discovery image, and reports its inventory.
fn report_booted_host(lab: &Sandbox, host: &str, mac: &str) {
    lab.ok(&format!("agent register --infraenv rack --id {host} -q"));
    let inventory = lab.write_file("report.json", &report(host, mac));
    lab.ok(&format!("agent report {host} --inventory {inventory} -q"));
    lab.ok("reconcile -q");
}

/// A cluster of one host, which openshift-install makes.
pub fn installed_cluster(name: &str) -> String {
    let fake_cluster = cluster(name, 1, 0);
    let (secret, manifest) = fake_cluster.split_once("\n---\n").unwrap();
    let mut document: Value = serde_json::from_str(manifest).unwrap();
    document["metadata"]["annotations"] = json!({});
    document["spec"]["pullSecretRef"] = json!({"name": "pull"});
    document["spec"]["provisioning"]["imageSetRef"] = json!({"name": "ocp"});
    format!("{secret}\n---\n{document}\n")
}

/// A server that has an image at every path.
fn image_server() -> Server {
    Server::plain(|_| Answer { body: b"image".to_vec(), ..Answer::status(200) })
}

fn all_are_in_state(lab: &Sandbox, hosts: &[&str], state: &str) -> bool {
    hosts.iter().all(|host| state_of(lab, host) == state)
}

#[test]
fn hosts_that_come_back_are_wiped_before_anybody_gets_them() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let sandbox = &lab.sandbox;
    let eraser = sandbox.write_script("bin/poolctl-driver-eraser", ERASER);
    let image_server = image_server();
    apply_infra_env(sandbox, &json!({"poolctl.dev/wipe": "exec:eraser"}));
    rack.add_to(sandbox);
    let hosts = ["n2", "n3", "n4"];
    sandbox.ok("agent discover n2 n3 n4 --infraenv rack -q");
    sandbox.ok("annotate host/n4 poolctl.dev/wipe=none -q");
    assert!(sandbox.ok("driver check").contains("exec:eraser"));
    let iso = format!("{}/any.iso", image_server.origin());
    sandbox.ok(&format!("host boot n2 --iso {iso} -q"));
    sandbox.ok("host power on n3 n4 -q");
    reconcile_until(sandbox, "known", |sandbox| {
        all_are_in_state(sandbox, &hosts, "known-unbound")
            && hosts.iter().all(|host| host_status(sandbox, host, "poweredOn") == "true")
            && host_status(sandbox, "n2", "provisioning.state") == "provisioned"
    });
    apply(sandbox, &cluster("a", 3, 0));
    sandbox.ok("agent bind n2 n3 n4 --cluster a -q");
    reconcile_until(sandbox, "installed", |sandbox| all_are_in_state(sandbox, &hosts, "installed"));
    sandbox.ok("delete cluster a -y -q");
    reconcile_until(sandbox, "wiped", |sandbox| {
        all_are_in_state(sandbox, &hosts, "known-unbound")
            && hosts.iter().all(|host| host_status(sandbox, host, "poweredOn") == "false")
            && host_status(sandbox, "n2", "wipe.state") == "done"
            && host_status(sandbox, "n3", "wipe.state") == "failed"
    });
    // The driver was called once for n2 and n3, with the user of their controllers, and not for n4.
    let calls = fs::read_to_string(lab.bin("wiped")).unwrap();
    assert_eq!(calls.lines().count(), 2, "{calls}");
    assert!(calls.lines().all(|line| line.ends_with(USER)), "{calls}");
    assert!(calls.contains("wipe default/n2 redfish") && calls.contains("wipe default/n3 redfish"));
    assert_eq!(host_status(sandbox, "n4", "wipe"), "");
    // First the image is ejected and the host powered off, then it is wiped.
    let events = sandbox.ok("events host/n2");
    let after_ejection = &events[events.find("Image is ejected").unwrap()..];
    let positions = ["Host is powered off", "wipe started", "Its disks are wiped"]
        .map(|event| after_ejection.find(event).unwrap());
    assert!(positions.is_sorted(), "{events}");
    assert!(
        rack.emulator.describe_machine(2).starts_with("Off ")
            && rack.emulator.describe_machine(2).ends_with(" -")
    );

    // A host that could not be wiped is given to nobody, and says what helps. The others are free.
    let message = "Host is held: wipe failed: disk 2 does not answer; poolctl host unhold n3";
    assert_eq!(state_info(sandbox, "n3"), message);
    assert!(sandbox.ok("describe agent n3").contains("Next: poolctl host unhold n3"));
    apply(sandbox, &cluster("b", 1, 0));
    sandbox.refused(4, "agent bind n3 --cluster b", "is held: wipe failed: disk 2");
    sandbox.ok("host unhold n3 -q");
    assert_eq!(state_info(sandbox, "n3"), "Host is ready to be bound to a cluster");
    // Without its driver a host is not wiped, and is held as well.
    fs::remove_file(&eraser).unwrap();
    sandbox.ok("agent bind n2 --cluster b -q");
    reconcile_until(sandbox, "installed", |sandbox| state_of(sandbox, "n2") == "installed");
    sandbox.ok("delete cluster b -y -q");
    reconcile_until(sandbox, "held", |sandbox| {
        state_info(sandbox, "n2").starts_with("Host is held: wipe failed: ")
    });
    assert!(
        state_info(sandbox, "n2").contains("poolctl-driver-eraser"),
        "{}",
        state_info(sandbox, "n2")
    );
    sandbox.ok("doctor");
}

#[test]
fn a_host_that_reports_is_brought_back_by_its_controller_and_used_again() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let sandbox = &lab.sandbox;
    let image_server = image_server();
    let images = lab.bin("images");
    fs::create_dir_all(&images).unwrap();
    let url = format!("{}/images", image_server.origin());
    let settings = json!({"spec": {"isoDirectory": images, "isoURL": url}});
    sandbox.ok(&format!("patch settings default -p '{settings}' -q"));
    apply_infra_env(sandbox, &json!({}));
    rack.add_to(sandbox);
    sandbox.ok("label host/n2 infraenvs.agent-install.openshift.io=rack -q");
    reconcile_until(sandbox, "asked", |sandbox| {
        host_status(sandbox, "n2", "provisioning.state") == "available"
    });
    let iso = format!("{}/rack.iso", image_server.origin());
    let ran = sandbox.shell(&format!(
        "ssh-keygen -q -t ed25519 -N '' -f $HOME/key && sed 's/^/192.0.2.1 /' $HOME/key.pub > \
         $HOME/known && poolctl infraenv iso rack --address poolctl@192.0.2.1 --key $HOME/key \
         --known-hosts $HOME/known --out $HOME/rack.ign --url {iso}"
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    report_booted_host(sandbox, "h2", &mac(2));
    apply(sandbox, &cluster("a", 1, 0));
    sandbox.ok("agent bind h2 --cluster a -q");
    report_booted_host(sandbox, "h2", &mac(2));
    reconcile_until(sandbox, "installed", |sandbox| state_of(sandbox, "h2") == "installed");
    sandbox.ok("delete cluster a -y -q");
    reconcile_until(sandbox, "booted again", |sandbox| {
        state_of(sandbox, "h2") == "reclaiming-rebooting"
            && host_status(sandbox, "n2", "provisioning.state") == "provisioned"
    });
    assert_eq!(rack.emulator.describe_machine(2), format!("On Cd {iso}"));
    report_booted_host(sandbox, "h2", &mac(2));
    assert_eq!(state_of(sandbox, "h2"), "known-unbound");

    // Once the host is installed again, it is not booted from that image any more.
    apply(sandbox, &installed_cluster("b"));
    sandbox.ok("agent bind h2 --cluster b -q");
    report_booted_host(sandbox, "h2", &mac(2));
    reconcile_until(sandbox, "installed again", |sandbox| state_of(sandbox, "h2") == "installed");
    for _ in 0..3 {
        sandbox.ok("reconcile --wait -q");
    }
    assert_eq!(jsonpath(sandbox, "host/n2", "{.spec.image}"), "");
    let power_and_media = rack.emulator.describe_machine(2);
    assert!(
        power_and_media.starts_with("On ") && power_and_media.ends_with(" -"),
        "{power_and_media}"
    );
    sandbox.ok("doctor");
}

#[test]
fn hosts_without_a_controller_wait_for_somebody_who_boots_them() {
    let lab = Lab::new();
    let sandbox = &lab.sandbox;
    apply_infra_env(sandbox, &json!({}));
    lab.set_behaviour("agent-bootstrap: sleep 9000\nagent-install: sleep 3000\n");
    for (host, name, mac) in [("h1", "c", "52:54:00:bb:00:01"), ("h2", "d", "52:54:00:bb:00:02")] {
        apply(sandbox, &installed_cluster(name));
        report_booted_host(sandbox, host, mac);
        sandbox.ok(&format!("agent bind {host} --cluster {name} -q"));
        report_booted_host(sandbox, host, mac);
    }
    let waiting_state = "installing-pending-user-action";
    reconcile_until(sandbox, "waiting", |sandbox| {
        ["h1", "h2"].iter().all(|host| state_of(sandbox, host) == waiting_state)
    });
    // The message names an image, which exists.
    let message = state_info(sandbox, "h1");
    let (instruction, image) = message.split_once(": ").unwrap();
    assert_eq!(instruction, "Host must be booted from the image of its cluster");
    assert!(image.ends_with("agent.x86_64.iso") && Path::new(image).exists(), "{message}");
    let status = sandbox.status();
    assert!(status.contains("2 agents (h1, h2) are waiting to be booted for the installation"));
    assert!(sandbox.ok("describe agent h1").contains("Next: boot it as its state says"));
    // One host reports its progress; the other one follows from the progress of its cluster.
    sandbox.ok("agent report h1 --stage 'Writing image to disk' -q");
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(sandbox, "h1"), "installing-in-progress");
    assert_eq!(state_of(sandbox, "h2"), waiting_state);
    reconcile_until(sandbox, "going on", |sandbox| {
        state_of(sandbox, "h2") == "installing-in-progress"
    });
    reconcile_until(sandbox, "installed", |sandbox| {
        ["h1", "h2"].iter().all(|host| state_of(sandbox, host) == "installed")
    });
    sandbox.ok("doctor");
}
