//! Events that edits leave: who did what with which object.

use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::State;
use crate::model::tick::Tick;

/// Records what somebody did with an object.
pub fn record_event(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    object: Key,
    reason: EventReason,
    message: &str,
) {
    state.event(make_event(tick, kind, object, reason, message));
}

/// Records what went wrong.
pub fn record_warning(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    object: Key,
    reason: EventReason,
    message: &str,
) {
    state.event(Event { warning: true, ..make_event(tick, kind, object, reason, message) });
}

fn make_event(tick: &Tick, kind: Kind, object: Key, reason: EventReason, message: &str) -> Event {
    Event {
        time: tick.now,
        reason: reason.into(),
        kind: kind.name(),
        object,
        actor: tick.actor.clone(),
        message: message.to_owned(),
        ..Event::default()
    }
}

/// The claim behind an object, and its owner, if that is somebody else.
pub fn other_owner(state: &State, kind: Kind, key: &Key, tick: &Tick) -> Option<(Key, String)> {
    let claim = match kind {
        Kind::ClusterClaim => key.clone(),
        Kind::ClusterDeployment => state.clusters.get(state.cluster(&key.name)?)?.claim_key()?,
        _ => return None,
    };
    let owner = &state.claims.by_key(&claim)?.owner;
    (!owner.is_empty() && *owner != tick.actor).then(|| (claim, owner.clone()))
}

/// Records what somebody did with an object; if it is a cluster that another has claimed, on the
/// claim too.
pub fn record_deed(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    key: &Key,
    reason: EventReason,
    text: &str,
) {
    let claim_and_owner = other_owner(state, kind, key, tick);
    record_event(state, tick, kind, key.clone(), reason, text);
    if kind == Kind::ClusterDeployment
        && let Some((claim, _)) = claim_and_owner
    {
        let text = format!("Its cluster {}: {text}", key.name);
        record_event(state, tick, Kind::ClusterClaim, claim, reason, &text);
    }
}
