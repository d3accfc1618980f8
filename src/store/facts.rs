//! Rows of facts: how they are read from SQLite and written to it, as the model declares them, and
//! how the object's document in the table beside them is. Nothing here knows a kind.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, Type, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::facts::{FactReader, FactRow, FactValue, Facts, SharedTexts, UnreadableFact};
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Time;

use super::documents::to_body;

impl FactRow for Row<'_> {
    fn value(&self, column: usize) -> Result<FactValue<'_>, UnreadableFact> {
        let unreadable = |why: String| UnreadableFact { column, why };
        match self.get_ref(column).map_err(|error| unreadable(error.to_string()))? {
            ValueRef::Null => Ok(FactValue::Null),
            ValueRef::Integer(number) => Ok(FactValue::Integer(number)),
            ValueRef::Text(bytes) => {
                let string =
                    std::str::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
                Ok(FactValue::Text(Cow::Borrowed(string)))
            }
            value => Err(unreadable(format!("a {}, not a text or a number", value.data_type()))),
        }
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
    let columns = T::COLUMNS.concat().join(", ");
    let sql = format!("SELECT {columns} FROM {} {clauses}", T::TABLE);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    let mut shared = SharedTexts::default();
    let mut facts = Vec::new();
    while let Some(row) = rows.next()? {
        facts.push(read_facts(row, &mut shared)?);
    }
    Ok(facts)
}

/// Reads a row that has all columns of a type, in the order of their declaration.
fn read_facts<T: Facts>(row: &Row<'_>, shared: &mut SharedTexts) -> rusqlite::Result<T> {
    T::read(&mut FactReader::new(row, shared)).map_err(|unreadable| {
        let UnreadableFact { column, why } = unreadable;
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}

thread_local! {
    /// By table, the statement that writes a row of it. A pass writes thousands of rows, so the
    /// text of each statement is made once.
    static UPSERT_STATEMENTS: RefCell<HashMap<&'static str, Rc<str>>> = RefCell::default();
}

/// The statement that writes a row of a type, made when it is first asked for.
fn upsert_statement<T: Facts>() -> Rc<str> {
    UPSERT_STATEMENTS.with_borrow_mut(|statements| {
        Rc::clone(statements.entry(T::TABLE).or_insert_with(format_upsert::<T>))
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

/// Inserts a row, or updates the row that has its id. The id is the first column; a new row has the
/// id 0 and is given one here. Returns the id, which means nothing where ids are text, as those of
/// jobs.
pub fn write_facts<T: Facts>(conn: &Connection, facts: &T) -> rusqlite::Result<i64> {
    let mut values = facts.write();
    let mut existing_id = None;
    match values.first_mut() {
        Some(id) if *id == FactValue::Integer(0) => *id = FactValue::Null,
        Some(FactValue::Integer(id)) => existing_id = Some(*id),
        _ => {}
    }
    conn.prepare_cached(&upsert_statement::<T>())?.execute(params_from_iter(values))?;
    Ok(existing_id.unwrap_or_else(|| conn.last_insert_rowid()))
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
    let sql = format!("INSERT OR REPLACE INTO {table} (id, body) VALUES (?1, ?2)");
    conn.prepare_cached(&sql)?.execute(params![id, to_body(body)?])?;
    Ok(())
}
