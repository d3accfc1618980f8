//! `events`: lists what happened, to the whole state or to one object, and with `-f` goes on.

use clap::Args;
use serde_json::Value;

use crate::model::event::Event;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::document_with_kind;
use crate::model::time::{Span, Time};
use crate::output::{self, Answer, CellTones, Colors, Entry, Name, event_row};
use crate::store::Store;

use crate::commands::{Audience, Context, RunCommand, target};

/// How often `--follow` looks for new events.
const FOLLOW_INTERVAL: Span = Span(200_000);
/// The most events that are listed.
const MAX_EVENTS: usize = 1000;

/// Arguments of `events`.
#[derive(Args)]
pub struct Events {
    /// Object whose events are shown, such as pool/lab; by default all events
    #[arg(value_name = "KIND/NAME")]
    object: Option<String>,
    /// The same as KIND/NAME
    #[arg(long = "for", value_name = "KIND/NAME", conflicts_with = "object")]
    about: Option<String>,
    /// Only events of these types: Normal, Warning
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Only events of the last time, such as 2h
    #[arg(long, value_name = "DURATION")]
    since: Option<Span>,
    /// Keep running and show new events
    #[arg(short, long, visible_short_alias = 'w', visible_alias = "watch")]
    follow: bool,
}

impl RunCommand for Events {
    const NAME: &'static str = "events";
    const ABOUT: &'static str = "Show events, oldest first";
    const EXAMPLE: &'static str = "poolctl events pool/lab";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let asked_object = self.object.as_deref().or(self.about.as_deref());
        let named_object = match asked_object.map(target::parse_kind_and_name).transpose()? {
            Some((kind, name)) => Some((kind, context.find_key(&store, kind, &name)?)),
            None => None,
        };
        let object = named_object.as_ref().map(|(kind, key)| (*kind, key));
        if self.follow || object.is_none() {
            context.check_command_access("events", Audience::Owner)?;
        }
        let mut since = Time::default();
        if context.guest().is_some()
            && let Some((kind, key)) = object
        {
            since = context.visible_since(&context.find_object(&store, kind, &key.name)?);
        }
        store.begin_read()?;
        let mut events = store.list_events(object, MAX_EVENTS)?;
        let last_id = store.last_event_number()?;
        store.rollback();
        if events.len() == MAX_EVENTS {
            context.hint(&format!("only the last {MAX_EVENTS} events are shown"));
        }
        let now = context.world.now();
        events.retain(|event| event.time >= since && self.is_wanted(event, now));
        events.reverse();
        if events.is_empty() && context.is_for_people() {
            context.hint("no events");
        }
        let answer = Answer::list(event_entries(context, &events));
        context.answer(color_types(context, answer, &events))?;
        if !self.follow {
            return Ok(());
        }
        // The list ends here: new events are documents of their own.
        context.print_documents()?;
        self.follow_events(context, &store, object, last_id)
    }
}

impl Events {
    /// Whether an event is of the wanted types and not older than wanted.
    fn is_wanted(&self, event: &Event, now: Time) -> bool {
        let document = event_document(event);
        let event_type = document["type"].as_str().unwrap_or_default();
        let has_type = self.types.is_empty()
            || self.types.iter().any(|wanted| wanted.eq_ignore_ascii_case(event_type));
        has_type && self.since.is_none_or(|span| now.since(event.time) <= span)
    }

    /// Prints new events after they are committed, until the command is interrupted.
    fn follow_events(
        &self,
        context: &Context,
        store: &Store,
        object: Option<(Kind, &Key)>,
        mut last_id: i64,
    ) -> anyhow::Result<()> {
        loop {
            context.world.sleep(FOLLOW_INTERVAL);
            let mut events;
            (events, last_id) = store.events_after(last_id)?;
            let now = context.world.now();
            events.retain(|event| {
                self.is_wanted(event, now)
                    && object.is_none_or(|(kind, key)| is_about(event, kind, key))
            });
            let answer = Answer::list(event_entries(context, &events));
            let answer = color_types(context, answer, &events);
            context.answer(answer.without_headers().streamed())?;
        }
    }
}

/// Whether an event is about an object, or about a host that belongs to it.
fn is_about(event: &Event, kind: Kind, key: &Key) -> bool {
    let owner = match kind {
        Kind::InfraEnv => event.infra_env.as_ref(),
        Kind::ClusterDeployment => event.cluster.as_ref(),
        _ => None,
    };
    (event.kind == kind.name() && is_same_object(kind, &event.object, key))
        || owner.is_some_and(|owner| is_same_object(kind, owner, key))
}

/// Whether two keys name the same object. The name of a cluster is unique in all namespaces.
fn is_same_object(kind: Kind, left: &Key, right: &Key) -> bool {
    left.name == right.name
        && (kind == Kind::ClusterDeployment || left.namespace == right.namespace)
}

/// Colours the types of events, where colours are wanted.
fn color_types(context: &Context, answer: Answer, events: &[Event]) -> Answer {
    if context.colors() == Colors::Plain {
        return answer;
    }
    let tones: Vec<CellTones> = events.iter().map(output::event_tones).collect();
    answer.with_tones(&tones)
}

/// Events as they are listed, each with the name of its object.
pub fn event_entries(context: &Context, events: &[Event]) -> Vec<Entry> {
    let now = context.world.now();
    let mut entries = Vec::new();
    for event in events {
        let name = Kind::from_name(event.kind).map(|kind| Name::of(kind, &event.object));
        entries.push(context.entry(name, || event_table_row(event, now), || event_document(event)));
    }
    entries
}

/// An event for people.
pub fn event_table_row(event: &Event, now: Time) -> output::Row {
    let word = Kind::from_name(event.kind).map_or("object", Kind::word);
    event_row(event, now, word)
}

/// An event for programs, as the wire has it.
pub fn event_document(event: &Event) -> Value {
    document_with_kind(Kind::Event, &event.to_wire())
}
