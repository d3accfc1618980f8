//! Asks for the deletion of an object of any kind and records that in an event. Never waits until
//! the object is gone.

use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::match_kind;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::edited::Edited;
use super::events::{find_other_owner, record_action, record_event};
use super::outcome::DeleteOutcome;

/// Asks for an object's deletion. It is removed at once, or by a pass as soon as nothing depends on
/// it any more. Jobs and events are records that nobody deletes, so they are not found.
pub fn delete_object(state: &mut State, kind: Kind, key: &Key, tick: &Tick) -> DeleteOutcome {
    let outcome = match_kind!(
        kind,
        R => <R as Edited>::delete(state, key, tick),
        DeleteOutcome::NotFound
    );
    if outcome == DeleteOutcome::Requested {
        let message = match find_other_owner(state, kind, key, tick) {
            Some((_, owner)) => {
                format!("{} requested the deletion of what {owner} claimed", tick.actor)
            }
            None => "Deletion was requested".into(),
        };
        record_action(state, tick, kind, key, EventReason::DeletionRequested, &message);
    }
    let is_removed_infra_env = kind == Kind::InfraEnv && state.infra_envs.find(key).is_none();
    if outcome == DeleteOutcome::Requested && is_removed_infra_env {
        let message = "Deregistered infra env";
        record_event(state, tick, kind, key.clone(), EventReason::InfraEnvDeregistered, message);
    }
    outcome
}
