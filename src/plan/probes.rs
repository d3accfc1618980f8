//! Hosts that are asked how they are though nothing is to be done to them: who is free is to be
//! there when it is picked, and who failed its cluster is looked at until it answers.

use std::collections::HashMap;

use crate::model::agent::Agent;
use crate::model::host::BareMetalHost;
use crate::model::meta::Key;
use crate::model::state::State;
use crate::model::time::{Span, Time};

/// How often a controller is asked for a host that nobody else speaks for.
const EVERY: Span = Span::minutes(3);

/// Hosts that are Agents, and whether only their controllers say that they are free.
pub type Probes = HashMap<Key, bool>;

pub fn of(state: &State) -> Probes {
    let free = |one: &Agent| one.status.found && one.state().is_free();
    state.agents.rows().filter_map(|one| Some((one.bmh()?, free(one)))).collect()
}

/// When a host is asked next.
pub fn at(host: &BareMetalHost, probes: &Probes) -> Option<Time> {
    let free = *probes.get(&host.key())?;
    let seen = host.status.last_updated.filter(|_| free && host.status.error_count == 0);
    seen.map(|seen| seen.plus(EVERY)).or_else(|| host.next_attempt_at())
}
