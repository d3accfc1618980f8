//! `get -w`: shows objects, and then those that change, until it is interrupted.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::output::Answer;
use crate::store::Store;

use crate::commands::Context;
use crate::commands::get::Get;

/// How often the state is asked whether anything was committed.
const LOOK: Span = Span(200_000);

/// What was shown already.
#[derive(Default)]
struct Seen {
    documents: HashMap<(Kind, Key), Value>,
    /// Kinds whose header stands above.
    headed: HashSet<Kind>,
}

pub fn follow(
    context: &Context,
    store: &Store,
    get: &Get,
    wanted: &[(Kind, Vec<String>)],
) -> anyhow::Result<()> {
    if wanted.iter().any(|(kind, _)| matches!(kind, Kind::Job | Kind::Event)) {
        return Err(Refusal::usage("jobs and events cannot be watched")
            .next("poolctl events -f")
            .into());
    }
    let mut seen = Seen::default();
    let (mut revision, mut first) = (None, true);
    loop {
        let now = store.mark()?.0;
        if revision.replace(now) != Some(now) {
            for (kind, names) in wanted {
                // What was there once may go.
                let found = get.find(context, store, *kind, names, !first)?;
                show(context, store, get, *kind, &found, &mut seen)?;
            }
            first = false;
        }
        context.world.pause(LOOK);
    }
}

fn show(
    context: &Context,
    store: &Store,
    get: &Get,
    kind: Kind,
    found: &[Object],
    seen: &mut Seen,
) -> anyhow::Result<()> {
    let mut news = Vec::new();
    for (index, object) in found.iter().enumerate() {
        let document = object.to_wire();
        let old = seen.documents.insert((kind, object.key()), document.clone());
        if old.as_ref() != Some(&document) {
            news.push(index);
        }
    }
    let there = |key: &Key| found.iter().any(|one| one.key() == *key);
    let gone: Vec<(Kind, Key)> =
        seen.documents.keys().filter(|(of, key)| *of == kind && !there(key)).cloned().collect();
    for one in gone {
        context.hint(&format!("{}/{} is gone", kind.word(), one.1.name));
        seen.documents.remove(&one);
    }
    if news.is_empty() {
        return Ok(());
    }
    // Of the whole table, so that columns stay where they are.
    let entries = get.entries(context, store, kind, found)?;
    let headers = seen.headed.insert(kind) && !get.no_headers;
    context.answer(Answer::some_of(entries, &news).with_headers(headers).streamed())
}
