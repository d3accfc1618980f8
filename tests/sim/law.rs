//! The laws that every history keeps, as functions of states: what was before, and what is now.
//! Each returns what is wrong in a sentence. Nothing here looks at how the library decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use poolctl::model::cluster::Cluster;
use poolctl::model::customization::Customization;
use poolctl::model::job::Verb;
use poolctl::model::lease::{Holder, Lease, LeasedResource};
use poolctl::model::meta::Key;
use poolctl::model::pool::ClusterPool;
use poolctl::model::state::State;

words! {
    /// What must always hold, or at rest.
    Law {
        /// Nothing is held twice, and both ends of a link agree.
        HeldOnce = "held-once",
        /// maxSize and maxConcurrent are never overstepped by a pool's own doing.
        Limits = "limits",
        /// First come, first served.
        Fifo = "fifo",
        /// The counts of a pool are those of its clusters and claims.
        Counts = "counts",
        /// A second pass changes nothing.
        Quiet = "quiet",
        /// No pass is refused, and no edit comes to a state that must never be.
        Accepted = "accepted",
        /// What is exported is what an import makes of it, also by way of a Hive.
        RoundTrip = "round-trip",
        /// At rest no claim waits beside a cluster that could serve it, and each is served once
        /// people have mended what they were told to.
        Served = "served",
        /// At rest a pool that nothing holds up has the clusters that it should have.
        Healed = "healed",
        /// At rest whatever waits says a cause that a person can mend, and the cause is true.
        NamedCause = "named-cause",
    }
}

/// A law that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub law: Law,
    pub message: String,
}

impl Violation {
    pub fn new(law: Law, message: impl Into<String>) -> Self {
        Self { law, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.law.word(), self.message)
    }
}

/// What is remembered of a state, to be compared with the next one.
#[derive(Default)]
pub struct Observed {
    clusters: BTreeSet<String>,
    /// Claims that wait, with the pools that they wait for.
    waiting: BTreeSet<(Key, Key)>,
    /// Clusters that are being made or destroyed.
    in_flight: BTreeSet<String>,
}

impl Observed {
    pub fn of(state: &State) -> Self {
        let mut observed = Self::default();
        for cluster in state.clusters.rows() {
            observed.clusters.insert(cluster.name.clone());
            if is_in_flight(state, cluster) {
                observed.in_flight.insert(cluster.name.clone());
            }
        }
        for claim in state.claims.rows().filter(|claim| claim.is_waiting()) {
            observed.waiting.insert((claim.key(), claim.pool_key()));
        }
        observed
    }

    /// Whether a claim waited for a pool.
    pub fn waited(&self, claim: &Key, pool: &Key) -> bool {
        self.waiting.contains(&(claim.clone(), pool.clone()))
    }
}

fn is_in_flight(state: &State, cluster: &Cluster) -> bool {
    let live_job = state.live_job(&cluster.name);
    cluster.deleting.is_some()
        || live_job.is_some_and(|(_, job)| matches!(job.verb, Verb::Provision | Verb::Deprovision))
}

/// The clusters of a pool.
pub fn clusters_of<'a>(state: &'a State, pool: &Key) -> Vec<&'a Cluster> {
    let clusters = state.clusters.rows();
    clusters.filter(|cluster| cluster.pool.as_deref() == Some(pool)).collect()
}

/// `taken_away`: the clusters that a person deleted or evicted, also from under their claims.
pub fn check_held_once(state: &State, taken_away: &BTreeSet<String>) -> Result<(), String> {
    let mut leases: Vec<Lease> = Vec::new();
    for cluster in state.clusters.rows() {
        leases.push(cluster.dns_name_lease());
        leases.extend(cluster.lease());
    }
    leases.extend(state.customizations.rows().filter_map(Customization::lease));
    let mut holders: HashMap<LeasedResource, Holder> = HashMap::new();
    for Lease { resource, holder, .. } in leases {
        if let Some(first_holder) = holders.insert(resource.clone(), holder.clone()) {
            return Err(format!("{first_holder} and {holder} both hold {resource:?}"));
        }
    }
    check_claims(state, taken_away)?;
    check_customizations(state)
}

/// A cluster and its claim name each other, and no claim has two clusters. A pool takes no cluster
/// from a claim that was not released.
fn check_claims(state: &State, taken_away: &BTreeSet<String>) -> Result<(), String> {
    let mut claim_keys: BTreeSet<Key> = BTreeSet::new();
    for cluster in state.clusters.rows() {
        let name = &cluster.name;
        let Some(claim_key) = cluster.claim_key() else { continue };
        if !claim_keys.insert(claim_key.clone()) {
            return Err(format!("claim {claim_key} has cluster {name} and another one"));
        }
        let claim = state.claims.by_key(&claim_key);
        let Some(claim) = claim.filter(|claim| claim.cluster.as_ref() == Some(name)) else {
            return Err(format!(
                "cluster {name} says that claim {claim_key} has it, which does not"
            ));
        };
        let is_going = cluster.deleting.is_some() || cluster.marked;
        if is_going && claim.deleting.is_none() && !taken_away.contains(name) {
            return Err(format!("cluster {name} goes while claim {claim_key} has it"));
        }
    }
    let mut clusters_of_claims: BTreeMap<&String, Key> = BTreeMap::new();
    for claim in state.claims.rows() {
        let Some(cluster) = &claim.cluster else { continue };
        if let Some(first_claim) = clusters_of_claims.insert(cluster, claim.key()) {
            return Err(format!("claims {first_claim} and {} both have {cluster}", claim.key()));
        }
    }
    Ok(())
}

/// A cluster that names a customization has its lease, and nobody else has.
fn check_customizations(state: &State) -> Result<(), String> {
    let mut users: BTreeMap<Key, &String> = BTreeMap::new();
    for cluster in state.clusters.rows() {
        let Some((pool, name)) = cluster.pool.as_ref().zip(cluster.customization.as_ref()) else {
            continue;
        };
        let key = Key::new(&*pool.namespace, &**name);
        let Some(customization) = state.customizations.by_key(&key) else { continue };
        let holder = customization.holder.as_ref().map(|holder| &holder.cluster);
        if holder != Some(&cluster.name) {
            let cluster_name = &cluster.name;
            return Err(format!("cluster {cluster_name} uses {key}, which {holder:?} holds"));
        }
        if let Some(first_user) = users.insert(key.clone(), &cluster.name) {
            return Err(format!("clusters {first_user} and {} both use {key}", cluster.name));
        }
    }
    for customization in state.customizations.rows() {
        let Some(holder) = customization.holder.as_ref().filter(|holder| !holder.preserved) else {
            continue;
        };
        if users.get(&customization.key()) != Some(&&holder.cluster) {
            let name = &customization.metadata.name;
            return Err(format!("{name} is leased to {}, which does not use it", holder.cluster));
        }
    }
    Ok(())
}

/// A pool that has made a cluster has not more than maxSize; a pool that has begun to make or
/// destroy one has not more than maxConcurrent in flight. What people took away is their doing.
pub fn check_limits(
    before: &Observed,
    state: &State,
    taken_away: &BTreeSet<String>,
) -> Result<(), String> {
    for pool in state.pools.rows() {
        let clusters = clusters_of(state, &pool.key());
        let name = &pool.metadata.name;
        let has_made = clusters.iter().any(|cluster| !before.clusters.contains(&cluster.name));
        let max_size = pool.max_size().unwrap_or(usize::MAX);
        if has_made && clusters.len() > max_size {
            let count = clusters.len();
            return Err(format!("pool {name} has made {count} clusters, maxSize is {max_size}"));
        }
        let mut in_flight: Vec<&str> = Vec::new();
        let mut has_begun = false;
        for cluster in clusters.into_iter().filter(|cluster| is_in_flight(state, cluster)) {
            in_flight.push(&cluster.name);
            has_begun |=
                !before.in_flight.contains(&cluster.name) && !taken_away.contains(&cluster.name);
        }
        let max_concurrent = pool.max_concurrent().unwrap_or(usize::MAX);
        if has_begun && in_flight.len() > max_concurrent {
            return Err(format!(
                "pool {name} has {in_flight:?} in flight, maxConcurrent is {max_concurrent}"
            ));
        }
    }
    Ok(())
}

/// No claim that has waited before is passed over by one that came later.
pub fn check_fifo(before: &Observed, state: &State) -> Result<(), String> {
    for (claim_key, pool_key) in &before.waiting {
        let Some(served) = state.claims.by_key(claim_key) else { continue };
        if served.cluster.is_none() || served.pool_key() != *pool_key {
            continue;
        }
        for waiting in state.claims.rows().filter(|claim| claim.is_waiting()) {
            if waiting.pool_key() == *pool_key
                && waiting.created < served.created
                && before.waited(&waiting.key(), pool_key)
            {
                return Err(format!("{claim_key} was served before {}", waiting.key()));
            }
        }
    }
    Ok(())
}

/// The counts in the status of each pool, told from its clusters and claims alone.
pub fn check_counts(state: &State) -> Result<(), String> {
    for pool in state.pools.rows() {
        for (field, written, counted) in count_fields(state, pool) {
            if usize::try_from(written) != Ok(counted) {
                let name = &pool.metadata.name;
                return Err(format!("pool {name}: status.{field} is {written}, not {counted}"));
            }
        }
    }
    Ok(())
}

/// The fields of a pool's status, with the number that is written there, and the number that there
/// really is.
fn count_fields(state: &State, pool: &ClusterPool) -> Vec<(&'static str, u32, usize)> {
    let key = pool.key();
    let status = &pool.status;
    let clusters = clusters_of(state, &key);
    let listed = pool.spec.inventory.as_ref();
    let mut claimed = 0;
    let mut deleting = 0;
    let mut installing = 0;
    let mut running = 0;
    let mut kept = 0;
    for cluster in clusters {
        let is_unlisted = cluster.customization.as_ref().is_some_and(|name| {
            listed.is_some_and(|entries| entries.iter().all(|entry| entry.name != *name))
        });
        let is_deleting = cluster.deleting.is_some();
        let is_claimed = cluster.claim.is_some();
        let is_kept = !is_deleting && !is_claimed && !cluster.marked && !is_unlisted;
        claimed += usize::from(is_claimed);
        deleting += usize::from(is_deleting);
        kept += usize::from(is_kept);
        installing += usize::from(is_kept && !cluster.is_installed() && !cluster.stopped);
        running +=
            usize::from(cluster.is_installed() && !is_deleting && cluster.power.is_running());
    }
    let claims = state.claims.rows();
    let pending = claims.filter(|claim| claim.is_waiting() && claim.pool_key() == key).count();
    vec![
        ("size", status.size, kept),
        ("installing and retrying", status.installing + status.retrying, installing),
        ("claimed", status.claimed, claimed),
        ("deleting", status.deleting, deleting),
        ("running", status.running, running),
        ("pending", status.pending, pending),
        // Which of the installed ones are broken is a matter of time; none is forgotten.
        (
            "standby, ready, held and broken",
            status.standby + status.ready + status.held + status.broken,
            kept - installing,
        ),
    ]
}
