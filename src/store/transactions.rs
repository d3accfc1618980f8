//! The transactions that commands and the door work in.

use crate::model::refusal::Refusal;

use super::connection::Store;
use super::schema::check_not_newer;

impl Store {
    pub fn begin_read(&self) -> Result<(), Refusal> {
        self.conn().execute_batch("BEGIN")?;
        self.refuse_newer()
    }

    /// Needs the write lock. A state of an earlier schema is migrated first.
    pub fn begin_write(&self) -> Result<(), Refusal> {
        self.migrate()?;
        self.keep_log()?;
        self.conn().execute_batch("BEGIN IMMEDIATE")?;
        self.refuse_newer()
    }

    /// A newer poolctl may have migrated the state since it was opened.
    fn refuse_newer(&self) -> Result<(), Refusal> {
        let checked = check_not_newer(self.conn(), self.path());
        if checked.is_err() {
            self.rollback();
        }
        checked
    }

    pub fn commit(&self) -> Result<(), Refusal> {
        Ok(self.conn().execute_batch("COMMIT")?)
    }

    /// Ends a transaction without writing. Harmless when there is none.
    pub fn rollback(&self) {
        drop(self.conn().execute_batch("ROLLBACK"));
    }
}
