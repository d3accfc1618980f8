//! Clusters. Their facts are columns, which every pass reads; their documents are in a table beside
//! them and are read only when a cluster is edited, installed on hosts or shown whole.

use rusqlite::{Connection, OptionalExtension, Params, params, params_from_iter};

use crate::model::cluster::{Cluster, INSTALLATION_SECRETS};
use crate::model::meta::{Key, Steering};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::table::Change;
use crate::model::time::Time;

use super::connection::Store;
use super::customizations::remove_leases_of_cluster;
use super::facts::{read_body, select_facts, visit_facts, write_body, write_facts};
use super::filter::Filter;
use super::jobs::{end_jobs_of_cluster, load_jobs};
use super::secrets::{remove_secret, remove_secrets_of_namespace};
use super::stored::{Stored, Visitor, select_ids, select_names};

/// Loads clusters without their documents. `clauses` are those after FROM, such as
/// `WHERE name = ?1 ORDER BY id`.
pub fn load_clusters(
    conn: &Connection,
    state: &mut State,
    clauses: &str,
    values: impl Params,
) -> Result<(), Refusal> {
    for cluster in select_facts::<Cluster>(conn, clauses, values)? {
        if state.find_cluster(&cluster.name).is_none() {
            state.load_cluster(cluster);
        }
    }
    Ok(())
}

/// Loads a cluster beyond the scope with its live job, without its document.
pub fn load_cluster(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    if state.find_cluster(name).is_none() {
        load_clusters(conn, state, "WHERE name = ?1", [name])?;
        load_jobs(conn, state, "ended IS NULL AND object = ?1", [name])?;
    }
    Ok(())
}

/// Loads the clusters whose live jobs work on hosts, with these jobs: such a host is busy.
pub fn load_clusters_with_jobs_on_hosts(
    conn: &Connection,
    state: &mut State,
) -> Result<(), Refusal> {
    let sql = "SELECT object FROM job j WHERE ended IS NULL AND EXISTS (\
               SELECT 1 FROM job_host h WHERE h.job = j.id AND h.live)";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    for name in names.collect::<Result<Vec<String>, _>>()? {
        load_cluster(conn, state, &name)?;
    }
    Ok(())
}

/// Loads a cluster with its live job and its document.
pub fn load_whole_cluster(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    load_cluster(conn, state, name)?;
    let Some(cluster_id) = state.find_cluster(name) else { return Ok(()) };
    // A document that is loaded may have been edited and stays.
    if let Some(cluster) = state.clusters.get(cluster_id)
        && cluster.body.is_none()
    {
        let body = read_body(conn, "cluster_body", cluster.id)?;
        state.clusters.fill_part(cluster_id, |cluster| cluster.body = body);
    }
    Ok(())
}

impl Store {
    /// Hands on all clusters without their documents, one by one, in the order of insertion.
    pub fn visit_clusters(
        &self,
        visit: &mut dyn FnMut(Cluster) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        visit_facts(self.conn(), "ORDER BY id", [], visit)
    }

    /// Reads the clusters of a pool without their documents, in the order of insertion.
    pub fn clusters_of_pool(&self, pool: &Key) -> Result<Vec<Cluster>, Refusal> {
        let clauses = "WHERE pool_namespace = ?1 AND pool = ?2 ORDER BY id";
        select_facts(self.conn(), clauses, params![pool.namespace, pool.name])
    }
}

impl Stored for Cluster {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_whole_cluster(conn, state, &key.name)
    }

    /// The clusters that a filter names. Its namespace is that of the cluster or that of its pool:
    /// every cluster of a pool has a namespace of its own, which people seldom type.
    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let (condition, values) =
            filter.where_clause("(namespace = # OR pool_namespace = #)", Some("name = #"));
        let clauses = format!("{condition} ORDER BY id");
        let mut clusters: Vec<Self> =
            select_facts(store.conn(), &clauses, params_from_iter(values))?;
        if filter.whole {
            for cluster in &mut clusters {
                cluster.body = read_body(store.conn(), "cluster_body", cluster.id)?;
            }
        }
        Ok(clusters)
    }

    fn list_names(store: &Store) -> Result<Vec<Key>, Refusal> {
        select_names(store.conn(), "cluster")
    }

    fn visit_all(
        store: &Store,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Self>,
    ) -> Result<(), Refusal> {
        let conn = store.conn();
        // The namespace is that of the cluster or of its pool.
        let source = match namespace {
            Some(_) => "cluster WHERE namespace = ?1 OR pool_namespace = ?1",
            None => "cluster",
        };
        for id in select_ids(conn, source, namespace)? {
            visit_facts(conn, "WHERE id = ?1", [id], &mut |mut cluster: Self| {
                cluster.body = read_body(conn, "cluster_body", cluster.id)?;
                visit(cluster)
            })?;
        }
        Ok(())
    }
}

impl Store {
    /// Whether a cluster without a pool waits for its image set or its customization of this name.
    pub fn is_awaited_by_cluster(&self, name: &str) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM cluster \
                   WHERE pool_namespace IS NULL AND pool IS NULL AND unmet IS NOT NULL \
                   AND (image_set = ?1 OR customization_ref = ?1))";
        Ok(self.conn().prepare_cached(sql)?.query_row([name], |row| row.get(0))?)
    }

    /// Whether an IPPool or an InfraEnv names a cluster.
    pub fn is_named_outside_of_pools(&self, cluster: &str) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM ip_pool WHERE body ->> '$.spec.clusterName' = ?1) \
                   OR EXISTS (SELECT 1 FROM document \
                   WHERE kind = 'InfraEnv' AND body ->> '$.spec.clusterRef.name' = ?1)";
        Ok(self.conn().prepare_cached(sql)?.query_row([cluster], |row| row.get(0))?)
    }

    /// Loads a cluster, if it is not there yet, and its document.
    pub fn load_cluster_body(&self, state: &mut State, name: &str) -> Result<(), Refusal> {
        load_whole_cluster(self.conn(), state, name)
    }

    /// The labels and annotations of a cluster, by which people steer its driver. Empty if there is
    /// no such cluster.
    pub fn read_steering(&self, cluster: &str) -> Result<Steering, Refusal> {
        let sql = "SELECT b.body ->> '$.metadata' FROM cluster_body b \
                   JOIN cluster c ON c.id = b.id WHERE c.name = ?1";
        let mut statement = self.conn().prepare_cached(sql)?;
        let metadata: Option<Option<String>> =
            statement.query_row([cluster], |row| row.get(0)).optional()?;
        let json = metadata.flatten().unwrap_or_else(|| "{}".into());
        serde_json::from_str(&json).map_err(|error| {
            Refusal::new(Exit::State, format!("the metadata of cluster `{cluster}` cannot be read"))
                .because(error.to_string())
        })
    }
}

/// Removes a cluster that is gone, ends its jobs and removes its secrets. A pool's cluster has a
/// namespace of its own: all secrets in it go. A cluster that was applied by hand shares its
/// namespace with others: only the secrets that its installation made go.
pub fn remove_cluster(
    conn: &Connection,
    cluster: &Cluster,
    is_left_running: bool,
    now: Time,
) -> Result<(), Refusal> {
    if !is_left_running {
        // A cluster that is left running keeps its customization: its lease stays, and points to no
        // row of a cluster any more.
        remove_leases_of_cluster(conn, cluster.id)?;
    }
    conn.prepare_cached("DELETE FROM cluster WHERE id = ?1")?.execute([cluster.id])?;
    end_jobs_of_cluster(conn, &cluster.name, now)?;
    if cluster.pool.is_some() {
        let sql = "DELETE FROM document WHERE kind = 'ConfigMap' AND namespace = ?1";
        conn.prepare_cached(sql)?.execute([&*cluster.namespace])?;
        return remove_secrets_of_namespace(conn, &cluster.namespace);
    }
    for ending in INSTALLATION_SECRETS {
        remove_secret(conn, &cluster.namespace, &format!("{}-{ending}", cluster.name))?;
    }
    Ok(())
}

/// Writes a cluster that was made or changed. One that is gone was removed by `remove_cluster`
/// before anything was written.
pub fn write_cluster(conn: &Connection, change: &Change<'_, Cluster>) -> Result<(), Refusal> {
    let Some(cluster) = change.after else {
        return Ok(());
    };
    let id = write_facts(conn, change.before, cluster)?;
    let body_before = change.before.and_then(|before| before.body.as_ref());
    write_body(conn, "cluster_body", id, body_before, cluster.body.as_ref())
}
