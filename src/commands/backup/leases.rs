//! Leases that were made after a backup: what the state that is in place leases, and the backup
//! leases to nobody or to somebody else. They are found by comparing rows; nothing is changed.

use std::collections::HashMap;
use std::fmt;

use crate::model::address::Addr;
use crate::model::agent::{Agent, HostState};
use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::customization::{Customization, Holder};
use crate::model::host::{BareMetalHost, HOLD};
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, RESERVED};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{AgentId, HostId, Scope, State};
use crate::store::{Filter, Store};

/// All that a state leases, and to whom.
pub struct Leases {
    state: State,
    /// With their documents.
    claims: HashMap<Key, Claim>,
    addresses: Vec<IpLease>,
}

impl Leases {
    pub fn of(store: &Store) -> Result<Self, Refusal> {
        let state = store.load(&Scope::Whole, &[])?;
        let mut addresses = Vec::new();
        for pool in state.ip_pools.rows() {
            addresses.extend(store.leases_of(pool)?);
        }
        let claims = store.list::<Claim>(&Filter { whole: true, ..Filter::default() })?;
        let claims = claims.into_iter().map(|claim| (claim.key(), claim)).collect();
        Ok(Self { state, claims, addresses })
    }

    /// The host as it is in this state.
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

    fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.state.clusters.get(self.state.cluster(name)?)
    }
}

/// A lease as it is now. `before` is who has it in the backup.
pub enum Lease<'a> {
    /// A cluster of the backup that was claimed since, or whose claim was extended.
    ClaimedCluster {
        cluster: &'a Cluster,
        claim: Option<&'a Claim>,
    },
    /// A cluster that the backup does not have, and how many names its pool has drawn.
    NewCluster {
        cluster: &'a Cluster,
        claim: Option<&'a Claim>,
        names_drawn: u64,
    },
    /// A cluster of the backup that somebody has paused since.
    PausedCluster {
        cluster: &'a Cluster,
    },
    Customization {
        customization: &'a Customization,
        holder: &'a Holder,
        /// The holder, unless it was left running.
        cluster: Option<&'a Cluster>,
        before: Option<&'a str>,
    },
    Address {
        lease: &'a IpLease,
        address: Addr,
        pool: &'a IpPool,
        before: Option<&'a str>,
    },
    Host {
        host: &'a BareMetalHost,
        user: User<'a>,
        before: Option<User<'a>>,
    },
    /// A host that is bound to a cluster, or retired with one that was left running.
    Agent {
        agent: &'a Agent,
        before: Option<String>,
    },
}

/// Who uses a host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct User<'a> {
    pub kind: &'a str,
    pub name: &'a str,
}

/// Every lease that restoring the backup would lose.
pub fn made_since<'a>(now: &'a Leases, backup: &'a Leases) -> Vec<Lease<'a>> {
    let mut leases = clusters(now, backup);
    leases.extend(customizations(now, backup));
    leases.extend(addresses(now, backup));
    leases.extend(hosts(now, backup));
    leases.extend(agents(now, backup));
    leases
}

fn clusters<'a>(now: &'a Leases, backup: &'a Leases) -> Vec<Lease<'a>> {
    let mut leases = Vec::new();
    for cluster in now.state.clusters.rows() {
        let claim = cluster.claim_key().and_then(|key| now.claims.get(&key));
        match backup.cluster(&cluster.name) {
            None => {
                let pool = cluster.pool.as_deref().and_then(|key| now.state.pools.by_key(key));
                let names_drawn = pool.map_or(0, |pool| pool.status.ordinal);
                leases.push(Lease::NewCluster { cluster, claim, names_drawn });
            }
            Some(known) if cluster.claim.is_some() && cluster.claim != known.claim => {
                leases.push(Lease::ClaimedCluster { cluster, claim });
            }
            Some(_) if claim.is_some_and(|claim| is_extended(claim, backup)) => {
                leases.push(Lease::ClaimedCluster { cluster, claim });
            }
            Some(known) if cluster.paused && !known.paused => {
                leases.push(Lease::PausedCluster { cluster });
            }
            Some(_) => {}
        }
    }
    leases
}

/// Whether a claim ends later than the backup has it end, or never ends any more.
fn is_extended(claim: &Claim, backup: &Leases) -> bool {
    let Some(known) = backup.claims.get(&claim.key()) else { return false };
    let end = known.expires();
    end.is_some() && claim.expires().is_none_or(|now| Some(now) > end)
}

/// The clusters that only the backup has.
pub fn gone_since<'a>(now: &Leases, backup: &'a Leases) -> Vec<&'a Cluster> {
    let clusters = backup.state.clusters.rows();
    clusters.filter(|cluster| now.cluster(&cluster.name).is_none()).collect()
}

fn customizations<'a>(now: &'a Leases, backup: &'a Leases) -> Vec<Lease<'a>> {
    let mut leases = Vec::new();
    for customization in now.state.customizations.rows() {
        let Some(holder) = &customization.holder else { continue };
        let known = backup.state.customizations.by_key(&customization.key());
        let before = known.and_then(|known| known.holder.as_ref());
        let before = before.map(|holder| holder.cluster.as_str());
        if before != Some(holder.cluster.as_str()) {
            let cluster = now.cluster(&holder.cluster);
            leases.push(Lease::Customization { customization, holder, cluster, before });
        }
    }
    leases
}

fn addresses<'a>(now: &'a Leases, backup: &'a Leases) -> Vec<Lease<'a>> {
    let mut known = HashMap::new();
    for lease in &backup.addresses {
        known.insert((lease.namespace.as_str(), lease.address), lease.claim.as_str());
    }
    let mut leases = Vec::new();
    for lease in &now.addresses {
        let before = known.get(&(lease.namespace.as_str(), lease.address)).copied();
        let pool = now.state.ip_pools.by_key(&lease.pool_key());
        let (Some(address), Some(pool)) = (lease.address, pool) else { continue };
        if before != Some(lease.claim.as_str()) {
            leases.push(Lease::Address { lease, address, pool, before });
        }
    }
    leases
}

fn hosts<'a>(now: &'a Leases, backup: &'a Leases) -> Vec<Lease<'a>> {
    let mut leases = Vec::new();
    for host in now.state.hosts.rows() {
        let Some(user) = user_of(host) else { continue };
        let known = find_host(&backup.state, host);
        let before = known.and_then(|at| backup.state.hosts.get(at)).and_then(user_of);
        if before != Some(user) {
            leases.push(Lease::Host { host, user, before });
        }
    }
    leases
}

fn agents<'a>(now: &'a Leases, backup: &'a Leases) -> Vec<Lease<'a>> {
    let mut leases = Vec::new();
    for agent in now.state.agents.rows().filter(|agent| is_leased(agent)) {
        let known: Vec<&Agent> = find_agents(&backup.state, agent)
            .into_iter()
            .filter_map(|at| backup.state.agents.get(at))
            .filter(|known| is_leased(known))
            .collect();
        if known.iter().all(|known| known.status.bound_to != agent.status.bound_to) {
            let before = known.iter().find_map(|known| known.bound_to());
            leases.push(Lease::Agent { agent, before: before.map(|cluster| cluster.name) });
        }
    }
    leases
}

fn user_of(host: &BareMetalHost) -> Option<User<'_>> {
    let user = host.spec.consumer_ref.as_ref().filter(|user| !user.name.is_empty())?;
    Some(User { kind: &user.kind, name: &user.name })
}

/// Whether a cluster has the host of an Agent, one that was left running too.
fn is_leased(agent: &Agent) -> bool {
    agent.status.bound_to.is_some() || agent.state() == HostState::DisabledUnbound
}

/// The host of the same name, else the one that is the same machine.
pub fn find_host(state: &State, host: &BareMetalHost) -> Option<HostId> {
    let same_name = state.hosts.find(&host.key());
    same_name.or_else(|| {
        let mut hosts = state.hosts.iter();
        hosts.find(|(_, known)| is_same_machine(known, host)).map(|(at, _)| at)
    })
}

fn is_same_machine(one: &BareMetalHost, other: &BareMetalHost) -> bool {
    let (mac, its_mac) = (&one.spec.boot_mac_address, &other.spec.boot_mac_address);
    let controller = one.address().map(|address| address.controller());
    let its_controller = other.address().map(|address| address.controller());
    let same_mac = !mac.is_empty() && mac.eq_ignore_ascii_case(its_mac);
    same_mac || (controller.is_some() && controller == its_controller)
}

/// The Agent of the same name, and all others that are the same machine.
pub fn find_agents(state: &State, agent: &Agent) -> Vec<AgentId> {
    let identities: Vec<String> = agent.identities().collect();
    let mut places = Vec::new();
    for (at, known) in state.agents.iter() {
        let mut its_identities = known.identities();
        if known.key() == agent.key() || its_identities.any(|one| identities.contains(&one)) {
            places.push(at);
        }
    }
    places
}

impl User<'_> {
    /// The cluster, if it is one.
    pub fn cluster(&self) -> Option<&str> {
        (self.kind == Kind::ClusterDeployment.name()).then_some(self.name)
    }
}

impl fmt::Display for User<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cluster() {
            Some(cluster) => write!(out, "cluster `{cluster}`"),
            None => write!(out, "{} `{}`", self.kind, self.name),
        }
    }
}

/// What is leased and to whom, as a refusal says it.
impl fmt::Display for Lease<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimedCluster { cluster, claim } => {
                write!(
                    out,
                    "cluster `{}` is claimed by {}",
                    cluster.name,
                    claimant(cluster, *claim)
                )
            }
            Self::PausedCluster { cluster } => {
                write!(out, "cluster `{}` is paused; in the backup it is not", cluster.name)
            }
            Self::NewCluster { cluster, claim, .. } => {
                let Cluster { name, cluster_name, base_domain, .. } = cluster;
                write!(
                    out,
                    "cluster `{name}`, {cluster_name}.{base_domain}, is not in the backup"
                )?;
                if cluster.claim.is_some() {
                    write!(out, "; it is claimed by {}", claimant(cluster, *claim))?;
                }
                Ok(())
            }
            Self::Customization { customization, holder, before, .. } => {
                let (key, cluster) = (customization.key(), &holder.cluster);
                write!(out, "customization `{key}` is leased to cluster `{cluster}`")?;
                in_the_backup(out, before.map(|cluster| format!("cluster `{cluster}`")))
            }
            Self::Address { lease, address, pool, before } => {
                let (key, claim) = (pool.metadata.key(), &lease.claim);
                write!(out, "address {address} of IPPool `{key}` is leased to IPClaim `{claim}`")?;
                in_the_backup(out, before.map(|claim| format!("IPClaim `{claim}`")))
            }
            Self::Host { host, user, before } => {
                write!(out, "host `{}` is used by {user}", host.key())?;
                in_the_backup(out, before.map(|user| user.to_string()))
            }
            Self::Agent { agent, before } => {
                match agent.bound_to() {
                    Some(cluster) => {
                        let (key, cluster) = (agent.key(), cluster.name);
                        write!(out, "agent `{key}` is bound to cluster `{cluster}`")?;
                    }
                    None => {
                        write!(out, "agent `{}` goes on in a cluster left running", agent.key())?;
                    }
                }
                in_the_backup(out, before.as_ref().map(|cluster| format!("cluster `{cluster}`")))
            }
        }
    }
}

fn claimant(cluster: &Cluster, claim: Option<&Claim>) -> String {
    let key = cluster.claim_key().unwrap_or_default();
    match claim.map(|claim| claim.owner.as_str()).filter(|owner| !owner.is_empty()) {
        Some(owner) => format!("`{key}` of {owner}"),
        None => format!("`{key}`"),
    }
}

fn in_the_backup(out: &mut fmt::Formatter<'_>, holder: Option<String>) -> fmt::Result {
    match holder {
        Some(holder) => write!(out, "; the backup leases it to {holder}"),
        None => Ok(()),
    }
}
