//! A rack: eight machines with emulated controllers on loopback. They become Agents, beside hosts
//! that report themselves, and are bound to clusters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::machines::{import_hosts, reconcile_until, sandbox_on_real_clock};
use crate::once::assert_bound_once;
use crate::rigs::{Emulator, PASSWORD, USER, self_signed_certificate, uuid};
use crate::sandbox::{Ran, Sandbox, apply, jsonpath};
use crate::served::{Answer, Request, Server, forward_request};

const MACHINES: usize = 8;
const SYSTEMS: &str = "/redfish/v1/Systems/";

fn link(number: usize, target: &str) -> Value {
    json!({"@odata.id": format!("/{number}/{target}")})
}

/// A collection with one member.
fn only(number: usize, target: &str) -> Value {
    json!({"Members": [link(number, target)]})
}

/// What Redfish says of the hardware of a machine, at a path of our own below its number.
pub fn hardware(number: usize, path: &str) -> Option<Value> {
    // The first machine is too small for any role.
    let threads = if number == 1 { 1 } else { 8 };
    Some(match path {
        "" => json!({"Manufacturer": "Acme", "Model": "R7", "SerialNumber": format!("SN-{number}"),
            "UUID": uuid(number), "Processors": link(number, "cpu"),
            "Memory": link(number, "memory"), "Storage": link(number, "storage"),
            "EthernetInterfaces": link(number, "nics")}),
        "cpu" => only(number, "cpu/0"),
        "cpu/0" => {
            json!({"ProcessorType": "CPU", "TotalThreads": threads, "InstructionSet": "x86-64"})
        }
        "memory" => only(number, "memory/0"),
        "memory/0" => json!({"CapacityMiB": 16384 * number}),
        "nics" => only(number, "nics/0"),
        "nics/0" => json!({"Id": "NIC.1", "MACAddress": mac(number)}),
        "storage" => only(number, "storage/0"),
        "storage/0" => json!({"Drives": [link(number, "drive")]}),
        "drive" => json!({"Name": "sda", "CapacityBytes": 480_000_000_000_u64, "MediaType": "SSD"}),
        _ => return None,
    })
}

pub fn mac(number: usize) -> String {
    format!("52:54:00:aa:00:0{number}")
}

/// The machines of an emulator, behind a server that adds what hardware they have.
pub struct Rack {
    pub emulator: Emulator,
    front: Server,
    /// The number of the machine whose controller takes no images, 0 for none.
    pub refuses: Arc<AtomicUsize>,
    /// The number of the machine whose controller does not switch it on, 0 for none.
    pub stays_off: Arc<AtomicUsize>,
}

/// The answer of a controller that has no time.
fn busy() -> Answer {
    Answer::error(503, "Base.1.0.ServiceTemporarilyUnavailable", "busy")
}

/// What the emulator at `behind` answers; for a machine itself, with its hardware added.
fn answer_with_hardware(behind: SocketAddr, asked: &Request) -> Answer {
    let mut answer = forward_request(behind, asked);
    let mut numbers = 1..=MACHINES;
    let asked_for = numbers.find(|number| asked.path == format!("{SYSTEMS}{}", uuid(*number)));
    if let Some(number) = asked_for
        && asked.method == "GET"
    {
        let mut system: Value = serde_json::from_slice(&answer.body).unwrap();
        for (name, value) in hardware(number, "").unwrap().as_object().unwrap() {
            system[name] = value.clone();
        }
        answer.body = system.to_string().into_bytes();
    }
    answer
}

impl Rack {
    pub fn start() -> Option<Self> {
        let emulator = Emulator::start(MACHINES, false)?;
        let behind = SocketAddr::from(([127, 0, 0, 1], emulator.port));
        let chain = self_signed_certificate(&["127.0.0.1"], |_| {});
        let refuses = Arc::new(AtomicUsize::new(0));
        let refusing = Arc::clone(&refuses);
        let stays_off = Arc::new(AtomicUsize::new(0));
        let staying_off = Arc::clone(&stays_off);
        let front = Server::tls(&chain, move |asked| {
            let refusing_uuid = uuid(refusing.load(Ordering::Relaxed));
            if asked.path.contains(&refusing_uuid) && asked.path.contains("InsertMedia") {
                return busy();
            }
            let off_uuid = uuid(staying_off.load(Ordering::Relaxed));
            if asked.path.contains(&off_uuid) && asked.body.contains("\"On\"") {
                return busy();
            }
            let parts = asked.path.trim_start_matches('/').split_once('/');
            match parts.and_then(|(number, path)| hardware(number.parse().ok()?, path)) {
                Some(part) => Answer::json(&part),
                None => answer_with_hardware(behind, asked),
            }
        });
        Some(Self { emulator, front, refuses, stays_off })
    }

    /// The address of the controller of a machine.
    pub fn address(&self, number: usize) -> String {
        self.front.bmc_address(&format!("{SYSTEMS}{}", uuid(number)))
    }

    /// Adds its machines as hosts n1 to n8, whose controllers are not asked yet.
    pub fn add_to(&self, lab: &Sandbox) {
        let mut lines = Vec::new();
        for number in 1..=MACHINES {
            let address = self.address(number);
            lines.push(format!("n{number},{address},{USER},{PASSWORD},{},true", mac(number)));
        }
        import_hosts(lab, "name,bmc,username,password,mac,insecure", &lines);
    }
}

/// The state of an Agent, such as `known-unbound`.
pub fn state_of(lab: &Sandbox, agent: &str) -> String {
    jsonpath(lab, &format!("agent/{agent}"), "{.status.debugInfo.state}")
}

/// Status, reason and message of a condition of an Agent.
pub fn condition(lab: &Sandbox, agent: &str, kind: &str) -> String {
    let path = format!("{{.status.conditions[?(@.type==\"{kind}\")]}}");
    let json = jsonpath(lab, &format!("agent/{agent}"), &path);
    let condition: Value = serde_json::from_str(&json).unwrap_or_default();
    let fields = ["status", "reason", "message"];
    fields.map(|field| condition[field].as_str().unwrap_or_default()).join(" ")
}

/// A simulated cluster that needs hosts, with its install-config.
pub fn cluster(name: &str, masters: usize, workers: usize) -> String {
    let config = json!({"apiVersion": "v1", "baseDomain": "lab.test", "metadata": {"name": name},
        "controlPlane": {"name": "master", "replicas": masters},
        "compute": [{"name": "worker", "replicas": workers}],
        "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]}, "platform": {"none": {}}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{name}-config")},
        "stringData": {"install-config.yaml": config.to_string()}});
    let cluster = json!({"apiVersion": "hive.openshift.io/v1", "kind": "ClusterDeployment",
        "metadata": {"name": name, "annotations": {"hive.openshift.io/fake-cluster": "true",
            "poolctl.dev/fake-install-duration": "1s"}},
        "spec": {"baseDomain": "lab.test", "clusterName": name, "platform": {"none": {}},
            "provisioning": {"installConfigSecretRef": {"name": format!("{name}-config")}}}});
    format!("{secret}\n---\n{cluster}\n")
}

const RACK: &str = "apiVersion: v1
kind: Secret
metadata: {name: pull}
stringData: {.dockerconfigjson: '{\"auths\": {}}'}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: rack}
spec: {pullSecretRef: {name: pull}}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: other}
spec: {pullSecretRef: {name: pull}}
";

/// The inventory that a host reports: enough for any role.
pub fn report(hostname: &str, mac: &str) -> String {
    json!({"hostname": hostname, "cpu": {"count": 8, "architecture": "x86_64"},
        "memory": {"physical_bytes": 17_179_869_184_u64},
        "disks": [{"id": "sda", "name": "sda", "drive_type": "SSD",
            "size_bytes": 480_000_000_000_u64}],
        "interfaces": [{"name": "eth0", "mac_address": mac, "ipv4_addresses": ["192.0.2.9/24"]}],
        "routes": [{"destination": "0.0.0.0", "family": 2, "gateway": "192.0.2.1"}]})
    .to_string()
}

#[test]
fn eight_machines_are_discovered_bound_moved_and_returned() {
    let Some(rack) = Rack::start() else { return };
    let lab = sandbox_on_real_clock();
    apply(&lab, RACK);
    rack.add_to(&lab);
    lab.ok("agent discover --all --infraenv rack -q");
    reconcile_until(&lab, "known", |lab| {
        (2..=MACHINES).all(|number| state_of(lab, &format!("n{number}")) == "known-unbound")
    });
    assert_eq!(state_of(&lab, "n1"), "insufficient-unbound");
    let validated = condition(&lab, "n1", "Validated");
    let expected = "required CPU cores for any role is 2, found only 1";
    assert!(validated.contains(expected), "{validated}");
    // Beside them, a host that reports itself.
    lab.ok("agent register --infraenv rack --id reporter -q");
    let inventory = lab.write_file("report.json", &report("reporter", "52:54:00:bb:00:01"));
    lab.ok(&format!("agent report reporter --inventory {inventory} -q"));
    lab.ok("reconcile -q");
    assert_eq!(state_of(&lab, "reporter"), "known-unbound");

    apply(&lab, &cluster("a", 3, 0));
    apply(&lab, &cluster("b", 3, 1));
    lab.ok("agent bind n2 n3 --cluster a -q");
    assert_eq!(state_of(&lab, "n2"), "known");
    assert_eq!(jsonpath(&lab, "host/n2", "{.spec.consumerRef.name}"), "a");
    // All or none: one of them is too small.
    lab.refused(4, "agent bind n4 n1 --cluster b", "none of them was bound");
    assert_eq!(state_of(&lab, "n4"), "known-unbound");
    lab.refused(4, "agent bind n2 --cluster b", "already bound to cluster a");
    // A host moves from a to b, and is never in both.
    let patch = json!({"spec": {"clusterDeploymentName": {"name": "b", "namespace": "default"}}});
    lab.ok(&format!("patch agent n3 --type merge -p '{patch}' -q"));
    assert_bound_once(&lab);
    lab.ok("reconcile -q");
    assert_eq!(jsonpath(&lab, "agent/n3", "{.status.boundTo.name}"), "b");
    assert_eq!(state_of(&lab, "n3"), "known");
    lab.ok("agent unbind n2 -q");
    assert_eq!(state_of(&lab, "n2"), "known-unbound");
    assert_eq!(jsonpath(&lab, "host/n2", "{.spec.consumerRef}"), "");

    // The same machine in two environments is two Agents, and one counts: the one that is bound.
    lab.ok(&format!("agent register --infraenv other --id {} -q", uuid(3)));
    lab.ok("reconcile -q");
    assert!(condition(&lab, &uuid(3), "Duplicate").contains("is that of Agent n3"));
    let inventory = lab.write_file("report.json", &report("thief", &mac(3).to_uppercase()));
    lab.ok(&format!("agent report reporter --inventory {inventory} -q"));
    lab.ok("reconcile -q");
    assert!(condition(&lab, "reporter", "Duplicate").contains("is that of Agent n3"));
    lab.refused(4, "agent bind reporter --cluster a", "the same machine as Agent n3");

    // The weakest become masters; the cluster is installed on all four, and gives them back.
    lab.ok("agent bind n8 n5 n4 --cluster b -q");
    let hosts = ["n3", "n4", "n5", "n8"];
    let roles = hosts.map(|host| jsonpath(&lab, &format!("agent/{host}"), "{.status.role}"));
    assert_eq!(roles, ["master", "master", "master", "worker"]);
    reconcile_until(&lab, "installed", |lab| state_of(lab, "n8") == "installed");
    assert_bound_once(&lab);
    let events = lab.ok("events cluster/b -o json");
    for reason in ["host_bind_succeeded", "host_role_updated", "host_status_updated"] {
        assert!(events.contains(reason), "{reason}");
    }
    lab.ok("delete cluster b -y -q");
    reconcile_until(&lab, "returned", |lab| {
        hosts.iter().all(|host| state_of(lab, host) == "known-unbound")
    });
    let events = lab.ok("events infraenv/rack -o json");
    assert!(events.contains("host_unbind_succeeded") && events.contains("Registered infra env"));
    lab.ok("doctor");
}

/// Sends a document as host h1 does, over the connection that its key opens.
fn send(lab: &Sandbox, verb: &str, document: &Value) -> Ran {
    let file = lab.write_file("sent.json", &document.to_string());
    lab.shell(&format!("SSH_ORIGINAL_COMMAND='{verb}' poolctl agent ssh < {file}"))
}

/// A document of host h1 with its token or its secret.
fn document_with(field: &str, value: &str) -> Value {
    json!({"infraEnv": "default/rack", "hostID": "h1", field: value})
}

#[test]
fn a_token_admits_a_host_once_and_its_secret_from_then_on() {
    let lab = sandbox_on_real_clock();
    apply(&lab, RACK);
    let token = lab.ok("infraenv token create rack -q").trim().to_owned();
    let ran = send(&lab, "register", &document_with("token", &token));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let secret = answer["secret"].as_str().unwrap().to_owned();
    assert_eq!(send(&lab, "check-in", &document_with("secret", &secret)).code, 0);
    assert_eq!(send(&lab, "check-in", &document_with("token", &token)).code, 9);
    assert_eq!(send(&lab, "check-in", &document_with("secret", "guessed")).code, 9);
    for words in ["", "get pools", "register; id", "agent ssh"] {
        assert_eq!(send(&lab, words, &document_with("token", &token)).code, 9, "{words}");
    }
    // The host is known: nobody registers in its name with the token, which all hosts have.
    assert_eq!(send(&lab, "register", &document_with("token", &token)).code, 9);
    lab.ok("infraenv token revoke rack -q");
    let mut other_host = document_with("token", &token);
    other_host["hostID"] = "h2".into();
    assert_eq!(send(&lab, "register", &other_host).code, 9);
    // Hosts that were admitted before stay.
    let mut document = document_with("secret", &secret);
    document["report"] = json!({"inventory": serde_json::from_str::<Value>(&report("h1", "52:54:00:cc:00:01")).unwrap()});
    assert_eq!(send(&lab, "report", &document).code, 0);
    document["report"] = json!({"inventory": {"hostname": "x".repeat(2 << 20)}});
    let ran = send(&lab, "report", &document);
    assert!(ran.code == 1 && ran.err.contains("more than 1 MiB"), "{}", ran.err);
    // Neither the token nor the secret can be read anywhere.
    let shown = lab.ok("export") + &lab.ok("events");
    assert!(!shown.contains(&token) && !shown.contains(&secret));
}
