//! `get -w`: shows objects, and then each that changes, until it is interrupted. It only reads.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::output::{self, Answer, Entry, Row};
use crate::store::Store;

use crate::commands::Context;
use crate::commands::get::{self, Get};

/// How often the state is asked whether anything was committed: five times a second.
const POLL_INTERVAL: Span = Span(200_000);

/// The column that a kind without states gets when an object of it is deleted.
const DELETION_COLUMN: &str = "state";

/// What was shown already.
#[derive(Default)]
struct Shown {
    documents: HashMap<(Kind, Key), Value>,
    /// The columns of each kind whose line of headers was printed.
    columns: HashMap<Kind, Vec<&'static str>>,
}

/// Shows the objects of the wanted kinds and names whenever they change. It never returns by
/// itself, except with a refusal.
pub fn watch_objects(
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
    let mut shown = Shown::default();
    let mut last_revision = None;
    loop {
        let revision = store.read_revision()?;
        if last_revision != Some(revision) {
            // A named object must exist when the watch begins; afterwards it may be deleted.
            let may_be_missing = last_revision.is_some();
            for (kind, names) in wanted {
                let objects = get.find_objects(context, store, *kind, names, may_be_missing)?;
                let changed_indexes = take_changes(context, *kind, &objects, &mut shown);
                let is_told = last_revision.is_some() || !get.watch_only;
                if is_told && !changed_indexes.is_empty() {
                    show_changes(
                        context,
                        store,
                        get,
                        *kind,
                        &objects,
                        &changed_indexes,
                        &mut shown,
                    )?;
                }
            }
            last_revision = Some(revision);
        }
        context.world.sleep(POLL_INTERVAL);
    }
}

/// Takes the objects of a kind as shown, and hints at those that are gone. Returns the indexes of
/// those that were not shown so before.
fn take_changes(
    context: &Context,
    kind: Kind,
    objects: &[Object],
    shown: &mut Shown,
) -> Vec<usize> {
    let mut changed_indexes = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let document = object.to_wire();
        let shown_before = shown.documents.insert((kind, object.key()), document.clone());
        if shown_before.as_ref() != Some(&document) {
            changed_indexes.push(index);
        }
    }
    let keys: HashSet<Key> = objects.iter().map(Object::key).collect();
    shown.documents.retain(|(shown_kind, key), _| {
        let is_deleted = *shown_kind == kind && !keys.contains(key);
        if is_deleted {
            context.hint(&format!("{}/{} is gone", kind.word(), key.name));
        }
        !is_deleted
    });
    changed_indexes
}

/// Shows the objects of a kind at these indexes.
fn show_changes(
    context: &Context,
    store: &Store,
    get: &Get,
    kind: Kind,
    objects: &[Object],
    changed_indexes: &[usize],
    shown: &mut Shown,
) -> anyhow::Result<()> {
    // Columns are as wide as those of the whole table, so that they stay where they are. A longer
    // name makes them wider, as with kubectl, but no column is ever dropped.
    let mut entries = get.object_entries(context, store, kind, objects)?;
    let last_columns = shown.columns.get(&kind);
    let columns = columns_of(context, get, &entries, last_columns);
    let has_same_columns = last_columns == Some(&columns);
    for entry in &mut entries {
        entry.row.retain(|(name, _)| columns.contains(name));
    }
    shown.columns.insert(kind, columns);
    let answer = Answer::partial_list(entries, changed_indexes).streamed();
    let mut answer = get::color_states(context, answer, objects);
    if get.no_headers || has_same_columns {
        answer = answer.without_headers();
    }
    context.answer(answer)
}

/// The columns that the table of these entries has: those that were shown before, and those that
/// came with a deletion, which no object had when the watch began.
fn columns_of(
    context: &Context,
    get: &Get,
    entries: &[Entry],
    last_columns: Option<&Vec<&'static str>>,
) -> Vec<&'static str> {
    let rows: Vec<Row> = entries.iter().map(|entry| entry.row.clone()).collect();
    let mut columns: Vec<&'static str> =
        rows.first().into_iter().flatten().map(|(column, _)| *column).collect();
    if context.globals.output.is_wide() {
        return columns;
    }
    let fitting_columns = output::fitting_columns(&rows, get.layout(context));
    columns.retain(|column| match last_columns {
        Some(shown_columns) => shown_columns.contains(column) || *column == DELETION_COLUMN,
        None => fitting_columns.contains(column),
    });
    columns
}
