//! The values that an object is explained with. A command gathers them: nothing here reads a state.

use crate::model::agent::Agent;
use crate::model::event::Event;
use crate::model::host::BareMetalHost;
use crate::model::job::Job;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::model::time::Time;

/// The values that an object is explained with. Those that its kind does not need stay empty.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The scope of the object, and the objects that it refers to.
    pub state: State,
    pub now: Time,
    /// ` -n NAMESPACE`, if commands on the object need it.
    pub namespace_option: String,

    /// Of a claim that waits: its place in the queue of its pool.
    pub queue_position: String,

    /// Of the explained cluster: the last attempt to destroy it that has ended.
    pub last_deprovision: Option<Job>,
    /// The hosts among which that attempt may have failed.
    pub hosts: Vec<BareMetalHost>,
    /// Whether the claim that holds the explained cluster does not exist any more.
    pub claim_is_gone: bool,

    /// Of a pool that is explained by its history: its last `RECENT_JOBS` installations.
    pub provisions: Vec<Job>,
    /// The events within `RECENT_SPAN`, the newest first.
    pub events: Vec<Event>,

    /// Of a customization without a holder: the pools of its namespace.
    pub pools: Vec<ClusterPool>,

    /// Of a host: the last job that worked on it.
    pub last_job_on_host: Option<Job>,
    /// Whether the cluster that uses the host still exists.
    pub consumer_exists: bool,
    /// The Agents of the same machine as the host.
    pub agents_of_host: Vec<Agent>,

    /// Of an InfraEnv: whether its spec or its network configurations have changed since its image
    /// was made.
    pub image_is_stale: bool,
}

impl Evidence {
    /// ` for 3h`, or nothing if the beginning is not known.
    pub fn format_duration_since(&self, since: Option<Time>) -> String {
        since
            .map(|since| format!(" for {}", self.now.since(since).to_short_text()))
            .unwrap_or_default()
    }
}
