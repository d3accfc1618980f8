//! Salvage: reads what can still be read of a corrupt state into a new one, row by row, and tells
//! what is lost. The corrupt file is copied first, and never changed.

use std::fs;
use std::path::Path;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};

use crate::model::agent::facts::AgentFacts;
use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::facts::Facts;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::refusal::{Exit, Refusal};

use super::agents::insert_lost_rows_of_agents;
use super::body_checksums::find_changed_documents;
use super::connection::Store;
use super::copies::{path_beside, refuse_copy};
use super::event_chain::rebuild_chain;
use super::facts::remove_unreadable_facts;
use super::lock::{Lock, LockWait};
use super::log_damage::refuse_damaged_log;
use super::migrate::create_schema;
use super::open::APPLICATION_ID;
use super::pools::rebuild_inventory_entries;
use super::schema::{AGENT_BODIES, SCHEMA, SHARED_TABLE, path_of_copy, read_schema};
use super::table_list::{TableList, rebuild_table_list};
use super::temporary::TemporaryFolder;

/// The tables whose rows are a part of an object that has other parts elsewhere: the column with the
/// number of the other part, its table, and the kind of the object.
const PARTS_OF_OBJECTS: [(&str, &str, &str, Kind); 8] = [
    ("cluster_body", "id", "cluster", Kind::ClusterDeployment),
    ("claim_body", "id", "claim", Kind::ClusterClaim),
    ("secret", "object", SHARED_TABLE, Kind::Secret),
    ("lease", "customization", SHARED_TABLE, Kind::Customization),
    ("infra_env_token", "infra_env", SHARED_TABLE, Kind::InfraEnv),
    ("agent", "id", AGENT_BODIES, Kind::Agent),
    ("agent_body", "id", "agent", Kind::Agent),
    ("agent_mac", "agent", "agent", Kind::Agent),
];

/// What became of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedTable {
    pub name: String,
    /// How many rows were taken over.
    pub rows: usize,
    /// What is lost, a sentence for each; empty if the table is whole.
    pub losses: Vec<String>,
}

/// The values of a row, in the order in which its columns were asked for.
type Values = Vec<Value>;

/// Reads a state that is corrupt into a new one, which must not exist.
pub fn salvage_state(
    from: &Path,
    to: &Path,
    lock_wait: LockWait,
) -> Result<Vec<SalvagedTable>, Refusal> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(Refusal::conflict(format!("`{}` exists already", to.display()))
            .next("poolctl doctor --salvage FROM --to NEW"));
    }
    let from = &fs::canonicalize(from).map_err(|error| refuse_copy(from, &error))?;
    // Reading a pipe would wait for whoever writes to it.
    if !fs::metadata(from).is_ok_and(|metadata| metadata.is_file()) {
        return Err(Refusal::invalid(format!("`{}` is not a file", from.display())));
    }
    let folder = copy_state(from, to, lock_wait)?;
    let copy = folder.path().join("state.db");
    let (source, log_loss) = open_readable_copy(&copy, from)?;
    let store = Store::open_or_create(to)?.with_lock_wait(lock_wait);
    let _lock = store.lock_to_write()?;
    // What a row refers to may come later, or be lost.
    store.file().pragma_update(None, "foreign_keys", 0)?;
    store.begin_write()?;
    let copied = copy_tables(&source, store.file()).and_then(|mut tables| {
        remove_unreadable_rows(store.file(), &mut tables)?;
        remove_rows_of_lost_objects(store.file(), &mut tables)?;
        rebuild_chain(store.file())?;
        rebuild_inventory_entries(store.file())?;
        Ok(tables)
    });
    let is_nothing_copied =
        copied.as_ref().is_ok_and(|tables| tables.iter().all(|table| table.rows == 0));
    if is_nothing_copied {
        store.rollback();
        drop(store);
        remove_new_state(to);
        return Err(nothing_to_salvage(from));
    }
    let mut tables = match copied.and_then(|tables| store.commit().map(|()| tables)) {
        Ok(tables) => tables,
        Err(refusal) => {
            store.rollback();
            return Err(refusal);
        }
    };
    let damaged_documents = find_changed_documents(store.file())?;
    if !damaged_documents.is_empty() {
        tables.push(SalvagedTable { name: "contents".into(), rows: 0, losses: damaged_documents });
    }
    if let Some(losses) = log_loss {
        tables.push(SalvagedTable { name: "log".into(), rows: 0, losses });
    }
    Ok(tables)
}

/// Removes the new state, into which nothing was read.
fn remove_new_state(to: &Path) {
    for ending in ["", "-wal", "-shm", ".lock", ".reserve"] {
        // What cannot be removed is an empty state, which does no harm.
        drop(fs::remove_file(path_beside(to, ending)));
    }
}

fn nothing_to_salvage(from: &Path) -> Refusal {
    Refusal::new(Exit::State, format!("nothing of `{}` can be read", from.display()))
        .because("the list of its tables is damaged; it was left as it is")
        .next("poolctl restore BACKUP")
}

/// Copies a state and its log to a folder beside the new state.
fn copy_state(from: &Path, to: &Path, lock_wait: LockWait) -> Result<TemporaryFolder, Refusal> {
    let folder =
        TemporaryFolder::create_beside(to).map_err(|error| Refusal::unwritable(to, &error))?;
    // Nobody may write to it between the copy of the file and that of its log.
    let has_lock = path_beside(from, ".lock").exists();
    let _lock = if has_lock { Some(Lock::to_write(from, lock_wait)?) } else { None };
    let copy = folder.path().join("state.db");
    fs::copy(from, &copy).map_err(|error| refuse_copy(from, &error))?;
    if path_beside(from, "-wal").exists() {
        fs::copy(path_beside(from, "-wal"), path_beside(&copy, "-wal"))
            .map_err(|error| refuse_copy(from, &error))?;
    }
    Ok(folder)
}

/// Opens the copy of a corrupt state. Refused if it has another schema than this program, or if its
/// header cannot be read.
fn open_corrupt_copy(copy: &Path, from: &Path) -> Result<Connection, Refusal> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(copy, flags)?;
    // Without this, SQLite reads nothing of a file that is cut short.
    conn.execute_batch("PRAGMA writable_schema = ON")?;
    let application_id: u32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let from = from.display();
    if application_id != APPLICATION_ID {
        return Err(Refusal::new(Exit::State, format!("`{from}` is not a poolctl state file")));
    }
    let schema = read_schema(&conn)?;
    if schema != SCHEMA {
        return Err(Refusal::new(Exit::State, format!("`{from}` was written by another poolctl"))
            .because(format!("it has schema {schema}, and this poolctl has {SCHEMA}"))
            .advise("salvage it with the poolctl that wrote it"));
    }
    Ok(conn)
}

/// Opens the copy of a corrupt state, and says what is lost of its log. If its list of tables is
/// damaged, the copy gets another one.
fn open_readable_copy(
    copy: &Path,
    from: &Path,
) -> Result<(Connection, Option<Vec<String>>), Refusal> {
    let source = open_corrupt_copy(copy, from)?;
    let log_loss =
        refuse_damaged_log(copy).err().map(|refusal| refusal.causes.into_iter().take(1).collect());
    let new_state = Connection::open_in_memory()?;
    create_schema(&new_state)?;
    let tables = TableList::read(&new_state)?;
    if tables.is_known_to(&source) {
        return Ok((source, log_loss));
    }
    // What the log has is read from the file below. A log that cannot be folded in is lost.
    let folded = source.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    drop((folded, source));
    for ending in ["-wal", "-shm"] {
        drop(fs::remove_file(path_beside(copy, ending)));
    }
    rebuild_table_list(copy, &tables, &read_earlier_lists(from))?;
    Ok((open_corrupt_copy(copy, from)?, log_loss))
}

/// The lists of tables in the copies that were made of a state before it was migrated, the newest
/// first.
fn read_earlier_lists(state: &Path) -> Vec<TableList> {
    let mut lists = Vec::new();
    for schema in (1..SCHEMA).rev() {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path_of_copy(state, schema), flags);
        lists.extend(conn.ok().and_then(|conn| TableList::read(&conn).ok()));
    }
    lists
}

fn copy_tables(source: &Connection, target: &Connection) -> Result<Vec<SalvagedTable>, Refusal> {
    let sql = "SELECT name FROM sqlite_schema \
               WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name";
    let mut tables = Vec::new();
    for name in select_names(target, sql)? {
        tables.push(copy_table(source, target, name)?);
    }
    Ok(tables)
}

/// Removes the rows that no command could read, so that one of them does not keep all commands from going
/// on.
fn remove_unreadable_rows(
    target: &Connection,
    tables: &mut [SalvagedTable],
) -> Result<(), Refusal> {
    let mut removed = vec![
        (Cluster::TABLE, remove_unreadable_facts::<Cluster>(target)?),
        (Claim::TABLE, remove_unreadable_facts::<Claim>(target)?),
        (Job::TABLE, remove_unreadable_facts::<Job>(target)?),
        (AgentFacts::TABLE, remove_unreadable_facts::<AgentFacts>(target)?),
    ];
    for table in ["cluster_body", "claim_body", AGENT_BODIES] {
        let sql = format!("DELETE FROM {table} WHERE NOT json_valid(body)");
        removed.push((table, target.execute(&sql, [])?));
    }
    for (name, count) in removed {
        if let Some(table) = tables.iter_mut().find(|table| table.name == name && count > 0) {
            table.rows -= count;
            table.losses.push(format!("rows whose values are not possible: {count}"));
        }
    }
    Ok(())
}

/// Makes rows of Agents anew that follow from their documents: an Agent that is lost leaves a machine
/// free that a cluster has. Then removes what is left of objects of which another part is lost. The
/// next document with the number of a lost one would take it over, as a Secret of one tenant the
/// values of another.
fn remove_rows_of_lost_objects(
    target: &Connection,
    tables: &mut [SalvagedTable],
) -> Result<(), Refusal> {
    let inserted = insert_lost_rows_of_agents(target)?;
    if let Some(table) = tables.iter_mut().find(|table| table.name == "agent") {
        table.rows += inserted;
    }
    for (name, column, other_table, kind) in PARTS_OF_OBJECTS {
        let shared_kind = (other_table == SHARED_TABLE).then_some(kind.name());
        let of_kind = if shared_kind.is_some() { " WHERE kind = ?1" } else { "" };
        let sql = format!(
            "DELETE FROM {name} WHERE {column} NOT IN (SELECT id FROM {other_table}{of_kind})"
        );
        let removed = target.execute(&sql, params_from_iter(shared_kind))?;
        if removed == 0 {
            continue;
        }
        if let Some(table) = tables.iter_mut().find(|table| table.name == name) {
            table.rows -= removed;
            table.losses.push(format!("rows of a lost {}: {removed}", kind.name()));
        }
    }
    Ok(())
}

fn select_names(conn: &Connection, sql: &str) -> Result<Vec<String>, Refusal> {
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Takes over the rows of a table that can be read and that the new state accepts.
fn copy_table(
    source: &Connection,
    target: &Connection,
    name: String,
) -> Result<SalvagedTable, Refusal> {
    // Generated columns follow from the others.
    let sql = format!("SELECT name FROM pragma_table_xinfo('{name}') WHERE hidden = 0");
    let mut columns = select_names(target, &sql)?;
    let has_row_numbers = target.prepare(&format!("SELECT rowid FROM {name}")).is_ok();
    if has_row_numbers {
        columns.insert(0, "rowid".into());
    }
    if source.prepare(&format!("SELECT 1 FROM {name}")).is_err() {
        let loss = "all rows: the list of tables is damaged, and does not say where they are";
        return Ok(SalvagedTable { name, rows: 0, losses: vec![loss.into()] });
    }
    let mut losses = Vec::new();
    let rows = read_table(source, &name, &columns, has_row_numbers, &mut losses);
    let places = vec!["?"; columns.len()].join(", ");
    let columns = columns.join(", ");
    let sql = format!("INSERT OR REPLACE INTO {name} ({columns}) VALUES ({places})");
    let mut insert = target.prepare(&sql)?;
    let mut accepted = 0;
    let total = rows.len();
    for values in rows {
        accepted += usize::from(insert.execute(params_from_iter(values)).is_ok());
    }
    if accepted < total {
        losses.push(format!("rows whose values are not possible: {}", total - accepted));
    }
    Ok(SalvagedTable { name, rows: accepted, losses })
}

/// Reads the rows of a table from its beginning and, if that ends at a corrupt page, those behind it
/// from the end.
fn read_table(
    source: &Connection,
    name: &str,
    columns: &[String],
    has_row_numbers: bool,
    losses: &mut Vec<String>,
) -> Vec<Values> {
    let select = format!("SELECT {} FROM {name}", columns.join(", "));
    if !has_row_numbers {
        let (rows, error) = read_rows(source, &select);
        losses.extend(error.map(|error| describe_lost_end(rows.len(), &error)));
        return rows;
    }
    let (mut rows, error) = read_rows(source, &format!("{select} NOT INDEXED ORDER BY rowid"));
    let Some(error) = error else { return rows };
    let last_number = rows.last().and_then(row_number).unwrap_or(i64::MIN);
    let (mut later_rows, _) =
        read_rows(source, &format!("{select} NOT INDEXED ORDER BY rowid DESC"));
    later_rows.retain(|row| row_number(row).is_some_and(|number| number > last_number));
    later_rows.reverse();
    losses.push(match later_rows.first().and_then(row_number) {
        Some(next) if last_number == i64::MIN => format!("rows before number {next}: {error}"),
        Some(next) => format!("rows between the numbers {last_number} and {next}: {error}"),
        None => describe_lost_end(rows.len(), &error),
    });
    rows.extend(later_rows);
    rows
}

/// Says that a table cannot be read beyond a number of rows.
fn describe_lost_end(row_count: usize, error: &str) -> String {
    if row_count == 0 {
        return format!("all rows: {error}");
    }
    format!("all rows after {row_count}: {error}")
}

/// The number of a row whose first value that is.
fn row_number(values: &Values) -> Option<i64> {
    match values.first() {
        Some(Value::Integer(number)) => Some(*number),
        _ => None,
    }
}

/// Reads rows until there are no more, or until an error, which is returned with them.
fn read_rows(source: &Connection, sql: &str) -> (Vec<Values>, Option<String>) {
    let mut values_of_rows = Vec::new();
    let mut statement = match source.prepare(sql) {
        Ok(statement) => statement,
        Err(error) => return (values_of_rows, Some(error.to_string())),
    };
    let column_count = statement.column_count();
    let mut rows = match statement.query([]) {
        Ok(rows) => rows,
        Err(error) => return (values_of_rows, Some(error.to_string())),
    };
    loop {
        match rows.next() {
            Ok(Some(row)) => values_of_rows.push(read_values(row, column_count)),
            Ok(None) => return (values_of_rows, None),
            Err(error) => return (values_of_rows, Some(error.to_string())),
        }
    }
}

/// The values of a row. Text that is no text becomes bytes, which the new state does not accept
/// where it expects text.
fn read_values(row: &Row<'_>, column_count: usize) -> Values {
    let mut values = Values::new();
    for column in 0..column_count {
        values.push(match row.get_ref(column) {
            Ok(ValueRef::Integer(number)) => Value::Integer(number),
            Ok(ValueRef::Real(number)) => Value::Real(number),
            Ok(ValueRef::Text(bytes)) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => Value::Text(text),
                Err(error) => Value::Blob(error.into_bytes()),
            },
            Ok(ValueRef::Blob(bytes)) => Value::Blob(bytes.to_vec()),
            Ok(ValueRef::Null) | Err(_) => Value::Null,
        });
    }
    values
}
