//! Kinds of other programs whose objects hold an address, a host or a cluster. poolctl keeps no
//! such object, so it cannot know what is in use because of one.

use super::cluster_api;

/// A kind, by its API group and its name on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKind {
    pub group: &'static str,
    pub kind: &'static str,
    /// What an object of this kind holds, with its article.
    pub holds: &'static str,
}

impl ForeignKind {
    /// metal3's own address, which cannot be kept without its pool.
    pub const IP_ADDRESS: Self = Self::new("ipam.metal3.io", "IPAddress", "an address");
    /// metal3's own claim, which does not say itself which address it has.
    pub const IP_CLAIM: Self = Self::new("ipam.metal3.io", "IPClaim", "an address");

    /// Cluster API's address, which is kept only if its pool is one of metal3.
    pub const CLUSTER_API_ADDRESS: Self = Self::new(cluster_api::GROUP, "IPAddress", "an address");
    /// Cluster API's claim, which is kept only if its pool is one of metal3.
    pub const CLUSTER_API_CLAIM: Self =
        Self::new(cluster_api::GROUP, cluster_api::CLAIM_KIND, "an address");
    /// metal3's pool, which is not kept if its ranges contradict each other.
    pub const IP_POOL: Self = Self::new(cluster_api::POOL_GROUP, "IPPool", "addresses");

    /// All kinds, in the order in which they are imported.
    pub const ALL: [Self; 7] = [
        Self::IP_POOL,
        Self::IP_ADDRESS,
        Self::IP_CLAIM,
        Self::CLUSTER_API_ADDRESS,
        Self::CLUSTER_API_CLAIM,
        Self::new("infrastructure.cluster.x-k8s.io", "Metal3Machine", "a host"),
        Self::new("metal3.io", "HostClaim", "a host"),
    ];

    const fn new(group: &'static str, kind: &'static str, holds: &'static str) -> Self {
        Self { group, kind, holds }
    }

    /// The kind of a manifest, or of the objects of a list, whatever its version is. Kubernetes calls
    /// the list of a kind by its name and `List`.
    pub fn from_manifest(api_version: &str, kind: &str) -> Option<Self> {
        let (group, _) = api_version.split_once('/')?;
        let listed_kind = kind.strip_suffix("List");
        Self::ALL.into_iter().find(|foreign_kind| {
            let is_named = foreign_kind.kind == kind || listed_kind == Some(foreign_kind.kind);
            foreign_kind.group == group && is_named
        })
    }

    /// `KIND.GROUP`, as kubectl writes it.
    pub fn full_name(self) -> String {
        format!("{}.{}", self.kind, self.group)
    }

    /// Whether a user means this kind: by its name alone, or with its group.
    pub fn is_named(self, word: &str) -> bool {
        word == self.kind || word == self.full_name()
    }
}
