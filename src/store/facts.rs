//! Rows of facts: read from SQLite and written to it as they are declared. Knows no kind.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, Type, Value, ValueRef};
use rusqlite::{Connection, Row, ToSql, params_from_iter};

use crate::model::facts::{FactReader, FactRow, FactValue, Facts, SharedTexts, UnreadableFact};

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

/// The columns of a type, in the order in which they are read.
pub fn columns<T: Facts>() -> String {
    T::COLUMNS.concat().join(", ")
}

/// Reads a row of all columns of a type.
pub fn read<T: Facts>(row: &Row<'_>, shared: &mut SharedTexts) -> rusqlite::Result<T> {
    T::read(&mut FactReader::new(row, shared)).map_err(|unreadable| {
        let UnreadableFact { column, why } = unreadable;
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}

/// Writes a row, by its first column, which is its id; a new row whose id is 0 is given one.
/// Returns the id that SQLite gave last.
pub fn put<T: Facts>(conn: &Connection, facts: &T) -> rusqlite::Result<i64> {
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
    let mut values = facts.write();
    if let Some(id) = values.first_mut().filter(|id| **id == FactValue::Integer(0)) {
        *id = FactValue::Null;
    }
    conn.prepare_cached(&sql)?.execute(params_from_iter(values))?;
    Ok(conn.last_insert_rowid())
}
