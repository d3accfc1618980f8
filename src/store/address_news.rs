//! Whether the program of `onChange` has been told of the latest change of addresses. Nothing here
//! starts a program.

use rusqlite::{Connection, params};

use crate::model::backoff::Backoff;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};

use super::connection::Store;
use super::lock::{Lock, try_tell_lock};
use super::state_row::read_state_row;

/// How long to wait after the program has failed.
const BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };

/// What the program of `onChange` was told so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressNews {
    /// How many commits have changed leases or pools of addresses.
    pub changes: i64,
    /// Up to which of these the program was told.
    told_changes: i64,
    /// How often it has failed since then.
    pub failures: u32,
    /// When it is tried again after a failure.
    next_try: Option<Time>,
}

impl AddressNews {
    /// Whether the program is to be told of something now.
    pub fn is_due(&self, now: Time) -> bool {
        self.changes != self.told_changes && self.next_try.is_none_or(|next_try| next_try <= now)
    }
}

/// Notes that leases or pools of addresses have changed.
pub fn count_address_change(conn: &Connection) -> Result<(), Refusal> {
    conn.prepare_cached("UPDATE state SET address_changes = address_changes + 1")?.execute([])?;
    Ok(())
}

impl Store {
    /// Reads how far the program of onChange is behind. Fails only if the state cannot be read.
    pub fn read_address_news(&self) -> Result<AddressNews, Refusal> {
        let row = read_state_row(self.conn())?;
        Ok(AddressNews {
            changes: row.address_changes,
            told_changes: row.told_changes,
            failures: row.tell_failures,
            next_try: row.tell_after,
        })
    }

    /// Takes the lock of the process that tells; none while another one has it.
    pub fn try_lock_to_tell(&self) -> Result<Option<Lock>, Refusal> {
        try_tell_lock(self.path())
    }

    /// Writes down up to which change the program was told.
    pub fn record_told(&self, changes: i64) -> Result<(), Refusal> {
        let sql = "UPDATE state SET told_changes = ?1, tell_failures = 0, tell_after = NULL";
        self.write_under_lock(|| {
            self.conn().prepare_cached(sql)?.execute([changes])?;
            Ok(())
        })
    }

    /// Writes down that the program has failed once more, and when it is tried again.
    pub fn record_not_told(&self, news: AddressNews, now: Time) -> Result<(), Refusal> {
        let failures = news.failures.saturating_add(1);
        let next_try = now.plus(BACKOFF.delay(failures));
        let sql = "UPDATE state SET tell_failures = ?1, tell_after = ?2";
        self.write_under_lock(|| {
            self.conn().prepare_cached(sql)?.execute(params![failures, next_try.0])?;
            Ok(())
        })
    }
}
