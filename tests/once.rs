//! What must hold after every pass: nothing is in two clusters, and what a cluster of a pool has
//! of names, addresses and hosts it has whole.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Agents, clusters, customizations and addresses as they are now.
struct Seen(Vec<Value>);

impl Seen {
    fn of(lab: &Sandbox) -> Self {
        let kinds = "agent,cluster,cdc,ipclaim,ipaddress";
        let list: Value =
            serde_json::from_str(&lab.ok(&format!("get {kinds} -A -o json"))).unwrap();
        Self(list["items"].as_array().cloned().unwrap_or_default())
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The texts that objects of a kind have at a path; objects without one are left out.
    fn texts(&self, kind: &str, path: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for object in self.of_kind(kind) {
            texts.extend(object.pointer(path).and_then(Value::as_str).map(str::to_owned));
        }
        texts
    }
}

/// No value is there twice.
fn assert_unique(values: &[String], name: &str) {
    let unique: BTreeSet<&String> = values.iter().collect();
    assert_eq!(unique.len(), values.len(), "{name} twice: {values:?}");
}

const CUSTOMIZATION: &str = "/spec/clusterPoolRef/clusterDeploymentCustomization/name";
/// Where an Agent, an address and a customization name the cluster that has them.
const HOLDERS: [(&str, &str); 3] = [
    ("Agent", "/spec/clusterDeploymentName/name"),
    ("IPClaim", "/metadata/ownerReferences/0/name"),
    ("ClusterDeploymentCustomization", "/status/clusterDeploymentRef/name"),
];

/// No machine, name, address or customization is in two clusters, whatever its Agents are called.
pub fn assert_bound_once(lab: &Sandbox) {
    let seen = Seen::of(lab);
    let mut macs = Vec::new();
    for agent in seen.of_kind("Agent") {
        if !agent["status"]["boundTo"].is_object() {
            continue;
        }
        for nic in agent["status"]["inventory"]["interfaces"].as_array().into_iter().flatten() {
            macs.extend(nic["macAddress"].as_str().map(str::to_lowercase));
        }
    }
    assert_unique(&macs, "a machine");
    let mut names = Vec::new();
    for cluster in seen.of_kind("ClusterDeployment") {
        let spec = &cluster["spec"];
        names.push(format!("{}.{}", spec["clusterName"], spec["baseDomain"]));
    }
    assert_unique(&names, "a name");
    assert_unique(&seen.texts("IPAddress", "/spec/address"), "an address");
    assert_unique(&seen.texts("IPAddress", "/spec/claim/name"), "a claim of an address");
    assert_unique(&seen.texts("ClusterDeployment", CUSTOMIZATION), "a customization");
    let [.., (kind, path)] = HOLDERS;
    assert_unique(&seen.texts(kind, path), "a customization for a cluster");
}

/// Each cluster has so many hosts and addresses, and its customization. Nothing is held by a
/// cluster that does not exist.
pub fn assert_clusters_are_whole(lab: &Sandbox, hosts: usize, addresses: usize) {
    assert_bound_once(lab);
    let seen = Seen::of(lab);
    let clusters = seen.texts("ClusterDeployment", "/metadata/name");
    for cluster in &clusters {
        let held = HOLDERS.map(|(kind, path)| {
            seen.texts(kind, path).iter().filter(|holder| *holder == cluster).count()
        });
        assert_eq!(held, [hosts, addresses, 1], "{cluster}: hosts, addresses, customizations");
    }
    for (kind, path) in HOLDERS {
        for holder in seen.texts(kind, path) {
            assert!(clusters.contains(&holder), "{kind}: {holder} is not there");
        }
    }
    let leased = seen.of_kind("IPAddress").len();
    assert_eq!(leased, clusters.len() * addresses, "addresses without a cluster");
}

/// The name of the only cluster, or an empty text if there is none.
pub fn only_cluster(lab: &Sandbox) -> String {
    let names = Seen::of(lab).texts("ClusterDeployment", "/metadata/name");
    assert!(names.len() <= 1, "{names:?}");
    names.into_iter().next().unwrap_or_default()
}

/// Pools that are due are planned and committed in portions: none of them is left out.
#[test]
fn every_pool_is_served_when_more_are_due_than_are_planned_together() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create p0 --fake --size 1 -q");
    let manifest = sandbox.ok("get pool p0 -o yaml");
    let manifests = (1..=205).map(|number| manifest.replace("p0", &format!("p{number}")));
    let file = sandbox.write_file("pools.yaml", &manifests.collect::<Vec<_>>().join("---\n"));
    sandbox.ok(&format!("apply -qf {file} --no-reconcile"));
    sandbox.ok("reconcile -q");
    assert_eq!(sandbox.ok("get cluster -qo name").lines().count(), 206);
    let ran = sandbox.run("plan");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}
