//! Jobs: the live ones, which are loaded with a scope, and the past ones, which are kept to be
//! shown. Nothing here starts or stops a job.

use rusqlite::{Connection, Params, params};

use crate::model::job::{Job, Verb};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::Owner;
use crate::model::time::Time;

use super::connection::Store;
use super::facts::{select_facts, visit_facts, write_facts};

/// Loads the jobs that a condition names, such as `ended IS NULL AND object = ?1`. A job of an
/// object whose live job is loaded is left out.
pub fn load_jobs(
    conn: &Connection,
    state: &mut State,
    condition: &str,
    values: impl Params,
) -> Result<(), Refusal> {
    let clauses = format!("WHERE {condition} ORDER BY started, id");
    for job in select_facts::<Job>(conn, &clauses, values)? {
        if state.live_job(&job.object).is_none() {
            state.jobs.load(job);
        }
    }
    Ok(())
}

impl Store {
    /// Reads all jobs that worked on a host, in the order they were started. `host` is its
    /// namespace and name, with a slash between them.
    pub fn jobs_on_host(&self, host: &str) -> Result<Vec<Job>, Refusal> {
        let clauses = "WHERE id IN (SELECT job FROM job_host WHERE host = ?1) ORDER BY started, id";
        self.select_jobs(clauses, [host])
    }

    /// Whether there is any job, live or past.
    pub fn has_jobs(&self) -> Result<bool, Refusal> {
        Ok(self.conn().prepare_cached("SELECT 1 FROM job LIMIT 1")?.exists([])?)
    }

    /// Reads all jobs, in the order they were started.
    pub fn all_jobs(&self) -> Result<Vec<Job>, Refusal> {
        self.select_jobs("ORDER BY started, rowid", [])
    }

    /// Hands on all jobs, one by one, in the order they were started.
    pub fn visit_jobs(
        &self,
        visit: &mut dyn FnMut(Job) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        // Numbers are sorted in memory, and not whole rows, of which there may be many.
        let sql = "SELECT rowid FROM job ORDER BY started, rowid";
        let mut statement = self.conn().prepare_cached(sql)?;
        let numbers = statement.query_map([], |row| row.get(0))?;
        for number in numbers.collect::<Result<Vec<i64>, _>>()? {
            visit_facts(self.conn(), "WHERE rowid = ?1", [number], visit)?;
        }
        Ok(())
    }

    /// Reads the jobs that have not ended, in the order they were started. An index has only these:
    /// the many past jobs cost nothing here.
    pub fn live_jobs(&self) -> Result<Vec<Job>, Refusal> {
        self.select_jobs("WHERE ended IS NULL ORDER BY started, rowid", [])
    }

    /// Reads the live jobs of a pool, in the order they were started.
    pub fn live_jobs_of_pool(&self, pool: &Key) -> Result<Vec<Job>, Refusal> {
        let clauses = "WHERE ended IS NULL AND pool_namespace = ?1 AND pool = ?2 \
                       ORDER BY started, rowid";
        self.select_jobs(clauses, params![pool.namespace, pool.name])
    }

    /// Reads the live jobs that are not simulated, in the order they were started. An index has
    /// only these: a command that starts jobs does not read all that are simulated.
    pub fn live_jobs_of_programs(&self) -> Result<Vec<Job>, Refusal> {
        // Most commands find none. This statement is prepared many times faster than the one below.
        let sql = "SELECT 1 FROM job WHERE ended IS NULL AND driver <> 'fake'";
        if !self.conn().prepare_cached(sql)?.exists([])? {
            return Ok(Vec::new());
        }
        self.select_jobs("WHERE ended IS NULL AND driver <> 'fake' ORDER BY started, rowid", [])
    }

    /// Reads the jobs of an object, in the order they were started. `object` is the name of a
    /// cluster, or the namespace and name of a host with a slash between them.
    pub fn jobs_of_object(&self, object: &str) -> Result<Vec<Job>, Refusal> {
        self.select_jobs("WHERE object = ?1 ORDER BY started, rowid", [object])
    }

    /// Reads the last jobs of a pool that have a verb, at most `limit` of them, in the order they
    /// were started.
    pub fn last_jobs_of_pool(
        &self,
        pool: &Key,
        verb: Verb,
        limit: u32,
    ) -> Result<Vec<Job>, Refusal> {
        let clauses = "WHERE pool_namespace = ?1 AND pool = ?2 AND verb = ?3 \
                       ORDER BY started DESC, rowid DESC LIMIT ?4";
        let mut jobs =
            self.select_jobs(clauses, params![pool.namespace, pool.name, verb.name(), limit])?;
        jobs.reverse();
        Ok(jobs)
    }

    /// Reads the job of an id.
    pub fn find_job(&self, id: &str) -> Result<Option<Job>, Refusal> {
        Ok(self.select_jobs("WHERE id = ?1", [id])?.pop())
    }

    /// Reads the jobs whose ids begin so. No id has the letter that ends the range.
    pub fn jobs_with_prefix(&self, prefix: &str) -> Result<Vec<Job>, Refusal> {
        self.select_jobs("WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id", [prefix])
    }

    fn select_jobs(&self, clauses: &str, values: impl Params) -> Result<Vec<Job>, Refusal> {
        select_facts(self.conn(), clauses, values)
    }
}

/// Frees the hosts of jobs that ended. This comes before anything else is written: another pool may
/// have a job on the same hosts in the same pass.
pub fn release_hosts_of_ended_jobs(conn: &Connection, state: &State) -> Result<(), Refusal> {
    let sql = "UPDATE job_host SET live = NULL WHERE job = ?1";
    for job in state.jobs.difference().filter_map(|change| change.after) {
        if job.ended.is_some() && !job.hosts.is_empty() {
            conn.prepare_cached(sql)?.execute([job.id.to_string()])?;
        }
    }
    Ok(())
}

/// Ends all live jobs of a cluster that is gone, and frees their hosts.
pub fn end_jobs_of_cluster(conn: &Connection, cluster: &str, now: Time) -> Result<(), Refusal> {
    let sql = "UPDATE job SET ended = ?1 WHERE object = ?2 AND ended IS NULL";
    conn.prepare_cached(sql)?.execute(params![now.0, cluster])?;
    let sql = "UPDATE job_host SET live = NULL WHERE job IN (SELECT id FROM job WHERE object = ?1)";
    conn.prepare_cached(sql)?.execute([cluster])?;
    Ok(())
}

/// Writes the jobs that changed, on behalf of an owner or of all. Jobs that ended come first: at
/// most one live job may be on an object or a host, and a new one may have taken their place.
pub fn write_changed_jobs(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for is_ended in [true, false] {
        for change in state.jobs.difference().filter(|change| change.is_on_behalf_of(owner)) {
            if let Some(job) = change.after
                && job.ended.is_some() == is_ended
            {
                write_job(conn, change.before, job)?;
            }
        }
    }
    Ok(())
}

/// Writes a job and the hosts that it works on. The database refuses a second live job on a host.
fn write_job(conn: &Connection, before: Option<&Job>, job: &Job) -> rusqlite::Result<()> {
    write_facts(conn, before, job)?;
    let sql = "INSERT INTO job_host (job, host, live) VALUES (?1, ?2, ?3) \
               ON CONFLICT (job, host) DO UPDATE SET live = excluded.live";
    // The unique index on hosts counts only rows that are not NULL here.
    let live = job.ended.is_none().then_some(1);
    for host in &job.hosts {
        conn.prepare_cached(sql)?.execute(params![job.id.to_string(), host, live])?;
    }
    Ok(())
}
