//! Writes down that a host was not bound or unbound, after the refusal and apart from it, for
//! whoever looks after the host.

use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::plan::agents;
use crate::reconcile::Door;
use crate::store::{Need, Store};

use crate::commands::Context;

pub const BIND_FAILED: EventReason = EventReason::HostBindFailed;
pub const UNBIND_FAILED: EventReason = EventReason::HostUnbindFailed;
/// The most that is written of a host within an hour, and how far back that is looked for.
const REFUSALS: usize = 20;
const LOOKED_AT: usize = 200;

/// A host that was refused, and why.
pub struct Refused {
    key: Key,
    why: String,
}

impl Refused {
    pub fn new(key: &Key, why: &str) -> Self {
        Self { key: key.clone(), why: why.to_owned() }
    }
}

/// `cluster`: the one that it was to be bound to. The same is written once a day.
pub fn note(
    context: &Context,
    store: &Store,
    (reason, cluster): (EventReason, Option<&Key>),
    all: &[Refused],
) -> Result<(), Refusal> {
    if all.is_empty() {
        return Ok(());
    }
    let door = Door { store, world: &context.world, pass: false };
    let need = |one: &Refused| Need { kind: Kind::Agent, key: one.key.clone() };
    let needs: Vec<Need> = all.iter().map(need).collect();
    door.change(&Scope::Pools(Vec::new()), &needs, |state, tick| {
        for one in all {
            let text = match cluster {
                Some(cluster) => format!(
                    "Failed to bind host {} to cluster {}: {}",
                    one.key.name, cluster.name, one.why
                ),
                None => format!("Failed to unbind host {} to cluster: {}", one.key.name, one.why),
            };
            if !is_enough(store, (reason, &one.key), &text, tick)? {
                write(state, (reason, &one.key), cluster, text, tick);
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn is_enough(
    store: &Store,
    (reason, key): (EventReason, &Key),
    text: &str,
    tick: &Tick,
) -> Result<bool, Refusal> {
    let known = store.events(Some((Kind::Agent, key)), LOOKED_AT)?;
    let lately = |within: Span| {
        let failures = known.iter().filter(move |one| one.reason == reason);
        failures.filter(move |one| tick.now.since(one.time) < within)
    };
    let again = lately(Span::hours(24)).any(|one| one.message == text);
    Ok(again || lately(Span::hours(1)).count() >= REFUSALS)
}

fn write(
    state: &mut State,
    (reason, key): (EventReason, &Key),
    cluster: Option<&Key>,
    text: String,
    tick: &Tick,
) {
    let Some(agent) = state.agents.by_key(key) else { return };
    let event = agents::about(agent, reason, true, text, &tick.actor, tick);
    let cluster = cluster.cloned().or_else(|| event.cluster.clone());
    state.event(Event { cluster, ..event });
}
