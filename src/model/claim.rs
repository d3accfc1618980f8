//! A claim of a cluster: the facts that plans read, and how a ClusterClaim becomes facts and is made
//! from them again. Conditions are never stored, because they follow from the facts.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{self, Condition, ConditionReason, ConditionType};
use super::documents::Subject;
use super::facts::{facts, named};
use super::meta::{Key, Meta};
use super::time::{Span, Time};
use super::wire::Wire;

pub use super::annotations::OWNER;

/// A request for a cluster, in Hive's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterClaim {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The requested cluster.
    pub spec: ClaimSpec,
    /// The result, written by poolctl.
    #[serde(default, skip_serializing_if = "super::meta::is_zero")]
    pub status: ClaimStatus,
}

/// What is asked: the pool, for how long, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimSpec {
    /// The pool to take a cluster from, in the claim's namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_pool_name: String,
    /// How long the claim may keep the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Span>,
    /// The cluster of the claim, written by poolctl.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Users and groups who may use the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Subject>,
}

/// What became of the claim. The plan writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimStatus {
    /// The lifetime that applies to the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Span>,
    /// Whether an event has warned that the claim ends soon.
    #[serde(skip_serializing_if = "super::meta::is_zero")]
    pub expires_soon: bool,
    /// The conditions Pending and ClusterRunning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

facts! {
    /// The facts that plans read of a claim.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Claim in "claim" of ClusterClaim {
        /// Order of insertion; 0 for a new one.
        pub id: i64,
        pub name: String,
        pub namespace: String,
        pub created: Time => metadata.creation_timestamp,
        /// Name of the pool, in the claim's namespace.
        pub pool: String => spec.cluster_pool_name,
        /// Who made the claim.
        pub owner: String,
        /// The lifetime that was asked for.
        pub lifetime: Option<Span> => spec.lifetime,
        /// The lifetime in force: the one asked for or else the pool's default, and at most the
        /// pool's maximum.
        pub effective: Option<Span> => status.lifetime,
        /// Name of its cluster, once it has one.
        pub cluster: Option<String> => spec.namespace,
        pub pending: Pending,
        /// When `pending` last changed. For a claimed cluster this is when it was handed over.
        pub pending_since: Option<Time>,
        pub running: ClusterRunning,
        /// When `running` last changed.
        pub running_since: Option<Time>,
        /// Whether an event has warned its owner that it ends soon.
        pub warned: bool => status.expires_soon,
        /// Whether its pool has not counted yet how long it waited for its cluster.
        pub wait_uncounted: bool,
        /// Whether a finalizer of another program holds the object.
        pub held: bool,
        /// When its deletion was asked for.
        pub deleting: Option<Time> => metadata.deletion_timestamp,
    }
    beside {
        /// The rest of the document, loaded only for rows that a user edits or looks at.
        pub body: Option<Box<ClusterClaim>>,
    }
}

named! {
    /// Why a claim waits, or that it does not: the condition Pending.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Pending {
        #[default]
        Initialized = "Initialized",
        NoClusters = "NoClusters",
        Assigned = "Assigned",
        Claimed = "Claimed",
        PoolMissing = "PoolMissing",
        PoolDeleting = "PoolDeleting",
        PoolPaused = "PoolPaused",
    }
}

named! {
    /// What the cluster of a claim does: the condition ClusterRunning.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ClusterRunning {
        #[default]
        Initialized = "Initialized",
        Running = "Running",
        Resuming = "Resuming",
        Deleting = "Deleting",
        Deleted = "Deleted",
    }
}

/// Status, reason and message of a condition.
type ConditionWords = (&'static str, ConditionReason, &'static str);

impl Pending {
    /// Status, reason and message of the condition.
    pub fn condition_words(self) -> ConditionWords {
        match self {
            Self::Initialized => ("Unknown", ConditionReason::Initialized, "Condition Initialized"),
            Self::NoClusters => {
                ("True", ConditionReason::NoClusters, "No clusters in pool are ready to be claimed")
            }
            Self::Assigned => (
                "True",
                ConditionReason::ClusterAssigned,
                "Cluster assigned to ClusterClaim, awaiting claim",
            ),
            Self::Claimed => ("False", ConditionReason::ClusterClaimed, "Cluster claimed"),
            Self::PoolMissing => {
                ("True", ConditionReason::ClusterPoolNotFound, "There is no pool of this name")
            }
            Self::PoolPaused => (
                "True",
                ConditionReason::ClusterPoolPaused,
                "The pool is paused and gives no clusters until it is resumed",
            ),
            Self::PoolDeleting => (
                "True",
                ConditionReason::ClusterPoolDeleting,
                "The pool is being deleted and gives no more clusters",
            ),
        }
    }
}

impl ClusterRunning {
    /// Status, reason and message of the condition.
    pub fn condition_words(self) -> ConditionWords {
        match self {
            Self::Initialized => ("Unknown", ConditionReason::Initialized, "Condition Initialized"),
            Self::Running => ("True", ConditionReason::Running, "Cluster is running"),
            Self::Resuming => {
                ("False", ConditionReason::Resuming, "Waiting for cluster to be running")
            }
            Self::Deleting => (
                "False",
                ConditionReason::ClusterDeleting,
                "Assigned cluster has been marked for deletion",
            ),
            Self::Deleted => {
                ("False", ConditionReason::ClusterDeleted, "Assigned cluster has been deleted")
            }
        }
    }
}

/// The claims of a person that are not being released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    pub open: u32,
    /// Those of them that wait for a cluster.
    pub waiting: u32,
}

impl Claim {
    /// The namespace and the name of the claim.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }

    /// The pool, which is in the namespace of the claim.
    pub fn pool_key(&self) -> Key {
        Key::new(&*self.namespace, &*self.pool)
    }

    /// Whether the claim waits for a cluster.
    pub fn is_waiting(&self) -> bool {
        self.cluster.is_none() && self.deleting.is_none()
    }

    /// When the claim got its cluster. The lifetime counts from then on.
    pub fn claimed_at(&self) -> Option<Time> {
        if self.pending == Pending::Claimed { self.pending_since } else { None }
    }

    /// When the owner is to be warned that the claim ends: half an hour before its end, or a
    /// quarter of its lifetime if that is shorter.
    pub fn warning_due_at(&self) -> Option<Time> {
        let lifetime = self.effective?;
        let notice = Span((lifetime.0 / 4).min(Span::minutes(30).0));
        Some(Time(self.expires_at()?.0 - notice.0))
    }

    /// When the claim ends by itself. None while it waits, and if it has no lifetime.
    pub fn expires_at(&self) -> Option<Time> {
        Some(self.claimed_at()?.plus(self.effective?))
    }

    /// Takes the facts out of a document. What is left of the document becomes the body.
    pub fn from_wire(mut wire: ClusterClaim) -> Self {
        let mut claim = Self::default();
        claim.take_fields(&mut wire);
        let meta = &mut wire.metadata;
        claim.name.clone_from(&meta.name);
        claim.namespace.clone_from(&meta.namespace);
        claim.owner = meta.annotations.remove(OWNER).unwrap_or_default();
        claim.held = !meta.finalizers.is_empty();
        claim.take_conditions(&std::mem::take(&mut wire.status).conditions);
        claim.body = Some(Box::new(wire));
        claim
    }

    fn take_conditions(&mut self, conditions: &[Condition]) {
        if let Some(condition) = condition::find_condition(conditions, ConditionType::Pending) {
            let mut values = Pending::ALL.iter().copied();
            let value = values.find(|value| says(condition, value.condition_words()));
            self.pending = value.unwrap_or_default();
            self.pending_since = condition.last_transition_time;
        }
        let running = condition::find_condition(conditions, ConditionType::ClusterRunning);
        if let Some(condition) = running {
            let mut values = ClusterRunning::ALL.iter().copied();
            let value = values.find(|value| says(condition, value.condition_words()));
            self.running = value.unwrap_or_default();
            self.running_since = condition.last_transition_time;
        }
    }

    /// The whole document. Needs the body.
    pub fn to_wire(&self) -> ClusterClaim {
        let mut wire = self.body.as_deref().cloned().unwrap_or_default();
        self.write_fields(&mut wire);
        let meta = &mut wire.metadata;
        meta.name.clone_from(&self.name);
        meta.namespace.clone_from(&self.namespace);
        meta.id = self.id;
        if !self.owner.is_empty() {
            meta.annotations.insert(OWNER.into(), self.owner.clone());
        }
        wire.status.conditions = self.conditions();
        wire
    }

    /// Pending and ClusterRunning, as they follow from the facts.
    pub fn conditions(&self) -> Vec<Condition> {
        let pending_since = self.pending_since.unwrap_or(self.created);
        let running_since = self.running_since.unwrap_or(self.created);
        vec![
            new_condition(ConditionType::Pending, self.pending.condition_words())
                .with_times(pending_since),
            new_condition(ConditionType::ClusterRunning, self.running.condition_words())
                .with_times(running_since),
        ]
    }
}

fn new_condition(kind: ConditionType, (status, reason, message): ConditionWords) -> Condition {
    Condition::new(kind, status, reason, message)
}

fn says(condition: &Condition, (status, reason, _): ConditionWords) -> bool {
    condition.status == status && condition.reason == reason
}

impl Wire for Claim {
    type Document = ClusterClaim;

    fn from_document(document: ClusterClaim) -> Self {
        Self::from_wire(document)
    }

    fn to_document(&self) -> Cow<'_, ClusterClaim> {
        Cow::Owned(self.to_wire())
    }

    fn key(&self) -> Key {
        Self::key(self)
    }

    fn meta(&self) -> Option<&Meta> {
        self.body.as_ref().map(|body| &body.metadata)
    }

    fn meta_mut(&mut self) -> Option<&mut Meta> {
        self.body.as_mut().map(|body| &mut body.metadata)
    }

    fn deletion_time(&self) -> Option<Time> {
        self.deleting
    }
}
