//! What happened, as it is read back.

use rusqlite::params;

use crate::model::event::Event;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::open::Store;

const EVENT: &str =
    "time, warning, reason, kind, namespace, name, actor, message, infra_env, cluster";

impl Store {
    /// The newest events first, of one object or of all. Those of an InfraEnv are also those of its
    /// hosts, and those of a cluster those of its hosts. A cluster's name is unique over the state,
    /// so its namespace does not count.
    pub fn events(&self, of: Option<(Kind, &Key)>, limit: usize) -> Result<Vec<Event>, Refusal> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let Some((kind, key)) = of else {
            return self.select_events("", params![limit]);
        };
        let (name, namespace, full) = (&key.name, &key.namespace, key.to_string());
        match kind {
            Kind::InfraEnv => self.select_events(
                "WHERE id IN (SELECT id FROM event WHERE kind = ?2 AND name = ?3 AND namespace = ?4 \
                 UNION SELECT id FROM event WHERE infra_env = ?5)",
                params![limit, kind.name(), name, namespace, full],
            ),
            Kind::ClusterDeployment => self.select_events(
                "WHERE id IN (SELECT id FROM event WHERE kind = ?2 AND name = ?3 \
                 UNION SELECT id FROM event WHERE cluster IS NOT NULL \
                 AND substr(cluster, instr(cluster, '/') + 1) = ?3)",
                params![limit, kind.name(), name],
            ),
            _ => self.select_events(
                "WHERE kind = ?2 AND name = ?3 AND namespace = ?4",
                params![limit, kind.name(), name, namespace],
            ),
        }
    }

    /// `?1` is how many at most.
    fn select_events(
        &self,
        which: &str,
        who: impl rusqlite::Params,
    ) -> Result<Vec<Event>, Refusal> {
        let sql = format!("SELECT {EVENT} FROM event {which} ORDER BY id DESC LIMIT ?1");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let rows = statement.query_map(who, event)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Events from a time on, the newest first. Those before are not read.
    pub fn events_since(&self, since: Time) -> Result<Vec<Event>, Refusal> {
        let sql = format!("SELECT {EVENT} FROM event ORDER BY id DESC");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let rows = statement.query_map([], event)?;
        let lately = |event: &rusqlite::Result<Event>| {
            event.as_ref().map_or(true, |event| event.time >= since)
        };
        Ok(rows.take_while(lately).collect::<Result<_, _>>()?)
    }

    /// The number of the newest event.
    pub fn last_event(&self) -> Result<i64, Refusal> {
        let sql = "SELECT coalesce(max(id), 0) FROM event";
        Ok(self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Events after one of this number, oldest first, and the number of the last of them.
    pub fn events_after(&self, known: i64) -> Result<(Vec<Event>, i64), Refusal> {
        let sql = format!("SELECT {EVENT}, id FROM event WHERE id > ?1 ORDER BY id");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut last = known;
        let rows = statement.query_map([known], |row| {
            last = row.get(10)?;
            event(row)
        })?;
        let events = rows.collect::<Result<_, _>>()?;
        Ok((events, last))
    }
}

fn event(row: &rusqlite::Row<'_>) -> rusqlite::Result<Event> {
    let kind: String = row.get(3)?;
    Ok(Event {
        time: Time(row.get(0)?),
        warning: row.get(1)?,
        reason: row.get(2)?,
        kind: Kind::from_name(&kind).map_or("Object", Kind::name),
        object: Key::new(row.get::<_, String>(4)?, row.get::<_, String>(5)?),
        actor: row.get(6)?,
        message: row.get(7)?,
        infra_env: row.get::<_, Option<String>>(8)?.as_deref().and_then(scope),
        cluster: row.get::<_, Option<String>>(9)?.as_deref().and_then(scope),
    })
}

/// Namespace and name.
fn scope(text: &str) -> Option<Key> {
    text.split_once('/').map(|(namespace, name)| Key::new(namespace, name))
}
