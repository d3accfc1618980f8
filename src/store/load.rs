//! Loads what a scope needs, and no more. This file says which objects those are and in which order
//! they are loaded; their queries are in the files of their kinds.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::model::claim::Claim;
use crate::model::due::DueObject;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{ClaimId, Scope, State};

use super::agents::{load_all_agents, load_free_agents_of_namespace};
use super::claims::load_claims;
use super::clusters::{load_cluster, load_clusters, load_clusters_with_jobs_on_hosts};
use super::connection::Store;
use super::customizations::{
    load_customization, load_customizations, load_customizations_without_cluster,
};
use super::documents::{load_document, select_document, select_documents};
use super::hosts::{load_all_hosts, load_host, load_hosts_of_cluster, load_hosts_of_pool};
use super::infra_envs::load_all_infra_envs;
use super::ip_pools::{load_all_ip_pools, load_ip_pool_with_ends_of_leases};
use super::jobs::load_jobs;
use super::references::load_references;
use super::stored::fetch;

/// An object that a command edits or shows whole, beyond what the scope loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededObject {
    pub kind: Kind,
    pub key: Key,
}

impl Store {
    /// Loads the objects of a scope, what they refer to, and the objects that a command needs
    /// besides.
    pub fn load(&self, scope: &Scope, needs: &[NeededObject]) -> Result<State, Refusal> {
        let conn = self.conn();
        let mut state = State::default();
        match scope {
            Scope::Whole => load_everything(conn, &mut state)?,
            Scope::WithoutPool => load_objects_without_pool(conn, &mut state)?,
            Scope::Pools(keys) => {
                for key in keys {
                    load_pool(conn, &mut state, key)?;
                }
            }
        }
        load_named_pools_and_references(conn, scope, &mut state)?;
        for need in needs {
            fetch(conn, &mut state, need.kind, &need.key)?;
        }
        Ok(state)
    }

    /// Loads the objects that a pass looks at without a pool, as far as a plan decides about them. What
    /// goes with a host that a person removes is none of that.
    pub fn load_due_objects(
        &self,
        state: &mut State,
        objects: &[NeededObject],
    ) -> Result<(), Refusal> {
        let conn = self.conn();
        for NeededObject { kind, key } in objects {
            state.looked_at.push(DueObject { kind: *kind, key: key.clone() });
            match kind {
                Kind::BareMetalHost => load_host(conn, state, key)?,
                Kind::ClusterDeployment => {
                    load_cluster(conn, state, &key.name)?;
                    load_hosts_of_cluster(conn, state, &key.name)?;
                }
                Kind::IpPool => load_ip_pool_with_ends_of_leases(conn, state, key)?,
                _ => fetch(conn, state, *kind, key)?,
            }
        }
        Ok(())
    }

    /// Loads what the objects in the state refer to and is not loaded yet. Needed after an edit,
    /// which may have named other objects.
    pub fn load_references(&self, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
        load_named_pools_and_references(self.conn(), scope, state)
    }

    /// Loads the clusters that have customizations in the state, as far as they exist, with their
    /// pools, whose clusters may have further customizations.
    pub fn load_holders(&self, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
        if *scope == Scope::Whole {
            return Ok(());
        }
        loop {
            let customizations_before = state.customizations.row_count();
            let holders = state.customizations.rows().filter_map(|row| row.holder.as_ref());
            let clusters: BTreeSet<String> = holders.map(|holder| holder.cluster.clone()).collect();
            for cluster in clusters {
                load_cluster(self.conn(), state, &cluster)?;
            }
            self.load_owning_pools(scope, state)?;
            if state.customizations.row_count() == customizations_before {
                return Ok(());
            }
        }
    }

    /// Loads the pools, with all that is theirs, that clusters and claims in the state belong to. A
    /// pass decides about everything in the state, and needs the whole pool for that.
    pub fn load_owning_pools(&self, scope: &Scope, state: &mut State) -> Result<(), Refusal> {
        if *scope == Scope::Whole {
            return Ok(());
        }
        let conn = self.conn();
        loop {
            let pools_before = state.pools.row_count();
            load_pools_of_members(conn, state)?;
            if pools_before == state.pools.row_count() {
                return Ok(());
            }
            // What these pools refer to may belong to further pools.
            load_named_pools_and_references(conn, scope, state)?;
        }
    }
}

/// Loads pools that are newly named, and what the objects in the state refer to. The pools come
/// first, because they refer to further objects.
fn load_named_pools_and_references(
    conn: &Connection,
    scope: &Scope,
    state: &mut State,
) -> Result<(), Refusal> {
    load_newly_named_pools(conn, state)?;
    load_references(conn, scope, state)
}

/// Loads the whole state, without the documents of clusters and claims. Of jobs only those that are
/// live count in a plan.
fn load_everything(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    state.is_whole = true;
    for pool in select_documents(conn, None)? {
        state.pools.load(pool);
    }
    load_clusters(conn, state, "ORDER BY id", [])?;
    load_claims(conn, state, "ORDER BY id", [])?;
    load_customizations(conn, state, None)?;
    load_hosts_and_addresses(conn, state)?;
    load_jobs(conn, state, "ended IS NULL", [])
}

/// Loads what belongs to no pool that exists, and the clusters whose jobs work on hosts. A
/// customization that a cluster of a pool has belongs to that pool.
fn load_objects_without_pool(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let clusters_without_pool = "WHERE pool IS NULL OR NOT EXISTS (SELECT 1 FROM document p \
                                 WHERE p.kind = 'ClusterPool' \
                                 AND p.namespace = pool_namespace AND p.name = cluster.pool) \
                                 ORDER BY id";
    load_clusters(conn, state, clusters_without_pool, [])?;
    let claims_without_pool = "WHERE NOT EXISTS (SELECT 1 FROM document p \
                               WHERE p.kind = 'ClusterPool' \
                               AND p.namespace = claim.namespace AND p.name = claim.pool) \
                               ORDER BY id";
    load_claims(conn, state, claims_without_pool, [])?;
    let claim_ids = state.claims.iter().map(|(claim_id, _)| claim_id).collect();
    load_clusters_of_claims(conn, state, claim_ids)?;
    load_customizations_without_cluster(conn, state)?;
    load_hosts_and_addresses(conn, state)?;
    let live_without_pool = "ended IS NULL AND (pool IS NULL OR NOT EXISTS (\
                             SELECT 1 FROM document p WHERE p.kind = 'ClusterPool' \
                             AND p.namespace = pool_namespace AND p.name = job.pool))";
    load_jobs(conn, state, live_without_pool, [])?;
    load_clusters_with_jobs_on_hosts(conn, state)
}

fn load_hosts_and_addresses(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    state.has_all_hosts = true;
    load_all_hosts(conn, state)?;
    load_all_infra_envs(conn, state)?;
    load_all_agents(conn, state)?;
    load_all_ip_pools(conn, state)
}

/// Loads a pool with its clusters, claims, live jobs and hosts, and the customizations that its
/// clusters hold.
fn load_pool(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    load_document(conn, &mut state.pools, key)?;
    if state.pools.by_key(key).is_some_and(ClusterPool::picks_hosts) {
        load_free_agents_of_namespace(conn, state, &key.namespace)?;
    }
    let values = params![key.namespace, key.name];
    let condition = "WHERE pool_namespace = ?1 AND pool = ?2 ORDER BY id";
    load_clusters(conn, state, condition, values)?;
    load_claims(conn, state, "WHERE namespace = ?1 AND pool = ?2 ORDER BY id", values)?;
    let claim_ids = state.members(key).claims;
    load_clusters_of_claims(conn, state, claim_ids)?;
    let mut customizations = BTreeSet::new();
    for cluster_id in state.members(key).clusters {
        let cluster = state.clusters.get(cluster_id);
        customizations.extend(cluster.and_then(|cluster| cluster.customization.clone()));
    }
    for name in customizations {
        load_customization(conn, state, &Key::new(&*key.namespace, name))?;
    }
    load_jobs(conn, state, "ended IS NULL AND pool_namespace = ?1 AND pool = ?2", values)?;
    load_hosts_of_pool(conn, state, key)
}

/// Loads clusters that claims name although they are not of the pool of these claims.
fn load_clusters_of_claims(
    conn: &Connection,
    state: &mut State,
    claim_ids: Vec<ClaimId>,
) -> Result<(), Refusal> {
    for claim_id in claim_ids {
        let claim = state.claims.get(claim_id);
        if let Some(cluster) = claim.and_then(|claim| claim.cluster.clone()) {
            load_cluster(conn, state, &cluster)?;
        }
    }
    Ok(())
}

/// Loads pools to which an edit has sent a claim or a cluster. If they were not in the state, it
/// would look as if they did not exist.
fn load_newly_named_pools(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let mut keys: Vec<Key> = state.claims.rows().map(Claim::pool_key).collect();
    for change in state.clusters.difference() {
        let pool = change.after.and_then(|cluster| cluster.pool.as_deref());
        keys.extend(pool.cloned());
    }
    load_pools(conn, state, keys)
}

/// Loads the pools of all clusters and claims in the state.
fn load_pools_of_members(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let keys = state.pools_with_members().cloned().collect();
    load_pools(conn, state, keys)
}

/// Loads those of the pools that exist and are not in the state yet.
fn load_pools(conn: &Connection, state: &mut State, keys: Vec<Key>) -> Result<(), Refusal> {
    for key in keys {
        if !state.pools.has_or_had(&key) && select_document::<ClusterPool>(conn, &key)?.is_some() {
            load_pool(conn, state, &key)?;
        }
    }
    Ok(())
}
