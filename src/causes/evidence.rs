//! The input of the explanations in `causes`. Commands fill it; this module reads no state.

use crate::model::agent::Agent;
use crate::model::event::Event;
use crate::model::host::BareMetalHost;
use crate::model::job::Job;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::model::time::{Span, Time};

/// What an explanation may use. Fields that the kind of the object does not need stay empty.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The scope of the object, and the objects that it refers to.
    pub state: State,
    pub now: Time,
    /// ` -n NAMESPACE`, if commands on the object need it.
    pub namespace_option: String,

    /// For a waiting claim: its place in the queue of its pool.
    pub queue_position: String,

    /// For a cluster that is being deleted: the last attempt to destroy it that has ended.
    pub last_deprovision: Option<Job>,
    /// All hosts, if that attempt worked on any; otherwise empty.
    pub hosts: Vec<BareMetalHost>,
    /// For a cluster: whether the claim that holds it no longer exists.
    pub claim_is_gone: bool,

    /// For a pool that is explained by its history: its last `RECENT_JOBS` installations.
    pub provisions: Vec<Job>,
    /// For such a pool: which clusters were replaced within `RECENT_SPAN`, the newest first.
    /// Those of other pools are among them.
    pub events: Vec<Event>,

    /// For a customization without a holder: the pools of its namespace.
    pub pools: Vec<ClusterPool>,

    /// For a host: the last job that worked on it.
    pub last_job_on_host: Option<Job>,
    /// Whether a cluster uses the host and exists.
    pub consumer_exists: bool,
    /// The Agents of the host's machine. Read only if the cluster that the host names is gone.
    pub agents_of_host: Vec<Agent>,

    /// For an IPPool: how many claims wait for its addresses.
    pub waiting_ip_claims: usize,

    /// For an InfraEnv: whether its spec or its network configurations have changed since its image
    /// was made.
    pub image_is_stale: bool,
}

impl Evidence {
    /// What goes on, to follow a subject: `has been waking for 3h`. In the first second, and if
    /// nobody knows when it began, only `is waking`.
    pub fn describe_activity(&self, activity: &str, since: Option<Time>) -> String {
        match since.map(|since| self.now.since(since)) {
            Some(duration) if duration >= Span::seconds(1) => {
                format!("has been {activity} for {}", duration.to_short_text())
            }
            _ => format!("is {activity}"),
        }
    }

    /// When something is tried again: `the next attempt is in 5m`, or with the next pass.
    pub fn describe_next_attempt(&self, next_attempt: Option<Time>) -> String {
        match next_attempt.map(|time| time.since(self.now)) {
            Some(remaining) if remaining >= Span::seconds(1) => {
                format!("the next attempt is in {}", remaining.to_short_text())
            }
            _ => "the next pass tries again".to_owned(),
        }
    }
}
