//! A new state gets the newest schema by one script, not by all migrations one after another: both
//! make the same. `POOLCTL_BLESS=1` writes the script anew; it takes effect with the next build.

use std::fmt::Write;

use poolctl::store::{MIGRATIONS_DIGEST, SCHEMA};
use rusqlite::Connection;

use crate::architecture::root;
use crate::sandbox::Sandbox;

/// The script that makes the tables of a state, their rows, and then what belongs to them.
fn script_of(connection: &Connection) -> String {
    let mut script = format!(
        "-- What all migrations make. A new state needs only this script, which is written by\n\
         -- tests/newest_schema.rs. Digest of the migrations: {MIGRATIONS_DIGEST}\n"
    );
    let tables = select_objects(connection, "type = 'table'");
    for (_, sql) in &tables {
        let _ = writeln!(script, "{sql};");
    }
    for (table, _) in &tables {
        script += &insert_rows(connection, table);
    }
    for (_, sql) in select_objects(connection, "type <> 'table'") {
        let _ = writeln!(script, "{sql};");
    }
    script
}

/// The names and the statements of tables, or of indexes and triggers, in the order in which they
/// were made. Those of SQLite itself come with them.
fn select_objects(connection: &Connection, condition: &str) -> Vec<(String, String)> {
    let sql = format!(
        "SELECT name, sql FROM sqlite_schema WHERE {condition} AND sql IS NOT NULL \
         AND substr(name, 1, 7) <> 'sqlite_' ORDER BY rowid"
    );
    let mut statement = connection.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The statements that insert the rows of a table.
fn insert_rows(connection: &Connection, table: &str) -> String {
    let sql = format!("SELECT name FROM pragma_table_info('{table}')");
    let mut statement = connection.prepare(&sql).unwrap();
    let columns = statement.query_map([], |row| row.get(0)).unwrap();
    let columns: Vec<String> = columns.map(Result::unwrap).collect();
    let values: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
    let sql = format!("SELECT {} FROM {table}", values.join(" || ', ' || "));
    let mut statement = connection.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut script = String::new();
    for row in rows {
        let names = columns.join(", ");
        let _ = writeln!(script, "INSERT INTO {table} ({names}) VALUES ({});", row.unwrap());
    }
    script
}

#[test]
fn the_newest_schema_is_what_all_migrations_make() {
    let migrated = Connection::open_in_memory().unwrap();
    for number in 1..=SCHEMA {
        let path = root().join(format!("src/store/migrations/{number}.sql"));
        migrated.execute_batch(&std::fs::read_to_string(path).unwrap()).unwrap();
    }
    let script = script_of(&migrated);
    let path = root().join("src/store/newest_schema.sql");
    #[expect(clippy::disallowed_methods, reason = "blessing is asked for by a variable")]
    let bless = std::env::var_os("POOLCTL_BLESS").is_some();
    if bless {
        std::fs::write(&path, &script).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, script, "next: POOLCTL_BLESS=1 cargo test newest_schema");
    let created = Connection::open_in_memory().unwrap();
    created.execute_batch(&script).unwrap();
    assert_eq!(script_of(&created), script);
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    let state = Connection::open(sandbox.state()).unwrap();
    for condition in ["type = 'table'", "type <> 'table'"] {
        let mut expected = select_objects(&migrated, condition);
        let mut objects = select_objects(&state, condition);
        expected.sort();
        objects.sort();
        assert_eq!(objects, expected);
    }
}
