//! Rows of facts, read from SQLite and written to it as they are declared, with the object's document
//! in a table beside them. Knows no kind.

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
                let text =
                    std::str::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
                Ok(FactValue::Text(Cow::Borrowed(text)))
            }
            other => Err(unreadable(format!("a {}, not a text or a number", other.data_type()))),
        }
    }
}

impl ToSql for FactValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            FactValue::Null => ToSqlOutput::Owned(Value::Null),
            FactValue::Integer(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            FactValue::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

/// Microseconds since 1970, in columns that are no facts.
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

/// The rows of a type that clauses name, such as `WHERE name = ?1 ORDER BY id`.
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

/// Reads a row of all columns of a type.
fn read_facts<T: Facts>(row: &Row<'_>, shared: &mut SharedTexts) -> rusqlite::Result<T> {
    T::read(&mut FactReader::new(row, shared)).map_err(|unreadable| {
        let UnreadableFact { column, why } = unreadable;
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}

thread_local! {
    /// The statement that writes a row of each table: a pass writes thousands.
    static UPSERT_STATEMENTS: RefCell<HashMap<&'static str, Rc<str>>> = RefCell::default();
}

fn upsert_statement<T: Facts>() -> Rc<str> {
    UPSERT_STATEMENTS.with_borrow_mut(|statements| {
        Rc::clone(statements.entry(T::TABLE).or_insert_with(format_upsert::<T>))
    })
}

fn format_upsert<T: Facts>() -> Rc<str> {
    let columns = T::COLUMNS.concat();
    let places: Vec<String> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
    let sets: Vec<String> =
        columns.iter().skip(1).map(|column| format!("{column} = excluded.{column}")).collect();
    let sql = format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT (id) DO UPDATE SET {}",
        T::TABLE,
        columns.join(", "),
        places.join(", "),
        sets.join(", ")
    );
    sql.into()
}

/// Writes a row, by its first column, which is its id; a new row whose id is 0 is given one.
/// Returns the id, if it is a number.
pub fn write_facts<T: Facts>(conn: &Connection, facts: &T) -> rusqlite::Result<i64> {
    let mut values = facts.write();
    let mut known_id = None;
    match values.first_mut() {
        Some(id) if *id == FactValue::Integer(0) => *id = FactValue::Null,
        Some(FactValue::Integer(id)) => known_id = Some(*id),
        _ => {}
    }
    conn.prepare_cached(&upsert_statement::<T>())?.execute(params_from_iter(values))?;
    Ok(known_id.unwrap_or_else(|| conn.last_insert_rowid()))
}

/// The document beside a row's facts.
pub fn read_body<T: DeserializeOwned>(
    conn: &Connection,
    table: &str,
    id: i64,
) -> Result<Option<Box<T>>, Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT body FROM {table} WHERE id = ?1"))?;
    let text: Option<String> = statement.query_row([id], |row| row.get(0)).optional()?;
    text.map(|text| serde_json::from_str(&text).map(Box::new)).transpose().map_err(|error| {
        Refusal::new(Exit::State, format!("a row of {table} cannot be read"))
            .because(error.to_string())
    })
}

/// Writes the document beside a row's facts, if it is loaded and another one than before.
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
