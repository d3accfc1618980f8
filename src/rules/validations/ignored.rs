//! Which checks a cluster may do without: the annotation that names them, and what it may say.

use std::collections::{BTreeMap, BTreeSet};

use super::ignorable;

/// Checks that a cluster does without, by id.
pub const IGNORED: &str = "agent-install.openshift.io/ignored-host-validations";
/// How the ids of the checks of operators end.
const OPERATORS: &str = "-requirements-satisfied";
/// All of assisted-service, those that nothing is looked at for here too.
const KNOWN: [&str; 38] = [
    "api-domain-name-resolved-correctly",
    "api-int-domain-name-resolved-correctly",
    "apps-domain-name-resolved-correctly",
    "belongs-to-machine-cidr",
    "belongs-to-majority-group",
    "compatible-agent",
    "compatible-with-cluster-platform",
    "connected",
    "container-images-available",
    "dns-wildcard-not-configured",
    "has-cpu-cores-for-role",
    "has-default-route",
    "has-inventory",
    "has-memory-for-role",
    "has-min-cpu-cores",
    "has-min-memory",
    "has-min-valid-disks",
    "hostname-unique",
    "hostname-valid",
    "ignition-downloadable",
    "inventory-not-fully-truncated",
    "inventory-not-partially-truncated",
    "machine-cidr-defined",
    "media-connected",
    "mtu-valid",
    "no-ip-collisions-in-network",
    "no-iscsi-nic-belongs-to-machine-cidr",
    "no-skip-installation-disk",
    "no-skip-missing-disk",
    "non-overlapping-subnets",
    "ntp-synced",
    "release-domain-name-resolved-correctly",
    "sufficient-installation-disk-speed",
    "sufficient-network-latency-requirement-for-role",
    "sufficient-packet-loss-requirement-for-role",
    "time-synced-between-host-and-service",
    "valid-platform-network-settings",
    "vsphere-disk-uuid-enabled",
];

/// Checks that a cluster with these annotations does without.
pub fn ignored(annotations: &BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    Some(listed(annotations.get(IGNORED)?).map(str::to_owned).collect())
}

/// Why a list of checks cannot be meant.
pub fn problem(list: &str) -> Option<String> {
    let known = |id: &str| KNOWN.contains(&id) || id.ends_with(OPERATORS);
    listed(list).find_map(|id| {
        let why = if !known(id) {
            "is no check of hosts"
        } else if !ignorable(id) {
            "is a check that no cluster does without"
        } else {
            return None;
        };
        Some(format!("annotation {IGNORED}: `{id}` {why}"))
    })
}

fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|id| !id.is_empty())
}
