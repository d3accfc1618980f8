//! Puts an object of any kind into a state and records that in an event, for every command that
//! makes or changes objects. The caller must have loaded what the edit needs.

use crate::model::event_reason::EventReason;
use crate::model::object::{Object, match_object};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules;

use super::edited::Edited;
use super::events::{find_other_owner, record_action, record_creation};
use super::outcome::PutOutcome;
use super::put_mode::PutMode;
use super::settings::restore_passwords;

/// Inserts an object, or changes the existing one of its name to be like it, but for the fields
/// that a user does not set. A change that the kind forbids, and an object that lacks what its kind
/// and its platform need, is refused and leaves the state as it was.
pub fn put_object(
    state: &mut State,
    mut object: Object,
    mode: PutMode,
    tick: &Tick,
) -> Result<PutOutcome, Refusal> {
    restore_passwords(state, &mut object)?;
    rules::check_admission(state, &object)?;
    let kind = object.kind();
    let key = object.key();
    state.put_objects.push((kind, key.clone()));
    let pool_of_claim = match &object {
        Object::ClusterClaim(claim) => Some(claim.pool_key()),
        _ => None,
    };
    let outcome = match_object!(object, resource => Edited::put(state, *resource, mode, tick))?;
    match &outcome {
        PutOutcome::Created => record_creation(state, tick, kind, key, pool_of_claim),
        PutOutcome::Configured(changes) => {
            let mut message = match find_other_owner(state, kind, &key, tick) {
                Some((_, owner)) => format!("{} changed what {owner} claimed", tick.actor),
                None => "Changed".to_owned(),
            };
            if !changes.is_empty() {
                message = format!("{message}: {changes}");
            }
            record_action(state, tick, kind, &key, EventReason::Configured, &message);
        }
        PutOutcome::Unchanged => {}
    }
    Ok(outcome)
}
