//! The transactions that commands and the door work in. Nothing here is loaded or written.

use crate::model::refusal::Refusal;

use super::connection::Store;
use super::last_commit::note_last_commit;
use super::lock::read_beside_writers;
use super::schema::check_not_newer;

impl Store {
    /// Begins a transaction that sees the state as it is at its first read, whoever writes
    /// meanwhile.
    pub fn begin_read(&self) -> Result<(), Refusal> {
        self.conn().execute_batch("BEGIN")?;
        // The first read shows the transaction its snapshot, and may be crowded out by writers.
        let checked =
            read_beside_writers(self.path(), || check_not_newer(self.conn(), self.path()));
        self.rollback_if_refused(checked)
    }

    /// Reads in one snapshot: that of the transaction which is open, or else of one that ends with
    /// the reading.
    pub fn read_snapshot<T, E: From<Refusal>>(
        &self,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.conn().is_autocommit() {
            return read();
        }
        self.begin_read()?;
        let outcome = read();
        self.rollback();
        outcome
    }

    /// Begins a transaction that may write. The caller holds the write lock. A state of an earlier
    /// schema is migrated first.
    pub fn begin_write(&self) -> Result<(), Refusal> {
        self.migrate()?;
        self.keep_log()?;
        self.conn().execute_batch("BEGIN IMMEDIATE")?;
        self.rollback_if_refused(check_not_newer(self.conn(), self.path()))
    }

    /// Writes in a transaction under the write lock, which is committed unless something is refused.
    pub fn write_under_lock<T>(
        &self,
        write: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let _lock = self.lock_to_write()?;
        self.begin_write()?;
        let written = write().and_then(|value| self.commit().map(|()| value));
        if written.is_err() {
            self.rollback();
        }
        written
    }

    /// Ends the transaction if the schema could not be read, or if a newer poolctl has migrated the
    /// state since it was opened.
    fn rollback_if_refused(&self, checked: Result<(), Refusal>) -> Result<(), Refusal> {
        if checked.is_err() {
            self.rollback();
        }
        checked
    }

    /// Ends the transaction and makes what it wrote durable.
    pub fn commit(&self) -> Result<(), Refusal> {
        self.conn().execute_batch("COMMIT")?;
        note_last_commit(self.conn(), self.path());
        Ok(())
    }

    /// Ends the transaction without writing. Does nothing if there is no transaction.
    pub fn rollback(&self) {
        drop(self.conn().execute_batch("ROLLBACK"));
    }
}
