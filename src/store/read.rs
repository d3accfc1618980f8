//! What commands look at without changing it, and the transaction they and the door work in.

use std::cell::RefCell;

use rusqlite::{OptionalExtension, Row, params};

use crate::model::clock::Clocks;
use crate::model::documents::SecretValue;
use crate::model::facts::SharedTexts;
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Steering};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{NameBook, Scope, State};
use crate::model::time::Time;

use super::facts;
use super::load::{self, Need};
use super::migrate;
use super::open::Store;
use super::references::{complete, references};
use super::write::Mark;

/// Which objects of a kind.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// None: of every namespace.
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// Whether clusters and claims come whole.
    pub whole: bool,
}

impl Filter {
    pub fn named(key: &Key) -> Self {
        let (namespace, name) = (Some(key.namespace.clone()), Some(key.name.clone()));
        Self { namespace, name, whole: false }
    }

    /// The conditions that are asked for, as a WHERE clause, and their values; `#` stands for the
    /// value. A condition that is not asked for is not there: `?1 IS NULL OR x = ?1` makes SQLite
    /// scan the whole table.
    pub(super) fn conditions(&self, namespace: &str, name: Option<&str>) -> (String, Vec<&str>) {
        let (mut clauses, mut values) = (Vec::new(), Vec::new());
        for (value, clause) in [(&self.namespace, Some(namespace)), (&self.name, name)] {
            let (Some(value), Some(clause)) = (value, clause) else { continue };
            values.push(value.as_str());
            clauses.push(clause.replace('#', &format!("?{}", values.len())));
        }
        let condition = clauses.join(" AND ");
        (if condition.is_empty() { condition } else { format!("WHERE {condition}") }, values)
    }
}

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
        let known = migrate::check_not_newer(self.conn(), self.path());
        if known.is_err() {
            self.rollback();
        }
        known
    }

    pub fn commit(&self) -> Result<(), Refusal> {
        Ok(self.conn().execute_batch("COMMIT")?)
    }

    /// Ends a transaction without writing. Harmless when there is none.
    pub fn rollback(&self) {
        drop(self.conn().execute_batch("ROLLBACK"));
    }

    pub fn load(&self, scope: &Scope, needs: &[Need]) -> Result<State, Refusal> {
        load::load(self.conn(), scope, needs)
    }

    /// Loads what the pools in the state refer to by now.
    pub fn load_references(&self, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
        references(self.conn(), scope, state)
    }

    /// Loads what anything in the state belongs to: a pass decides for all of it.
    pub fn complete(&self, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
        if *scope == Scope::Whole { Ok(()) } else { complete(self.conn(), scope, state) }
    }

    pub fn load_cluster_body(&self, state: &mut State, name: &str) -> Result<(), Refusal> {
        load::cluster_body(self.conn(), state, name)
    }

    /// The number of commits so far, and when the last one was.
    pub fn mark(&self) -> Result<(i64, Mark), Refusal> {
        let sql = "SELECT revision, last_pass, wall, boot, since_boot, doubted, off FROM state";
        let mark = self.conn().prepare_cached(sql)?.query_row([], |row| {
            let (now, wall) = (Time(row.get(1)?), Time(row.get(2)?));
            let (boot, since_boot) = (row.get(3)?, row.get(4)?);
            let (doubted, off) = (row.get(5)?, row.get(6)?);
            let clocks = Clocks { wall, boot, since_boot, doubted, off };
            Ok((row.get(0)?, Mark { now, clocks }))
        })?;
        Ok(mark)
    }

    /// Names of objects of a kind, for "did you mean" and for looking elsewhere.
    pub fn names(&self, kind: Kind) -> Result<Vec<Key>, Refusal> {
        let filter = Filter::default();
        Ok(self.objects(kind, &filter)?.iter().map(Object::key).collect())
    }

    pub fn secret_value(&self, key: &Key, name: &str) -> Result<Option<SecretValue>, Refusal> {
        load::secret_value(self.conn(), key, name)
    }

    /// Whether two Secrets hold the same.
    pub fn same_values(&self, one: &Key, other: &Key) -> Result<bool, Refusal> {
        let sql = "WITH \
             a AS (SELECT v.key, v.value FROM secret v JOIN secret_object o ON o.id = v.object \
                   WHERE o.namespace = ?1 AND o.name = ?2), \
             b AS (SELECT v.key, v.value FROM secret v JOIN secret_object o ON o.id = v.object \
                   WHERE o.namespace = ?3 AND o.name = ?4) \
             SELECT NOT EXISTS (SELECT * FROM a EXCEPT SELECT * FROM b) \
                AND NOT EXISTS (SELECT * FROM b EXCEPT SELECT * FROM a)";
        let who = params![one.namespace, one.name, other.namespace, other.name];
        Ok(self.conn().prepare_cached(sql)?.query_row(who, |row| row.get(0))?)
    }

    /// Pools that are there, and those that clusters or claims name.
    pub fn pools_named(&self) -> Result<Vec<Key>, Refusal> {
        let sql = "SELECT namespace, name FROM pool UNION \
                   SELECT pool_namespace, pool FROM cluster WHERE pool IS NOT NULL UNION \
                   SELECT namespace, pool FROM claim";
        let mut statement = self.conn().prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The cluster that uses a host, if there is one.
    pub fn consumer_of(&self, host: &Key) -> Result<Option<Key>, Refusal> {
        let sql = "SELECT c.namespace, c.name FROM host h JOIN cluster c ON c.name = h.consumer \
                   WHERE h.namespace = ?1 AND h.name = ?2";
        let mut statement = self.conn().prepare_cached(sql)?;
        let found = statement.query_row(params![host.namespace, host.name], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        Ok(found.optional()?)
    }

    /// Whether a cluster uses hosts.
    pub fn has_hosts(&self, cluster: &str) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM host WHERE consumer = ?1)";
        Ok(self.conn().prepare_cached(sql)?.query_row([cluster], |row| row.get(0))?)
    }

    /// All jobs that worked on a host.
    pub fn jobs_on_host(&self, host: &str) -> Result<Vec<Job>, Refusal> {
        let sql = format!(
            "SELECT {} FROM job WHERE id IN (SELECT job FROM job_host WHERE host = ?1) \
             ORDER BY started, id",
            facts::columns::<Job>()
        );
        let mut statement = self.conn().prepare_cached(&sql)?;
        let found = statement.query_map([host], read_job)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// All jobs, in the order they were started.
    pub fn all_jobs(&self) -> Result<Vec<Job>, Refusal> {
        self.jobs("ORDER BY started, rowid", [])
    }

    /// Jobs that have not ended, in the order they were started. Past jobs are many, and do not
    /// count here: an index has the live ones alone.
    pub fn live_jobs(&self) -> Result<Vec<Job>, Refusal> {
        self.jobs("WHERE ended IS NULL ORDER BY started, rowid", [])
    }

    /// The jobs of a cluster or a host, in the order they were started.
    pub fn jobs_of(&self, object: &str) -> Result<Vec<Job>, Refusal> {
        self.jobs("WHERE object = ?1 ORDER BY started, rowid", [object])
    }

    /// The last jobs of a pool that did this, in the order they were started.
    pub fn last_jobs_of_pool(
        &self,
        pool: &Key,
        verb: Verb,
        limit: u32,
    ) -> Result<Vec<Job>, Refusal> {
        let which = "WHERE pool_namespace = ?1 AND pool = ?2 AND verb = ?3 \
                     ORDER BY started DESC, rowid DESC LIMIT ?4";
        let mut jobs = self.jobs(which, params![pool.namespace, pool.name, verb.name(), limit])?;
        jobs.reverse();
        Ok(jobs)
    }

    /// The job of an id.
    pub fn job(&self, id: &str) -> Result<Option<Job>, Refusal> {
        Ok(self.jobs("WHERE id = ?1", [id])?.pop())
    }

    fn jobs(&self, which: &str, who: impl rusqlite::Params) -> Result<Vec<Job>, Refusal> {
        let sql = format!("SELECT {} FROM job {which}", facts::columns::<Job>());
        let mut statement = self.conn().prepare_cached(&sql)?;
        let rows = statement.query_map(who, read_job)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The keys of a Secret; none of one that is not there.
    pub fn secret_keys(&self, key: &Key) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT v.key FROM secret v JOIN secret_object o ON o.id = v.object \
                   WHERE o.namespace = ?1 AND o.name = ?2 ORDER BY v.key";
        let mut statement = self.conn().prepare_cached(sql)?;
        let keys = statement.query_map(params![key.namespace, key.name], |row| row.get(0))?;
        Ok(keys.collect::<Result<_, _>>()?)
    }

    /// A Secret that a report of a driver changes.
    pub fn load_secret(&self, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load::secret(self.conn(), state, key)
    }

    /// The labels and annotations of a cluster: what its driver goes by.
    pub fn steering(&self, cluster: &str) -> Result<Steering, Refusal> {
        let sql = "SELECT b.body ->> '$.metadata' FROM cluster_body b \
                   JOIN cluster c ON c.id = b.id WHERE c.name = ?1";
        let mut statement = self.conn().prepare_cached(sql)?;
        let text: Option<Option<String>> =
            statement.query_row([cluster], |row| row.get(0)).optional()?;
        let text = text.flatten().unwrap_or_else(|| "{}".into());
        serde_json::from_str(&text).map_err(|error| {
            Refusal::new(Exit::State, format!("the metadata of cluster `{cluster}` cannot be read"))
                .because(error.to_string())
        })
    }

    /// The pool of a claim, or of a cluster.
    pub fn pool_of(&self, kind: Kind, key: &Key) -> Result<Option<Key>, Refusal> {
        let sql = match kind {
            Kind::ClusterClaim => {
                "SELECT namespace, pool FROM claim WHERE namespace = ?1 AND name = ?2"
            }
            _ => "SELECT pool_namespace, pool FROM cluster WHERE ?1 IS NOT NULL AND name = ?2",
        };
        let mut statement = self.conn().prepare_cached(sql)?;
        let found = statement
            .query_row(params![key.namespace, key.name], |row| {
                Ok(row.get::<_, Option<String>>(0)?.zip(row.get::<_, Option<String>>(1)?))
            })
            .optional()?;
        Ok(found.flatten().map(|(namespace, name)| Key::new(namespace, name)))
    }
}

fn read_job(row: &Row<'_>) -> rusqlite::Result<Job> {
    facts::read(row, &mut SharedTexts::default())
}

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

    pub(super) fn look(&self, sql: &str, who: impl rusqlite::Params) -> Option<String> {
        let found = self
            .store
            .conn()
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(who, |row| row.get(0)).optional());
        found.unwrap_or_else(|error| {
            *self.failed.borrow_mut() = Some(error.into());
            None
        })
    }
}

impl NameBook for Names<'_> {
    fn cluster_exists(&self, name: &str) -> bool {
        self.look("SELECT name FROM cluster WHERE name = ?1", [name]).is_some()
    }

    fn holder(&self, cluster_name: &str, base_domain: &str) -> Option<String> {
        let sql = "SELECT name FROM cluster WHERE cluster_name = ?1 AND base_domain = ?2 UNION ALL \
             SELECT l.holder FROM customization c JOIN lease l ON l.customization = c.id \
             WHERE c.body ->> '$.status.preservedName' = ?1 || '.' || ?2";
        self.look(sql, [cluster_name, base_domain])
    }
}
