//! Hosts whose controllers or network cards were exchanged after a backup was made: no two hosts of
//! the copy may be the same machine. Never changes the state that is in place.

use std::collections::HashMap;

use crate::model::host::BareMetalHost;
use crate::model::state::{HostId, State};

use super::losses::Snapshot;

/// Gives the hosts of the copy of a backup the controllers and MACs that they have now, if two of
/// them would be the same machine otherwise. A host that is gone now loses what another host has.
pub fn settle_host_identities(state: &mut State, now: &Snapshot) {
    if find_hosts_of_same_machine(state).is_empty() {
        return;
    }
    let host_ids: Vec<HostId> = state.hosts.iter().map(|(host_id, _)| host_id).collect();
    for host_id in host_ids {
        let Some(host) = state.hosts.get(host_id) else { continue };
        let Some(host_now) = now.state.hosts.by_key(&host.key()) else { continue };
        let bmc = host_now.spec.bmc.clone();
        let boot_mac_address = host_now.spec.boot_mac_address.clone();
        state.hosts.update(host_id, |host| {
            host.spec.bmc = bmc;
            host.spec.boot_mac_address = boot_mac_address;
        });
    }
    for host_id in find_hosts_of_same_machine(state) {
        let is_gone = state
            .hosts
            .get(host_id)
            .is_some_and(|host| now.state.hosts.by_key(&host.key()).is_none());
        if is_gone {
            state.hosts.update(host_id, |host| {
                host.spec.bmc = None;
                host.spec.boot_mac_address.clear();
            });
        }
    }
}

/// The hosts that share a network card or a controller with another host.
fn find_hosts_of_same_machine(state: &State) -> Vec<HostId> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for host in state.hosts.rows() {
        for identity in identities(host) {
            *counts.entry(identity).or_default() += 1;
        }
    }
    let hosts = state.hosts.iter();
    let sharing_hosts =
        hosts.filter(|(_, host)| identities(host).iter().any(|identity| counts[identity] > 1));
    sharing_hosts.map(|(host_id, _)| host_id).collect()
}

/// The network card that a host boots from, and its controller.
fn identities(host: &BareMetalHost) -> Vec<String> {
    let mut identities = Vec::new();
    let mac = host.spec.boot_mac_address.to_lowercase();
    if !mac.is_empty() {
        identities.push(mac);
    }
    identities.extend(host.bmc_address().map(|address| address.canonical_name()));
    identities
}
