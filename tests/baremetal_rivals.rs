//! Twelve machines of three makes and without Redfish, for which two pools compete: clusters are
//! scaled away in every phase, fail, and are released while they run and while they sleep. The
//! machines themselves say after each pass whether one is on for a cluster that no longer has it,
//! and which image each has booted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::baremetal::example_objects;
use crate::lab::Lab;
use crate::machines::import_hosts;
use crate::once::assert_bound_once;
use crate::rack::{hardware, mac, report, state_of};
use crate::rigs::{IpmiSim, PASSWORD, USER};
use crate::sandbox::{Sandbox, apply, jsonpath, pause, power_of};
use crate::served::{Answer, Request, Server, closed_port};
use crate::vendors::{Machine, Make, SYSTEM};

/// The makes of the machines n1 to n8. n1 is too small for any role, and the controller of n9 is
/// dead. n10 to n12 speak IPMI only.
const MAKES: [Make; 8] = [
    Make::Supermicro,
    Make::Supermicro,
    Make::Ilo,
    Make::Idrac,
    Make::Liar,
    Make::Supermicro,
    Make::Ilo,
    Make::Idrac,
];
/// The number of the machine whose controller is slow.
const SLOW: usize = 6;
const DEAD: usize = 9;
const IPMI_ONLY: [usize; 3] = [10, 11, 12];
/// Passes until something must have happened: some minutes, because machines are watched for a while
/// after an attempt that broke off.
const MOST_PASSES: usize = 600;

/// A machine behind its controller, and what it has booted from: the cluster of an image, or `disk`.
struct Witness {
    machine: Machine,
    number: usize,
    was_on: bool,
    booted_from: String,
    images: PathBuf,
}

impl Witness {
    fn answer(&mut self, request: &Request) -> Answer {
        if self.number == SLOW {
            pause(80);
        }
        let parts = request.path.trim_start_matches('/').split_once('/');
        if let Some(part) = parts.and_then(|(number, path)| hardware(number.parse().ok()?, path)) {
            return Answer::json(&part);
        }
        let mut answer = self.machine.answer(request);
        if request.method == "GET" && request.path == SYSTEM && !answer.body.is_empty() {
            let mut system: Value = serde_json::from_slice(&answer.body).unwrap();
            for (name, value) in hardware(self.number, "").unwrap().as_object().unwrap() {
                system[name] = value.clone();
            }
            answer.body = system.to_string().into_bytes();
        }
        if self.machine.on && !self.was_on {
            self.booted_from = self.boot_source();
        }
        self.was_on = self.machine.on;
        answer
    }

    /// The name of the cluster whose image is booted, or `disk`.
    fn boot_source(&self) -> String {
        let image = self.machine.image.as_deref().filter(|_| self.machine.booted.is_some());
        let path = image.and_then(|url| url.split_once("/images/")).map(|(_, path)| path);
        let content = path.and_then(|path| std::fs::read_to_string(self.images.join(path)).ok());
        let name = content.as_deref().and_then(|content| content.strip_prefix("image of "));
        name.unwrap_or("disk").to_owned()
    }
}

struct Fleet {
    witnesses: Vec<Arc<Mutex<Witness>>>,
    servers: Vec<Server>,
    ipmi: Vec<IpmiSim>,
}

/// The MAC address of a machine, also of those with numbers of two digits.
fn mac_of(number: usize) -> String {
    if number < 10 { mac(number) } else { format!("52:54:00:bb:00:{number:02}") }
}

impl Fleet {
    fn start(images: &Path) -> Option<Self> {
        let mut ipmi = Vec::new();
        for _ in IPMI_ONLY {
            ipmi.push(IpmiSim::start()?);
        }
        let mut witnesses = Vec::new();
        let mut servers = Vec::new();
        for (number, make) in (1..).zip(MAKES) {
            let witness = Arc::new(Mutex::new(Witness {
                machine: Machine::new(make),
                number,
                was_on: false,
                booted_from: String::new(),
                images: images.to_owned(),
            }));
            let asked = Arc::clone(&witness);
            servers.push(Server::plain(move |request| asked.lock().unwrap().answer(request)));
            witnesses.push(witness);
        }
        Some(Self { witnesses, servers, ipmi })
    }

    /// Adds all machines as hosts. Those with Redfish are discovered; the others report themselves.
    fn add_to(&self, lab: &Sandbox) {
        let mut lines = Vec::new();
        for (number, server) in (1..).zip(&self.servers) {
            let address = server.bmc_address(SYSTEM);
            lines.push(format!("n{number},{address},{USER},{PASSWORD},{}", mac_of(number)));
        }
        let dead = format!("redfish+http://127.0.0.1:{}{SYSTEM}", closed_port());
        lines.push(format!("n{DEAD},{dead},{USER},{PASSWORD},{}", mac_of(DEAD)));
        for (number, sim) in IPMI_ONLY.into_iter().zip(&self.ipmi) {
            let address = sim.address();
            lines.push(format!("n{number},{address},{USER},{PASSWORD},{}", mac_of(number)));
        }
        import_hosts(lab, "name,bmc,username,password,mac", &lines);
        lab.run("agent discover n1 n2 n3 n4 n5 n6 n7 n8 n9 --infraenv metal -q");
        for number in IPMI_ONLY {
            lab.ok(&format!("label host/n{number} infraenvs.agent-install.openshift.io=metal -q"));
            report_host(lab, number);
        }
    }

    /// No machine is on for a cluster that no longer has it, and none has booted an image that is
    /// not its cluster's.
    fn assert_law(&self, lab: &Sandbox) {
        let documents: Value =
            serde_json::from_str(&lab.ok("get host,cluster -A -o json")).unwrap();
        let mut names = BTreeMap::new();
        let mut hosts = BTreeMap::new();
        for document in documents["items"].as_array().unwrap() {
            let name = document["metadata"]["name"].as_str().unwrap().to_owned();
            if document["kind"] == "BareMetalHost" {
                hosts.insert(name, document.clone());
            } else {
                names.insert(name, document["spec"]["clusterName"].clone());
            }
        }
        for (number, witness) in (1..).zip(&self.witnesses) {
            let witness = witness.lock().unwrap();
            if !witness.machine.on {
                continue;
            }
            let host = &hosts[&format!("n{number}")];
            let holder = host["spec"]["consumerRef"]["name"].as_str().unwrap_or_default();
            let is_being_stopped = host["status"]["mayRunFor"].is_string();
            let cluster = names.get(holder);
            assert!(cluster.is_some() || is_being_stopped, "n{number} is on for nobody: {host}");
            if let Some(cluster) = cluster
                && witness.booted_from != "disk"
            {
                assert_eq!(*cluster, witness.booted_from, "n{number} has booted another image");
            }
        }
        for (number, sim) in IPMI_ONLY.into_iter().zip(&self.ipmi) {
            let host = &hosts[&format!("n{number}")];
            let holder = host["spec"]["consumerRef"]["name"].as_str().unwrap_or_default();
            let is_had = names.contains_key(holder) || host["status"]["mayRunFor"].is_string();
            assert!(sim.property("power") != "1" || is_had, "n{number} is on for nobody: {host}");
        }
    }

    /// The machines that are on or have an image.
    fn awake(&self) -> Vec<usize> {
        let mut awake = Vec::new();
        for (number, witness) in (1..).zip(&self.witnesses) {
            let witness = witness.lock().unwrap();
            if witness.machine.on || witness.machine.image.is_some() {
                awake.push(number);
            }
        }
        for (number, sim) in IPMI_ONLY.into_iter().zip(&self.ipmi) {
            if sim.property("power") == "1" {
                awake.push(number);
            }
        }
        awake
    }

    /// Somebody presses the buttons of the machines n3 and n11.
    fn switch_on_by_hand(&self) {
        self.witnesses[2].lock().unwrap().machine.on = true;
        self.ipmi[1].set_property("power", "1");
    }

    fn has_booted_an_image(&self) -> bool {
        self.witnesses.iter().any(|witness| {
            let witness = witness.lock().unwrap();
            witness.machine.on && witness.booted_from.starts_with("metal-")
        })
    }

    /// Passes until a condition is met; the laws hold after each.
    fn pass_until(&self, lab: &Lab, name: &str, is_met: impl Fn(&Sandbox) -> bool) {
        let sandbox = &lab.sandbox;
        for _ in 0..MOST_PASSES {
            sandbox.run("reconcile -q");
            self.assert_law(sandbox);
            assert_bound_once(sandbox);
            for number in IPMI_ONLY {
                let state = state_of(sandbox, &format!("h{number}"));
                // A person boots it, or its agent does as it is told.
                if ["binding", "unbinding", "unbinding-pending-user-action"].contains(&&*state) {
                    report_host(sandbox, number);
                }
            }
            if is_met(sandbox) {
                return;
            }
            pause(100);
        }
        let objects = sandbox.ok("get host,agent,cluster,pool,job");
        panic!("never {name}:\n{objects}\n{}", sandbox.ok("events"));
    }

    /// Scales both pools to nothing, and expects that all machines are off then and stay so.
    fn scale_to_nothing(&self, lab: &Lab, phase: &str) {
        scale(&lab.sandbox, 0, 0);
        self.pass_until(lab, &format!("gone while {phase}"), |sandbox| {
            sandbox.ok("get cluster -A -o name").is_empty() && self.awake().is_empty()
        });
        for _ in 0..3 {
            lab.sandbox.run("reconcile --wait -q");
            assert_eq!(self.awake(), [0; 0], "{phase}");
        }
    }
}

fn report_host(lab: &Sandbox, number: usize) {
    lab.ok(&format!("agent register --infraenv metal --id h{number} -q"));
    let mut inventory: Value =
        serde_json::from_str(&report(&format!("h{number}"), &mac_of(number))).unwrap();
    inventory["interfaces"][0]["ipv4_addresses"] = json!([format!("192.0.2.{number}/24")]);
    let file = lab.write_file("report.json", &inventory.to_string());
    lab.ok(&format!("agent report h{number} --inventory {file} -q"));
}

fn scale(lab: &Sandbox, metal: usize, other: usize) {
    lab.ok(&format!("pool scale metal --size {metal} -q --no-reconcile"));
    lab.ok(&format!("pool scale other --size {other} -q"));
}

/// The example's pool, and one beside it. Both list one name; there are names for four clusters, and
/// machines for three.
fn two_pools(example: &str) -> String {
    let (objects, pool) = example.rsplit_once("---\n").unwrap();
    let metal = pool
        .replace("  size: 2\n", "  size: 0\n")
        .replace("  - name: metal-b\n", "  - name: metal-c\n  - name: metal-d\n");
    let other = pool
        .replace("  size: 2\n", "  size: 0\n  installAttemptsLimit: 1\n")
        .replace("  name: metal\n", "  name: other\n");
    let mut documents = vec![objects.to_owned(), metal, other];
    for name in ["metal-c", "metal-d"] {
        let patch = json!({"op": "replace", "path": "/metadata/name", "value": name});
        let customization = json!({"apiVersion": "hive.openshift.io/v1",
            "kind": "ClusterDeploymentCustomization", "metadata": {"name": name},
            "spec": {"installConfigPatches": [patch]}});
        documents.push(format!("{customization}\n"));
    }
    documents.join("---\n")
}

/// How many clusters of both pools are ready.
fn count_ready(lab: &Sandbox) -> usize {
    let counts = ["pool/metal", "pool/other"]
        .map(|pool| jsonpath(lab, pool, "{.status.ready}").parse::<usize>().unwrap_or(0));
    counts.iter().sum()
}

#[test]
fn twelve_machines_are_off_whenever_their_clusters_are_gone() {
    let lab = Lab::new();
    let sandbox = &lab.sandbox;
    let images = lab.bin("images");
    let Some(fleet) = Fleet::start(&images) else { return };
    let web = Server::of_folder(&images);
    apply(sandbox, &two_pools(&example_objects(&lab, &web)));
    fleet.add_to(sandbox);
    fleet.pass_until(&lab, "known", |sandbox| {
        let mut names: Vec<String> = (2..=8).map(|number| format!("n{number}")).collect();
        names.extend(IPMI_ONLY.map(|number| format!("h{number}")));
        names.iter().all(|name| state_of(sandbox, name) == "known-unbound")
    });

    lab.set_behaviour("agent-image: sleep 15000\n");
    scale(sandbox, 2, 1);
    fleet.pass_until(&lab, "preparing", |_| lab.count_in_ledger("begin agent-image") >= 2);
    fleet.scale_to_nothing(&lab, "preparing");

    lab.set_behaviour("agent-bootstrap: sleep 15000\n");
    scale(sandbox, 2, 1);
    fleet.pass_until(&lab, "booted", |_| fleet.has_booted_an_image());
    fleet.scale_to_nothing(&lab, "installing");

    lab.set_behaviour("agent-install: exit 6 Host n2: failed to write the image to its disk\n");
    scale(sandbox, 0, 1);
    fleet.pass_until(&lab, "given up", |sandbox| sandbox.ok("events").contains("ProvisionStopped"));
    lab.set_behaviour("");
    fleet.scale_to_nothing(&lab, "failed");

    // The machines are enough for three clusters of the four.
    scale(sandbox, 2, 2);
    fleet.pass_until(&lab, "ready", |sandbox| count_ready(sandbox) == 3);
    sandbox.ok("claim metal ci -q");
    sandbox.ok("claim other asleep -q");
    let claimed = ["ci", "asleep"]
        .map(|claim| jsonpath(sandbox, &format!("claim/{claim}"), "{.spec.namespace}"));
    scale(sandbox, 1, 0);
    sandbox.ok("cluster hibernate asleep -q");
    fleet.pass_until(&lab, "asleep", |sandbox| power_of(sandbox, &claimed[1]) == "Hibernating");
    sandbox.ok("release ci asleep -y -q");
    fleet.pass_until(&lab, "released", |sandbox| {
        let clusters = sandbox.ok("get cluster -A -o name");
        claimed.iter().all(|cluster| !clusters.contains(cluster.as_str()))
    });
    fleet.scale_to_nothing(&lab, "released");
    sandbox.ok("doctor");
    fleet.switch_on_by_hand();
    let asked = sandbox.run("doctor --fix --ask-controllers");
    for found in ["host `n3` was on", "host `n11` was on", "host `n9` may be on"] {
        assert!(asked.out.contains(found), "{found}: {asked:?}");
    }
    assert_eq!((fleet.awake(), asked.code), (Vec::new(), 1));
}
