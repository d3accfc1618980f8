//! The number of a state's schema, and the migrations, which the build lists by their files. Reads
//! the number and refuses a newer one; never changes it.

use std::path::Path;

use rusqlite::Connection;

use crate::model::refusal::{Exit, Refusal};

include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// The number of the schema of a file; 0 for an empty file.
pub fn read_schema(conn: &Connection) -> Result<u32, Refusal> {
    let mut statement = conn.prepare_cached("PRAGMA user_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Refuses a state that a newer poolctl has migrated.
pub fn check_not_newer(conn: &Connection, path: &Path) -> Result<(), Refusal> {
    let schema = read_schema(conn)?;
    if schema <= SCHEMA {
        return Ok(());
    }
    let message = format!("`{}` was written by a newer poolctl", path.display());
    Err(Refusal::new(Exit::State, message)
        .because(format!(
            "it has schema {schema}, and this poolctl knows {SCHEMA}; it was left as it is"
        ))
        .advise("run the poolctl that wrote it, or poolctl --state FILE for another state"))
}
