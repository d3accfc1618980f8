//! Wrong rules on purpose, one of each kind. Each is played as what it would do to the state: around
//! a pass, the state is changed as if the plan had that rule. The simulator must notice.

use poolctl::model::claim::{ClusterRunning, Pending};
use poolctl::model::cluster::Power;
use poolctl::model::meta::Key;
use poolctl::model::refusal::Refusal;
use poolctl::model::state::{ClaimId, ClusterId, CustomizationId, PoolId, State};

use super::law::{Law, Observed};
use super::world::SimWorld;

words! {
    /// A deliberately wrong rule.
    Canary {
        /// A waiting claim gets the cluster of another claim.
        SecondClaim = "second-claim",
        /// A customization is given back while its cluster is there.
        FreedCustomization = "freed-customization",
        /// The pass does not know maxSize.
        NoMaxSize = "no-max-size",
        /// The pass does not know maxConcurrent.
        NoMaxConcurrent = "no-max-concurrent",
        /// The pass does not know how many clusters a pool is to have.
        NoSize = "no-size",
        /// A cluster goes to the claim that came later.
        WrongOrder = "wrong-order",
        /// The counts of a pool are one too many.
        Miscount = "miscount",
        /// The pass undoes what it decided.
        Restless = "restless",
        /// One claim is never served.
        StarvedClaim = "starved-claim",
        /// `why` says that the pool is paused, whatever the cause is.
        FalseCause = "false-cause",
    }
}

/// The claim that a wrong rule never serves.
const STARVED: &str = "c1";

/// A pool with its size, maxSize and maxConcurrent.
type PoolLimits = (Key, u32, Option<u32>, Option<u32>);

impl Canary {
    /// The law that the wrong rule breaks.
    pub fn law(self) -> Law {
        match self {
            Self::SecondClaim | Self::FreedCustomization => Law::HeldOnce,
            Self::NoMaxSize | Self::NoMaxConcurrent => Law::Limits,
            Self::WrongOrder => Law::Fifo,
            Self::Miscount => Law::Counts,
            Self::Restless => Law::Quiet,
            Self::StarvedClaim => Law::Served,
            Self::NoSize => Law::Healed,
            Self::FalseCause => Law::NamedCause,
        }
    }

    /// Hides from the next pass what its wrong rule does not know. Returns what was there.
    pub fn before_pass(self, world: &SimWorld) -> Result<Vec<PoolLimits>, Refusal> {
        let mut limits: Vec<PoolLimits> = Vec::new();
        if !matches!(self, Self::NoMaxSize | Self::NoMaxConcurrent | Self::NoSize) {
            return Ok(limits);
        }
        world.corrupt(|state| {
            for pool_id in pool_ids(state) {
                let Some(pool) = state.pools.get(pool_id) else { continue };
                let spec = &pool.spec;
                limits.push((pool.key(), spec.size, spec.max_size, spec.max_concurrent));
                state.pools.update(pool_id, |pool| match self {
                    Self::NoSize => pool.spec.size = 0,
                    Self::NoMaxSize => pool.spec.max_size = None,
                    _ => pool.spec.max_concurrent = None,
                });
            }
        })?;
        Ok(limits)
    }

    /// Does after a pass what its wrong rule would have done in it. `before` is the state before
    /// the pass, `limits` is what was hidden from it.
    pub fn after_pass(
        self,
        world: &SimWorld,
        before: &Observed,
        limits: Vec<PoolLimits>,
    ) -> Result<(), Refusal> {
        world.corrupt(|state| match self {
            Self::SecondClaim => give_cluster_twice(state),
            Self::FreedCustomization => free_customization(state),
            Self::NoSize | Self::NoMaxSize | Self::NoMaxConcurrent => {
                restore_limits(state, limits);
            }
            Self::WrongOrder => serve_later_claim(state, before),
            Self::Miscount => miscount(state),
            Self::Restless => turn_power_around(state),
            Self::StarvedClaim => starve_claim(state),
            Self::FalseCause => {}
        })
    }
}

fn pool_ids(state: &State) -> Vec<PoolId> {
    state.pools.iter().map(|(pool_id, _)| pool_id).collect()
}

fn restore_limits(state: &mut State, limits: Vec<PoolLimits>) {
    for (key, size, max_size, max_concurrent) in limits {
        let Some(pool_id) = state.pools.find(&key) else { continue };
        state.pools.update(pool_id, |pool| {
            pool.spec.size = size;
            pool.spec.max_size = max_size;
            pool.spec.max_concurrent = max_concurrent;
        });
    }
}

fn give_cluster_twice(state: &mut State) {
    let mut held_cluster: Option<String> = None;
    let mut waiting_claim: Option<ClaimId> = None;
    for (claim_id, claim) in state.claims.iter() {
        if claim.is_waiting() {
            waiting_claim = Some(claim_id);
        } else if claim.deleting.is_none() {
            held_cluster.clone_from(&claim.cluster);
        }
    }
    let Some((claim_id, cluster)) = waiting_claim.zip(held_cluster) else { return };
    state.claims.update(claim_id, |claim| {
        claim.cluster = Some(cluster);
        claim.pending = Pending::Claimed;
    });
}

fn free_customization(state: &mut State) {
    let mut leased: Option<CustomizationId> = None;
    for (customization_id, customization) in state.customizations.iter() {
        if customization.holder.as_ref().is_some_and(|holder| !holder.preserved) {
            leased = Some(customization_id);
        }
    }
    let Some(customization_id) = leased else { return };
    state.customizations.update(customization_id, |customization| customization.holder = None);
}

/// Takes the cluster of a claim that was served in this pass and gives it to one that came later.
fn serve_later_claim(state: &mut State, before: &Observed) {
    let mut pairs: Vec<(ClaimId, ClaimId)> = Vec::new();
    for (served_id, served) in state.claims.iter() {
        let key = served.key();
        let pool_key = served.pool_key();
        if served.cluster.is_none() || !before.waited(&key, &pool_key) {
            continue;
        }
        for (waiting_id, waiting) in state.claims.iter() {
            let is_later = waiting.is_waiting() && waiting.created > served.created;
            if is_later
                && waiting.pool_key() == pool_key
                && before.waited(&waiting.key(), &pool_key)
            {
                pairs.push((served_id, waiting_id));
            }
        }
    }
    let Some((served_id, waiting_id)) = pairs.pop() else { return };
    let Some(cluster) = take_cluster_away(state, served_id) else { return };
    let Some(name) = state.claims.get(waiting_id).map(|claim| claim.name.clone()) else { return };
    let Some(cluster_id) = state.find_cluster(&cluster) else { return };
    state.claims.update(waiting_id, |claim| {
        claim.cluster = Some(cluster);
        claim.pending = Pending::Claimed;
    });
    state.clusters.update(cluster_id, |cluster| cluster.claim = Some(name));
}

/// Lets a claim wait again. Returns the cluster that it had.
fn take_cluster_away(state: &mut State, claim_id: ClaimId) -> Option<String> {
    let cluster = state.claims.get(claim_id)?.cluster.clone()?;
    state.claims.update(claim_id, |claim| {
        claim.cluster = None;
        claim.pending = Pending::NoClusters;
        claim.running = ClusterRunning::Initialized;
    });
    let cluster_id = state.find_cluster(&cluster)?;
    state.clusters.update(cluster_id, |cluster| {
        cluster.claim = None;
        cluster.claimed_at = None;
    });
    Some(cluster)
}

fn miscount(state: &mut State) {
    for pool_id in pool_ids(state) {
        state.pools.update(pool_id, |pool| pool.status.claimed += 1);
    }
}

fn turn_power_around(state: &mut State) {
    let mut turned: Vec<ClusterId> = Vec::new();
    for (cluster_id, cluster) in state.clusters.iter() {
        if cluster.claim.is_none() && cluster.is_installed() && cluster.deleting.is_none() {
            turned.push(cluster_id);
        }
    }
    for cluster_id in turned {
        state.clusters.update(cluster_id, |cluster| {
            cluster.power_wanted = if cluster.power_wanted == Power::Running {
                Power::Hibernating
            } else {
                Power::Running
            };
        });
    }
}

fn starve_claim(state: &mut State) {
    let starved = state.claims.iter().find(|(_, claim)| claim.name == STARVED);
    let Some((claim_id, claim)) = starved else { return };
    if claim.deleting.is_none() {
        take_cluster_away(state, claim_id);
    }
}
