//! `plan`: what a pass would do.

use anyhow::bail;
use clap::Args;
use serde_json::json;

use crate::causes::describe_shortage;
use crate::model::kinds::Kind;
use crate::model::pool::{ClusterPool, PAUSED, REFRESH};
use crate::model::refusal::Exit;
use crate::model::state::{Scope, State};
use crate::output::{self, Answer, DifferenceLine, Name, joined};
use crate::plan;

use crate::commands::{Context, Quit, Verb};

#[derive(Args)]
pub struct Plan {
    /// Only this pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
}

impl Verb for Plan {
    const NAME: &'static str = "plan";
    const ABOUT: &'static str = "Show what a pass would change; exit 10 when there is anything";
    const EXAMPLE: &'static str = "poolctl plan";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let scope = match &self.pool {
            Some(name) => Scope::pool(context.find::<ClusterPool>(&store, name)?.key()),
            None => Scope::Whole,
        };
        let state = context.door(&store).preview(&scope)?;
        let mut notes: Vec<DifferenceLine> =
            state.pools.rows().filter_map(|pool| stale(&state, pool)).collect();
        notes.extend(state.pools.rows().filter_map(short));
        context.answer(answer(output::difference_lines(&state), notes))?;
        if state.is_unchanged() {
            context.hint("nothing to do");
            return Ok(());
        }
        bail!(Quit(Exit::Changes as u8))
    }
}

/// What a pass would change, line by line, and what is worth knowing beside that.
pub fn answer(changes: Vec<DifferenceLine>, notes: Vec<DifferenceLine>) -> Answer {
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for change in changes {
        names.extend(change.name);
        texts.push(change.text);
    }
    let notes: Vec<String> = notes.into_iter().map(|note| note.text).collect();
    let document = json!({"changes": texts, "notes": notes});
    let lines = [texts, notes].concat();
    Answer::text(joined(&lines)).with_names(names).with_document(document)
}

/// Why a pool has not the clusters that it should have: `1 of 2 clusters: needs 3 agents; 2 free`.
fn short(pool: &ClusterPool) -> Option<DifferenceLine> {
    let waits = pool.metadata.deletion_timestamp.is_some() || pool.metadata.annotated(PAUSED);
    let why = describe_shortage(pool).filter(|_| !waits)?;
    let wanted = pool.spec.size.saturating_add(pool.status.pending);
    let name = Name::of(Kind::ClusterPool, &pool.key());
    let has = pool.status.size;
    let text = format!("{name}: {has} of {wanted} clusters: {}", output::clean(&why));
    Some(DifferenceLine::new(name, text))
}

/// What becomes of a pool's clusters of an older version: `3 stale, would replace lab-x now`.
fn stale(state: &State, pool: &ClusterPool) -> Option<DifferenceLine> {
    let key = pool.key();
    let goes = state
        .events
        .iter()
        .filter(|(event, owner)| owner.as_deref() == Some(&key) && event.reason == plan::STALE);
    let goes = goes.map(|(event, _)| event.object.name.as_str());
    let (goes, status): (Vec<&str>, _) = (goes.collect(), &pool.status);
    let many = usize::try_from(status.stale).unwrap_or(usize::MAX).saturating_add(goes.len());
    if many == 0 {
        return None;
    }
    let then = if !goes.is_empty() {
        format!("would replace {} now", goes.join(", "))
    } else if pool.metadata.annotation(REFRESH) == Some("none") {
        format!("left as they are: {REFRESH} is none")
    } else {
        format!(
            "the next goes when the pool is steady ({} installing, {} deprovisioning, {} claims wait)",
            status.installing, status.deleting, status.pending
        )
    };
    let name = Name::of(Kind::ClusterPool, &key);
    let text = format!("{name}: {many} stale, {then}");
    Some(DifferenceLine::new(name, text))
}
