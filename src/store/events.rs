//! Events. They are written once and read back. Nothing here changes one; `prune.rs` removes old
//! ones.

use rusqlite::{Connection, Params, Row, params};

use crate::model::event::{Event, EventType};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;
use super::event_chain::EventChain;

/// The columns of an event. `read_event` reads a row of them.
const EVENT: &str =
    "time, warning, reason, kind, namespace, name, actor, message, infra_env, cluster, pool";

impl Store {
    /// Reads the newest events of an object, or of all, at most `limit` of them, the newest first.
    /// The events of an InfraEnv or a cluster include those of its hosts. The name of a cluster is
    /// unique in the state, so its namespace is not compared.
    pub fn list_events(
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
                "WHERE id IN (\
                 SELECT id FROM event WHERE kind = ?2 AND name = ?3 AND namespace = ?4 \
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

    /// Reads the events that a WHERE clause names, the newest first. The parameter `?1` is the
    /// limit.
    fn select_events(&self, condition: &str, values: impl Params) -> Result<Vec<Event>, Refusal> {
        let sql = format!("SELECT {EVENT} FROM event {condition} ORDER BY id DESC LIMIT ?1");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let rows = statement.query_map(values, read_event)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Reads which clusters were replaced by their pools, from a time on, the newest event first.
    /// An index has only these events.
    pub fn replacements_since(&self, since: Time) -> Result<Vec<Event>, Refusal> {
        let sql = format!(
            "SELECT {EVENT} FROM event \
             WHERE reason IN ('ClusterBroken', 'ClusterStale') AND time >= ?1 \
             ORDER BY time DESC, id DESC"
        );
        let mut statement = self.conn().prepare_cached(&sql)?;
        let rows = statement.query_map([since.0], read_event)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Hands on all events, one by one, the oldest first.
    pub fn visit_events(
        &self,
        visit: &mut dyn FnMut(Event) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let sql = format!("SELECT {EVENT} FROM event ORDER BY id");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            visit(read_event(row)?)?;
        }
        Ok(())
    }

    /// Reads when claims asked a pool for a cluster, from a time on, the earliest first.
    pub fn claim_times_of_pool(&self, pool: &Key, since: Time) -> Result<Vec<Time>, Refusal> {
        let sql = "SELECT time FROM event WHERE pool = ?1 AND time >= ?2 ORDER BY time";
        let mut statement = self.conn().prepare_cached(sql)?;
        let rows = statement.query_map(params![pool.to_string(), since], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of the newest event, 0 if there is none.
    pub fn last_event_number(&self) -> Result<i64, Refusal> {
        let sql = "SELECT coalesce(max(id), 0) FROM event";
        Ok(self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Reads the events after the one of a number, the oldest first, and returns the number of the
    /// last one with them.
    pub fn events_after(&self, number: i64) -> Result<(Vec<Event>, i64), Refusal> {
        let sql = format!("SELECT {EVENT}, id FROM event WHERE id > ?1 ORDER BY id");
        let mut statement = self.conn().prepare_cached(&sql)?;
        let mut last_number = number;
        let rows = statement.query_map([number], |row| {
            last_number = row.get(11)?;
            read_event(row)
        })?;
        let events = rows.collect::<Result<_, _>>()?;
        Ok((events, last_number))
    }
}

/// Reads a row of `EVENT`. A kind that this program does not know is shown as `Object`.
fn read_event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let kind: String = row.get(3)?;
    Ok(Event {
        time: Time(row.get(0)?),
        event_type: EventType::warning_if(row.get(1)?),
        reason: row.get(2)?,
        kind: Kind::from_name(&kind).map_or("Object", Kind::name),
        object: Key::new(row.get::<_, String>(4)?, row.get::<_, String>(5)?),
        actor: row.get(6)?,
        message: row.get(7)?,
        infra_env: row.get::<_, Option<String>>(8)?.as_deref().and_then(parse_key),
        cluster: row.get::<_, Option<String>>(9)?.as_deref().and_then(parse_key),
        pool: row.get::<_, Option<String>>(10)?.as_deref().and_then(parse_key),
    })
}

/// Reads `namespace/name`.
fn parse_key(key: &str) -> Option<Key> {
    key.split_once('/').map(|(namespace, name)| Key::new(namespace, name))
}

/// Appends an event, and its link to the chain, whose end the caller keeps.
pub fn write_event(
    conn: &Connection,
    event: &Event,
    chain: &mut EventChain,
) -> Result<(), Refusal> {
    let sql = "INSERT INTO event \
               (time, warning, reason, kind, namespace, name, actor, message, infra_env, cluster, \
                pool, link) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    conn.prepare_cached(sql)?.execute(params![
        event.time.0,
        event.event_type == EventType::Warning,
        event.reason,
        event.kind,
        event.object.namespace,
        event.object.name,
        event.actor,
        event.message,
        event.infra_env.as_ref().map(Key::to_string),
        event.cluster.as_ref().map(Key::to_string),
        event.pool.as_ref().map(Key::to_string),
        chain.append(event),
    ])?;
    Ok(())
}
