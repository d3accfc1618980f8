//! What a cluster needs of its hosts. It is read elsewhere, from the cluster's install-config and
//! annotations; here it is only held.

use std::collections::BTreeSet;

use crate::model::address::Subnet;

use super::Role;

/// Whether a cluster has one node or several. A single node needs more hardware, and more time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    SingleNode,
    MultiNode,
}

/// The role of a host in a cluster, and the cluster's topology: both say what hardware it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRole {
    pub role: Role,
    pub topology: Topology,
}

impl NodeRole {
    /// The only node of its cluster, which is a master.
    pub const SINGLE_NODE: Self = Self { role: Role::Master, topology: Topology::SingleNode };

    /// A role in a cluster of several nodes.
    pub const fn multi_node(role: Role) -> Self {
        Self { role, topology: Topology::MultiNode }
    }

    /// Whether the cluster has one node that is control plane and worker in one.
    pub fn is_single_node(self) -> bool {
        self.topology == Topology::SingleNode
    }
}

/// Whose load balancer a cluster has in front of its API and ingress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadBalancer {
    /// The cluster's own: every host needs an address in each network of the machines.
    #[default]
    ClusterManaged,
    /// Somebody else's, which may reach each host in another of these networks.
    UserManaged,
}

/// What a host is checked against before it is installed for a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostNeeds {
    /// `controlPlane.replicas` of the install-config, if it is given.
    pub masters: Option<u64>,
    /// `compute.replicas` of the install-config, if it is given.
    pub workers: Option<u64>,
    /// Networks in which every host needs an address: in each, or with a load balancer of somebody
    /// else in one of them.
    pub machine_networks: Vec<Subnet>,
    pub load_balancer: LoadBalancer,
    /// Its domain: `CLUSTER.BASEDOMAIN`.
    pub domain: String,
    /// The registry of its release image, if its name is in DNS.
    pub release_host: String,
    /// Whether the addresses of API and ingress are given.
    pub has_vips: bool,
    /// Whether somebody else manages the cluster's networks: platform none or external.
    pub user_managed: bool,
    /// The platform as the install-config names it: baremetal, none, vsphere, ...
    pub platform: String,
    /// Ids of validations that do not keep its hosts from being installed.
    pub ignored: Option<BTreeSet<String>>,
    /// Major and minor version of its release, if the tag of its image says them.
    pub version: Option<(u64, u64)>,
    /// The label of hosts over whose values the masters are spread.
    pub spread_by: Option<String>,
    /// Whether the cluster is installed, so that its hosts are added to it.
    pub day2: bool,
}

impl HostNeeds {
    /// Whether the cluster has a single node, which is a master.
    pub fn is_single_node(&self) -> bool {
        self.masters == Some(1) && self.workers.unwrap_or_default() == 0
    }

    /// The topology for which the needs of hosts are looked up.
    pub fn topology(&self) -> Topology {
        if self.is_single_node() { Topology::SingleNode } else { Topology::MultiNode }
    }

    /// The role of a host in this cluster.
    pub fn node_role(&self, role: Role) -> NodeRole {
        NodeRole { role, topology: self.topology() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_node_has_one_master_and_no_worker() {
        for (masters, workers, is_single_node) in [
            (Some(1), None, true),
            (Some(1), Some(0), true),
            (Some(1), Some(2), false),
            (Some(3), Some(2), false),
            (None, Some(2), false),
        ] {
            let needs = HostNeeds { masters, workers, ..HostNeeds::default() };
            assert_eq!(needs.is_single_node(), is_single_node, "{needs:?}");
        }
    }
}
