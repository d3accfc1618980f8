//! Whether another Agent is the same machine.

use std::collections::{BTreeMap, HashMap};

use crate::model::agent::{Agent, HostState};
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;

/// Of several Agents that are one machine, one counts: that which is bound, else one that somebody
/// has approved and that is heard of, else the last that registered.
pub fn find(state: &mut State, tick: &Tick) {
    let mut same: HashMap<String, Vec<AgentId>> = HashMap::new();
    for (at, one) in state.agents.iter() {
        for word in one.identities() {
            let all = same.entry(word).or_default();
            if !all.contains(&at) {
                all.push(at);
            }
        }
    }
    let mut of: BTreeMap<AgentId, AgentId> = BTreeMap::new();
    for all in same.values().filter(|all| all.len() > 1) {
        let rank = |at: &AgentId| {
            let one = state.agents.get(*at);
            // A retired one goes on in a cluster that is left running.
            let retired = one.is_some_and(|one| one.state() == HostState::DisabledUnbound);
            let bound = retired || one.is_some_and(|one| one.status.bound_to.is_some());
            let when = one.and_then(|one| one.status.registered_at);
            // Who says that it is a host which somebody has approved, and which is there, is not.
            let heard = |one: &Agent| one.spec.approved && !one.is_silent(tick.now);
            (bound, one.is_some_and(heard), when, std::cmp::Reverse(one.map(Agent::key)))
        };
        let Some(first) = all.iter().copied().max_by_key(rank) else { continue };
        for at in all.iter().filter(|at| **at != first) {
            let known = of.entry(*at).or_insert(first);
            if rank(&first) > rank(known) {
                *known = first;
            }
        }
    }
    let all: Vec<AgentId> = state.agents.iter().map(|(at, _)| at).collect();
    for at in all {
        let other = of.get(&at).and_then(|first| state.agents.get(*first)).map(Agent::key);
        let own = state.agents.get(at).map(Agent::key);
        let name = match (other, own) {
            (Some(other), Some(own)) if other.namespace == own.namespace => other.name,
            (Some(other), _) => other.to_string(),
            (None, _) => String::new(),
        };
        state.agents.update(at, |one| one.status.duplicate_of = name);
    }
}
