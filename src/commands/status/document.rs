//! What `status` shows, as a document for programs. It reads nothing.

use serde_json::{Value, json};

use crate::causes::Chain;
use crate::model::claim::Claim;
use crate::model::ip_pool::IpPool;

use crate::commands::status::overview::{Overview, PoolOverview, QueuedClaim, Upkeep};

/// All of an overview.
pub fn overview_document(overview: &Overview) -> Value {
    let mut document = json!({
        "time": overview.now,
        "pools": overview.pools.iter().map(pool_document).collect::<Vec<_>>(),
        "queue": overview.queue.iter().map(queue_document).collect::<Vec<_>>(),
        "claims": overview.claims.iter().map(claim_document).collect::<Vec<_>>(),
        "ipPools": overview.ip_pools.iter().map(ip_pool_document).collect::<Vec<_>>(),
        "problems": problem_documents(&overview.problems),
        "hosts": overview.host_count,
        "agents": overview.agent_count,
    });
    if let Some(upkeep) = &overview.upkeep {
        document["jobs"] = upkeep.job_count.into();
        document["upkeep"] = upkeep_document(upkeep);
    }
    document
}

fn problem_documents(problems: &[Chain]) -> Vec<Value> {
    problems.iter().map(|chain| json!({"causes": chain.causes, "next": chain.next})).collect()
}

fn pool_document(shown: &PoolOverview) -> Value {
    let pool = &shown.pool;
    json!({
        "namespace": pool.metadata.namespace,
        "name": pool.metadata.name,
        "size": pool.spec.size,
        "status": pool.status,
        "problems": problem_documents(&shown.troubles),
    })
}

fn queue_document(queued: &QueuedClaim) -> Value {
    let QueuedClaim { claim, position } = queued;
    json!({
        "namespace": claim.namespace,
        "name": claim.name,
        "pool": claim.pool,
        "owner": claim.owner,
        "since": claim.created,
        "place": position.number,
        "expected": position.to_string(),
    })
}

fn claim_document(claim: &Claim) -> Value {
    json!({
        "namespace": claim.namespace,
        "name": claim.name,
        "pool": claim.pool,
        "owner": claim.owner,
        "cluster": claim.cluster,
        "expires": claim.expires_at(),
    })
}

fn ip_pool_document(ip_pool: &IpPool) -> Value {
    json!({
        "namespace": ip_pool.metadata.namespace,
        "name": ip_pool.metadata.name,
        "addresses": ip_pool.status.ip_addresses,
    })
}

fn upkeep_document(upkeep: &Upkeep) -> Value {
    json!({
        "lastPass": upkeep.last_pass,
        "lastBackup": upkeep.last_backup,
        "freeDiskBytes": upkeep.free_disk,
        "stateBytes": upkeep.state_size,
    })
}
