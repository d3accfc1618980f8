//! Says which cells of an object's row show a state that is good, one that passes, or one that
//! somebody has to mend, and colours them. Nothing depends on colours alone.

use crate::model::agent::{Agent, HostState};
use crate::model::claim::{Claim, ClusterRunning, Pending};
use crate::model::cluster::{Cluster, Phase, Power};
use crate::model::event::{Event, EventType};
use crate::model::host::BareMetalHost;
use crate::model::job::{FAILED, Job, SUCCEEDED};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;

use super::columns::Row;
use super::style::{Colors, Style, Tone};

/// The tones of cells, by the names of their columns.
pub type CellTones = Vec<(&'static str, Tone)>;

/// The tones of the cells of an object's row.
pub fn state_tones(object: &Object) -> CellTones {
    if object.deletion_time().is_some() {
        return vec![("state", Tone::Waiting), ("phase", Tone::Waiting)];
    }
    match object {
        Object::ClusterPool(pool) => pool_tones(pool),
        Object::ClusterClaim(claim) => vec![("state", claim_tone(claim))],
        Object::ClusterDeployment(cluster) => cluster_tones(cluster),
        Object::Agent(agent) => vec![("state", agent_tone(agent))],
        Object::BareMetalHost(host) => host_tones(host),
        Object::IpClaim(claim) if !claim.status.error_message.is_empty() => {
            vec![("error", Tone::Bad)]
        }
        _ => CellTones::new(),
    }
}

fn pool_tones(pool: &ClusterPool) -> CellTones {
    let mut tones = CellTones::new();
    if pool.status.ready > 0 {
        tones.push(("ready", Tone::Good));
    }
    if pool.status.installing > 0 {
        tones.push(("installing", Tone::Waiting));
    }
    if pool.status.pending > 0 {
        tones.push(("pending", Tone::Waiting));
    }
    if pool.status.held > 0 {
        tones.push(("held", Tone::Waiting));
    }
    if pool.status.broken > 0 {
        tones.push(("broken", Tone::Bad));
    }
    tones
}

fn claim_tone(claim: &Claim) -> Tone {
    match (claim.pending, claim.running) {
        (Pending::PoolMissing | Pending::PoolDeleting, _) => Tone::Bad,
        (Pending::Claimed, ClusterRunning::Running) => Tone::Good,
        _ => Tone::Waiting,
    }
}

fn cluster_tones(cluster: &Cluster) -> CellTones {
    let phase_tone = match cluster.phase() {
        Phase::Installed => Tone::Good,
        Phase::Installing | Phase::Deprovisioning => Tone::Waiting,
        Phase::Retrying | Phase::Broken => Tone::Bad,
    };
    let mut tones = vec![("phase", phase_tone)];
    match cluster.power {
        Power::Running => tones.push(("power", Tone::Good)),
        power if power.has_failed() => tones.push(("power", Tone::Bad)),
        Power::Starting | Power::Stopping => tones.push(("power", Tone::Waiting)),
        power if power.is_waiting() => tones.push(("power", Tone::Waiting)),
        _ => {}
    }
    tones
}

fn agent_tone(agent: &Agent) -> Tone {
    match agent.state() {
        HostState::KnownUnbound
        | HostState::Known
        | HostState::PreparingSuccessful
        | HostState::Installed
        | HostState::AddedToExistingCluster => Tone::Good,
        HostState::InsufficientUnbound
        | HostState::DisconnectedUnbound
        | HostState::Insufficient
        | HostState::Disconnected
        | HostState::PreparingFailed
        | HostState::Error
        | HostState::Cancelled => Tone::Bad,
        _ => Tone::Waiting,
    }
}

fn host_tones(host: &BareMetalHost) -> CellTones {
    if !host.status.error_type.is_empty() {
        return vec![("status", Tone::Bad), ("error", Tone::Bad)];
    }
    if host.hold_reason().is_some() { vec![("state", Tone::Waiting)] } else { CellTones::new() }
}

/// The tones of the cells of an event's row.
pub fn event_tones(event: &Event) -> CellTones {
    match event.event_type {
        EventType::Normal => CellTones::new(),
        EventType::Warning => vec![("type", Tone::Waiting)],
    }
}

/// The tones of the cells of a job's row.
pub fn job_tones(job: &Job) -> CellTones {
    match job.outcome.as_deref() {
        None => vec![("state", Tone::Waiting)],
        Some(SUCCEEDED) => vec![("exit", Tone::Good)],
        Some(FAILED) => vec![("exit", Tone::Bad)],
        Some(_) => vec![("exit", Tone::Waiting)],
    }
}

/// The lines of a table with their cells coloured. The first line is the header, and each other one
/// is the row in its place, with the tones in the same place.
pub fn paint_lines(table: &str, rows: &[Row], tones: &[CellTones]) -> String {
    let mut painted = String::new();
    for (number, line) in table.split_inclusive('\n').enumerate() {
        let row =
            number.checked_sub(1).and_then(|index| Some((rows.get(index)?, tones.get(index)?)));
        match row {
            Some((row, tones)) => painted += &paint_line(line, row, tones),
            None => painted += line,
        }
    }
    painted
}

/// A line of a table. Between its cells are spaces alone, so each cell is found where the last one
/// ended.
fn paint_line(line: &str, row: &Row, tones: &CellTones) -> String {
    let style = Style { colors: Colors::Ansi, ..Style::default() };
    let mut painted = String::new();
    let mut rest = line;
    for (column, cell) in row {
        let Some(start) = rest.find(cell.as_str()) else { break };
        let (before, cell_and_rest) = rest.split_at(start);
        let (shown_cell, after) = cell_and_rest.split_at(cell.len());
        painted += before;
        let tone = tones.iter().find(|(toned_column, _)| toned_column == column);
        match tone {
            Some((_, tone)) if !shown_cell.is_empty() => painted += &style.paint(*tone, shown_cell),
            _ => painted += shown_cell,
        }
        rest = after;
    }
    painted + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_coloured_and_the_columns_stay() {
        let rows: Vec<Row> =
            vec![vec![("name", "a".into()), ("claim", String::new()), ("state", "a".into())]];
        let table = "NAME  CLAIM  STATE\na     -      a\n";
        let painted = paint_lines(table, &rows, &[vec![("state", Tone::Bad)]]);
        assert_eq!(painted, "NAME  CLAIM  STATE\na     -      \u{1b}[31ma\u{1b}[0m\n");
        assert_eq!(paint_lines(table, &rows, &[CellTones::new()]), table);
    }
}
