//! Removes old events and jobs, in a sweep that begins at most once a day. A sweep goes in small
//! steps, each a transaction of its own, so that no command waits long for the write lock. Nothing
//! that is live, and no object, is removed here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};

use super::connection::Store;
use super::documents::document_exists;
use super::event_chain::note_removed_event;

/// How many days events and ended jobs are kept, unless `spec.keepEventsDays` of the settings says
/// otherwise.
const DEFAULT_KEEP_DAYS: i64 = 400;
/// The least time between the ends of two sweeps.
const PRUNING_INTERVAL: Span = Span::hours(24);
/// How many events, and how many jobs, a step looks at.
const ROWS_OF_STEP: i64 = 200;
/// How many events of an object stay as long as it exists, however old they are.
const EVENTS_KEPT: i64 = 100;

/// How far a sweep has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepProgress {
    /// There is more to look at, in the next step.
    GoesOn,
    Finished,
}

/// An event that is old, and what it is about.
struct OldEvent {
    id: i64,
    object: EventObject,
}

/// Kind, namespace and name, as an event has them.
type EventObject = (String, String, String);

impl Store {
    /// Whether a sweep is under way, or is to begin: there are old events, and the last sweep ended
    /// at least a day ago. It reads only three rows, so that every pass may ask.
    pub fn wants_pruning(&self, now: Time) -> Result<bool, Refusal> {
        let sql = "SELECT pruned, prune_cursor FROM state";
        let (pruned, cursor): (i64, i64) =
            self.conn().prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if cursor > 0 {
            return Ok(true);
        }
        if now.since(Time(pruned)) < PRUNING_INTERVAL {
            return Ok(false);
        }
        let sql = "SELECT time FROM event ORDER BY id LIMIT 1";
        let oldest = self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let oldest_kept = self.oldest_kept_time(now)?;
        Ok(oldest.is_some_and(|oldest: i64| oldest < oldest_kept.0))
    }

    /// One step of a sweep: removes some old events and some jobs that ended long ago. Needs an
    /// open write transaction.
    pub fn prune_step(&self, now: Time) -> Result<SweepProgress, Refusal> {
        let conn = self.conn();
        let oldest_kept = self.oldest_kept_time(now)?;
        let removed_jobs = remove_old_jobs(conn, oldest_kept)?;
        let sql = "SELECT prune_cursor FROM state";
        let cursor = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        let old_events = select_old_events(conn, cursor, oldest_kept)?;
        remove_surplus_events(conn, &old_events)?;
        match old_events.last() {
            Some(last_event) => set_cursor(conn, last_event.id)?,
            None if removed_jobs == 0 => {
                let sql = "UPDATE state SET pruned = ?1, prune_cursor = 0";
                conn.prepare_cached(sql)?.execute([now.0])?;
                return Ok(SweepProgress::Finished);
            }
            None => {}
        }
        Ok(SweepProgress::GoesOn)
    }

    /// What happened before this time is old.
    fn oldest_kept_time(&self, now: Time) -> Result<Time, Refusal> {
        let sql = "SELECT body ->> '$.spec.keepEventsDays' FROM document \
                   WHERE kind = 'Settings' AND namespace = '' AND name = 'default'";
        let setting: Option<Option<i64>> =
            self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let days = setting.flatten().unwrap_or(DEFAULT_KEEP_DAYS);
        Ok(Time(now.0 - Span::hours(24 * days).0))
    }
}

/// Removes those of the oldest jobs that ended before a time, and returns how many.
fn remove_old_jobs(conn: &Connection, oldest_kept: Time) -> Result<usize, Refusal> {
    // Rows are numbered in the order in which jobs were started, so no index on their ends is
    // needed: every job that ends would have to write it.
    let sql = "DELETE FROM job WHERE rowid IN (SELECT rowid FROM (\
               SELECT rowid, ended FROM job ORDER BY rowid LIMIT ?2) WHERE ended < ?1)";
    Ok(conn.prepare_cached(sql)?.execute(params![oldest_kept.0, ROWS_OF_STEP])?)
}

/// The next events after the cursor, up to the first that is not old: events are numbered in the
/// order in which they happened.
fn select_old_events(
    conn: &Connection,
    cursor: i64,
    oldest_kept: Time,
) -> Result<Vec<OldEvent>, Refusal> {
    // The newest event stays: the numbers of events go on from it.
    let sql = "SELECT id, time, kind, namespace, name FROM event \
               WHERE id > ?1 AND id < (SELECT max(id) FROM event) ORDER BY id LIMIT ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![cursor, ROWS_OF_STEP])?;
    let mut old_events = Vec::new();
    while let Some(row) = rows.next()? {
        let time: i64 = row.get(1)?;
        if time >= oldest_kept.0 {
            break;
        }
        let object = (row.get(2)?, row.get(3)?, row.get(4)?);
        old_events.push(OldEvent { id: row.get(0)?, object });
    }
    Ok(old_events)
}

/// Removes those of old events that are not among the last ones of an object that exists.
fn remove_surplus_events(conn: &Connection, old_events: &[OldEvent]) -> Result<(), Refusal> {
    let mut first_kept: HashMap<&EventObject, i64> = HashMap::new();
    let mut statement = conn.prepare_cached("DELETE FROM event WHERE id = ?1 RETURNING link")?;
    for OldEvent { id, object } in old_events {
        let first_kept_id = match first_kept.entry(object) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(find_first_kept(conn, object)?),
        };
        if *id < first_kept_id {
            let link: Option<Vec<u8>> = statement.query_row([id], |row| row.get(0))?;
            note_removed_event(conn, *id, link.as_deref())?;
        }
    }
    Ok(())
}

/// The number of the first event of an object that stays, whatever its age. There is none for an
/// object that is gone.
fn find_first_kept(conn: &Connection, object: &EventObject) -> Result<i64, Refusal> {
    if !may_exist(conn, object)? {
        return Ok(i64::MAX);
    }
    let sql = "SELECT id FROM event WHERE kind = ?1 AND namespace = ?2 AND name = ?3 \
               ORDER BY id DESC LIMIT 1 OFFSET ?4";
    let (kind, namespace, name) = object;
    let values = params![kind, namespace, name, EVENTS_KEPT - 1];
    let first_kept = conn.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
    Ok(first_kept.unwrap_or_default())
}

/// Whether an object exists, or is of a kind whose existence is not looked up here.
fn may_exist(conn: &Connection, object: &EventObject) -> Result<bool, Refusal> {
    let (kind, namespace, name) = object;
    let count: i64 = match Kind::from_name(kind) {
        // The name of a cluster is unique in the state.
        Some(Kind::ClusterDeployment) => conn
            .prepare_cached("SELECT count(*) FROM cluster WHERE name = ?1")?
            .query_row([name], |row| row.get(0))?,
        Some(Kind::ClusterClaim) => conn
            .prepare_cached("SELECT count(*) FROM claim WHERE namespace = ?1 AND name = ?2")?
            .query_row([namespace, name], |row| row.get(0))?,
        Some(Kind::ClusterPool) => {
            return document_exists::<ClusterPool>(conn, &Key::new(&**namespace, &**name));
        }
        _ => return Ok(true),
    };
    Ok(count > 0)
}

fn set_cursor(conn: &Connection, cursor: i64) -> Result<(), Refusal> {
    conn.prepare_cached("UPDATE state SET prune_cursor = ?1")?.execute([cursor])?;
    Ok(())
}
