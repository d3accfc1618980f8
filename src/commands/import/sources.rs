//! `import --from`: adds to a state what other tools keep, or what a table lists. The state may have
//! objects already. It adds everything or nothing, and runs no pass.

use clap::ValueEnum;
use serde_json::json;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Name};
use crate::reconcile::Door;
use crate::rules;
use crate::store::NeededObject;

use crate::commands::Context;

/// Where clusters, or places for clusters, are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// A folder of kcli: ~/.kcli, ~/.kcli/clusters, or the folder of a cluster
    Kcli,
    /// A CSV file with a line for each cluster slot: name, apiVIP, ingressVIP, hosts, secret, labels
    Csv,
}

/// What is done with what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Add,
    /// It is only said what would be added.
    Check,
}

/// An object that was read, and what becomes of it.
pub struct AddedObject {
    pub kind: Kind,
    pub key: Key,
    pub result: String,
}

impl AddedObject {
    /// What became of an object: `result` is a word that the table shows, such as `created`.
    pub fn new(kind: Kind, key: Key, result: impl Into<String>) -> Self {
        Self { kind, key, result: result.into() }
    }
}

/// Adds objects by an edit, and answers what became of each. A check edits a copy in memory.
/// Returns the state with them. `needs` are the objects that the edit looks for.
pub fn add_objects(
    context: &Context,
    needs: &[NeededObject],
    intent: Intent,
    edit: impl FnOnce(&mut State, &Tick) -> Result<Vec<AddedObject>, Refusal>,
) -> anyhow::Result<State> {
    let (added_objects, state) = match intent {
        Intent::Check => rehearse_edit(context, needs, edit)?,
        Intent::Add => {
            let store = context.open_or_create_state()?;
            let door = Door { store: &store, world: &context.world, plans_changes: false };
            let (added_objects, passed) = door.change(&Scope::Whole, needs, edit)?;
            context.report_pass(&passed)?;
            (added_objects, passed.state)
        }
    };
    for AddedObject { kind, key, result } in &added_objects {
        match intent {
            Intent::Add => context.report_change(*kind, key, result)?,
            Intent::Check => context.answer(check_answer(*kind, key, result))?,
        }
    }
    match intent {
        Intent::Add => context.hint_next("poolctl plan, then poolctl reconcile"),
        Intent::Check => {
            context.hint("nothing is imported yet; the same command without --check imports it");
        }
    }
    Ok(state)
}

/// Edits a copy of the state in memory, or an empty one if there is no state.
fn rehearse_edit(
    context: &Context,
    needs: &[NeededObject],
    edit: impl FnOnce(&mut State, &Tick) -> Result<Vec<AddedObject>, Refusal>,
) -> Result<(Vec<AddedObject>, State), Refusal> {
    let store = match context.open_existing_state() {
        Err(absent) if absent.exit == Exit::NotFound => None,
        store => Some(store?),
    };
    let (mut state, tick) = match &store {
        Some(store) => context.door(store).load_for_dry_run(&Scope::Whole, needs)?,
        None => Default::default(),
    };
    let added_objects = edit(&mut state, &tick)?;
    if let Some(store) = &store {
        store.load_references(&Scope::Whole, &mut state)?;
    }
    rules::check_invariants(&state)?;
    Ok((added_objects, state))
}

/// What the answer of a check says of an object.
fn check_answer(kind: Kind, key: &Key, result: &str) -> Answer {
    let name = Name::of(kind, key);
    let document = json!({
        "kind": kind.name(),
        "namespace": key.namespace,
        "name": key.name,
        "result": result,
    });
    Answer::text(format!("{name} {result} (check)\n")).with_name(name).with_document(document)
}
