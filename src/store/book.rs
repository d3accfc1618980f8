//! Who has which address and what is free, looked up as it is asked for.

use rusqlite::{OptionalExtension, params};

use crate::model::address::{Addr, Stretch};
use crate::model::ip_pool::{IpPool, OVERLAP, Strategy};
use crate::model::refusal::Refusal;
use crate::model::state::AddressBook;
use crate::model::time::Time;

use super::documents;
use super::free;
use super::read::Names;
use super::tenancy;

impl AddressBook for Names<'_> {
    fn holder(&self, namespace: &str, address: Addr) -> Option<String> {
        let sql = "SELECT l.claim FROM ip_lease l JOIN ip_scope s ON s.id = l.scope \
                   WHERE s.namespace = ?1 AND l.address = ?2";
        self.look(sql, params![namespace, address.key()])
    }

    fn free(&self, pool: &IpPool, after: Option<Addr>) -> Vec<Stretch> {
        let (conn, id) = (self.store.conn(), pool.metadata.id);
        self.tell(|| {
            let kept = documents::one::<IpPool>(conn, &pool.metadata.key())?;
            // An edit may have opened more than is listed; where pools overlap, another may have it.
            let same = kept.is_some_and(|kept| {
                kept.open() == pool.open()
                    && kept.remembers() == pool.remembers()
                    && !kept.metadata.annotated(OVERLAP)
            });
            if same && free::is_listed(conn, id)? {
                return free::some(conn, id, pool, after);
            }
            // All at once: what is not listed is little, or new.
            if after.is_some() {
                return Ok(Vec::new());
            }
            Ok(free::gaps(conn, id, pool)?.into_iter().map(|(_, one)| one).collect())
        })
    }

    fn released(&self, pool: &IpPool, address: Addr) -> Option<Time> {
        let sql = "SELECT released FROM ip_released WHERE pool = ?1 AND address = ?2";
        self.tell(|| {
            let mut statement = self.store.conn().prepare_cached(sql)?;
            let who = params![pool.metadata.id, address.key()];
            let found: Option<i64> = statement.query_row(who, |row| row.get(0)).optional()?;
            Ok(found.map(Time))
        })
    }

    fn rested(
        &self,
        pool: &IpPool,
        before: Time,
        after: Option<(Addr, Time)>,
    ) -> Vec<(Addr, Time)> {
        let conn = self.store.conn();
        self.tell(|| match pool.strategy() {
            Strategy::Sequential => free::rested_in_order(conn, pool, before, after),
            _ => free::rested(conn, pool, before, after),
        })
    }

    fn is_scarce(&self, pool: &IpPool) -> bool {
        self.tell(|| tenancy::is_scarce(self.store.conn(), pool.metadata.id, pool))
    }
}

impl Names<'_> {
    /// What was found; what went wrong is kept, and nothing counts as found.
    fn tell<T: Default>(&self, look: impl FnOnce() -> Result<T, Refusal>) -> T {
        look().unwrap_or_else(|why| {
            *self.failed.borrow_mut() = Some(why);
            T::default()
        })
    }
}
