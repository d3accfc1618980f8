//! Jobs: the live ones of a scope, and all that there were.

use rusqlite::{Connection, Params, params};

use crate::model::job::{Job, Verb};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::Owner;
use crate::model::time::Time;

use super::connection::Store;
use super::facts::{select_facts, write_facts};

/// Loads the jobs that a condition names, but none of an object whose live job is loaded.
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
    /// All jobs that worked on a host.
    pub fn jobs_on_host(&self, host: &str) -> Result<Vec<Job>, Refusal> {
        let clauses = "WHERE id IN (SELECT job FROM job_host WHERE host = ?1) ORDER BY started, id";
        self.select_jobs(clauses, [host])
    }

    /// All jobs, in the order they were started.
    pub fn all_jobs(&self) -> Result<Vec<Job>, Refusal> {
        self.select_jobs("ORDER BY started, rowid", [])
    }

    /// Jobs that have not ended, in the order they were started. Past jobs are many, and do not
    /// count here: an index has the live ones alone.
    pub fn live_jobs(&self) -> Result<Vec<Job>, Refusal> {
        self.select_jobs("WHERE ended IS NULL ORDER BY started, rowid", [])
    }

    /// The jobs of a cluster or a host, in the order they were started.
    pub fn jobs_of(&self, object: &str) -> Result<Vec<Job>, Refusal> {
        self.select_jobs("WHERE object = ?1 ORDER BY started, rowid", [object])
    }

    /// The last jobs of a pool that did this, in the order they were started.
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

    /// The job of an id.
    pub fn job(&self, id: &str) -> Result<Option<Job>, Refusal> {
        Ok(self.select_jobs("WHERE id = ?1", [id])?.pop())
    }

    fn select_jobs(&self, clauses: &str, values: impl Params) -> Result<Vec<Job>, Refusal> {
        select_facts(self.conn(), clauses, values)
    }
}

/// Jobs that are over let go of their hosts before anything is written: whoever else owns those
/// may work on them now.
pub fn release_hosts_of_ended_jobs(conn: &Connection, state: &State) -> Result<(), Refusal> {
    let changed = state.jobs.difference().filter_map(|change| change.after);
    for job in changed.filter(|job| job.ended.is_some() && !job.hosts.is_empty()) {
        let sql = "UPDATE job_host SET live = NULL WHERE job = ?1";
        conn.prepare_cached(sql)?.execute([job.id.to_string()])?;
    }
    Ok(())
}

/// Ends all jobs of a cluster that is gone.
pub fn end_jobs_of_cluster(conn: &Connection, cluster: &str, now: Time) -> Result<(), Refusal> {
    let sql = "UPDATE job SET ended = ?1 WHERE object = ?2 AND ended IS NULL";
    conn.prepare_cached(sql)?.execute(params![now.0, cluster])?;
    let sql = "UPDATE job_host SET live = NULL WHERE job IN (SELECT id FROM job WHERE object = ?1)";
    conn.prepare_cached(sql)?.execute([cluster])?;
    Ok(())
}

/// Writes the jobs that changed. Those that are over go first: another may work on the same host.
pub fn write_changes(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for is_ended in [true, false] {
        let changes = state.jobs.difference().filter(|change| change.is_of(owner));
        let jobs = changes.filter_map(|change| change.after);
        for job in jobs.filter(|job| job.ended.is_some() == is_ended) {
            write_job(conn, job)?;
        }
    }
    Ok(())
}

fn write_job(conn: &Connection, job: &Job) -> rusqlite::Result<()> {
    write_facts(conn, job)?;
    for host in &job.hosts {
        let sql = "INSERT INTO job_host (job, host, live) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (job, host) DO UPDATE SET live = excluded.live";
        let live = job.ended.is_none().then_some(1);
        conn.prepare_cached(sql)?.execute(params![job.id.to_string(), host, live])?;
    }
    Ok(())
}
