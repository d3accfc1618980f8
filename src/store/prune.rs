//! Removes old events and jobs, at most once a day. Nothing that is live, and no object, is removed
//! here.

use rusqlite::{OptionalExtension, params};

use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};

use super::connection::Store;

/// How many days events and ended jobs are kept, unless `spec.keepEventsDays` of the settings says
/// otherwise.
const DEFAULT_KEEP_DAYS: i64 = 400;
/// The least time between two removals.
const PRUNING_INTERVAL: Span = Span::hours(24);

/// Removes events from before a time. The last 100 events of an object stay as long as it exists;
/// of kinds whose existence is not looked up here, they always stay.
const DELETE_OLD_EVENTS: &str = "DELETE FROM event WHERE time < ?1 AND id NOT IN (\
    SELECT id FROM (SELECT id, kind, namespace, name, \
    row_number() OVER (PARTITION BY kind, name, namespace ORDER BY id DESC) AS place \
    FROM event) AS e \
    WHERE place <= 100 AND (kind NOT IN ('ClusterDeployment', 'ClusterClaim', 'ClusterPool') \
    OR EXISTS (SELECT 1 FROM cluster c WHERE e.kind = 'ClusterDeployment' AND c.name = e.name) \
    OR EXISTS (SELECT 1 FROM claim c WHERE e.kind = 'ClusterClaim' \
    AND c.namespace = e.namespace AND c.name = e.name) \
    OR EXISTS (SELECT 1 FROM pool c WHERE e.kind = 'ClusterPool' \
    AND c.namespace = e.namespace AND c.name = e.name)))";

impl Store {
    /// Whether there are old events and the last removal was at least a day ago. It reads only
    /// three rows, so that every pass may ask.
    pub fn wants_pruning(&self, now: Time) -> Result<bool, Refusal> {
        let sql = "SELECT pruned FROM state";
        let pruned: i64 = self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        if now.since(Time(pruned)) < PRUNING_INTERVAL {
            return Ok(false);
        }
        let sql = "SELECT time FROM event ORDER BY id LIMIT 1";
        let oldest = self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let oldest_kept = self.oldest_kept_time(now)?;
        Ok(oldest.is_some_and(|oldest: i64| oldest < oldest_kept.0))
    }

    /// Removes old events and jobs that ended long ago. Needs an open write transaction.
    pub fn prune(&self, now: Time) -> Result<(), Refusal> {
        let oldest_kept = self.oldest_kept_time(now)?.0;
        self.conn().execute(DELETE_OLD_EVENTS, [oldest_kept])?;
        self.conn().execute("DELETE FROM job WHERE ended < ?1", [oldest_kept])?;
        self.conn().execute("UPDATE state SET pruned = ?1", params![now.0])?;
        Ok(())
    }

    /// What happened before this time is old.
    fn oldest_kept_time(&self, now: Time) -> Result<Time, Refusal> {
        let sql = "SELECT body ->> '$.spec.keepEventsDays' FROM settings";
        let setting: Option<Option<i64>> =
            self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let days = setting.flatten().unwrap_or(DEFAULT_KEEP_DAYS);
        Ok(Time(now.0 - Span::hours(24 * days).0))
    }
}
