//! Puts an object of any kind into a state and records that. Used by apply, patch and the words for
//! daily jobs.

use crate::model::claim::Claim;
use crate::model::object::{Object, match_object};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::edited::Edited;
use super::events::{other_owner, record_deed, record_event};
use super::verdict::Verdict;

/// Makes an object, or makes the one that is there like it, without what is not the user's.
/// `merge`: labels and annotations that the new object does not name stay.
pub fn put(
    state: &mut State,
    object: Object,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let (kind, key) = (object.kind(), object.key());
    let created = match &object {
        Object::ClusterClaim(claim) => Claim::asks(&claim.pool),
        _ => "Created".into(),
    };
    let verdict = match_object!(object, resource => Edited::put(state, *resource, merge, tick))?;
    match &verdict {
        Verdict::Created => record_event(state, tick, kind, key, "Created", &created),
        Verdict::Configured(what) => {
            let mut text = String::from("Changed");
            if let Some((_, owner)) = other_owner(state, kind, &key, tick) {
                text = format!("What {owner} claimed was changed by {}", tick.actor);
            }
            let text = if what.is_empty() { text } else { format!("{text}: {what}") };
            record_deed(state, tick, kind, &key, "Configured", &text);
        }
        Verdict::Unchanged => {}
    }
    Ok(verdict)
}
