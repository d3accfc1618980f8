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
        let (conn, id) = (&self.store.conn, pool.metadata.id);
        self.tell(|| {
            let kept = documents::one::<IpPool>(conn, &pool.metadata.key())?;
            // An edit may have opened more than is listed; where pools overlap, another may have it.
            let same = kept.is_some_and(|kept| {
                kept.open() == pool.open() && !kept.metadata.annotated(OVERLAP)
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
            let mut statement = self.store.conn.prepare_cached(sql)?;
            let who = params![pool.metadata.id, address.key()];
            let found: Option<i64> = statement.query_row(who, |row| row.get(0)).optional()?;
            Ok(found.map(Time))
        })
    }

    fn rested(&self, pool: &IpPool, before: Time, most: usize) -> Vec<(Addr, Time)> {
        let order = match pool.strategy() {
            Strategy::Sequential => "address",
            _ => "released, address",
        };
        let sql = format!(
            "SELECT address, released FROM ip_released r WHERE pool = ?1 AND released <= ?2 \
             AND NOT EXISTS (SELECT 1 FROM ip_lease l WHERE l.address = r.address \
             AND l.scope = (SELECT id FROM ip_scope WHERE namespace = ?4)) ORDER BY {order} LIMIT ?3"
        );
        self.tell(|| {
            let mut statement = self.store.conn.prepare_cached(&sql)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![
                pool.metadata.id,
                before.0,
                most,
                pool.metadata.namespace
            ])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let key: Vec<u8> = row.get(0)?;
                found.extend(Addr::from_key(&key).zip(Some(Time(row.get(1)?))));
            }
            Ok(found)
        })
    }

    fn is_scarce(&self, pool: &IpPool) -> bool {
        self.tell(|| tenancy::is_scarce(&self.store.conn, pool.metadata.id, pool))
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
