//! The mark of the last commit: when it was, and what the clocks said then. Nothing here reads a
//! clock.

use rusqlite::{Connection, params};

use crate::model::clock::Clocks;
use crate::model::refusal::Refusal;
use crate::model::time::Time;

use super::connection::Store;
use super::state_row::{StateRow, read_state_row};

/// When a pass committed last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitMark {
    /// The time of that pass, which later passes never go below.
    pub now: Time,
    /// What the clocks of the machine said.
    pub clocks: Clocks,
    /// Whether time is counted from these clocks from now on, so that they must be written.
    pub begins_anew: bool,
    /// The revision of the state before the commit. The next one is that of the commit, however often
    /// it writes its mark.
    pub revision: i64,
}

impl Store {
    /// The revision of the state, which is the number of its commits.
    pub fn read_revision(&self) -> Result<i64, Refusal> {
        Ok(read_state_row(self.conn())?.revision)
    }

    /// Which state this is. Its backups have the same lineage, and no other state has it. None for a
    /// state of the first schemas, which gets its lineage when it is migrated.
    pub fn read_lineage(&self) -> Result<Option<String>, Refusal> {
        let sql = "SELECT lineage FROM state";
        if self.is_earlier() {
            // The copy in memory may have drawn one that the file will not have.
            let lineage: rusqlite::Result<String> =
                self.file().query_row(sql, [], |row| row.get(0));
            return Ok(lineage.ok().filter(|lineage| !lineage.is_empty()));
        }
        let mut statement = self.conn().prepare_cached(sql)?;
        Ok(Some(statement.query_row([], |row| row.get(0))?))
    }

    /// The mark of the last commit.
    pub fn read_mark(&self) -> Result<CommitMark, Refusal> {
        let StateRow { last_pass, clocks, revision, .. } = read_state_row(self.conn())?;
        Ok(CommitMark { now: last_pass, clocks, begins_anew: false, revision })
    }
}

/// Counts a commit and writes its mark. `last_link` is the new end of the chain of events; in a commit
/// without events there is none, and the end stays as it is. The time of passes never goes back.
pub fn write_mark(
    conn: &Connection,
    mark: &CommitMark,
    last_link: Option<&[u8]>,
) -> Result<(), Refusal> {
    let sql = "UPDATE state SET revision = ?7 + 1, last_pass = max(last_pass, ?1), \
               wall = ?2, boot = ?3, since_boot = ?4, doubted = ?5, off = ?6, \
               last_link = coalesce(?8, last_link)";
    let Clocks { wall, boot, since_boot, doubted, off } = &mark.clocks;
    let values =
        params![mark.now.0, wall.0, boot, since_boot, doubted, off, mark.revision, last_link];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
