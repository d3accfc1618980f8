//! Decides what a person behind sudo may do with the state of another account; never asks the
//! system who that person is. The account that owns the state may do everything and is not asked
//! about here; admins may do the same.

use crate::model::claim::{Claim, ClaimCounts};
use crate::model::documents::{Admins, Quota, RoleBinding, Subject};
use crate::model::meta::Meta;
use crate::model::pool::{ClusterPool, PoolSpec, PoolStatus};
use crate::model::refusal::{Exit, Refusal};

/// The role whose subjects may see every claim and cluster of the pools of a namespace.
const POOL_ADMIN: &str = "hive-cluster-pool-admin";

/// The groups whose members are admins while the Settings name no admins.
const ADMIN_GROUPS: [&str; 3] = ["sudo", "wheel", "admin"];

/// How many claims a guest may have, and how many that wait, unless the Settings say otherwise.
const DEFAULT_QUOTA: u32 = 20;

/// Somebody behind sudo: an admin, who may do what the account may, or a guest.
#[derive(Debug, Default)]
pub struct Person {
    pub name: String,
    pub groups: Vec<String>,
}

/// What a person asks to do with a claim, or with a cluster of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessAction {
    /// Show it, its events, and the logs and credentials of its cluster.
    See,
    /// Release, extend, stop, start.
    Change,
}

impl Person {
    /// Whether this person may do what the account may. `admins` are those of the Settings.
    pub fn is_admin(&self, admins: Option<&Admins>) -> bool {
        let Some(admins) = admins else {
            return self.groups.iter().any(|group| ADMIN_GROUPS.contains(&group.as_str()));
        };
        let is_in_admin_group = self.groups.iter().any(|group| admins.groups.contains(group));
        is_in_admin_group || admins.users.contains(&self.name)
    }

    /// Whether a guest may do this. `claim` is the claim itself, or the claim that holds the
    /// cluster; `bindings` are those of the namespace of its pool.
    pub fn may(&self, deed: AccessAction, claim: Option<&Claim>, bindings: &[RoleBinding]) -> bool {
        let owns = claim.is_some_and(|claim| claim.owner == self.name);
        match deed {
            AccessAction::Change => owns,
            AccessAction::See => {
                owns || claim.is_some_and(|claim| self.is_subject_of(claim))
                    || self.administers_pools(bindings)
            }
        }
    }

    /// Whether the owner of a claim shares it with this person. Needs the claim's body.
    fn is_subject_of(&self, claim: &Claim) -> bool {
        claim.body.as_ref().is_some_and(|body| self.is_among(&body.spec.subjects))
    }

    fn administers_pools(&self, bindings: &[RoleBinding]) -> bool {
        bindings
            .iter()
            .filter(|binding| grants_pool_admin(binding))
            .any(|binding| self.is_among(&binding.subjects))
    }

    fn is_among(&self, subjects: &[Subject]) -> bool {
        subjects.iter().any(|subject| match subject.kind.as_str() {
            "User" => subject.name == self.name,
            "Group" => self.groups.contains(&subject.name),
            _ => false,
        })
    }
}

/// Refuses a further claim of a guest who has as many as the Settings allow.
pub fn check_quota(quota: &Quota, counts: ClaimCounts) -> Result<(), Refusal> {
    let ClaimCounts { open, waiting } = counts;
    check_open_claims(quota, open)?;
    let most_waiting = quota.waiting.unwrap_or(DEFAULT_QUOTA);
    if waiting < most_waiting {
        return Ok(());
    }
    let problem =
        format!("{waiting} of your claims wait for a cluster, and {most_waiting} may wait");
    Err(refuse_by_quota(problem))
}

/// Refuses a further claim of a guest who has this many, whatever they wait for.
pub fn check_open_claims(quota: &Quota, open: u32) -> Result<(), Refusal> {
    let most_claims = quota.claims.unwrap_or(DEFAULT_QUOTA);
    if open < most_claims {
        return Ok(());
    }
    Err(refuse_by_quota(format!(
        "you have {open} of the {most_claims} claims that you may have at the same time"
    )))
}

fn refuse_by_quota(problem: String) -> Refusal {
    Refusal::new(Exit::Exhausted, problem)
        .because("the Settings limit the claims of each person: spec.quota")
        .advise("poolctl get claim, then poolctl release those that you do not need")
}

/// A binding that is being deleted grants nothing any more.
fn grants_pool_admin(binding: &RoleBinding) -> bool {
    binding.metadata.deletion_timestamp.is_none()
        && binding.role_ref.kind == "ClusterRole"
        && binding.role_ref.name == POOL_ADMIN
}

/// A pool reduced to what guests may see: which clusters it has, and how many. All other fields
/// are left empty, because they may hold what only the account should know, such as the
/// environment of the installer.
pub fn redact_pool_for_guests(pool: ClusterPool) -> ClusterPool {
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
            held: status.held,
            installing: status.installing,
            retrying: status.retrying,
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
