//! Clusters: their facts are columns, their documents are read when somebody needs them.

use rusqlite::{Connection, OptionalExtension, Params, params_from_iter};

use crate::model::cluster::{Cluster, LEFT_BY_INSTALLATION};
use crate::model::meta::{Key, Steering};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::table::{Change, Owner};
use crate::model::time::Time;

use super::connection::Store;
use super::customizations::remove_leases_of_cluster;
use super::facts::{read_body, select_facts, write_body, write_facts};
use super::filter::Filter;
use super::jobs::{end_jobs_of_cluster, load_jobs};
use super::secrets::{remove_secret, remove_secrets_of_namespace};
use super::stored::Stored;

/// Loads the clusters that a condition names, without their documents.
pub fn load_clusters(
    conn: &Connection,
    state: &mut State,
    clauses: &str,
    values: impl Params,
) -> Result<(), Refusal> {
    for cluster in select_facts::<Cluster>(conn, clauses, values)? {
        if state.cluster(&cluster.name).is_none() {
            state.load_cluster(cluster);
        }
    }
    Ok(())
}

/// A cluster beyond the scope with its live job, without its document.
pub fn load_cluster(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    if state.cluster(name).is_none() {
        load_clusters(conn, state, "WHERE name = ?1", [name])?;
        load_jobs(conn, state, "ended IS NULL AND object = ?1", [name])?;
    }
    Ok(())
}

/// A cluster with its document.
pub fn load_whole_cluster(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    load_cluster(conn, state, name)?;
    let Some(cluster_id) = state.cluster(name) else { return Ok(()) };
    // A body that is there may have been edited.
    if let Some(cluster) = state.clusters.get(cluster_id)
        && cluster.body.is_none()
    {
        let body = read_body(conn, "cluster_body", cluster.id)?;
        state.clusters.fill(cluster_id, |cluster| cluster.body = body);
    }
    Ok(())
}

impl Stored for Cluster {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_whole_cluster(conn, state, &key.name)
    }

    /// A cluster is found by its own namespace and by that of its pool.
    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let (condition, values) =
            filter.conditions("(namespace = # OR pool_namespace = #)", Some("name = #"));
        let clauses = format!("{condition} ORDER BY id");
        let values = params_from_iter(values);
        let mut clusters: Vec<Self> = select_facts(store.conn(), &clauses, values)?;
        for cluster in clusters.iter_mut().filter(|_| filter.whole) {
            cluster.body = read_body(store.conn(), "cluster_body", cluster.id)?;
        }
        Ok(clusters)
    }
}

impl Store {
    pub fn load_cluster_body(&self, state: &mut State, name: &str) -> Result<(), Refusal> {
        load_whole_cluster(self.conn(), state, name)
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
}

/// Removes a cluster that is gone, and what goes with it. A pool's cluster goes with its namespace
/// and all secrets in it, one applied by hand with the secrets that its installation left.
pub fn remove_cluster(
    conn: &Connection,
    cluster: &Cluster,
    is_left_running: bool,
    now: Time,
) -> Result<(), Refusal> {
    if !is_left_running {
        // The lease of one that is left running stays, without a row to point to.
        remove_leases_of_cluster(conn, cluster.id)?;
    }
    conn.prepare_cached("DELETE FROM cluster WHERE id = ?1")?.execute([cluster.id])?;
    end_jobs_of_cluster(conn, &cluster.name, now)?;
    if cluster.pool.is_some() {
        return remove_secrets_of_namespace(conn, &cluster.namespace);
    }
    for end in LEFT_BY_INSTALLATION {
        remove_secret(conn, &cluster.namespace, &format!("{}-{end}", cluster.name))?;
    }
    Ok(())
}

/// Writes the clusters that are new or changed.
pub fn write_changes(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for change in state.clusters.difference().filter(|change| change.is_of(owner)) {
        write_change(conn, &change)?;
    }
    Ok(())
}

fn write_change(conn: &Connection, change: &Change<'_, Cluster>) -> Result<(), Refusal> {
    // What goes was removed before anything was written.
    let Some(cluster) = change.after else {
        return Ok(());
    };
    let id = write_facts(conn, cluster)?;
    let body_before = change.before.and_then(|before| before.body.as_ref());
    write_body(conn, "cluster_body", id, body_before, cluster.body.as_ref())
}
