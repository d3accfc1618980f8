//! Writes a difference inside one transaction: all or nothing, or, after that was refused, each
//! pool's changes under a savepoint of their own.

use std::collections::HashSet;
use std::rc::Rc;

use rusqlite::{Connection, params};

use crate::model::claim::Claim;
use crate::model::clock::Clocks;
use crate::model::cluster::{Cluster, LEFT_BY_INSTALLATION};
use crate::model::customization::Customization;
use crate::model::documents::{Secret, Stored};
use crate::model::event::Event;
use crate::model::facts::Facts;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::table::{Change, Owner};
use crate::model::time::Time;

use super::agents;
use super::documents;
use super::facts;
use super::open::Store;
use super::tenancy;

/// Pools whose changes were undone, and why.
pub type Refused = Vec<(Rc<Key>, Refusal)>;

/// When a pass wrote last: as passes count time, and what the clocks said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub now: Time,
    pub clocks: Clocks,
}

/// Writes everything that changed, all or nothing. Needs an open write transaction; the caller
/// commits, or rolls back if the database refuses.
pub fn write(store: &Store, state: &State, mark: &Mark) -> Result<(), Refusal> {
    let conn = store.conn();
    make_room(conn, state, mark.now)?;
    group(conn, state, None, mark.now)?;
    finish(conn, state, &[], mark)
}

/// Writes what changed of each pool under a savepoint of its own, and returns the pools that the
/// database refused, with why. Needed only after `write` was refused: a savepoint for each pool
/// makes SQLite keep every page twice.
pub fn write_pool_by_pool(store: &Store, state: &State, mark: &Mark) -> Result<Refused, Refusal> {
    let conn = store.conn();
    let mut refused = Refused::new();
    make_room(conn, state, mark.now)?;
    for owner in state.owners() {
        let Some(pool) = &owner else {
            group(conn, state, Some(&owner), mark.now)?;
            continue;
        };
        conn.execute_batch("SAVEPOINT pool")?;
        match group(conn, state, Some(&owner), mark.now) {
            Ok(()) => conn.execute_batch("RELEASE pool")?,
            Err(refusal) if refusal.exit == Exit::Conflict => {
                conn.execute_batch("ROLLBACK TO pool; RELEASE pool")?;
                let new = violated(pool, &refusal, mark.now);
                let known = store.events(Some((Kind::ClusterPool, pool)), 1)?;
                if known.first().is_none_or(|known| known.message != new.message) {
                    event(conn, &new)?;
                }
                refused.push((Rc::clone(pool), refusal));
            }
            Err(refusal) => return Err(refusal),
        }
    }
    finish(conn, state, &refused, mark)?;
    Ok(refused)
}

/// What goes before anything is taken: what goes of all pools others may take in this pass, and two
/// pools may well swap. A pool whose changes are undone has lost it all the same.
fn make_room(conn: &Connection, state: &State, now: Time) -> Result<(), Refusal> {
    let left_running = state.customizations.rows().filter_map(|one| one.holder.as_ref());
    let left_running: HashSet<&str> =
        left_running.filter(|holder| holder.preserved).map(|one| one.cluster.as_str()).collect();
    for gone in state.clusters.difference().filter(|change| change.after.is_none()) {
        let Some(gone) = gone.before else { continue };
        remove_cluster(conn, gone, left_running.contains(gone.name.as_str()), now)?;
    }
    // So do jobs that are over from their hosts: on those whoever else owns them may work now.
    let over = state.jobs.difference().filter_map(|change| change.after);
    for job in over.filter(|job| job.ended.is_some() && !job.hosts.is_empty()) {
        let sql = "UPDATE job_host SET live = NULL WHERE job = ?1";
        conn.prepare_cached(sql)?.execute([job.id.to_string()])?;
    }
    Ok(())
}

/// Events in the order in which things happened, whoever did them, and the mark of this commit.
fn finish(
    conn: &Connection,
    state: &State,
    refused: &[(Rc<Key>, Refusal)],
    mark: &Mark,
) -> Result<(), Refusal> {
    let undone =
        |by: &Owner| by.as_ref().is_some_and(|by| refused.iter().any(|(one, _)| one == by));
    for (one, _) in state.events.iter().filter(|(_, by)| !undone(by)) {
        event(conn, one)?;
    }
    let sql = "UPDATE state SET revision = revision + 1, last_pass = max(last_pass, ?1), \
               wall = ?2, boot = ?3, since_boot = ?4, doubted = ?5, off = ?6";
    let Clocks { wall, boot, since_boot, doubted, off } = &mark.clocks;
    let clocks = params![mark.now.0, wall.0, boot, since_boot, doubted, off];
    conn.prepare_cached(sql)?.execute(clocks)?;
    Ok(())
}

/// The event of a pool whose changes were undone.
pub fn violated(pool: &Key, refusal: &Refusal, time: Time) -> Event {
    Event {
        time,
        warning: true,
        reason: "InvariantViolated".into(),
        kind: Kind::ClusterPool.name(),
        object: pool.clone(),
        actor: "poolctl".into(),
        message: format!("The pass of this pool was undone: {refusal}"),
        ..Event::default()
    }
}

/// What changed on behalf of an owner, or all of it. Leases come after the clusters that they point
/// to.
fn group(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
    now: Time,
) -> Result<(), Refusal> {
    fn of<'a, T: 'a>(
        all: impl Iterator<Item = Change<'a, T>>,
        owner: Option<&'a Owner>,
    ) -> impl Iterator<Item = Change<'a, T>> {
        all.filter(move |change| change.is_of(owner))
    }
    let clusters: Vec<_> = of(state.clusters.difference(), owner).collect();
    for change in of(state.claims.difference(), owner) {
        claim(conn, &change)?;
    }
    documents::write_changes(conn, &state.pools, owner)?;
    for change in &clusters {
        cluster(conn, change)?;
    }
    for change in of(state.customizations.difference(), owner) {
        customization(conn, &change)?;
    }
    // What a job left for a cluster that went in the same pass goes with it.
    let leaves = |one: &Secret| state.clusters.was_removed(&Key::new("", &*one.metadata.namespace));
    for change in of(state.secrets.difference(), owner) {
        if change.after.is_some_and(leaves) {
            continue;
        }
        secret(conn, &change)?;
    }
    documents::write_changes(conn, &state.hosts, owner)?;
    // Those that are over first: another may work on the same host.
    let jobs = || of(state.jobs.difference(), owner).filter_map(|change| change.after);
    for job in
        jobs().filter(|job| job.ended.is_some()).chain(jobs().filter(|job| job.ended.is_none()))
    {
        put_job(conn, job)?;
    }
    agents::write(conn, state, owner)?;
    tenancy::write(conn, state, owner, now)?;
    documents::write_changes(conn, &state.data_templates, owner)?;
    documents::write_plain_kinds(conn, state, owner)
}

/// A pool's cluster goes with its namespace and all secrets in it, one applied by hand with the
/// secrets that its installation left.
fn remove_cluster(
    conn: &Connection,
    gone: &Cluster,
    left_running: bool,
    now: Time,
) -> Result<(), Refusal> {
    if !left_running {
        // The lease of one that is left running stays, without a row to point to.
        conn.prepare_cached("DELETE FROM lease WHERE cluster = ?1")?.execute([gone.id])?;
    }
    conn.prepare_cached("DELETE FROM cluster WHERE id = ?1")?.execute([gone.id])?;
    let sql = "UPDATE job SET ended = ?1 WHERE object = ?2 AND ended IS NULL";
    conn.prepare_cached(sql)?.execute(params![now.0, gone.name])?;
    let sql = "UPDATE job_host SET live = NULL WHERE job IN (SELECT id FROM job WHERE object = ?1)";
    conn.prepare_cached(sql)?.execute([&gone.name])?;
    if gone.pool.is_some() {
        let sql = "DELETE FROM secret_object WHERE namespace = ?1";
        conn.prepare_cached(sql)?.execute([&gone.namespace])?;
        return Ok(());
    }
    for what in LEFT_BY_INSTALLATION {
        let sql = "DELETE FROM secret_object WHERE namespace = ?1 AND name = ?2";
        let name = format!("{}-{what}", gone.name);
        conn.prepare_cached(sql)?.execute([&gone.namespace, &name])?;
    }
    Ok(())
}

fn cluster(conn: &Connection, change: &Change<'_, Cluster>) -> Result<(), Refusal> {
    let Some(after) = change.after else {
        return Ok(());
    };
    let id = put_facts(conn, after, after.id)?;
    let known = change.before.and_then(|before| before.body.as_ref());
    body(conn, "cluster_body", id, after.body.as_ref().filter(|body| Some(*body) != known))
}

fn claim(conn: &Connection, change: &Change<'_, Claim>) -> Result<(), Refusal> {
    let Some(after) = change.after else {
        let id = change.before.map(|before| before.id);
        conn.prepare_cached("DELETE FROM claim WHERE id = ?1")?.execute([id])?;
        return Ok(());
    };
    let id = put_facts(conn, after, after.id)?;
    let known = change.before.and_then(|before| before.body.as_ref());
    body(conn, "claim_body", id, after.body.as_ref().filter(|body| Some(*body) != known))
}

/// Writes the facts of a row and returns its id; the id of a new one is 0 until then.
fn put_facts<T: Facts>(conn: &Connection, facts: &T, id: i64) -> Result<i64, Refusal> {
    let given = facts::put(conn, facts)?;
    Ok(if id == 0 { given } else { id })
}

fn put_job(conn: &Connection, job: &Job) -> Result<(), Refusal> {
    facts::put(conn, job)?;
    let is_live = job.ended.is_none().then_some(1);
    for host in &job.hosts {
        let sql = "INSERT INTO job_host (job, host, live) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (job, host) DO UPDATE SET live = excluded.live";
        conn.prepare_cached(sql)?.execute(params![job.id.to_string(), host, is_live])?;
    }
    Ok(())
}

fn body<T: serde::Serialize>(
    conn: &Connection,
    table: &str,
    id: i64,
    body: Option<&T>,
) -> Result<(), Refusal> {
    let Some(body) = body else { return Ok(()) };
    let text = serde_json::to_string(body).map_err(|error| {
        Refusal::invalid("an object cannot be written").because(error.to_string())
    })?;
    let sql = format!("INSERT OR REPLACE INTO {table} (id, body) VALUES (?1, ?2)");
    conn.prepare_cached(&sql)?.execute(params![id, text])?;
    Ok(())
}

fn customization(conn: &Connection, change: &Change<'_, Customization>) -> Result<(), Refusal> {
    let (before, after) = (change.before, change.after);
    let holder = |one: Option<&Customization>| {
        one.and_then(|one| one.holder.as_ref()).map(|holder| holder.cluster.clone())
    };
    let gone = after.is_none();
    if let Some(before) = before.filter(|_| gone || holder(before) != holder(after)) {
        let sql = "DELETE FROM lease WHERE customization = ?1";
        conn.prepare_cached(sql)?.execute([before.metadata.id])?;
    }
    let id = documents::write(conn, change)?;
    let Some(holder) = after.and_then(|after| after.holder.as_ref()) else {
        return Ok(());
    };
    let before = before.and_then(|before| before.holder.as_ref());
    if before.is_none_or(|before| before.cluster != holder.cluster) {
        let sql = if holder.preserved {
            "INSERT INTO lease VALUES (?1, NULL, ?2, ?3, ?4)"
        } else {
            "INSERT INTO lease SELECT ?1, id, name, pool_namespace, pool FROM cluster \
             WHERE name = ?2 AND pool_namespace IS ?3 AND pool IS ?4"
        };
        let (namespace, pool) = holder.pool.as_ref().map(|key| (&key.namespace, &key.name)).unzip();
        let values = params![id, holder.cluster, namespace, pool];
        let written = conn.prepare_cached(sql)?.execute(values)?;
        if written == 0 {
            let what = format!("customization lease for `{}`, which is not there", holder.cluster);
            return Err(Refusal::conflict(what));
        }
    }
    Ok(())
}

fn secret(conn: &Connection, change: &Change<'_, Secret>) -> Result<(), Refusal> {
    let id = documents::write(conn, change)?;
    let Some(after) = change.after else {
        return Ok(());
    };
    for key in change.before.into_iter().flat_map(|before| before.values.keys()) {
        if !after.values.contains_key(key) {
            let sql = "DELETE FROM secret WHERE object = ?1 AND key = ?2";
            conn.prepare_cached(sql)?.execute(params![id, key])?;
        }
    }
    for (key, value) in &after.values {
        match value {
            Stored::Kept | Stored::Loaded(_) => {}
            Stored::New(value) => {
                let sql = "INSERT OR REPLACE INTO secret (object, key, value) VALUES (?1, ?2, ?3)";
                conn.prepare_cached(sql)?.execute(params![id, key, value.reveal().as_bytes()])?;
            }
            Stored::CopyOf(from) => {
                let sql = "INSERT OR REPLACE INTO secret (object, key, value) \
                           SELECT ?1, v.key, v.value FROM secret v \
                           JOIN secret_object o ON o.id = v.object \
                           WHERE o.namespace = ?2 AND o.name = ?3";
                conn.prepare_cached(sql)?.execute(params![id, from.namespace, from.name])?;
            }
        }
    }
    Ok(())
}

fn event(conn: &Connection, one: &Event) -> Result<(), Refusal> {
    let sql = "INSERT INTO event (time, warning, reason, kind, namespace, name, actor, message, infra_env, cluster) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    conn.prepare_cached(sql)?.execute(params![
        one.time.0,
        one.warning,
        one.reason,
        one.kind,
        one.object.namespace,
        one.object.name,
        one.actor,
        one.message,
        one.infra_env.as_ref().map(Key::to_string),
        one.cluster.as_ref().map(Key::to_string),
    ])?;
    Ok(())
}
