//! Finds what restoring a backup would lose: leases that the state in place has, and that the
//! backup does not have or has for another holder. Only compares; never changes anything.

use std::collections::HashMap;

use crate::model::address::Addr;
use crate::model::agent::Agent;
use crate::model::annotations::{HOLD, RESERVED};
use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::customization::Customization;
use crate::model::host::BareMetalHost;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::IpPool;
use crate::model::lease::{Holder, Lease, LeasedResource};
use crate::model::meta::Key;
use crate::model::state::{AgentId, HostId, State};

/// A whole state, together with what loading a state leaves out: the documents of claims, and all
/// leases of addresses.
pub struct Snapshot {
    pub state: State,
    claims: HashMap<Key, Claim>,
    addresses: HashMap<(String, Addr), IpLease>,
    /// The leases of addresses in the order of pools and addresses.
    leases_of_addresses: Vec<Lease>,
}

/// Something that the state in place has and the backup has not.
pub enum RestoreLoss {
    /// A lease, and the holder of its resource in the backup.
    Lease(Box<Lease>, Option<Holder>),
    /// The pause of a cluster, by its name: it was not paused when the backup was made.
    Pause(String),
}

impl Snapshot {
    /// `claims` are all claims with their documents, `addresses` all leases in the order of pools
    /// and addresses.
    pub fn new(state: State, claims: Vec<Claim>, addresses: Vec<IpLease>) -> Self {
        let leases_of_addresses = addresses.iter().filter_map(IpLease::lease).collect();
        let claims = claims.into_iter().map(|claim| (claim.key(), claim)).collect();
        let addresses = addresses.into_iter().filter_map(|lease| {
            let address = lease.address?;
            Some(((lease.address_namespace().to_owned(), address), lease))
        });
        Self { state, claims, addresses: addresses.collect(), leases_of_addresses }
    }

    /// The cluster of this name in the snapshot.
    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.state.clusters.get(self.state.find_cluster(name)?)
    }

    /// The claim with this key in the snapshot.
    pub fn claim(&self, key: &Key) -> Option<&Claim> {
        self.claims.get(key)
    }

    /// The lease of an address in the snapshot. The same address may be leased in two namespaces.
    pub fn address(&self, namespace: &str, address: Addr) -> Option<&IpLease> {
        self.addresses.get(&(namespace.to_owned(), address))
    }

    /// The host of the same name, or else the one that is the same machine.
    pub fn host(&self, host: &BareMetalHost) -> Option<&BareMetalHost> {
        self.state.hosts.get(find_host(&self.state, host)?)
    }

    /// The hosts that people hold, and the reasons that they gave.
    pub fn held_hosts(&self) -> impl Iterator<Item = (&BareMetalHost, &str)> {
        self.state.hosts.rows().filter_map(|host| Some((host, host.metadata.annotation(HOLD)?)))
    }

    /// The pools with addresses that people have reserved, and those addresses as they are written.
    pub fn reservations(&self) -> impl Iterator<Item = (&IpPool, &str)> {
        let pools = self.state.ip_pools.rows();
        pools.filter_map(|pool| Some((pool, pool.metadata.annotation(RESERVED)?)))
    }

    /// The lease of the claim that has a cluster, with its end.
    fn lease_of_cluster(&self, cluster: &Cluster) -> Option<Lease> {
        let lease = cluster.lease()?;
        let claim = cluster.claim_key().and_then(|key| self.claim(&key));
        Some(Lease { until: claim.and_then(Claim::expires_at), ..lease })
    }

    /// The lease that this snapshot has of the resource that `other_snapshot` leases. Clusters are
    /// the same if their names are, hosts and Agents if they are the same machine.
    fn find_counterpart(&self, lease: &Lease, other_snapshot: &Self) -> Option<Lease> {
        match &lease.resource {
            LeasedResource::Cluster(name) => self.lease_of_cluster(self.cluster(name)?),
            LeasedResource::DnsName(_) => {
                Some(self.cluster(lease.holder.cluster()?)?.dns_name_lease())
            }
            LeasedResource::Customization(key) => self.state.customizations.by_key(key)?.lease(),
            LeasedResource::Address { namespace, address } => {
                self.address(namespace, *address)?.lease()
            }
            LeasedResource::Host(key) => {
                self.host(other_snapshot.state.hosts.by_key(key)?)?.lease()
            }
            LeasedResource::Agent(key) => {
                let agent = other_snapshot.state.agents.by_key(key)?;
                let mut leases: Vec<Lease> = Vec::new();
                for agent_id in find_agents(&self.state, agent) {
                    leases.extend(self.state.agents.get(agent_id).and_then(Agent::lease));
                }
                let same_holder =
                    leases.iter().find(|own_lease| own_lease.holder.is_same_holder(&lease.holder));
                same_holder.or(leases.first()).cloned()
            }
        }
    }
}

/// Every lease and every pause that restoring the backup would lose.
pub fn find_losses(now: &Snapshot, backup: &Snapshot) -> Vec<RestoreLoss> {
    let mut losses = Vec::new();
    for cluster in now.state.clusters.rows() {
        losses.extend(find_loss_of_cluster(cluster, now, backup));
    }
    let customizations = now.state.customizations.rows().filter_map(Customization::lease);
    let hosts = now.state.hosts.rows().filter_map(BareMetalHost::lease);
    let agents = now.state.agents.rows().filter_map(Agent::lease);
    let addresses = now.leases_of_addresses.iter().cloned();
    for lease in customizations.chain(addresses).chain(hosts).chain(agents) {
        losses.extend(find_loss_of_lease(lease, now, backup));
    }
    losses
}

/// What would be lost of a cluster: its claim, or else its pause. If the backup does not have the
/// cluster, the lease of its name stands for all of it.
fn find_loss_of_cluster(
    cluster: &Cluster,
    now: &Snapshot,
    backup: &Snapshot,
) -> Option<RestoreLoss> {
    let Some(in_backup) = backup.cluster(&cluster.name) else {
        return Some(RestoreLoss::Lease(Box::new(cluster.dns_name_lease()), None));
    };
    let lease = now.lease_of_cluster(cluster);
    let lost_claim = lease.and_then(|lease| find_loss_of_lease(lease, now, backup));
    if lost_claim.is_none() && cluster.paused && !in_backup.paused {
        return Some(RestoreLoss::Pause(cluster.name.clone()));
    }
    lost_claim
}

/// The loss of a lease, unless the backup has the same resource for the same holder and for at
/// least as long.
fn find_loss_of_lease(lease: Lease, now: &Snapshot, backup: &Snapshot) -> Option<RestoreLoss> {
    let in_backup = backup.find_counterpart(&lease, now);
    let is_kept = in_backup.as_ref().is_some_and(|in_backup| {
        in_backup.holder.is_same_holder(&lease.holder) && ends_no_later(&lease, in_backup)
    });
    if is_kept {
        return None;
    }
    Some(RestoreLoss::Lease(Box::new(lease), in_backup.map(|in_backup| in_backup.holder)))
}

/// Whether a lease ends when it does in the backup, or earlier.
fn ends_no_later(lease: &Lease, in_backup: &Lease) -> bool {
    match (lease.until, in_backup.until) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(until), Some(until_in_backup)) => until <= until_in_backup,
    }
}

/// The clusters that only the backup has.
pub fn find_gone_clusters<'a>(now: &Snapshot, backup: &'a Snapshot) -> Vec<&'a Cluster> {
    let clusters = backup.state.clusters.rows();
    clusters.filter(|cluster| now.cluster(&cluster.name).is_none()).collect()
}

/// The host of the same name, or else the one that is the same machine.
pub fn find_host(state: &State, host: &BareMetalHost) -> Option<HostId> {
    let same_name = state.hosts.find(&host.key());
    same_name.or_else(|| {
        let mut hosts = state.hosts.iter();
        hosts.find(|(_, candidate)| is_same_machine(candidate, host)).map(|(host_id, _)| host_id)
    })
}

/// Whether two hosts boot from the same network card or have the same management controller.
fn is_same_machine(host: &BareMetalHost, candidate: &BareMetalHost) -> bool {
    let mac = &host.spec.boot_mac_address;
    let controller = host.bmc_address().map(|address| address.canonical_name());
    let same_mac = !mac.is_empty() && mac.eq_ignore_ascii_case(&candidate.spec.boot_mac_address);
    let candidates_controller = candidate.bmc_address().map(|address| address.canonical_name());
    same_mac || (controller.is_some() && controller == candidates_controller)
}

/// The Agent of the same name, and all others that are the same machine.
pub fn find_agents(state: &State, agent: &Agent) -> Vec<AgentId> {
    let identities: Vec<String> = agent.identities().collect();
    let mut agent_ids = Vec::new();
    for (agent_id, candidate) in state.agents.iter() {
        let shares_identity = candidate.identities().any(|identity| identities.contains(&identity));
        if candidate.key() == agent.key() || shares_identity {
            agent_ids.push(agent_id);
        }
    }
    agent_ids
}
