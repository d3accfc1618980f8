//! The number of a state's schema, and the migrations, which the build lists by their files. Reads
//! the number and refuses a newer one; never changes it.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::model::refusal::{Exit, Refusal};

use super::copies::path_beside;

include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// The FNV-1a hash of all sources of this program, in hexadecimal digits. A program with other sources may
/// have other rules.
pub const SOURCES_DIGEST: &str = env!("POOLCTL_SOURCES_DIGEST");

/// The table of all kinds without columns of their own. Its column `kind` tells them apart.
pub const SHARED_TABLE: &str = "document";
/// The table of the documents of Agents, which are in several columns.
pub const AGENT_BODIES: &str = "agent_body";
/// The columns of such a document, in the order in which its checksum covers them.
pub const COLUMNS_OF_AGENT_BODIES: [&str; 4] = ["body", "conditions", "inventory", "validations"];

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
    Err(refuse_newer(path, schema))
}

/// Refuses a state whose schema is newer than that of this program. If the upgrade has left a copy
/// that this program can use, the refusal names it.
pub fn refuse_newer(path: &Path, schema: u32) -> Refusal {
    let refusal =
        Refusal::new(Exit::State, format!("`{}` was written by a newer poolctl", path.display()))
            .because(format!(
                "it has schema {schema}, and this poolctl knows {SCHEMA}; it was left as it is"
            ));
    let mut copies = (1..=SCHEMA).rev().map(|earlier| path_of_copy(path, earlier));
    match copies.find(|copy| copy.exists()) {
        Some(copy) => {
            let path = copy.display();
            refusal
                .because(format!(
                    "`{path}` is the state from before its upgrade, without what was changed since"
                ))
                .advise(format!(
                    "run the poolctl that wrote it; to look at the copy: poolctl --state {path} \
                     status"
                ))
        }
        None => refusal
            .advise("run the poolctl that wrote it, or poolctl --state FILE for another state"),
    }
}

/// The copy that is made of a state with this schema before it is migrated.
pub fn path_of_copy(path: &Path, schema: u32) -> PathBuf {
    path_beside(path, &format!(".schema-{schema}"))
}
