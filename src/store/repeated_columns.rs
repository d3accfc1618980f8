//! Columns of clusters, claims and Agents that repeat what their documents say, because passes read no
//! documents, and rows that repeat the inventories of pools. SQLite finds a wrong value only where an
//! index has it, too. What contradicts a document is found here. The columns of clusters and claims are
//! not repaired: they have facts that no document has.

use rusqlite::Connection;

use crate::model::agent::facts::AgentFacts;
use crate::model::claim::{Claim, ClusterClaim};
use crate::model::cluster::Cluster;
use crate::model::deployment::ClusterDeployment;
use crate::model::facts::Facts;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;

use super::agent_parts::{UnreadablePart, drop_unreadable_parts, find_unreadable_parts};
use super::agents::{
    insert_lost_rows_of_agents, overwrite_identities, select_lost_identities,
    visit_decodable_agents,
};
use super::connection::Store;
use super::facts::{overwrite_facts, read_body, select_differing_columns, visit_facts};
use super::pools::{find_lost_inventory_entries, rebuild_inventory_entries};

/// Finds clusters, claims and Agents whose columns contradict their documents, and pools whose
/// inventories lack rows. Returns a sentence about each, with the command that repairs it.
pub fn find_contradicting_columns(conn: &Connection) -> Result<Vec<String>, Refusal> {
    let mut problems = Vec::new();
    visit_facts(conn, "ORDER BY id", [], &mut |cluster: Cluster| {
        if let Some(body) = read_body::<ClusterDeployment>(conn, "cluster_body", cluster.id)? {
            let columns = differing_columns(&cluster, &follow_cluster_document(&cluster, &body));
            problems.extend(describe_contradiction("cluster", &cluster.key(), &columns));
        }
        Ok(())
    })?;
    visit_facts(conn, "ORDER BY id", [], &mut |claim: Claim| {
        if let Some(body) = read_body::<ClusterClaim>(conn, "claim_body", claim.id)? {
            let columns = differing_columns(&claim, &follow_claim_document(&claim, &body));
            problems.extend(describe_contradiction("claim", &claim.key(), &columns));
        }
        Ok(())
    })?;
    for UnreadablePart { agent, column, why, .. } in find_unreadable_parts(conn)? {
        problems.push(format!(
            "{column} of agent `{agent}` cannot be read ({why}); to go on without: poolctl doctor --fix"
        ));
    }
    for contradicting in find_contradicting_agents(conn)? {
        let ContradictingAgent { followed, columns, lost_identities, .. } = contradicting;
        let name = followed.name;
        if !columns.is_empty() {
            problems.push(format!(
                "agent `{name}` is kept with other values than its document has ({}); for the \
                 document to count: poolctl doctor --fix",
                columns.join(", ")
            ));
        }
        if !lost_identities.is_empty() {
            problems.push(format!(
                "agent `{name}` would not be found by {}: poolctl doctor --fix",
                lost_identities.join(", ")
            ));
        }
    }
    problems.extend(find_lost_inventory_entries(conn)?);
    Ok(problems)
}

/// An Agent whose rows say something else than its document.
struct ContradictingAgent {
    /// The columns as the document has them.
    followed: AgentFacts,
    /// The identities as the document has them.
    identities: Vec<String>,
    /// The columns that differ.
    columns: Vec<&'static str>,
    /// The identities that have no row.
    lost_identities: Vec<String>,
}

/// Finds the Agents whose rows contradict their documents.
fn find_contradicting_agents(conn: &Connection) -> Result<Vec<ContradictingAgent>, Refusal> {
    let mut contradicting = Vec::new();
    visit_decodable_agents(conn, &mut |agent| {
        let followed = AgentFacts::of(&agent);
        let columns = select_differing_columns(conn, followed.id, &followed)?;
        let lost_identities = select_lost_identities(conn, &agent)?;
        if !columns.is_empty() || !lost_identities.is_empty() {
            let identities = agent.identities().collect();
            contradicting.push(ContradictingAgent {
                followed,
                identities,
                columns,
                lost_identities,
            });
        }
        Ok(())
    })?;
    Ok(contradicting)
}

impl Store {
    /// Writes the columns of Agents that contradict their documents as these have them, and the rows
    /// of Agents and inventories that are lost. Parts of documents of Agents that cannot be read are
    /// dropped: no pass goes on before.
    pub fn fix_repeated_columns(&self) -> Result<(), Refusal> {
        self.write_under_lock(|| {
            overwrite_contradicting_columns(self.conn())?;
            rebuild_inventory_entries(self.conn())?;
            self.mark_everything_due()
        })
    }
}

fn overwrite_contradicting_columns(conn: &Connection) -> Result<(), Refusal> {
    drop_unreadable_parts(conn)?;
    insert_lost_rows_of_agents(conn)?;
    let contradicting = find_contradicting_agents(conn)?;
    // No two rows may have the same name or machine, also while some of them are still wrong.
    let sql = "UPDATE agent SET name = '?' || id, machine = NULL, bound = NULL WHERE id = ?1";
    for ContradictingAgent { followed, .. } in &contradicting {
        conn.prepare_cached(sql)?.execute([followed.id])?;
    }
    for ContradictingAgent { followed, identities, .. } in &contradicting {
        overwrite_facts(conn, followed)?;
        overwrite_identities(conn, followed.id, identities, followed.bound.is_some())?;
    }
    Ok(())
}

/// A cluster with the facts that its document repeats.
fn follow_cluster_document(cluster: &Cluster, body: &ClusterDeployment) -> Cluster {
    let metadata = &body.metadata;
    let mut followed = Cluster {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        held: !metadata.finalizers.is_empty(),
        ..cluster.clone()
    };
    followed.take_steering(metadata, body.spec.platform.name());
    followed
}

/// A claim with the facts that its document repeats.
fn follow_claim_document(claim: &Claim, body: &ClusterClaim) -> Claim {
    let metadata = &body.metadata;
    Claim {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        held: !metadata.finalizers.is_empty(),
        ..claim.clone()
    }
}

/// The names of the columns in which two rows differ.
fn differing_columns<T: Facts>(row: &T, other: &T) -> Vec<&'static str> {
    let columns = T::COLUMNS.concat();
    let values = row.write().into_iter().zip(other.write());
    let mut differing = Vec::new();
    for (column, (value, other_value)) in columns.into_iter().zip(values) {
        if value != other_value {
            differing.push(column);
        }
    }
    differing
}

fn describe_contradiction(kind: &str, key: &Key, columns: &[&str]) -> Option<String> {
    if columns.is_empty() {
        return None;
    }
    let Key { namespace, name } = key;
    let columns = columns.join(", ");
    Some(format!(
        "{kind} `{name}` is kept with other values than its document has ({columns}); for the \
         document to count: poolctl get {kind} {name} -n {namespace} -o yaml | poolctl apply -f -"
    ))
}
