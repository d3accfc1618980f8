//! Asks for the deletion of an object of any kind and records that. Never waits until it is gone.

use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::match_kind;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::edited::Edited;
use super::events::{other_owner, record_deed, record_event};

/// Asks for an object's deletion: it goes now, or when what hangs on it is gone. Says whether
/// there is such an object.
pub fn delete(state: &mut State, kind: Kind, key: &Key, tick: &Tick) -> bool {
    let outcome = match_kind!(kind, R => <R as Edited>::delete(state, key, tick), None);
    if outcome == Some(true) {
        let text = match other_owner(state, kind, key, tick) {
            Some((_, owner)) => {
                format!("Deletion of what {owner} claimed was asked for by {}", tick.actor)
            }
            None => "Deletion was asked for".into(),
        };
        record_deed(state, tick, kind, key, EventReason::DeletionRequested, &text);
    }
    if kind == Kind::InfraEnv && outcome == Some(true) && state.infra_envs.find(key).is_none() {
        let text = "Deregistered infra env";
        record_event(state, tick, kind, key.clone(), EventReason::InfraEnvDeregistered, text);
    }
    outcome.is_some()
}
