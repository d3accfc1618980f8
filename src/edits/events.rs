//! Events that edits leave: who did what with which object.

use crate::model::event::Event;
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
    reason: &str,
    message: &str,
) {
    event(state, tick, false, (kind, object), reason, message);
}

/// Records what went wrong.
pub fn record_warning(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    object: Key,
    reason: &str,
    message: &str,
) {
    event(state, tick, true, (kind, object), reason, message);
}

fn event(
    state: &mut State,
    tick: &Tick,
    warning: bool,
    (kind, object): (Kind, Key),
    reason: &str,
    message: &str,
) {
    let (kind, reason, message) = (kind.name(), reason.to_owned(), message.to_owned());
    let (time, actor) = (tick.now, tick.actor.clone());
    state.event(Event { time, warning, reason, kind, object, actor, message, ..Event::default() });
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

/// Says what somebody did with an object; with another's cluster, at the claim too.
pub fn record_deed(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    key: &Key,
    reason: &str,
    text: &str,
) {
    let behind = other_owner(state, kind, key, tick).filter(|_| kind == Kind::ClusterDeployment);
    record_event(state, tick, kind, key.clone(), reason, text);
    if let Some((claim, _)) = behind {
        let text = format!("Its cluster {}: {text}", key.name);
        record_event(state, tick, Kind::ClusterClaim, claim, reason, &text);
    }
}
