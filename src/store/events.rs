//! What happened: written once, read back, never changed.

use rusqlite::{Connection, Params, Row, params};

use crate::model::event::Event;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;

const EVENT: &str =
    "time, warning, reason, kind, namespace, name, actor, message, infra_env, cluster";

impl Store {
    /// The newest events first, of one object or of all. Those of an InfraEnv are also those of its
    /// hosts, and those of a cluster those of its hosts. A cluster's name is unique over the state,
    /// so its namespace does not count.
    pub fn events(
        &self,
        object: Option<(Kind, &Key)>,
        limit: usize,
    ) -> Result<Vec<Event>, Refusal> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let Some((kind, key)) = object else {
            return self.select_events("", params![limit]);
        };
        let Key { namespace, name } = key;
        match kind {
            Kind::InfraEnv => self.select_events(
                "WHERE id IN (SELECT id FROM event WHERE kind = ?2 AND name = ?3 AND namespace = ?4 \
                 UNION SELECT id FROM event WHERE infra_env = ?5)",
                params![limit, kind.name(), name, namespace, key.to_string()],
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
    fn select_events(&self, condition: &str, values: impl Params) -> Result<Vec<Event>, Refusal> {
        let sql = format!("SELECT {EVENT} FROM event {condition} ORDER BY id DESC LIMIT ?1");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let rows = statement.query_map(values, read_event)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Events from a time on, the newest first. Those before are not read.
    pub fn events_since(&self, since: Time) -> Result<Vec<Event>, Refusal> {
        let sql = format!("SELECT {EVENT} FROM event ORDER BY id DESC");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let rows = statement.query_map([], read_event)?;
        let mut events = Vec::new();
        for event in rows {
            let event = event?;
            if event.time < since {
                break;
            }
            events.push(event);
        }
        Ok(events)
    }

    /// The number of the newest event.
    pub fn last_event(&self) -> Result<i64, Refusal> {
        let sql = "SELECT coalesce(max(id), 0) FROM event";
        Ok(self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Events after the one of a number, the oldest first, and the number of the last of them.
    pub fn events_after(&self, number: i64) -> Result<(Vec<Event>, i64), Refusal> {
        let sql = format!("SELECT {EVENT}, id FROM event WHERE id > ?1 ORDER BY id");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut last = number;
        let rows = statement.query_map([number], |row| {
            last = row.get(10)?;
            read_event(row)
        })?;
        let events = rows.collect::<Result<_, _>>()?;
        Ok((events, last))
    }
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let kind: String = row.get(3)?;
    Ok(Event {
        time: Time(row.get(0)?),
        warning: row.get(1)?,
        reason: row.get(2)?,
        kind: Kind::from_name(&kind).map_or("Object", Kind::name),
        object: Key::new(row.get::<_, String>(4)?, row.get::<_, String>(5)?),
        actor: row.get(6)?,
        message: row.get(7)?,
        infra_env: row.get::<_, Option<String>>(8)?.as_deref().and_then(parse_key),
        cluster: row.get::<_, Option<String>>(9)?.as_deref().and_then(parse_key),
    })
}

/// Namespace and name.
fn parse_key(text: &str) -> Option<Key> {
    text.split_once('/').map(|(namespace, name)| Key::new(namespace, name))
}

pub fn write_event(conn: &Connection, event: &Event) -> Result<(), Refusal> {
    let sql = "INSERT INTO event (time, warning, reason, kind, namespace, name, actor, message, infra_env, cluster) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    conn.prepare_cached(sql)?.execute(params![
        event.time.0,
        event.warning,
        event.reason,
        event.kind,
        event.object.namespace,
        event.object.name,
        event.actor,
        event.message,
        event.infra_env.as_ref().map(Key::to_string),
        event.cluster.as_ref().map(Key::to_string),
    ])?;
    Ok(())
}
