//! agent-config.yaml: the hosts of a cluster as `openshift-install agent` reads them.

mod network;
mod problems;

use serde_json::{Map, Value, json};

use crate::model::address::{Addr, Subnet};
use crate::model::agent::inventory::{Disk, Inventory};
use crate::model::agent::{Agent, Role};

pub use self::network::{network_of, of_leases};
pub use self::problems::problems;

/// Networks that end at the host, or at its cable.
const LOCAL: [&str; 4] = ["127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10"];

/// A host of the cluster.
pub struct Node<'a> {
    pub agent: &'a Agent,
    pub role: Role,
    /// How its network is to be, for nmstate; none: as DHCP says.
    pub nmstate: Option<Value>,
}

/// nodes-config.yaml: hosts that join a cluster which is there.
pub fn nodes_config(nodes: &[Node<'_>]) -> Value {
    let hosts: Vec<Value> = nodes.iter().map(Node::host).collect();
    json!({"hosts": hosts})
}

/// The document, masters first. If nobody says where the masters are to meet, it is at the first
/// static address of a master, else at the first address that a master has now.
pub fn agent_config(
    cluster: &str,
    nodes: &[Node<'_>],
    rendezvous: Option<&str>,
    ntp: &[String],
) -> Value {
    let mut nodes: Vec<&Node<'_>> = nodes.iter().collect();
    nodes.sort_by_key(|node| node.place());
    let hosts: Vec<Value> = nodes.iter().map(|node| node.host()).collect();
    let mut made = json!({
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": cluster},
        "hosts": hosts,
    });
    if let Some(address) = rendezvous.map(str::to_owned).or_else(|| meeting(&nodes)) {
        made["rendezvousIP"] = address.into();
    }
    if !ntp.is_empty() {
        made["additionalNTPSources"] = json!(ntp);
    }
    made
}

fn meeting(nodes: &[&Node<'_>]) -> Option<String> {
    let masters: Vec<&Node<'_>> = nodes.iter().copied().filter(|node| node.is_master()).collect();
    let fixed = masters.iter().find_map(|node| node.fixed());
    let found = fixed.or_else(|| masters.iter().find_map(|node| node.present().next()));
    found.map(|address| address.to_string())
}

impl<'a> Node<'a> {
    fn is_master(&self) -> bool {
        matches!(self.role, Role::Master | Role::Bootstrap)
    }

    fn place(&self) -> (bool, &'a str, &'a str) {
        (!self.is_master(), self.agent.hostname(), self.agent.metadata.name.as_str())
    }

    fn inventory(&self) -> Option<&'a Inventory> {
        self.agent.status.inventory.as_ref()
    }

    /// The first address that its network gives it.
    fn fixed(&self) -> Option<Addr> {
        let nmstate = self.nmstate.as_ref()?;
        network::addresses(nmstate).first().copied()
    }

    /// What others reach it at now.
    fn present(&self) -> impl Iterator<Item = Addr> {
        let interfaces = self.inventory().into_iter().flat_map(|one| &one.interfaces);
        let texts = interfaces.flat_map(|one| one.ipv4_addresses.iter().chain(&one.ipv6_addresses));
        let all = texts.filter_map(|text| text.split('/').next()?.parse::<Addr>().ok());
        all.filter(|address| !is_local(*address))
    }

    /// What others will reach it at, as far as anybody knows: as its network says, else as now.
    pub fn addresses(&self) -> Vec<Addr> {
        let fixed = self.nmstate.as_ref().map(network::addresses).unwrap_or_default();
        if fixed.is_empty() { self.present().collect() } else { fixed }
    }

    /// The disk that it is to be installed on.
    fn disk(&self) -> Option<&'a Disk> {
        let id = self.agent.status.installation_disk_id.as_str();
        self.inventory()?.disks.iter().find(|disk| !id.is_empty() && disk.id == id)
    }

    fn host(&self) -> Value {
        let mut made = Map::new();
        made.insert("hostname".into(), self.agent.hostname().into());
        let role = if self.is_master() { "master" } else { "worker" };
        made.insert("role".into(), role.into());
        if let Some(hints) = self.disk().and_then(hints) {
            made.insert("rootDeviceHints".into(), hints);
        }
        made.insert("interfaces".into(), self.interfaces().into());
        if let Some(nmstate) = &self.nmstate {
            made.insert("networkConfig".into(), nmstate.clone());
        }
        made.into()
    }

    /// Called as its network calls them.
    fn interfaces(&self) -> Vec<Value> {
        let cards = self.inventory().map(network::cards).unwrap_or_default();
        let interface = |card: &network::Card| {
            let said = self.nmstate.as_ref().and_then(|one| network::name_of(one, &card.mac));
            json!({"name": said.unwrap_or(&card.name), "macAddress": card.mac})
        };
        cards.iter().map(interface).collect()
    }
}

fn is_local(address: Addr) -> bool {
    let mut subnets = LOCAL.iter().filter_map(|text| text.parse::<Subnet>().ok());
    subnets.any(|subnet| subnet.contains(address))
}

/// By what an installer finds the disk again.
fn hints(disk: &Disk) -> Option<Value> {
    // Paths by id are refused.
    let paths = [disk.by_path.as_str(), disk.path.as_str()];
    if let Some(path) = paths.into_iter().find(|path| is_device(path)) {
        return Some(json!({"deviceName": path}));
    }
    // What a management controller found has no path.
    for (name, value) in [("serialNumber", &disk.serial), ("wwn", &disk.wwn)] {
        if !value.is_empty() {
            return Some(json!({name: value}));
        }
    }
    // GiB, rounded down, for some count so and some in GB.
    let least = disk.size_bytes >> 30;
    (least > 0).then(|| json!({"minSizeGigabytes": least}))
}

/// Whether an installer takes a path for that of a disk.
fn is_device(path: &str) -> bool {
    let below = path.strip_prefix("/dev/");
    let name = below.map(|below| below.strip_prefix("disk/by-path/").unwrap_or(below));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}
