//! When the state was last committed, and what the clocks said then. It reads no clock.

use rusqlite::{Connection, params};

use crate::model::clock::Clocks;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;

/// When a pass wrote last: as passes count time, and what the clocks said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub now: Time,
    pub clocks: Clocks,
}

impl Store {
    /// The number of commits so far, and when the last one was.
    pub fn mark(&self) -> Result<(i64, Mark), Refusal> {
        let sql = "SELECT revision, last_pass, wall, boot, since_boot, doubted, off FROM state";
        let mark = self.conn().prepare_cached(sql)?.query_row([], |row| {
            let clocks = Clocks {
                wall: Time(row.get(2)?),
                boot: row.get(3)?,
                since_boot: row.get(4)?,
                doubted: row.get(5)?,
                off: row.get(6)?,
            };
            Ok((row.get(0)?, Mark { now: Time(row.get(1)?), clocks }))
        })?;
        Ok(mark)
    }
}

/// Counts a commit.
pub fn write_mark(conn: &Connection, mark: &Mark) -> Result<(), Refusal> {
    let sql = "UPDATE state SET revision = revision + 1, last_pass = max(last_pass, ?1), \
               wall = ?2, boot = ?3, since_boot = ?4, doubted = ?5, off = ?6";
    let Clocks { wall, boot, since_boot, doubted, off } = &mark.clocks;
    let clocks = params![mark.now.0, wall.0, boot, since_boot, doubted, off];
    conn.prepare_cached(sql)?.execute(clocks)?;
    Ok(())
}
