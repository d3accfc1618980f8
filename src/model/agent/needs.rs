//! What a cluster needs of its hosts, read from what it is made of.

use std::collections::BTreeSet;

use crate::model::address::Subnet;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Replicas of the control plane, if it says.
    pub masters: Option<u64>,
    /// Replicas of workers, if it says.
    pub workers: Option<u64>,
    /// Networks that every host is part of.
    pub machine_networks: Vec<Subnet>,
    /// Addresses of API and ingress are given.
    pub has_vips: bool,
    /// Somebody else looks after its networks: platform none or external.
    pub user_managed: bool,
    /// baremetal, none, vsphere, ...
    pub platform: String,
    /// Validations that do not count for its hosts.
    pub ignored: Option<BTreeSet<String>>,
    /// Of its release image, as far as its tag says.
    pub version: Option<(u64, u64)>,
    /// It is installed: hosts are added.
    pub day2: bool,
}

impl Needs {
    /// A single node.
    pub fn is_sno(&self) -> bool {
        self.masters == Some(1) && self.workers.unwrap_or_default() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_node_has_one_master_and_no_worker() {
        for (masters, workers, sno) in [
            (Some(1), None, true),
            (Some(1), Some(0), true),
            (Some(1), Some(2), false),
            (Some(3), Some(2), false),
            (None, Some(2), false),
        ] {
            let needs = Needs { masters, workers, ..Needs::default() };
            assert_eq!(needs.is_sno(), sno, "{needs:?}");
        }
    }
}
