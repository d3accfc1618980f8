//! When scopes are next to be looked at: rows that every commit keeps true for what it planned. A
//! scope without a row has nothing to do. It decides nothing.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::model::due::{Due, DueChanges, DueNow};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;

/// Which scopes a pass looks at, beside those whose instant has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueFilter {
    /// Those that were changed, and those that are asked for news.
    DirtyOrPolled,
    /// Those that were changed.
    Dirty,
}

/// A row: what a scope waits for, and whether it was changed since a pass looked at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DueRow {
    due: Due,
    is_dirty: bool,
}

impl Store {
    /// What a pass has to look at now. A row of a pool that does not exist any more says that
    /// something is left of it, which only a pass over everything finds.
    pub fn find_due(&self, now: Time, filter: DueFilter) -> Result<DueNow, Refusal> {
        let sql = "WITH found AS (\
            SELECT namespace, pool FROM due_scope WHERE (dirty OR polled) AND (dirty OR ?2) UNION \
            SELECT namespace, pool FROM due_scope WHERE due IS NOT NULL AND due <= ?1) \
            SELECT f.namespace, f.pool, p.id IS NOT NULL FROM found f \
            LEFT JOIN pool p ON p.namespace = f.namespace AND p.name = f.pool";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut rows = statement.query(params![now.0, filter == DueFilter::DirtyOrPolled])?;
        let mut pools = Vec::new();
        while let Some(row) = rows.next()? {
            let is_pool: bool = row.get(2)?;
            if !is_pool {
                return Ok(DueNow::Everything);
            }
            pools.push(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        }
        Ok(if pools.is_empty() { DueNow::Nothing } else { DueNow::Pools(pools) })
    }

    /// The first instant after `now` at which something is to be done: in a pool, or anywhere.
    pub fn next_due_at(&self, pool: Option<&Key>, now: Time) -> Result<Option<Time>, Refusal> {
        let sql = "SELECT min(due) FROM due_scope WHERE due > ?1 \
                   AND (?2 IS NULL OR (namespace = ?2 AND pool = ?3))";
        let mut statement = self.conn().prepare_cached(sql)?;
        let namespace = pool.map(|pool| pool.namespace.as_str());
        let name = pool.map(|pool| pool.name.as_str());
        Ok(statement.query_row(params![now.0, namespace, name], |row| row.get(0))?)
    }

    /// Whether the rows say anything else than a commit would.
    pub fn is_due_changed(&self, changes: &DueChanges) -> Result<bool, Refusal> {
        Ok(!changed_rows(self.conn(), changes)?.is_empty())
    }

    /// Has the next pass look at everything.
    pub fn mark_everything_due(&self) -> Result<(), Refusal> {
        self.mark_pool_due(&rest_scope())
    }

    /// Has the next pass look at a pool.
    pub fn mark_pool_due(&self, pool: &Key) -> Result<(), Refusal> {
        let sql = "INSERT INTO due_scope (namespace, pool, dirty, polled, waits) \
                   VALUES (?1, ?2, 1, 0, 0) \
                   ON CONFLICT (namespace, pool) DO UPDATE SET dirty = 1 WHERE NOT dirty";
        self.conn().execute(sql, [&pool.namespace, &pool.name])?;
        Ok(())
    }
}

/// Writes what a commit says of scopes. Needs an open write transaction.
pub fn write_due(conn: &Connection, changes: &DueChanges) -> Result<(), Refusal> {
    if changes.may_help_waiting && !changes.is_whole {
        let sql = "UPDATE due_scope SET dirty = 1 WHERE waits AND NOT dirty";
        conn.prepare_cached(sql)?.execute([])?;
    }
    for (scope, row) in changed_rows(conn, changes)? {
        write_row(conn, &scope, row)?;
    }
    Ok(())
}

/// The rows that are to be written, and what is to be in them.
fn changed_rows(conn: &Connection, changes: &DueChanges) -> Result<Vec<(Key, DueRow)>, Refusal> {
    let mut rows: BTreeMap<Key, DueRow> = BTreeMap::new();
    for (pool, due) in &changes.settled.pools {
        rows.insert(pool.clone(), DueRow { due: *due, is_dirty: false });
    }
    let stored = if changes.is_whole { select_rows(conn)? } else { select_rows_of(conn, changes)? };
    let mut rest = DueRow::default();
    if changes.is_whole {
        // What has a row and is not in the state any more has nothing to do.
        for scope in stored.keys() {
            rows.entry(scope.clone()).or_default();
        }
    } else {
        rest = stored.get(&rest_scope()).copied().unwrap_or_default();
    }
    rest.due.add(changes.settled.rest);
    rest.is_dirty |= changes.is_rest_dirty;
    rows.insert(rest_scope(), rest);
    for pool in &changes.dirty_pools {
        let row = rows.entry(pool.clone());
        row.or_insert_with(|| stored.get(pool).copied().unwrap_or_default()).is_dirty = true;
    }
    let mut changed = Vec::new();
    for (scope, row) in rows {
        if stored.get(&scope).copied().unwrap_or_default() != row {
            changed.push((scope, row));
        }
    }
    Ok(changed)
}

/// The key of the row for all that belongs to no pool.
fn rest_scope() -> Key {
    Key::default()
}

fn select_rows(conn: &Connection) -> Result<BTreeMap<Key, DueRow>, Refusal> {
    let sql = "SELECT due, dirty, polled, waits, namespace, pool FROM due_scope";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut stored = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let scope = Key::new(row.get::<_, String>(4)?, row.get::<_, String>(5)?);
        stored.insert(scope, read_row(row)?);
    }
    Ok(stored)
}

/// The rows of the scopes that the changes are about.
fn select_rows_of(
    conn: &Connection,
    changes: &DueChanges,
) -> Result<BTreeMap<Key, DueRow>, Refusal> {
    let sql = "SELECT due, dirty, polled, waits FROM due_scope WHERE namespace = ?1 AND pool = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut stored = BTreeMap::new();
    let pools = changes.settled.pools.keys().chain(&changes.dirty_pools);
    for scope in pools.chain([&rest_scope()]) {
        let row = statement.query_row([&scope.namespace, &scope.name], read_row).optional()?;
        stored.extend(row.map(|row| (scope.clone(), row)));
    }
    Ok(stored)
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<DueRow> {
    let due = Due { at: row.get(0)?, is_polled: row.get(2)?, waits: row.get(3)? };
    Ok(DueRow { due, is_dirty: row.get(1)? })
}

/// Writes a row, or removes one that has nothing to say.
fn write_row(conn: &Connection, scope: &Key, row: DueRow) -> Result<(), Refusal> {
    let Key { namespace, name } = scope;
    if row == DueRow::default() {
        let sql = "DELETE FROM due_scope WHERE namespace = ?1 AND pool = ?2";
        conn.prepare_cached(sql)?.execute([namespace, name])?;
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO due_scope (namespace, pool, due, dirty, polled, waits) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let DueRow { due, is_dirty } = row;
    let values = params![namespace, name, due.at, is_dirty, due.is_polled, due.waits];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
