//! Says when hosts are asked how they are though nothing is to be done to them. A free host has to
//! be there when it is picked, and one that failed its cluster is looked at until it answers.
//! Starts no job.

use std::collections::HashMap;

use crate::model::host::BareMetalHost;
use crate::model::meta::Key;
use crate::model::state::State;
use crate::model::time::{Span, Time};

/// How often a controller is asked for a host that nobody else speaks for.
const EVERY: Span = Span::minutes(3);

/// When a host is asked how it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProbeRhythm {
    /// Every few minutes: only its controller says that it is there and free.
    Regular,
    /// When its last attempt failed. Otherwise the host speaks for itself, or its cluster does.
    AfterFailure,
}

/// The hosts that are Agents, and when each is asked.
pub type Probes = HashMap<Key, ProbeRhythm>;

/// The hosts that are asked from time to time.
pub fn hosts_to_probe(state: &State) -> Probes {
    let mut probes = Probes::new();
    for agent in state.agents.rows() {
        if let Some(host) = agent.host_key() {
            let is_silent = agent.status.found_by_controller && agent.state().is_free();
            let rhythm = if is_silent { ProbeRhythm::Regular } else { ProbeRhythm::AfterFailure };
            probes.insert(host, rhythm);
        }
    }
    probes
}

/// When a host is asked next: a free one some minutes after it was last seen, any other one when
/// its last attempt failed and is due again. None if it is no Agent.
pub fn next_probe_at(host: &BareMetalHost, probes: &Probes) -> Option<Time> {
    let rhythm = *probes.get(&host.key())?;
    if rhythm == ProbeRhythm::Regular
        && host.status.error_count == 0
        && let Some(last_seen) = host.status.last_updated
    {
        return Some(last_seen.plus(EVERY));
    }
    host.next_attempt_at()
}
