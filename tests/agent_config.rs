//! agent-config.yaml: what is made of hosts and their networks, and what openshift-install would
//! refuse. The rules are data, in cases/agent_config.txt.

use serde_json::{Map, Value, json};

use poolctl::model::agent::inventory::{Disk, Interface, Inventory};
use poolctl::model::agent::{Agent, Role};
use poolctl::model::nmstate_config::{NMStateConfig, NMStateInterface};
use poolctl::render::agent_config::{Node, agent_config, network_of, problems};

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

/// A network of one interface with one address.
fn network(name: &str, address: &str) -> Value {
    let address = json!([{"ip": address, "prefix-length": 24}]);
    let ipv4 = json!({"enabled": true, "dhcp": false, "address": address});
    json!({"interfaces": [{"name": name, "type": "ethernet", "state": "up", "ipv4": ipv4}]})
}

/// The hosts that go with it, by name.
fn good() -> Value {
    let host = |(at, name): (usize, &str)| {
        let role = if name.starts_with('m') { "master" } else { "worker" };
        let host = json!({
            "hostname": name,
            "role": role,
            "interfaces": [{"name": "eno1", "macAddress": format!("02:00:00:00:00:a{at}")}],
            "networkConfig": network("eno1", &format!("192.0.2.1{at}")),
        });
        (name.to_owned(), host)
    };
    let hosts: Map<String, Value> =
        ["m0", "m1", "m2", "w0"].into_iter().enumerate().map(host).collect();
    json!({
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": "a"},
        "rendezvousIP": "192.0.2.10",
        "hosts": hosts,
    })
}

fn merge(into: &mut Value, patch: &str) {
    let patch: Value = serde_json::from_str(patch).unwrap_or_else(|why| panic!("{why}: {patch}"));
    json_patch::merge(into, &patch);
}

#[test]
fn every_rule_has_its_case() {
    let text = include_str!("cases/agent_config.txt");
    let mut many = 0;
    for block in text.split("\n\n").filter(|block| !block.starts_with('#')) {
        let (name, lines) = block.trim().split_once('\n').unwrap();
        let (mut install, mut agent) = (install_config(), good());
        let mut expected: Vec<&str> = Vec::new();
        for line in lines.lines() {
            match line.split_once(": ") {
                Some(("install", patch)) => merge(&mut install, patch),
                Some(("agent", patch)) => merge(&mut agent, patch),
                _ => expected.push(line),
            }
        }
        let hosts: Vec<Value> = agent["hosts"].as_object().unwrap().values().cloned().collect();
        agent["hosts"] = hosts.into();
        let mut found = problems(&install, &agent);
        if found.is_empty() {
            found.push("none".into());
        }
        assert_eq!(found, expected, "{name}");
        many += 1;
    }
    assert!(many > 80, "{many}");
}

fn card(name: &str, kind: &str, mac: &str, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|one| String::from(*one));
    let (v6, v4): (Vec<String>, Vec<String>) = addresses.partition(|one| one.contains(':'));
    Interface {
        name: name.into(),
        kind: kind.into(),
        mac_address: mac.into(),
        ipv4_addresses: v4,
        ipv6_addresses: v6,
        ..Interface::default()
    }
}

fn host(name: &str, interfaces: Vec<Interface>, disk: Disk) -> Agent {
    let mut made = Agent::default();
    (made.metadata.name, made.metadata.namespace) = (format!("id-of-{name}"), "lab".into());
    made.status.installation_disk_id.clone_from(&disk.id);
    let disks = vec![Disk { id: "other".into(), path: "/dev/sdz".into(), ..Disk::default() }, disk];
    let hostname = name.into();
    made.status.inventory = Some(Inventory { hostname, interfaces, disks, ..Inventory::default() });
    made
}

fn config(name: &str, interfaces: &[(&str, &str)], config: Value) -> NMStateConfig {
    let mut made = NMStateConfig::default();
    (made.metadata.name, made.metadata.namespace) = (name.into(), "lab".into());
    let interface = |(name, mac): &(&str, &str)| NMStateInterface {
        name: String::from(*name),
        mac_address: String::from(*mac),
    };
    made.spec.interfaces = interfaces.iter().map(interface).collect();
    made.spec.config = config;
    made
}

/// A bond of two ports, as people write it.
fn bonded() -> NMStateConfig {
    let wanted = json!({
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
    config("bond", &[("port0", "02:00:00:00:00:A2"), ("port1", "02:00:00:00:00:b2")], wanted)
}

/// Hosts as they come to be known.
fn rack() -> [Agent; 4] {
    // Found by its controller, which has names of its own.
    let mut found = host(
        "n1",
        vec![card("NIC.Integrated.1-1-1", "physical", "02:00:00:00:00:A1", &[])],
        Disk { id: "Disk 0".into(), serial: "S-1".into(), size_bytes: 1, ..Disk::default() },
    );
    found.status.found = true;
    let reported = host(
        "n2",
        vec![
            card("eno1", "physical", "02:00:00:00:00:a2", &["192.0.2.77/24"]),
            card("eno2", "physical", "02:00:00:00:00:b2", &[]),
            card("bond0", "bond", "02:00:00:00:00:a2", &[]),
            card("usb0", "physical", "", &[]),
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
        vec![card("eno1", "", "02:00:00:00:00:a3", &[])],
        Disk { id: "Disk 0".into(), size_bytes: 480_000_000_000, ..Disk::default() },
    );
    let mut worker = host(
        "a1",
        vec![card("eno1", "physical", "02:00:00:00:00:a4", &[])],
        Disk { id: "nvme".into(), path: "/dev/nvme0n1".into(), ..Disk::default() },
    );
    worker.spec.hostname = "a2".into();
    [found, reported, templated, worker]
}

#[test]
fn hosts_become_a_document_that_is_accepted() {
    let [found, reported, templated, worker] = rack();
    let bond = network_of(&reported, &[bonded()]).unwrap();
    let mut lan = network("lan0", "192.0.2.13");
    lan["interfaces"][0]["mac-address"] = "02:00:00:00:00:A3".into();
    let nodes = [
        Node { agent: &worker, role: Role::Worker, nmstate: None },
        Node { agent: &templated, role: Role::Bootstrap, nmstate: Some(lan.clone()) },
        Node { agent: &reported, role: Role::Master, nmstate: bond.clone() },
        Node { agent: &found, role: Role::Master, nmstate: None },
    ];
    let made = agent_config("a", &nodes, None, &["192.0.2.1".into()]);
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
    assert_eq!(made, expected);
    assert_eq!(problems(&install_config(), &made), Vec::<String>::new());
}

#[test]
fn masters_meet_at_one_of_them() {
    let addresses = ["169.254.1.1/16", "fe80::1/64", "192.0.2.21/24", "2001:db8::21/64"];
    let master =
        host("n1", vec![card("eno1", "", "02:00:00:00:00:a1", &addresses)], Disk::default());
    let silent = host("n0", Vec::new(), Disk::default());
    let worker =
        host("w1", vec![card("eno1", "", "02:00:00:00:00:a2", &addresses)], Disk::default());
    let meet = |nmstate: Option<&str>, given: Option<&str>| {
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
    assert_eq!(meet(Some("192.0.2.31"), Some("192.0.2.41")), "192.0.2.41");
    assert_eq!(meet(Some("192.0.2.31"), None), "192.0.2.31");
    assert_eq!(meet(None, None), "192.0.2.21");
    let alone = [Node { agent: &silent, role: Role::Master, nmstate: None }];
    let made = agent_config("a", &alone, None, &[]);
    let hosts = json!([{"hostname": "n0", "role": "master", "interfaces": []}]);
    assert_eq!(made["hosts"], hosts);
    assert!(made.get("rendezvousIP").is_none() && made.get("additionalNTPSources").is_none());
}

#[test]
fn a_network_is_for_the_host_that_has_a_mac_address_of_it() {
    let cards = vec![
        card("eno1", "physical", "02:00:00:00:00:a2", &[]),
        card("port0", "physical", "02:00:00:00:00:b2", &[]),
    ];
    let agent = host("n2", cards, Disk::default());
    let of = |configs: &[NMStateConfig]| network_of(&agent, configs);
    let other = config("other", &[("eth0", "02:00:00:00:00:ff")], json!({"interfaces": []}));
    assert_eq!(of(&[]), Ok(None));
    assert_eq!(of(std::slice::from_ref(&other)), Ok(None));
    assert_eq!(network_of(&Agent::default(), &[bonded()]), Ok(None));
    let empty = config("empty", &[("eth0", "02:00:00:00:00:a2")], Value::Null);
    assert_eq!(of(std::slice::from_ref(&empty)), Ok(None));
    // One gets the name that another had; words of nmstate stay.
    let found = of(&[other, bonded()]).unwrap().unwrap();
    let interfaces = &found["interfaces"];
    let names = [&interfaces[0]["name"], &interfaces[1]["name"], &interfaces[2]["name"]];
    assert_eq!(names, ["eno1", "port0", "bond0"]);
    assert_eq!(interfaces[2]["link-aggregation"]["port"], json!(["eno1", "port0"]));
    let word = config(
        "word",
        &[("up", "02:00:00:00:00:a2")],
        json!({"interfaces": [{"name": "up", "state": "up"}]}),
    );
    let found = of(&[word]).unwrap().unwrap();
    assert_eq!(found, json!({"interfaces": [{"name": "eno1", "state": "up"}]}));
    let why = of(&[bonded(), empty]).unwrap_err();
    assert_eq!(why, "NMStateConfigs `lab/bond` and `lab/empty` are both for host `n2`");
}
