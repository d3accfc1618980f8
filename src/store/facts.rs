//! Rows of facts: how they are read from SQLite and written to it, as the model declares them, and
//! how the object's document in the table beside them is. Nothing here knows a kind.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::facts::{FactReader, FactRow, FactValue, Facts, SharedTexts, UnreadableFact};
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Time;

use super::body_checksums::checksum_of;
use super::documents::to_body;

impl FactRow for Row<'_> {
    fn value(&self, column: usize) -> Result<FactValue<'_>, UnreadableFact> {
        read_fact(self, column).map_err(|why| UnreadableFact { column, why })
    }
}

/// Reads a column of a row. The error says what is there instead of a fact.
fn read_fact<'a>(row: &'a Row<'_>, column: usize) -> Result<FactValue<'a>, String> {
    match row.get_ref(column).map_err(|error| error.to_string())? {
        ValueRef::Null => Ok(FactValue::Null),
        ValueRef::Integer(number) => Ok(FactValue::Integer(number)),
        ValueRef::Text(bytes) => {
            let string = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            Ok(FactValue::Text(Cow::Borrowed(string)))
        }
        value => Err(format!("a {}, not a text or a number", value.data_type())),
    }
}

impl ToSql for FactValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            FactValue::Null => ToSqlOutput::Owned(Value::Null),
            FactValue::Integer(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            FactValue::Text(string) => ToSqlOutput::Borrowed(ValueRef::Text(string.as_bytes())),
        })
    }
}

/// In columns that are no facts, a time is microseconds since 1970 as well.
impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(Value::Integer(self.0)))
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self)
    }
}

/// Reads the rows that clauses after FROM name, such as `WHERE name = ?1 ORDER BY id`.
pub fn select_facts<T: Facts>(
    conn: &Connection,
    clauses: &str,
    values: impl Params,
) -> Result<Vec<T>, Refusal> {
    let mut facts = Vec::new();
    visit_facts(conn, clauses, values, &mut |row| {
        facts.push(row);
        Ok(())
    })?;
    Ok(facts)
}

/// Reads the same rows one by one.
pub fn visit_facts<T: Facts>(
    conn: &Connection,
    clauses: &str,
    values: impl Params,
    visit: &mut dyn FnMut(T) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let columns = T::COLUMNS.concat().join(", ");
    let sql = format!("SELECT {columns} FROM {} {clauses}", T::TABLE);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    let mut shared = SharedTexts::default();
    while let Some(row) = rows.next()? {
        // All columns of the type are selected, in the order of their declaration.
        let facts = T::read(&mut FactReader::new(row, &mut shared));
        visit(facts.map_err(|unreadable| {
            let column = T::COLUMNS.concat().get(unreadable.column).copied();
            unreadable_fact(row, T::TABLE, column.unwrap_or_default(), &unreadable.why)
        })?)?;
    }
    Ok(())
}

/// Removes the rows that the program cannot read, and returns how many these were. Needs a write
/// transaction.
pub fn remove_unreadable_facts<T: Facts>(conn: &Connection) -> Result<usize, Refusal> {
    let columns = T::COLUMNS.concat();
    let mut statement =
        conn.prepare(&format!("SELECT {}, rowid FROM {}", columns.join(", "), T::TABLE))?;
    let mut rows = statement.query([])?;
    let mut shared = SharedTexts::default();
    let mut unreadable: Vec<i64> = Vec::new();
    while let Some(row) = rows.next()? {
        if T::read(&mut FactReader::new(row, &mut shared)).is_err() {
            unreadable.push(row.get(columns.len())?);
        }
    }
    for rowid in &unreadable {
        conn.execute(&format!("DELETE FROM {} WHERE rowid = ?1", T::TABLE), [rowid])?;
    }
    Ok(unreadable.len())
}

/// The columns in which the row of an id differs from these facts, also if a column has a value that it
/// cannot have.
pub fn select_differing_columns<T: Facts>(
    conn: &Connection,
    id: i64,
    facts: &T,
) -> Result<Vec<&'static str>, Refusal> {
    let columns = T::COLUMNS.concat();
    let sql = format!("SELECT {} FROM {} WHERE id = ?1", columns.join(", "), T::TABLE);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([id])?;
    let Some(row) = rows.next()? else { return Ok(Vec::new()) };
    let mut differing = Vec::new();
    for (index, (column, value)) in columns.into_iter().zip(facts.write()).enumerate() {
        if read_fact(row, index) != Ok(value) {
            differing.push(column);
        }
    }
    Ok(differing)
}

/// A column of a row has a value that the program has not written. The first column is the id.
fn unreadable_fact(row: &Row<'_>, table: &str, column: &str, why: &str) -> Refusal {
    let id: Value = row.get(0).unwrap_or(Value::Null);
    let id = match id {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text,
        _ => "without an id".to_owned(),
    };
    Refusal::new(Exit::State, format!("row {id} of table {table} cannot be read"))
        .because(format!("column {column}: {why}"))
        .advise(
            "poolctl doctor; to have a state without the row: poolctl doctor --salvage \
             \"$(poolctl state path)\" --to NEW",
        )
}

thread_local! {
    /// The statements that write rows, by table and by the columns that they write. A pass writes
    /// thousands of rows that changed alike, so the text of each statement is made once.
    static STATEMENTS: RefCell<HashMap<(&'static str, ColumnSet), Rc<str>>> = RefCell::default();
}

/// Columns of a table, one bit each; bit 0 is the first column, the id.
type ColumnSet = u128;

const ALL_COLUMNS: ColumnSet = ColumnSet::MAX;

/// The statement that writes these columns of a row, made when it is first asked for.
fn statement_of<T: Facts>(changed: ColumnSet) -> Rc<str> {
    STATEMENTS.with_borrow_mut(|statements| {
        let statement = statements.entry((T::TABLE, changed)).or_insert_with(|| {
            if changed == ALL_COLUMNS { format_upsert::<T>() } else { format_update::<T>(changed) }
        });
        Rc::clone(statement)
    })
}

/// Makes the statement that inserts a row, or updates the row that has its id, the first column.
fn format_upsert<T: Facts>() -> Rc<str> {
    let columns = T::COLUMNS.concat();
    let parameters: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    let assignments: Vec<String> =
        columns.iter().skip(1).map(|column| format!("{column} = excluded.{column}")).collect();
    let sql = format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT (id) DO UPDATE SET {}",
        T::TABLE,
        columns.join(", "),
        parameters.join(", "),
        assignments.join(", ")
    );
    sql.into()
}

/// Makes the statement that updates these columns of the row with an id, which is its last
/// parameter. SQLite then leaves the indexes of all other columns alone.
fn format_update<T: Facts>(changed: ColumnSet) -> Rc<str> {
    let mut assignments = Vec::new();
    for (index, column) in T::COLUMNS.concat().into_iter().enumerate() {
        if changed & (1 << index) != 0 {
            assignments.push(format!("{column} = ?"));
        }
    }
    format!("UPDATE {} SET {} WHERE id = ?", T::TABLE, assignments.join(", ")).into()
}

/// Writes a row: all of a new one, and of one that was there before what has changed. The id is the
/// first column; a new row has the id 0 and is given one here. Returns the id, which means nothing
/// where ids are text, as those of jobs.
pub fn write_facts<T: Facts>(
    conn: &Connection,
    before: Option<&T>,
    after: &T,
) -> rusqlite::Result<i64> {
    let mut values = after.write();
    let id = match values.first() {
        Some(FactValue::Integer(id)) => *id,
        _ => 0,
    };
    if let Some(before) = before {
        update_facts::<T>(conn, &before.write(), values)?;
        return Ok(id);
    }
    if let Some(new_id) = values.first_mut().filter(|value| **value == FactValue::Integer(0)) {
        *new_id = FactValue::Null;
    }
    conn.prepare_cached(&statement_of::<T>(ALL_COLUMNS))?.execute(params_from_iter(values))?;
    Ok(if id == 0 { conn.last_insert_rowid() } else { id })
}

/// Writes all columns of a row that is there, whatever it has.
pub fn overwrite_facts<T: Facts>(conn: &Connection, facts: &T) -> rusqlite::Result<()> {
    update_facts::<T>(conn, &[], facts.write())
}

/// Writes the columns in which a row differs from what it was; none, if only its document does.
fn update_facts<T: Facts>(
    conn: &Connection,
    before: &[FactValue<'_>],
    after: Vec<FactValue<'_>>,
) -> rusqlite::Result<()> {
    let mut changed: ColumnSet = 0;
    let mut changed_values = Vec::new();
    let mut id = FactValue::Null;
    for (index, value) in after.into_iter().enumerate() {
        if index == 0 {
            id = value;
        } else if before.get(index) != Some(&value) {
            changed |= 1 << index;
            changed_values.push(value);
        }
    }
    if changed == 0 {
        return Ok(());
    }
    changed_values.push(id);
    let statement = statement_of::<T>(changed);
    conn.prepare_cached(&statement)?.execute(params_from_iter(changed_values))?;
    Ok(())
}

/// Reads the document beside a row of facts, from a table such as `cluster_body`.
pub fn read_body<T: DeserializeOwned>(
    conn: &Connection,
    table: &str,
    id: i64,
) -> Result<Option<Box<T>>, Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT body FROM {table} WHERE id = ?1"))?;
    let json: Option<String> = statement.query_row([id], |row| row.get(0)).optional()?;
    let Some(json) = json else { return Ok(None) };
    match serde_json::from_str(&json) {
        Ok(body) => Ok(Some(Box::new(body))),
        Err(error) => Err(Refusal::new(Exit::State, format!("a row of {table} cannot be read"))
            .because(error.to_string())),
    }
}

/// Writes the document beside a row of facts, if it is loaded and differs from what it was.
pub fn write_body<T: Serialize + PartialEq>(
    conn: &Connection,
    table: &str,
    id: i64,
    before: Option<&T>,
    after: Option<&T>,
) -> Result<(), Refusal> {
    let Some(body) = after.filter(|after| before != Some(*after)) else { return Ok(()) };
    let json = to_body(body)?;
    let sql = format!("INSERT OR REPLACE INTO {table} (id, body, checksum) VALUES (?1, ?2, ?3)");
    conn.prepare_cached(&sql)?.execute(params![id, json, checksum_of(json.as_bytes())])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::claim::Claim;

    #[test]
    fn a_row_that_was_there_is_written_in_the_columns_that_changed_alone() {
        let conn = Connection::open_in_memory().unwrap();
        let columns = Claim::COLUMNS.concat().join(", ");
        conn.execute_batch(&format!("CREATE TABLE claim ({columns}, UNIQUE (id))")).unwrap();
        let claim = Claim { id: 7, name: "ci".into(), ..Claim::default() };
        assert_eq!(write_facts(&conn, None, &claim).unwrap(), 7);
        // Another column is not as the row had it: nothing but the change may be written.
        conn.execute("UPDATE claim SET owner = 'somebody'", []).unwrap();
        let claimed = Claim { cluster: Some("lab-1".into()), ..claim.clone() };
        assert_eq!(write_facts(&conn, Some(&claim), &claimed).unwrap(), 7);
        let select = "SELECT owner || ' ' || cluster FROM claim";
        let row: String = conn.query_row(select, [], |row| row.get(0)).unwrap();
        assert_eq!(row, "somebody lab-1");
        assert_eq!(write_facts(&conn, Some(&claimed), &claimed).unwrap(), 7);
        assert_eq!(conn.changes(), 1, "the row as it was is not written");
    }
}
