//! agent-config.yaml: how it is rendered from hosts and their networks, and what openshift-install
//! would refuse. The rules are scenarios in tests/cases/agent_config.txt, which explains its words.

use serde_json::{Map, Value, json};

use poolctl::model::agent::inventory::{Disk, Interface, Inventory};
use poolctl::model::agent::{Agent, Role};
use poolctl::model::nmstate_config::{NMStateConfig, NMStateInterface};
use poolctl::render::agent_config::{Node, agent_config, find_problems, nmstate_for_agent};

use crate::cases::scenarios;

/// Three masters and a worker, on bare metal.
fn install_config() -> Value {
    json!({
        "apiVersion": "v1",
        "baseDomain": "lab.test",
        "metadata": {"name": "a"},
        "controlPlane": {"name": "master", "replicas": 3},
        "compute": [{"name": "worker", "replicas": 1}],
        "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
        "platform": {"baremetal": {"apiVIPs": ["192.0.2.2"], "ingressVIPs": ["192.0.2.3"]}},
        "pullSecret": "{\"auths\": {\"quay.io\": {\"auth\": \"bWU6aHVudGVyMg==\"}}}",
    })
}

/// The nmstate of one interface with one address.
fn network(name: &str, address: &str) -> Value {
    let address = json!([{"ip": address, "prefix-length": 24}]);
    let ipv4 = json!({"enabled": true, "dhcp": false, "address": address});
    json!({"interfaces": [{"name": name, "type": "ethernet", "state": "up", "ipv4": ipv4}]})
}

/// The agent-config that goes with it, in which hosts are by name.
fn agent_config_by_name() -> Value {
    let mut hosts = Map::new();
    for (index, name) in ["m0", "m1", "m2", "w0"].into_iter().enumerate() {
        let role = if name.starts_with('m') { "master" } else { "worker" };
        let host = json!({
            "hostname": name,
            "role": role,
            "interfaces": [{"name": "eno1", "macAddress": format!("02:00:00:00:00:a{index}")}],
            "networkConfig": network("eno1", &format!("192.0.2.1{index}")),
        });
        hosts.insert(name.to_owned(), host);
    }
    json!({
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": "a"},
        "rendezvousIP": "192.0.2.10",
        "hosts": hosts,
    })
}

fn merge(document: &mut Value, patch: &str) {
    let patch: Value =
        serde_json::from_str(patch).unwrap_or_else(|error| panic!("{error}: {patch}"));
    json_patch::merge(document, &patch);
}

#[test]
fn what_openshift_install_would_refuse_is_said_before_in_its_words() {
    let scenarios = scenarios(include_str!("cases/agent_config.txt"));
    for scenario in &scenarios {
        let mut install = install_config();
        let mut agent = agent_config_by_name();
        let mut expected: Vec<&str> = Vec::new();
        for line in &scenario.lines {
            match line.split_once(": ") {
                Some(("install", patch)) => merge(&mut install, patch),
                Some(("agent", patch)) => merge(&mut agent, patch),
                _ => expected.push(line),
            }
        }
        let hosts: Vec<Value> = agent["hosts"].as_object().unwrap().values().cloned().collect();
        agent["hosts"] = hosts.into();
        let mut problems = find_problems(&install, &agent);
        if problems.is_empty() {
            problems.push("none".into());
        }
        assert_eq!(problems, expected, "{}", scenario.name);
    }
    assert!(scenarios.len() > 80, "{}", scenarios.len());
}

fn interface(name: &str, kind: &str, mac: &str, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|address| String::from(*address));
    let (ipv6, ipv4): (Vec<String>, Vec<String>) =
        addresses.partition(|address| address.contains(':'));
    Interface {
        name: name.into(),
        kind: kind.into(),
        mac_address: mac.into(),
        ipv4_addresses: ipv4,
        ipv6_addresses: ipv6,
        ..Interface::default()
    }
}

fn host(name: &str, interfaces: Vec<Interface>, disk: Disk) -> Agent {
    let mut agent = Agent::default();
    agent.metadata.name = format!("id-of-{name}");
    agent.metadata.namespace = "lab".into();
    agent.status.installation_disk_id.clone_from(&disk.id);
    let disks = vec![Disk { id: "other".into(), path: "/dev/sdz".into(), ..Disk::default() }, disk];
    let hostname = name.into();
    let inventory = Inventory { hostname, interfaces, disks, ..Inventory::default() };
    agent.set_inventory(inventory);
    agent
}

fn nmstate_config(name: &str, interfaces: &[(&str, &str)], nmstate: Value) -> NMStateConfig {
    let mut config = NMStateConfig::default();
    config.metadata.name = name.into();
    config.metadata.namespace = "lab".into();
    for (name, mac) in interfaces {
        let name = String::from(*name);
        config.spec.interfaces.push(NMStateInterface { name, mac_address: String::from(*mac) });
    }
    config.spec.config = nmstate;
    config
}

/// A bond of two ports, as people write it.
fn bond_config() -> NMStateConfig {
    let nmstate = json!({
        "interfaces": [
            {"name": "port0", "type": "ethernet", "state": "up"},
            {"name": "port1", "type": "ethernet", "state": "up"},
            {"name": "bond0", "type": "bond", "state": "up",
                "link-aggregation": {"mode": "active-backup", "port": ["port0", "port1"]},
                "ipv4": {"enabled": true, "dhcp": false,
                    "address": [{"ip": "192.0.2.12", "prefix-length": 24}]}},
        ],
        "routes": {"config": [{"destination": "0.0.0.0/0", "next-hop-interface": "bond0"}]},
    });
    let ports = [("port0", "02:00:00:00:00:A2"), ("port1", "02:00:00:00:00:b2")];
    nmstate_config("bond", &ports, nmstate)
}

/// A host of every way in which hosts become known: found by its controller, reported by itself,
/// without a kind of interface, with a hostname of its own.
fn rack() -> [Agent; 4] {
    // Its controller has names of its own for interfaces and disks.
    let mut discovered = host(
        "n1",
        vec![interface("NIC.Integrated.1-1-1", "physical", "02:00:00:00:00:A1", &[])],
        Disk { id: "Disk 0".into(), serial: "S-1".into(), size_bytes: 1, ..Disk::default() },
    );
    discovered.status.found_by_controller = true;
    let reported = host(
        "n2",
        vec![
            interface("eno1", "physical", "02:00:00:00:00:a2", &["192.0.2.77/24"]),
            interface("eno2", "physical", "02:00:00:00:00:b2", &[]),
            interface("bond0", "bond", "02:00:00:00:00:a2", &[]),
            interface("usb0", "physical", "", &[]),
        ],
        Disk {
            id: "/dev/disk/by-id/wwn-2".into(),
            by_id: "/dev/disk/by-id/wwn-2".into(),
            by_path: "/dev/disk/by-path/pci-0000:00:1f.2-ata-1".into(),
            path: "/dev/sda".into(),
            ..Disk::default()
        },
    );
    let templated = host(
        "n3",
        vec![interface("eno1", "", "02:00:00:00:00:a3", &[])],
        Disk { id: "Disk 0".into(), size_bytes: 480_000_000_000, ..Disk::default() },
    );
    let mut worker = host(
        "a1",
        vec![interface("eno1", "physical", "02:00:00:00:00:a4", &[])],
        Disk { id: "nvme".into(), path: "/dev/nvme0n1".into(), ..Disk::default() },
    );
    worker.spec.hostname = "a2".into();
    [discovered, reported, templated, worker]
}

#[test]
fn hosts_become_a_document_that_is_accepted() {
    let [discovered, reported, templated, worker] = rack();
    let bond = nmstate_for_agent(&reported, &[bond_config()]).unwrap();
    let mut lan = network("lan0", "192.0.2.13");
    lan["interfaces"][0]["mac-address"] = "02:00:00:00:00:A3".into();
    let nodes = [
        Node { agent: &worker, role: Role::Worker, nmstate: None },
        Node { agent: &templated, role: Role::Bootstrap, nmstate: Some(lan.clone()) },
        Node { agent: &reported, role: Role::Master, nmstate: bond.clone() },
        Node { agent: &discovered, role: Role::Master, nmstate: None },
    ];
    let rendered = agent_config("a", &nodes, None, &["192.0.2.1".into()]);
    let expected = json!({
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": "a"},
        "rendezvousIP": "192.0.2.12",
        "additionalNTPSources": ["192.0.2.1"],
        "hosts": [
            {"hostname": "n1", "role": "master", "rootDeviceHints": {"serialNumber": "S-1"},
                "interfaces": [{"name": "nic0", "macAddress": "02:00:00:00:00:a1"}]},
            {"hostname": "n2", "role": "master",
                "rootDeviceHints": {"deviceName": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"},
                "interfaces": [
                    {"name": "eno1", "macAddress": "02:00:00:00:00:a2"},
                    {"name": "eno2", "macAddress": "02:00:00:00:00:b2"},
                ],
                "networkConfig": bond},
            {"hostname": "n3", "role": "master", "rootDeviceHints": {"minSizeGigabytes": 447},
                "interfaces": [{"name": "lan0", "macAddress": "02:00:00:00:00:a3"}],
                "networkConfig": lan},
            {"hostname": "a2", "role": "worker",
                "rootDeviceHints": {"deviceName": "/dev/nvme0n1"},
                "interfaces": [{"name": "eno1", "macAddress": "02:00:00:00:00:a4"}]},
        ],
    });
    assert_eq!(rendered, expected);
    assert_eq!(find_problems(&install_config(), &rendered), Vec::<String>::new());
}

#[test]
fn the_rendezvous_ip_is_that_of_a_master() {
    // By link-local addresses a host cannot be reached from elsewhere; they are passed over.
    let addresses = ["169.254.1.1/16", "fe80::1/64", "192.0.2.21/24", "2001:db8::21/64"];
    let master =
        host("n1", vec![interface("eno1", "", "02:00:00:00:00:a1", &addresses)], Disk::default());
    let silent = host("n0", Vec::new(), Disk::default());
    let worker =
        host("w1", vec![interface("eno1", "", "02:00:00:00:00:a2", &addresses)], Disk::default());
    let rendezvous_ip = |nmstate: Option<&str>, given: Option<&str>| {
        let nmstate = nmstate.map(|address| network("eno1", address));
        let nodes = [
            Node {
                agent: &worker,
                role: Role::Worker,
                nmstate: Some(network("eno1", "192.0.2.9")),
            },
            Node { agent: &master, role: Role::Master, nmstate },
            Node { agent: &silent, role: Role::Master, nmstate: None },
        ];
        agent_config("a", &nodes, given, &[])["rendezvousIP"].clone()
    };
    assert_eq!(rendezvous_ip(Some("192.0.2.31"), Some("192.0.2.41")), "192.0.2.41");
    assert_eq!(rendezvous_ip(Some("192.0.2.31"), None), "192.0.2.31");
    assert_eq!(rendezvous_ip(None, None), "192.0.2.21");
    let alone = [Node { agent: &silent, role: Role::Master, nmstate: None }];
    let rendered = agent_config("a", &alone, None, &[]);
    let hosts = json!([{"hostname": "n0", "role": "master", "interfaces": []}]);
    assert_eq!(rendered["hosts"], hosts);
    assert!(rendered.get("rendezvousIP").is_none());
    assert!(rendered.get("additionalNTPSources").is_none());
}

#[test]
fn a_network_is_for_the_host_that_has_a_mac_address_of_it() {
    let interfaces = vec![
        interface("eno1", "physical", "02:00:00:00:00:a2", &[]),
        interface("port0", "physical", "02:00:00:00:00:b2", &[]),
    ];
    let agent = host("n2", interfaces, Disk::default());
    // No host has this address.
    let ff = [("eth0", "02:00:00:00:00:ff")];
    let other_host = nmstate_config("other", &ff, json!({"interfaces": []}));
    assert_eq!(nmstate_for_agent(&agent, &[]), Ok(None));
    assert_eq!(nmstate_for_agent(&agent, std::slice::from_ref(&other_host)), Ok(None));
    assert_eq!(nmstate_for_agent(&Agent::default(), &[bond_config()]), Ok(None));
    let empty = nmstate_config("empty", &[("eth0", "02:00:00:00:00:a2")], Value::Null);
    assert_eq!(nmstate_for_agent(&agent, std::slice::from_ref(&empty)), Ok(None));
    // Interfaces get the names that the host has for them; words of nmstate stay.
    let network = nmstate_for_agent(&agent, &[other_host, bond_config()]).unwrap().unwrap();
    let interfaces = &network["interfaces"];
    let names = [&interfaces[0]["name"], &interfaces[1]["name"], &interfaces[2]["name"]];
    assert_eq!(names, ["eno1", "port0", "bond0"]);
    assert_eq!(interfaces[2]["link-aggregation"]["port"], json!(["eno1", "port0"]));
    // An interface that is called as a state of nmstate: its name is replaced, the state is not.
    let named_up = nmstate_config(
        "word",
        &[("up", "02:00:00:00:00:a2")],
        json!({"interfaces": [{"name": "up", "state": "up"}]}),
    );
    let network = nmstate_for_agent(&agent, &[named_up]).unwrap().unwrap();
    assert_eq!(network, json!({"interfaces": [{"name": "eno1", "state": "up"}]}));
    let problem = nmstate_for_agent(&agent, &[bond_config(), empty]).unwrap_err();
    assert_eq!(problem, "NMStateConfigs `lab/bond` and `lab/empty` are both for host `n2`");
}
