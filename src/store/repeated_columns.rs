//! Columns of clusters and claims that repeat what their documents say, because passes read no
//! documents. SQLite finds a wrong value only where an index has it, too. What contradicts a document
//! is found here; nothing is repaired.

use rusqlite::Connection;

use crate::model::claim::{Claim, ClusterClaim};
use crate::model::cluster::Cluster;
use crate::model::deployment::ClusterDeployment;
use crate::model::facts::Facts;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;

use super::facts::{read_body, visit_facts};

/// Finds the clusters and claims whose columns contradict their documents. Returns a sentence about
/// each, with the command by which its document counts.
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
    Ok(problems)
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
