//! `doctor --salvage`: reads what can be read of a corrupt state into a new one, and says what is
//! lost. It never changes the corrupt one.

use std::path::Path;

use serde_json::json;

use crate::model::refusal::Exit;
use crate::model::text::quote_word;
use crate::output::{Answer, Name};
use crate::store::salvage_state;

use crate::commands::{Context, Quit};

/// Salvages a state; exit code 1 if something is lost.
pub fn salvage_and_report(context: &Context, from: &Path, to: &Path) -> anyhow::Result<()> {
    let tables = salvage_state(from, to, context.lock_wait())?;
    let is_whole = tables.iter().all(|table| table.losses.is_empty());
    let mut entries = Vec::new();
    for table in tables {
        let lost = table.losses.join("; ");
        entries.push(context.entry(
            Some(Name::plain(&*table.name)),
            || {
                let rows = table.rows.to_string();
                vec![("table", table.name.clone()), ("rows", rows), ("lost", lost.clone())]
            },
            || json!({"table": table.name, "rows": table.rows, "lost": table.losses}),
        ));
    }
    context.answer(Answer::list(entries))?;
    let state = quote_word(&to.display().to_string());
    context.hint_next(&format!(
        "poolctl --state {state} doctor --fix, then poolctl --state {state} plan"
    ));
    if is_whole { Ok(()) } else { Err(Quit(Exit::Failed as u8).into()) }
}
