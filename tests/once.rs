//! What must hold after every pass: nothing is in two clusters, and what a cluster of a pool has
//! of names, addresses and hosts it has whole.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Agents, clusters, customizations and addresses as they are now.
struct Seen(Vec<Value>);

impl Seen {
    fn of(lab: &Sandbox) -> Self {
        let kinds = "agent,cluster,cdc,ipclaim,ipaddress";
        let list: Value =
            serde_json::from_str(&lab.ok(&["get", kinds, "-A", "-o", "json"])).unwrap();
        Self(list["items"].as_array().cloned().unwrap_or_default())
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|one| one["kind"] == kind).collect()
    }

    /// What objects of a kind have at a path; those that have nothing there are left out.
    fn texts(&self, kind: &str, path: &str) -> Vec<String> {
        let text = |one: &Value| one.pointer(path)?.as_str().map(str::to_owned);
        self.of_kind(kind).into_iter().filter_map(text).collect()
    }
}

fn once(what: &str, mut all: Vec<String>) {
    let many = all.len();
    all.sort_unstable();
    let shown = all.clone();
    all.dedup();
    assert_eq!(all.len(), many, "{what} twice: {shown:?}");
}

const CUSTOMIZATION: &str = "/spec/clusterPoolRef/clusterDeploymentCustomization/name";
/// Who has it: of an Agent, of an address, of a customization.
const HELD: [(&str, &str); 3] = [
    ("Agent", "/spec/clusterDeploymentName/name"),
    ("IPClaim", "/metadata/ownerReferences/0/name"),
    ("ClusterDeploymentCustomization", "/status/clusterDeploymentRef/name"),
];

/// No machine, name, address or customization is in two clusters, whatever its Agents are called.
pub fn bound_once(lab: &Sandbox) {
    let seen = Seen::of(lab);
    let bound = |one: &&Value| one["status"]["boundTo"].is_object();
    let nics =
        seen.of_kind("Agent").into_iter().filter(bound).flat_map(|one| {
            one["status"]["inventory"]["interfaces"].as_array().into_iter().flatten()
        });
    let macs = nics.filter_map(|nic| Some(nic["macAddress"].as_str()?.to_lowercase()));
    once("a machine", macs.collect());
    let name =
        |one: &&Value| format!("{}.{}", one["spec"]["clusterName"], one["spec"]["baseDomain"]);
    once("a name", seen.of_kind("ClusterDeployment").iter().map(name).collect());
    once("an address", seen.texts("IPAddress", "/spec/address"));
    once("a claim of an address", seen.texts("IPAddress", "/spec/claim/name"));
    once("a customization", seen.texts("ClusterDeployment", CUSTOMIZATION));
    let [.., (kind, path)] = HELD;
    once("a customization for a cluster", seen.texts(kind, path));
}

/// Each cluster has so many hosts and addresses and its customization; whoever is not there has
/// nothing.
pub fn whole(lab: &Sandbox, hosts: usize, addresses: usize) {
    bound_once(lab);
    let seen = Seen::of(lab);
    let clusters = seen.texts("ClusterDeployment", "/metadata/name");
    for name in &clusters {
        let has = HELD
            .map(|(kind, path)| seen.texts(kind, path).iter().filter(|one| *one == name).count());
        assert_eq!(has, [hosts, addresses, 1], "{name}: hosts, addresses, customizations");
    }
    for (kind, path) in HELD {
        for holder in seen.texts(kind, path) {
            assert!(clusters.contains(&holder), "{kind}: {holder} is not there");
        }
    }
    let leased = seen.of_kind("IPAddress").len();
    assert_eq!(leased, clusters.len() * addresses, "addresses without a cluster");
}

/// The only cluster that there is, or nothing.
pub fn only_cluster(lab: &Sandbox) -> String {
    let all = Seen::of(lab).texts("ClusterDeployment", "/metadata/name");
    assert!(all.len() <= 1, "{all:?}");
    all.into_iter().next().unwrap_or_default()
}
