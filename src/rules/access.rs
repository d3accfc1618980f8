//! Who may do what with somebody else's state: the one place that decides. Whoever has the
//! account that owns the state may do everything and is not asked about here; behind sudo admins
//! may do the same.

use crate::model::claim::Claim;
use crate::model::documents::{Admins, RoleBinding, Subject};
use crate::model::meta::Meta;
use crate::model::pool::{ClusterPool, PoolSpec, PoolStatus};

/// The role whose subjects see what the pools of a namespace make.
const POOL_ADMIN: &str = "hive-cluster-pool-admin";

/// Whose members are admins while the Settings name none.
const ADMIN_GROUPS: [&str; 3] = ["sudo", "wheel", "admin"];

/// Somebody behind sudo: an admin, who may do what the account may, or a guest.
#[derive(Debug, Default)]
pub struct Person {
    pub name: String,
    pub groups: Vec<String>,
}

/// What is to be done with a claim, or with a cluster of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Show it, its events, and the logs and credentials of its cluster.
    See,
    /// Release, extend, stop, start.
    Change,
}

impl Person {
    /// `admins` are those of the Settings, if they name any.
    pub fn is_admin(&self, admins: Option<&Admins>) -> bool {
        let Some(admins) = admins else {
            return self.groups.iter().any(|group| ADMIN_GROUPS.contains(&group.as_str()));
        };
        let by_group = self.groups.iter().any(|group| admins.groups.contains(group));
        by_group || admins.users.contains(&self.name)
    }

    /// What a guest may do. `claim` is the claim, or the one that has the cluster; `bindings` are
    /// those of the namespace of its pool.
    pub fn may(&self, deed: Deed, claim: Option<&Claim>, bindings: &[RoleBinding]) -> bool {
        let owns = claim.is_some_and(|claim| claim.owner == self.name);
        match deed {
            Deed::Change => owns,
            Deed::See => {
                owns || claim.is_some_and(|claim| self.shares(claim)) || self.administers(bindings)
            }
        }
    }

    /// Whether the owner of a claim has named it. Needs the claim's body.
    fn shares(&self, claim: &Claim) -> bool {
        let named = claim.body.as_ref().map(|body| &body.spec.subjects);
        named.is_some_and(|subjects| self.is_among(subjects))
    }

    fn administers(&self, bindings: &[RoleBinding]) -> bool {
        let admin = |one: &&RoleBinding| {
            let goes = one.metadata.deletion_timestamp.is_some();
            !goes && one.role_ref.kind == "ClusterRole" && one.role_ref.name == POOL_ADMIN
        };
        bindings.iter().filter(admin).any(|one| self.is_among(&one.subjects))
    }

    fn is_among(&self, subjects: &[Subject]) -> bool {
        subjects.iter().any(|one| match one.kind.as_str() {
            "User" => one.name == self.name,
            "Group" => self.groups.contains(&one.name),
            _ => false,
        })
    }
}

/// A pool as guests see it: what its clusters are, and how many. The rest is the account's, the
/// environment of its installer for one.
pub fn shown_to_guests(pool: ClusterPool) -> ClusterPool {
    let ClusterPool { metadata, spec, status } = pool;
    ClusterPool {
        metadata: Meta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            ..Meta::default()
        },
        spec: PoolSpec {
            base_domain: spec.base_domain,
            claim_lifetime: spec.claim_lifetime,
            image_set_ref: spec.image_set_ref,
            inventory: spec.inventory,
            max_size: spec.max_size,
            running_count: spec.running_count,
            size: spec.size,
            ..PoolSpec::default()
        },
        status: PoolStatus {
            size: status.size,
            standby: status.standby,
            ready: status.ready,
            installing: status.installing,
            broken: status.broken,
            claimed: status.claimed,
            deleting: status.deleting,
            pending: status.pending,
            stale: status.stale,
            running: status.running,
            free_customizations: status.free_customizations,
            ..PoolStatus::default()
        },
    }
}
