//! `plan`: shows what a pass would change, and why pools are not as they should be. It changes
//! nothing.

mod summary;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use crate::causes::{describe_installing, describe_shortage};
use crate::model::annotations::REFRESH;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::IpPool;
use crate::model::kinds::Kind;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Exit;
use crate::model::state::{Scope, State};
use crate::output::{self, Answer, DifferenceLine, Name, Style, Tone, join_lines};
use crate::plan;
use crate::reconcile::Notes;

use crate::commands::{Context, Quit, RunCommand, count_of};

/// Arguments of `plan`, which runs a pass without writing it.
#[derive(Args)]
pub struct Plan {
    /// Plan only this pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Also show what follows from the rest, such as counters and conditions
    #[arg(long)]
    full: bool,
}

impl RunCommand for Plan {
    const NAME: &'static str = "plan";
    const ABOUT: &'static str = "Show what the next pass would change; exit code 10 for changes";
    const EXAMPLE: &'static str = "poolctl plan";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let scope = match &self.pool {
            Some(name) => Scope::pool(context.find::<ClusterPool>(&store, name)?.key()),
            None => Scope::Whole,
        };
        let state = context.door(&store).preview_pass(&scope, Notes::Trust)?.0;
        let mut notes: Vec<DifferenceLine> =
            state.pools.rows().filter_map(|pool| note_stale_clusters(&state, pool)).collect();
        notes.extend(state.pools.rows().filter_map(|pool| note_shortage(&state, pool)));
        notes.extend(state.ip_pools.rows().filter_map(|pool| note_waiting_claims(&state, pool)));
        let changes = output::difference_lines(&state);
        let depth = if self.full { Depth::Full } else { Depth::Essential };
        let fit_line = choose_fit_line(context);
        if state.is_unchanged() {
            context.answer(plan_answer(
                NOTHING_TO_DO,
                changes,
                notes,
                depth,
                fit_line,
                context.style(),
            ))?;
            context.hint(NOTHING_TO_DO);
            return Ok(());
        }
        let summary = summary::summarize_changes(&state, &changes);
        let detail_count = changes.iter().filter(|change| change.is_detail).count();
        context.answer(plan_answer(&summary, changes, notes, depth, fit_line, context.style()))?;
        if detail_count > 0 && !self.full && context.is_for_people() {
            let lines = count_of(detail_count, "more line");
            context.hint(&format!("{lines}: poolctl plan --full"));
        }
        bail!(Quit(Exit::Changes as u8))
    }
}

/// What is said instead of a plan that changes nothing.
const NOTHING_TO_DO: &str = "nothing to do";

/// How much of a plan people see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Without the lines that follow from others.
    Essential,
    Full,
}

/// Fits a line into a terminal.
type FitLine = fn(&str) -> String;

/// How lines of a difference are fitted, as `-o` asks.
fn choose_fit_line(context: &Context) -> FitLine {
    if context.globals.output.is_wide() { keep_line } else { output::wrap_line }
}

/// For `-o wide`: a line stays one line.
fn keep_line(line: &str) -> String {
    line.to_owned()
}

/// What a pass would change for people: a summary, then lines, and notes below that. Programs get
/// every line.
fn plan_answer(
    summary: &str,
    changes: Vec<DifferenceLine>,
    notes: Vec<DifferenceLine>,
    depth: Depth,
    fit_line: FitLine,
    style: Style,
) -> Answer {
    let mut lines = Vec::new();
    if !changes.is_empty() {
        lines.push(paint_lines(style, Tone::Title, &fit_line(summary)));
    }
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for change in changes {
        if depth == Depth::Full || !change.is_detail {
            let line = fit_line(&change.text);
            // The first line about an object has its name.
            let is_first = change.name.is_some();
            lines.push(if is_first { paint_lines(style, Tone::Place, &line) } else { line });
        }
        names.extend(change.name);
        texts.push(change.text);
    }
    for note in &notes {
        lines.push(paint_lines(style, Tone::Waiting, &fit_line(&note.text)));
    }
    let notes: Vec<String> = notes.into_iter().map(|note| note.text).collect();
    let document = json!({"summary": summary, "changes": texts, "notes": notes});
    Answer::text(join_lines(&lines)).with_names(names).with_document(document)
}

/// A text that may have been broken, each of its lines in a colour.
fn paint_lines(style: Style, tone: Tone, text: &str) -> String {
    let painted_lines: Vec<String> = text.lines().map(|line| style.paint(tone, line)).collect();
    painted_lines.join("\n")
}

/// What a pass would change, line by line.
pub fn changes_answer(context: &Context, changes: Vec<DifferenceLine>) -> Answer {
    let fit_line = choose_fit_line(context);
    let mut lines = Vec::new();
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for change in changes {
        lines.push(fit_line(&change.text));
        names.extend(change.name);
        texts.push(change.text);
    }
    let document = json!({"changes": texts, "notes": []});
    Answer::text(join_lines(&lines)).with_names(names).with_document(document)
}

/// Why a pool lacks clusters that it should have: `1 of 2 clusters: needs 3 agents; 2 free`.
fn note_shortage(state: &State, pool: &ClusterPool) -> Option<DifferenceLine> {
    let shortage = describe_shortage(state, pool)?;
    let wanted_count = pool.spec.size.saturating_add(pool.status.pending);
    let count = pool.status.size;
    let name = Name::of(Kind::ClusterPool, &pool.key());
    let wanted = count_of(usize::try_from(wanted_count).unwrap_or(usize::MAX), "cluster");
    let line = format!("{name}: {count} of {wanted}: {}", output::clean_line(&shortage));
    Some(DifferenceLine::new(name, line))
}

/// Whether a claim without an address waits for one of a pool: of its own namespace, or of one that
/// is shared with it.
fn means_pool(state: &State, lease: &IpLease, pool: &IpPool) -> bool {
    if lease.pool != pool.metadata.name {
        return false;
    }
    if lease.pool_namespace.is_some() {
        return lease.pool_key() == pool.metadata.key();
    }
    let meant_pool = plan::find_serving_pool(state, &lease.namespace, &lease.pool);
    meant_pool
        .is_ok_and(|meant| meant.is_some_and(|meant| meant.metadata.key() == pool.metadata.key()))
}

/// How many claims go on waiting for addresses of an IPPool, and what the first of them waits for.
fn note_waiting_claims(state: &State, pool: &IpPool) -> Option<DifferenceLine> {
    let key = pool.metadata.key();
    let claims = state.ip_leases.rows().filter(|lease| lease.address.is_none());
    let waiting: Vec<&IpLease> =
        claims.filter(|lease| lease.deleting.is_none() && means_pool(state, lease, pool)).collect();
    let name = Name::of(Kind::IpPool, &key);
    let Some(first) = waiting.first() else {
        if !pool.is_paused() {
            return None;
        }
        let line = format!("{name}: it is paused, so no claim gets an address");
        return Some(DifferenceLine::new(name, line));
    };
    let claims = count_of(waiting.len(), "claim");
    let line = format!("{name}: {claims} without an address: {}", output::clean_line(&first.error));
    Some(DifferenceLine::new(name, line))
}

/// What becomes of a pool's clusters of an older version: `3 stale, would replace lab-x now`.
fn note_stale_clusters(state: &State, pool: &ClusterPool) -> Option<DifferenceLine> {
    let key = pool.key();
    let status = &pool.status;
    let mut replaced: Vec<&str> = Vec::new();
    for (event, owner) in &state.events {
        if owner.as_deref() == Some(&key) && event.reason == plan::STALE_CLUSTER {
            replaced.push(event.object.name.as_str());
        }
    }
    let stale_count =
        usize::try_from(status.stale).unwrap_or(usize::MAX).saturating_add(replaced.len());
    if stale_count == 0 {
        return None;
    }
    let outlook = if !replaced.is_empty() {
        format!("would replace {} now", replaced.join(", "))
    } else if pool.metadata.annotation(REFRESH) == Some("none") {
        format!("left as they are: {REFRESH} is none")
    } else {
        let waiting_count = usize::try_from(status.pending).unwrap_or(usize::MAX);
        format!(
            "the next is replaced when the pool is steady ({}, {} deprovisioning, {})",
            describe_installing(status.installing.into(), status.retrying.into()),
            status.deleting,
            count_of(waiting_count, "waiting claim")
        )
    };
    let name = Name::of(Kind::ClusterPool, &key);
    let line = format!("{name}: {stale_count} stale, {outlook}");
    Some(DifferenceLine::new(name, line))
}
