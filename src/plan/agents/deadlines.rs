//! When something about an Agent changes only because time passes. It may name an instant at which
//! nothing changes after all, but it never leaves one out.

use crate::model::agent::{Agent, DISCONNECTED_AFTER};
use crate::model::state::State;
use crate::model::time::{Span, Time};

use super::joining;
use super::refresh::REGISTRATION_TIMEOUT;
use super::returning::RETURN_TIMEOUT;
use super::stages::stage_limits;

/// Limits are over when more time than this has passed: not at the last instant, but after it.
const INSTANT: Span = Span(1);

/// The instants at which a host is silent, late in its state or its stage, or joins again.
pub fn due_instants(state: &State, agent: &Agent) -> Vec<Time> {
    let mut ends = limits_of_agent(agent);
    let host = agent.host_key().and_then(|key| state.hosts.by_key(&key));
    let wipe = host.and_then(|host| host.status.wipe.as_ref());
    ends.extend(wipe.map(|wipe| wipe.since.plus(RETURN_TIMEOUT)));
    let mut instants: Vec<Time> = ends.into_iter().map(|end| end.plus(INSTANT)).collect();
    instants.extend(joining::next_join_at(state, agent));
    instants
}

fn limits_of_agent(agent: &Agent) -> Vec<Time> {
    let status = &agent.status;
    let mut ends = Vec::new();
    ends.extend(status.last_contact_time.map(|contact| contact.plus(DISCONNECTED_AFTER)));
    if let Some(since) = status.state_since {
        ends.push(since.plus(REGISTRATION_TIMEOUT));
        ends.push(since.plus(RETURN_TIMEOUT));
    }
    if let Some(start) = status.progress.stage_start_time {
        ends.extend(stage_limits(&status.progress.current_stage).map(|limit| start.plus(limit)));
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After its BareMetalHost was deleted nobody asked its controller any more. A check of it failed
    /// some minutes later, and no pass but one over everything saw that.
    #[test]
    fn a_found_host_is_looked_at_when_the_last_answer_of_its_controller_is_old() {
        let answered_at = Time::default().plus(Span::hours(1));
        let mut agent = Agent::default();
        agent.status.found_by_controller = true;
        agent.status.last_contact_time = Some(answered_at);
        let silent_at = answered_at.plus(DISCONNECTED_AFTER).plus(INSTANT);
        assert_eq!(due_instants(&State::default(), &agent), [silent_at]);
    }
}
