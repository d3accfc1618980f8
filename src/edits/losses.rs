//! What restoring a backup would lose: leases that the state in place has, and the backup has not or
//! has for somebody else. Finds them by comparing; changes nothing.

use std::collections::HashMap;

use crate::model::address::Addr;
use crate::model::agent::Agent;
use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::customization::Customization;
use crate::model::host::{BareMetalHost, HOLD};
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, RESERVED};
use crate::model::lease::{Holder, Lease, Resource};
use crate::model::meta::Key;
use crate::model::state::{AgentId, HostId, State};

/// A whole state with what is not loaded with it: the documents of claims, and all addresses.
pub struct Snapshot {
    pub state: State,
    claims: HashMap<Key, Claim>,
    addresses: HashMap<(String, Addr), IpLease>,
    /// The leases of addresses in the order of pools and addresses.
    leases_of_addresses: Vec<Lease>,
}

/// Something that the state in place has and the backup has not.
pub enum Loss {
    /// A lease, and who has the resource in the backup.
    Lease(Box<Lease>, Option<Holder>),
    /// Somebody has paused a cluster since.
    Pause(String),
}

impl Snapshot {
    pub fn new(state: State, claims: Vec<Claim>, addresses: Vec<IpLease>) -> Self {
        let leases_of_addresses = addresses.iter().filter_map(IpLease::lease).collect();
        let claims = claims.into_iter().map(|claim| (claim.key(), claim)).collect();
        let addresses = addresses.into_iter().filter_map(|lease| {
            let address = lease.address?;
            Some(((lease.namespace.clone(), address), lease))
        });
        Self { state, claims, addresses: addresses.collect(), leases_of_addresses }
    }

    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.state.clusters.get(self.state.cluster(name)?)
    }

    pub fn claim(&self, key: &Key) -> Option<&Claim> {
        self.claims.get(key)
    }

    pub fn address(&self, namespace: &str, address: Addr) -> Option<&IpLease> {
        self.addresses.get(&(namespace.to_owned(), address))
    }

    /// The same host, or the one that is the same machine.
    pub fn host(&self, host: &BareMetalHost) -> Option<&BareMetalHost> {
        self.state.hosts.get(find_host(&self.state, host)?)
    }

    /// The hosts that people hold, and why they do.
    pub fn held_hosts(&self) -> impl Iterator<Item = (&BareMetalHost, &str)> {
        self.state.hosts.rows().filter_map(|host| Some((host, host.metadata.annotation(HOLD)?)))
    }

    /// The pools with addresses that people have reserved, and which those are.
    pub fn reservations(&self) -> impl Iterator<Item = (&IpPool, &str)> {
        let pools = self.state.ip_pools.rows();
        pools.filter_map(|pool| Some((pool, pool.metadata.annotation(RESERVED)?)))
    }

    /// The lease of the claim that has a cluster, with its end.
    fn lease_of_cluster(&self, cluster: &Cluster) -> Option<Lease> {
        let lease = cluster.lease()?;
        let claim = cluster.claim_key().and_then(|key| self.claim(&key));
        Some(Lease { until: claim.and_then(Claim::expires), ..lease })
    }

    /// Who has in this snapshot what the other one leases. A cluster has the name that it is called
    /// by, and a host or an Agent is the machine that it is.
    fn lease_of(&self, lease: &Lease, other: &Self) -> Option<Lease> {
        match &lease.resource {
            Resource::Cluster(name) => self.lease_of_cluster(self.cluster(name)?),
            Resource::DnsName(_) => Some(self.cluster(lease.holder.cluster()?)?.lease_of_name()),
            Resource::Customization(key) => self.state.customizations.by_key(key)?.lease(),
            Resource::Address { namespace, address } => self.address(namespace, *address)?.lease(),
            Resource::Host(key) => self.host(other.state.hosts.by_key(key)?)?.lease(),
            Resource::Agent(key) => {
                let agent = other.state.agents.by_key(key)?;
                let same_machine = find_agents(&self.state, agent).into_iter();
                let agents = same_machine.filter_map(|agent_id| self.state.agents.get(agent_id));
                let leases: Vec<Lease> = agents.filter_map(Agent::lease).collect();
                let same_holder = leases.iter().find(|known| known.holder.is(&lease.holder));
                same_holder.or(leases.first()).cloned()
            }
        }
    }
}

/// Every lease that restoring the backup would lose, and every pause.
pub fn find_losses(now: &Snapshot, backup: &Snapshot) -> Vec<Loss> {
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

/// Of a cluster that the backup does not have the name stands for all.
fn find_loss_of_cluster(cluster: &Cluster, now: &Snapshot, backup: &Snapshot) -> Option<Loss> {
    let Some(cluster_before) = backup.cluster(&cluster.name) else {
        return Some(Loss::Lease(Box::new(cluster.lease_of_name()), None));
    };
    let lease = now.lease_of_cluster(cluster);
    let claimed = lease.and_then(|lease| find_loss_of_lease(lease, now, backup));
    if claimed.is_none() && cluster.paused && !cluster_before.paused {
        return Some(Loss::Pause(cluster.name.clone()));
    }
    claimed
}

fn find_loss_of_lease(lease: Lease, now: &Snapshot, backup: &Snapshot) -> Option<Loss> {
    let before = backup.lease_of(&lease, now);
    let is_kept = before
        .as_ref()
        .is_some_and(|before| before.holder.is(&lease.holder) && ends(&lease, before));
    if is_kept {
        return None;
    }
    Some(Loss::Lease(Box::new(lease), before.map(|before| before.holder)))
}

/// Whether a lease ends when the backup has it end, or before.
fn ends(lease: &Lease, before: &Lease) -> bool {
    match (lease.until, before.until) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(until), Some(until_before)) => until <= until_before,
    }
}

/// The clusters that only the backup has.
pub fn find_gone_clusters<'a>(now: &Snapshot, backup: &'a Snapshot) -> Vec<&'a Cluster> {
    let clusters = backup.state.clusters.rows();
    clusters.filter(|cluster| now.cluster(&cluster.name).is_none()).collect()
}

/// The host of the same name, else the one that is the same machine.
pub fn find_host(state: &State, host: &BareMetalHost) -> Option<HostId> {
    let same_name = state.hosts.find(&host.key());
    same_name.or_else(|| {
        let mut hosts = state.hosts.iter();
        hosts.find(|(_, candidate)| is_same_machine(candidate, host)).map(|(host_id, _)| host_id)
    })
}

fn is_same_machine(host: &BareMetalHost, candidate: &BareMetalHost) -> bool {
    let mac = &host.spec.boot_mac_address;
    let controller = host.address().map(|address| address.controller());
    let same_mac = !mac.is_empty() && mac.eq_ignore_ascii_case(&candidate.spec.boot_mac_address);
    let candidates_controller = candidate.address().map(|address| address.controller());
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
