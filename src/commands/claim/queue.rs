//! The queue of a pool: reads what tells the place of each waiting claim, and how long it will
//! probably wait. It estimates nothing itself.

use std::collections::{HashMap, HashSet};

use crate::causes::{QueuePosition, UsualDurations, estimate_queue};
use crate::model::claim::{Claim, ClusterRunning};
use crate::model::cluster::Power;
use crate::model::job::Verb;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::model::time::Time;
use crate::store::Store;

/// Jobs of a pool from which it is estimated how long the next ones take.
const RECENT_JOBS: u32 = 20;

/// The claims among these objects whose clusters hibernate as they were told to. Clusters are only
/// read if one of the claims has a cluster that does not run.
pub fn hibernating_claims(store: &Store, objects: &[Object]) -> Result<HashSet<Key>, Refusal> {
    let mut hibernating = HashSet::new();
    let mut resuming = HashSet::new();
    for object in objects {
        if let Object::ClusterClaim(claim) = object
            && claim.running == ClusterRunning::Resuming
        {
            resuming.insert(claim.key());
        }
    }
    if resuming.is_empty() {
        return Ok(hibernating);
    }
    store.visit_clusters(&mut |cluster| {
        let is_told_to = cluster.wanted_power() == Power::Hibernating;
        if let Some(claim) = cluster.claim_key()
            && is_told_to
            && cluster.power == Power::Hibernating
            && resuming.contains(&claim)
        {
            hibernating.insert(claim);
        }
        Ok(())
    })?;
    Ok(hibernating)
}

/// The place of every waiting claim in the queue of its pool, for one pool or for all.
pub fn queue_positions(
    store: &Store,
    pool: Option<&Key>,
    now: Time,
) -> Result<HashMap<Key, QueuePosition>, Refusal> {
    store.read_snapshot(|| {
        let mut queues: HashMap<Key, Vec<Claim>> = HashMap::new();
        let claims: Vec<Claim> = match pool {
            Some(pool) => store.claims_of_pool(pool)?,
            None => store.list_all()?,
        };
        for claim in claims.into_iter().filter(Claim::is_waiting) {
            queues.entry(claim.pool_key()).or_default().push(claim);
        }
        let mut positions = HashMap::new();
        for (pool_key, mut waiting) in queues {
            waiting.sort_by_key(|claim| claim.created);
            let queue = read_queue(store, &pool_key, waiting.len(), now)?;
            positions.extend(waiting.iter().map(Claim::key).zip(queue));
        }
        Ok(positions)
    })
}

/// The positions in the queue of one pool, which need not exist.
fn read_queue(
    store: &Store,
    pool_key: &Key,
    waiting: usize,
    now: Time,
) -> Result<Vec<QueuePosition>, Refusal> {
    let state = store.load(&Scope::pool(pool_key.clone()), &[])?;
    let Some(pool) = state.pools.by_key(pool_key) else {
        return Ok((1..=waiting).map(|number| QueuePosition::at(number, now)).collect());
    };
    let mut past_jobs = store.last_jobs_of_pool(pool_key, Verb::Provision, RECENT_JOBS)?;
    past_jobs.extend(store.last_jobs_of_pool(pool_key, Verb::Start, RECENT_JOBS)?);
    let usual = UsualDurations::of_jobs(&past_jobs);
    Ok(estimate_queue(&state, pool, usual, waiting, now))
}
