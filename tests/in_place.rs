//! A host that waits with the installer of its cluster's release is installed where it stands: it is
//! handed the configuration of the cluster when it checks in, and nobody boots it again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::machines::reconcile_until;
use crate::rack::{report, state_of};
use crate::returning::{apply_infra_env, installed_cluster};
use crate::sandbox::{Ran, Sandbox, apply};

/// The release of the stand-in for openshift-install.
const RELEASE: &str = "example.com/ocp@sha256:0";

/// Sends a document as a host does, over the connection that its key opens.
fn send(sandbox: &Sandbox, verb: &str, document: &Value) -> Ran {
    let file = sandbox.write_file("sent.json", &document.to_string());
    sandbox.shell(&format!("SSH_ORIGINAL_COMMAND='{verb}' poolctl agent ssh < {file}"))
}

/// What poolctl answers to a document of a host, which it must accept.
fn answer(sandbox: &Sandbox, verb: &str, document: &Value) -> Value {
    let ran = send(sandbox, verb, document);
    assert_eq!(ran.code, 0, "{verb}: {}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

fn of_host(host: &str, field: &str, value: &Value) -> Value {
    let mut document = json!({"infraEnv": "default/rack", "hostID": host});
    document[field] = value.clone();
    document
}

/// A host registers, again if it has a secret, and reports what it is and which installer waits on
/// it. Returns its secret.
fn boot(sandbox: &Sandbox, host: &str, field: &str, proof: &Value, release: &str) -> Value {
    let secret = answer(sandbox, "register", &of_host(host, field, proof))["secret"].clone();
    let inventory: Value = serde_json::from_str(&report(host, "52:54:00:bb:00:01")).unwrap();
    let mut document = of_host(host, "secret", &secret);
    document["report"] = json!({"inventory": inventory, "installer_release": release});
    answer(sandbox, "report", &document);
    sandbox.ok("reconcile -q");
    secret
}

/// A lab where the host h1 was booted with an installer of this release and bound to a cluster. The
/// secret of the host is returned, too.
fn lab_with_host(release: &str) -> (Lab, Value) {
    lab_with_host_and(release, "")
}

/// The same with an installer that does what it is told beside taking its time.
fn lab_with_host_and(release: &str, behaviour: &str) -> (Lab, Value) {
    let lab = Lab::new();
    lab.set_behaviour(&format!("agent-bootstrap: sleep 15000\n{behaviour}"));
    let sandbox = &lab.sandbox;
    apply_infra_env(sandbox, &json!({}));
    let token = json!(sandbox.ok("infraenv token create rack -q").trim());
    let secret = boot(sandbox, "h1", "token", &token, release);
    assert_eq!(state_of(sandbox, "h1"), "known-unbound");
    apply(sandbox, &installed_cluster("edge"));
    sandbox.ok("agent bind h1 --cluster edge -q");
    let secret = boot(sandbox, "h1", "secret", &secret, release);
    (lab, secret)
}

#[test]
fn a_waiting_host_is_handed_the_configuration_of_its_cluster() {
    let (lab, secret) = lab_with_host(RELEASE);
    let sandbox = &lab.sandbox;
    let from_host = of_host("h1", "secret", &secret);
    reconcile_until(sandbox, "told to install", |sandbox| {
        answer(sandbox, "check-in", &from_host)["next"] == "install"
    });
    assert_eq!(state_of(sandbox, "h1"), "preparing-for-installation");
    let stranger = of_host("h1", "secret", &json!("guessed"));
    assert_eq!(send(sandbox, "config", &stranger).code, 9);
    let handed_over = answer(sandbox, "config", &from_host);
    let image = STANDARD.decode(handed_over["image"].as_str().unwrap()).unwrap();
    assert_eq!(image, b"image of edge");
    let mut document = from_host.clone();
    document["report"] = json!({"stage": "Installing"});
    answer(sandbox, "report", &document);
    assert_eq!(answer(sandbox, "check-in", &from_host)["next"], "none");
    assert_eq!(send(sandbox, "config", &from_host).code, 4);
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(sandbox, "h1"), "installing-in-progress");
    reconcile_until(sandbox, "installed", |sandbox| state_of(sandbox, "h1") == "installed");
    let ledger = lab.ledger();
    let is_typed = |words: &str| ledger.iter().any(|line| line.contains(words));
    assert!(is_typed("agent create config-image"), "{ledger:?}");
    assert!(!is_typed("agent create image"), "{ledger:?}");
}

#[test]
fn an_installer_that_makes_no_configuration_makes_the_whole_image() {
    let (lab, _) = lab_with_host_and(RELEASE, "agent-config-image: exit 1\n");
    reconcile_until(&lab.sandbox, "to be booted", |sandbox| {
        state_of(sandbox, "h1") == "installing-pending-user-action"
    });
}

#[test]
fn a_host_with_the_installer_of_another_release_is_booted_from_the_image() {
    let (lab, secret) = lab_with_host("example.com/ocp@sha256:1");
    let sandbox = &lab.sandbox;
    reconcile_until(sandbox, "to be booted", |sandbox| {
        state_of(sandbox, "h1") == "installing-pending-user-action"
    });
    let from_host = of_host("h1", "secret", &secret);
    assert_eq!(answer(sandbox, "check-in", &from_host)["next"], "none");
    assert!(lab.ledger().iter().any(|line| line.contains("agent create image")));
}
