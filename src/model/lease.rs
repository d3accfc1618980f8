//! Leases: what poolctl lends, and to whom. A lease is stored with what is lent, in a column or a row
//! of its own, so that the database refuses a second holder. Here all leases have one shape. Nothing
//! is ever concluded from the name of an object.

use std::fmt;

use super::address::Addr;
use super::kinds::Kind;
use super::meta::{Key, Meta, OwnerReference};
use super::time::Time;

/// The finalizer of an IPClaim whose address is released together with a cluster, and not before.
pub const CLUSTER_FINALIZER: &str = "poolctl.dev/cluster";

/// What can be leased. A resource has one holder at most.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeasedResource {
    /// A cluster, by its name. Claims lease it.
    Cluster(String),
    /// A name in DNS, `NAME.DOMAIN`.
    DnsName(String),
    /// A ClusterDeploymentCustomization.
    Customization(Key),
    /// An address, which is leased once in each namespace.
    Address { namespace: String, address: Addr },
    /// A BareMetalHost.
    Host(Key),
    /// A host that reports itself.
    Agent(Key),
}

/// Who has leased a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A cluster, for itself or for one of its hosts.
    Cluster(ClusterHolder),
    /// A cluster that was left running and whose name is not known any more.
    ForgottenCluster,
    /// A ClusterClaim if the resource is a cluster, an IPClaim if it is an address.
    Claim(Key),
    /// An object of another program.
    Foreign { kind: String, name: String },
}

/// The fact that a holder has a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub resource: LeasedResource,
    pub holder: Holder,
    /// When it ends by itself.
    pub until: Option<Time>,
    /// Whether a person granted it, and not a pass.
    pub by_hand: bool,
}

impl Lease {
    /// A lease without an end that a pass grants.
    pub fn new(resource: LeasedResource, holder: Holder) -> Self {
        Self { resource, holder, until: None, by_hand: false }
    }
}

impl Holder {
    /// The name of the cluster that is the holder.
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::Cluster(holder) => Some(&holder.cluster),
            Self::ForgottenCluster | Self::Claim(_) | Self::Foreign { .. } => None,
        }
    }

    /// Whether both are the same holder. Clusters are compared by their names and hosts only: where
    /// a lease does not store the pool, and after the cluster was preserved, it is still the same.
    pub fn is_same_holder(&self, holder: &Self) -> bool {
        match (self, holder) {
            (Self::Cluster(left), Self::Cluster(right)) => {
                left.cluster == right.cluster && left.agent == right.agent
            }
            _ => self == holder,
        }
    }
}

/// The holder as messages name it.
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
    /// The host that it is leased for, by the name of its Agent; none if it is for the cluster.
    pub agent: Option<String>,
    /// The cluster's pool, if it is stored with the lease.
    pub pool: Option<Key>,
    /// Whether the object of the cluster is gone while the cluster runs on (preserveOnDelete).
    pub preserved: bool,
}

impl ClusterHolder {
    /// A lease that the named cluster holds, without what it is leased for.
    pub fn new(cluster: impl Into<String>) -> Self {
        Self { cluster: cluster.into(), ..Self::default() }
    }

    /// Takes the holder out of a claim's metadata as it is on the wire. The finalizer says that the
    /// claim belongs to a cluster, and the owner references say to which, and for which host.
    pub fn take_from(claim: &mut Meta) -> Option<Self> {
        if !claim.finalizers.iter().any(|finalizer| finalizer == CLUSTER_FINALIZER) {
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
        claim.finalizers.retain(|finalizer| finalizer != CLUSTER_FINALIZER);
        claim.owner_references.retain(|owner| !kinds.contains(&owner.kind.as_str()));
    }

    /// Writes the holder into a claim's metadata as it is on the wire.
    pub fn write_to(&self, claim: &mut Meta) {
        claim.finalizers.insert(0, CLUSTER_FINALIZER.into());
        claim.owner_references.splice(0..0, self.owner_references());
    }

    /// References to the cluster and, if it is for a host, to the host's Agent.
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

/// A reference to an owner of a claim or an address. It has no uid, because the owner is found by its
/// name.
pub fn owner_reference(kind: Kind, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version().into(),
        kind: kind.name().into(),
        name: name.into(),
        ..OwnerReference::default()
    }
}
