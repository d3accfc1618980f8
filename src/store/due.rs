//! When scopes are next to be looked at: rows that every commit keeps true for what it planned. A
//! scope without a row has nothing to do. It decides nothing.

use std::collections::HashMap;
use std::fmt;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::model::due::{Due, DueChanges, DueNow, DueObject, HelpedScopes};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::agents::forget_settled_agents;
use super::connection::Store;
use super::documents::document_exists;
use super::state_row::read_state_row;

/// Which scopes a pass looks at, beside those whose instant has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueFilter {
    /// Those that were changed, and those that are asked for news.
    DirtyOrPolled,
    /// Those that were changed.
    Dirty,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum DueScope {
    /// A pool. Without names, all that is neither of a pool nor an object with a row of its own.
    Pool(Key),
    Object(DueObject),
    /// An object of a kind that this program does not have, which a pass over everything forgets.
    Foreign {
        kind: String,
        key: Key,
    },
}

/// A row: what a scope waits for, and whether it was changed since a pass looked at it. The row of what
/// belongs to no pool is also polled while a pass over everything goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DueRow {
    due: Due,
    is_dirty: bool,
}

/// A pass over everything looks up every scope. What is written is sorted.
type DueRows = HashMap<DueScope, DueRow>;

/// What a commit makes of the row of a scope.
struct ChangedRow {
    scope: DueScope,
    before: DueRow,
    after: DueRow,
}

impl ChangedRow {
    /// Whether passes would look at the scope later than they should, or not at all, if the row stayed
    /// as it is.
    fn is_late(&self) -> bool {
        !self.before.is_dirty && !self.before.due.is_no_later_than(self.after.due)
    }
}

impl fmt::Display for DueScope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(pool) if *pool == Key::default() => {
                formatter.write_str("what belongs to no pool")
            }
            Self::Pool(pool) => write!(formatter, "pool `{pool}`"),
            Self::Object(DueObject { kind, key }) => write!(formatter, "{} `{key}`", kind.word()),
            Self::Foreign { kind, key } => write!(formatter, "{kind} `{key}`"),
        }
    }
}

impl Store {
    /// What a pass has to look at now. A row of a pool that does not exist any more says that
    /// something is left of it, which only a pass over everything finds.
    pub fn find_due(&self, now: Time, filter: DueFilter) -> Result<DueNow, Refusal> {
        let sql = "WITH found AS (\
            SELECT namespace, pool FROM due_scope WHERE (dirty OR polled) AND (dirty OR ?2) UNION \
            SELECT namespace, pool FROM due_scope WHERE due IS NOT NULL AND due <= ?1 UNION \
            SELECT answered_namespace, answered_pool FROM state \
            WHERE answered_pool IS NOT NULL) \
            SELECT f.namespace, f.pool, p.id IS NOT NULL FROM found f \
            LEFT JOIN document p \
            ON p.kind = 'ClusterPool' AND p.namespace = f.namespace AND p.name = f.pool";
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
        let Some(objects) = self.find_due_objects(now, filter)? else {
            return Ok(DueNow::Everything);
        };
        if pools.is_empty() && objects.is_empty() {
            return Ok(DueNow::Nothing);
        }
        Ok(DueNow::Part { pools, objects })
    }

    /// The objects that a pass has to look at now. None if one of them is of a kind that only a
    /// pass over everything looks at.
    fn find_due_objects(
        &self,
        now: Time,
        filter: DueFilter,
    ) -> Result<Option<Vec<DueObject>>, Refusal> {
        let sql = "SELECT kind, namespace, name FROM due_object \
                   WHERE (dirty OR polled) AND (dirty OR ?2) UNION \
                   SELECT kind, namespace, name FROM due_object \
                   WHERE due IS NOT NULL AND due <= ?1";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut rows = statement.query(params![now.0, filter == DueFilter::DirtyOrPolled])?;
        let mut objects = Vec::new();
        while let Some(row) = rows.next()? {
            let DueScope::Object(object) = read_object_scope(row, 0)? else { return Ok(None) };
            objects.push(object);
        }
        Ok(Some(objects))
    }

    /// The first instant after `now` at which something is to be done: in a pool, or anywhere.
    pub fn next_due_at(&self, pool: Option<&Key>, now: Time) -> Result<Option<Time>, Refusal> {
        let Some(pool) = pool else {
            let sql = "SELECT min(due) FROM (SELECT min(due) AS due FROM due_scope WHERE due > ?1 \
                       UNION ALL SELECT min(due) FROM due_object WHERE due > ?1)";
            return Ok(self.conn().prepare_cached(sql)?.query_row([now.0], |row| row.get(0))?);
        };
        let sql = "SELECT min(due) FROM due_scope WHERE due > ?1 AND namespace = ?2 AND pool = ?3";
        let mut statement = self.conn().prepare_cached(sql)?;
        Ok(statement.query_row(params![now.0, pool.namespace, pool.name], |row| row.get(0))?)
    }

    /// Whether the rows say anything else than a commit would.
    pub fn is_due_changed(&self, changes: &DueChanges) -> Result<bool, Refusal> {
        let answered_before = read_state_row(self.conn())?.answered_pool;
        let answered_after = answered_pool_after(self.conn(), answered_before.as_ref(), changes)?;
        Ok(answered_before.as_ref() != answered_after
            || !changed_rows(self.conn(), changes)?.is_empty())
    }

    /// The scopes at which passes would look too late if their rows stayed as they are, in words.
    pub fn find_late_scopes(&self, changes: &DueChanges) -> Result<Vec<String>, Refusal> {
        let answered = read_state_row(self.conn())?.answered_pool.map(DueScope::Pool);
        let mut late = Vec::new();
        for row in changed_rows(self.conn(), changes)? {
            if row.is_late() && answered.as_ref() != Some(&row.scope) {
                late.push(row.scope.to_string());
            }
        }
        Ok(late)
    }

    /// Has the next pass look at everything.
    pub fn mark_everything_due(&self) -> Result<(), Refusal> {
        self.mark_pool_due(&Key::default())
    }

    /// Has the next pass look at everything, and work out again what plans have left as it is.
    pub fn forget_plans_of_everything(&self) -> Result<(), Refusal> {
        self.write_under_lock(|| {
            forget_settled_agents(self.conn())?;
            self.mark_everything_due()
        })
    }

    /// Whether something was changed that concerns everything, and no pass over everything has begun
    /// since.
    pub fn is_everything_changed(&self) -> Result<bool, Refusal> {
        let sql = "SELECT 1 FROM due_scope WHERE namespace = '' AND pool = '' AND dirty";
        Ok(self.conn().prepare_cached(sql)?.exists([])?)
    }

    /// Notes that a pass over everything has begun. Until it ends, the row of what belongs to no pool
    /// is `polled`, so that the pass is begun again if it is killed, and `dirty` only if something that
    /// concerns everything is changed in the meantime. Needs an open write transaction.
    pub fn begin_pass_over_everything(&self) -> Result<(), Refusal> {
        let sql = "UPDATE due_scope SET dirty = 0, polled = 1 \
                   WHERE namespace = '' AND pool = '' AND dirty";
        self.conn().prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Has the next pass look at a pool.
    pub fn mark_pool_due(&self, pool: &Key) -> Result<(), Refusal> {
        mark_pool_dirty(self.conn(), pool)
    }
}

fn mark_pool_dirty(conn: &Connection, pool: &Key) -> Result<(), Refusal> {
    let sql = "INSERT INTO due_scope (namespace, pool, dirty, polled, waits) \
               VALUES (?1, ?2, 1, 0, 0) \
               ON CONFLICT (namespace, pool) DO UPDATE SET dirty = 1 WHERE NOT dirty";
    conn.prepare_cached(sql)?.execute([&pool.namespace, &pool.name])?;
    Ok(())
}

/// Writes what a commit says of scopes. Needs an open write transaction.
pub fn write_due(conn: &Connection, changes: &DueChanges) -> Result<(), Refusal> {
    if changes.helped == HelpedScopes::Pools && !changes.is_whole {
        mark_waiting_pools(conn)?;
    }
    for ChangedRow { scope, after, .. } in changed_rows(conn, changes)? {
        match scope {
            DueScope::Pool(pool) => write_pool_row(conn, &pool, after)?,
            DueScope::Object(object) => {
                write_object_row(conn, object.kind.name(), &object.key, after)?;
            }
            DueScope::Foreign { kind, key } => write_object_row(conn, &kind, &key, after)?,
        }
    }
    write_answered_pool(conn, changes)
}

/// Keeps which pool's claim was answered. A pool that is kept there and was not planned since then
/// gets a row, like any pool that was changed, before another one takes its place.
fn write_answered_pool(conn: &Connection, changes: &DueChanges) -> Result<(), Refusal> {
    let before = read_state_row(conn)?.answered_pool;
    let after = answered_pool_after(conn, before.as_ref(), changes)?;
    if before.as_ref() == after {
        return Ok(());
    }
    if let Some(replaced) = before.as_ref().filter(|pool| !changes.settles(pool)) {
        mark_pool_dirty(conn, replaced)?;
    }
    let sql = "UPDATE state SET answered_namespace = ?1, answered_pool = ?2";
    let namespace = after.map(|pool| &pool.namespace);
    let name = after.map(|pool| &pool.name);
    conn.prepare_cached(sql)?.execute(params![namespace, name])?;
    Ok(())
}

/// The pool to keep as the one whose claim was answered last; none once a pass has looked at it.
fn answered_pool_after<'a>(
    conn: &Connection,
    before: Option<&'a Key>,
    changes: &'a DueChanges,
) -> Result<Option<&'a Key>, Refusal> {
    if changes.answered_pool.is_some() {
        return Ok(changes.answered_pool.as_ref());
    }
    let Some(pool) = before.filter(|pool| !changes.settles(pool)) else { return Ok(None) };
    // What is left of a pool that is gone belongs to no pool.
    let is_gone = changes.is_rest_settled && !document_exists::<ClusterPool>(conn, pool)?;
    Ok(if is_gone { None } else { Some(pool) })
}

/// Has the next pass look at pools that may have what they wait for.
fn mark_waiting_pools(conn: &Connection) -> Result<(), Refusal> {
    let sql = "UPDATE due_scope SET dirty = 1 WHERE waits AND NOT dirty AND pool <> ''";
    conn.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// The rows that are to be written, and what is to be in them, in the order of their scopes.
fn changed_rows(conn: &Connection, changes: &DueChanges) -> Result<Vec<ChangedRow>, Refusal> {
    let mut rows = DueRows::new();
    for (pool, due) in &changes.settled.pools {
        rows.insert(DueScope::Pool(pool.clone()), DueRow { due: *due, is_dirty: false });
    }
    for (object, due) in &changes.settled.objects {
        rows.insert(DueScope::Object(object.clone()), DueRow { due: *due, is_dirty: false });
    }
    let mut stored = select_rows_of(conn, changes)?;
    let mut rest = row_of(&stored, &rest_scope());
    if changes.is_whole || changes.is_rest_settled {
        // Parts of a pass over everything may have changed something for everything.
        rest = DueRow { is_dirty: rest.is_dirty && !changes.is_whole, ..DueRow::default() };
        let listed = select_rows(conn, changes.is_whole)?;
        // What has a row and is not in the state any more has nothing to do.
        for scope in listed.keys() {
            rows.entry(scope.clone()).or_default();
        }
        stored.extend(listed);
    }
    rest.due.add(changes.settled.rest);
    rest.is_dirty |= changes.is_rest_dirty;
    rows.insert(rest_scope(), rest);
    for (object, due) in &changes.partly_settled {
        let scope = DueScope::Object(object.clone());
        let mut row = row_of(&stored, &scope);
        row.due.add(*due);
        rows.insert(scope, row);
    }
    postpone_objects(&mut rows, &stored, changes);
    let dirty_pools = changes.dirty_pools.iter().cloned().map(DueScope::Pool);
    let dirty_objects = changes.dirty_objects.iter().cloned().map(DueScope::Object);
    for scope in dirty_pools.chain(dirty_objects) {
        let stored_row = row_of(&stored, &scope);
        rows.entry(scope).or_insert(stored_row).is_dirty = true;
    }
    let mut changed = Vec::new();
    for (scope, after) in rows {
        let before = row_of(&stored, &scope);
        if before != after {
            changed.push(ChangedRow { scope, before, after });
        }
    }
    changed.sort_unstable_by(|left, right| left.scope.cmp(&right.scope));
    Ok(changed)
}

/// Takes the new instants of objects that were only heard of. What was due before that is still to
/// be done.
fn postpone_objects(rows: &mut DueRows, stored: &DueRows, changes: &DueChanges) {
    for (object, due) in &changes.postponed {
        let scope = DueScope::Object(object.clone());
        let mut row = row_of(stored, &scope);
        row.is_dirty |= row.due.at.is_some_and(|at| at <= changes.now);
        row.due = *due;
        rows.insert(scope, row);
    }
}

/// The row for all that belongs to no pool and has no row of its own.
fn rest_scope() -> DueScope {
    DueScope::Pool(Key::default())
}

/// The row of a scope, which has nothing to do if it has no row.
fn row_of(rows: &DueRows, scope: &DueScope) -> DueRow {
    rows.get(scope).copied().unwrap_or_default()
}

/// The rows of all objects, and of all pools or only those that do not exist.
fn select_rows(conn: &Connection, has_all_pools: bool) -> Result<DueRows, Refusal> {
    let mut stored = DueRows::new();
    let sql = if has_all_pools {
        "SELECT due, dirty, polled, waits, namespace, pool FROM due_scope"
    } else {
        "SELECT due, dirty, polled, waits, namespace, pool FROM due_scope d \
         WHERE NOT EXISTS (SELECT 1 FROM document p WHERE p.kind = 'ClusterPool' \
         AND p.namespace = d.namespace AND p.name = d.pool)"
    };
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let pool = Key::new(row.get::<_, String>(4)?, row.get::<_, String>(5)?);
        stored.insert(DueScope::Pool(pool), read_pool_row(row)?);
    }
    let sql = "SELECT due, dirty, polled, kind, namespace, name FROM due_object";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        stored.insert(read_object_scope(row, 3)?, read_object_row(row)?);
    }
    Ok(stored)
}

/// The rows of the scopes that the changes are about. The rows of objects are left out if all of them
/// are read anyway.
fn select_rows_of(conn: &Connection, changes: &DueChanges) -> Result<DueRows, Refusal> {
    let mut stored = DueRows::new();
    let sql = "SELECT due, dirty, polled, waits FROM due_scope WHERE namespace = ?1 AND pool = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let pools = changes.settled.pools.keys().chain(&changes.dirty_pools);
    for pool in pools.chain([&Key::default()]) {
        let row = statement.query_row([&pool.namespace, &pool.name], read_pool_row).optional()?;
        stored.extend(row.map(|row| (DueScope::Pool(pool.clone()), row)));
    }
    if changes.is_whole || changes.is_rest_settled {
        return Ok(stored);
    }
    let settled = changes.settled.objects.keys().chain(changes.partly_settled.keys());
    let objects = settled.chain(changes.postponed.keys()).chain(&changes.dirty_objects);
    for object in objects {
        let row = select_row_of_object(conn, object)?;
        stored.extend(row.map(|row| (DueScope::Object(object.clone()), row)));
    }
    Ok(stored)
}

/// Reads the row of an object. It is prepared here, and not before the loop of the caller, because most
/// commits say nothing of objects.
fn select_row_of_object(conn: &Connection, object: &DueObject) -> Result<Option<DueRow>, Refusal> {
    let sql = "SELECT due, dirty, polled FROM due_object \
               WHERE kind = ?1 AND namespace = ?2 AND name = ?3";
    let values = params![object.kind.name(), object.key.namespace, object.key.name];
    Ok(conn.prepare_cached(sql)?.query_row(values, read_object_row).optional()?)
}

fn read_pool_row(row: &Row<'_>) -> rusqlite::Result<DueRow> {
    let due = Due { at: row.get(0)?, is_polled: row.get(2)?, waits: row.get(3)? };
    Ok(DueRow { due, is_dirty: row.get(1)? })
}

fn read_object_row(row: &Row<'_>) -> rusqlite::Result<DueRow> {
    let due = Due { at: row.get(0)?, is_polled: row.get(2)?, ..Due::default() };
    Ok(DueRow { due, is_dirty: row.get(1)? })
}

/// The object that a row is about, by its kind, its namespace and its name, which are read from a
/// column on.
fn read_object_scope(row: &Row<'_>, first_column: usize) -> rusqlite::Result<DueScope> {
    let kind: String = row.get(first_column)?;
    let namespace: String = row.get(first_column + 1)?;
    let name: String = row.get(first_column + 2)?;
    let key = Key::new(namespace, name);
    Ok(match Kind::from_name(&kind) {
        Some(kind) => DueScope::Object(DueObject { kind, key }),
        None => DueScope::Foreign { kind, key },
    })
}

/// Writes the row of a pool, or removes one that has nothing to say.
fn write_pool_row(conn: &Connection, pool: &Key, row: DueRow) -> Result<(), Refusal> {
    let Key { namespace, name } = pool;
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

/// Writes the row of an object, or removes one that has nothing to say.
fn write_object_row(
    conn: &Connection,
    kind: &str,
    Key { namespace, name }: &Key,
    row: DueRow,
) -> Result<(), Refusal> {
    if row == DueRow::default() {
        let sql = "DELETE FROM due_object WHERE kind = ?1 AND namespace = ?2 AND name = ?3";
        conn.prepare_cached(sql)?.execute(params![kind, namespace, name])?;
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO due_object (kind, namespace, name, due, dirty, polled) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let values = params![kind, namespace, name, row.due.at, row.is_dirty, row.due.is_polled];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
