//! `events`.

use clap::Args;
use serde_json::{Value, json};

use crate::model::event::Event;
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::output::{self, event_row};

use super::{Context, Verb, suggest};

/// More than anybody reads at once.
const MOST: usize = 1000;

#[derive(Args)]
pub struct Events {
    /// Only of this object
    #[arg(value_name = "KIND/NAME")]
    object: Option<String>,
}

impl Verb for Events {
    const NAME: &'static str = "events";
    const ABOUT: &'static str = "Show what happened, oldest first";
    const EXAMPLE: &'static str = "poolctl events pool/lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let of = self.object.as_deref().map(|text| parse(context, text)).transpose()?;
        let of = of.as_ref().map(|(kind, key)| (*kind, key));
        let mut events = store.events(of, MOST)?;
        events.reverse();
        show(context, &events)
    }
}

/// `pool/lab`.
pub fn parse(context: &Context, text: &str) -> Result<(Kind, Key), Refusal> {
    let Some((kind, name)) = text.split_once('/') else {
        return Err(
            Refusal::usage(format!("`{text}` is not KIND/NAME")).next("poolctl events pool/lab")
        );
    };
    let kind = kind_of(kind)?;
    Ok((kind, context.key(kind, name)?))
}

pub fn kind_of(word: &str) -> Result<Kind, Refusal> {
    Kind::from_word(word).ok_or_else(|| {
        let refusal = Refusal::usage(format!("there is no kind `{word}`"));
        match suggest(word, Kind::all_words()) {
            Some(hint) => refusal.because(hint),
            None => refusal.because(format!("kinds are {}", Kind::ALL.map(Kind::word).join(", "))),
        }
    })
}

pub fn show(context: &Context, events: &[Event]) -> anyhow::Result<()> {
    if context.globals.output.whole() {
        let documents = events.iter().map(document).collect();
        return context.print(&output::documents(&context.globals.output, documents, false)?);
    }
    if events.is_empty() {
        context.hint("no events");
    }
    let now = context.world.now();
    context.print(&output::render(&events.iter().map(|one| row(one, now)).collect::<Vec<_>>()))
}

pub fn row(one: &Event, now: crate::model::time::Time) -> output::Row {
    let word =
        Kind::ALL.into_iter().find(|kind| kind.name() == one.kind).map_or("object", Kind::word);
    event_row(one, now, word)
}

fn document(one: &Event) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "type": if one.warning { "Warning" } else { "Normal" },
        "reason": one.reason,
        "message": one.message,
        "involvedObject": {"kind": one.kind, "namespace": one.object.namespace, "name": one.object.name},
        "eventTime": one.time,
        "reportingComponent": "poolctl",
        "source": {"component": one.actor},
    })
}
