//! Reads the annotation that names the validations which a cluster ignores, and validates it. Never
//! looks at hosts.

use std::collections::{BTreeMap, BTreeSet};

use super::is_ignorable;

/// The annotation with the ids of the validations that a cluster ignores, with commas between them.
pub const IGNORED: &str = "agent-install.openshift.io/ignored-host-validations";
/// How the ids of the validations of operators end.
const OPERATOR_SUFFIX: &str = "-requirements-satisfied";
/// All validations of assisted-service, also those that are not made here.
const VALIDATION_IDS: [&str; 38] = [
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

/// The ids of the validations that a cluster with these annotations ignores; none if it has no such
/// annotation.
pub fn ignored_validations(annotations: &BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    let list = annotations.get(IGNORED)?;
    Some(split_ids(list).map(str::to_owned).collect())
}

/// The first problem of a list of ids.
pub fn problem(list: &str) -> Option<String> {
    for id in split_ids(list) {
        let is_known = VALIDATION_IDS.contains(&id) || id.ends_with(OPERATOR_SUFFIX);
        if !is_known {
            return Some(format!("annotation {IGNORED}: `{id}` is not a validation of hosts"));
        }
        if !is_ignorable(id) {
            let why = "is a validation that cannot be ignored";
            return Some(format!("annotation {IGNORED}: `{id}` {why}"));
        }
    }
    None
}

fn split_ids(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|id| !id.is_empty())
}
