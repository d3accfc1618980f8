//! The books in which a plan looks up what lies beyond its scope. The names of clusters and the hosts
//! that they have are looked up here; `address_book.rs` adds the addresses. A book is read only, and reads only what it is
//! asked for.

use std::cell::RefCell;

use rusqlite::{Connection, OptionalExtension, Params};

use crate::model::agent::facts::{AgentFacts, HostBook};
use crate::model::refusal::Refusal;
use crate::model::state::NameBook;

use super::connection::Store;
use super::facts::select_facts;

/// The books of a state file.
pub struct StoredBooks<'a> {
    store: &'a Store,
    /// The last lookup that failed. A plan cannot fail, so the failure is kept until the plan is
    /// made.
    failure: RefCell<Option<Refusal>>,
}

impl Store {
    /// The books in which a plan looks up names and addresses.
    pub fn stored_books(&self) -> StoredBooks<'_> {
        StoredBooks { store: self, failure: RefCell::new(None) }
    }
}

impl StoredBooks<'_> {
    /// Fails if a lookup has failed. Then the plan that was made with these books is not to be
    /// used.
    pub fn check(self) -> Result<(), Refusal> {
        self.failure.into_inner().map_or(Ok(()), Err)
    }

    /// Runs a query. If it fails, the failure is kept, and the answer is that nothing was found.
    pub(super) fn look_up<T: Default>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Refusal>,
    ) -> T {
        query(self.store.conn()).unwrap_or_else(|refusal| {
            *self.failure.borrow_mut() = Some(refusal);
            T::default()
        })
    }

    /// Looks up the first column of the first row, if there is one.
    pub(super) fn look_up_name(&self, sql: &str, values: impl Params) -> Option<String> {
        self.look_up(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            Ok(statement.query_row(values, |row| row.get(0)).optional()?)
        })
    }
}

impl HostBook for StoredBooks<'_> {
    fn agents_with_cluster(&self, namespace: &str) -> Vec<AgentFacts> {
        let clauses = "WHERE namespace = ?1 AND (bound IS NOT NULL OR wanted IS NOT NULL) \
                       ORDER BY id";
        self.look_up(|conn| select_facts(conn, clauses, [namespace]))
    }
}

impl NameBook for StoredBooks<'_> {
    fn cluster_exists(&self, name: &str) -> bool {
        self.look_up_name("SELECT name FROM cluster WHERE name = ?1", [name]).is_some()
    }

    fn holder(&self, cluster_name: &str, base_domain: &str) -> Option<String> {
        // A cluster that was left running has no row any more; its customization keeps its name.
        let sql = "SELECT name FROM cluster WHERE cluster_name = ?1 AND base_domain = ?2 UNION ALL \
             SELECT l.holder FROM document c JOIN lease l ON l.customization = c.id \
             WHERE c.body ->> '$.status.preservedName' = ?1 || '.' || ?2";
        self.look_up_name(sql, [cluster_name, base_domain])
    }
}
