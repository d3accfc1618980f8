//! Pools of addresses: what is accepted, who gets which, in one process as the commands do it.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, apply, jsonpath};

/// An entry of a pool from its short form.
fn entry(text: &str) -> Value {
    let mut parts = text.split(',');
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
    parts.for_each(|part| set(&mut entry, part));
    entry
}

fn set(to: &mut Value, part: &str) {
    let (kind, value) = part.split_at(1);
    match kind {
        "p" => to["prefix"] = value.parse::<i64>().unwrap().into(),
        "g" => to["gateway"] = value.into(),
        "d" => to["dnsServers"] = json!([value]),
        other => panic!("{other}"),
    }
}

struct Case<'a> {
    name: &'a str,
    sandbox: Sandbox,
    pool: Value,
    made: bool,
}

impl<'a> Case<'a> {
    fn new(name: &'a str) -> Self {
        let pool = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": "p"},
            "spec": {"allocationStrategy": "sequential", "namePrefix": "abcpref", "pools": []}});
        Self { name, sandbox: Sandbox::new(), pool, made: false }
    }

    fn make(&mut self) {
        if !self.made {
            apply(&self.sandbox, &self.pool.to_string());
            self.made = true;
        }
    }

    fn step(&mut self, line: &str) {
        let name = self.name;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "random" => self.pool["spec"]["allocationStrategy"] = "random".into(),
            "pool" => self.pool["spec"]["pools"] = rest.split(' ').map(entry).collect(),
            "default" => rest.split(' ').for_each(|part| set(&mut self.pool["spec"], part)),
            "pre" => {
                for (claim, address) in rest.split(' ').map(|one| one.split_once('=').unwrap()) {
                    self.pool["spec"]["preAllocations"][claim] = address.into();
                }
            }
            "refused" => {
                let path = self.sandbox.file("bad.json", &self.pool.to_string());
                let ran = self.sandbox.run(&format!("apply -f {path}"));
                assert!(ran.code == 1 && ran.err.contains(rest), "{name}: {}", ran.err);
                self.made = true;
            }
            "reserve" => {
                self.make();
                self.sandbox.ok(&format!("ip reserve p {rest}"));
            }
            "used" => {
                self.make();
                for (at, address) in rest.split(' ').enumerate() {
                    let claim = format!("used-{at}");
                    self.sandbox.ok(&format!("ip claim p {claim} --address {address}"));
                }
            }
            "claim" => self.claim(rest),
            "release" => drop(self.sandbox.ok(&format!("ip release {rest}"))),
            "count" => {
                self.make();
                let row = self.sandbox.ok("get ippool p --no-headers");
                let words: Vec<&str> = row.split_whitespace().rev().take(5).collect();
                let found = [words[4], words[3], words[2], words[1]].join(" ");
                assert_eq!(found, rest, "{name}: {row}");
            }
            other => panic!("{name}: {other}"),
        }
    }

    fn claim(&mut self, text: &str) {
        self.make();
        let (asked, becomes) = text.split_once(" => ").unwrap();
        let mut words = asked.split(' ');
        // Names with capitals are those of others' manifests.
        let (claim, name) = (words.next().unwrap(), self.name);
        let mut document = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim",
            "metadata": {"name": claim}, "spec": {"pool": {"name": "p"}}});
        if let Some(address) = words.next() {
            document["metadata"]["annotations"] = json!({"ipAddress": address});
        }
        apply(&self.sandbox, &document.to_string());
        let found = jsonpath(&self.sandbox, &format!("ipclaim/{claim}"), "{.status}");
        let status: Value = serde_json::from_str(&found).unwrap_or_default();
        if let Some(why) = becomes.strip_prefix("! ") {
            assert_eq!(status["errorMessage"], why, "{name}: {claim}");
            self.sandbox.ok(&format!("delete ipclaim {claim}"));
            return;
        }
        let address =
            status["address"]["name"].as_str().unwrap_or_else(|| panic!("{name}: {status}"));
        let lease = jsonpath(&self.sandbox, &format!("ipaddress/{address}"), "{.spec}");
        let lease: Value = serde_json::from_str(&lease).unwrap();
        let dns = lease["dnsServers"][0].as_str().unwrap_or_default();
        let prefix = lease["prefix"].as_i64().map(|prefix| prefix.to_string()).unwrap_or_default();
        let gateway = lease["gateway"].as_str().unwrap_or_default();
        let found = [lease["address"].as_str().unwrap(), &prefix, gateway, dns].join(" ");
        let found = if becomes.contains(' ') { &found } else { found.split(' ').next().unwrap() };
        assert_eq!(found, becomes, "{name}: {claim}");
    }
}

#[test]
fn every_case_ends_as_it_says() {
    let text = include_str!("cases/addresses.txt");
    let mut many = 0;
    for block in text.split("\n\n").filter(|block| !block.starts_with('#')) {
        let (name, lines) = block.trim().split_once('\n').unwrap_or((block, ""));
        let mut case = Case::new(name);
        lines.lines().for_each(|line| case.step(line));
        case.make();
        let doctor = case.sandbox.run("doctor");
        assert!(doctor.code == 0 || !case.sandbox.state().exists(), "{name}: {}", doctor.out);
        many += 1;
    }
    assert!(many > 40, "{many}");
}

#[test]
fn who_had_an_address_and_how_long_it_rests_is_moved_too() {
    let mut sandbox = Sandbox::new();
    let create = ["ippool", "create"];
    sandbox.ok(&[&create[..], &["gone", "--range", "10.3.0.1"]].concat());
    sandbox.ok(&[&create[..], &["rests", "--range", "10.1.0.1", "--reuse-delay", "5m"]].concat());
    let oldest = ["old", "--range", "10.2.0.1-10.2.0.3", "--allocation", "least-recently-used"];
    sandbox.ok(&[&create[..], &oldest].concat());
    sandbox.ok("ip claim gone d");
    sandbox.ok("ip claim rests a");
    sandbox.ok("ip claim old b --count 3");
    for (minute, claim) in [(1, "b-1"), (2, "b-0"), (3, "d"), (4, "a"), (5, "b-2")] {
        sandbox.set("POOLCTL_NOW", &format!("2026-03-02T12:0{minute}:00Z"));
        sandbox.ok(&format!("ip release {claim}"));
    }
    sandbox.ok("delete ippool gone");
    sandbox.ok("ip claim old c");
    let who = |sandbox: &Sandbox| {
        let all = ["10.1.0.1", "10.2.0.1", "10.2.0.2", "10.2.0.3", "10.3.0.1"];
        all.map(|address| sandbox.ok(&format!("ip who {address}"))).concat()
    };
    let (export, before) = (sandbox.ok("export"), who(&sandbox));
    assert!(export.contains("history") && before.contains("12:03:00Z"), "{export}{before}");
    let file = sandbox.file("moved.yaml", &export);
    let state = sandbox.path().join("moved.db").display().to_string();
    sandbox.set("POOLCTL_STATE", &state);
    sandbox.ok(&format!("import {file}"));
    assert_eq!(who(&sandbox), before);
    assert_eq!(sandbox.ok("export"), export);
    assert!(!sandbox.ok("get ippool -o yaml").contains("history"));
    // Too early, then the one that was released first, then the rested one.
    let ran = sandbox.run("ip claim rests e");
    assert!(ran.code == 5 && ran.err.contains("again at 2026-03-02T12:09:00Z"), "{}", ran.err);
    assert_eq!(sandbox.ok("ip claim old e"), "10.2.0.1\n");
    sandbox.ok("doctor");
    sandbox.set("POOLCTL_NOW", "2026-03-02T12:09:00Z");
    assert_eq!(sandbox.ok("ip claim rests f"), "10.1.0.1\n");
}

#[test]
fn a_rehearsed_clock_goes_to_the_end_of_the_first_rest() {
    let mut sandbox = Sandbox::new();
    let create = ["ippool", "create", "p", "--range", "10.0.0.1-10.0.0.2", "--reuse-delay", "5m"];
    sandbox.ok(&[&create[..], &["--allocation", "sequential"]].concat());
    sandbox.ok("ip claim p a --count 2");
    let claim = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim",
        "metadata": {"name": "b"}, "spec": {"pool": {"name": "p"}}});
    apply(&sandbox, &claim.to_string());
    sandbox.ok("ip release a-1");
    sandbox.set("POOLCTL_NOW", "2026-03-02T12:02:00Z");
    sandbox.ok("ip release a-0");
    let why = jsonpath(&sandbox, "ipclaim/b", "{.status.errorMessage}");
    let says = "10.0.0.2 was just released and can be leased again at 2026-03-02T12:05:00Z";
    assert_eq!(why.trim(), says);
    let until = "--for=jsonpath={.status.address.name}=p-10-0-0-2";
    sandbox.ok(&format!("wait ipclaim/b {until} --timeout=1h"));
    let since = ["ip", "who", "10.0.0.2", "-o", "jsonpath={.items[0].since}"];
    assert_eq!(sandbox.ok(&since).trim(), "2026-03-02T12:05:00Z");
}

#[test]
fn what_an_overlapping_pool_leases_meanwhile_is_nobody_elses_and_free_again_afterwards() {
    for strategy in ["sequential", "random", "least-recently-used"] {
        let mut sandbox = Sandbox::new();
        for pool in ["a", "b"] {
            let notes = json!({"poolctl.dev/allow-overlap": "true", "poolctl.dev/reuse-delay": "1s",
                "poolctl.dev/allocation": strategy});
            let pool = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
                "metadata": {"name": pool, "annotations": notes},
                "spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.1"}]}});
            apply(&sandbox, &pool.to_string());
        }
        sandbox.ok("ip claim a x");
        sandbox.ok("ip release x");
        sandbox.set("POOLCTL_NOW", "2026-03-02T12:01:00Z");
        sandbox.ok("ip claim b y");
        let ran = sandbox.run("ip claim a z");
        assert!(ran.code == 6 && ran.err.contains("Exhausted IP Pools"), "{strategy}: {}", ran.err);
        assert_eq!(jsonpath(&sandbox, "ippool/a", "{.status.ipAddresses.free}").trim(), "0");
        sandbox.ok("ip release y");
        assert_eq!(sandbox.ok("ip claim a z"), "10.0.0.1\n", "{strategy}");
    }
}

#[test]
fn released_addresses_that_were_reserved_since_hide_no_others() {
    for strategy in ["sequential", "random", "least-recently-used"] {
        let mut sandbox = Sandbox::new();
        let create = ["ippool", "create", "p", "--range", "10.0.0.1-10.0.0.3", "--allocation"];
        sandbox.ok(&[&create[..], &[strategy, "--reuse-delay", "1s"]].concat());
        sandbox.ok("ip claim p a --count 3");
        sandbox.ok("ip release a-0 a-1 a-2");
        sandbox.ok("ip reserve p 10.0.0.1-10.0.0.2");
        sandbox.set("POOLCTL_NOW", "2026-03-02T12:01:00Z");
        assert_eq!(sandbox.ok("ip claim p b"), "10.0.0.3\n", "{strategy}");
        sandbox.ok("doctor");
    }
}

#[test]
fn rested_addresses_are_drawn_as_often_as_others_and_all_of_them() {
    let mut sandbox = Sandbox::new();
    let create = ["ippool", "create", "p", "--range", "10.0.0.1-10.0.0.200", "--reuse-delay", "1s"];
    sandbox.ok(&create);
    let first = sandbox.ok("ip claim p a --count 100");
    let names: Vec<String> = (0..100).map(|at| format!("a-{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    sandbox.ok(&[&["ip", "release"][..], &names].concat());
    sandbox.set("POOLCTL_NOW", "2026-03-02T12:01:00Z");
    let drawn: Vec<String> = (0..20).map(|at| sandbox.ok(&format!("ip claim p b{at}"))).collect();
    let before: Vec<&str> = first.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let rested = drawn.iter().filter(|one| before.contains(&one.trim())).count();
    assert!((3..=17).contains(&rested), "{rested} of {drawn:?}");
    sandbox.ok("ip claim p c --count 180");
    let ran = sandbox.run("ip claim p d");
    assert!(ran.code == 6 && ran.err.contains("Exhausted IP Pools"), "{}", ran.err);
    sandbox.ok("doctor");
}

#[test]
fn a_pool_that_forgets_when_addresses_were_released_leases_them_again() {
    for (strategy, note) in [("sequential", "-"), ("sequential", "=0"), ("random", "-")] {
        let sandbox = Sandbox::new();
        let create = ["ippool", "create", "p", "--range", "10.0.0.1-10.0.0.2", "--allocation"];
        sandbox.ok(&[&create[..], &[strategy, "--reuse-delay", "5m"]].concat());
        sandbox.ok("ip claim p a --count 2");
        sandbox.ok("ip release a-0 a-1");
        assert_eq!(sandbox.run("ip claim p b").code, 5);
        let edit = format!("poolctl.dev/reuse-delay{note}");
        sandbox.ok(&["annotate", "ippool/p", &edit, "--overwrite"]);
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

#[test]
fn clusters_have_the_addresses_of_their_api_and_ingress_from_pools() {
    let sandbox = Sandbox::new();
    let create = ["ippool", "create", "vips", "--allocation", "sequential", "--range"];
    sandbox.ok(&[&create[..], &["10.50.0.10-10.50.0.15"]].concat());
    let six = ["ippool", "create", "vips6", "--allocation", "sequential", "--range"];
    sandbox.ok(&[&six[..], &["fd00:50::10-fd00:50::ff"]].concat());
    apply(&sandbox, VSPHERE);
    sandbox.ok("reconcile --wait -q");
    let names = sandbox.ok("get cluster -o name").replace("cluster/", "");
    let names: Vec<&str> = names.lines().collect();
    assert_eq!(names.len(), 2);
    for name in &names {
        let secret = format!("secret/{name}-install-config");
        let config = sandbox.ok(&format!("extract {secret} -n {name} --to=-"));
        let config = &config[config.find("apiVersion").unwrap()..];
        let config = poolctl::yaml::value(config).unwrap();
        for (role, field) in [("api", "apiVIPs"), ("ingress", "ingressVIPs")] {
            let found = config["platform"]["vsphere"][field].as_array().unwrap().clone();
            let leased = |pool: &str| {
                let claim = format!("ipclaim/{name}-{role}-{pool}");
                let lease = jsonpath(&sandbox, &claim, "{.status.address.name}");
                let lease = format!("ipaddress/{}", lease.trim());
                Value::from(jsonpath(&sandbox, &lease, "{.spec.address}"))
            };
            assert_eq!(found, [leased("vips"), leased("vips6")], "{config}");
        }
    }
    // For a fourth there is no address: it is not made, and the pool says why.
    sandbox.ok("pool scale lab --size 4 -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.ok("get cluster -o name").lines().count(), 3);
    let conditions = jsonpath(&sandbox, "pool/lab", "{.status.conditions}");
    assert!(conditions.contains("IPPool vips, api: Exhausted IP Pools"), "{conditions}");
    // They go with their cluster, and not before, also when the pool has been told otherwise.
    let ran = sandbox.run(&["ip", "release", &format!("{}-api-vips", names[0])]);
    assert!(ran.code == 4 && ran.err.contains("and goes with it"), "{}", ran.err);
    let claim = format!("ipclaim/{}-api-vips", names[0]);
    let edit = "{\"metadata\": {\"finalizers\": null, \"ownerReferences\": null}}";
    sandbox.ok(&["patch", &claim, "-p", edit]);
    let lease = jsonpath(&sandbox, &claim, "{.status.address.name}");
    for what in [claim, format!("ipaddress/{}", lease.trim())] {
        let ran = sandbox.run(&["delete", &what, "-y"]);
        assert!(ran.code == 4 && ran.err.contains("and goes with it"), "{what}: {}", ran.err);
    }
    sandbox.ok("annotate pool/lab poolctl.dev/vips-from- -q");
    sandbox.ok("pool scale lab --size 0 -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.ok("get ipaddress,ipclaim -o name"), "");
    sandbox.ok("doctor");
}
