//! Migrates states of earlier schemas. Before its first change such a state is copied beside itself
//! and migrated in one transaction; a command that only reads migrates a copy in memory. A schema
//! never goes back, and a migration that was published is never edited: the next change of the
//! schema is another migration.

use std::path::Path;

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use crate::model::refusal::{Exit, Refusal};

use super::agents::overwrite_facts_of_agents;
use super::body_checksums::{
    select_damaged_agents_of_schema_13, write_missing_checksums_of_agents,
};
use super::connection::{Store, keep_plans};
use super::copies::give_to_owner_of_state;
use super::schema::{MIGRATIONS, NEWEST_SCHEMA, SCHEMA, path_of_copy, read_schema};
use super::snapshot::{transfer, write_snapshot};

/// The beginning of the digest of the first schema.
const FIRST: &str = "40134e11517b9943";
/// Schemas of the time before states were migrated. They all have the number 1, and no migration
/// starts from them. For each, the beginning of its digest and the commit whose poolctl made it.
const BEFORE_THE_FIRST: [(&str, &str); 16] = [
    ("f02ca28021dc78c0", "1fcd8ea"),
    ("9b9b57bd09efd9af", "ded642d"),
    ("b454f55ebb7d8642", "9dda5c5"),
    ("466abdcce34649b7", "b116b11"),
    ("d1712ca39480054d", "54ee904"),
    ("30410671ce77975e", "327db78"),
    ("849672873a19984c", "175dd4f"),
    ("0f63b44142226755", "c189831"),
    ("d7b167242fcac280", "5db1eb8"),
    ("858b299a6fb20728", "0d31e48"),
    ("b0fc2144b27d41b0", "b3ecbe3"),
    ("76d534108e65e5dc", "b72acbb"),
    ("388a922a9460154e", "d56e0d9"),
    ("052bdb44d8d80d06", "b632f83"),
    ("bf9646e60f9a3768", "f330a40"),
    ("323591dbda77b351", "373ad68"),
];

/// The last schema that has changed which facts Agents have. Raise it with every migration that adds
/// one: the facts of states before it are written anew.
const FACTS_OF_AGENTS_CHANGED_IN: usize = 13;
/// The migration after which the checksums of Agents are made anew. Whose checksum was wrong before it
/// has a wrong one after it.
const CONDITIONS_OF_AGENTS_MOVED_IN: usize = 14;

impl Store {
    /// Copies a state of an earlier schema beside itself and migrates it, before it is changed for
    /// the first time. Needs the write lock.
    pub fn migrate(&self) -> Result<(), Refusal> {
        if !self.is_earlier() {
            return Ok(());
        }
        let schema = read_schema(self.file())?;
        if schema < SCHEMA {
            let copy = path_of_copy(self.path(), schema);
            write_snapshot(self.file(), &copy)?;
            give_to_owner_of_state(self.path(), &[&copy]);
            self.secure_journal()?;
            migrate_in_transaction(self.file())?;
            // The number of the schema is read from the file before SQLite opens its log.
            self.fold_log();
        }
        self.set_migrated();
        Ok(())
    }
}

/// Makes all tables in an empty file. Needs a write transaction; the caller commits. One script is
/// many times as fast as all migrations, which change tables again and again.
pub fn create_schema(conn: &Connection) -> Result<(), Refusal> {
    let Some(newest_schema) = NEWEST_SCHEMA else { return run_migrations(conn) };
    conn.execute_batch(newest_schema)?;
    draw_lineage(conn)?;
    Ok(conn.pragma_update(None, "user_version", SCHEMA)?)
}

/// Gives a state that has no lineage yet one that no other state has.
fn draw_lineage(conn: &Connection) -> Result<(), Refusal> {
    let sql = "UPDATE state SET lineage = lower(hex(randomblob(16))) WHERE lineage = ''";
    conn.execute(sql, [])?;
    Ok(())
}

/// Runs the migrations that a file needs. Needs a write transaction; the caller commits.
fn run_migrations(conn: &Connection) -> Result<(), Refusal> {
    let schema = usize::try_from(read_schema(conn)?).unwrap_or(usize::MAX);
    let mut damaged_agents = Vec::new();
    for (number, migration) in (1..).zip(MIGRATIONS).skip(schema) {
        if number == CONDITIONS_OF_AGENTS_MOVED_IN {
            damaged_agents = select_damaged_agents_of_schema_13(conn)?;
        }
        conn.execute_batch(migration)?;
    }
    write_missing_checksums_of_agents(conn, &damaged_agents)?;
    if schema < FACTS_OF_AGENTS_CHANGED_IN {
        overwrite_facts_of_agents(conn)?;
    }
    draw_lineage(conn)?;
    Ok(conn.pragma_update(None, "user_version", SCHEMA)?)
}

/// Runs the migrations that a file needs in one transaction. Needs the write lock, or a copy that
/// nobody else has open.
fn migrate_in_transaction(conn: &Connection) -> Result<(), Refusal> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    run_migrations(conn)?;
    Ok(conn.execute_batch("COMMIT")?)
}

/// A copy of a state in memory, with the schema of this program, for commands that only read.
pub fn migrate_copy_in_memory(file: &Connection, path: &Path) -> Result<Connection, Refusal> {
    let mut copy = Connection::open_in_memory()?;
    keep_plans(&copy)?;
    transfer(file, &mut copy)?;
    check_schema_is_known(&copy, path)?;
    copy.pragma_update(None, "foreign_keys", 1)?;
    migrate_in_transaction(&copy)?;
    Ok(copy)
}

/// Refuses a state whose schema has the number 1 and is not the first schema: no migration starts
/// from it.
pub fn check_schema_is_known(conn: &Connection, path: &Path) -> Result<(), Refusal> {
    if read_schema(conn)? > 1 {
        return Ok(());
    }
    let digest = digest_schema(conn)?;
    if digest.starts_with(FIRST) {
        return Ok(());
    }
    let maker = BEFORE_THE_FIRST.iter().find(|(beginning, _)| digest.starts_with(beginning));
    let path = path.display();
    let message = match maker {
        Some((_, commit)) => {
            format!(
                "`{path}` was made by the poolctl of commit {commit}, before states were migrated"
            )
        }
        None => format!("`{path}` has a schema that no poolctl has made"),
    };
    Err(Refusal::new(Exit::State, message).because("it was left as it is").advise(
        "poolctl --state NEW import FILE, where FILE is an export by the poolctl that made the \
         state",
    ))
}

/// The SHA-256 of the schema as SQLite keeps it, in hexadecimal digits.
fn digest_schema(conn: &Connection) -> Result<String, Refusal> {
    // Tables of SQLite itself do not count: ANALYZE adds some.
    let sql = "SELECT sql FROM sqlite_schema \
               WHERE sql IS NOT NULL AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut hash = Sha256::new();
    while let Some(row) = rows.next()? {
        hash.update(row.get::<_, String>(0)?);
        hash.update("\n");
    }
    Ok(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound() {
        let conn = Connection::open_in_memory().unwrap();
        keep_plans(&conn).unwrap();
        run_migrations(&conn).unwrap();
        let sql = "SELECT time FROM event WHERE pool = ?1 AND time >= ?2 ORDER BY time";
        let mut statement = conn.prepare(sql).unwrap();
        for number in 0..10 {
            let values = rusqlite::params![number.to_string(), number];
            assert!(!statement.exists(values).unwrap());
            statement.clear_bindings();
        }
        assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
    }

    #[test]
    fn the_schema_before_any_change_is_the_first_and_all_before_it_are_others() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(MIGRATIONS[0]).unwrap();
        assert!(digest_schema(&conn).unwrap().starts_with(FIRST));
        let mut digests: Vec<&str> = BEFORE_THE_FIRST.iter().map(|(digest, _)| *digest).collect();
        digests.push(FIRST);
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), BEFORE_THE_FIRST.len() + 1);
    }
}
