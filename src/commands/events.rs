//! `events`.

use clap::Args;
use serde_json::Value;

use crate::model::event::Event;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::wired;
use crate::model::time::{Span, Time};
use crate::output::{self, Answer, Entry, Name, event_row};
use crate::store::Store;

use crate::commands::{Context, Verb, target};

/// How often new ones are looked for.
const LOOK: Span = Span(200_000);
/// More than anybody reads at once.
const MOST: usize = 1000;

#[derive(Args)]
pub struct Events {
    /// Only of this object
    #[arg(value_name = "KIND/NAME")]
    object: Option<String>,
    /// Go on, and show what happens
    #[arg(short, long)]
    follow: bool,
}

impl Verb for Events {
    const NAME: &'static str = "events";
    const ABOUT: &'static str = "Show what happened, oldest first";
    const EXAMPLE: &'static str = "poolctl events pool/lab";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let of = self.object.as_deref().map(target::slashed).transpose()?;
        let of = match of {
            Some((kind, name)) => Some((kind, context.key(kind, &name)?)),
            None => None,
        };
        let mut since = Time::default();
        if self.follow || of.is_none() {
            context.admit("events", false)?;
        }
        if let Some((kind, key)) = of.as_ref().filter(|_| context.guest().is_some()) {
            since = context.since(&context.find_object(&store, *kind, &key.name)?);
        }
        let of = of.as_ref().map(|(kind, key)| (*kind, key));
        store.begin_read()?;
        let mut events = store.events(of, MOST)?;
        let last = store.last_event()?;
        store.rollback();
        if events.len() == MOST {
            context.hint(&format!("only the last {MOST} are shown"));
        }
        events.retain(|one| one.time >= since);
        events.reverse();
        if events.is_empty() && context.is_for_people() {
            context.hint("no events");
        }
        context.answer(Answer::list(entries(context, &events)))?;
        if !self.follow {
            return Ok(());
        }
        // What comes later is no part of this list.
        context.conclude()?;
        follow(context, &store, of, last)
    }
}

/// New events as they are committed, until it is interrupted.
fn follow(
    context: &Context,
    store: &Store,
    of: Option<(Kind, &Key)>,
    mut last: i64,
) -> anyhow::Result<()> {
    loop {
        context.world.pause(LOOK);
        let mut events;
        (events, last) = store.events_after(last)?;
        events.retain(|one| of.is_none_or(|(kind, key)| is_of(one, kind, key)));
        let answer = Answer::list(entries(context, &events));
        context.answer(answer.with_headers(false).streamed())?;
    }
}

/// Whether an event is an object's own, or of a host that belongs to it.
fn is_of(one: &Event, kind: Kind, key: &Key) -> bool {
    // A cluster's name is unique over the state.
    let anywhere = kind == Kind::ClusterDeployment;
    let is = |other: &Key| other.name == key.name && (anywhere || other.namespace == key.namespace);
    let whose = match kind {
        Kind::InfraEnv => one.infra_env.as_ref(),
        Kind::ClusterDeployment => one.cluster.as_ref(),
        _ => None,
    };
    (one.kind == kind.name() && is(&one.object)) || whose.is_some_and(is)
}

/// Events as they are listed, each by the name of its object.
pub fn entries(context: &Context, events: &[Event]) -> Vec<Entry> {
    let now = context.world.now();
    let entry = |event: &Event| {
        let name = Kind::from_name(event.kind).map(|kind| Name::of(kind, &event.object));
        context.entry(name, || row(event, now), || document(event))
    };
    events.iter().map(entry).collect()
}

pub fn row(one: &Event, now: Time) -> output::Row {
    let word = Kind::from_name(one.kind).map_or("object", Kind::word);
    event_row(one, now, word)
}

pub fn document(one: &Event) -> Value {
    wired(Kind::Event, &one.to_wire())
}
