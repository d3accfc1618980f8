//! Who may do what with somebody else's state: the one place that decides. Whoever has the
//! account that owns the state may do everything and is not asked about here.

use crate::model::claim::Claim;
use crate::model::documents::{RoleBinding, Subject};

/// The role whose subjects see what the pools of a namespace make.
const POOL_ADMIN: &str = "hive-cluster-pool-admin";

/// Somebody behind sudo.
#[derive(Debug, Default)]
pub struct Guest {
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

impl Guest {
    /// `claim` is the claim, or the one that has the cluster; `bindings` are those of the
    /// namespace of its pool.
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
