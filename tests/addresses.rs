//! Pools of addresses: which pools are accepted, and which address each claim gets. The scenarios
//! are in tests/cases/addresses.txt, which explains its words.

use serde_json::{Value, json};

use crate::cases::{first_word, scenarios};
use crate::sandbox::{Sandbox, apply, jsonpath};

/// An entry of a pool from its short form.
fn entry(short_form: &str) -> Value {
    let mut parts = short_form.split(',');
    let range = parts.next().unwrap();
    let mut entry = match range.split_once('@') {
        Some((start, subnet)) => json!({"start": start, "subnet": subnet}),
        None => match range.split_once('-') {
            Some(("", end)) => json!({"end": end}),
            Some((start, "")) => json!({"start": start}),
            Some((start, end)) => json!({"start": start, "end": end}),
            None => json!({"subnet": range}),
        },
    };
    for part in parts {
        set_network(&mut entry, part);
    }
    entry
}

/// Sets the prefix, gateway or DNS server of a pool or an entry: `p24`, `g10.0.0.1`, `d8.8.8.8`.
fn set_network(object: &mut Value, part: &str) {
    let (kind, value) = part.split_at(1);
    match kind {
        "p" => object["prefix"] = value.parse::<i64>().unwrap().into(),
        "g" => object["gateway"] = value.into(),
        "d" => object["dnsServers"] = json!([value]),
        _ => panic!("`{part}` begins with none of p, g, d"),
    }
}

/// Plays one scenario in a state of its own. The pool is created by the first step that needs it.
struct Player<'a> {
    scenario: &'a str,
    sandbox: Sandbox,
    pool: Value,
    is_created: bool,
}

impl<'a> Player<'a> {
    fn new(scenario: &'a str) -> Self {
        let pool = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": "p"},
            "spec": {"allocationStrategy": "sequential", "namePrefix": "abcpref", "pools": []}});
        Self { scenario, sandbox: Sandbox::new(), pool, is_created: false }
    }

    fn create_pool(&mut self) {
        if !self.is_created {
            apply(&self.sandbox, &self.pool.to_string());
            self.is_created = true;
        }
    }

    /// A setting of the pool that is not created yet; `false` for a line that is a step.
    fn set_up(&mut self, verb: &str, rest: &str) -> bool {
        let spec = &mut self.pool["spec"];
        match verb {
            "random" => spec["allocationStrategy"] = "random".into(),
            "pool" => spec["pools"] = rest.split(' ').map(entry).collect(),
            "default" => {
                for part in rest.split(' ') {
                    set_network(spec, part);
                }
            }
            "pre" => {
                for pair in rest.split(' ') {
                    let (claim, address) = pair.split_once('=').unwrap();
                    spec["preAllocations"][claim] = address.into();
                }
            }
            _ => return false,
        }
        true
    }

    fn play_line(&mut self, line: &str) {
        let (verb, rest) = first_word(line);
        if self.set_up(verb, rest) {
            return;
        }
        if verb == "refused" {
            let path = self.sandbox.write_file("bad.json", &self.pool.to_string());
            self.sandbox.refused(1, &format!("apply -f {path}"), rest);
            self.is_created = true;
            return;
        }
        self.create_pool();
        match verb {
            "reserve" => drop(self.sandbox.ok(&format!("ip reserve p {rest}"))),
            "used" => {
                for (index, address) in rest.split(' ').enumerate() {
                    self.sandbox.ok(&format!("ip claim p used-{index} --address {address}"));
                }
            }
            "claim" => self.claim(rest),
            "release" => drop(self.sandbox.ok(&format!("ip release {rest}"))),
            "count" => {
                let row = self.sandbox.ok("get ippool p --no-headers -o wide");
                let columns: Vec<&str> = row.split_whitespace().rev().take(6).collect();
                let counts = [columns[5], columns[4], columns[3], columns[1]].join(" ");
                assert_eq!(counts, rest, "{}: {row}", self.scenario);
            }
            _ => panic!("{}: there is no step `{verb}`", self.scenario),
        }
    }

    /// `NAME [ADDRESS] => ADDRESS [PREFIX GATEWAY DNS]`, or `NAME [ADDRESS] => ! MESSAGE`.
    fn claim(&self, line: &str) {
        let (request, expected) = line.split_once(" => ").unwrap();
        let (claim, address) = first_word(request);
        let scenario = self.scenario;
        // Claims are applied: their names have capitals, which the command line refuses.
        let mut document = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim",
            "metadata": {"name": claim}, "spec": {"pool": {"name": "p"}}});
        if !address.is_empty() {
            document["metadata"]["annotations"] = json!({"ipAddress": address});
        }
        apply(&self.sandbox, &document.to_string());
        let status = jsonpath(&self.sandbox, &format!("ipclaim/{claim}"), "{.status}");
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        if let Some(message) = expected.strip_prefix("! ") {
            assert_eq!(status["errorMessage"], message, "{scenario}: {claim}");
            self.sandbox.ok(&format!("delete ipclaim {claim}"));
            return;
        }
        let lease_name = status["address"]["name"].as_str();
        let lease_name = lease_name.unwrap_or_else(|| panic!("{scenario}: {status}"));
        let lease = jsonpath(&self.sandbox, &format!("ipaddress/{lease_name}"), "{.spec}");
        let lease: Value = serde_json::from_str(&lease).unwrap();
        let address = lease["address"].as_str().unwrap();
        if !expected.contains(' ') {
            assert_eq!(address, expected, "{scenario}: {claim}");
            return;
        }
        let prefix = lease["prefix"].as_i64().map(|prefix| prefix.to_string()).unwrap_or_default();
        let gateway = lease["gateway"].as_str().unwrap_or_default();
        let dns_server = lease["dnsServers"][0].as_str().unwrap_or_default();
        let network = [address, &prefix, gateway, dns_server].join(" ");
        assert_eq!(network, expected, "{scenario}: {claim}");
    }
}

#[test]
fn addresses_are_leased_as_the_scenarios_say() {
    let scenarios = scenarios(include_str!("cases/addresses.txt"));
    for scenario in &scenarios {
        let mut player = Player::new(scenario.name);
        for line in &scenario.lines {
            player.play_line(line);
        }
        player.create_pool();
        let doctor = player.sandbox.run("doctor");
        let is_refused = !player.sandbox.state().exists();
        assert!(doctor.code == 0 || is_refused, "{}: {}", scenario.name, doctor.out);
    }
    assert!(scenarios.len() > 40, "{}", scenarios.len());
}

/// What `ip who` says of the addresses of the test below.
fn holders(sandbox: &Sandbox) -> String {
    let addresses = ["10.1.0.1", "10.2.0.1", "10.2.0.2", "10.2.0.3", "10.3.0.1"];
    addresses.map(|address| sandbox.ok(&format!("ip who {address}"))).concat()
}

#[test]
fn who_had_an_address_and_how_long_it_rests_is_moved_too() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("ippool create gone --range 10.3.0.1");
    sandbox.ok("ippool create rests --range 10.1.0.1 --reuse-delay 5m");
    let range = "--range 10.2.0.1-10.2.0.3";
    sandbox.ok(&format!("ippool create old {range} --allocation least-recently-used"));
    sandbox.ok("ip claim gone d");
    sandbox.ok("ip claim rests a");
    sandbox.ok("ip claim old b --count 3");
    // Not in the order of the addresses, so that the order can only come from the history.
    for (minute, claim) in [(1, "b-1"), (2, "b-0"), (3, "d"), (4, "a"), (5, "b-2")] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T12:0{minute}:00Z"));
        sandbox.ok(&format!("ip release {claim}"));
    }
    sandbox.ok("delete ippool gone");
    sandbox.ok("ip claim old c");
    let export = sandbox.ok("export");
    let holders = holders(&sandbox);
    assert!(export.contains("history") && holders.contains("12:03:00Z"), "{export}{holders}");
    let file = sandbox.write_file("moved.yaml", &export);
    let state = sandbox.path().join("moved.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    sandbox.ok(&format!("import {file}"));
    assert_eq!(self::holders(&sandbox), holders);
    assert_eq!(sandbox.ok("export"), export);
    assert!(!sandbox.ok("get ippool -o yaml").contains("history"));
    // Too early, then the one that was released first, then the rested one.
    sandbox.refused(6, "ip claim rests e", "again at 2026-03-02T12:09:00Z");
    assert_eq!(sandbox.ok("ip claim old e"), "10.2.0.1\n");
    sandbox.ok("doctor");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:09:00Z");
    assert_eq!(sandbox.ok("ip claim rests f"), "10.1.0.1\n");
}

#[test]
fn an_address_that_is_asked_for_rests_like_any_other() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.1-10.0.0.2 --reuse-delay 5m");
    sandbox.ok("ip claim p a --address 10.0.0.2");
    sandbox.ok("ip release a");
    let claim = "ip claim p b --address 10.0.0.2";
    sandbox.refused(6, claim, "again at 2026-03-02T12:05:00Z");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:05:00Z");
    assert_eq!(sandbox.ok(claim), "10.0.0.2\n");
}

#[test]
fn a_rehearsed_clock_goes_to_the_end_of_the_first_rest() {
    let mut sandbox = Sandbox::new();
    let options = "--range 10.0.0.1-10.0.0.2 --reuse-delay 5m --allocation sequential";
    sandbox.ok(&format!("ippool create p {options}"));
    sandbox.ok("ip claim p a --count 2");
    let claim = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim",
        "metadata": {"name": "b"}, "spec": {"pool": {"name": "p"}}});
    apply(&sandbox, &claim.to_string());
    sandbox.ok("ip release a-1");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:02:00Z");
    sandbox.ok("ip release a-0");
    let message = jsonpath(&sandbox, "ipclaim/b", "{.status.errorMessage}");
    let expected = "10.0.0.2 was just released and can be leased again at 2026-03-02T12:05:00Z";
    assert_eq!(message.trim(), expected);
    sandbox.ok("wait ipclaim/b --for=jsonpath={.status.address.name}=p-10-0-0-2 --timeout=1h");
    let since = sandbox.ok("ip who 10.0.0.2 -o jsonpath={.items[0].since}");
    assert_eq!(since.trim(), "2026-03-02T12:05:00Z");
}

#[test]
fn what_an_overlapping_pool_leases_meanwhile_is_nobody_elses_and_free_again_afterwards() {
    for strategy in ["sequential", "random", "least-recently-used"] {
        let mut sandbox = Sandbox::new();
        for pool in ["a", "b"] {
            let annotations = json!({"poolctl.dev/allow-overlap": "true", "poolctl.dev/reuse-delay": "1s",
                "poolctl.dev/allocation": strategy});
            let pool = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
                "metadata": {"name": pool, "annotations": annotations},
                "spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.1"}]}});
            apply(&sandbox, &pool.to_string());
        }
        sandbox.ok("ip claim a x");
        sandbox.ok("ip release x");
        sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:01:00Z");
        sandbox.ok("ip claim b y");
        sandbox.refused(6, "ip claim a z", "Exhausted IP Pools");
        assert_eq!(jsonpath(&sandbox, "ippool/a", "{.status.ipAddresses.free}").trim(), "0");
        sandbox.ok("ip release y");
        assert_eq!(sandbox.ok("ip claim a z"), "10.0.0.1\n", "{strategy}");
    }
}

#[test]
fn released_addresses_that_were_reserved_since_hide_no_others() {
    for strategy in ["sequential", "random", "least-recently-used"] {
        let mut sandbox = Sandbox::new();
        let range = "--range 10.0.0.1-10.0.0.3";
        sandbox.ok(&format!("ippool create p {range} --allocation {strategy} --reuse-delay 1s"));
        sandbox.ok("ip claim p a --count 3");
        sandbox.ok("ip release a-0 a-1 a-2");
        sandbox.ok("ip reserve p 10.0.0.1-10.0.0.2");
        sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:01:00Z");
        assert_eq!(sandbox.ok("ip claim p b"), "10.0.0.3\n", "{strategy}");
        sandbox.ok("doctor");
    }
}

#[test]
fn rested_addresses_are_drawn_as_often_as_others_and_all_of_them() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.1-10.0.0.200 --reuse-delay 1s");
    let leases = sandbox.ok("ip claim p a --count 100");
    let claims: Vec<String> = (0..100).map(|number| format!("a-{number}")).collect();
    sandbox.ok(&format!("ip release {}", claims.join(" ")));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:01:00Z");
    let drawn: Vec<String> =
        (0..20).map(|number| sandbox.ok(&format!("ip claim p b{number}"))).collect();
    let released: Vec<&str> = leases.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let rested = drawn.iter().filter(|address| released.contains(&address.trim())).count();
    // Half of the addresses have rested. The seed is fixed, so this never fails by chance.
    assert!((3..=17).contains(&rested), "{rested} of {drawn:?}");
    sandbox.ok("ip claim p c --count 180");
    sandbox.refused(6, "ip claim p d", "Exhausted IP Pools");
    sandbox.ok("doctor");
}

#[test]
fn a_pool_that_forgets_when_addresses_were_released_leases_them_again() {
    for (strategy, change) in [("sequential", "-"), ("sequential", "=0"), ("random", "-")] {
        let sandbox = Sandbox::new();
        let range = "--range 10.0.0.1-10.0.0.2";
        sandbox.ok(&format!("ippool create p {range} --allocation {strategy} --reuse-delay 5m"));
        sandbox.ok("ip claim p a --count 2");
        sandbox.ok("ip release a-0 a-1");
        assert_eq!(sandbox.run("ip claim p b").code, 6);
        sandbox.ok(&format!("annotate ippool/p poolctl.dev/reuse-delay{change} --overwrite"));
        sandbox.ok("doctor");
        sandbox.ok("ip claim p b --count 2");
        sandbox.ok("doctor");
    }
}

/// A simulated pool on a platform whose clusters have addresses of their own.
const VSPHERE: &str = r#"
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp}
spec: {releaseImage: "example.com/ocp:4.18.3-x86_64"}
---
apiVersion: v1
kind: Secret
metadata: {name: vsphere}
stringData: {username: a, password: b}
---
apiVersion: hive.openshift.io/v1
kind: ClusterPool
metadata: {name: lab, annotations: {poolctl.dev/vips-from: "vips,vips6"}}
spec:
  size: 2
  runningCount: 2
  baseDomain: example.com
  imageSetRef: {name: ocp}
  annotations: {hive.openshift.io/fake-cluster: "true"}
  platform:
    vsphere: {credentialsSecretRef: {name: vsphere}, certificatesSecretRef: {name: vsphere},
      vCenter: v.example.com, datacenter: d, defaultDatastore: s}
"#;

/// The address that a claim has.
fn leased_address(sandbox: &Sandbox, claim: &str) -> Value {
    let name = jsonpath(sandbox, &format!("ipclaim/{claim}"), "{.status.address.name}");
    jsonpath(sandbox, &format!("ipaddress/{}", name.trim()), "{.spec.address}").into()
}

#[test]
fn clusters_have_the_addresses_of_their_api_and_ingress_from_pools() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create vips --allocation sequential --range 10.50.0.10-10.50.0.15");
    sandbox.ok("ippool create vips6 --allocation sequential --range fd00:50::10-fd00:50::ff");
    apply(&sandbox, VSPHERE);
    sandbox.ok("reconcile --wait -q");
    let name_lines = sandbox.ok("get cluster -o name").replace("cluster/", "");
    let names: Vec<&str> = name_lines.lines().collect();
    assert_eq!(names.len(), 2);
    for name in &names {
        let extracted =
            sandbox.ok(&format!("extract secret/{name}-install-config -n {name} --to=-"));
        let start = extracted.find("apiVersion").unwrap();
        let install_config = poolctl::yaml::parse_value(&extracted[start..]).unwrap();
        for (role, field) in [("api", "apiVIPs"), ("ingress", "ingressVIPs")] {
            let vips = install_config["platform"]["vsphere"][field].as_array().unwrap();
            let leased = ["vips", "vips6"]
                .map(|pool| leased_address(&sandbox, &format!("{name}-{role}-{pool}")));
            assert_eq!(*vips, leased, "{install_config}");
        }
    }
    // The names that a list of addresses has are found, also those below a wildcard.
    for host in ["api", "console.apps"] {
        let who = sandbox.ok(&format!("ip who {host}.{}.example.com", names[0]));
        assert_eq!(who.matches("10.50.0.1").count(), 1, "{who}");
        assert_eq!(who.matches("fd00:50::1").count(), 1, "{who}");
    }
    // For a fourth there is no address: it is not made, and the pool says why.
    sandbox.ok("pool scale lab --size 4 -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.ok("get cluster -o name").lines().count(), 3);
    let conditions = jsonpath(&sandbox, "pool/lab", "{.status.conditions}");
    assert!(conditions.contains("IPPool vips, api: Exhausted IP Pools"), "{conditions}");
    // They go with their cluster, and not before, also when the pool has been told otherwise.
    let release = format!("ip release {}-api-vips", names[0]);
    sandbox.refused(4, &release, "and is deleted with it");
    let claim = format!("ipclaim/{}-api-vips", names[0]);
    sandbox.ok(&format!(
        "patch {claim} -p '{{metadata: {{finalizers: null, ownerReferences: null}}}}'"
    ));
    let address = jsonpath(&sandbox, &claim, "{.status.address.name}");
    for object in [claim, format!("ipaddress/{}", address.trim())] {
        sandbox.refused(4, &format!("delete {object} -y"), "and is deleted with it");
    }
    sandbox.ok("annotate pool/lab poolctl.dev/vips-from- -q");
    sandbox.ok("pool scale lab --size 0 -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.ok("get ipaddress,ipclaim -o name"), "");
    sandbox.ok("doctor");
}

#[test]
fn a_pool_whose_addresses_rest_goes_on_when_the_first_of_them_has_rested() {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T08:00:00Z");
    sandbox.ok("ippool create lan --range 10.0.0.10-10.0.0.11 --prefix 24 --reuse-delay 5m -q");
    sandbox.ok("pool create lab --fake --size 0 -q");
    sandbox.ok("annotate pool lab poolctl.dev/vips-from=lan -q");
    sandbox.ok(
        "patch pool lab -p '{spec: {platform: {none: null, openstack: {cloud: c}}, size: 1}}' -q",
    );
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T08:02:00Z");
    sandbox.ok("reconcile -q");
    let first = sandbox.ok("get cluster -qo name");
    sandbox.ok(&format!("delete cluster {} -y -q", first.trim().trim_start_matches("cluster/")));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T08:03:00Z");
    sandbox.ok("reconcile -q");
    assert_eq!(sandbox.ok("get cluster -qo name"), "");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T08:09:00Z");
    sandbox.ok("reconcile -q");
    assert_eq!(sandbox.ok("get cluster -qo name").lines().count(), 1);
}

/// The ranges of a pool, as programs see them.
fn map_ranges(sandbox: &Sandbox, pool: &str) -> Vec<Value> {
    let map: Value =
        serde_json::from_str(&sandbox.ok(&format!("ippool map {pool} -o json"))).unwrap();
    map["items"].as_array().unwrap().clone()
}

/// Leases are read 1,024 at a time.
#[test]
fn a_map_of_many_leases_has_each_range_once_and_whole() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.0/16 --allocation sequential -q");
    sandbox.ok("ip claim lan c --count 1100 -q");
    let ranges = map_ranges(&sandbox, "lan");
    // One within the first portion, and the one after its end, which then is a lease further on.
    for index in [5, 1025] {
        let claim = ranges[index]["claim"].as_str().unwrap();
        sandbox.ok(&format!("ip release {claim} -q"));
    }
    let mut next_address = u32::from(std::net::Ipv4Addr::new(10, 0, 0, 1));
    let mut states = Vec::new();
    for range in map_ranges(&sandbox, "lan") {
        let [start, end] = ["start", "end"].map(|field| {
            let address: std::net::Ipv4Addr = range[field].as_str().unwrap().parse().unwrap();
            u32::from(address)
        });
        assert_eq!(start, next_address, "{range}");
        next_address = end + 1;
        states.push(range["state"].as_str().unwrap().to_owned());
    }
    states.sort();
    let counts: Vec<(&str, usize)> = states
        .chunk_by(|left, right| left == right)
        .map(|group| (&*group[0], group.len()))
        .collect();
    assert_eq!(counts, [("free", 3), ("leased", 1098), ("never", 1)]);
}
