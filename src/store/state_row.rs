//! The only row of the table `state`, which holds facts about the state as a whole. The columns that
//! commands read again and again come from one statement, so that it is prepared only once. The
//! lineage, and how far the state is pruned, are read elsewhere. Nothing here writes.

use rusqlite::Connection;

use crate::model::clock::Clocks;
use crate::model::meta::Key;
use crate::model::time::Time;

/// What is kept of a state as a whole.
pub struct StateRow {
    /// The number of commits.
    pub revision: i64,
    /// The time of the last pass.
    pub last_pass: Time,
    /// What the clocks of the machine said then.
    pub clocks: Clocks,
    /// The end of the chain of events.
    pub last_link: Option<Vec<u8>>,
    /// The pool whose claim was answered last, if no pass has looked at the pool since.
    pub answered_pool: Option<Key>,
    /// How many commits have changed leases or pools of addresses.
    pub address_changes: i64,
    /// Up to which of these the program of `onChange` was told.
    pub told_changes: i64,
    /// How often that program has failed since it was last told.
    pub tell_failures: u32,
    /// When it is tried again after a failure.
    pub tell_after: Option<Time>,
}

/// Reads the row of a state of this program's schema.
pub fn read_state_row(conn: &Connection) -> rusqlite::Result<StateRow> {
    let sql = "SELECT revision, last_pass, wall, boot, since_boot, doubted, off, last_link, \
               answered_namespace, answered_pool, address_changes, told_changes, tell_failures, \
               tell_after FROM state";
    conn.prepare_cached(sql)?.query_row([], |row| {
        let answered_namespace: Option<String> = row.get(8)?;
        let answered_name: Option<String> = row.get(9)?;
        Ok(StateRow {
            revision: row.get(0)?,
            last_pass: row.get(1)?,
            clocks: Clocks {
                wall: row.get(2)?,
                boot: row.get(3)?,
                since_boot: row.get(4)?,
                doubted: row.get(5)?,
                off: row.get(6)?,
            },
            last_link: row.get(7)?,
            answered_pool: answered_namespace
                .zip(answered_name)
                .map(|(namespace, name)| Key::new(namespace, name)),
            address_changes: row.get(10)?,
            told_changes: row.get(11)?,
            tell_failures: u32::try_from(row.get::<_, i64>(12)?).unwrap_or(u32::MAX),
            tell_after: row.get(13)?,
        })
    })
}
