//! What is said of hosts is true: of a controller that does not answer, of one that has many
//! systems, of one that is spelled in many ways, and of checks that a cluster waits for.

use serde_json::{Value, json};

use crate::machines::{reconcile_until, sandbox_on_real_clock};
use crate::metal::{boot_host, boot_hosts, sandbox_with_rack};
use crate::rack::{cluster, state_of};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::{Answer, Server, closed_port};

const SYSTEM: &str = "/redfish/v1/Systems/1";

const OBJECTS: &str = "apiVersion: v1
kind: Secret
metadata: {name: bmc}
stringData: {username: admin, password: CANARY}
---
apiVersion: v1
kind: Secret
metadata: {name: pull}
stringData: {.dockerconfigjson: '{\"auths\": {}}'}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: rack}
spec: {pullSecretRef: {name: pull}}
";

fn sandbox_with_infra_env() -> Sandbox {
    let sandbox = sandbox_on_real_clock();
    apply(&sandbox, OBJECTS);
    sandbox
}

/// The manifest of a host with a management controller at this address.
fn host(name: &str, address: &str) -> String {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name},
        "spec": {"online": false, "bmc": {"address": address, "credentialsName": "bmc"}}})
    .to_string()
}

fn add_host(sandbox: &Sandbox, name: &str, address: &str) {
    let file = sandbox.write_file("host.json", &host(name, address));
    sandbox.ok(&format!("apply -f {file} --no-reconcile -q"));
}

/// What the controller of a single machine answers.
fn describe_system(path: &str) -> Answer {
    match path {
        "/redfish/v1/" => Answer::json(&json!({"Systems": {"@odata.id": "/redfish/v1/Systems"}})),
        "/redfish/v1/Systems" => Answer::json(&json!({"Members": [{"@odata.id": SYSTEM}]})),
        SYSTEM => Answer::json(&json!({"PowerState": "Off", "SerialNumber": "SN-1"})),
        _ => Answer::status(404),
    }
}

#[test]
fn a_dead_controller_is_said_by_discover() {
    let sandbox = sandbox_with_infra_env();
    add_host(&sandbox, "n1", &format!("redfish://127.0.0.1:{}{SYSTEM}", closed_port()));
    let ran = sandbox.run("agent discover n1 --infraenv rack");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("refuses connections: nothing listens there"), "{ran:?}");
    assert!(ran.err.contains("poolctl why host/n1"), "{ran:?}");
    // One that answers is discovered beside it.
    let server = Server::plain(|request| describe_system(&request.path));
    add_host(&sandbox, "n2", &server.bmc_address(SYSTEM));
    let ran = sandbox.run("agent discover --all --infraenv rack");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("host `n1`"), "{ran:?}");
    assert!(ran.out.contains("agent/n2 discovered"), "{ran:?}");
    sandbox.ok("agent discover n2 --infraenv rack -q");
    // Whoever does not want to wait is told nothing yet.
    sandbox.ok("agent discover n1 --infraenv rack --timeout 0s -q");
}

#[test]
fn a_host_without_credentials_is_said_by_discover() {
    let sandbox = sandbox_with_infra_env();
    let address = format!("redfish://127.0.0.1:{}{SYSTEM}", closed_port());
    let secret = "\"credentialsName\":";
    let manifest =
        host("n1", &address).replace(&format!("{secret}\"bmc\""), &format!("{secret}\"lost\""));
    let file = sandbox.write_file("host.json", &manifest);
    sandbox.ok(&format!("apply -f {file} --no-reconcile -q"));
    sandbox.refused(1, "agent discover n1 --infraenv rack", "secret lost does not exist");
}

#[test]
fn ipmi_describes_no_hardware_and_discover_says_so() {
    let sandbox = sandbox_with_infra_env();
    add_host(&sandbox, "n1", "ipmi://127.0.0.1:1");
    sandbox.refused(1, "agent discover n1 --infraenv rack", "IPMI cannot describe its hardware");
    sandbox.refused(1, "agent discover --all --infraenv rack", "IPMI cannot describe hardware");
    let server = Server::plain(|request| describe_system(&request.path));
    add_host(&sandbox, "n2", &server.bmc_address(SYSTEM));
    let ran = sandbox.run("agent discover --all --infraenv rack");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("1 host left out: IPMI cannot describe hardware"), "{ran:?}");
    assert_eq!(jsonpath(&sandbox, "agent", "{.items[*].metadata.name}"), "n2");
}

#[test]
fn the_root_of_a_controller_means_its_only_system() {
    let sandbox = sandbox_with_infra_env();
    let server = Server::plain(|request| describe_system(&request.path));
    add_host(&sandbox, "n1", &server.bmc_address("/redfish/v1/"));
    sandbox.ok("agent discover n1 --infraenv rack -q");
    let serial = "{.status.hardware.systemVendor.serialNumber}";
    assert_eq!(jsonpath(&sandbox, "host/n1", serial), "SN-1");
}

#[test]
fn a_controller_with_many_systems_lists_all_of_them() {
    let sandbox = sandbox_with_infra_env();
    let paths: Vec<String> = (1..=8)
        .map(|blade| format!("/redfish/v1/Systems/52e8b3a4-6e1d-4c0b-9a53-00000000000{blade}"))
        .collect();
    let members: Vec<Value> = paths.iter().map(|path| json!({"@odata.id": path})).collect();
    let server = Server::plain(move |request| match request.path.as_str() {
        "/redfish/v1/Systems" => Answer::json(&json!({"Members": members})),
        path => describe_system(path),
    });
    add_host(&sandbox, "n1", &server.bmc_address("/redfish/v1/"));
    let ran = sandbox.run("agent discover n1 --infraenv rack");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("it has 8 systems; the address must name one"), "{ran:?}");
    for path in paths {
        assert!(ran.err.contains(&path), "{path}: {ran:?}");
    }
}

#[test]
fn spellings_of_one_controller_are_one_machine() {
    for (address, same) in [
        ("ipmi://8.0.0.1", "ipmi://010.0.0.1"),
        ("redfish://8.0.0.1/redfish/v1/Systems/1", "redfish://010.0.0.1/redfish/v1/Systems/1"),
        ("ipmi://192.0.2.1", "ipmi://[::ffff:192.0.2.1]"),
        ("redfish://192.0.2.1", "redfish://[::ffff:192.0.2.1]/redfish/v1/"),
        ("redfish://bmc.lab/redfish/v1/Systems/1", "redfish://bmc.lab./redfish/v1/Systems/1"),
        ("redfish://bmc.lab/redfish/v1/Systems/1", "redfish://BMC.lab/redfish/v1/systems/1"),
        ("redfish://bmc.lab/redfish/v1/Systems/a.1", "redfish://bmc.lab/redfish/v1/Systems/a%2E1"),
    ] {
        let sandbox = Sandbox::new();
        add_host(&sandbox, "n1", address);
        let file = sandbox.write_file("host.json", &host("n2", same));
        sandbox.refused(4, &format!("apply -f {file} --no-reconcile"), "would be one machine");
    }
}

/// A rehearsal said that all was well.
#[test]
fn a_rehearsal_refuses_what_the_change_would_refuse() {
    let sandbox = Sandbox::new();
    add_host(&sandbox, "n1", "ipmi://192.0.2.1");
    add_host(&sandbox, "n2", "ipmi://192.0.2.2");
    let file = sandbox.write_file("host.json", &host("n3", "ipmi://192.0.2.1"));
    let twin = json!({"spec": {"bmc": {"address": "ipmi://192.0.2.1"}}});
    let patch = format!("patch host n2 -p '{twin}'");
    for change in [format!("apply -f {file}"), format!("create -f {file}"), patch] {
        for option in ["--dry-run=server", "--no-reconcile"] {
            sandbox.refused(4, &format!("{change} {option}"), "would be one machine");
        }
    }
    sandbox.refused(4, &format!("diff -f {file}"), "would be one machine");
    let other = json!({"spec": {"bmc": {"address": "ipmi://192.0.2.3"}}});
    let printed = sandbox.ok(&format!("patch host n2 -p '{other}' --dry-run=server"));
    assert!(printed.contains("patched (server dry run)"), "{printed}");
    assert!(sandbox.ok("get host n2 -o yaml").contains("ipmi://192.0.2.2"));
}

#[test]
fn an_octal_number_in_an_address_is_warned_of() {
    let sandbox = Sandbox::new();
    let file = sandbox.write_file("host.json", &host("n1", "ipmi://010.0.0.1"));
    let ran = sandbox.run(&format!("apply -f {file} --no-reconcile"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("`ipmi://010.0.0.1` means 8.0.0.1"), "{ran:?}");
}

#[test]
fn an_agent_is_named_by_its_hostname_too() {
    let sandbox = sandbox_with_rack();
    boot_hosts(&sandbox, &[1, 2]);
    let name = "{.metadata.name}";
    assert_eq!(sandbox.ok(&format!("get agent/node-2 -o 'jsonpath={name}'")), "h2");
    for line in [
        "describe agent node-2",
        "why agent/node-2",
        "events agent/node-2",
        "label agent node-2 row=a",
        "agent set node-2 --role worker",
        "wait agent/node-2 --for=create --timeout=1s",
    ] {
        sandbox.ok(line);
    }
    assert_eq!(jsonpath(&sandbox, "agent/h2", "{.spec.role}"), "worker");
    // A hostname that two have names neither of them.
    boot_host(&sandbox, "rack", 3, &json!({"hostname": "node-2"}));
    sandbox.refused(4, "delete agent node-2 -y", "2 agents have the hostname `node-2`");
    sandbox.ok("delete agent node-1 -y -q");
    assert_eq!(jsonpath(&sandbox, "agent", "{.items[*].metadata.name}"), "h2 h3");
}

#[test]
fn a_cluster_that_waits_names_the_checks_that_its_hosts_fail() {
    let sandbox = sandbox_with_rack();
    sandbox.ok("delete pool metal -y -q");
    boot_hosts(&sandbox, &[1, 2, 3]);
    apply(&sandbox, &cluster("edge", 3, 0).replace("192.0.2.0/24", "1.2.3.0/24"));
    sandbox.ok("agent bind h1 h2 h3 --cluster edge --when-ready -q");
    boot_hosts(&sandbox, &[1, 2]);
    // It comes back with half of its memory.
    let memory = json!({"memory": {"physical_bytes": 4_u64 << 30, "usable_bytes": 4_u64 << 30}});
    boot_host(&sandbox, "rack", 3, &memory);
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(&sandbox, "h3"), "insufficient");
    let why = sandbox.ok("why cluster/edge");
    assert!(why.contains("host node-3 fails has-memory-for-role: "), "{why}");
    assert!(!why.contains("host node-1 fails"), "{why}");
}

#[test]
fn a_controller_that_comes_back_is_asked_at_once() {
    let sandbox = sandbox_with_infra_env();
    let server = Server::plain(|request| describe_system(&request.path));
    let port = closed_port();
    add_host(&sandbox, "n1", &format!("redfish://127.0.0.1:{port}{SYSTEM}"));
    sandbox.refused(1, "agent discover n1 --infraenv rack", "nothing listens there");
    let address = server.bmc_address(SYSTEM);
    let patch = json!({"spec": {"bmc": {"address": address}}});
    sandbox.ok(&format!("patch host n1 --type merge -p '{patch}' --no-reconcile -q"));
    sandbox.ok("agent discover n1 --infraenv rack -q");
    reconcile_until(&sandbox, "described", |sandbox| {
        jsonpath(sandbox, "agent/n1", "{.status.inventory.systemVendor.serialNumber}") == "SN-1"
    });
}
