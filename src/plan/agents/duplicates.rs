//! Finds Agents that are the same machine. One of them counts, and the others are marked as its
//! duplicates. It never deletes an Agent.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::model::agent::{Agent, HostState};
use crate::model::event::EventType;
use crate::model::event_reason::EventReason;
use crate::model::meta::Key;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::record_agent_event;

/// How good an Agent is, among those that are one machine: the greatest counts.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_bound: bool,
    /// Whether it is approved and heard of.
    is_trusted: bool,
    registered_at: Option<Time>,
    /// Breaks ties: the first by name counts.
    key: Reverse<Option<Key>>,
}

/// Writes into each Agent whose duplicate it is, and records it when that changes. Of several
/// Agents that are one machine, one counts: that which is bound, else one that somebody has
/// approved and that is heard of, else the last that registered.
pub fn mark_duplicates(state: &mut State, tick: &Tick) {
    let originals = find_originals(state, tick.now);
    let agent_ids: Vec<AgentId> = state.agents.iter().map(|(agent_id, _)| agent_id).collect();
    for agent_id in agent_ids {
        let Some(agent) = state.agents.get(agent_id) else { continue };
        let original = originals.get(&agent_id).and_then(|original| state.agents.get(*original));
        let duplicate_of = match original.map(Agent::key) {
            Some(key) if key.namespace == agent.metadata.namespace => key.name,
            Some(key) => key.to_string(),
            None => String::new(),
        };
        if agent.status.duplicate_of != duplicate_of {
            set_duplicate_of(state, agent_id, duplicate_of, tick);
        }
    }
}

/// The Agent that counts, by each of its duplicates.
fn find_originals(state: &State, now: Time) -> BTreeMap<AgentId, AgentId> {
    let mut agents_by_identity: HashMap<String, Vec<AgentId>> = HashMap::new();
    for (agent_id, agent) in state.agents.iter() {
        for identity in agent.identities() {
            let agent_ids = agents_by_identity.entry(identity).or_default();
            if !agent_ids.contains(&agent_id) {
                agent_ids.push(agent_id);
            }
        }
    }
    let mut originals = BTreeMap::new();
    for agent_ids in agents_by_identity.values().filter(|agent_ids| agent_ids.len() > 1) {
        let best = agent_ids.iter().copied().max_by_key(|agent_id| rank(state, *agent_id, now));
        let Some(best_id) = best else { continue };
        for duplicate_id in agent_ids.iter().filter(|agent_id| **agent_id != best_id) {
            // It may share one identity with this Agent and another identity with a better one.
            let original_id = originals.entry(*duplicate_id).or_insert(best_id);
            if rank(state, best_id, now) > rank(state, *original_id, now) {
                *original_id = best_id;
            }
        }
    }
    originals
}

/// How good an Agent is among those that are the same machine.
fn rank(state: &State, agent_id: AgentId, now: Time) -> Rank {
    let Some(agent) = state.agents.get(agent_id) else { return Rank::default() };
    // A retired host goes on in a cluster that was left running.
    let is_retired = agent.state() == HostState::DisabledUnbound;
    let is_bound = is_retired || agent.status.bound_to.is_some();
    // A machine can claim to be another one, so it does not replace an approved Agent that is
    // there.
    let is_trusted = agent.spec.approved && !agent.is_silent(now);
    Rank {
        is_bound,
        is_trusted,
        registered_at: agent.status.registered_at,
        key: Reverse(Some(agent.key())),
    }
}

/// Marks an Agent as the duplicate of another one, or as no duplicate any more if `original` is
/// empty, and records which.
fn set_duplicate_of(state: &mut State, agent_id: AgentId, original: String, tick: &Tick) {
    let Some(agent) = state.agents.get(agent_id) else { return };
    let hostname = agent.hostname();
    let previous = &agent.status.duplicate_of;
    let is_duplicate = !original.is_empty();
    let (reason, message) = if is_duplicate {
        (
            EventReason::HostDuplicateFound,
            format!(
                "Host {hostname}: is the same machine as Agent {original}, and is never picked"
            ),
        )
    } else {
        (
            EventReason::HostDuplicateFixed,
            format!("Host {hostname}: is not the same machine as Agent {previous} any more"),
        )
    };
    state.agents.update(agent_id, |agent| agent.status.duplicate_of = original);
    record_agent_event(state, agent_id, reason, EventType::warning_if(is_duplicate), message, tick);
}
