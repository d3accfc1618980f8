//! `get -w`: shows objects, and then those that change, until it is interrupted.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::output;
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
    for (at, object) in found.iter().enumerate() {
        let document = object.to_wire();
        let old = seen.documents.insert((kind, object.key()), document.clone());
        if old.as_ref() != Some(&document) {
            news.push((at, document));
        }
    }
    let there = |key: &Key| found.iter().any(|one| one.key() == *key);
    let gone: Vec<(Kind, Key)> =
        seen.documents.keys().filter(|(of, key)| *of == kind && !there(key)).cloned().collect();
    for one in gone {
        context.hint(&format!("{}/{} is gone", kind.word(), one.1.name));
        seen.documents.remove(&one);
    }
    let format = &context.globals.output;
    if format.whole() {
        for (_, document) in &news {
            context.print(&output::document_text(format, document)?)?;
        }
        return Ok(());
    }
    if news.is_empty() {
        return Ok(());
    }
    // Of the whole table, so that columns stay where they are.
    let text = get.text(context, store, kind, found)?;
    let lines: Vec<&str> = text.lines().collect();
    let header = lines.len() - found.len();
    let heading = lines.iter().take(if seen.headed.insert(kind) { header } else { 0 });
    let rows = news.iter().filter_map(|(at, _)| lines.get(header + at));
    let shown: Vec<String> = heading.chain(rows).map(|line| (*line).to_owned()).collect();
    context.print(&output::joined(&shown))
}
