//! Puts an object of any kind into a state and records that, for every command that makes or changes
//! objects. Never loads the object nor what its edit needs.

use crate::model::claim::Claim;
use crate::model::event_reason::EventReason;
use crate::model::object::{Object, match_object};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::edited::Edited;
use super::events::{other_owner, record_deed, record_event};
use super::verdict::Verdict;

/// Makes an object, or makes the one that is there like it, without what is not the user's.
/// `merge`: labels and annotations that the new object does not name stay. A change that the kind
/// forbids is refused, and leaves the state as it was.
pub fn put(
    state: &mut State,
    object: Object,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let kind = object.kind();
    let key = object.key();
    let created = match &object {
        Object::ClusterClaim(claim) => Claim::asks(&claim.pool),
        _ => "Created".into(),
    };
    let verdict = match_object!(object, resource => Edited::put(state, *resource, merge, tick))?;
    match &verdict {
        Verdict::Created => record_event(state, tick, kind, key, EventReason::Created, &created),
        Verdict::Configured(what) => {
            let mut text = match other_owner(state, kind, &key, tick) {
                Some((_, owner)) => format!("What {owner} claimed was changed by {}", tick.actor),
                None => "Changed".to_owned(),
            };
            if !what.is_empty() {
                text = format!("{text}: {what}");
            }
            record_deed(state, tick, kind, &key, EventReason::Configured, &text);
        }
        Verdict::Unchanged => {}
    }
    Ok(verdict)
}
