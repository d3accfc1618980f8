//! `events`.

use clap::Args;
use serde_json::{Value, json};

use crate::model::event::Event;
use crate::model::kind::Kind;
use crate::output::{self, event_row};

use super::{Context, Verb, target};

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
        let of = self.object.as_deref().map(target::slashed).transpose()?;
        let of = match of {
            Some((kind, name)) => Some((kind, context.key(kind, &name)?)),
            None => None,
        };
        let of = of.as_ref().map(|(kind, key)| (*kind, key));
        let mut events = store.events(of, MOST)?;
        if events.len() == MOST {
            context.hint(&format!("only the last {MOST} are shown"));
        }
        events.reverse();
        show(context, &events)
    }
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
