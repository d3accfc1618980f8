//! Records as events that machines were not bound or unbound, in a transaction of its own after the
//! refusal. Whoever looks after a machine finds them there; it never changes the machine.

use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::plan::agents;
use crate::reconcile::Door;
use crate::store::{NeededObject, Store};

use crate::commands::Context;

/// How many refusals of one reason are recorded of an object within an hour.
const MAX_EVENTS_PER_HOUR: usize = 20;
/// How many of the newest events of an object are searched for earlier refusals.
const SEARCHED_EVENTS: usize = 200;

/// What a command asked for its machines, in vain.
#[derive(Clone, Copy)]
pub enum RefusedChange<'a> {
    Bind { cluster: &'a Key },
    Unbind,
}

impl RefusedChange<'_> {
    fn reason(self) -> EventReason {
        match self {
            Self::Bind { .. } => EventReason::HostBindFailed,
            Self::Unbind => EventReason::HostUnbindFailed,
        }
    }

    fn message(self, refused: &Refused) -> String {
        let Refused { key, why } = refused;
        match self {
            Self::Bind { cluster } => {
                format!("Failed to bind host {} to cluster {}: {why}", key.name, cluster.name)
            }
            Self::Unbind => format!("Failed to unbind host {} to cluster: {why}", key.name),
        }
    }
}

/// A machine that was refused, and why.
pub struct Refused {
    pub key: Key,
    pub why: String,
}

impl Refused {
    /// The refusal of the agent with this key.
    pub fn new(key: &Key, why: &str) -> Self {
        Self { key: key.clone(), why: why.to_owned() }
    }
}

/// Records each refusal as an event of its machine. The same message is recorded once a day, and no
/// more than `MAX_EVENTS_PER_HOUR` of a machine, because a script may try again for ever.
pub fn record_refusals(
    context: &Context,
    store: &Store,
    change: RefusedChange<'_>,
    refused_agents: &[Refused],
) -> Result<(), Refusal> {
    if refused_agents.is_empty() {
        return Ok(());
    }
    let door = Door { store, world: &context.world, plans_changes: false };
    let needs: Vec<NeededObject> = refused_agents
        .iter()
        .map(|refused| NeededObject { kind: Kind::Agent, key: refused.key.clone() })
        .collect();
    door.change(&Scope::Pools(Vec::new()), &needs, |state, tick| {
        for refused in refused_agents {
            let message = change.message(refused);
            let object = (Kind::Agent, &refused.key);
            if !is_recorded_enough(store, object, change.reason(), &message, tick)? {
                record_refusal(state, &refused.key, change, message, tick);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Whether the same message was recorded of an object within a day, or many of its reason within an
/// hour. Whoever is refused can try for ever, and must not fill the state with events.
pub fn is_recorded_enough(
    store: &Store,
    object: (Kind, &Key),
    reason: EventReason,
    message: &str,
    tick: &Tick,
) -> Result<bool, Refusal> {
    let mut events = store.list_events(Some(object), SEARCHED_EVENTS)?;
    events.retain(|event| event.reason == reason);
    events.retain(|event| tick.now.since(event.time) < Span::hours(24));
    let is_repeated = events.iter().any(|event| event.message == message);
    let within_hour = events.iter().filter(|event| tick.now.since(event.time) < Span::hours(1));
    Ok(is_repeated || within_hour.count() >= MAX_EVENTS_PER_HOUR)
}

fn record_refusal(
    state: &mut State,
    agent_key: &Key,
    change: RefusedChange<'_>,
    message: String,
    tick: &Tick,
) {
    let Some(agent) = state.agents.by_key(agent_key) else { return };
    let warning = EventType::Warning;
    let event = agents::agent_event(agent, change.reason(), warning, message, &tick.actor, tick);
    let cluster = match change {
        RefusedChange::Bind { cluster } => Some(cluster.clone()),
        RefusedChange::Unbind => event.cluster.clone(),
    };
    state.record_event(Event { cluster, ..event });
}
