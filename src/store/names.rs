//! The names of clusters in use, looked up as they are asked for.

use std::cell::RefCell;

use rusqlite::{OptionalExtension, Params};

use crate::model::refusal::Refusal;
use crate::model::state::NameBook;

use super::connection::Store;

/// The names in use, looked up as they are asked for.
pub struct Names<'a> {
    pub(super) store: &'a Store,
    pub(super) failed: RefCell<Option<Refusal>>,
}

impl Store {
    pub fn names_in_use(&self) -> Names<'_> {
        Names { store: self, failed: RefCell::new(None) }
    }
}

impl Names<'_> {
    /// What went wrong while looking up, if anything: then the plan is not to be trusted.
    pub fn check(self) -> Result<(), Refusal> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }

    pub(super) fn look_up(&self, sql: &str, values: impl Params) -> Option<String> {
        let name = self
            .store
            .conn()
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(values, |row| row.get(0)).optional());
        name.unwrap_or_else(|error| {
            *self.failed.borrow_mut() = Some(error.into());
            None
        })
    }
}

impl NameBook for Names<'_> {
    fn cluster_exists(&self, name: &str) -> bool {
        self.look_up("SELECT name FROM cluster WHERE name = ?1", [name]).is_some()
    }

    fn holder(&self, cluster_name: &str, base_domain: &str) -> Option<String> {
        let sql = "SELECT name FROM cluster WHERE cluster_name = ?1 AND base_domain = ?2 UNION ALL \
             SELECT l.holder FROM customization c JOIN lease l ON l.customization = c.id \
             WHERE c.body ->> '$.status.preservedName' = ?1 || '.' || ?2";
        self.look_up(sql, [cluster_name, base_domain])
    }
}
