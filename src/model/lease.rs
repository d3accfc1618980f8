//! Leases: what poolctl lends, and to whom. A lease is kept with the row of what is lent, one column
//! or one row each, so that the database refuses a second holder; here all of them look alike. Nothing
//! is concluded from how an object is called.

use std::fmt;

use super::address::Addr;
use super::kinds::Kind;
use super::meta::{Key, Meta, OwnerReference};
use super::time::Time;

/// The finalizer of an IPClaim whose address goes with a cluster, and not before.
pub const WITH_CLUSTER: &str = "poolctl.dev/cluster";

/// What is leased. It has one holder at most.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A cluster, which somebody claims.
    Cluster(String),
    /// A name in DNS, `NAME.DOMAIN`.
    DnsName(String),
    Customization(Key),
    Address {
        namespace: String,
        address: Addr,
    },
    /// A BareMetalHost.
    Host(Key),
    Agent(Key),
}

/// Who has what is leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Cluster(ClusterHolder),
    /// A cluster that was left running. Nobody knows its name any more.
    ForgottenCluster,
    /// A ClusterClaim or an IPClaim, after the resource.
    Claim(Key),
    /// An object of another program.
    Foreign {
        kind: String,
        name: String,
    },
}

/// That somebody has a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub resource: Resource,
    pub holder: Holder,
    /// When it ends by itself.
    pub until: Option<Time>,
    /// Whether a person gave it, instead of a pass.
    pub by_hand: bool,
}

impl Lease {
    /// Without an end, given by a pass.
    pub fn new(resource: Resource, holder: Holder) -> Self {
        Self { resource, holder, until: None, by_hand: false }
    }
}

impl Holder {
    /// The cluster, if one has it for itself or for one of its hosts.
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::Cluster(holder) => Some(&holder.cluster),
            Self::ForgottenCluster | Self::Claim(_) | Self::Foreign { .. } => None,
        }
    }

    /// Whether it is the same one, whatever became of it.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cluster(holder), Self::Cluster(other)) => {
                holder.cluster == other.cluster && holder.agent == other.agent
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(holder) => write!(out, "cluster `{}`", holder.cluster),
            Self::ForgottenCluster => out.write_str("a cluster left running"),
            Self::Claim(key) => write!(out, "`{key}`"),
            Self::Foreign { kind, name } => write!(out, "{kind} `{name}`"),
        }
    }
}

/// A cluster that has something leased, for itself or for one of its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterHolder {
    pub cluster: String,
    /// The host of the cluster that has it, by the name of its Agent.
    pub agent: Option<String>,
    /// The cluster's pool, where that is kept with the lease.
    pub pool: Option<Key>,
    /// The cluster's object is gone, but the cluster runs on (preserveOnDelete).
    pub preserved: bool,
}

impl ClusterHolder {
    pub fn new(cluster: impl Into<String>) -> Self {
        Self { cluster: cluster.into(), ..Self::default() }
    }

    /// Takes the holder out of a claim's metadata as it is on the wire: the finalizer says that the
    /// claim goes with a cluster, the owners say with which and for which of its hosts.
    pub fn take_from(claim: &mut Meta) -> Option<Self> {
        if !claim.finalizers.iter().any(|finalizer| finalizer == WITH_CLUSTER) {
            return None;
        }
        let cluster = owner_of_kind(claim, Kind::ClusterDeployment)?;
        let agent = owner_of_kind(claim, Kind::Agent);
        Self::remove_from(claim);
        Some(Self { agent, ..Self::new(cluster) })
    }

    /// Removes from a claim's metadata all that could name a holder.
    pub fn remove_from(claim: &mut Meta) {
        let kinds = [Kind::ClusterDeployment.name(), Kind::Agent.name()];
        claim.finalizers.retain(|finalizer| finalizer != WITH_CLUSTER);
        claim.owner_references.retain(|owner| !kinds.contains(&owner.kind.as_str()));
    }

    /// Writes the holder into a claim's metadata as it is on the wire.
    pub fn write_to(&self, claim: &mut Meta) {
        claim.finalizers.insert(0, WITH_CLUSTER.into());
        claim.owner_references.splice(0..0, self.owner_references());
    }

    /// The cluster, and the host if it is for one.
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        let mut owners = vec![owner_reference(Kind::ClusterDeployment, &self.cluster)];
        owners.extend(self.agent.as_ref().map(|agent| owner_reference(Kind::Agent, agent)));
        owners
    }
}

fn owner_of_kind(claim: &Meta, kind: Kind) -> Option<String> {
    let owner = claim.owner_references.iter().find(|owner| owner.kind == kind.name())?;
    Some(owner.name.clone())
}

/// An owner of a claim or an address, without its uid: names are unique where leases are.
pub fn owner_reference(kind: Kind, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version().into(),
        kind: kind.name().into(),
        name: name.into(),
        ..OwnerReference::default()
    }
}
