//! What `status` shows, as text for people: aligned, in lines that fit the terminal, and coloured
//! where it shows colours. It reads nothing.

use crate::causes::Chain;
use crate::model::claim::{Claim, Pending};
use crate::model::ip_pool::IpPool;
use crate::model::ip_supply::SupplyLevel;
use crate::model::pool::{ClusterPool, PoolStatus};
use crate::model::time::Time;
use crate::output::{Style, Tone, break_text, clean_line, join_lines};

use crate::commands::status::bar::{bar_length, draw_bar};
use crate::commands::status::overview::{Overview, QueuedClaim, Upkeep, in_units};
use crate::commands::{Context, count_of};

/// The space between two columns.
const GAP: usize = 2;
/// So many claims are listed that wait, and so many that end soon.
const MOST_LISTED: usize = 6;
/// A text that is broken into lines has at least so many letters in each.
const LEAST_COLUMN: usize = 20;

/// A column with a count of clusters.
struct CountColumn {
    title: &'static str,
    count: fn(&ClusterPool) -> u32,
    /// The colour of a count that is not 0.
    tone: Tone,
}

const COUNT_COLUMNS: [CountColumn; 6] = [
    CountColumn { title: "SIZE", count: |pool| pool.spec.size, tone: Tone::Title },
    CountColumn { title: "READY", count: |pool| pool.status.ready, tone: Tone::Good },
    CountColumn { title: "STANDBY", count: |pool| pool.status.standby, tone: Tone::Place },
    CountColumn { title: "INSTALLING", count: |pool| pool.status.installing, tone: Tone::Waiting },
    CountColumn { title: "CLAIMED", count: |pool| pool.status.claimed, tone: Tone::Title },
    CountColumn { title: "WAITING", count: |pool| pool.status.pending, tone: Tone::Waiting },
];

/// All of an overview, in lines with their ends.
pub fn draw_overview(context: &Context, overview: &Overview) -> String {
    let style = context.style();
    let mut lines = Vec::new();
    draw_pools(context, overview, style, &mut lines);
    for problem in &overview.problems {
        draw_problem(problem, "", style, &mut lines);
    }
    draw_queue(context, overview, style, &mut lines);
    draw_claims(context, overview, style, &mut lines);
    draw_ip_pools(context, overview, style, &mut lines);
    if let Some(upkeep) = &overview.upkeep {
        let description = describe_upkeep(upkeep, overview.now);
        for line in break_text(&description, style.width) {
            lines.push(style.paint(Tone::Faint, &line));
        }
    }
    lines.push(overview.describe_counts());
    join_lines(&lines)
}

/// The pools below a header, each with its problems.
fn draw_pools(context: &Context, overview: &Overview, style: Style, lines: &mut Vec<String>) {
    if overview.pools.is_empty() {
        return;
    }
    let names: Vec<String> =
        overview.pools.iter().map(|shown| context.short_name(&shown.pool.key())).collect();
    let lengths = overview.pools.iter().map(|shown| bar_length(&shown.pool));
    let bar_width = lengths.max().unwrap_or_default();
    let count_widths = COUNT_COLUMNS.each_ref().map(|column| {
        let counts = overview.pools.iter().map(|shown| (column.count)(&shown.pool));
        column.title.len().max(counts.max().unwrap_or_default().to_string().len())
    });
    let counts_width: usize = count_widths.iter().map(|width| width + GAP).sum();
    let bar_room = if bar_width == 0 { 0 } else { bar_width + GAP };
    let name_room = style.width.saturating_sub(counts_width + bar_room).max("POOL".len());
    let longest_name = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let name_width = longest_name.clamp("POOL".len(), name_room);
    let mut header = pad("POOL", name_width);
    for (column, width) in COUNT_COLUMNS.iter().zip(count_widths) {
        header += &" ".repeat(GAP);
        header += &pad(column.title, width);
    }
    lines.push(style.paint(Tone::Title, header.trim_end()));
    for (shown, name) in overview.pools.iter().zip(&names) {
        let mut row = name.clone();
        if name.chars().count() > name_width {
            // A long name has a line of its own, so that the others need not be that wide.
            lines.push(row);
            row = String::new();
        }
        row = pad(&row, name_width);
        for (column, width) in COUNT_COLUMNS.iter().zip(count_widths) {
            let count = (column.count)(&shown.pool);
            let tone = if count == 0 { Tone::Faint } else { column.tone };
            row += &" ".repeat(GAP);
            row += &style.paint(tone, &pad(&count.to_string(), width));
        }
        row += &" ".repeat(GAP);
        row += &draw_bar(&shown.pool, style);
        lines.push(row.trim_end().to_owned());
        if let Some(rare) = describe_rare_states(&shown.pool.status) {
            lines.push(style.paint(Tone::Waiting, &format!("  {rare}")));
        }
        for trouble in &shown.troubles {
            draw_problem(trouble, "  ", style, lines);
        }
    }
}

/// Clusters in states that most pools have none in: `1 retrying, 2 deprovisioning`.
fn describe_rare_states(status: &PoolStatus) -> Option<String> {
    let counts = [
        (status.held, "held"),
        (status.retrying, "retrying"),
        (status.broken, "broken"),
        (status.stale, "stale"),
        (status.deleting, "deprovisioning"),
    ];
    let mut words = Vec::new();
    for (count, word) in counts {
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    }
    if words.is_empty() { None } else { Some(words.join(", ")) }
}

/// A cause after an exclamation mark, and what helps below it.
fn draw_problem(problem: &Chain, indent: &str, style: Style, lines: &mut Vec<String>) {
    let mark = style.paint(Tone::Bad, "!");
    let cause = problem.causes.join("; ");
    push_wrapped(&cause, &format!("{indent}{mark} "), indent.len() + 2, style, lines);
    let label = format!("{indent}  {} ", style.paint(Tone::Good, "next:"));
    push_wrapped(&problem.next, &label, indent.len() + 8, style, lines);
}

/// Breaks a text into lines below each other, the first one after a label, which takes as many
/// letters as it is said: its colours take none.
fn push_wrapped(
    text: &str,
    label: &str,
    label_length: usize,
    style: Style,
    lines: &mut Vec<String>,
) {
    let room = style.width.saturating_sub(label_length).max(LEAST_COLUMN);
    for (index, line) in break_text(&clean_line(text), room).into_iter().enumerate() {
        let indent = " ".repeat(label_length);
        lines.push(if index == 0 { format!("{label}{line}") } else { format!("{indent}{line}") });
    }
}

/// The claims that wait, with what each may expect.
fn draw_queue(context: &Context, overview: &Overview, style: Style, lines: &mut Vec<String>) {
    for QueuedClaim { claim, position } in overview.queue.iter().take(MOST_LISTED) {
        let name = context.short_name(&claim.key());
        let waited = overview.now.since(claim.created).to_short_text();
        let pool = &claim.pool;
        let label = format!("{} ", style.paint(Tone::Waiting, "~"));
        let place = match claim.pending {
            Pending::PoolMissing => "no such pool".to_owned(),
            Pending::PoolDeleting => "pool is being deleted".to_owned(),
            _ => position.to_string(),
        };
        let sentence =
            format!("claim {name} waits for a cluster of pool {pool} for {waited} ({place})");
        push_wrapped(&sentence, &label, GAP, style, lines);
    }
    lines.extend(count_rest(context, "~", overview.queue.len()));
}

/// The claims that have a cluster, and until when.
fn draw_claims(context: &Context, overview: &Overview, style: Style, lines: &mut Vec<String>) {
    for claim in overview.claims.iter().take(MOST_LISTED) {
        let name = context.short_name(&claim.key());
        let sentence = format!("claim {name} {}", describe_claim(claim, overview.now));
        let tone = if claim.warned { Tone::Waiting } else { Tone::Faint };
        let label = format!("{} ", style.paint(tone, "-"));
        push_wrapped(&sentence, &label, GAP, style, lines);
    }
    lines.extend(count_rest(context, "-", overview.claims.len()));
}

/// How many more claims there are than are listed.
fn count_rest(context: &Context, mark: &str, count: usize) -> Option<String> {
    let rest = count.saturating_sub(MOST_LISTED);
    if rest == 0 {
        return None;
    }
    let command = context.spell_commands("poolctl get claim -A");
    Some(format!("{mark} {}: {command}", count_of(rest, "more claim")))
}

/// Which cluster a claim has and until when, or that it goes.
fn describe_claim(claim: &Claim, now: Time) -> String {
    let cluster = claim.cluster.as_deref().unwrap_or_default();
    match claim.expires_at() {
        _ if claim.deleting.is_some() => "is being released".to_owned(),
        None => format!("has cluster {cluster}"),
        Some(end) => {
            let remaining = end.since(now).to_short_text();
            format!("has cluster {cluster} until {end}, for {remaining}")
        }
    }
}

/// The IPPools and how many addresses they have left.
fn draw_ip_pools(context: &Context, overview: &Overview, style: Style, lines: &mut Vec<String>) {
    for ip_pool in &overview.ip_pools {
        let name = context.short_name(&ip_pool.metadata.key());
        let label = format!("{} ", style.paint(tone_of_supply(ip_pool), "-"));
        let sentence = format!("ippool {name}: {}", ip_pool.supply().describe());
        push_wrapped(&sentence, &label, GAP, style, lines);
    }
}

fn tone_of_supply(ip_pool: &IpPool) -> Tone {
    match ip_pool.supply_level() {
        SupplyLevel::Sufficient => Tone::Faint,
        SupplyLevel::Low | SupplyLevel::Resting => Tone::Waiting,
        SupplyLevel::Exhausted => Tone::Bad,
    }
}

/// How the state is looked after: `Last pass 40s ago. No backup yet. Disk: 12.3 GiB free.`
fn describe_upkeep(upkeep: &Upkeep, now: Time) -> String {
    let pass = match upkeep.last_pass {
        Some(last_pass) => format!("Last pass {} ago", now.since(last_pass).to_short_text()),
        None => "No pass over everything yet".to_owned(),
    };
    let backup = match upkeep.last_backup {
        Some(last_backup) => format!("last backup {} ago", now.since(last_backup).to_short_text()),
        None => "no backup yet".to_owned(),
    };
    let disk = match upkeep.free_disk {
        Some(free) => {
            let size = in_units(upkeep.state_size);
            format!("; state {size}, {} free on its disk", in_units(free))
        }
        None => String::new(),
    };
    format!("{pass}; {backup}{disk}")
}

/// A text with spaces after it, up to a width.
fn pad(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}
