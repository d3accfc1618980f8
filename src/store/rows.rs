//! Kinds whose facts are columns: clusters, claims and jobs.

use std::error::Error;
use std::rc::Rc;

use rusqlite::types::Type;
use rusqlite::{Connection, Row, ToSql, params};

use crate::model::claim::{Claim, ClusterRunning, Pending};
use crate::model::cluster::{Cluster, Power};
use crate::model::condition::Shortage;
use crate::model::driver::Driver;
use crate::model::job::{Job, Verb};
use crate::model::meta::{Key, Uid};
use crate::model::time::{Span, Time};

pub const CLUSTER: &str = "id, name, namespace, created, driver, pool_namespace, pool, claim, \
     claimed_at, customization, version, cluster_name, base_domain, power_wanted, power, \
     power_since, started_at, installed_at, attempts_limit, restarts, failed_at, failure, ordinal, \
     stopped, marked, protected, preserve, held, deleting, interrupted, \
     awake_since, power_message, powerless, power_paused, hibernate_after, \
     paused, once, customization_ref, unmet, undo_failures, undo_failed_at, progress, asked_at, \
     by_agents, lacks, passed_over";

pub const CLAIM: &str = "id, namespace, name, created, pool, owner, lifetime, effective, cluster, \
     pending, pending_since, running, running_since, held, deleting, warned";

pub const JOB: &str = "id, verb, object, pool_namespace, pool, driver, attempt, ordinal, started, \
     ended, outcome, message, begun, hosts";

/// Strings that many rows share are kept once.
#[derive(Default)]
pub struct Shared {
    pool: Option<Rc<Key>>,
    version: Option<Rc<str>>,
}

impl Shared {
    fn pool(&mut self, namespace: Option<&str>, name: Option<&str>) -> Option<Rc<Key>> {
        let (namespace, name) = (namespace?, name?);
        let same = |key: &&Rc<Key>| key.name == name && key.namespace == namespace;
        if self.pool.as_ref().as_ref().is_none_or(|x| !same(x)) {
            self.pool = Some(Rc::new(Key::new(namespace, name)));
        }
        self.pool.clone()
    }

    fn version(&mut self, version: Option<&str>) -> Option<Rc<str>> {
        let version = version?;
        if self.version.as_deref() != Some(version) {
            self.version = Some(version.into());
        }
        self.version.clone()
    }
}

fn text<'a>(row: &'a Row<'_>, at: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(at)?.as_str_or_null()?)
}

fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Time>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Time))
}

fn nth<T: Copy>(row: &Row<'_>, at: usize, all: &[T]) -> rusqlite::Result<T> {
    let number: i64 = row.get(at)?;
    let beyond = || rusqlite::Error::IntegralValueOutOfRange(at, number);
    usize::try_from(number).ok().and_then(|at| all.get(at)).copied().ok_or_else(beyond)
}

pub fn cluster(row: &Row<'_>, shared: &mut Shared) -> rusqlite::Result<Cluster> {
    Ok(Cluster {
        id: row.get(0)?,
        name: row.get(1)?,
        namespace: row.get(2)?,
        created: Time(row.get(3)?),
        driver: nth(row, 4, &Driver::ALL)?,
        pool: shared.pool(text(row, 5)?, text(row, 6)?),
        claim: row.get(7)?,
        claimed_at: time(row, 8)?,
        customization: row.get(9)?,
        version: shared.version(text(row, 10)?),
        cluster_name: row.get(11)?,
        base_domain: row.get(12)?,
        power_wanted: nth(row, 13, &Power::ALL)?,
        power: nth(row, 14, &Power::ALL)?,
        power_since: time(row, 15)?,
        started_at: time(row, 16)?,
        installed_at: time(row, 17)?,
        attempts_limit: row.get(18)?,
        restarts: row.get(19)?,
        failed_at: time(row, 20)?,
        failure: row.get(21)?,
        ordinal: row.get(22)?,
        stopped: row.get(23)?,
        marked: row.get(24)?,
        protected: row.get(25)?,
        preserve: row.get(26)?,
        held: row.get(27)?,
        deleting: time(row, 28)?,
        interrupted: row.get(29)?,
        awake_since: time(row, 30)?,
        power_message: row.get(31)?,
        powerless: row.get(32)?,
        power_paused: row.get(33)?,
        hibernate_after: row.get::<_, Option<i64>>(34)?.map(Span),
        paused: row.get(35)?,
        once: row.get(36)?,
        customization_ref: row.get(37)?,
        unmet: time(row, 38)?,
        undo_failures: row.get(39)?,
        undo_failed_at: time(row, 40)?,
        progress: row.get(41)?,
        asked_at: time(row, 42)?,
        by_agents: row.get(43)?,
        lacks: row.get::<_, Option<String>>(44)?.as_deref().map(shortage).transpose()?,
        passed_over: time(row, 45)?,
        body: None,
    })
}

pub fn claim(row: &Row<'_>) -> rusqlite::Result<Claim> {
    Ok(Claim {
        id: row.get(0)?,
        namespace: row.get(1)?,
        name: row.get(2)?,
        created: Time(row.get(3)?),
        pool: row.get(4)?,
        owner: row.get(5)?,
        lifetime: row.get::<_, Option<i64>>(6)?.map(Span),
        effective: row.get::<_, Option<i64>>(7)?.map(Span),
        cluster: row.get(8)?,
        pending: nth(row, 9, &Pending::ALL)?,
        pending_since: time(row, 10)?,
        running: nth(row, 11, &ClusterRunning::ALL)?,
        running_since: time(row, 12)?,
        held: row.get(13)?,
        deleting: time(row, 14)?,
        warned: row.get(15)?,
        body: None,
    })
}

pub fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let id: Uid = row.get::<_, String>(0)?.parse().map_err(|why| unreadable(0, why))?;
    Ok(Job {
        id,
        verb: nth(row, 1, &Verb::ALL)?,
        object: row.get(2)?,
        pool: Shared::default().pool(text(row, 3)?, text(row, 4)?),
        driver: nth(row, 5, &Driver::ALL)?,
        attempt: row.get(6)?,
        ordinal: row.get(7)?,
        started: Time(row.get(8)?),
        ended: time(row, 9)?,
        outcome: row.get(10)?,
        message: row.get(11)?,
        begun: row.get(12)?,
        hosts: row.get::<_, Option<String>>(13)?.map(|all| names(&all)).unwrap_or_default(),
    })
}

/// The number that stands for a name in its column.
pub fn place<T: PartialEq>(all: &[T], one: &T) -> Option<i64> {
    all.iter().position(|other| other == one).and_then(|at| i64::try_from(at).ok())
}

/// Every column of `columns` gets its parameter: an upsert by id.
fn put(
    conn: &Connection,
    table: &str,
    columns: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<()> {
    let names: Vec<&str> = columns.split(',').map(str::trim).collect();
    let marks: Vec<String> = (1..=names.len()).map(|at| format!("?{at}")).collect();
    let sets: Vec<String> =
        names[1..].iter().map(|name| format!("{name} = excluded.{name}")).collect();
    let sql = format!(
        "INSERT INTO {table} ({columns}) VALUES ({}) ON CONFLICT (id) DO UPDATE SET {}",
        marks.join(", "),
        sets.join(", ")
    );
    conn.prepare_cached(&sql)?.execute(values)?;
    Ok(())
}

/// Writes the facts and returns the row's id.
pub fn put_cluster(conn: &Connection, one: &Cluster) -> rusqlite::Result<i64> {
    let id = (one.id != 0).then_some(one.id);
    let micros = |time: Option<Time>| time.map(|time| time.0);
    let pool = one.pool.as_deref();
    let values = params![
        id,
        one.name,
        one.namespace,
        one.created.0,
        place(&Driver::ALL, &one.driver),
        pool.map(|pool| &pool.namespace),
        pool.map(|pool| &pool.name),
        one.claim,
        micros(one.claimed_at),
        one.customization,
        one.version.as_deref(),
        one.cluster_name,
        one.base_domain,
        place(&Power::ALL, &one.power_wanted),
        place(&Power::ALL, &one.power),
        micros(one.power_since),
        micros(one.started_at),
        micros(one.installed_at),
        one.attempts_limit,
        one.restarts,
        micros(one.failed_at),
        one.failure,
        one.ordinal,
        one.stopped,
        one.marked,
        one.protected,
        one.preserve,
        one.held,
        micros(one.deleting),
        one.interrupted,
        micros(one.awake_since),
        one.power_message,
        one.powerless,
        one.power_paused,
        one.hibernate_after.map(|span| span.0),
        one.paused,
        one.once,
        one.customization_ref,
        micros(one.unmet),
        one.undo_failures,
        micros(one.undo_failed_at),
        one.progress,
        micros(one.asked_at),
        one.by_agents,
        one.lacks.as_ref().map(|one| format!("{}: {}", one.reason, one.message)),
        micros(one.passed_over),
    ];
    put(conn, "cluster", CLUSTER, values)?;
    Ok(id.unwrap_or_else(|| conn.last_insert_rowid()))
}

pub fn put_claim(conn: &Connection, one: &Claim) -> rusqlite::Result<i64> {
    let id = (one.id != 0).then_some(one.id);
    let micros = |time: Option<Time>| time.map(|time| time.0);
    let values = params![
        id,
        one.namespace,
        one.name,
        one.created.0,
        one.pool,
        one.owner,
        one.lifetime.map(|span| span.0),
        one.effective.map(|span| span.0),
        one.cluster,
        place(&Pending::ALL, &one.pending),
        micros(one.pending_since),
        place(&ClusterRunning::ALL, &one.running),
        micros(one.running_since),
        one.held,
        micros(one.deleting),
        one.warned,
    ];
    put(conn, "claim", CLAIM, values)?;
    Ok(id.unwrap_or_else(|| conn.last_insert_rowid()))
}

pub fn put_job(conn: &Connection, one: &Job) -> rusqlite::Result<()> {
    let pool = one.pool.as_deref();
    let values = params![
        one.id.to_string(),
        place(&Verb::ALL, &one.verb),
        one.object,
        pool.map(|pool| &pool.namespace),
        pool.map(|pool| &pool.name),
        place(&Driver::ALL, &one.driver),
        one.attempt,
        one.ordinal,
        one.started.0,
        one.ended.map(|time| time.0),
        one.outcome,
        one.message,
        one.begun,
        Some(one.hosts.join(" ")).filter(|all| !all.is_empty()),
    ];
    put(conn, "job", JOB, values)?;
    for host in &one.hosts {
        let sql = "INSERT INTO job_host (job, host, live) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (job, host) DO UPDATE SET live = excluded.live";
        let live = one.ended.is_none().then_some(1);
        conn.prepare_cached(sql)?.execute(params![one.id.to_string(), host, live])?;
    }
    Ok(())
}

/// One column: the word never has a colon.
fn shortage(text: &str) -> rusqlite::Result<Shortage> {
    let (reason, message) = text
        .split_once(": ")
        .ok_or_else(|| unreadable(44, format!("`{text}` is no reason with a message")))?;
    Ok(Shortage::new(reason, message))
}

/// A value that nobody but another program can have put there.
fn unreadable(column: usize, why: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
}

/// Names of hosts with their namespaces; neither has a space.
fn names(all: &str) -> Vec<String> {
    all.split(' ').map(str::to_owned).collect()
}
