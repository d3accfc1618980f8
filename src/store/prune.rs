//! Forgets old events and jobs, once a day at most.

use rusqlite::{OptionalExtension, params};

use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};

use super::connection::Store;

/// Days that events and finished jobs are kept, unless the settings say otherwise.
const KEEP_DAYS: i64 = 400;
const DAY: Span = Span::hours(24);

/// Old events go, but for the last 100 of an object that is there.
const FORGET_EVENTS: &str = "DELETE FROM event WHERE time < ?1 AND id NOT IN (\
    SELECT id FROM (SELECT id, kind, namespace, name, \
    row_number() OVER (PARTITION BY kind, name, namespace ORDER BY id DESC) AS place FROM event) AS e \
    WHERE place <= 100 AND (kind NOT IN ('ClusterDeployment', 'ClusterClaim', 'ClusterPool') \
    OR EXISTS (SELECT 1 FROM cluster c WHERE e.kind = 'ClusterDeployment' AND c.name = e.name) \
    OR EXISTS (SELECT 1 FROM claim c WHERE e.kind = 'ClusterClaim' AND c.namespace = e.namespace AND c.name = e.name) \
    OR EXISTS (SELECT 1 FROM pool c WHERE e.kind = 'ClusterPool' AND c.namespace = e.namespace AND c.name = e.name)))";

impl Store {
    /// Whether there is anything to forget, and it was not done today. Cheap: looks at one row.
    pub fn wants_pruning(&self, now: Time) -> Result<bool, Refusal> {
        let sql = "SELECT pruned FROM state";
        let pruned: i64 = self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        if now.since(Time(pruned)) < DAY {
            return Ok(false);
        }
        let sql = "SELECT time FROM event ORDER BY id LIMIT 1";
        let oldest = self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let limit = self.limit(now)?;
        Ok(oldest.is_some_and(|oldest: i64| oldest < limit.0))
    }

    /// Forgets events and finished jobs older than the limit, but never the last 100 events of
    /// an object. Needs an open write transaction.
    pub fn prune(&self, now: Time) -> Result<(), Refusal> {
        let limit = self.limit(now)?.0;
        self.conn().execute(FORGET_EVENTS, [limit])?;
        self.conn().execute("DELETE FROM job WHERE ended < ?1", [limit])?;
        self.conn().execute("UPDATE state SET pruned = ?1", params![now.0])?;
        Ok(())
    }

    fn limit(&self, now: Time) -> Result<Time, Refusal> {
        let sql = "SELECT body ->> '$.spec.keepEventsDays' FROM settings";
        let days: Option<Option<i64>> =
            self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let days = days.flatten().unwrap_or(KEEP_DAYS);
        Ok(Time(now.0 - Span::hours(24 * days).0))
    }
}
