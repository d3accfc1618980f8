//! A rack: eight machines with controllers on loopback that become Agents, beside hosts that
//! report themselves, and the clusters they are bound to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::machines::{import, lab, until};
use crate::once::bound_once;
use crate::rigs::{Emulator, PASSWORD, USER, certificate, uuid};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::{Answer, Server, forward};

const MACHINES: usize = 8;
const SYSTEMS: &str = "/redfish/v1/Systems/";

/// What is in the machine of a number, at links below it.
fn inventory(number: usize, path: &str) -> Option<Value> {
    let link = |to: &str| json!({"@odata.id": format!("/{number}/{to}")});
    let only = |to: &str| json!({"Members": [link(to)]});
    // The first is too small for any role.
    let threads = if number == 1 { 1 } else { 8 };
    Some(match path {
        "" => json!({"Manufacturer": "Acme", "Model": "R7", "SerialNumber": format!("SN-{number}"),
            "UUID": uuid(number), "Processors": link("cpu"), "Memory": link("memory"),
            "EthernetInterfaces": link("nics"), "Storage": link("storage")}),
        "cpu" => only("cpu/0"),
        "cpu/0" => {
            json!({"ProcessorType": "CPU", "TotalThreads": threads, "InstructionSet": "x86-64"})
        }
        "memory" => only("memory/0"),
        "memory/0" => json!({"CapacityMiB": 16384 * number}),
        "nics" => only("nics/0"),
        "nics/0" => json!({"Id": "NIC.1", "MACAddress": mac(number)}),
        "storage" => only("storage/0"),
        "storage/0" => json!({"Drives": [link("drive")]}),
        "drive" => json!({"Name": "sda", "CapacityBytes": 480_000_000_000_u64, "MediaType": "SSD"}),
        _ => return None,
    })
}

pub fn mac(number: usize) -> String {
    format!("52:54:00:aa:00:0{number}")
}

/// Machines of an emulator, behind a front that says what is in them.
pub struct Rack {
    pub emulator: Emulator,
    front: Server,
    /// The machine whose controller takes no images now.
    pub refuses: Arc<AtomicUsize>,
    /// The machine whose controller does not switch it on now.
    pub stays_off: Arc<AtomicUsize>,
}

impl Rack {
    pub fn start() -> Option<Self> {
        let emulator = Emulator::start(MACHINES, false)?;
        let behind = ([127, 0, 0, 1], emulator.port).into();
        let chain = certificate(&["127.0.0.1"], |_| {});
        let refuses = Arc::new(AtomicUsize::new(0));
        let busy = Arc::clone(&refuses);
        let stays_off = Arc::new(AtomicUsize::new(0));
        let off = Arc::clone(&stays_off);
        let front = Server::tls(&chain, move |asked| {
            let no = uuid(busy.load(Ordering::Relaxed));
            if asked.path.contains(&no) && asked.path.contains("InsertMedia") {
                return Answer::error(503, "Base.1.0.ServiceTemporarilyUnavailable", "busy");
            }
            let no = uuid(off.load(Ordering::Relaxed));
            if asked.path.contains(&no) && asked.body.contains("\"On\"") {
                return Answer::error(503, "Base.1.0.ServiceTemporarilyUnavailable", "busy");
            }
            let parts = asked.path.trim_start_matches('/').split_once('/');
            let own = parts.and_then(|(number, rest)| inventory(number.parse().ok()?, rest));
            if let Some(own) = own {
                return Answer::json(&own);
            }
            let mut answer = forward(behind, asked);
            let number =
                (1..=MACHINES).find(|one| asked.path == format!("{SYSTEMS}{}", uuid(*one)));
            if let Some(number) = number.filter(|_| asked.method == "GET") {
                let mut system: Value = serde_json::from_slice(&answer.body).unwrap();
                for (name, value) in inventory(number, "").unwrap().as_object().unwrap() {
                    system[name] = value.clone();
                }
                answer.body = system.to_string().into_bytes();
            }
            answer
        });
        Some(Self { emulator, front, refuses, stays_off })
    }

    /// Where the controller of a machine is.
    pub fn address(&self, number: usize) -> String {
        self.front.bmc(&format!("{SYSTEMS}{}", uuid(number)))
    }

    /// Its machines as hosts n1 to n8, which are not asked yet.
    pub fn add_to(&self, lab: &Sandbox) {
        let line = |number: usize| {
            let address = self.address(number);
            format!("n{number},{address},{USER},{PASSWORD},{},true", mac(number))
        };
        let lines: Vec<String> = (1..=MACHINES).map(line).collect();
        import(lab, "name,bmc,username,password,mac,insecure", &lines);
    }
}

pub fn state_of(lab: &Sandbox, agent: &str) -> String {
    jsonpath(lab, &format!("agent/{agent}"), "{.status.debugInfo.state}")
}

/// Status, reason and message of a condition.
pub fn condition(lab: &Sandbox, agent: &str, kind: &str) -> String {
    let path = format!("{{.status.conditions[?(@.type==\"{kind}\")]}}");
    let found = jsonpath(lab, &format!("agent/{agent}"), &path);
    let one: Value = serde_json::from_str(&found).unwrap_or_default();
    let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", text("status"), text("reason"), text("message"))
}

/// A cluster that takes hosts, on the fake driver.
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

/// What a host says of itself.
pub fn report(hostname: &str, mac: &str) -> String {
    json!({"hostname": hostname, "cpu": {"count": 8, "architecture": "x86_64"},
        "memory": {"physical_bytes": 17_179_869_184_u64},
        "disks": [{"id": "sda", "name": "sda", "drive_type": "SSD", "size_bytes": 480_000_000_000_u64}],
        "interfaces": [{"name": "eth0", "mac_address": mac, "ipv4_addresses": ["192.0.2.9/24"]}],
        "routes": [{"destination": "0.0.0.0", "family": 2, "gateway": "192.0.2.1"}]})
    .to_string()
}

#[test]
fn eight_machines_are_discovered_bound_moved_and_returned() {
    let Some(rack) = Rack::start() else { return };
    let lab = lab();
    apply(&lab, RACK);
    rack.add_to(&lab);
    lab.ok("agent discover --all --infraenv rack -q");
    let good: Vec<String> = (2..=MACHINES).map(|number| format!("n{number}")).collect();
    until(&lab, "known", |lab| good.iter().all(|one| state_of(lab, one) == "known-unbound"));
    assert_eq!(state_of(&lab, "n1"), "insufficient-unbound");
    let why = condition(&lab, "n1", "Validated");
    assert!(why.contains("required CPU cores for any role is 2, found only 1"), "{why}");
    // One that reports itself, with the address of another.
    lab.ok("agent register --infraenv rack --id reporter -q");
    let inventory = lab.file("report.json", &report("reporter", "52:54:00:bb:00:01"));
    lab.ok(&format!("agent report reporter --inventory {inventory} -q"));
    lab.ok("reconcile -q");
    assert_eq!(state_of(&lab, "reporter"), "known-unbound");

    apply(&lab, &cluster("a", 3, 0));
    apply(&lab, &cluster("b", 3, 1));
    lab.ok("agent bind n2 n3 --cluster a -q");
    assert_eq!(state_of(&lab, "n2"), "known");
    assert_eq!(jsonpath(&lab, "host/n2", "{.spec.consumerRef.name}"), "a");
    // All or none: one of them is too small.
    let ran = lab.run("agent bind n4 n1 --cluster b");
    assert!(ran.code == 4 && ran.err.contains("none of them was bound"), "{}", ran.err);
    assert_eq!(state_of(&lab, "n4"), "known-unbound");
    // Another was faster.
    let ran = lab.run("agent bind n2 --cluster b");
    assert!(ran.code == 4 && ran.err.contains("already bound to cluster a"), "{}", ran.err);
    // From a to b, never in both.
    let to = json!({"spec": {"clusterDeploymentName": {"name": "b", "namespace": "default"}}});
    lab.ok(&["patch", "agent", "n3", "--type", "merge", "-p", &to.to_string(), "-q"]);
    bound_once(&lab);
    lab.ok("reconcile -q");
    assert_eq!(jsonpath(&lab, "agent/n3", "{.status.boundTo.name}"), "b");
    assert_eq!(state_of(&lab, "n3"), "known");
    lab.ok("agent unbind n2 -q");
    assert_eq!(state_of(&lab, "n2"), "known-unbound");
    assert_eq!(jsonpath(&lab, "host/n2", "{.spec.consumerRef}"), "");

    // The same machine in two environments is two Agents, and one counts: the one that is bound.
    lab.ok(&["agent", "register", "--infraenv", "other", "--id", &uuid(3), "-q"]);
    lab.ok("reconcile -q");
    assert!(condition(&lab, &uuid(3), "Duplicate").contains("Agent n3 already"));
    let inventory = lab.file("report.json", &report("thief", &mac(3).to_uppercase()));
    lab.ok(&format!("agent report reporter --inventory {inventory} -q"));
    lab.ok("reconcile -q");
    assert!(condition(&lab, "reporter", "Duplicate").contains("Agent n3 already"));
    let ran = lab.run("agent bind reporter --cluster a");
    assert!(ran.code == 4 && ran.err.contains("the same machine as Agent n3"), "{}", ran.err);

    // The weakest become masters; the cluster is installed on all four, and gives them back.
    lab.ok("agent bind n8 n5 n4 --cluster b -q");
    let role = |one: &str| jsonpath(&lab, &format!("agent/{one}"), "{.status.role}");
    assert_eq!(["n3", "n4", "n5", "n8"].map(role), ["master", "master", "master", "worker"]);
    until(&lab, "installed", |lab| state_of(lab, "n8") == "installed");
    bound_once(&lab);
    let seen = lab.ok("events cluster/b -o json");
    for reason in ["host_bind_succeeded", "host_role_updated", "host_status_updated"] {
        assert!(seen.contains(reason), "{reason}");
    }
    lab.ok("delete cluster b -y -q");
    until(&lab, "returned", |lab| {
        ["n3", "n4", "n5", "n8"].iter().all(|one| state_of(lab, one) == "known-unbound")
    });
    let seen = lab.ok("events infraenv/rack -o json");
    assert!(seen.contains("host_unbind_succeeded") && seen.contains("Registered infra env"));
    lab.ok("doctor");
}

#[test]
fn a_token_admits_a_host_once_and_its_secret_from_then_on() {
    let lab = lab();
    apply(&lab, RACK);
    let token = lab.ok("infraenv token create rack -q").trim().to_owned();
    let say = |verb: &str, document: &Value| {
        let file = lab.file("said.json", &document.to_string());
        lab.shell(&format!("SSH_ORIGINAL_COMMAND='{verb}' poolctl agent ssh < {file}"))
    };
    let with = |field: &str, value: &str| json!({"infraEnv": "default/rack", "hostID": "h1", field: value});
    let ran = say("register", &with("token", &token));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let secret = answer["secret"].as_str().unwrap().to_owned();
    assert_eq!(say("check-in", &with("secret", &secret)).code, 0);
    assert_eq!(say("check-in", &with("token", &token)).code, 9);
    assert_eq!(say("check-in", &with("secret", "guessed")).code, 9);
    for words in ["", "get pools", "register; id", "agent ssh"] {
        assert_eq!(say(words, &with("token", &token)).code, 9, "{words}");
    }
    // It is there: nobody else registers as it with what all hosts have.
    assert_eq!(say("register", &with("token", &token)).code, 9);
    lab.ok("infraenv token revoke rack -q");
    let mut other = with("token", &token);
    other["hostID"] = "h2".into();
    assert_eq!(say("register", &other).code, 9);
    // Those that were admitted stay.
    let mut said = with("secret", &secret);
    said["report"] = json!({"inventory": serde_json::from_str::<Value>(&report("h1", "52:54:00:cc:00:01")).unwrap()});
    assert_eq!(say("report", &said).code, 0);
    said["report"] = json!({"inventory": {"hostname": "x".repeat(2 << 20)}});
    let ran = say("report", &said);
    assert!(ran.code == 1 && ran.err.contains("more than 1 MiB"), "{}", ran.err);
    // Neither is anywhere to be read.
    let all = lab.ok("export") + &lab.ok("events");
    assert!(!all.contains(&token) && !all.contains(&secret));
}
