//! Records in events who did what with which object. Never changes the object.

use crate::model::event::{Event, EventType};
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
    state.record_event(make_event(tick, kind, object, reason, message));
}

/// Records that an object was made, and of a claim which pool it asks for a cluster.
pub fn record_creation(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    object: Key,
    pool_of_claim: Option<Key>,
) {
    let message = match &pool_of_claim {
        Some(pool) => format!("Asks for a cluster of pool {}", pool.name),
        None => "Created".to_owned(),
    };
    let event = make_event(tick, kind, object, EventReason::Created, &message);
    state.record_event(Event { pool: pool_of_claim, ..event });
}

/// Records something that went wrong with an object.
pub fn record_warning(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    object: Key,
    reason: EventReason,
    message: &str,
) {
    let event = make_event(tick, kind, object, reason, message);
    state.record_event(Event { event_type: EventType::Warning, ..event });
}

/// A normal event of the user who acts, at the time of the tick. The caller records it.
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

/// The claim that an object is or that a cluster is assigned to, and the owner of that claim. None
/// if the owner is the user who acts now.
pub fn find_other_owner(
    state: &State,
    kind: Kind,
    key: &Key,
    tick: &Tick,
) -> Option<(Key, String)> {
    let claim_key = match kind {
        Kind::ClusterClaim => key.clone(),
        Kind::ClusterDeployment => {
            state.clusters.get(state.find_cluster(&key.name)?)?.claim_key()?
        }
        _ => return None,
    };
    let owner = &state.claims.by_key(&claim_key)?.owner;
    if owner.is_empty() || *owner == tick.actor {
        return None;
    }
    Some((claim_key, owner.clone()))
}

/// Records what somebody did with an object. If it is a cluster that somebody else has claimed, the
/// claim gets an event, too.
pub fn record_action(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    key: &Key,
    reason: EventReason,
    message: &str,
) {
    let claim_and_owner = find_other_owner(state, kind, key, tick);
    record_event(state, tick, kind, key.clone(), reason, message);
    if kind == Kind::ClusterDeployment
        && let Some((claim_key, _)) = claim_and_owner
    {
        let message = format!("Its cluster {}: {message}", key.name);
        record_event(state, tick, Kind::ClusterClaim, claim_key, reason, &message);
    }
}
