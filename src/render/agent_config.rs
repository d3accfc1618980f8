//! Renders agent-config.yaml: the hosts of a cluster as `openshift-install agent` reads them.
//! Decides nothing about hosts: their roles, disks and networks are given.

mod network;
mod problems;

use serde_json::{Map, Value, json};

use crate::model::address::{Addr, Subnet};
use crate::model::agent::inventory::{Disk, Inventory};
use crate::model::agent::{Agent, Role};

use self::network::NetworkCard;

pub use self::network::{nmstate_for_agent, nmstate_of_leases};
pub use self::problems::find_problems;

/// Networks whose addresses nobody beyond the host or its link can reach.
const LOCAL_NETWORKS: [&str; 4] = ["127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10"];

/// A host of the cluster.
pub struct Node<'a> {
    pub agent: &'a Agent,
    pub role: Role,
    /// The network configuration for nmstate. None leaves the network to DHCP.
    pub nmstate: Option<Value>,
}

/// Renders nodes-config.yaml: hosts that join an installed cluster.
pub fn nodes_config(nodes: &[Node<'_>]) -> Value {
    let hosts: Vec<Value> = nodes.iter().map(Node::render).collect();
    json!({"hosts": hosts})
}

/// Renders agent-config.yaml, masters first. `rendezvous` is the address at which the masters meet.
/// If it is not given, it is the first static address of a master, or else the first address that a
/// master has now.
pub fn agent_config(
    cluster: &str,
    nodes: &[Node<'_>],
    rendezvous: Option<&str>,
    ntp: &[String],
) -> Value {
    let mut nodes: Vec<&Node<'_>> = nodes.iter().collect();
    nodes.sort_unstable_by_key(|node| node.sort_key());
    let hosts: Vec<Value> = nodes.iter().map(|node| node.render()).collect();
    let mut document = json!({
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": cluster},
        "hosts": hosts,
    });
    if let Some(address) = rendezvous.map(str::to_owned).or_else(|| choose_rendezvous(&nodes)) {
        document["rendezvousIP"] = address.into();
    }
    if !ntp.is_empty() {
        document["additionalNTPSources"] = json!(ntp);
    }
    document
}

/// The address at which the masters meet. A static one is preferred, because the machine has it
/// after every boot.
fn choose_rendezvous(nodes: &[&Node<'_>]) -> Option<String> {
    let masters: Vec<&Node<'_>> = nodes.iter().copied().filter(|node| node.is_master()).collect();
    let static_address = masters.iter().find_map(|node| node.first_static_address());
    let address =
        static_address.or_else(|| masters.iter().find_map(|node| node.present_addresses().next()));
    address.map(|address| address.to_string())
}

impl<'a> Node<'a> {
    fn is_master(&self) -> bool {
        matches!(self.role, Role::Master | Role::Bootstrap)
    }

    /// Masters first, then by host name; the name of the Agent makes the order whole.
    fn sort_key(&self) -> (bool, &'a str, &'a str) {
        (!self.is_master(), self.agent.hostname(), self.agent.metadata.name.as_str())
    }

    fn inventory(&self) -> Option<&'a Inventory> {
        self.agent.inventory()
    }

    fn first_static_address(&self) -> Option<Addr> {
        let nmstate = self.nmstate.as_ref()?;
        network::static_addresses(nmstate).first().copied()
    }

    /// The addresses at which others reach the host now.
    fn present_addresses(&self) -> impl Iterator<Item = Addr> {
        let interfaces = self.inventory().into_iter().flat_map(|inventory| &inventory.interfaces);
        interfaces
            .flat_map(|interface| interface.ipv4_addresses.iter().chain(&interface.ipv6_addresses))
            .filter_map(|written| written.split('/').next()?.parse::<Addr>().ok())
            .filter(|address| !is_local(*address))
    }

    /// The addresses at which others will reach the host once it is installed, as far as they can
    /// be known: the static ones of its network configuration, or else those that it has now.
    pub fn addresses(&self) -> Vec<Addr> {
        let static_addresses =
            self.nmstate.as_ref().map(network::static_addresses).unwrap_or_default();
        if static_addresses.is_empty() {
            self.present_addresses().collect()
        } else {
            static_addresses
        }
    }

    fn installation_disk(&self) -> Option<&'a Disk> {
        let id = self.agent.status.installation_disk_id.as_str();
        self.inventory()?.disks.iter().find(|disk| !id.is_empty() && disk.id == id)
    }

    /// The host as an entry of `hosts`.
    fn render(&self) -> Value {
        let mut host = Map::new();
        host.insert("hostname".into(), self.agent.hostname().into());
        let role = if self.is_master() { "master" } else { "worker" };
        host.insert("role".into(), role.into());
        if let Some(hints) = self.installation_disk().and_then(root_device_hints) {
            host.insert("rootDeviceHints".into(), hints);
        }
        host.insert("interfaces".into(), self.render_interfaces().into());
        if let Some(nmstate) = &self.nmstate {
            host.insert("networkConfig".into(), nmstate.clone());
        }
        host.into()
    }

    /// The interfaces with the names that the network configuration uses for them, because the
    /// installer finds an interface by that name.
    fn render_interfaces(&self) -> Vec<Value> {
        let mut interfaces = Vec::new();
        for NetworkCard { name, mac } in self.inventory().map(network::cards).unwrap_or_default() {
            let nmstate = self.nmstate.as_ref();
            let configured_name =
                nmstate.and_then(|nmstate| network::find_interface_name(nmstate, &mac));
            let name = configured_name.unwrap_or(&name);
            interfaces.push(json!({"name": name, "macAddress": mac}));
        }
        interfaces
    }
}

fn is_local(address: Addr) -> bool {
    let mut networks = LOCAL_NETWORKS.iter().filter_map(|network| network.parse::<Subnet>().ok());
    networks.any(|network| network.contains(address))
}

/// The hint by which an installer finds the disk again: the most certain one that there is.
fn root_device_hints(disk: &Disk) -> Option<Value> {
    // Installers refuse paths below /dev/disk/by-id.
    let paths = [disk.by_path.as_str(), disk.path.as_str()];
    if let Some(path) = paths.into_iter().find(|path| is_device_path(path)) {
        return Some(json!({"deviceName": path}));
    }
    // A disk that a management controller reported has no path.
    for (name, value) in [("serialNumber", &disk.serial), ("wwn", &disk.wwn)] {
        if !value.is_empty() {
            return Some(json!({name: value}));
        }
    }
    // Some installers count GiB and some GB, so this is GiB, rounded down.
    let gibibytes = disk.size_bytes >> 30;
    (gibibytes > 0).then(|| json!({"minSizeGigabytes": gibibytes}))
}

/// Whether an installer accepts a path as that of a disk.
fn is_device_path(path: &str) -> bool {
    let Some(below_dev) = path.strip_prefix("/dev/") else { return false };
    let name = below_dev.strip_prefix("disk/by-path/").unwrap_or(below_dev);
    !name.is_empty() && !name.contains('/')
}
